"""Base class of all writers: checks and converts lattices, writes their words, and collects notes about the output."""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import replace
from types import TracebackType
from typing import Any, Literal, NamedTuple, TypeVar

from ninja.errors import LatticeError, OptionError, OutputError, SymbolError, counted, named
from ninja.files.output import LONGEST_NAME, Facts, opened_as_text
from ninja.files.stream import STDIN as STDOUT
from ninja.files.stream import Guard, is_file, is_read_once
from ninja.formats.format import FIELDS, Format, WriteSettings
from ninja.io.companions import BESIDE, TABLE_NAMES, ChosenScales, ScalesOutput, table_beside
from ninja.io.losses import COSTS, Item, converted, lost_of_lattice, lost_of_list
from ninja.lattice import Lattice
from ninja.lattice.batch import Batch, refuse_pair
from ninja.lattice.lattice import check_costs
from ninja.lattice.nbest import NBest
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.word_ids import agree, used_words

_BLANK = re.compile(r"[ \t\n\v\f\r]")  # ASCII white space, which separates the fields of a line

LONGEST_KEY = 4096  # bytes, as Kaldi's tools read it
Lossy = Literal["allow", "refuse"]
Self = TypeVar("Self", bound="LatticeWriter")


class OutputSettings(NamedTuple):
    """Settings of an output."""

    place: str  # path, URL or "-"
    format: Format
    settings: WriteSettings
    lossy: Lossy = "allow"
    packed: bool = False  # compress with gzip
    words_out: str | None = None  # file for the symbol table; None writes it next to the output if ids need it
    note: str | None = None  # note about the scales with which costs were combined
    beside: tuple[str, ...] = ()  # files or folders next to which the scale file is written
    chosen: ChosenScales | None = None  # scales for the scale file
    run: Facts | None = None  # facts on which the lattices depend; an output is resumed only if they are equal
    guard: Guard | None = None  # protects the inputs from being replaced


