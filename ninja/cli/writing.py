"""Lattices on their way to a file of any format."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ninja.cli.options import Destination as Options
from ninja.cli.options import check_files
from ninja.cli.source import Source
from ninja.cli.weighing import weighed
from ninja.cli.word_tables import WORDS_NAMES, find_words, words_beside
from ninja.errors import LatticeError, NinjaError, OptionError, SymbolError
from ninja.lattice import Kind, Lattice, Scales

if TYPE_CHECKING:
    from ninja.io.writing.output import Output
    from ninja.lattice.symbols import SymbolTable

ALL_PATHS = 100_000  # of a lattice, where all are wanted; more are refused


class Taking:
    """An output that takes lattices, and makes of them what its format holds.

    Args:
        output: Opened for writing.
        source: Its console counts lattices that cannot be written.
        names_go: Why the ids of words may not lose their names, where these will stand nowhere; None: they will.
        unnamed: What is wrong where words have no names, although the format spells them; None: not known.
        table: A symbol table of the words is written, too.
    """

    def __init__(
        self,
        output: Output,
        source: Source,
        *,
        names_go: OptionError | None = None,
        unnamed: OptionError | None = None,
        table: bool = False,
    ) -> None:
        self.keys: Counter[str] = Counter()
        self.words: SymbolTable | None = None  # of the last lattice that was written
        self.has_written = False  # a lattice
        self._output = output
        self._source = source
        self._names_go = names_go
        self._unnamed = unnamed
        self._table = table
        self._seen: tuple[SymbolTable | None, int] = None, 0  # the last table of words, and how long it was
        self._outside: dict[int, str] = {}  # words of that table which a file of words and ids cannot hold

    @property
    def keys_done(self) -> Counter[str]:
        """How often keys stand in the output already."""
        return self._output.keys_done

    def take(self, lattice: Lattice) -> bool:
        """Write a lattice; tell whether that was possible."""
        self.keys[lattice.key] += 1
        if self._names_go is not None and lattice.words is not None:
            raise self._names_go
        try:
            if self._table and lattice.words is not None:
                self._check_words(lattice, lattice.words)
            self._output.write(self._made(lattice), key=lattice.key)
        except NinjaError as error:
            if self._unnamed is not None and isinstance(error, SymbolError) and lattice.words is None:
                raise self._unnamed from error
            if error.key is None or self._source.on_error == "raise":  # without a key it is the end of the output
                raise
            self._source.console.log.fail(error)
            return False
        self.words, self.has_written = lattice.words, True
        return True

    def _check_words(self, lattice: Lattice, words: SymbolTable) -> None:
        """Refuse a lattice of words that cannot stand in the symbol table.

        Raises:
            SymbolError: There is one.
        """
        from ninja.io.wording import is_one_field
        from ninja.lattice.word_ids import used_words

        if self._seen[0] is not words or self._seen[1] != len(words):
            self._seen = words, len(words)
            self._outside = {number: word for word, number in words if not is_one_field(word)}
        for number in used_words(lattice) if self._outside else ():
            if number in self._outside:
                instead = "write a format that spells words" if self._output.needs_words else "leave --words-out out"
                what = "has blanks" if self._outside[number] else "is empty"
                message = f"the word {self._outside[number]!r} {what}, which no symbol table can hold; {instead}"
                places = self._source.places
                path = places[0] if len(places) == 1 and places[0] != "-" else None
                raise SymbolError(message, path, key=lattice.key)

    def _made(self, lattice: Lattice) -> Any:
        wants = self._output.wants
        if wants.kind == "nbest":
            from ninja.graph import lattice_nbest

            # Where ids are written, so are alignments, which say the times themselves.
            lattice = lattice.with_words(None) if self._output.needs_words else timed(lattice)
            found = lattice_nbest(
                lattice, wants.n or ALL_PATHS + 1, Scales(wants.acoustic_scale, wants.lm_scale, wants.word_penalty)
            )
            if not wants.n and len(found.hypotheses) > ALL_PATHS:
                raise LatticeError(f"more than {ALL_PATHS} paths; say how many are wanted (n=…)", key=lattice.key)
            return found
        if wants.kind == "mesh":
            from ninja.consensus import lattice_mesh

            if lattice.words is None and lattice.word.any():
                raise SymbolError("the words of the lattice have no names; give their symbol table", key=lattice.key)
            return lattice_mesh(lattice, wants.acoustic_scale, wants.lm_scale)
        return lattice


def timed(lattice: Lattice) -> Lattice:
    """Return a lattice with the times that its alignments give, if it has no times and they give any."""
    from ninja.cli.kaldi.mbr_decode import DEFAULT_FRAME_SHIFT
    from ninja.graph import state_times

    if lattice.time is not None or not lattice.has_labels:
        return lattice
    try:
        time = np.maximum(state_times(lattice), 0)  # -1: no path leads there
    except LatticeError:  # they do not count frames
        return lattice
    return lattice.replace(time=time, frame_shift=lattice.frame_shift or DEFAULT_FRAME_SHIFT)


@contextmanager
def opened(options: Options, source: Source, *, kind: Kind | None = None) -> Iterator[Taking]:
    """Open a file of the format that the user wants, in a ``with`` block; a terminal gets text.

    When the block is left, the symbol table is written where it is needed, and said what the format does not hold.

    Raises:
        OptionError: The target makes no sense, or the words' ids would lose their names.
    """
    from ninja.files.pipes import gives_bytes_once
    from ninja.io import write
    from ninja.io.sources import STDIN as STDOUT
    from ninja.io.targets import KALDI, format_of
    from ninja.io.targets import target as understood

    target = options.output_file
    if target == STDOUT and sys.stdout.isatty() and options.to is None:
        target = "ark,t:-"
    chosen = understood(target)
    lattices = {os.path.realpath(each) for each in (chosen.archive, *source.places) if each != STDOUT}
    for name, what in ((chosen.script, "script file"), (options.words_out, "symbol table")):
        if name is not None and os.path.realpath(name) in lattices:
            raise OptionError(f"{name}: the {what} would be written over lattices; give it another name")
    if options.words_out is not None and chosen.script is not None:
        check_files([chosen.script, options.words_out])
    if format_of(target, options.to)[0] not in KALDI:
        kind = None
    to, note = weighed(target, options.to)
    output = write(target, resume=options.resume, kind=kind, to=to, lossy=options.lossy)
    if output.needs_words:
        _check_words(source, options, target)
    names_go = None
    if output.needs_words and source.words is None and options.words_out is None and gives_bytes_once(chosen.archive):
        where = "on the standard output" if chosen.archive == STDOUT else f"in {chosen.archive}"
        message = f"the words' ids would lose their names {where}; give --words, --words-out FILE, or --to a format "
        names_go = OptionError(message + "that spells words") if chosen.archive != os.devnull else None
    table_too = options.words_out is not None or (output.needs_words and chosen.archive != os.devnull)
    taking = Taking(output, source, names_go=names_go, unnamed=find_names(source, options), table=table_too)
    with output:
        yield taking
    table = taking.words
    if table is None and (not taking.has_written or options.words_out is not None):  # else ids mean something else now
        table = source.table()
    path = place_of_words(source, options, target) if output.needs_words else options.words_out
    if path is not None and table is not None:
        write_words(table, path)
        if options.words_out is None:
            source.console.say(f"the words and their ids are in {path}")
    elif options.words_out is not None:
        source.console.say(f"{options.words_out} is not written: nothing says what the words are called")
    again = [key for key, count in taking.keys.items() if count > 1]
    if again:
        source.console.say_keys(again, "keys stand there more than once")
        source.console.repeated.clear()  # that is said
    if note is not None and taking.has_written:
        source.console.say(note)
    for what, count in sorted(output.lost.items()):
        source.console.say(f"lost, which the format does not hold: {what} ({count} lattices)")


def find_names(source: Source, options: Options) -> OptionError | None:
    """Look for the table of words that have ids only, where a format is written that spells them.

    To be asked before lattices are read.

    Returns:
        What is wrong if words turn out to have no names; None: a table was found, or none is needed.
    """
    from ninja.io.targets import KALDI, format_of

    form, values = format_of(options.output_file, options.to)
    if form in (*KALDI, "native") or not source.are_lattices:
        return None
    from ninja.io.writing.formats import FORMATS

    if (FORMATS[form].ids and values.get("labels") != "words") or source.table() is not None:
        return None
    try:
        source.words = find_words(source.places)
    except OptionError as error:
        return error
    source.console.say(f"words of {source.words}")
    return None


def place_of_words(source: Source, options: Options, target: str) -> str | None:
    """Return where the symbol table goes: as ``--words-out`` says; one of the sources' own words beside the archive.

    A table of ``--words`` goes there, too, if one lies there, which would be taken for the new archive's; so does one
    that lay beside another archive. Beside the standard output, a pipe or a device there is no place.
    """
    from ninja.files.pipes import gives_bytes_once
    from ninja.io.targets import target as understood

    archive = understood(target).archive
    if options.words_out is not None or gives_bytes_once(archive):
        return options.words_out
    beside = os.path.join(archive, WORDS_NAMES[0]) if os.path.isdir(archive) else words_beside(archive)
    own = source.words is None or source.words == words_beside(source.places[0])
    return beside if own or os.path.isfile(beside) else None


def _check_words(source: Source, options: Options, target: str) -> None:
    """Refuse, before anything is written, what would leave ids under the names of another table.

    Raises:
        OptionError: Says what to do.
    """
    if source.words is None and options.resume and source.table() is not None:
        raise OptionError("--resume needs --words here: the words would get other ids than in what is written already")
    place = place_of_words(source, options, target)
    if place is None or options.words_out is not None or not os.path.isfile(place):
        return
    table = source.table()
    if table is None:
        raise OptionError(f"{place} would be taken for the new lattices' symbol table; move it away")
    if os.path.basename(place) == WORDS_NAMES[0]:
        from ninja.lattice.symbols import SymbolTable

        if SymbolTable.read(place) != SymbolTable(_held(table)):
            raise OptionError(f"{place} is another symbol table; name a folder without one, or give it as --words")


def write_words(table: SymbolTable, path: str) -> None:
    """Write a symbol table as Kaldi's ``words.txt``, without words that it cannot hold."""
    from ninja.files.output import opened_as_text

    with opened_as_text(path) as file:
        file.writelines(f"{word} {number}\n" for word, number in _held(table))


def _held(table: SymbolTable) -> Iterator[tuple[str, int]]:
    """Yield the words, with their ids, that can stand in a file of words and ids."""
    from ninja.io.wording import is_one_field

    return ((word, number) for word, number in table if is_one_field(word))
