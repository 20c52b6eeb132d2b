"""HTK's lattices in real, invalid and damaged files."""

from __future__ import annotations

import random
import re
from functools import lru_cache

import numpy as np
import pytest
import reference_slf as slow
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies_text import FILES, SMALL, SUBLATTICES, check_against_reference, needs_files, read_unpacked, sentences

from ninja.errors import FormatError, LatticeError, NinjaError
from ninja.formats.slf import SlfOptions, read_slf
from ninja.graph import nbest
from ninja.lattice import Scales, check

BAD = {
    "N=0\nL=0\n": "the lattice is empty",
    "N=1\n": "the file ends before N= and L=",
    "N=2 N=2 L=1": "'N' occurs twice in the header",
    "N=2 L=1\nI=0\nI=1": "L=1, but there are 0 links",
    "N=3 L=1\nI=0\nI=1\nJ=0 S=0 E=1": "N=3, but there are 2 nodes",
    "N=4 L=1\nJ=0 S=0 E=1": "N=4, but there are no nodes, and links name fewer",
    "N=999999999 L=1\nI=0": "N=999999999, but the file has",
    "N=2 L=999999999\nI=0": "L=999999999, but the file has",
    "N=2 L=-1": "L=-1 is out of range",
    "N=2 L=1\nI=0\nI=0": "node 0 is described twice",
    "N=2 L=1\nI=2": "I=2 is out of range: 0 to 1",
    "N=2 L=1\nJ=0 S=0 E=2": "E=2 is out of range: 0 to 1",
    "N=2 L=1\nJ=1 S=0 E=1": "J=1 is out of range: 0 to 0",
    "N=2 L=2       \nJ=0 S=0 E=1\nJ=0 S=0 E=1": "link 0 is described twice",
    "N=2 L=1\nJ=0 S=0": "link 0 has no E=",
    "N=2 L=1\nJ=0 S=0 E=1 a=nan": "field 'a' is not a finite number: 'nan'",
    "N=2 L=1\nJ=0 S=0 E=1 a=inf": "field 'a' is not a finite number: 'inf'",
    "N=2 L=1\nJ=0 S=0 E=1 l=1e999": "field 'l' is not a finite number",
    "N=2 L=1\nJ=0 S=0 E=1 a=1 a=2": "field 'a' occurs twice on this line",
    "N=2 L=1\nJ=0 S=0 E=1 a=": "field 'a' is not a finite number: ''",
    "N=2 L=1\nJ=0 S=0 E=1 W=": "field 'W' has no value",
    "N=2 L=1\nJ=0 S=0 S=0 E=1": "two start nodes",
    "N=2 L=1\nJ=0 S=0 E=1 E=1": "two end nodes",
    "N=2 L=1\nJ=0 S=0 E=1 W=a W=b": "the line has two words",
    "N=2 L=1\nI=0 W=a W=b": "two words",
    "N=2 L=1\nI=0 t=1 t=2": "two times",
    "N=2 L=1\nI=0 t=-1": "time -1.000000 s is out of range",
    "N=2 L=1\nI=0 L=sub": "sub-lattice 'sub' is not defined before",
    "N=2 L=1\nJ=0 S=0 E=1 W=a\\": "a backslash must be followed by",
    "N=2 L=1\nJ=0 S=0 E=1 junk": "expected NAME=VALUE, found 'junk'",
    "N=2 L=1\nI~abcd": "field 'I' is binary",
    "N=2 L=1\nI=0\nX=1": "expected a node (I=) or a link (J=), found field 'X'",
    "N=2 L=1\nN=2": "'N' occurs twice in the header",
    "SUBLAT=a\nbase=2\nN=1 L=0\nI=0\n.\nbase=-2": "base=-2 is not a base",
    "I=0": "expected N= and L= before 'I'",
    "base=-1\nN=2 L=1": "base=-1 is not a base of logarithms",
    "base=0.5\nN=2 L=1": "base=0.5 is not a base",
    "base=2 base=3\nN=2 L=1": "'base' occurs twice",
    "tscale=0\nN=2 L=1": "tscale=0 is not positive",
    "dir=x\nN=2 L=1": "dir=x, but must be f or b",
    "start=5\nN=2\nL=1\n": "start=5 is not a node",
    "end=5\nN=2\nL=1\n#": "end=5 is not a node",
    "N=2 L=1\nJ=0 S=0 E=1\n.\n.": "a second '.'",
    "N=2 L=1\n.\nJ=0 S=0 E=1": "the lattice continues after its '.'",
    "N=2 L=1\nI=0 .": "a '.' must be alone on its line",
    "SUBLAT=a\nN=1 L=0\nI=0": "the file ends within the sub-lattice 'a'",
    "SUBLAT=a\nN=1 L=0\nI=0\n.\nSUBLAT=a": "a second sub-lattice 'a'",
    "N=4 L=2 # ....\nJ=0 S=0 E=1\nJ=1 S=2 E=3": "nodes 0 and 2 have no links into them; which one is first? Add start=",
    "N=3 L=2 # ....\nJ=0 S=0 E=1\nJ=1 S=0 E=2": "nodes 1 and 2 have no links out of them; which one is last? Add end=",
}


