"""The schema of Arrow lattice files (version 1), checks of files before Arrow reads them, and a buffer for writing."""

from __future__ import annotations

import io
import json
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from isal import isal_zlib

from ninja.errors import FormatError, NinjaError
from ninja.lattice.symbols import EPSILON, SymbolTable
from ninja.libraries import needed_for

VERSION = 1
MAGIC = b"ARROW1"
NAME = b"ninja.lattices"  # metadata key of the version
WORDS = b"ninja.words"  # metadata key of a symbol table whose ids are too sparse for a dictionary
WORDS_SUM = b"ninja.words.crc32"  # metadata key of the checksum of the symbol table
CHECKSUM = "crc32"  # optional column of checksums
GAP = 64  # maximum number of bytes between blocks of an Arrow file
GAPS = 4  # maximum number of dictionary entries per word; more gaps between word ids would waste space

_INTEGER = re.compile(rb"[0-9]{1,10}")
Strings = tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]

COLUMNS: dict[str, type[np.generic]] = {
    "arc_begin": np.int64,
    "dst": np.int32,
    "word": np.int32,
    "graph": np.float32,
    "acoustic": np.float32,
    "ali_begin": np.int64,
    "ali": np.int32,
    "final_graph": np.float32,
    "final_acoustic": np.float32,
    "final_ali_begin": np.int64,
    "final_ali": np.int32,
    "time": np.int32,
}
OPTIONAL = ("time", "frame_shift", CHECKSUM)
MEANING = {
    "key": "utterance id",
    "kind": "compact (any number of labels per arc) or raw (Kaldi's Lattice, at most one label per arc)",
    "frame_shift": "duration of a frame in seconds, or null if unknown",
    "arc_begin": "[states + 1] the arcs of state s are arc_begin[s] : arc_begin[s + 1]; state 0 is the start state",
    "dst": "[arcs] destination state, larger than the source state",
    "word": "[arcs] word id, 0 = epsilon; the dictionary is the symbol table",
    "graph": "[arcs] graph cost, natural logarithm, lower is better, unscaled",
    "acoustic": "[arcs] acoustic cost, natural logarithm, lower is better, unscaled",
    "ali_begin": "[arcs + 1] the labels of arc a are ali[ali_begin[a] : ali_begin[a + 1]]",
    "ali": "one label per frame, such as Kaldi's transition ids",
    "final_graph": "[states] final graph cost, inf if the state is not final",
    "final_acoustic": "[states] final acoustic cost, inf if the state is not final",
    "final_ali_begin": "[states + 1] the labels of state s are final_ali[final_ali_begin[s] : final_ali_begin[s + 1]]",
    "final_ali": "labels of final states",
    "time": "[states] frame of each state; only from formats that have times instead of labels",
    "crc32": "CRC-32 of the lattice, by ninja._columns.checksum; not checked if null or missing",
}


@dataclass(frozen=True, slots=True)
class Schema:
    """The checked schema of a file."""

    has_dictionary: bool
    words: SymbolTable | None  # symbol table from the metadata
    words_sum: int | None  # checksum of the symbol table
    has_checksums: bool  # whether lattices have checksums


def arrow() -> Any:
    """Import and return the module pyarrow."""
    with needed_for("the native format"):
        import pyarrow
        import pyarrow.ipc
    return pyarrow


@contextmanager
def arrow_errors(path: str | None, problem: str) -> Iterator[None]:
    """Convert Arrow's exceptions, which have many types, to FormatError."""
    try:
        yield
    except NinjaError:
        raise
    except Exception as error:
        raise FormatError(f"{problem}: {str(error).partition(chr(10))[0][:200]}", path) from error


class OutputBuffer(io.BytesIO):
    """A stream that collects the bytes that Arrow writes."""

    _num_taken = 0

    def tell(self) -> int:
        """Return the total number of bytes written, including the bytes that `take` has returned."""
        return self._num_taken + super().tell()

    def take(self) -> bytes:
        """Return the bytes written since the last call to `take`."""
        content = self.getvalue()
        self._num_taken += len(content)
        self.seek(0)
        self.truncate()
        return content


class MappedTable(SymbolTable):
    """A symbol table, converted on first use from an Arrow array of words in which unused word ids are null.

    Raises (on first use):
        FormatError: The words do not match their checksum.
        SymbolError: A word has two ids.
    """

    __slots__ = ("_checksum", "_values")

    def __init__(self, values: Any, path: str | None = None, checksum: int | None = None) -> None:
        self._values = values
        self._checksum = checksum
        self.path = path
        self.grows, self._others = False, None

    def __getattr__(self, name: str) -> Any:
        if name not in ("_id", "_word"):
            raise AttributeError(name)
        if self._checksum is not None and words_sum(self._values) != self._checksum:
            raise FormatError("the symbol table is damaged, or was changed by another program", self.path)
        entries = ((word, number) for number, word in enumerate(self._values.to_pylist()) if word is not None)
        super().__init__(entries, self.path)
        return getattr(self, name)

    def __reduce__(self) -> tuple[object, ...]:
        return SymbolTable, (list(self), self.path)


