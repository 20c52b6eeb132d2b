"""Writer for n-best lists as Parquet: rewrites the rows of an input table, or creates a new table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ninja.errors import LatticeError, NinjaError, SymbolError
from ninja.formats.format import FIELDS, Field, WriteSettings
from ninja.formats.native_schema import OutputBuffer
from ninja.formats.nbest.json_hypotheses import ObjectFields, parts
from ninja.formats.nbest.json_records import objects_of
from ninja.lattice.nbest import NBest
from ninja.libraries import needed_for

GROUP = 1 << 25  # a row group is written when it reaches this number of bytes ...
GROUP_ROWS = 1 << 12  # ... or this number of rows
KEPT: frozenset[Field] = frozenset(
    {"key", "times", "frame shift", "graph", "acoustic", "apart", "unscaled", "names", "fields"}
)


@dataclass(frozen=True, slots=True, eq=False)
class TableRow:
    """The Parquet row from which an n-best list was read; it is rewritten with the new list."""

    name: str  # file name
    row: Any  # pyarrow.RecordBatch with one row
    columns: ObjectFields  # names of the columns
    format: str


def row_of(nbest: NBest) -> TableRow | None:
    """Return the row from which a list was read, or None if it was not read from a table."""
    origin = None if nbest.record is None else nbest.record.origin
    return origin.document if origin is not None and isinstance(origin.document, TableRow) else None


class TableEncoder:
    """Encoder that writes row groups; the first list determines the columns."""

    def __init__(self, settings: WriteSettings) -> None:
        with needed_for("a table"):
            import pyarrow
            import pyarrow.parquet
        self._arrow = pyarrow
        self._settings = settings
        self._buffer = OutputBuffer()
        self._writer: Any = None
        self._schema: Any = None
        self._rows: list[Any] = []
        self._size = 0

    def add(self, nbest: NBest) -> bytes:
        """Encode a list and return the next bytes of the file.

        Raises:
            LatticeError: The columns for this list differ from those of the first list, or a column cannot store its
                new value.
            SymbolError: A word or the key cannot be written as UTF-8.
        """
        row = row_of(nbest)
        schema = self._plain_schema() if row is None else row.row.schema
        if self._schema is not None and not schema.equals(self._schema):
            message = "the columns of the row differ from those of the first output row; write the list to another file"
            raise LatticeError(message, key=nbest.key)
        try:
            batch = self._plain_row(nbest, schema) if row is None else self._changed_row(nbest, row)
        except UnicodeEncodeError as error:
            raise SymbolError("a word or the key cannot be written as UTF-8", key=nbest.key) from error
        except NinjaError:
            raise
        except (self._arrow.ArrowException, ValueError, TypeError) as error:
            message = f"a column cannot store its new value: {str(error)[:100]}; write JSON lines (.jsonl)"
            raise LatticeError(message, key=nbest.key) from error
        if self._writer is None:
            self._begin(schema)
        self._rows.append(batch)
        self._size += batch.nbytes
        if self._size >= GROUP or len(self._rows) >= GROUP_ROWS:
            self._flush()
        return self._buffer.take()

    def end(self) -> bytes:
        """Encode the remaining rows and the footer of the Parquet file."""
        if self._writer is None:
            self._begin(self._plain_schema())
        self._flush()
        self._writer.close()
        return self._buffer.take()

    def _begin(self, schema: Any) -> None:
        self._schema = schema
        self._writer = self._arrow.parquet.ParquetWriter(self._buffer, schema)

    def _flush(self) -> None:
        if self._rows:
            table = self._arrow.Table.from_batches(self._rows, self._schema).unify_dictionaries()
            self._writer.write_table(table, row_group_size=len(self._rows))
        self._rows, self._size = [], 0

    def _plain_schema(self) -> Any:
        arrow = self._arrow
        word = arrow.struct([("word", arrow.string()), ("start", arrow.float64()), ("end", arrow.float64())])
        scores = [("am_score", arrow.float64()), ("lm_score", arrow.float64())]
        hypothesis = arrow.struct([("text", arrow.string()), *scores, ("words", arrow.list_(word))])
        return arrow.schema([("id", arrow.string()), ("nbest", arrow.list_(hypothesis))])

    def _plain_row(self, nbest: NBest, schema: Any) -> Any:
        (entry,) = objects_of(replace(nbest, record=None), self._settings.words, self._settings.options)
        arrays = [self._arrow.array([entry[name]], schema.field(at).type) for at, name in enumerate(("key", "nbest"))]
        return self._arrow.record_batch(arrays, schema=schema)

    def _changed_row(self, nbest: NBest, origin: TableRow) -> Any:
        row, columns = origin.row, origin.columns
        if columns.nbest is None:  # each row contains a single hypothesis
            nbest = replace(nbest, hypotheses=nbest.hypotheses[:1])
        (entry,) = objects_of(nbest, self._settings.words, self._settings.options)
        values = {columns.words: None, **entry}  # the words of the old text are not valid for the new text
        if columns.nbest is not None:
            values.update(self._list_columns(entry[columns.nbest], row, columns))
        arrays = []
        for field, array in zip(row.schema, row.columns, strict=True):
            changes = field.name in values and field.name in _changing(columns)
            if changes and array.to_pylist() != [values[field.name]]:
                array = self._arrow.array([values[field.name]], field.type)
            arrays.append(array)
        return self._arrow.record_batch(arrays, schema=row.schema)

    def _list_columns(self, listed: list[dict[str, Any]], row: Any, columns: ObjectFields) -> dict[str, Any]:
        """Return the values of the columns that contain hypotheses, and of the text column for the best hypothesis."""
        values: dict[str, Any] = {}
        assert columns.nbest is not None
        names = row.schema.names
        if self._arrow.types.is_struct(row.schema.field(columns.nbest).type.value_type):
            values[columns.nbest] = listed
        else:
            values[columns.nbest] = [entry[columns.text] for entry in listed]
            values.update({name: [entry.get(name) for entry in listed] for name in columns.scores if name in names})
        if columns.text in names:  # the column contains the text of the best hypothesis, or a reference transcript
            (text,), (old,) = row.column(columns.text).to_pylist(), row.column(columns.nbest).to_pylist()
            first = None if not old else old[0].get(columns.text) if isinstance(old[0], dict) else old[0]
            values[columns.text] = listed[0][columns.text] if text == first else text
        return values


def _changing(columns: ObjectFields) -> set[str]:
    """Return the names of the columns whose values can change when a row is rewritten with a new n-best list."""
    return {*filter(None, [columns.key, columns.nbest, columns.text, columns.words]), *columns.scores}


def lost_of_table(nbest: NBest, settings: WriteSettings) -> list[str]:
    """Return the names of fields that a table cannot store: fields of other formats, and costs that have no column."""
    row = row_of(nbest)
    if row is None:
        return [FIELDS["fields"]] if nbest.record is not None and nbest.record.others else []
    schema, columns = row.row.schema, row.columns
    names = set(schema.names)
    if columns.nbest is not None:
        kind = schema.field(columns.nbest).type.value_type
        names |= {kind.field(index).name for index in range(kind.num_fields)}
    has = {name for name in columns.scores if name in names}
    best = nbest.hypotheses
    if has >= {*parts(columns.score)} != set() or has >= {*parts(columns.am_score), *parts(columns.lm_score)}:
        return []
    costs = {"graph": any(one.graph_cost for one in best), "acoustic": any(one.acoustic_cost for one in best)}
    return [FIELDS["graph" if name == "graph" else "acoustic"] for name, is_lost in costs.items() if is_lost]
