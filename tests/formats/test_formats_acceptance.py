"""Real files of other toolkits, read and compared with independent readers."""

from __future__ import annotations

import gzip
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
import reference_real as real
from strategies_text import FILES, accepts, needs_files, read_unpacked
from whole_files import read_objects, valid_entries

from ninja import SymbolTable
from ninja.errors import SymbolError
from ninja.formats.fst_binary import read_fst, write_fst
from ninja.formats.nbest.ctm import read_ctm
from ninja.formats.nbest.espnet import read_espnet
from ninja.formats.nbest.kaldi import joined, linear_lattices, read_kaldi_names
from ninja.formats.nbest.lattices import nbest_lattices
from ninja.formats.nbest.nemo import read_nemo
from ninja.formats.nbest.srilm import read_srilm
from ninja.formats.pfsg import read_pfsg, write_pfsg
from ninja.formats.plf import PlfOptions, PlfWriteOptions, read_plf, read_plfs, write_plf
from ninja.formats.slf import SlfOptions, read_slf, write_slf
from ninja.formats.sphinx import read_sphinx, write_sphinx
from ninja.graph import best_path
from ninja.lattice import Scales, check

AMI = "ami_slf/AMI_ES2011a_H00_FEE041_0003427_0003714.lat.gz"
PAIRS = sorted(str(path.relative_to(FILES))[:-7] for path in FILES.glob("*pocketsphinx/*.slf.gz"))
SLF = [AMI, "theanolm/lattice.slf", *(f"{name}.slf.gz" for name in PAIRS)]
SPHINX = [f"{name}.lat.gz" for name in PAIRS]
PLF = ["callhome_evltest", "fisher_dev"]
# Files that are neither lattices nor lists, and files that other tests read: (pattern, test).
OTHER_FILES = {
    "**/LICENSE*": "", "**/COPYING": "", "**/README.md": "", "theanolm/vocabulary.txt": "",
    "an4_pocketsphinx/text": "", "nbest_kaldi_librispeech/ref.txt": "",
    "ami_slf/*.nbest": "test_slf_files.py", "theanolm/lattice.lat": "test_slf_files.py",
    "an4_pocketsphinx/hyp": "this file", "plf_fisher_callhome/*.gz": "this file",
    "nbest_dstc10/logs.json.gz": "this file", "nbest_kaldi_librispeech/nbest.txt.gz": "this file",
    "nbest_kaldi_librispeech/hyp.txt": "test_nbest_formats.py", "ctc_pyctcdecode/libri_logits.json": "test_ctc.py",
    "ctc_flashlight/*.bin": "test_ctc.py",
    "ctc_flashlight/*.lst*": "test_ctc.py", "**/*.arpa*": "language models, which other tests read",
}  # fmt: skip

pytestmark = needs_files


def test_every_file_is_covered_by_a_test():
    paths = {str(path.relative_to(FILES)) for path in FILES.rglob("*") if path.is_file()}
    other_paths = {str(path.relative_to(FILES)) for pattern in OTHER_FILES for path in FILES.glob(pattern)}
    assert paths == other_paths | set(SLF) | set(SPHINX)
    assert (len(SLF), len(SPHINX)) == (94, 92)
    assert len([name for name in PAIRS if name.startswith("an4")]) == 84


@lru_cache
def plain(name):
    content = read_unpacked(name)
    return real.sphinx(content) if name.endswith(".lat.gz") and name != AMI else real.slf(content)


def assert_same_best_path(lattice, reference, scales):
    """Compare sizes and best paths, including words."""
    assert (lattice.num_states, lattice.num_arcs) == (reference.num_nodes, len(reference.links))
    assert_same_words(lattice, reference, scales)
    if reference.frames:
        assert sorted(lattice.time.tolist()) == sorted(reference.frames.values())


def assert_same_words(lattice, reference, scales):
    for scale in scales:
        path = best_path(lattice, Scales(acoustic=scale))
        cost, words = real.best(reference, scale)
        assert scale * path.acoustic_cost + path.graph_cost == pytest.approx(cost, rel=1e-5, abs=1e-6)
        spoken = lattice.words.spell(path.words)
        # Integer scores cause ties, which single precision can resolve differently.
        assert spoken == words or real.cost_of(reference, spoken, scale) == pytest.approx(cost, rel=1e-6)


@pytest.mark.parametrize("name", SLF)
def test_every_htk_file_agrees_with_a_plain_reader(name):
    lattice = read_slf(read_unpacked(name), "k")
    check(lattice)
    scales = (1.0, 1 / 16) if name in SLF[:2] else (1.0,)  # other files have only one score
    assert_same_best_path(lattice, plain(name), scales)
    content = write_slf(lattice)
    assert read_slf(content, "k", words=lattice.words).identical(lattice)
    if SLF.index(name) % 4 < 2:
        assert_same_words(lattice, real.slf(content), (1.0,))


