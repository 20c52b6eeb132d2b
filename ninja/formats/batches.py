"""Tables of every format read in batches: what a file holds is seen from how it begins."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ninja.errors import FormatError, LatticeError, NinjaError, OptionError
from ninja.formats import kaldi
from ninja.formats.content import BOM, Content
from ninja.formats.kaldi import CHUNK, MAGIC, Batch, Vocabulary
from ninja.formats.sources import STDIN, Place, Table, resolve
from ninja.formats.streams import Stream, open_stream, peek_standard_input
from ninja.lattice import Lattice
from ninja.symbols import SpelledTable

if TYPE_CHECKING:
    from ninja.formats.catalogue import Reader
    from ninja.formats.wording import Respelling

KALDI = "kaldi"
ARC_BYTES = 20  # of a lattice in memory, about
# What only Kaldi's own archives begin with: for the rest the catalogue is asked, which takes longer to load.
_KALDI_IMAGE = re.compile(rb"(?:\s*\S{1,4096}[ \t])?" + MAGIC + rb".{4,60}?lattice", re.DOTALL)
_KALDI_TEXT = re.compile(
    rb"\s*\S{1,4096}[ \t]*\n\s*\d+[ \t]+\d+[ \t]+\d+(?:[ \t]+\d+)?[ \t]+[^\s,]+,[^\s,]+(?:,[\d_]*)?\s"
)
_FIRST = 4096 + 128  # bytes that hold a key and the begin of a lattice


@dataclass(frozen=True, slots=True)
class Asked:
    """How the user wants files to be read."""

    vocabulary: Vocabulary
    format: str | None = None  # with its options; None: seen from the content
    encoding: str = "utf-8"
    refuse_loss: bool = False  # a lattice of which reading loses something is an error
    read_ahead: bool = True


def batches(tables: Sequence[Table], asked: Asked) -> Iterator[Batch]:
    """Read tables one after the other; what breaks one off is its last entry, and the next one is begun."""
    found = _batches(tables, asked)
    return _refused(found, asked.vocabulary) if isinstance(asked.vocabulary.words, SpelledTable) else found


def _refused(batches: Iterator[Batch], vocabulary: Vocabulary) -> Iterator[Batch]:
    """Refuse lattices of ids where the words are those that other files spell."""
    with closing(batches):  # type: ignore[type-var]
        for batch in batches:
            for place, (key, found) in enumerate(batch.entries):
                if isinstance(found, Lattice) and found.words is None:
                    try:
                        batch.entries[place] = (key, vocabulary.attach(found))
                    except NinjaError as error:
                        batch.entries[place] = (key, error)
                        batch.faulty = True
            yield batch


def _batches(tables: Sequence[Table], asked: Asked) -> Iterator[Batch]:
    chosen = _chosen(asked)
    for table in tables:
        try:
            if table.kind == "scp":
                script = kaldi.script(table, asked.vocabulary, lambda *given: _listed(asked, chosen, *given))
                yield from _ahead(script, asked)
            elif table.kind == "folder":
                yield from _folder(table.place, asked, chosen)
            else:
                yield from _file(table.place, asked, chosen)
        except OptionError:  # it would be as wrong for any other file
            raise
        except NinjaError as error:
            yield Batch([(error.key or "", error)], 0, True)


def reader_of(stream: Stream, asked: Asked, chosen: Reader | None = None) -> Reader | None:
    """Return the format of what a stream, whose first bytes are not taken yet, holds; None: Kaldi's, or nobody's.

    Raises:
        FormatError: Two formats begin like that.
    """
    if asked.format is not None:
        return chosen
    if _is_kaldi(stream.head(_FIRST, _is_kaldi)):
        return None
    from ninja.formats.catalogue import HEAD, recognised

    return recognised(stream.head(HEAD), stream.name, asked.encoding)


def spells(table: Table, asked: Asked) -> bool | None:
    """Tell whether a table may spell its words, which Kaldi's archives do not; of a script file, by the first file.

    The standard input is kept in memory if it does.

    Returns:
        None: nobody can tell, since it cannot be read, or holds no lattices.
    """
    if table.place.command is not None or _gives_bytes_once(table.place.path):
        return False
    name = format_name(table, asked)
    if table.place.path == STDIN and name not in (None, KALDI):
        peek_standard_input(None)
    return None if name is None else name != KALDI


def format_name(table: Table, asked: Asked) -> str | None:
    """Return the format of a table, of a script file that of the first file; None: nobody can tell beforehand."""
    chosen = _chosen(asked)
    if asked.format is not None:
        return KALDI if chosen is None else chosen.format.name
    if table.kind == "folder":
        return "espnet"
    try:
        if table.place.command is not None or _gives_bytes_once(table.place.path):
            return None
        if table.place.path == STDIN:
            if _is_kaldi(peek_standard_input(_FIRST, _is_kaldi)):
                return KALDI
            from ninja.formats.catalogue import HEAD, recognised

            known = recognised(peek_standard_input(HEAD), STDIN, asked.encoding)
            return None if known is None else known.format.name
        if table.kind == "scp":
            first = next((line for _, line in kaldi.rows(table.place) if line.strip()), "")
            places = resolve(first.split(None, 1)[-1].strip())
            if len(places) != 1:
                return None
            if places[0].offset:
                return KALDI
            table = Table(places[0])
        with open_stream(table.place) as stream:
            reader = reader_of(stream, asked)
            if reader is not None:
                return reader.format.name
            return KALDI if _is_kaldi(stream.head(_FIRST, _is_kaldi)) else None
    except NinjaError:
        return None


def _gives_bytes_once(path: str) -> bool:
    return path != STDIN and os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def _is_kaldi(head: bytes) -> bool:
    return _KALDI_IMAGE.match(head) is not None or _KALDI_TEXT.match(head) is not None


def _chosen(asked: Asked) -> Reader | None:
    if asked.format is None:
        return None
    from ninja.formats.catalogue import named

    return named(asked.format, asked.encoding)


def _file(place: Place, asked: Asked, chosen: Reader | None) -> Iterator[Batch]:
    with open_stream(place) as stream:
        reader = reader_of(stream, asked, chosen)
        if reader is not None:
            yield from _ahead(_foreign(Content(stream, place.path), reader, asked), asked)
        elif stream.head(len(BOM)) == BOM:
            stream.readinto(memoryview(bytearray(len(BOM))))
            yield from _ahead(kaldi.archive(stream, asked.vocabulary), asked)
        elif stream.head(len(MAGIC)) == MAGIC:
            yield kaldi.bare(stream, Content(stream, place.path).key, asked.vocabulary)
        elif asked.read_ahead and stream.seekable:
            yield from kaldi.plain_file(stream, asked.vocabulary)
        else:
            yield from _ahead(kaldi.archive(stream, asked.vocabulary), asked)


def _folder(place: Place, asked: Asked, chosen: Reader | None) -> Iterator[Batch]:
    """Read a folder that is one source by itself, ESPnet's."""
    from ninja.formats.catalogue import named

    reader = chosen or named("espnet", asked.encoding)
    assert reader is not None
    with open(os.devnull, "rb", buffering=0) as nothing:
        content = Content(Stream(nothing, place.path), place.path)
        yield from _ahead(_foreign(content, reader, asked), asked)