class LatticeWriter:
    """Writer for lattices, n-best lists or confusion networks; use it in a ``with`` block.

    Files get their names when the block ends without an exception; otherwise they are removed. An error with a ``key``
    applies only to that lattice, which is not written; writing can continue. After any other error, it cannot.

    Attributes:
        keys_done: Number of lattices of each key that are already in a resumed output.
        lost: Number of lattices that lost each field.
        resumed: Description of the earlier attempt, if the output was resumed.
        kept: Number of lattices of a failed output that were saved for the next attempt.
        words_path: Path of the symbol table, if it was written.
        scales_path: Path of the scale file, if it was written.
    """

    def __init__(self, output: OutputSettings) -> None:
        if output.lossy not in ("allow", "refuse"):
            raise OptionError(f"lossy is {output.lossy!r}, but must be allow or refuse")
        assert output.format.write is not None
        self.name = output.place
        self.format = output.format
        self.keys_done: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        self.resumed: str | None = None
        self.kept = 0
        self.words_path: str | None = None
        self.scales_path: str | None = None
        self._output = output
        self._write = output.format.write
        self._settings = output.settings
        self._keeps = output.format.kept(output.settings.options)
        untimed = {"key", "alignments", "raw", *COSTS}  # all fields of a lattice without times
        self._keeps_untimed = output.format.holds == "lattice" and self._keeps >= untimed and not self._write.also_lost
        self._keys: Counter[str] = Counter()
        self._is_open = False
        self._names = TableConsistency(output.settings.words, shared="ids" in self._keeps)
        self._table = TableOutput(output.place, output.words_out, needed=self.needs_words, guard=output.guard)
        self._scales = ScalesOutput(output.beside, output.chosen if self._keeps >= COSTS else None, output.guard)

    @property
    def needs_words(self) -> bool:
        """Whether the file contains word ids, but not the words."""
        return "ids" in self._keeps and "names" not in self._keeps

    def __enter__(self: Self) -> Self:
        try:
            self._open()
            self._scales.begin()
        except BaseException:
            self._give_up()
            raise
        self._is_open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_open = False
        if error is not None:
            self._give_up()
            return
        try:
            self._finish()
            self._scales.finish()
        except BaseException:
            self._give_up()
            raise
        self.scales_path = self._scales.path
        self.words_path = self._table.write()

    def _give_up(self) -> None:
        """Remove the output, or save it for the next attempt."""
        self._scales.abandon(keep=self._is_kept())
        self._abandon()

    def _is_kept(self) -> bool:
        """Return whether a failed output is saved for the next attempt."""
        return False

    def write(self, item: Item, *, key: str | None = None) -> None:
        """Append a lattice, converted to an n-best list or a confusion network if the format requires it.

        Args:
            item: A lattice, or if the format stores these, an n-best list or a confusion network.
            key: Utterance id; None uses that of the item.

        Raises:
            LatticeError: The format cannot store the item, or with ``lossy="refuse"``, not all of its fields.
            SymbolError: An id has no word, a different word than in earlier lattices, or one that the format cannot
                store.
            OptionError: The item is neither a lattice nor of a type that the format stores, or words would be lost.
            OutputError: The item cannot be written, for example because the disk is full, or because a file for a
                single lattice already contains one.
        """
        if not self._is_open:
            raise OutputError("the writer is not open; use it in a with block", self.name)
        refuse_pair(item)
        if key is not None and key != item.key:
            item = item.with_key(key) if isinstance(item, Lattice) else replace(item, key=key)
        name = item.key
        try:
            output_item: Any = item
            lost: list[str] = []
            if isinstance(item, Lattice):
                check_costs(item)
                self._table.check(item)
                self._names.check(item, name)
            if self.format.holds != "lattice" or not isinstance(item, Lattice):
                output_item, lost = converted(item, self.format, self._settings, with_names=not self.needs_words)
            self._check_key(name)
            if FIELDS["paths"] not in lost and not (
                self._keeps_untimed and output_item.time is None is output_item.frame_shift
            ):
                lost = lost + self._lost(item, output_item, name)
            if lost and self._output.lossy == "refuse":
                message = f"{self.format.name} cannot store: {', '.join(lost)}; use lossy='allow' (--lossy allow)"
                raise LatticeError(f"{message} to drop these fields", key=name)
            self._put(name, output_item)
        except UnicodeEncodeError as error:
            raise SymbolError("a word or the key cannot be encoded as UTF-8", key=name) from error
        except (LatticeError, SymbolError) as error:
            error.key = error.key or name
            raise
        self._keys[name] += 1
        if isinstance(item, Lattice):
            self._names.take(item)
            self._table.take(item)
        if lost:
            self.lost.update(lost)

    def prepared(self, batch: Batch) -> Any | None:
        """Encode a batch for `write_all`; return None if its lattices must be written one by one.

        Batches may be encoded on any thread and in any order.
        """
        return None

    def write_all(self, batch: Batch, prepared: Any) -> bool:
        """Append a batch encoded by `prepared`; return False if its lattices must be written one by one."""
        raise NotImplementedError

    def write_on_thread(self) -> None:
        """Write encoded batches on a thread from now on, if the format supports it."""

    def notes(self) -> list[str]:
        """Return messages for the user, once the output is complete."""
        notes = []
        if self.words_path is not None and self._output.words_out is None:
            notes.append(f"wrote the symbol table to {self.words_path}")
        elif self.words_path is None and self._output.words_out is not None:
            notes.append(f"{self._output.words_out} is not written, because the lattices have no symbol table")
        if self.scales_path is not None:
            notes.append(f"wrote the scales to {self.scales_path}")
        if self.repeated:
            duplicates = [key for key, count in self._keys.items() if count > 1]
            notes.append(f"{counted(len(duplicates), 'key occurs', 'keys occur')} more than once: {named(duplicates)}")
        if self._output.note is not None and self._keys:
            notes.append(self._output.note)
        if self.lost:
            notes.append(f"warning: {self.format.name} files cannot store all fields; {_losses(self.lost)}")
        return notes

    @property
    def repeated(self) -> bool:
        """Whether a key was written more than once."""
        return self._keys.total() > len(self._keys)

    def _lost(self, item: Item, output_item: Any, key: str) -> list[str]:
        """Return the fields of an item that the output does not store."""
        lost: list[str] = []
        if isinstance(output_item, NBest):
            lost += lost_of_list(output_item, self._keeps)
        elif isinstance(item, Lattice) and isinstance(output_item, Lattice):
            lost += lost_of_lattice(item, self._keeps)
        if self._write.also_lost is not None:
            lost += self._write.also_lost(output_item, self._settings)
        return lost if self._keeps_key(key) else [*lost, FIELDS["key"]]

    def _keeps_key(self, key: str) -> bool:
        """Return whether the output stores the key."""
        return "key" in self._keeps

    def _check_key(self, key: str) -> None:
        """Raise an error if the output cannot store a key."""
        if self._write.key_is_field:
            check_key(key)
        if 4 * len(key) > LONGEST_KEY and len(os.fsencode(key)) > LONGEST_KEY:
            raise LatticeError(f"the key is longer than {LONGEST_KEY} bytes", key=key[:60])
        if self._write.encoded_keys:
            try:
                key.encode(self._settings.encoding)
            except UnicodeEncodeError as error:
                encoding = self._settings.encoding.upper()
                message = f"the key cannot be encoded as {encoding}; use another key or encoding"
                raise LatticeError(message, key=key) from error
        if self._write.unique_keys and key in self._keys:
            raise OutputError("the key is already in the output", self.name, key=key)

    def _open(self) -> None:
        """Open the files."""
        raise NotImplementedError

    def _put(self, key: str, item: Any) -> None:
        """Write a checked item."""
        raise NotImplementedError

    def _finish(self) -> None:
        """Complete the files and give them their names."""
        raise NotImplementedError

    def _abandon(self) -> None:
        """Remove the files, even after ``_finish`` failed."""
        raise NotImplementedError


