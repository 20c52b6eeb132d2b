"""Files of many lattices are read in blocks: results do not depend on block sizes, and memory is bounded."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ninja.errors import FormatError, NinjaError
from ninja.files.stream import Place, Stream, open_stream
from ninja.formats import content
from ninja.formats.content import Content, Window, numbered_lines
from ninja.formats.format import reader as named
from ninja.formats.kaldi import archive as kaldi
from ninja.formats.kaldi import fst_archive
from ninja.formats.kaldi.fst_archive import FstArchiveWriteOptions, fst_entry
from ninja.io.reader import read
from ninja.io.vocabulary import vocabulary
from ninja.lattice import Lattice

PFSG = "name {}\nnodes 4 NULL one {} NULL\ninitial 0\nfinal {}\ntransitions 3\n0 1 -10\n1 2 {}\n2 3 -5\n\n"


def fst(number: int) -> Lattice:
    return Lattice.from_arrays("x", [0, 1, 2, 2], [1, 2], [1, number], [1, 2], [0, 0], [np.inf, np.inf, 0.0])


def endless(image: bytes) -> bytes:
    """Return an image of unknown length that extends to the end of its file, as old writers wrote to pipes."""
    return image[:50] + b"\xff" * 8 + image[58:]


PIECES: dict[str, list[bytes]] = {
    "plf": [
        b"((('a',0.5,1),('b',0.5,1),),(('c',1,1),),)\n",
        b"((('c\\'d',-2.5,1),),)\r\n",
        b"()\n",
        b"\n",
        b"((('a',x,1),),)\n",
        b"((('a',1,1),)\n",
    ],
    "pfsg": [
        PFSG.format("u1", "two", 3, -7).encode(),
        PFSG.format("u2(duration=1)", "<s>", 3, -7).encode(),
        PFSG.format("u3\n", "one", 3, 12).replace("\n", "\n\n").encode(),
        PFSG.format("cycle", "two", 3, -7).replace("2 3 -5", "2 1 -5").encode(),
        PFSG.format("far", "two", 9, -7).encode(),
        PFSG.format("more", "two", 3, -7).replace("transitions 3", "transitions 4").encode(),
        PFSG.format("many", "two", 3, -7).replace("nodes 4", "nodes 400").encode(),
        b"\n\n",
        b"name x nodes\n",
    ],
    "json": [
        b'{"key": "a", "nbest": [{"text": "x y", "score": -1}, {"text": "x", "score": -2}]}\n',
        b'{"key": "b", "nbest": [{"text": "y", "am_score": -1, "lm_score": -2}]}\r\n',
        b'{"key": "c", "nbest": []}\n',
        b'{"key": "d", "nbest": [{"text": "z"\n',
        b'{"key": "e", "nbest": [\n',
        b'{"key": "f", "key": "f", "nbest": [{"text": "y", "score": 1}]}\n',
        b' {"key": "g", "nbest": [{"text": "y", "score": 1}]}\n',
        b'{"key": "h", "nbest": [{"text": "\xff", "score": 1}]}\n',
        b'{"key": "i", "nbest": [{"text": "y", "score": NaN}]}\n',
        b"\n",
        b"[\n",
        b"]\n",
        b"}\n",
        b"7\n",
    ],
    "ctm": [
        b"u 1 0.00 0.10 one 0.5\n",
        b"u 1 0.20 0.10 two\n",
        b"u 2 0.20 0.10 two\n",
        b"v 1 0.00 0.10 three\n",
        b"v 1 x 0.10 three\n",
        b"w 1 0.00\n",
        b";; said\n",
        b"\xff\n",
        b"\n",
    ],
    "columns": [
        b"u-1 -1 -2 | one two\n",
        b"u-2 -1.5 -2 | one\n",
        b"v-1 -1 -2 | two\n",
        b"v-2 -1 | two\n",
        b"w-1 x y | two\n",
        b"two\n",
        b"\xff\n",
    ],
    "mesh": [
        b"name m1\nnumaligns 1\nposterior 1\nalign 0 one 0.5 *DELETE* 0.5\n",
        b"name m2\nnumaligns 2\nalign 0 two 1\nalign 1 one 1\ninfo 1 one 0.1 0.2 : :\n",
        b"numaligns 1\nalign 0 one 1\n",
        b"numaligns 1\n\n",
        b"name m3\nnumaligns 1\nalign 5 one 1\n",
        b"align 0 two \xff\n",
        b"\n",
    ],
    "fst-ark": [
        fst_entry(fst(3).with_key("a")),
        fst_entry(fst(4).with_key("b"), options=FstArchiveWriteOptions(arc_type="log64")),
        fst_entry(fst(5).with_key("c"), options=FstArchiveWriteOptions(text=True)),
        fst_entry(fst(6).with_key("d"))[:-4] + b"\0\0\0\1",
        b"e \n0 1 2 x\n\n",
        b"f \n\n",
        b"g h\n",
        b"i ",
        b"k " + endless(fst_entry(fst(7).with_key("k"))[2:]),
        b"j \xd6\xfd\xb2\x7e\6\0\0\0vector\x08\0\0\0standard",
    ],
    "named-text": [
        b"u \n0 1 one 1,2,3_4\n1 2 <eps> 0,0,\n2 0,0,\n\n",
        b"v w \n0 1 two 1,2,\n1\n\n",
        b"x\n0 1 17 1,2,\n1 0,0,\n \t\n",
        b"y \n0 1 one 1,z,\n1\n\n",
        b"z \n0 1 on\xff 1,2,\n1\n\n",
        b"0 1 two 1,2,\n1 0,0,\n\n",
        b"k \n\n",
        b"\n",
    ],
}
PIECES["nemo"] = [b"one two\t-1\n", b"two\t-2.5\n", b"\t-3\n", b"one\t-1\r\n"]
OPTIONS = {
    "nemo": ["nemo:beam=2"],
    "named-text": ["named-text", "named-text:keys=first,words=names"],
    "json": ["json", "json:skip=true", "json:key=none"],
    "ctm": ["ctm", "ctm:keys=file-channel"],
}


def description(entry: object) -> Any:
    if isinstance(entry, Lattice):
        words = None if entry.words is None else [entry.words.word(number) for number in entry.word.tolist()]
        arrays = (entry.arc_begin, entry.dst, entry.word, entry.graph, entry.acoustic, entry.final_graph, entry.ali)
        return entry.key, words, [array.tolist() for array in arrays]
    return type(entry), str(entry)


def entries(file: Content, format: str) -> list[Any]:
    reader = named(format)
    assert reader is not None
    descriptions: list[Any] = []
    try:
        for key, entry in reader.entries(file, None):
            descriptions.append((key, description(entry)))
    except NinjaError as error:
        descriptions.append(description(error))
    return descriptions


def read_both_ways(data: bytes, format: str, size: int) -> tuple[list[Any], list[Any]]:
    """Return the results of reading a file as a whole and of reading it in blocks."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(fst_archive, "LONGEST_KEY", 8)
        patch.setattr(fst_archive, "_HEAD", 16)
        Path("f").write_bytes(data)
        with open_stream(Place("f")) as stream:
            whole = Content(stream, "f")
            whole.whole()
            expected = entries(whole, format)
        patch.setattr(content, "BLOCK", size)
        patch.setattr(content, "CHUNK", size)
        with open_stream(Place("f")) as stream:
            return expected, entries(Content(stream, "f"), format)