@pytest.mark.parametrize("text", BAD)
def test_errors_in_bad_files_name_the_line_number(text):
    content = f"{text}\n".encode()
    with pytest.raises(FormatError) as caught:
        read_slf(content, "k", "bad.slf")
    assert re.match(r"bad\.slf:\d+, key 'k': ", str(caught.value))
    assert BAD[text] in str(caught.value)
    with pytest.raises((slow.RuleError, UnicodeDecodeError)):
        slow.fingerprint(slow.read_slf(content))


def test_cycles_and_unreachable_ends_are_refused():
    cycle = b"start=0\nend=3\nN=4 L=4\nJ=0 S=0 E=1\nJ=1 S=1 E=2\nJ=2 S=2 E=1\nJ=3 S=2 E=3\n"
    with pytest.raises(LatticeError, match=r"^c:6, key 'k': there is a cycle: nodes 1 -> 2 -> 1"):
        read_slf(cycle, "k", "c")
    loop = b"start=0\nend=2\nN=3 L=3\nJ=0 S=0 E=1\nJ=1 S=1 E=1\nJ=2 S=1 E=2\n"
    with pytest.raises(LatticeError, match=r"^c:5, key 'k': there is a cycle: nodes 1 -> 1"):
        read_slf(loop, "k", "c")
    with pytest.raises(LatticeError, match="every node has links into it, so there is a cycle"):
        read_slf(b"N=2 L=2 #...\nJ=0 S=0 E=1\nJ=1 S=1 E=0\n", "k")
    with pytest.raises(LatticeError, match=r"no path leads from the first node \(0\) to the last \(2\)"):
        read_slf(b"start=0\nend=2\nN=3 L=1\nJ=0 S=0 E=1\n", "k")
    with pytest.raises(LatticeError, match="exceeds the range of float32"):
        read_slf(b"N=2 L=1\nJ=0 S=0 E=1 a=1e39\n", "k")


@pytest.mark.parametrize("content", [SMALL, SUBLATTICES])
def test_a_truncated_file_is_refused_with_its_line(content):
    lines = []
    for cut in range(len(content)):
        with pytest.raises(FormatError) as caught:
            read_slf(content[:cut], "k")
        lines.append(caught.value.line)
    assert None not in lines
    assert lines[-1] > content.count(b"\n") - 2


@needs_files
def test_the_ami_lattice_contains_its_nbest_list_with_all_scores():
    content = read_unpacked("ami_slf/AMI_ES2011a_H00_FEE041_0003427_0003714.lat.gz")
    reference, lattice = check_against_reference(content)
    assert (lattice.num_states, lattice.num_arcs) == (reference.nodes, len(reference.links)) == (27, 36)
    names = (("l",), ("n",), ("i[0]",), ("i[1]",))
    paths = [sentences(read_slf(content, "k", options=SlfOptions(graph=name))) for name in names]
    rows = [
        line.split()
        for line in read_unpacked("ami_slf/AMI_ES2011a_H00_FEE041_0003427_0003714.nbest").decode().splitlines()
    ]
    assert len(rows) == len({words for words, *_ in paths[0]}) == 11  # the list could have 20
    for row in rows:
        words, scores = " ".join(row[7:]), [float(score) for score in row[1:6]]
        path_scores = [
            (-acoustic, *(-by_name[path][1] for by_name in paths))
            for path, (spoken, _, acoustic) in enumerate(paths[0])
            if spoken == words
        ]
        assert any(np.allclose(candidate, scores, atol=0.006) for candidate in path_scores), (
            words,
            scores,
            path_scores,
        )


