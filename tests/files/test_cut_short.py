"""Files truncated at any byte raise a typed error or yield lattices of the complete file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from lattice_files import write_all
from strategies_text import SMALL, SUBLATTICES, lattice_of
from whole_files import read_meshes

from ninja.errors import FormatError, NinjaError
from ninja.formats.nbest.espnet import read_espnet
from ninja.graph import lattice_nbest
from ninja.io import read
from ninja.lattice import Lattice

ARCS = [(0, 1, 1, 1.25, 12.5), (0, 1, 2, 2.5, 21.75), (1, 2, 3, 0.5, 3.125), (1, 3, 0, 0.25, 31.5), (2, 3, 2, 12, 1.5)]
FINALS = {3: (0.0, 0.0), 1: (10.25, 2.75)}
NAMES = ("<eps>", "one", "two", "three")
NODES = b"""VERSION=1.0
start=0 end=3
N=4 L=4
I=0 t=0.00 W=<s>
I=1 t=0.10 W=one
I=2 t=0.12 W=two
I=3 t=0.30 W=</s>
J=0 S=0 E=1 a=-10.5 l=-12
J=1 S=0 E=2 a=-11.5 l=-21
J=2 S=1 E=3 a=-12.5 l=-1.25
J=3 S=2 E=3 a=-13.5 l=-2.25
"""
MESH = b"""name utt1
numaligns 2
posterior 1
align 0 one 0.75 two 0.25
info 0 one 0.1 0.25 0 0 : :
info 0 two 0.1 0.25 0 0 : :
align 1 three 0.875 *DELETE* 0.125
info 1 three 0.35 0.5 0 0 : :
name utt2
numaligns 1
posterior 1
align 0 two 1
info 0 two 0.15 0.35 0 0 : :
"""
NAMED = b"""utt one
0 1 one 1.25,12.5,
0 1 two 2.5,21.75,
1 2 <eps> 0.5,3.125,
2 10.25,2.75,

utt two
0 1 three 12,31.5,
1 11,1.5,

"""
COLUMNS = b"""utt1-1 -12.5 -10.25 | one two
utt1-2 -13.5 -11.25 | one three
utt2-1 -14.5 -12.25 | two
"""
CTM = b""";; a comment
utt1 1 0.10 0.25 one 0.95
utt1 1 0.35 0.15 two 0.85
utt2 1 0.12 0.18 three 0.75
"""
SRILM2 = b"""NBestList2.0
(-123) one ( st: 0.10 et: 0.25 g: -11 a: -112 )
(-234) two ( st: 0.10 et: 0.35 g: -12 a: -222 )
"""
LINEAR = b"""utt1-1
0 1 one 1.25,12.5,11_12
1 2 two 2.5,21.75,13
2 10.25,2.75,14

utt1-2
0 1 three 2.5,21.75,15
1 0.25,1.5,16

"""
JSON_LIST = b"""[{"key": "utt1", "nbest": [{"text": "one two", "score": -12.5}]},
 {"key": "utt2", "nbest": [{"text": "three", "score": -13.5}]}]