@st.composite
def files(draw: st.DrawFn, format: str) -> bytes:
    data = b"".join(draw(st.lists(st.sampled_from(PIECES[format]), max_size=12)))
    if data and draw(st.integers(0, 3)) == 0:
        at = draw(st.integers(0, len(data) - 1))
        data = data[:at] + draw(st.sampled_from([b"", b"\n", b" ", b"9", b"{", b"\xff"])) + data[at + 1 :]
    if draw(st.integers(0, 3)) == 0:
        data = data[: draw(st.integers(0, len(data)))]
    return data


@pytest.mark.parametrize("format", [option for name in PIECES for option in OPTIONS.get(name, [name])])
@settings(max_examples=20, deadline=None)
@given(st.data())
def test_block_boundaries_have_no_effect(format: str, data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 40) | st.integers(1, 1000))
    expected, results = read_both_ways(data.draw(files(format.split(":")[0])), format, size)
    if format.startswith("nemo") and expected and expected[-1][0] is FormatError:
        expected, results = expected[-1:], results[-1:]  # in blocks, lists before the invalid line are also returned
    assert results == expected


SOUND = {  # functions that return a valid entry for a number
    "plf": lambda n: b"((('w%d',0.5,1),('b',0.5,1),),)\n" % (n % 50),
    "pfsg": lambda n: PFSG.format(f"u{n}", "two", 3, -7).encode(),
    "json": lambda n: b'{"key": "u%d", "nbest": [{"text": "x y", "score": -1}]}\n' % n,
    "ctm": lambda n: b"u%d 1 0.00 0.10 one 0.5\nu%d 1 0.20 0.10 two\n" % (n, n),
    "columns": lambda n: b"u%d-1 -1 -2 | one two\nu%d-2 -1 -3 | one\n" % (n, n),
    "mesh": lambda n: b"name u%d\nnumaligns 1\nalign 0 one 0.5 *DELETE* 0.5\n" % n,
    "fst-ark": lambda n: fst_entry(fst(3).with_key(f"u{n}"), options=FstArchiveWriteOptions(text=n % 2 == 0)),
    "named-text": lambda n: b"u%d \n0 1 one 1,2,\n1 2 <eps> 0,0,\n2 0,0,\n\n" % n,
    "nemo:beam=2": lambda n: b"one two\t-1.%d\none\t-2.5\n" % n,
    "nbest-kaldi": lambda n: b"u%d-1 \n0 1 5 1,2,\n1\n\nu%d-2 \n0 1 6 1,3,\n1\n\n" % (n, n),
}


