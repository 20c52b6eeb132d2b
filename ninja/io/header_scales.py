"""Scales in the headers of HTK lattices, found before these are read."""

from __future__ import annotations

from collections.abc import Iterator

from ninja.errors import NinjaError, OptionError
from ninja.files.place import Place, Table
from ninja.files.stream import gives_bytes_once, look
from ninja.formats.format import HEAD
from ninja.io import folder
from ninja.io.listed import names_in
from ninja.io.sources import Source, is_kaldi, look_into, tables
from ninja.lattice import Scales


def find_header_scales(source: Source) -> tuple[str, Scales] | None:
    """Return the scales in the headers of HTK lattices, and the first file that has them; None: there are none.

    Args:
        source: As of ``read``; pipes and script files are not looked into.

    Raises:
        OptionError: Some files have other scales than others.
    """
    first: tuple[str, Scales] | None = None
    for name, scales in header_scales_of(source):
        if first is None:
            first = name, scales
        elif scales != first[1]:
            both = f"{first[0]} and {name}"
            raise OptionError(f"the headers of {both} have different scales; give them as numbers")
    return first


def header_scales_of(source: Source) -> Iterator[tuple[str, Scales]]:
    """Yield each file of HTK lattices, and the scales in its header."""
    for place in _places(source):
        try:
            with look(place.path) as stream:
                head = stream.head(HEAD)
        except NinjaError:  # as reading it will say
            continue
        if (found := _scales(head)) is not None:
            yield place.name, found


def _scales(head: bytes) -> Scales | None:
    """Return the scales in a header; None: the file is no HTK lattice."""
    if is_kaldi(head):
        return None
    from ninja.formats.slf import header_scales, is_slf

    return header_scales(head) if is_slf(head) else None


def _places(source: Source) -> Iterator[Place]:
    """Yield the files of a source, also those in folders and lists."""
    try:
        found = tables(source)
    except NinjaError:  # as reading it will say
        return
    for table in found:
        for place in _files(table):
            if place.command is None and not gives_bytes_once(place.path):
                yield place


def _files(table: Table) -> list[Place]:
    if table.kind == "folder":
        return [Place(path) for path in folder.files(table.place.path) if not folder.is_companion(path)]
    kind, content = look_into(table)
    return [listed.place for listed in names_in(content, table.place.name)[0]] if kind == "list" else [table.place]