@pytest.mark.parametrize("name", PAIRS)
def test_every_utterance_is_the_same_in_sphinx_and_htk_files(name):
    lattice = read_sphinx(read_unpacked(f"{name}.lat.gz"), "k")
    check(lattice)
    assert_same_best_path(lattice, plain(f"{name}.lat.gz"), (1.0,))
    from_slf = read_slf(read_unpacked(f"{name}.slf.gz"), "k", words=lattice.words)
    for field in ("arc_begin", "dst", "word", "graph", "time", "final_graph", "final_acoustic"):
        np.testing.assert_array_equal(getattr(lattice, field), getattr(from_slf, field), field)
    np.testing.assert_allclose(lattice.acoustic, from_slf.acoustic, rtol=1e-6, atol=1e-6)  # the SLF file has 6 decimals
    assert read_sphinx(write_sphinx(lattice), "k", words=lattice.words).identical(lattice)
    assert read_slf(write_slf(lattice), "k", words=lattice.words).identical(lattice)  # conversion from Sphinx to SLF


def test_every_first_best_of_an4_is_a_path_of_its_lattice():
    rows = [line.split() for line in (FILES / "an4_pocketsphinx/hyp").read_text().splitlines()]
    assert len(rows) == 84
    best = 0
    for key, *sentence in rows:
        words = [word.lower() for word in sentence]
        lattice = read_slf(read_unpacked(f"an4_pocketsphinx/{key}.slf.gz"), key)
        assert accepts(lattice, words), key
        assert real.accepts(plain(f"an4_pocketsphinx/{key}.lat.gz"), words), key
        best += lattice.words.spell(best_path(lattice).words) == words
    assert best == 1  # because the files contain only acoustic scores


@pytest.mark.parametrize("graph", [("l",), ("n",), ("l", "n")])
def test_the_best_path_of_an_ami_lattice_agrees_with_an_independent_reader(graph):
    content = read_unpacked(AMI)
    lattice = read_slf(content, "k", options=SlfOptions(graph=graph))
    reference = real.slf(content, graph)
    for scale in (1.0, 0.1, 0.0):
        path, (cost, words) = best_path(lattice, Scales(acoustic=scale)), real.best(reference, scale)
        assert lattice.words.spell(path.words) == words
        assert scale * path.acoustic_cost + path.graph_cost == pytest.approx(cost, abs=1e-4)


@lru_cache
def lines_of(name):
    return [gzip.decompress((FILES / f"plf_fisher_callhome/{name}.{kind}.gz").read_bytes()).split(b"\n")[:-1]
            for kind in ("plf", "asr", "oracle")]  # fmt: skip


@pytest.mark.parametrize(("name", "number", "paths"), [(PLF[0], 1829, [1816, 381]), (PLF[1], 3979, [3966, 1504])])
def test_every_line_of_fisher_and_callhome_agrees_with_the_python_parser(name, number, paths):
    lines, asr, oracle = lines_of(name)
    lattices = list(read_plfs(b"\n".join(lines)))
    assert len(lattices) == len(lines) == number
    for lattice in lattices:
        assert read_plf(write_plf(lattice), lattice.key, words=lattice.words).identical(lattice)
    counts = [0, 0]
    for index, (lattice, line, *texts) in enumerate(zip(lattices, lines, asr, oracle, strict=True)):
        reference = real.plf(line)
        assert_same_best_path(lattice, reference, (1.0,))
        for column, sentence in enumerate(text.decode().split() for text in texts):
            is_path = real.accepts(reference, sentence)
            assert index % 4 or accepts(lattice, sentence) == is_path
            counts[column] += is_path
    # The plain reader agrees: most oracle paths contain words that are on no arc of these pruned lattices.
    assert counts == paths  # numbers of first-best and oracle sentences that are paths


def test_every_list_of_kaldi_is_unchanged_as_linear_lattices():
    lists = list(read_kaldi_names(read_unpacked("nbest_kaldi_librispeech/nbest.txt.gz")))
    assert len(lists) == 15
    for nbest in lists:
        words = SymbolTable.from_words(
            ["<eps>", *dict.fromkeys(w for hypothesis in nbest.hypotheses for w in hypothesis.words)]
        )
        [back] = joined(linear_lattices(nbest, words))
        assert back.key == nbest.key
        assert [words.spell(hypothesis.words) for hypothesis in back.hypotheses] == [
            list(hypothesis.words) for hypothesis in nbest.hypotheses
        ]
        for old, new in zip(nbest.hypotheses, back.hypotheses, strict=True):
            costs = np.concatenate([old.graph, old.acoustic])
            np.testing.assert_allclose(np.concatenate([new.graph, new.acoustic]), costs, rtol=1e-6, atol=1e-12)


REAL = [AMI, "theanolm/lattice.slf", "pocketsphinx/goforward.slf.gz", "an4_pocketsphinx/an4-an417-fjlp-b.slf.gz"]


def total_cost(lattice, scale=1.0):
    path = best_path(lattice, Scales(acoustic=scale))
    return path.graph_cost + scale * path.acoustic_cost, lattice.words.spell(path.words)


