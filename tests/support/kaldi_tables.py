"""Kaldi's archives in memory, read and written by the kernels."""

import re

from ninja._tables import TableReader, TableWriter
from ninja.lattice.batch import Batch


def filled_reader(content, known_ids=None):
    """Return a reader whose window contains the whole archive ``bad.ark``."""
    reader = TableReader("bad.ark", known_ids)
    reader.space(len(content))[:] = content
    reader.advance(len(content))
    return reader


def parse(content, known_ids=None, bytes_behind=0):
    return entries_of(filled_reader(content, known_ids).parse(bytes_behind))


def entries_of(records):
    items, faults = records
    return [entry for _, entry in Batch(items, faults=faults).entries()]


def write_tables(*entries, text=False, kind=None):
    writer = TableWriter(text=text)
    for lattice in entries:
        writer.append(lattice, lattice.key.encode(), (kind or lattice.kind) == "compact")
    return bytes(writer.view())


def without_properties(content):
    """Clear the two header fields that readers ignore: properties and number of arcs."""
    content = bytearray(content)
    for header in re.finditer(
        rb"\xd6\xfd\xb2\x7e\x06\0\0\0vector(?:\x10\0\0\0compactlattice44|\x08\0\0\0lattice4)", content
    ):
        at = header.end()
        content[at + 8 : at + 16] = content[at + 32 : at + 40] = bytes(8)
    return bytes(content)