def _foreign(content: Content, reader: Reader, asked: Asked) -> Iterator[Batch]:
    """Read a file that is not Kaldi's."""
    batch = Batch()
    for key, found in _entries(content, reader, asked):
        batch.entries.append((key, found))
        if isinstance(found, NinjaError):
            batch.faulty = True
        else:
            batch.size += ARC_BYTES * found.num_arcs
        if batch.size >= CHUNK or len(batch.entries) == 64:
            yield batch
            batch = Batch()
    if batch.entries:
        yield batch


def _entries(content: Content, reader: Reader, asked: Asked) -> Iterator[tuple[str, Lattice | NinjaError]]:
    """Read the lattices of a file, give them the user's symbol table, and refuse losses where that is asked for."""
    words = asked.vocabulary.words
    respelling: Respelling | None = None
    losses: dict[str, Sequence[str]] = {}
    entries = reader.entries(content, words, losses.__setitem__ if asked.refuse_loss else None)
    for key, found in entries:
        lost = losses.pop(key, ())
        if isinstance(found, Lattice) and lost:
            message = f"reading it as {reader.format.name} loses {'; '.join(lost)}; allow it with --lossy allow"
            yield key, LatticeError(message, content.name, key=key)
            continue
        if isinstance(found, Lattice) and words is not None and found.words is not words:
            try:
                if found.words is None:
                    found = asked.vocabulary.attach(found)
                else:
                    if respelling is None:
                        from ninja.formats.wording import Respelling

                        respelling = Respelling(words)
                    found = respelling(found)
            except NinjaError as error:
                error.path = error.path or content.name
                yield key, error
                continue
        yield key, found


def _listed(asked: Asked, chosen: Reader | None, stream: Stream, key: str) -> Lattice | NinjaError | None:
    """Return the lattice that a line of a script file names, where its file is not Kaldi's; None where it is.

    Of a file with one lattice it is that one, of others the one with the line's key.
    """
    reader = reader_of(stream, asked, chosen)
    if reader is None:
        return None
    content = Content(stream, stream.name)
    first: Lattice | NinjaError | None = None
    several = False
    for found_key, found in _entries(content, reader, asked):
        if found_key == key:
            return found
        first, several = first or found, first is not None
    if first is None:
        return FormatError("there is no lattice in this file", content.name, key=key)
    if several:
        return FormatError("the file holds several lattices, but none with this key", content.name, key=key)
    return first.with_key(key) if isinstance(first, Lattice) else first


def _ahead(batches: Iterator[Batch], asked: Asked) -> Iterator[Batch]:
    if not asked.read_ahead:
        return batches
    from ninja.formats.ahead import ahead

    return ahead(batches)
