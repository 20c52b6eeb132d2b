"""Reader for n-best lists in Parquet and Arrow tables; tables are written as Parquet.

A row is an utterance or a hypothesis. Columns have the names and meanings of the fields in JSON (``json_lists``)::

    id: string    text: string                                                     a row is a hypothesis
    id: string    nbest: list of strings    score: list of numbers
    id: string    nbest: list of structs of text, score, am_score, lm_score, words

Other columns are kept with the lattice until the table is written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ninja.errors import FormatError
from ninja.formats import native_schema
from ninja.formats.content import Content
from ninja.formats.format import Format, Read, Write
from ninja.formats.native_schema import arrow_errors
from ninja.formats.nbest.json_hypotheses import ObjectFields
from ninja.formats.nbest.json_lists import Object, read_lists
from ninja.formats.nbest.lattices import list_entries
from ninja.formats.nbest.table_sizes import check_batch, check_parquet, checked_batches
from ninja.formats.nbest.table_writing import KEPT, TableEncoder, TableRow, lost_of_table
from ninja.formats.nbest.writing import ListOptions
from ninja.formats.unsupported import refusal
from ninja.lattice.lattice import ListRecord, Origin
from ninja.lattice.nbest import NBest
from ninja.libraries import needed_for

PARQUET = b"PAR1\x15"  # magic number, followed by the first byte of a page or of the footer
KEYS = ("key", "id", "utt_id", "utt", "utterance_id", "audio_id", "segment_id")  # names of columns with utterance ids
NBESTS = ("nbest", "hyps", "hypotheses")
TEXTS = ("text", "pred_text", "transcription", "transcript", "hypothesis", "sentence")
DEFAULT = ObjectFields()
ROWS = 64  # number of rows read at a time; small, because decoded rows may be much larger than encoded rows
_LATTICES = "arc_begin"  # a column that shows that a table contains lattices in the native format


def read_table(content: Content, options: ObjectFields = DEFAULT) -> Iterator[NBest | FormatError]:
    """Yield the n-best lists in a table, or their errors; the line numbers in errors are row numbers.

    Args:
        content: The file.
        options: Names of the columns and struct fields. By default, the key column can also be named ``id``, ``utt_id``
            and so on. If there is no column `nbest`, a row is a hypothesis, with cost 0 if it has no score.

    Raises:
        FormatError: The file is damaged, contains lattices, or lacks a required column.
    """
    source = content.mapped()
    path = content.name
    with needed_for("a table", path):
        import pyarrow
        import pyarrow.ipc
        import pyarrow.parquet
    with arrow_errors(path, "not a table, or damaged"):
        is_parquet = _head(source) == PARQUET
        size = source.stat().st_size if isinstance(source, Path) else len(source)
        file = partial(pyarrow.memory_map, str(source)) if isinstance(source, Path) else partial(_buffer, source)
        if is_parquet:
            table = pyarrow.parquet.ParquetFile(file())
            schema = table.schema_arrow
            check_parquet(table.metadata, size, path)
        else:
            table = pyarrow.ipc.open_file(file())
            schema = table.schema
    columns = _columns(schema.names, options, path)
    if is_parquet:
        batches = checked_batches(lambda **kinds: pyarrow.parquet.ParquetFile(file(), **kinds), ROWS, size, path)
    else:
        batches = _record_batches(table, size, path)
    yield from _lists(_guarded(batches, path), columns, content)


def _head(source: Path | bytes) -> bytes:
    if isinstance(source, bytes):
        return source[: len(PARQUET)]
    with open(source, "rb") as file:
        return file.read(len(PARQUET))


def _buffer(content: bytes) -> Any:
    import pyarrow

    return pyarrow.BufferReader(content)


def _record_batches(table: Any, size: int, path: str | None) -> Iterator[Any]:
    row = 0
    for number in range(table.num_record_batches):
        batch = table.get_batch(number)
        batch.validate(full=True)
        check_batch(batch, row, size, path)
        row += batch.num_rows
        for first in range(0, batch.num_rows, ROWS):
            yield batch.slice(first, ROWS)


def _guarded(batches: Iterator[Any], path: str | None) -> Iterator[Any]:
    while True:
        with arrow_errors(path, "the table is damaged"):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


def _columns(names: list[str], options: ObjectFields, path: str | None) -> ObjectFields:
    """Return the names of the columns: the user's names, or else the first known names that the table contains."""
    if len({*names}) < len(names):
        raise FormatError("two columns have the same name; rename one", path)
    if _LATTICES in names:
        raise FormatError(refusal(PARQUET) or "", path)
    changed: dict[str, Any] = {}
    if options.key == DEFAULT.key:
        changed["key"] = next((name for name in KEYS if name in names), None)
    if options.nbest == DEFAULT.nbest:
        changed["nbest"] = next((name for name in NBESTS if name in names), None)
    columns = replace(options, **changed)
    if columns.nbest is None and columns.text == DEFAULT.text:
        columns = replace(columns, text=next((name for name in TEXTS if name in names), columns.text))
    if columns.nbest is None and columns.missing_score is None and not columns.group:
        columns = replace(columns, missing_score=0.0)  # a row with a single hypothesis needs no score
    named = [columns.key, columns.nbest or columns.text]
    if (missing := next((name for name in named if name is not None and name not in names), None)) is not None:
        shown = ", ".join(repr(name[:20]) for name in names[:8])
        advice = "specify the columns with --from parquet:key=NAME,nbest=NAME (or text=NAME instead of nbest=NAME)"
        raise FormatError(f"the table has no column {missing!r} (columns: {shown or 'none'}); {advice}", path)
    return columns