@pytest.mark.parametrize("name", [*REAL, "callhome", "fisher"])
def test_real_lattices_are_equivalent_after_write_and_read_in_every_format(name):
    if name in REAL:
        lattice = read_slf(read_unpacked(name), "k")
    else:
        lattice = read_plf(max(lines_of(PLF[name == "fisher"])[0], key=len), "k")
    words, (cost, spoken) = lattice.words, total_cost(lattice)
    assert read_slf(write_slf(lattice), "k", words=words).identical(lattice)
    options = PlfOptions("score", graph=0, acoustic=1)
    untimed = replace(lattice, time=None, frame_shift=None)
    assert read_plf(
        write_plf(lattice, options=PlfWriteOptions(scores="both")), "k", words=words, options=options
    ).identical(untimed)
    fst = read_fst(write_fst(lattice), "k").with_words(words)
    assert (fst.arc_begin.tolist(), fst.dst.tolist(), fst.word.tolist()) == (
        lattice.arc_begin.tolist(), lattice.dst.tolist(), lattice.word.tolist()
    )  # fmt: skip
    assert total_cost(fst)[0] == pytest.approx(cost, rel=1e-6, abs=1e-5)
    pfsg = read_pfsg(write_pfsg(lattice), "k", words=words)
    assert total_cost(pfsg) == (pytest.approx(cost, abs=lattice.num_states / 10000), spoken)
    assert read_pfsg(write_pfsg(pfsg), "k", words=words).identical(pfsg)
    sphinx = read_sphinx(write_sphinx(lattice), "k", words=words)
    acoustic = best_path(lattice, Scales(lm=0.0)).acoustic_cost
    assert best_path(sphinx).acoustic_cost == pytest.approx(acoustic, abs=lattice.num_states * 5e-5)
    assert read_sphinx(write_sphinx(sphinx), "k", words=words).identical(sphinx)


def lattice_of(lists, words, path):
    return nbest_lattices(lists, words, path)[0]


SPELLED = {
    "slf": (read_slf, b"N=2 L=1\nI=0\nI=1\nJ=0 S=0 E=1 W=two\n", 4),
    "sphinx": (
        read_sphinx,
        b"# -logbase 1.0001\nFrames 9\nNodes 2\n0 two 0 1 1\n1 </s> 2 3 3\nInitial 0\nFinal 1\nBestSegAscr 0\nEdges\n"
        b"0 1 -5\nEnd\n",
        4,
    ),
    "pfsg": (read_pfsg, b"name u\nnodes 2 NULL two\ninitial 0\nfinal 1\ntransitions 1\n0 1 -3\n", 2),
    "plf": (read_plf, b"((('two', -1, 1),),)\n", 1),
    "kaldi": (
        lambda content, _, path, words=None: lattice_of(list(read_kaldi_names(content, path)), words, path),
        b"u-1\n0 1 two 1,2,\n1\n\n",
        1,
    ),
    "srilm": (
        lambda content, key, path, words=None: lattice_of([read_srilm(content, key, path)], words, path),
        b"NBestList1.0\n(-3) two\n",
        2,
    ),
    "nemo": (
        lambda content, _, path, words=None: lattice_of(list(read_nemo(content, ["u"], path=path)), words, path),
        b"two\t-1\n",
        1,
    ),
    "espnet": (
        lambda content, _, path, words=None: lattice_of(read_espnet({1: (content, b"u -1\n")}, path), words, path),
        b"u two\n",
        1,
    ),
    "json lines": (
        lambda content, _, path, words=None: lattice_of(read_objects(content, path), words, path),
        b'{"key": "v", "nbest": [{"text": "two", "score": 1}]}\n{"key": "u", "nbest": [{"text": "", "score": 1}]}\n',
        1,
    ),
    "ctm": (
        lambda content, _, path, words=None: lattice_of(valid_entries(read_ctm(content, path)), words, path),
        b";; c\nu 1 0 1 two\n",
        2,
    ),
}


@pytest.mark.parametrize("kind", SPELLED)
def test_words_form_a_new_table_or_must_be_in_the_given_table(kind):
    reader, content, line = SPELLED[kind]
    lattice = reader(content, "u", "f")
    assert dict(lattice.words) == {"<eps>": 0, "two": 1}
    assert lattice.words.spell(lattice.word) == ["two"]
    table = SymbolTable([("<eps>", 0), ("two", 7)])
    assert reader(content, "u", "f", table).word.max() == 7
    assert reader(content, "u", "f", table).words is table
    with pytest.raises(SymbolError, match=rf"^f:{line}, key '[uv]': word 'two' is not in the symbol table"):
        reader(content, "u", "f", SymbolTable.from_words(["<eps>", "one"]))


def test_a_list_without_words_has_a_table_with_epsilon_only():
    [lattice] = nbest_lattices([read_srilm(b"-1 -2 0\n", "u")])
    assert dict(lattice.words) == {"<eps>": 0}