@needs_files
def test_the_best_path_with_a_large_lm_scale_is_the_first_of_the_ami_list():
    content = read_unpacked("ami_slf/AMI_ES2011a_H00_FEE041_0003427_0003714.lat.gz")
    lattice = read_slf(content, "k", options=SlfOptions(graph=("l", "n", "i[0]", "i[1]")))
    first = nbest(lattice, 3, Scales(lm=4.0))
    spoken = [" ".join(lattice.words.spell(path.words)) for path in first]
    assert spoken[0] == "HERE WE GO"


@needs_files
def test_the_theanolm_lattice_is_the_same_in_slf_and_kaldi_text():
    lattice = read_slf(read_unpacked("theanolm/lattice.slf"), "", options=SlfOptions(fold="silent", key="utterance"))
    kaldi = slow.Graph(end="end")
    for row in (
        line.split() for line in read_unpacked("theanolm/lattice.lat").decode().splitlines()[1:] if line.strip()
    ):
        graph, acoustic = (float(cost) for cost in row[-1].split(",")[:2])
        if len(row) == 2:
            kaldi.links.append((int(row[0]), "end", None, graph, acoustic))
        else:
            kaldi.links.append((int(row[0]), int(row[1]), row[2], graph, acoustic))
    assert lattice.key == "utterance 123"
    assert sorted(zip(lattice.src, lattice.dst, strict=True)) == sorted(
        link[:2] for link in kaldi.links if link[1] != "end"
    )
    # The ids of the Kaldi text and the words of the SLF file correspond one to one.
    word_ids = dict(zip(lattice.words.spell(lattice.word), [w for w in lattice.word if w], strict=True))
    pairs = set(
        zip(
            (w for w in lattice.word.tolist() if w),
            (int(link[2]) for link in kaldi.links if link[2] not in (None, "0")),
            strict=True,
        )
    )
    assert (
        len(pairs) == len({word for word, _ in pairs}) == len({kaldi_word for _, kaldi_word in pairs}) == len(word_ids)
    )
    np.testing.assert_array_equal(lattice.graph, np.float32([link[3] for link in kaldi.links if link[1] != "end"]))
    np.testing.assert_array_equal(lattice.acoustic, np.float32([link[4] for link in kaldi.links if link[1] != "end"]))
    finals = {link[0]: link[3:] for link in kaldi.links if link[1] == "end"}
    for state in np.flatnonzero(lattice.is_final).tolist():
        assert (lattice.final_graph[state], lattice.final_acoustic[state]) == tuple(np.float32(finals.pop(state)))
    assert not finals
    whole = read_slf(read_unpacked("theanolm/lattice.slf"), "key")  # with a separate final state
    assert (whole.num_states, whole.num_arcs) == (24, 39)
    np.testing.assert_allclose(slow.lattice_fingerprint(whole), slow.lattice_fingerprint(lattice), rtol=1e-6)


@lru_cache
def real_files():
    names = ["ami_slf/AMI_ES2011a_H00_FEE041_0003427_0003714.lat.gz", "theanolm/lattice.slf"]
    return [SMALL, SUBLATTICES, *((read_unpacked(name) for name in names) if FILES.is_dir() else ())]


def refused_by_twin(content):
    try:
        return slow.fingerprint(slow.read_slf(content)) is None
    except (slow.RuleError, UnicodeDecodeError):
        return True


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32))
def test_damaged_files_are_refused_or_agree_with_the_slow_reader(seed):
    random_ = random.Random(seed)
    for content in real_files():
        damaged = bytearray(content)
        for _ in range(random_.randrange(1, 4)):
            at = random_.randrange(len(damaged))
            piece = random_.choice(
                [b"", b"-1", b"9999999999", b"nan", b"\n", b" ", b"'", b"\\", b"\xff", b"W=x", b"a=3"]
            )
            damaged[at : at + random_.randrange(3)] = piece
        try:
            lattice = read_slf(bytes(damaged), "k")
        except NinjaError:
            assert refused_by_twin(bytes(damaged))
        else:
            check(lattice)
            total = slow.fingerprint(slow.read_slf(bytes(damaged)))
            np.testing.assert_allclose(slow.lattice_fingerprint(lattice), total, rtol=1e-3)