def strings(values: Any) -> Strings:
    """Return ``(offsets, bytes)`` for the strings in a validated Arrow array: int32 [num_strings + 1] and uint8."""
    if not len(values):
        return np.zeros(1, np.int32), np.zeros(0, np.uint8)
    _, offsets, content = values.buffers()
    begin = np.frombuffer(offsets, np.int32, values.offset + len(values) + 1)[values.offset :]
    return begin, np.zeros(0, np.uint8) if content is None else np.frombuffer(content, np.uint8)


def present(values: Any) -> npt.NDArray[np.uint8]:
    """Return a mask of the non-null elements in a validated Arrow array, uint8."""
    return np.ascontiguousarray(values.is_valid().to_numpy(zero_copy_only=False), np.uint8)


def plain(values: Any, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return the numbers in a validated Arrow array; the values of null elements are undefined."""
    content = values.buffers()[1]
    if not len(values):
        return np.zeros(0, dtype)
    return np.frombuffer(content, dtype, values.offset + len(values))[values.offset :]


def words_sum(values: Any) -> int:
    """Return a CRC-32 over the word offsets (int32), the bytes of the words, and the mask of used ids (uint8)."""
    begin, content = strings(values)
    checksum = isal_zlib.crc32(np.ascontiguousarray(begin - begin[0]))
    checksum = isal_zlib.crc32(content[begin[0] : begin[-1]], checksum)
    return int(isal_zlib.crc32(present(values), checksum))


def schema(words: SymbolTable | None) -> tuple[Any, Any]:
    """Return ``(schema, Arrow dictionary of words)`` for a file; the dictionary is indexed by word id.

    The dictionary is None if there is no symbol table, or if word ids have large gaps. In the latter case, the schema
    metadata contains the words.
    """
    pyarrow = arrow()
    metadata = {NAME: str(VERSION).encode()}
    dictionary = None
    if words is not None:
        largest = max((number for _, number in words), default=EPSILON)
        if largest < GAPS * len(words) + 1000:
            by_id: list[str | None] = [None] * (largest + 1)
            for word, number in words:
                by_id[number] = word
            dictionary = pyarrow.array(by_id, pyarrow.string())
            checksum = words_sum(dictionary)
        else:
            metadata[WORDS] = json.dumps(list(words), ensure_ascii=False).encode("utf-8")
            checksum = isal_zlib.crc32(metadata[WORDS])
        metadata[WORDS_SUM] = str(checksum).encode()
    types = _types(pyarrow)
    if dictionary is not None:
        types["word"] = _coded(pyarrow)
    fields = [
        pyarrow.field(name, kind, nullable=name in OPTIONAL, metadata={"meaning": MEANING[name]})
        for name, kind in types.items()
    ]
    return pyarrow.schema(fields, metadata), dictionary


def _types(pyarrow: Any) -> dict[str, Any]:
    types = {"key": pyarrow.string(), "kind": pyarrow.string(), "frame_shift": pyarrow.float64()}
    types |= {name: pyarrow.large_list(pyarrow.from_numpy_dtype(dtype)) for name, dtype in COLUMNS.items()}
    return types | {CHECKSUM: pyarrow.uint32()}


def _coded(pyarrow: Any) -> Any:
    """Return the Arrow type of a column with dictionary-encoded words."""
    return pyarrow.large_list(pyarrow.dictionary(pyarrow.int32(), pyarrow.string()))


def checked(schema: Any, path: str | None) -> Schema:
    """Check the schema of a file and return its properties.

    Raises:
        FormatError: The file is not a lattice file, has a newer version, or is damaged.
    """
    metadata = schema.metadata or {}
    if NAME not in metadata:
        raise FormatError("this is an Arrow file, but it contains no lattices", path)
    if metadata[NAME] != str(VERSION).encode():
        version = metadata[NAME][:20].decode("utf-8", "replace")
        message = f"the file has version {version}, but Ninja reads only version {VERSION}; upgrade Ninja"
        raise FormatError(message, path)
    pyarrow = arrow()
    has_dictionary = False
    types = {name: type for name, type in _types(pyarrow).items() if name != CHECKSUM or CHECKSUM in schema.names}
    if sorted(schema.names) != sorted(types):
        names = ", ".join(schema.names)[:200]
        raise FormatError(f"this Arrow file is not a lattice file, because it has other columns: {names}", path)
    for name, type in types.items():
        if name == "word" and schema.field(name).type == _coded(pyarrow):
            has_dictionary = True
        elif schema.field(name).type != type:
            raise FormatError(f"the column {name} is of type {schema.field(name).type}, but must be {type}", path)
    checksum = metadata.get(WORDS_SUM)
    if checksum is not None and not _INTEGER.fullmatch(checksum):
        raise FormatError("the checksum of the symbol table is not a number", path)
    words = None
    if WORDS in metadata:
        if checksum is not None and isal_zlib.crc32(metadata[WORDS]) != int(checksum):
            raise FormatError("the symbol table is damaged, or was changed by another program", path)
        try:
            words = SymbolTable([(str(word), int(number)) for word, number in json.loads(metadata[WORDS])], path)
        except (ValueError, TypeError, RecursionError) as error:
            raise FormatError(f"the symbol table in the metadata is damaged: {error}", path) from error
    return Schema(has_dictionary, words, None if checksum is None else int(checksum), CHECKSUM in schema.names)


def is_table(head: bytes) -> bool:
    """Return whether the first bytes belong to an Arrow file that is not a lattice file.

    The result is False if the schema is longer than these bytes: only the schemas of lattice files can be so large,
    because they can contain a symbol table.
    """
    if not head.startswith(MAGIC) or len(head) < 16:
        return False
    size = int.from_bytes(head[12:16], "little", signed=True)
    schema = head[16 : 16 + size]
    return 0 < size == len(schema) and NAME not in schema and b"arc_begin" not in schema


def check_layout(content: memoryview, path: str | None) -> None:
    """Check that an Arrow file has no compressed columns, no overlapping blocks, and no gaps of more than 64 bytes."""
    if bytes(content[:6]) != MAGIC or bytes(content[-6:]) != MAGIC or len(content) < 24:
        raise FormatError("not an Arrow file, or truncated: it does not begin and end with ARROW1", path)
    try:
        size = _number("<i", content, len(content) - 10)
        if not 0 < size <= len(content) - 18:
            raise FormatError(
                f"the footer size is {size} bytes, but must be from 1 to {len(content) - 18}",
                path,
                byte=len(content) - 10,
            )
        footer = content[len(content) - 10 - size : len(content) - 10]
        root = _number("<I", footer, 0)
        extents = []
        for field in (2, 3):  # dictionaries, record batches
            blocks = _field(footer, root, field)
            if blocks is None:
                continue
            at = blocks + _number("<I", footer, blocks)
            for number in range(_number("<I", footer, at)):
                place = at + 4 + 24 * number
                offset = _number("<q", footer, place)
                _refuse_compressed(content, offset, dictionary=field == 2, path=path)
                extents.append((offset, offset + _number("<i", footer, place + 8) + _number("<q", footer, place + 16)))
        previous = 16 + _number("<i", content, 12)  # end of the schema
        for begin, end in [*sorted(extents), (len(content) - 10 - size,) * 2]:
            if not 0 <= begin - previous <= GAP:
                message = f"the gap between two blocks is {begin - previous} bytes, but must be from 0 to {GAP}"
                raise FormatError(message, path, byte=previous)
            previous = end
    except struct.error as error:
        raise FormatError("the footer of the Arrow file is damaged", path) from error


def _refuse_compressed(content: memoryview, offset: int, *, dictionary: bool, path: str | None) -> None:
    size = _number("<i", content, offset + 4)
    message = content[offset + 8 : offset + 8 + size] if size > 0 else content[:0]
    header = _field(message, _number("<I", message, 0), 2)
    if header is None:
        raise FormatError("an Arrow message has no header", path, byte=offset)
    table = header + _number("<I", message, header)
    if dictionary:
        inner = _field(message, table, 1)
        if inner is None:
            raise FormatError("the dictionary of words is empty", path, byte=offset)
        table = inner + _number("<I", message, inner)
    if _field(message, table, 3) is not None:
        raise FormatError("the columns are compressed; write the file without compression", path, byte=offset)


def _number(form: str, content: memoryview, at: int) -> int:
    if not 0 <= at <= len(content):
        raise struct.error("an offset points outside the file")
    return int(struct.unpack_from(form, content, at)[0])


def _field(content: memoryview, table: int, number: int) -> int | None:
    """Return the offset of a field in a FlatBuffers table, or None if the field is absent."""
    entries = table - _number("<i", content, table)
    if 4 + 2 * number >= _number("<H", content, entries):
        return None
    offset = _number("<H", content, entries + 4 + 2 * number)
    return table + offset if offset else None