def _lists(batches: Iterator[Any], columns: ObjectFields, content: Content) -> Iterator[NBest | FormatError]:
    """Yield the n-best list in each row of a table, or the error of the row.

    The number of the row is stored as the origin of its list, unless ``columns.group`` or ``columns.skip`` is set.
    """
    rows: deque[TableRow] = deque()  # rows whose lists have not been yielded
    path = content.name

    def objects() -> Iterator[Object]:
        number = 0
        for batch in batches:
            values = _values(batch, path)
            for index in range(batch.num_rows):
                number += 1
                rows.append(TableRow(path, batch.slice(index, 1), columns, FORMAT.name))
                yield str(number), {name: value[index] for name, value in values.items()}, number

    for item in read_lists(objects(), path, columns, content):
        row = None if columns.group or columns.skip else rows.popleft()
        if isinstance(item, NBest) and row is not None:
            record = item.record or ListRecord({}, {}, layout=columns)
            item = replace(item, record=record._replace(origin=Origin(row, 0, 0)))
        yield item


def _values(batch: Any, path: str | None) -> dict[str, list[Any]]:
    """Return the values of each column whose type can be represented in JSON, by column name."""
    values = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if _is_plain(column.type):
            with arrow_errors(path, f"the column {name!r} is damaged"):
                values[name] = column.to_pylist()
    return values


def _is_plain(kind: Any) -> bool:
    """Return whether a type consists only of strings, numbers, booleans, lists and structs."""
    import pyarrow

    types = pyarrow.types
    if types.is_dictionary(kind):
        return _is_plain(kind.value_type)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _is_plain(kind.value_type)
    if types.is_struct(kind):
        return all(_is_plain(kind.field(index).type) for index in range(kind.num_fields))
    tests = (
        types.is_string,
        types.is_large_string,
        types.is_integer,
        types.is_floating,
        types.is_boolean,
        types.is_null,
    )
    return any(test(kind) for test in tests)


FORMAT = Format(
    name="parquet",
    about="Parquet and Arrow tables with sentences or n-best lists; written as Parquet",
    holds="nbest",
    extensions=(".parquet",),
    mark=lambda head: head.startswith(PARQUET) or native_schema.is_table(head),
    read=Read(list_entries(read_table), ObjectFields),
    keeps=KEPT,
    write=Write(
        encoder=TableEncoder,
        options=ListOptions,
        also_lost=lost_of_table,
        unique_keys=True,
        encoded_keys=True,
        restores=True,
    ),
)