def check_key(key: str) -> None:
    """Raise `LatticeError` if a key is empty or contains white space."""
    if not key or key.split() != [key]:
        raise LatticeError(f"the key {key!r} is empty or contains white space; use another key", key=key)


def _losses(lost: Counter[str]) -> str:
    fields: dict[int, list[str]] = {}
    for field, count in sorted(lost.items()):
        fields.setdefault(count, []).append(field)
    return "; ".join(
        f"{counted(count, 'lattice loses', 'lattices lose')}: {', '.join(names)}"
        for count, names in sorted(fields.items(), reverse=True)
    )


def write_table(table: SymbolTable, path: str, guard: Guard | None = None) -> None:
    """Write a symbol table in the format of Kaldi's ``words.txt``, except words that contain white space."""
    with opened_as_text(path, guard) as file:
        file.writelines(f"{word} {number}\n" for word, number in table if is_one_field(word))


def is_one_field(word: str) -> bool:
    """Return whether a symbol table file can store a word, which must not be empty or contain white space."""
    return bool(word) and _BLANK.search(word) is None


class TableOutput:
    """The symbol table of an output that contains word ids.

    A table of the words that sources spell is written next to the output, and so is one that was written with another
    archive. Other tables come from a file that the user knows; they are written only to replace an older table that is
    already next to the output.

    Args:
        place: File or folder of the output, ``-`` for stdout.
        words_out: File for the table; None writes it next to the output.
        needed: Whether the output contains ids without words.
        guard: Protects the inputs from being replaced.
    """

    def __init__(self, place: str, words_out: str | None, *, needed: bool, guard: Guard | None = None) -> None:
        self._place = place
        self._words_out = words_out
        self._guard = guard
        self._needed = needed and place != os.devnull
        self._once = is_read_once(place)
        self._is_begun = False
        self._existing: SymbolTable | None = None  # table in the output folder
        self._last: SymbolTable | None = None  # the table checked last
        self._num_checked = 0  # number of its entries that were checked
        self._unwritable: dict[int, str] = {}  # its words that cannot be written, by id
        self._words: SymbolTable | None = None  # table of the written lattices

    def check(self, lattice: Lattice) -> None:
        """Check that the symbol table of the output can store the words of a lattice.

        Raises:
            OptionError: The words would be lost, or the output folder has another symbol table; this applies to all
                further lattices, too.
            SymbolError: A word of the lattice is empty or contains white space.
        """
        words = lattice.words
        if not self._needed and self._words_out is None:
            return
        if words is not None and self._needed and self._words_out is None and self._once and words.path is None:
            output = "standard output" if self._place == STDOUT else self._place
            message = f"{output} would contain word ids without a symbol table; use --words, --words-out FILE"
            raise OptionError(f"{message} (words_out=), or --to with a format that spells words")
        if not self._is_begun:
            self._begin(words)
        if words is None:
            return
        if self._last is not words:
            self._last, self._num_checked, self._unwritable = words, 0, {}
        if self._num_checked < len(words):
            new = words.since(self._num_checked)
            self._num_checked += len(new)
            self._unwritable |= {number: word for word, number in new if not is_one_field(word)}
        for number in used_words(lattice) if self._unwritable else ():
            if number in self._unwritable:
                problem = "contains white space" if self._unwritable[number] else "is empty"
                advice = "use a format that spells words" if self._needed else "omit --words-out"
                message = (
                    f"the word {self._unwritable[number]!r} {problem}, so a symbol table cannot store it; {advice}"
                )
                raise SymbolError(message, key=lattice.key)
        if self._existing is not None and not agree(words, self._existing, lattice):
            message = "differs from the symbol table of the lattices; name another folder, or use this table as --words"
            raise OptionError(f"{self._existing.path} {message}")

    @property
    def is_particular(self) -> bool:
        """Whether lattices with the same table must be checked one by one."""
        return bool(self._unwritable) or self._existing is not None

    def take(self, lattice: Lattice) -> None:
        """Record the symbol table of a written lattice.

        In an output of ids, the table of the first lattice contains the words of all lattices; see `TableConsistency`.
        """
        if self._words is None or not self._needed:
            self._words = lattice.words

    def write(self) -> str | None:
        """Write the table if necessary; return its path, or None if it was not written."""
        path = self._path(self._words)
        if path is None or self._words is None or self._existing is not None:
            return None
        write_table(self._words, path, self._guard)
        return path

    def _begin(self, words: SymbolTable | None) -> None:
        """Read an existing table at the path of the output's table."""
        self._is_begun = True
        path = self._path(words)
        if path is None or self._words_out is not None:
            return
        if len(os.fsencode(os.path.basename(path))) > LONGEST_NAME:
            message = "is too long for the name of the symbol table; use a shorter output name, or --words-out"
            raise OptionError(f"{path} {message} (words_out=)")
        if not is_file(path):
            return
        if words is None:
            raise OptionError(f"{path} already exists and would become the symbol table of the output; move it")
        if os.path.basename(path) == TABLE_NAMES[0]:
            self._existing = SymbolTable.read(path)

    def _path(self, words: SymbolTable | None) -> str | None:
        """Return the path to which the table will be written, None if it will not be written."""
        if self._words_out is not None or not self._needed or self._once:
            return self._words_out
        folder = os.path.isdir(self._place)
        path = os.path.join(self._place, TABLE_NAMES[0]) if folder else table_beside(self._place)
        is_derived = words is not None and (words.path is None or words.path.endswith(BESIDE))
        return path if is_derived or is_file(path) else None


