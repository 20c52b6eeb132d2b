"""Tables of every format read in batches: what a file holds is seen from how it begins."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ninja.errors import FormatError, NinjaError, OptionError
from ninja.files.cores import num_cores
from ninja.files.place import Place, Table, resolve
from ninja.files.stream import Stream, gives_bytes_once, open_stream, peek
from ninja.formats.content import BOM, Content, Entry
from ninja.formats.format import HEAD, Reader, detect
from ninja.formats.format import reader as named
from ninja.formats.kaldi import archive as kaldi
from ninja.formats.kaldi.archive import CHUNK, KALDI, KALDI_IMAGE, MAGIC, Batch, Vocabulary
from ninja.io.folder import needs_content
from ninja.io.scp_reader import ARC_BYTES, ScpReader
from ninja.io.sources import advice
from ninja.lattice import Lattice
from ninja.lattice.symbols import SpelledTable, SymbolTable

if TYPE_CHECKING:
    from ninja.io.wording import Respelling

# What only Kaldi's own archives begin with: for the rest the catalogue is asked, which takes longer to load.
_KALDI_TEXT = re.compile(
    rb"\s*\S{1,4096}[ \t]*\n\s*\d+[ \t]+\d+[ \t]+\d+(?:[ \t]+\d+)?[ \t]+[^\s,]+,[^\s,]+(?:,[\d_]*)?\s"
)
KALDI_READ = kaldi.FORMAT.read
_FIRST = 4096 + 128  # bytes that hold a key and the begin of a lattice
_FIRST_LINE = 1 << 16  # bytes that hold the first line of a script file


@dataclass(frozen=True, slots=True)
class Asked:
    """How the user wants files to be read."""

    vocabulary: Vocabulary
    format: str | None = None  # with its options; None: seen from the content
    encoding: str = "utf-8"
    read_ahead: bool = True
    late: bool = False  # what is wrong with a lattice may be raised where it is used


def batches(tables: Sequence[Table], asked: Asked) -> Iterator[Batch]:
    """Read tables one after the other; what breaks one off is its last entry, and the next one is begun."""
    chosen = _chosen(asked)
    for table in tables:
        try:
            with closing(_of_table(table, asked, chosen)) as found:  # type: ignore[type-var]
                for batch in found:
                    if isinstance(asked.vocabulary.words, SpelledTable):
                        _refuse_ids(batch, table, asked.vocabulary)
                    yield batch
        except OptionError:  # it would be as wrong for any other file
            raise
        except NinjaError as error:
            error.path = error.path or table.place.name
            yield Batch([(error.key or "", error)], 0, True)


def _of_table(table: Table, asked: Asked, chosen: Reader | None) -> Iterator[Batch]:
    if table.kind == "scp":
        listed = ScpReader(lambda stream, place: _entries_of(stream, place, asked, chosen))
        return _ahead(kaldi.script(table, asked.vocabulary, listed), asked)
    if table.kind == "folder":
        return _folder(table.place, asked, chosen)
    return _file(table.place, asked, chosen)


def _refuse_ids(batch: Batch, table: Table, vocabulary: Vocabulary) -> None:
    """Refuse lattices of ids where the words are those that other files spell."""
    for place, (key, found) in enumerate(batch.entries):
        if isinstance(found, Lattice) and found.words is None:
            try:
                batch.entries[place] = (key, vocabulary.attach(found))
            except NinjaError as error:
                error.path = error.path or table.place.name
                batch.entries[place] = (key, error)
                batch.faulty = True


def reader_of(stream: Stream, asked: Asked, chosen: Reader | None = None) -> Reader | None:
    """Return the format of what a stream, whose first bytes are not taken yet, holds; None: Kaldi's, or nobody's.

    Raises:
        FormatError: Two formats begin like that.
    """
    if asked.format is not None:
        return chosen
    if _is_kaldi(stream.head(_FIRST, _is_kaldi)):
        return None
    return recognised(stream.head(HEAD), stream.name, asked.encoding)


def recognised(head: bytes, name: str, encoding: str = "utf-8") -> Reader | None:
    """Return the format of a file that begins so; None where it is Kaldi's, or not known.

    Raises:
        FormatError: It is packed, empty, or something else that is no file of lattices.
    """
    if not head.removeprefix(BOM).strip() and needs_content(name):
        raise FormatError("the file is empty, which no file of this name is: was it being written?", name)
    found = detect(head, name)
    if found is None and (said := advice(head, name)) is not None:
        raise FormatError(said, name)
    return None if found is None or found.read == KALDI_READ else Reader.of(found, {}, encoding)


def spells(table: Table, asked: Asked) -> bool | None:
    """Tell whether a table may spell its words, which Kaldi's archives do not; of a script file, by the first file.

    The standard input, or another pipe, is kept in memory if it does.

    Returns:
        None: nobody can tell, since it cannot be read, or holds no lattices.
    """
    if table.place.command is not None:
        return False
    name = format_name(table, asked)
    if name not in (None, KALDI) and gives_bytes_once(table.place.path):
        peek(table.place.path, None)
    return None if name is None else name != KALDI


def format_name(table: Table, asked: Asked) -> str | None:
    """Return the format of a table, of a script file that of the first file; None: nobody can tell beforehand."""
    chosen = _chosen(asked)
    if asked.format is not None:
        return KALDI if chosen is None else chosen.format.name
    if table.kind == "folder":
        return "espnet"
    if table.place.command is not None:
        return None
    try:
        if table.kind == "scp":
            fields = _first_line(table.place).split(None, 1)
            places = resolve(fields[1].strip()) if len(fields) > 1 else []
            if len(places) != 1:
                return None
            return KALDI if places[0].offset else format_name(Table(places[0]), asked)
        if gives_bytes_once(table.place.path):
            if _is_kaldi(peek(table.place.path, _FIRST, _is_kaldi)):
                return KALDI
            known = recognised(peek(table.place.path, HEAD), table.place.path, asked.encoding)
            return None if known is None else known.format.name
        with open_stream(table.place) as stream:
            reader = reader_of(stream, asked)
            if reader is not None:
                return reader.format.name
            return KALDI if _is_kaldi(stream.head(_FIRST, _is_kaldi)) else None
    except NinjaError:
        return None


def _first_line(place: Place) -> str:
    """Return the first line of a script file, leaving it to be read."""
    if not gives_bytes_once(place.path):
        return next((line for _, line in kaldi.rows(place) if line.strip()), "")
    head = peek(place.path, _FIRST_LINE, lambda head: b"\n" in head.lstrip()).strip()
    return head.partition(b"\n")[0].decode("utf-8", "surrogateescape")


def _is_kaldi(head: bytes) -> bool:
    return KALDI_IMAGE.match(head) is not None or _KALDI_TEXT.match(head) is not None


def _chosen(asked: Asked) -> Reader | None:
    if asked.format is None:
        return None
    found = named(asked.format, asked.encoding)
    return None if found.format.read == KALDI_READ else found


def _file(place: Place, asked: Asked, chosen: Reader | None) -> Iterator[Batch]:
    with open_stream(place) as stream:
        reader = reader_of(stream, asked, chosen)
        if reader is not None:
            found = _foreign(Content(stream, place.path, late=asked.late), reader, asked)
            is_mapped = asked.late and reader.format.name == "native"  # nothing is read that could be ahead
            yield from found if is_mapped else _ahead(found, asked)
        elif stream.head(len(BOM)) == BOM:
            stream.readinto(memoryview(bytearray(len(BOM))))
            yield from _ahead(kaldi.archive(stream, asked.vocabulary), asked)
        elif stream.head(len(MAGIC)) == MAGIC:
            yield kaldi.bare(stream, Content(stream, place.path).key, asked.vocabulary)
        elif not stream.seekable:
            yield from _ahead(kaldi.archive(stream, asked.vocabulary), asked)
        elif asked.read_ahead and num_cores() > 1:  # on one, the system's own reading ahead is all that helps
            yield from kaldi.plain_file(stream, asked.vocabulary)
        else:
            yield from kaldi.archive(stream, asked.vocabulary)


def _folder(place: Place, asked: Asked, chosen: Reader | None) -> Iterator[Batch]:
    """Read a folder that is one source by itself, ESPnet's."""
    reader = chosen or named("espnet", asked.encoding)
    assert reader is not None
    with open(os.devnull, "rb", buffering=0) as nothing:
        content = Content(Stream(nothing, place.path), place.path)
        yield from _ahead(_foreign(content, reader, asked), asked)


