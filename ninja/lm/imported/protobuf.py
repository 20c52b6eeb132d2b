"""Protocol buffers without their library: what a message holds, field by field, and how one is written.

A message is a run of records: a varint that holds field number and wire type, then the value.

    type 0  varint: 7 bits a byte, the lowest first, a set high bit says that another byte follows
    type 1  8 bytes      type 5  4 bytes, both little-endian
    type 2  a varint, then so many bytes: text, a message, or numbers packed one behind the other

The meaning of field numbers is the caller's. Nothing is copied but numbers that are asked for, so a message costs no
more memory than its records, and what is no message is told by the byte at which it stops to be one.

Source: Protocol Buffers documentation, "Encoding".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ninja.errors import ModelError

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_SIGN = 1 << 63


@dataclass(frozen=True, slots=True)
class _Record:
    kind: int  # wire type
    value: int | memoryview  # of a varint the number, else the bytes; equal 4-byte records stand together
    begin: int  # of the value, counted from the file's beginning


class Message:
    """One message: values by field number."""

    def __init__(self, content: memoryview, path: str, begin: int = 0) -> None:
        """Split a message into its records.

        Args:
            content: The message's bytes.
            path: The file, for messages.
            begin: Where in the file the message begins.

        Raises:
            ModelError: The bytes end within a record, or are no protocol buffer.
        """
        self._path = path
        self.begin = begin
        self._records: dict[int, list[_Record]] = {}
        place = 0
        while place < len(content):
            tag, after = self._varint(content, place)
            number, kind = tag >> 3, tag & 7
            value: int | memoryview
            if kind == VARINT:
                first = after
                value, after = self._varint(content, after)
            else:
                if kind == BYTES:
                    length, after = self._varint(content, after)
                elif kind == FIXED32:
                    length = 5 * _run(content, place, after) - (after - place) if after == place + 1 else 4
                elif kind == FIXED64:
                    length = 8
                else:
                    raise ModelError(f"no protocol buffer: wire type {kind}", path, byte=begin + place)
                first = after
                after += length
                if after > len(content):
                    message = f"truncated: field {number} has {length} bytes, but {len(content) - first} are left"
                    raise ModelError(message, path, byte=begin + first)
                value = content[first:after]
            if number == 0:
                raise ModelError("no protocol buffer: a field with the number 0", path, byte=begin + place)
            self._records.setdefault(number, []).append(_Record(kind, value, begin + first))
            place = after

    def __contains__(self, number: int) -> bool:
        return number in self._records

    def integers(self, number: int) -> list[int]:
        """Return a repeated integer field, packed or not, as int64 values."""
        values = []
        for record in self._records.get(number, ()):
            if isinstance(record.value, int):
                values.append(record.value)
            elif record.kind == BYTES:
                place = 0
                while place < len(record.value):
                    value, place = self._varint(record.value, place)
                    values.append(value)
            else:
                raise self._wrong(number, record, "an integer")
        return [value - 2 * _SIGN if value & _SIGN else value for value in values]

    def floats(self, number: int) -> np.ndarray:
        """Return a repeated float field, packed or not, float32."""
        parts = [np.empty(0, np.float32)]
        for record in self._records.get(number, ()):
            if isinstance(record.value, int) or record.kind == FIXED64:
                raise self._wrong(number, record, "a float")
            if record.kind == FIXED32:  # value tag value tag … value
                parts.append(np.frombuffer(b"\0" + bytes(record.value), [("tag", "u1"), ("value", "<f4")])["value"])
            elif len(record.value) % 4:
                raise self._wrong(number, record, "a multiple of 4 bytes")
            else:
                parts.append(np.frombuffer(record.value, "<f4"))
        return np.concatenate(parts)

    def texts(self, number: int) -> list[str]:
        """Return a repeated text field."""
        texts = []
        for content, begin in self._bytes(number):
            try:
                texts.append(bytes(content).decode())
            except UnicodeDecodeError as error:
                raise ModelError(f"field {number} is no UTF-8 text", self._path, byte=begin) from error
        return texts

    def messages(self, number: int) -> list[Message]:
        """Return a repeated field of messages."""
        return [Message(content, self._path, begin) for content, begin in self._bytes(number)]

    def integer(self, number: int, default: int = 0) -> int:
        """Return an integer field; of several values the last counts, as everywhere in protocol buffers."""
        values = self.integers(number)
        return values[-1] if values else default

    def text(self, number: int, default: str = "") -> str:
        """Return a text field."""
        texts = self.texts(number)
        return texts[-1] if texts else default

    def _bytes(self, number: int) -> Iterator[tuple[memoryview, int]]:
        for record in self._records.get(number, ()):
            if record.kind != BYTES or isinstance(record.value, int):
                raise self._wrong(number, record, "bytes")
            yield record.value, record.begin

    def _wrong(self, number: int, record: _Record, expected: str) -> ModelError:
        return ModelError(f"field {number} has wire type {record.kind}, not {expected}", self._path, byte=record.begin)

    def _varint(self, content: memoryview, place: int) -> tuple[int, int]:
        value = 0
        for shift in range(0, 70, 7):
            if place >= len(content):
                raise ModelError("truncated within a number", self._path, byte=self.begin + place)
            byte = content[place]
            place += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & (2 * _SIGN - 1), place
        raise ModelError("no protocol buffer: a number of more than 64 bits", self._path, byte=self.begin + place)


def _run(content: memoryview, place: int, after: int) -> int:
    """Count the 4-byte records of one field that follow each other: a network's weights, unpacked, are millions."""
    tag = content[place]
    count, window = 1, 64
    while True:
        some = np.frombuffer(content[place + 5 * count : place + 5 * (count + window)], np.uint8)[::5]
        same = int(np.argmax(np.append(some != tag, True)))
        count += same
        if same < window:
            # A last tag without its four bytes does not belong to the run; it is found truncated in its turn.
            return count - (place + 5 * count > len(content) and count > 1)
        window *= 2


def field(number: int, value: int | bytes | str | Sequence[int] | np.ndarray) -> bytes:
    """Write one field: an integer, bytes, text, packed integers, or float32 numbers packed."""
    if isinstance(value, int):
        return _write_varint(number << 3 | VARINT) + _write_varint(value)
    if isinstance(value, str):
        value = value.encode()
    elif isinstance(value, np.ndarray):
        value = value.astype("<f4").tobytes()
    elif not isinstance(value, bytes):
        value = b"".join(_write_varint(each) for each in value)
    return _write_varint(number << 3 | BYTES) + _write_varint(len(value)) + value


def float_field(number: int, values: np.ndarray | float) -> bytes:
    """Write a float field, each value a record of its own."""
    values = np.atleast_1d(np.asarray(values, "<f4")).ravel()
    assert number < 16, "its tag must be one byte"
    records = np.empty(len(values), [("tag", "u1"), ("value", "<f4")])
    records["tag"] = number << 3 | FIXED32
    records["value"] = values
    return records.tobytes()


def _write_varint(value: int) -> bytes:
    value &= 2 * _SIGN - 1
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)