class TableConsistency:
    """Checks that the symbol tables of all lattices of an output agree on the word of each id.

    Args:
        words: Symbol table of the output; None uses that of the first lattice.
        shared: The output stores ids, so its lattices must share a table.
    """

    def __init__(self, words: SymbolTable | None, *, shared: bool) -> None:
        self._words = words
        self._has_table = words is not None
        self._shared = shared
        self._is_settled = self._has_table

    def check(self, lattice: Lattice, key: str) -> None:
        """Raise `SymbolError` if ids of a lattice have other words than in the table of the output."""
        table = lattice.words
        if table is self._words or not self._is_settled or (table is None and self._has_table):
            return
        if table is None or self._words is None or not agree(table, self._words, lattice):
            other = "the given table" if self._has_table else "that of earlier lattices"
            message = f"the symbol table of the lattice contradicts {other}; read all lattices with one table, words="
            raise SymbolError(message + " (--words), such as ninja.vocabulary(source)", key=key)

    def are_of(self, words: SymbolTable | None) -> bool:
        """Return whether lattices of a table can be written without checking their words."""
        return words is self._words or not self._is_settled or (words is None and self._has_table)

    def take(self, lattice: Lattice) -> None:
        """Record a written lattice."""
        if self._shared and not self._is_settled:
            self._words, self._is_settled = lattice.words, True