@pytest.mark.parametrize("format", SOUND)
@pytest.mark.parametrize("compressed", [False, True])
def test_lattices_are_returned_before_the_whole_file_is_read(
    format: str, compressed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    block, count = 1 << 10, 200
    data = b"".join(SOUND[format](number) for number in range(count))
    path = tmp_path / "file"
    path.write_bytes(gzip.compress(data, 1) if compressed else data)
    num_read = 0
    readinto = Stream.readinto

    def counting_readinto(self: Stream, buffer: memoryview) -> int:
        nonlocal num_read
        count_read = readinto(self, buffer)
        num_read = num_read + count_read if count_read else 0  # reset if the file is read again
        return count_read

    monkeypatch.setattr(content, "BLOCK", block)
    monkeypatch.setattr(content, "CHUNK", block)
    monkeypatch.setattr(kaldi, "CHUNK", block)
    monkeypatch.setattr(Content, "whole", None)
    monkeypatch.setattr(Stream, "readinto", counting_readinto)
    reader = named(format)
    assert reader is not None
    with open_stream(Place(str(path))) as stream:
        for place, (_, lattice) in enumerate(reader.entries(Content(stream, str(path)), None), start=1):
            assert isinstance(lattice, Lattice)
            assert num_read < len(data) * place / count + 12 * block
    assert place == count


def test_an_invalid_line_affects_only_its_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [SOUND["json"](number) for number in range(400)]
    rows[0] = rows[0][:30] + b"\n"
    rows[300] = b'{"key"\n'
    path = tmp_path / "lists.jsonl"
    path.write_bytes(b"".join(rows))
    monkeypatch.setattr(content, "CHUNK", 1 << 10)
    monkeypatch.setattr(Content, "whole", None)
    errors: list[NinjaError] = []
    assert len(list(read(path, on_error=errors.append))) == 398
    assert [error.line for error in errors] == [1, 301]


def test_a_document_longer_than_a_block_is_read_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [SOUND["json"](number).rstrip() for number in range(400)]
    by_key = b",\n".join(b'"u%d": [{"text": "x", "score": -1}]' % number for number in range(400))
    monkeypatch.setattr(content, "CHUNK", 1 << 10)
    for data in (b"[" + b",\n".join(rows) + b"]", b"{\n" + by_key + b"}"):
        (tmp_path / "lists.json").write_bytes(data)
        assert [key for key, _ in read(tmp_path / "lists.json")] == [f"u{number}" for number in range(400)]


def test_lattices_before_the_damage_of_a_gzip_file_are_read(tmp_path: Path) -> None:
    path = tmp_path / "lattices.plf.gz"
    path.write_bytes(gzip.compress(b"".join(SOUND["plf"](number) for number in range(20000)))[:-500])
    errors: list[NinjaError] = []
    assert len(list(read(path, on_error=errors.append))) > 1000
    assert [str(error) for error in errors] == [f"{path}: the gzip stream is truncated"]


def test_a_line_longer_than_the_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bomb.plf.gz"
    path.write_bytes(gzip.compress(SOUND["plf"](1) + b"(" * (8 << 20)))
    monkeypatch.setattr(content, "LARGEST_PACKED", 4 << 20)
    monkeypatch.setattr(content, "LARGEST_RATIO", 10)
    monkeypatch.setattr(content, "BLOCK", 1 << 16)
    errors: list[NinjaError] = []
    assert [key for key, _ in read(path, on_error=errors.append)] == ["bomb-1"]
    assert [error.message[:49] for error in errors] == ["the file decompresses to more than 4 MB and 10 ti"]


def test_vocabulary_merges_the_words_of_many_lattices(tmp_path: Path) -> None:
    path = tmp_path / "lattices.plf"
    path.write_bytes(b"".join(SOUND["plf"](number) for number in range(200)))
    table = vocabulary(path)
    assert table is not None
    assert sorted(word for word, _ in table) == sorted(["<eps>", "b", *(f"w{number}" for number in range(50))])
    assert all(lattice.words is table for _, lattice in read(path, words=table))


def test_lines_are_numbered_across_blocks() -> None:
    expected = [(1, b"a", True), (2, b"", True), (3, b"b\r", True), (4, b"c", False)]
    assert list(numbered_lines(b"a\n\nb\r\nc")) == expected
    assert list(numbered_lines([b"a\n", b"\nb\r\n", b"c"])) == expected
    assert list(numbered_lines(b"")) == []


def test_a_window_drops_read_bytes_and_doubles_the_remainder() -> None:
    window = Window(b"%099d" % number for number in range(8))
    assert window.grow()
    assert (len(window.content), window.begin) == (99, 0)
    window.at = 90
    assert window.grow()
    assert (len(window.content), window.begin, window.at) == (9 + 99, 90, 0)
    assert window.grow()
    assert (len(window.content), window.begin) == (108 + 2 * 99, 90)
    while window.grow():
        pass
    assert (len(window.content), window.begin) == (8 * 99 - 90, 90)
