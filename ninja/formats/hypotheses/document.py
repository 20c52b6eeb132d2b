"""Rewriting of input files: corrected words replace the old ones, and all other content is kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

from ninja.errors import FormatError, InputError, LatticeError, OutputError, counted
from ninja.files.stream import BOM, Place, open_stream
from ninja.formats.content import Content, numbered_lines
from ninja.formats.format import WriteSettings
from ninja.formats.nbest.writing import ListOptions
from ninja.lattice.lattice import Origin
from ninja.lattice.nbest import NBest

CHANGED = "the file has changed since it was read; run the command again"


@dataclass(frozen=True, slots=True, eq=False)
class Document:
    """An input file that will be rewritten with corrected words.

    The file is divided into entries: either each line is an entry, or the whole file is a single entry.
    """

    name: str  # for messages
    format: str  # name of the format
    content: bytes | None  # the whole file; None if the file will be read again from its path
    path: str
    encoding: str = "utf-8"
    has_lines: bool = False  # True: each line is an entry, numbered from 1; False: the whole file is entry 0
    options: Any = None  # options of the reader

    @classmethod
    def of(cls, content: Content, format: str, *, has_lines: bool = False, options: Any = None) -> Document:
        """Create the document for a file that will be read.

        If each line of a file is an entry, the file is read again when it is rewritten. All other files, and files that
        cannot be read twice, stay in memory.
        """
        encoding = getattr(options, "encoding", "utf-8")
        document = cls(content.name, format, None, content.path, encoding, has_lines, options)
        if has_lines and os.path.isfile(content.path):
            return document
        has_mark = content.stream.head(len(BOM)) == BOM
        if has_mark:  # skip the byte order mark without a warning, because the output keeps it
            content.stream.readinto(memoryview(bytearray(len(BOM))))
        whole = content.whole()
        return replace(document, content=BOM + whole if has_mark else whole)

    def entries(self) -> Iterator[tuple[int, bytes]]:
        """Yield ``(number, bytes)`` for each entry; concatenated, the bytes of all entries form the file.

        Raises:
            InputError: The file cannot be read again.
        """
        if not self.has_lines:
            if self.content is None:
                with open_stream(Place(self.path)) as stream:
                    yield 0, stream.rest()
            else:
                yield 0, self.content
            return
        if self.content is not None:
            yield from _lines(numbered_lines(self.content))
            return
        with open_stream(Place(self.path)) as stream:
            mark = BOM if stream.head(len(BOM)) == BOM else b""
            for number, line in _lines(numbered_lines(Content(stream, self.path).blocks())):
                yield number, mark + line if number == 1 else line


def _lines(lines: Iterator[tuple[int, bytes, bool]]) -> Iterator[tuple[int, bytes]]:
    return ((number, line + b"\n" if has_end else line) for number, line, has_end in lines)


class Rewritten(NamedTuple):
    """An entry of a document after correction."""

    content: bytes
    num_utterances: int  # number of utterances in the entry
    num_unmatched: int = 0  # number of corrections that were skipped because a text differs from its utterance's words


# New hypotheses of utterances, best first, keyed by the index of the utterance in the entry.
Corrections = Mapping[int, NBest]
# Function of an entry, its new hypotheses and its document that returns the entry with the new words. An entry without
# new hypotheses is returned unchanged.
Rewrite = Callable[[bytes, Corrections, Document], Rewritten]


class DocumentEncoder:
    """Encoder that rewrites documents, replacing the words of each utterance with its best hypothesis.

    Utterances that are not added keep their original words. An entry is a line of the file or, in other formats, the
    whole file. Utterances must be added in the order of their entries, but in any order within an entry.
    """

    def __init__(self, settings: WriteSettings, format: str, rewrite: Rewrite) -> None:
        self._settings = settings
        self._format = format
        self._rewrite = rewrite
        self._originals = list(settings.originals)
        self._document: Document | None = None
        self._entries: Iterator[tuple[int, bytes]] = iter(())
        self._entry: tuple[int, bytes] | None = None  # the entry whose corrections are being collected
        self._corrections: dict[int, NBest] = {}
        self._written: set[str] = set()
        self._num_kept = self._num_unmatched = 0

    def add(self, nbest: NBest) -> bytes:
        """Add the hypotheses of an utterance; return the unwritten entries that precede the entry of the utterance.

        Raises:
            LatticeError: The lattice was not read from a file in this format, later entries in its file were already
                written, or the utterance was added before.
            OutputError: The lattice is from a second file and files in this format cannot be joined, or utterances of
                another file were added between the utterances of its file.
            InputError: The file has changed since it was read.
        """
        origin = origin_of(nbest, self._format)
        content = b""
        if self._document is None or origin.document.name != self._document.name:
            if self._document is not None and not (self._document.has_lines and origin.document.has_lines):
                both = f"{self._document.name} and {origin.document.name}"
                message = f"{self._format} files contain one recording, but the output would contain {both}"
                raise OutputError(f"{message}; specify a folder to write one output file per recording")
            content = self._rest() + self._before(origin.document)
            self._begin(origin.document)
        content += self._up_to(origin, nbest.key)
        if origin.place in self._corrections:
            raise LatticeError("the utterance is already in the output", key=nbest.key)
        self._corrections[origin.place] = nbest
        return content

    def end(self) -> bytes:
        """Return the rest of the current file, followed by the remaining files without changes."""
        return self._rest() + self._before(None)

    def notes(self) -> list[str]:
        """Return messages about utterances that were not changed and about corrections that were not applied."""
        notes = []
        if self._num_kept:
            subject = counted(self._num_kept, "utterance keeps its", "utterances keep their")
            notes.append(f"{subject} original words, because no lattice was written to replace them")
        if self._num_unmatched:
            subject = counted(self._num_unmatched, "correction was", "corrections were")
            notes.append(
                f"{subject} not applied to a text or word list whose words differ from the words of the utterance"
            )
        return notes

    def _begin(self, document: Document) -> None:
        if document.path in self._written:
            raise OutputError(
                "utterances of another file were written between the utterances of this file; write one file at a time",
                document.name,
            )
        self._document = document
        self._written.add(document.path)
        self._entries = document.entries()
        self._entry = next(self._entries, None)

    def _up_to(self, origin: Origin, key: str) -> bytes:
        """Return the entries that precede the entry of an utterance and have not been written."""
        pieces = []
        while self._entry is not None and self._entry[0] < origin.entry:
            pieces.append(self._next())
        if self._entry is None:
            raise InputError(CHANGED, origin.document.name)
        if self._entry[0] > origin.entry:
            message = f"line {origin.entry} is out of order; write the utterances in the order of their file"
            raise LatticeError(message, key=key)
        return b"".join(pieces)

    def _next(self) -> bytes:
        """Return the current entry with its corrections applied, and advance to the next entry."""
        assert self._entry is not None
        assert self._document is not None
        content = self._entry[1]
        try:
            rewritten = self._rewrite(content, self._corrections, self._document)
        except FormatError as error:
            if self._corrections:
                raise InputError(CHANGED, self._document.name) from error
            rewritten = Rewritten(content, 1)  # keep a damaged line, which was reported when the file was read
        self._num_kept += rewritten.num_utterances - len(self._corrections)
        self._num_unmatched += rewritten.num_unmatched
        self._corrections = {}
        self._entry = next(self._entries, None)
        return rewritten.content

    def _rest(self) -> bytes:
        """Return the entries of the current document that have not been written yet."""
        pieces = []
        while self._entry is not None:
            pieces.append(self._next())
        return b"".join(pieces)

    def _before(self, document: Document | None) -> bytes:
        """Return the contents of unwritten files: the files before `document`, or all files if `document` is None."""
        pieces = []
        is_known = document is None or document.path in self._originals
        while is_known and self._originals:
            path = self._originals.pop(0)
            if document is not None and path == document.path:
                break
            if path not in self._written and (self._document is None or self._document.has_lines):
                document_of_path = Document(path, self._format, None, path, self._settings.encoding, has_lines=True)
                self._begin(document_of_path)
                pieces.append(self._rest())
        return b"".join(pieces)


def origin_of(nbest: NBest, format: str) -> Origin:
    """Return the origin of an n-best list: the file and the entry from which it was read.

    Raises:
        LatticeError: The list was not read from a file in this format.
    """
    origin = None if nbest.record is None else nbest.record.origin
    if origin is None or origin.document.format != format:
        message = f"the lattice is not from a {format} file, and only such files can be rewritten as {format}"
        raise LatticeError(f"{message}; write JSON lines (.jsonl)", key=nbest.key)
    return origin


@dataclass(frozen=True, slots=True)
class DocumentOptions(ListOptions):
    """Options for writing documents, such as the scales for selecting the best hypothesis."""

    default_n: ClassVar[int] = 1