def _foreign(content: Content, reader: Reader, asked: Asked) -> Iterator[Batch]:
    """Read a file that is not Kaldi's."""
    batch = Batch()
    try:
        for key, found in _entries(content, reader, asked):
            batch.entries.append((key, found))
            if isinstance(found, NinjaError):
                batch.faulty = True
            else:
                batch.size += ARC_BYTES * found.num_arcs
            if batch.size >= CHUNK or len(batch.entries) == 64:
                yield batch
                batch = Batch()
    except NinjaError:  # it ends the reading of this file; what comes before is sound
        if batch.entries:
            yield batch
        raise
    if batch.entries:
        yield batch


def _entries(content: Content, reader: Reader, asked: Asked) -> Iterator[Entry]:
    """Read the lattices of a file as they are asked for."""
    words = asked.vocabulary.words
    entries = reader.entries(content, words)
    return entries if words is None else _fitted(entries, words, content.name, asked.vocabulary)


def _fitted(entries: Iterator[Entry], words: SymbolTable, path: str, vocabulary: Vocabulary) -> Iterator[Entry]:
    """Give lattices the user's symbol table."""
    respelling: Respelling | None = None
    for key, found in entries:
        if isinstance(found, Lattice) and found.words is not words:
            try:
                if found.words is None:
                    found = vocabulary.attach(found)
                else:
                    if respelling is None:
                        from ninja.io.wording import Respelling

                        respelling = Respelling(words)
                    found = respelling(found)
            except NinjaError as error:
                error.path = error.path or path
                yield key, error
                continue
        yield key, found


def _entries_of(stream: Stream, place: Place, asked: Asked, chosen: Reader | None) -> Iterator[Entry] | None:
    """Return what a file that a script file names holds; None where it is Kaldi's."""
    reader = reader_of(stream, asked, chosen)
    return None if reader is None else _entries(Content(stream, place.path), reader, asked)


def _ahead(batches: Iterator[Batch], asked: Asked) -> Iterator[Batch]:
    if not asked.read_ahead:
        return batches
    from ninja.io.read_ahead import read_ahead

    return read_ahead(batches)
