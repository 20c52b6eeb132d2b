"""Memory limits for tables, in proportion to the size of the file, because files can be highly compressed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ninja.errors import FormatError

MOST_VALUES = 16  # maximum number of values in a column per byte of the file
LEAST_VALUES = 1_000_000  # number of values in a column that is always allowed, even for a small file
# Maximum number of bytes in memory per byte of the file, for the rows of a batch.
MOST_BYTES = 100
LEAST_BYTES = 1 << 24  # number of bytes in memory that is always allowed, even for a small file
AHEAD = 16  # number of batches whose sizes are computed together


def check_parquet(metadata: Any, size: int, path: str | None) -> None:
    """Check the numbers of rows and bytes that the footer of a Parquet file specifies.

    Args:
        metadata: The footer, ``pyarrow.parquet.FileMetaData``.
        size: Size of the file in bytes.

    Raises:
        FormatError: The file has more rows, or needs more memory, than is allowed for its size.
    """
    # The columns in the footer are not accessed, because pyarrow terminates the process (std::terminate) if they are
    # damaged.
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    num_rows = max(metadata.num_rows, sum(group.num_rows for group in groups))
    _check("the table", num_rows, sum(group.total_byte_size for group in groups), size, path)


def checked_batches(file: Any, num_rows: int, size: int, path: str | None) -> Iterator[Any]:
    """Yield the batches of a Parquet file after checking how much memory they need.

    For this check, the values are first read in dictionary-encoded form, which needs little memory even if a long
    string occurs in many rows.

    Args:
        file: Function that opens the file and returns a ``pyarrow.parquet.ParquetFile``; its keyword arguments are
            options of that class.
        num_rows: Number of rows in a batch.
        size: Size of the file in bytes.

    Raises:
        FormatError: A batch needs more memory than is allowed for the size of the file.
    """
    table = file()
    columns = [table.metadata.schema.column(number).path for number in range(table.metadata.num_columns)]
    encoded = file(read_dictionary=columns)  # keeps a string in memory once, even if it occurs in many rows
    encoded_batches = encoded.iter_batches(AHEAD * num_rows)
    batches = table.iter_batches(num_rows)
    num_checked = num_read = 0
    while num_read < table.metadata.num_rows:
        while num_checked < min(num_read + num_rows, table.metadata.num_rows):
            batch = next(encoded_batches)
            check_batch(batch, num_checked, size, path)
            num_checked += batch.num_rows
        batch = next(batches)
        num_read += batch.num_rows
        yield batch


def check_batch(batch: Any, row: int, size: int, path: str | None) -> None:
    """Check the number of values in each column of a batch, and the number of bytes that they need.

    Args:
        batch: ``pyarrow.RecordBatch``.
        row: 0-based number of the first row of the batch in the file.
        size: Size of the file in bytes.

    Raises:
        FormatError: The batch is larger than is allowed for the size of the file.
    """
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        for leaf in _leaves(column):
            place = f"rows {row + 1} to {row + batch.num_rows} of the column {name[:60]!r}"
            _check(place, len(leaf), _num_bytes(leaf), size, path)


def _check(place: str, num_values: int, num_bytes: int, size: int, path: str | None) -> None:
    if num_values > max(LEAST_VALUES, MOST_VALUES * size):
        message = f"{place}: too many values ({num_values}) for a file of {size} bytes"
        raise FormatError(f"{message}; write it as JSON lines", path)
    if num_bytes > max(LEAST_BYTES, MOST_BYTES * size):
        message = f"{place}: too many decoded bytes ({num_bytes}) for a file of {size} bytes"
        raise FormatError(f"{message}; write it as JSON lines", path)


def _leaves(array: Any) -> Iterator[Any]:
    """Yield the innermost arrays in nested lists and structs."""
    import pyarrow

    stack = [array]
    while stack:
        array = stack.pop()
        kind = array.type
        if pyarrow.types.is_struct(kind):
            stack += [array.field(place) for place in range(kind.num_fields)]
        elif pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind):
            first, last = (array.offsets[place].as_py() for place in (0, -1)) if len(array) else (0, 0)
            stack.append(array.values.slice(first, last - first))
        elif pyarrow.types.is_fixed_size_list(kind):
            stack.append(array.flatten())
        else:
            yield array


def _num_bytes(array: Any) -> int:
    """Return the number of bytes that the values of an array need after decoding."""
    import pyarrow
    import pyarrow.compute

    if not pyarrow.types.is_dictionary(array.type) or not _has_lengths(array.type.value_type):
        return int(array.nbytes)
    places, counts = np.unique(array.indices.drop_null().to_numpy(zero_copy_only=False), return_counts=True)
    lengths = pyarrow.compute.binary_length(array.dictionary.take(pyarrow.array(places))).fill_null(0)
    return int(counts.astype(np.float64) @ lengths.to_numpy(zero_copy_only=False).astype(np.float64))


def _has_lengths(kind: Any) -> bool:
    import pyarrow

    types = pyarrow.types
    tests = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    return any(test(kind) for test in tests)
