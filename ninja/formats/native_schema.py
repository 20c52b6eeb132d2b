"""The schema of our own files, version 1, and what is checked of a file before Arrow may read it."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from ninja.errors import DependencyError, FormatError
from ninja.symbols import EPSILON, SymbolTable

VERSION = 1
MAGIC = b"ARROW1"
NAME = b"ninja.lattices"  # key of the version in the metadata of the schema
WORDS = b"ninja.words"  # key of a symbol table whose ids have too many gaps for a dictionary
GAPS = 4  # a dictionary has at most so many times the entries of its symbol table

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
MEANING = {
    "key": "utterance id",
    "kind": "compact (any labels an arc) or raw (Kaldi's Lattice: at most one)",
    "frame_shift": "seconds per frame, where known",
    "arc_begin": "[states + 1] arcs of state s are arc_begin[s] : arc_begin[s + 1]; state 0 is the start",
    "dst": "[arcs] state each arc enters, behind its own",
    "word": "[arcs] word id, 0 = epsilon; the dictionary is the symbol table",
    "graph": "[arcs] graph cost, natural logarithm, lower is better, unscaled",
    "acoustic": "[arcs] acoustic cost, likewise",
    "ali_begin": "[arcs + 1] labels of arc a are ali[ali_begin[a] : ali_begin[a + 1]]",
    "ali": "one label a frame: transition ids in Kaldi",
    "final_graph": "[states] graph cost of ending there, inf = not final",
    "final_acoustic": "[states] acoustic cost of ending there, inf = not final",
    "final_ali_begin": "[states + 1]",
    "final_ali": "labels of final states",
    "time": "[states] frame of each state, where a format carries times instead of labels",
}


@dataclass(frozen=True, slots=True)
class Schema:
    """What the schema of a file says."""

    has_dictionary: bool
    words: SymbolTable | None  # kept in the metadata


def arrow() -> Any:
    """Return the module pyarrow, imported on first use.

    Raises:
        DependencyError: It is not installed.
    """
    try:
        import pyarrow
        import pyarrow.ipc
    except ImportError as error:
        raise DependencyError("pyarrow is not installed; pip install 'ninja-asr[arrow]'") from error
    return pyarrow


class MappedTable(SymbolTable):
    """A symbol table that is not unpacked before somebody asks for a word.

    Args:
        values: Arrow's array of words by id, null where an id has none.
        path: File name for error messages.
    """

    __slots__ = ("_values",)

    def __init__(self, values: Any, path: str | None = None) -> None:
        self._values = values
        self.path = path

    def __getattr__(self, name: str) -> Any:
        if name not in ("_id", "_word"):
            raise AttributeError(name)
        entries = ((word, number) for number, word in enumerate(self._values.to_pylist()) if word is not None)
        super().__init__(entries, self.path)
        return getattr(self, name)

    def __reduce__(self) -> tuple[object, ...]:
        return SymbolTable, (list(self), self.path)


def schema(words: SymbolTable | None) -> tuple[Any, Any]:
    """Return the schema of a file whose lattices have a symbol table, and its words by id, or None."""
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
        else:
            metadata[WORDS] = json.dumps(list(words), ensure_ascii=False).encode("utf-8")
    types = {"key": pyarrow.string(), "kind": pyarrow.string(), "frame_shift": pyarrow.float64()}
    for name, dtype in COLUMNS.items():
        element = pyarrow.from_numpy_dtype(dtype)
        if name == "word" and dictionary is not None:
            element = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
        types[name] = pyarrow.large_list(element)
    fields = [
        pyarrow.field(name, kind, nullable=name in ("time", "frame_shift"), metadata={"meaning": MEANING[name]})
        for name, kind in types.items()
    ]
    return pyarrow.schema(fields, metadata), dictionary


def checked(found: Any, path: str | None) -> Schema:
    """Return what the schema of a file says.

    Raises:
        FormatError: It is not ours, or of another version.
    """
    metadata = found.metadata or {}
    if NAME not in metadata:
        raise FormatError("an Arrow file, but not one of lattices", path)
    if metadata[NAME] != str(VERSION).encode():
        version = metadata[NAME][:20].decode("utf-8", "replace")
        raise FormatError(f"version {version} of lattice files; this is for version {VERSION}, so upgrade", path)
    pyarrow = arrow()
    has_dictionary = False
    kinds = {"key": pyarrow.string(), "kind": pyarrow.string(), "frame_shift": pyarrow.float64()}
    kinds |= {name: pyarrow.large_list(pyarrow.from_numpy_dtype(dtype)) for name, dtype in COLUMNS.items()}
    if sorted(found.names) != sorted(kinds):
        raise FormatError(f"a lattice file with the columns {', '.join(found.names)[:200]}", path)
    coded = pyarrow.large_list(pyarrow.dictionary(pyarrow.int32(), pyarrow.string()))
    for name, kind in kinds.items():
        if name == "word" and found.field(name).type == coded:
            has_dictionary = True
        elif found.field(name).type != kind:
            raise FormatError(f"the column {name} is of type {found.field(name).type}, but {kind} is needed", path)
    words = None
    if WORDS in metadata:
        try:
            words = SymbolTable([(str(word), int(number)) for word, number in json.loads(metadata[WORDS])], path)
        except (ValueError, TypeError, RecursionError) as error:
            raise FormatError(f"the symbol table in the metadata is damaged: {error}", path) from error
    return Schema(has_dictionary, words)


def look_through(content: memoryview, path: str | None) -> None:
    """Refuse packed columns, which would cost a parse and might unpack to anything, and what is cut short.

    Raises:
        FormatError: The frame of the file is not what we write.
    """
    if bytes(content[:6]) != MAGIC or bytes(content[-6:]) != MAGIC or len(content) < 24:
        raise FormatError("not an Arrow file, or cut short: it does not begin and end with ARROW1", path)
    try:
        size = _number("<i", content, len(content) - 10)
        if not 0 < size <= len(content) - 18:
            raise FormatError(f"a footer of {size} bytes in a file of {len(content)}", path, byte=len(content) - 10)
        footer = content[len(content) - 10 - size : len(content) - 10]
        root = _number("<I", footer, 0)
        for field in (2, 3):  # dictionaries, record batches
            blocks = _field(footer, root, field)
            if blocks is None:
                continue
            at = blocks + _number("<I", footer, blocks)
            for number in range(_number("<I", footer, at)):
                _refuse_packed(content, _number("<q", footer, at + 4 + 24 * number), dictionary=field == 2, path=path)
    except struct.error as error:
        raise FormatError("the footer of the Arrow file is damaged", path) from error


def _refuse_packed(content: memoryview, offset: int, *, dictionary: bool, path: str | None) -> None:
    size = _number("<i", content, offset + 4)
    message = content[offset + 8 : offset + 8 + size] if size > 0 else content[:0]
    header = _field(message, _number("<I", message, 0), 2)
    if header is None:
        raise FormatError("a message without a header", path, byte=offset)
    table = header + _number("<I", message, header)
    if dictionary:
        inner = _field(message, table, 1)
        if inner is None:
            raise FormatError("a dictionary without words", path, byte=offset)
        table = inner + _number("<I", message, inner)
    if _field(message, table, 3) is not None:
        raise FormatError("packed columns; write the file without compression", path, byte=offset)


def _number(form: str, content: memoryview, at: int) -> int:
    if at < 0:
        raise struct.error("an offset before the beginning")
    return int(struct.unpack_from(form, content, at)[0])


def _field(content: memoryview, table: int, number: int) -> int | None:
    """Return where a field of a FlatBuffers table lies; None: it is left out."""
    entries = table - _number("<i", content, table)
    if 4 + 2 * number >= _number("<H", content, entries):
        return None
    offset = _number("<H", content, entries + 4 + 2 * number)
    return table + offset if offset else None