"""


LISTS = ("json", "srilm")


def small(key: str = "utt1") -> Lattice:
    return lattice_of(ARCS, FINALS, NAMES, [0, 10, 12, 30]).with_key(key)


def single_arc(key: str = "utt2") -> Lattice:
    return lattice_of([(0, 1, 3, 12.5, 10.5)], {1: (0.0, 0.0)}, NAMES, [0, 15]).with_key(key)


def file_writer(*lattices: Lattice, to: str) -> Callable[[Path], bytes]:
    def write(folder: Path) -> bytes:
        name = folder / "lattices"
        write_all(
            str(name), (lattice_nbest(lattice, 3) if to.startswith(LISTS) else lattice for lattice in lattices), to=to
        )
        return (name if name.is_file() else next(name.iterdir())).read_bytes()  # some formats write a folder

    return write


# The format name and a small file of each format.
FORMATS: dict[str, tuple[str, bytes | Callable[[Path], bytes]]] = {
    "kaldi": ("kaldi", file_writer(small(), single_arc(), to="binary")),
    "kaldi-text": ("kaldi", file_writer(small(), single_arc(), to="text")),
    "named-text": ("named-text", NAMED),
    "nbest-kaldi": ("nbest-kaldi", LINEAR),
    "slf": ("slf", SMALL),
    "slf-nodes": ("slf", NODES),
    "slf-sub-lattices": ("slf", SUBLATTICES),
    "sphinx": ("sphinx", file_writer(small(), to="sphinx")),
    "pfsg": ("pfsg", file_writer(small(), single_arc(), to="pfsg")),
    "plf": ("plf", file_writer(small(), single_arc(), to="plf")),
    "plf-both": ("plf:graph=0,acoustic=1", file_writer(small(), single_arc(), to="plf:scores=both")),
    "mesh": ("mesh", MESH),
    "openfst": ("openfst", file_writer(small(), to="openfst")),
    "fst-text": ("fst-text", file_writer(small(), to="fst-text")),
    "fst-text-words": ("fst-text", file_writer(small(), to="fst-text:labels=words,acceptor=true")),
    "fst-ark": ("fst-ark", file_writer(small(), single_arc(), to="fst-ark:text=true")),
    "json-lines": ("json", file_writer(small(), single_arc(), to="json")),
    "json-list": ("json", JSON_LIST),
    "srilm": ("srilm", file_writer(small(), to="srilm")),
    "srilm-1": ("srilm", file_writer(small(), to="srilm:variant=NBestList1.0")),
    "srilm-2": ("srilm", SRILM2),
    "columns": ("columns", COLUMNS),
    "nemo": ("nemo:beam=2", b"one two\t-12.5\none three\t-13.25\ntwo\t-10.125\nthree\t-11.75\n"),
    "ctm": ("ctm", CTM),
}
# Truncation at a line end of these formats cannot be detected. It may remove an arc or a final state with arcs (AT&T
# text), a hypothesis of the last utterance (Kaldi and SRILM lists, columns), a word of it (CTM), or the times of the
# last words (meshes). Complete entries may be missing from files that can contain several.
OPEN_ENDED = {"fst-text", "fst-text-words", "nbest-kaldi", "srilm", "srilm-1", "srilm-2", "columns", "ctm", "mesh"}
# Entries of these formats mark their own end.
SELF_DELIMITING = {"kaldi", "plf", "plf-both", "json-lines", "openfst", "sphinx"}


def read_contents(path: Path, name: str) -> tuple[dict[str, tuple[object, ...]], list[NinjaError]]:
    errors: list[NinjaError] = []
    lattices = read(path, format=name, on_error=errors.append, read_ahead=False)
    return {key: lattice_content(lattice) for key, lattice in lattices}, errors


def lattice_content(lattice: Lattice) -> tuple[object, ...]:
    """Return the content of a lattice with words instead of ids, because truncated files assign different ids."""
    names = lattice.words.spell(lattice.word) if lattice.words else lattice.word[lattice.word != 0].tolist()
    arrays = (lattice.dst, lattice.graph, lattice.acoustic, lattice.final_graph, lattice.final_acoustic, lattice.ali)
    time = None if lattice.time is None else lattice.time.tolist()
    return (names, (lattice.word == 0).tolist(), *(array.tolist() for array in arrays), time)


@pytest.mark.parametrize("name", FORMATS)
def test_a_truncated_file_is_refused_or_yields_lattices_of_the_complete_file(name: str, tmp_path: Path) -> None:
    form, content = FORMATS[name]
    content = content if isinstance(content, bytes) else content(tmp_path)
    path = tmp_path / "utt"
    path.write_bytes(content)
    whole, errors = read_contents(path, form)
    assert whole
    assert not errors
    keys = list(whole)
    for size in range(1, len(content)):
        path.write_bytes(content[:size])
        contents, errors = read_contents(path, form)
        if name == "nemo" and list(contents) == ["utt"]:
            contents = {keys[0]: contents["utt"]}  # a single list is named after the file
        at_line_end = content[size - 1 : size] == b"\n"
        assert list(contents) == keys[: len(contents)], size
        changed = [key for key in contents if contents[key] != whole[key]]
        assert not changed or (at_line_end and name in OPEN_ENDED and changed == [list(contents)[-1]]), (
            size,
            content[:size],
        )
        # Without an error, all entries are read, or only complete entries are missing.
        may_be_missing = at_line_end or not content[:size].strip() or (name in SELF_DELIMITING and contents)
        assert errors or len(contents) == len(whole) or may_be_missing, (size, content[:size])
        assert all(str(path) in str(error) for error in errors)


UNENDED = "the last line has no newline, so the file may be truncated; if it is complete, add a newline"


@pytest.mark.parametrize(
    ("name", "cut", "location"),
    [
        ("slf", SMALL[:-2], "utt:12, key 'utt'"),
        ("fst-text", b"0 1 7 7 0.5\n1 0.2", "utt:2, key 'utt'"),
        ("pfsg", b"name a nodes 2 NULL NULL\ninitial 0\nfinal 1\ntransitions 1\n0 1 -12", "utt:5, key 'a'"),
        ("mesh", MESH[:-2], "utt:13, key 'utt2'"),
        ("columns", COLUMNS[:-2], "utt:3, key 'utt2'"),
        ("columns", COLUMNS[:40], "utt:2, key 'utt1'"),
        ("columns", COLUMNS[:66], "utt:3, key 'utt1'"),  # the utterance of this line is unknown
        ("ctm", CTM[:-2], "utt:4, key 'utt2'"),
        ("ctm", CTM[:68], "utt:4, key 'utt1'"),
        ("ctm:keys=file-channel", CTM[:82], "utt:4, key 'utt2-1'"),
        ("srilm", SRILM2[:-2], "utt:3, key 'utt'"),
        ("nemo:beam=1", b"one\t-1.5\ntwo\t-1", "utt:2"),
        ("nbest-kaldi", LINEAR[:-4], "utt:8"),
    ],
)
def test_an_unterminated_last_line_is_refused_with_its_location(
    name: str, cut: bytes, location: str, tmp_path: Path
) -> None:
    (tmp_path / "utt").write_bytes(cut)
    _, errors = read_contents(tmp_path / "utt", name)
    assert type(errors[-1]) is FormatError
    assert str(errors[-1]) == f"{tmp_path}/{location}: {UNENDED}"


def test_trailing_blanks_and_comments_need_no_newline(tmp_path: Path) -> None:
    for name, content in (("slf", SMALL), ("ctm", CTM), ("columns", COLUMNS), ("mesh", MESH), ("srilm", SRILM2)):
        comment = {"slf": b"# the end", "ctm": b";; the end", "srilm": b"## the end"}.get(name, b"")
        path = tmp_path / "utt"
        path.write_bytes(content)
        whole = read_contents(path, name)
        assert not whole[1]
        for ending in (b"" if name == "columns" else b" \t\r", comment):  # columns have no blank lines
            path.write_bytes(content + ending)
            assert read_contents(path, name) == whole


def test_truncated_espnet_files_and_compared_meshes_are_refused(tmp_path: Path) -> None:
    text, score = b"utt1 one two\nutt2 three\n", b"utt1 -12.5\nutt2 tensor(-13.5)\n"
    assert len(read_espnet({1: (text, score)})) == 2
    for cut in range(len(text)):
        with pytest.raises(NinjaError):
            read_espnet({1: (text[:cut], score)})
    for cut in range(len(score)):
        with pytest.raises(NinjaError):
            read_espnet({1: (text, score[:cut])})
    (tmp_path / "a.mesh").write_bytes(MESH[:-2])
    with pytest.raises(FormatError, match=UNENDED):
        list(read_meshes(tmp_path / "a.mesh"))
