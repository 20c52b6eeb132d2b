"""The time of every reader is proportional to the number of bytes, for any content.

Inputs are small valid files with many repetitions of a line, a field, a byte or an unclosed quote, bracket or group at
one place. NINJA_READING_TIME=1 tests all inputs; otherwise each reader is tested with a sample.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import random
import re
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import pytest
from hypothesis_files import FILES
from linear_time import assert_linear
from reference_ngram import TRIGRAM, write_arpa, write_const_arpa
from small_files import FORMATS as WRITTEN
from small_files import READERS as OF_PYTHON
from small_files import small_file

import ninja
from benchmarks.stress import bounds
from ninja.errors import NinjaError
from ninja.formats.format import HEAD, by_mark, formats
from ninja.formats.hypotheses.marks import fields_of
from ninja.formats.torch_file import load, opened
from ninja.io import reader
from ninja.lattice.symbols import SymbolTable
from ninja.lm.ngram.model import read_arpa, read_const_arpa
from ninja.lm.stored_network import read_safetensors

Read = Callable[[str], object]


class Input(NamedTuple):
    """A file in which a piece is repeated at a place."""

    content: bytes
    piece: bytes
    place: int

    def of_size(self, size: int) -> bytes:
        """Return the file, of at least the given size."""
        return self.content[: self.place] + self.piece * (1 + size // len(self.piece)) + self.content[self.place :]


IDS = {"<eps>": 0, "a": 1, "b": 2, "#0": 3, "<s>": 4, "</s>": 5}
NAMES = {form.name for form in formats() if form.read is not None}
ALL = bool(os.environ.get("NINJA_READING_TIME"))
SOME, MORE = 10, 100  # inputs per reader in every run, and per file in FAULTY
SIZE = 1 << 14  # bytes of the smaller of the two inputs that are compared
LETTERS = [bytes([code]) for code in b" \n\t\r\0\"'([{<\\;,:=#|-_@~0a\x80"]
OPENED = [b'="', b"='", b'a="a ', b"a='a ", b'"a" ', b"('", b'{"', b'["', b'"a",', b"{a", b"<a ", b"\\ ", b"\\\n"]


def torch_pickle(content: bytes) -> bytes:
    """Return a torch file with the given pickled content."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, part in {"data.pkl": content, "data/0": bytes(16), "version": b"3\n"}.items():
            archive.writestr(f"archive/{name}", part)
    return buffer.getvalue()


def read_pickle(path: str) -> object:
    return load(opened(torch_pickle(Path(path).read_bytes())), (), "an empty list")


def read_header(path: str) -> object:
    header = Path(path).read_bytes()
    return read_safetensors(len(header).to_bytes(8, "little") + header)


def read_whole(name: str) -> Read:
    """Return a function that reads all entries of a file of a format in this thread."""

    def read(path: str) -> object:
        with mock.patch.object(reader, "read_ahead", lambda batches: batches):
            return [None for _ in ninja.read(path, format=name, on_error=lambda *_: None)]

    return read


def detect(path: str) -> object:
    return by_mark(Path(path).read_bytes()[:HEAD])


# Readers other than those of formats with a writer, whose files are written in the test.
READERS: dict[str, tuple[Read, list[bytes]]] = {
    **{name: (read_whole(name) if name in NAMES else read, files) for name, (read, files) in OF_PYTHON.items()},
    "arpa": (read_arpa, [write_arpa(TRIGRAM)]),
    "const-arpa": (
        lambda path: read_const_arpa(path, SymbolTable(IDS.items())),
        [write_const_arpa(TRIGRAM.closed(), IDS)],
    ),
    "pickle of torch": (read_pickle, [b"\x80\x02]q\x00(X\x01\x00\x00\x00aK\x01}q\x01h\x00)e."]),
    "safetensors": (
        read_header,
        [b'{"a":{"dtype":"F32","shape":[0, 2],"data_offsets":[0,0]},"__metadata__":{"b":"c"}}'],
    ),
    "detection": (detect, [b"utt 1 0.00 0.25 one 0.9\n", b"name a nodes 1\n", b"{}", b""]),
}
TABLE = list(dict.fromkeys([*READERS, *WRITTEN, *sorted(set(FILES.values()))]))
FAULTY = {  # files with an error after which reading continues
    "pfsg": [b"name a\nnodes 2 a b\ninitial 0\nfinal 1\ntransitions 2\n0 1 0\n1 1 0\n\nname b\nnodes 1 a\n"],
    "slf": [b'N=2 L=1\nI=0\nI=1\nJ=0 S=0 E=1 W="a v=\'b x="c\n'],
}


def inputs(content: bytes) -> list[Input]:
    """Return the inputs for a file."""
    lines = re.findall(rb"[^\n]*\n|[^\n]+", content)[:40]
    fields = re.findall(rb"[^ \t\n,]+[ \t\n,]*", content)[:40] if len(content) < 4096 else []
    pieces = dict.fromkeys([content, *lines, *fields, *LETTERS, *OPENED])
    ends = [match.end() for match in re.finditer(rb"[\s,=\"'(\[{]+", content[:4096])]
    places = dict.fromkeys([0, len(content), *ends])
    return [Input(content, piece, place) for piece in pieces if piece for place in places]


def sampled_inputs(name: str, files: list[bytes]) -> Iterator[Input]:
    """Yield the inputs to test for a reader."""
    for content in files:
        limit = MORE if content in FAULTY.get(name, ()) else math.ceil(SOME / len(files))
        choices = inputs(content)
        yield from choices if ALL else random.Random(name).sample(choices, min(limit, len(choices)))


def timed(read: Read, path: Path, make: Callable[[int], bytes], size: int) -> Callable[[], object]:
    """Return a function that reads, or rejects, a file of a given size."""
    path.write_bytes(make(size))

    def run() -> None:
        with contextlib.suppress(NinjaError):
            read(str(path))

    return run


def test_every_reader_is_timed() -> None:
    assert set(TABLE) >= NAMES


@pytest.mark.filterwarnings("ignore")
@pytest.mark.timeout(0 if ALL else 300)
@pytest.mark.parametrize("name", TABLE)
def test_reading_time_is_linear(name: str, tmp_path: Path) -> None:
    if name in READERS:
        read, files = READERS[name]
    elif name in WRITTEN:
        read, files = read_whole(name), [small_file(WRITTEN[name], tmp_path)]
    else:
        read, files = read_whole(name), [path.read_bytes() for path, form in FILES.items() if form == name]
    for sample in sampled_inputs(name, files + FAULTY.get(name, [])):
        description = f"{name}: {sample.piece[:40]!r} repeated at byte {sample.place}"
        assert_linear(partial(timed, read, tmp_path / "file", sample.of_size), SIZE, description)


@pytest.mark.parametrize("name", bounds.cases())
def test_reading_time_is_linear_in_the_number_of_rows(name: str, tmp_path: Path) -> None:
    kind, file, content = bounds.cases()[name]

    def reading(size: int) -> Callable[[], object]:
        (tmp_path / file).write_text(content(size))
        return lambda: bounds.read(kind, tmp_path / file)

    assert_linear(reading, SIZE)


@pytest.mark.parametrize("piece", [b"[", b'{"a":', b'{"a":[', b'"a":'])
def test_fields_of_json_are_listed_in_linear_time(piece: bytes) -> None:
    assert_linear(lambda size: partial(fields_of.__wrapped__, b"{" + piece * (size // len(piece))), SIZE)
