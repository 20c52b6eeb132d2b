"""Sources of lattices, each opened once and read in batches; formats are detected by content."""

from __future__ import annotations

import os
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from ninja.errors import FormatError, NinjaError, OptionError, SymbolError
from ninja.files.cores import num_cores
from ninja.files.place import SPECIFIER, STDIN, Place, Table, matching, resolve, resolve_listed
from ninja.files.remote import is_remote
from ninja.files.stream import Stream, gives_bytes_once, look, open_stream, peek
from ninja.files.text import BOM, without_mark
from ninja.formats.content import Content, Entry
from ninja.formats.format import HEAD, Reader, by_mark, detect, of_folder
from ninja.formats.format import reader as named
from ninja.formats.kaldi import archive as kaldi
from ninja.formats.kaldi.archive import CHUNK, KALDI, KALDI_IMAGE, MAGIC, Vocabulary
from ninja.io import folder
from ninja.io.listed import LIST_HEAD, advice, by_suffix, first_rows, is_list, names_in, names_script, other_kind
from ninja.io.read_ahead import read_ahead
from ninja.io.scp_reader import ARC_BYTES, ScpReader
from ninja.lattice import Array, Lattice
from ninja.lattice.arrays import frozen
from ninja.lattice.batch import Batch
from ninja.lattice.symbols import EPSILON, SymbolTable

# What only Kaldi's own archives begin with: for the rest the catalogue is asked, which takes longer to load.
_KALDI_TEXT = re.compile(
    rb"\s*\S{1,4096}[ \t]*\n\s*\d+[ \t]+\d+[ \t]+\d+(?:[ \t]+\d+)?[ \t]+[^\s,]+,[^\s,]+(?:,[\d_]*)?\s"
)
KALDI_READ = kaldi.FORMAT.read
_FIRST = 4096 + 128  # bytes that hold a key and the begin of a lattice
_KEPT_OPEN = 256  # files of results in a folder
_TOGETHER = 64  # lattices of a batch


class Words:
    """The words of the lattices of a run.

    Args:
        table: A growing one takes in the words that files spell; of any other they must be words.
        of_ids: Finds the table of a source of ids, when the first one is met; None: `table`, where that does not grow.
        own: Lattices of a file that has a table of its own keep that one, and files may hold ids beside others.
    """

    def __init__(
        self, table: SymbolTable, of_ids: Callable[[], SymbolTable | None] | None = None, *, own: bool = False
    ) -> None:
        self.table = table
        self._own = own and table.grows
        self._of_ids = of_ids
        self._vocabulary: Vocabulary | None = None  # of ids
        self._ids_in = ""  # the first file of ids
        self._is_spelled = table.grows and len(table) > 1
        self._last: tuple[SymbolTable, Array] | None = None  # lattices of one file share their table

    @property
    def found(self) -> SymbolTable | None:
        """The table of the lattices read so far; None: they have ids alone."""
        if self._is_spelled or not self.table.grows:
            return self.table
        return None if self._vocabulary is None else self._vocabulary.words

    def vocabulary(self) -> Vocabulary:
        """Return the meaning of word ids in a file."""
        if self._vocabulary is None:
            found = None if self.table.grows else self.table
            if self._of_ids is not None and self.table.grows and not self._is_spelled:
                found = self._of_ids()
            self._vocabulary = Vocabulary.of(found)
        return self._vocabulary

    def note_ids(self, batches: Iterator[Batch], name: str) -> Iterator[Batch]:
        """Yield batches of Kaldi's lattices; refuse their ids where another file spells words."""
        for batch in batches:
            unseen = self.table.grows and not self._own and not self._ids_in
            if unseen and any(map(self._is_of_ids, batch)):
                self._ids_in = name
                self._refuse_both()
            yield batch

    def _is_of_ids(self, lattice: Lattice) -> bool:
        return lattice.words is not self.table and bool(lattice.word.any())

    def fit(self, lattice: Lattice, name: str = "") -> Lattice:
        """Return a lattice of a file with the ids of the table.

        Raises:
            SymbolError: The table lacks a word of the lattice.
            OptionError: One file holds ids, and another words.
        """
        if lattice.words is None:
            if lattice.word.any():
                self._ids_in = self._ids_in or name
                self._refuse_both()
                return self.vocabulary().attach(lattice)
            return lattice if self.table.grows else lattice.with_words(self.table)
        if self.table.grows and not self._is_spelled:
            self._is_spelled = True
            self._refuse_both()
        return lattice if lattice.words is self.table or self._own else self._respelled(lattice, lattice.words)

    def _refuse_both(self) -> None:
        if self._is_spelled and self._ids_in and not self._own:
            message = "holds ids of words, but another source spells words; say with words= (--words) what ids mean"
            raise OptionError(f"{self._ids_in} {message}")

    def _respelled(self, lattice: Lattice, own: SymbolTable) -> Lattice:
        number = self._numbers(own)
        found = frozen(number[np.minimum(lattice.word, len(number) - 1)])
        if (found < 0).any():
            lacking = own.word(int(lattice.word[np.flatnonzero(found < 0)[0]]))
            raise SymbolError(f"word {lacking!r} is not in the symbol table; is it the right one?", key=lattice.key)
        return lattice.replace(word=found, words=self.table)

    def _numbers(self, own: SymbolTable) -> Array:
        """Return this table's id of each id of another table, -1: none, int32 [largest id + 2]."""
        if self._last is None or self._last[0] is not own:
            if self.table.grows:
                self.table.merge(own)
            entries = dict(own)
            ids = np.fromiter(entries.values(), np.int64, len(entries))
            number = np.full(max(own.end_of_ids(), 1) + 1, -1, np.int32)
            number[ids] = self.table.ids(entries)
            number[EPSILON] = EPSILON
            self._last = own, number
        return self._last[1]


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options of reading files."""

    words: Words
    format: str | None = None  # with its options; None: seen from the content
    encoding: str = "utf-8"
    read_ahead: bool = True
    late: bool = False  # what is wrong with a lattice may be raised where it is used
    formats: Counter[str] = field(default_factory=Counter)  # names of the formats met, with their numbers of tables
    on_note: Callable[[str], None] = warnings.warn  # called with what is left out of a folder


class Tables:
    """Batches of the lattices of tables, one table after the other.

    A fault that ends the reading of a table is its last entry, and the next table is begun.
    """

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self.size: int | None = 0  # bytes of the files of all tables; None: not known, as of a pipe
        self.file: str | None = None  # of the last batch
        self._before = 0  # bytes of the files that have been read
        self._chosen: Reader | None = None  # None: Kaldi's, where a format was chosen
        if options.format is not None:
            found = named(options.format, options.encoding)
            self._chosen = None if found.format.read == KALDI_READ else found

    def batches(self, found: Sequence[Table]) -> Iterator[Batch]:
        """Yield the batches of tables; their positions are those in all files together."""
        sizes = [folder.size_of(table) for table in found]
        self.size = None if self.size is None or None in sizes else self.size + sum(filter(None, sizes))
        for table, size in zip(found, sizes, strict=True):
            end = self._before + (size or 0)
            yield from self._folder(table.place) if table.kind == "folder" else self._table(table)
            self._before = max(self._before, end)  # also of files that hold no lattices

    def _table(self, table: Table, opened: Stream | None = None) -> Iterator[Batch]:
        end = self._before + (folder.size_of(table) or 0)
        self.file = table.place.name
        try:
            if opened is not None:
                opened.note_input()
            with opened or open_stream(table.place) as stream, closing(self._file(stream, table)) as found:  # type: ignore[type-var]
                yield from found
        except NinjaError as error:
            if isinstance(error, OptionError):
                raise
            error.path = error.path or table.place.name
            if error.of_run:
                raise
            yield Batch.of_entries([(error.key or "", error)])
        self._before = max(self._before, end)

    def _behind(self, found: Iterator[Batch]) -> Iterator[Batch]:
        """Count the positions of a file's batches from the begin of the first file."""
        for batch in found:
            batch.position += self._before if batch.position else 0
            yield batch

    def _folder(self, place: Place) -> Iterator[Batch]:
        """Read the files of a folder that hold lattices; where there are none, those that hold results."""
        reader = of_folder(place.path, self.options.encoding) if self.options.format is None else self._chosen
        if reader is not None and reader.format.of_folder is not None:
            self.options.formats[reader.format.name] += 1
            self.file = place.path
            with open(os.devnull, "rb", buffering=0) as nothing:
                content = Content(Stream(nothing, place.path), place.path)
                yield from self._ahead(self._foreign(content, reader))
            if said := folder.lattices_beside(place.path):
                self.options.on_note(f"{place.path}: {said}")
            return
        found: Counter[str] = Counter()
        results: list[tuple[Table, Stream | None]] = []
        others = folder.below(place.path)
        companions: list[str] = []
        for path in folder.files(place.path):
            held, stream = folder.held(path) if self.options.format is None else folder.named(path)
            found[held] += 1
            if held == "results":
                results.append((Table(Place(path)), stream))
                if stream is not None and len(results) > _KEPT_OPEN:
                    stream.close()
                    results[-1] = results[-1][0], None
            elif held in ("nothing", "companion"):
                (others if held == "nothing" else companions).append(path)
            else:
                yield from self._table(Table(Place(path)), stream)
        for table, stream in results:
            if not found["lattices"]:
                yield from self._table(table, stream)
            elif stream is not None:
                stream.close()
        beside = [table.place.path for table, _ in results] if found["lattices"] else []
        if not found.keys() - {"nothing", "companion"}:
            message = "no lattices lie in this directory"
            said = folder.left_out(place.path, [*others, *companions], [])
            raise FormatError(f"{message}; {said}" if said else message, place.path)
        if said := folder.left_out(place.path, others, beside):
            self.options.on_note(f"{place.path}: {said}")

    def _file(self, stream: Stream, table: Table) -> Iterator[Batch]:
        """Read an open file, or those that it lists."""
        options = self.options
        kind: str = table.kind
        if options.format is not None or not is_kaldi(stream.head(_FIRST, is_kaldi)):
            kind = kind_of(table, stream)
        if kind == "list":
            if self.size is not None:  # its files count, not itself
                self.size -= folder.size_of(table) or 0
            files, refused = names_in(stream.rest(), stream.name)
            yield from self.batches(files)
            yield from (Batch.of_entries([("", error)]) for error in refused)
            return
        if kind == "scp":
            listed = ScpReader(self._entries_of)
            found = kaldi.script(stream, options.words.vocabulary, listed, permissive=table.permissive)
            yield from self._behind(self._ahead(options.words.note_ids(found, stream.name)))
            options.formats[KALDI] += not options.formats
            return
        reader = self._reader_of(stream)
        options.formats[KALDI if reader is None else reader.format.name] += 1
        if reader is None:
            yield from self._behind(self._kaldi(stream, table.place))
            return
        found = self._foreign(Content(stream, table.place.path, late=options.late), reader)
        assert reader.format.read is not None
        yield from self._behind(found if options.late and reader.format.read.lazy else self._ahead(found))

    def _kaldi(self, stream: Stream, place: Place) -> Iterator[Batch]:
        vocabulary = self.options.words.vocabulary()
        if stream.head(len(BOM)) == BOM:
            stream.readinto(memoryview(bytearray(len(BOM))))
            without_mark(BOM, stream.name)
            found = self._ahead(kaldi.archive(stream, vocabulary))
        elif stream.head(len(MAGIC)) == MAGIC:
            found = iter([kaldi.bare(stream, Content(stream, place.path).key, vocabulary)])
        elif not stream.is_local:
            found = self._ahead(kaldi.archive(stream, vocabulary))
        elif self.options.read_ahead and num_cores() > 1:  # on one, the system's own reading ahead is all that helps
            found = kaldi.plain_file(stream, vocabulary)
        else:
            found = kaldi.archive(stream, vocabulary)
        yield from self.options.words.note_ids(found, stream.name)

    def _foreign(self, content: Content, reader: Reader) -> Iterator[Batch]:
        """Read a file that is not Kaldi's."""
        entries: list[Entry] = []
        size = position = 0
        try:
            for key, found in self._entries(content, reader):
                entries.append((key, found))
                position = content.stream.position
                size += 0 if isinstance(found, NinjaError) else ARC_BYTES * found.num_arcs
                if size >= CHUNK or len(entries) == _TOGETHER:
                    yield Batch.of_entries(entries, size=size, position=position)
                    entries, size = [], 0
        except NinjaError:  # it ends the reading of this file; what comes before is sound
            if entries:
                yield Batch.of_entries(entries, size=size, position=position)
            raise
        if entries:
            yield Batch.of_entries(entries, size=size, position=position)

    def _entries(self, content: Content, reader: Reader) -> Iterator[Entry]:
        """Read the lattices of a file as they are asked for."""
        words = self.options.words
        for key, found in reader.entries(content, words.table):
            if isinstance(found, Lattice):
                try:
                    found = words.fit(found, content.name)
                except OptionError:
                    raise
                except NinjaError as error:
                    error.path = error.path or content.name
                    found = error
            yield key, found

    def _reader_of(self, stream: Stream) -> Reader | None:
        """Return the format of a file of which nothing is taken yet; None: Kaldi's, or unknown."""
        if self.options.format is not None:
            return self._chosen
        if is_kaldi(stream.head(_FIRST, is_kaldi)):
            return None
        return recognised(stream.head(HEAD), stream.name, self.options.encoding)

    def _entries_of(self, stream: Stream, place: Place) -> Iterator[Entry] | None:
        """Return the entries of a file that a script file names; None where it is Kaldi's."""
        reader = self._reader_of(stream)
        self.options.formats.setdefault(KALDI if reader is None else reader.format.name, 1)
        return None if reader is None else self._entries(Content(stream, place.path), reader)

    def _ahead(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        return read_ahead(batches) if self.options.read_ahead else batches


def holds_lattices(source: str | Table) -> bool:
    """Tell, by its first bytes, whether the first file of a source holds lattices rather than transcripts."""
    (table, *_) = tables(source, allow_pipes=True)
    place = table.place
    if table.kind == "folder":
        return True
    if place.command is not None:
        return False
    try:
        if gives_bytes_once(place.path):
            if place.plain:
                return False
            head = peek(place.path, HEAD, is_kaldi)
        else:
            with look(place.path) as stream:
                head = stream.head(HEAD)
        if table.kind == "any" and (names_script(head[:LIST_HEAD]) or is_list(head[:LIST_HEAD])):
            return any(map(holds_lattices, _first_listed(head, place.name)))
        return is_kaldi(head) or recognised(head, place.name) is not None
    except NinjaError:
        return folder.needs_content(place.name)  # reading it says what is wrong


def _first_listed(head: bytes, listed_in: str) -> list[Table]:
    """Return the first file that a list or a script file names, as no list itself; none if it may not name it."""
    row = first_rows(head[:LIST_HEAD])[0]
    if not names_script(head[:LIST_HEAD]):
        return names_in(row, listed_in)[0]
    name = os.fsdecode(row.split(None, 1)[1])
    return [Table(place) for place in resolve_listed(name, listed_in)]


def recognised(head: bytes, name: str, encoding: str = "utf-8") -> Reader | None:
    """Return the format of a file by its first bytes; None if it is Kaldi's or unknown.

    Raises:
        FormatError: It is packed, empty, or something else that is no file of lattices.
    """
    if not head.removeprefix(BOM).strip() and folder.needs_content(name):
        raise FormatError("the file is empty, which no file of this name is: was it being written?", name)
    found = detect(head, name)
    if (found is None or found.name == "text") and by_mark(head) is None:  # .txt says little
        said = (advice(head, name) if found is None else None) or other_kind(head)
        if said is not None:
            raise FormatError(said, name)
    return None if found is None or found.read == KALDI_READ else Reader.of(found, {}, encoding)


def is_kaldi(head: bytes) -> bool:
    """Tell whether a file begins as an archive of Kaldi's."""
    return KALDI_IMAGE.match(head) is not None or _KALDI_TEXT.match(head) is not None


Source = str | os.PathLike[str] | Table | Sequence[str | os.PathLike[str] | Table]

LARGEST_LIST = 1 << 24  # bytes of a list that is looked into before it is read
_READ_OPTIONS = {"ark", "scp", "b", "t", "o", "no", "p", "np", "s", "ns", "cs", "ncs", "bg"}


def tables(source: Source, *, allow_pipes: bool = False) -> list[Table]:
    """List the tables that a source consists of, none of which is opened.

    Args:
        source: A path, a directory, a list of files, ``-``, a pattern (``lat.*.gz``, ``lat.JOB.gz``), a Kaldi
            rspecifier, or several of these. A path-like object is a path, whatever its letters.
        allow_pipes: Run commands other than ``gunzip -c``, ``zcat`` and ``cat`` in a shell.

    Raises:
        FormatError: A command where none is allowed.
        InputError: A pattern that no file matches.
        OptionError: An unknown option in an rspecifier.

    Source: Kaldi util/kaldi-table.cc (ClassifyRspecifier), util/kaldi-io.cc (ClassifyRxfilename).
    """
    if isinstance(source, Table):
        return [source]
    if isinstance(source, os.PathLike):
        return _of_path(os.fspath(source))
    if not isinstance(source, str):
        return [table for each in source for table in tables(each, allow_pipes=allow_pipes)]
    if source == STDIN:
        return [Table(Place(STDIN), "any")]
    named = SPECIFIER.fullmatch(source)
    if named is None or os.path.exists(source):
        return _of_path(source)
    options = [option for option in re.split("[, ]+", named[1]) if option]
    unknown = [option for option in options if option not in _READ_OPTIONS]
    kinds = [option for option in options if option in ("ark", "scp")]
    if unknown:
        raise OptionError(f"rspecifier {source!r} has the unknown option {unknown[0]!r}")
    if len(kinds) != 1:
        raise OptionError(f"rspecifier {source!r} must say 'ark' or 'scp' once")
    kind: Literal["ark", "scp"] = "ark" if kinds[0] == "ark" else "scp"
    places = resolve(named[2].strip(), allow_pipes=allow_pipes)
    return [Table(place, kind, permissive="p" in options) for place in places]


def _of_path(path: str) -> list[Table]:
    if os.path.isdir(path):
        return [Table(Place(path), "folder")]
    if path.endswith("|"):
        return [Table(place) for place in resolve(path, advise=False)]  # refused, or one of the harmless commands
    if os.path.isfile(path):
        return [Table(Place(path), by_suffix(path) or "any")]
    found = matching(path)
    if is_remote(path) and [each.path for each in found] == [path]:
        return [Table(found[0], "folder" if path.endswith("/") else by_suffix(path) or "any")]
    return [Table(place, by_suffix(place.path) or "ark") for place in found]


def kind_of(table: Table, stream: Stream) -> Literal["ark", "scp", "list"]:
    """Tell by the beginning of a file whether it is a table, a script file, or a list of files."""
    if table.kind != "any":
        return "scp" if table.kind == "scp" else "ark"
    head = stream.head(LIST_HEAD, lambda head: head.lstrip().count(b"\n") > 1 or b"\0" in head)
    if not stream.seekable:
        head = head[: head.rfind(b"\n") + 1] or head  # the last line may go on
    return "scp" if names_script(head) else "list" if is_list(head) else "ark"


def look_into(table: Table) -> tuple[Literal["ark", "scp", "list"], bytes]:
    """Tell what a table is before it is read; of a list or a script file also return the content, else b"".

    Pipes, and files that cannot be read, are taken for archives: reading them tells what is wrong.
    """
    place = table.place
    if table.kind not in ("any", "scp") or place.command is not None or gives_bytes_once(place.path):
        return "ark", b""
    try:
        with look(place.path) as stream:
            kind = kind_of(table, stream)
            content = b"" if kind == "ark" else stream.head(min(stream.bytes_left, LARGEST_LIST))
    except NinjaError:
        return "ark", b""
    return kind, content if len(content) < LARGEST_LIST else content[: content.rfind(b"\n") + 1]


def open_tables(source: Source, *, allow_pipes: bool = False) -> Iterator[tuple[Table, Stream]]:
    """Open the files of a source one after the other, those that a list names in the list's place."""
    for table in tables(source, allow_pipes=allow_pipes):
        with open_stream(table.place) as stream:
            kind = kind_of(table, stream)
            if kind != "list":
                yield replace(table, kind=kind), stream
                continue
            listed, refused = names_in(stream.rest(), stream.name)
        yield from open_tables(listed)
        if refused:
            raise refused[0]
