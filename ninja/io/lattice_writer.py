"""Base of all writers: conversion and checks of lattices, and notes on the output."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Literal, TypeVar

from ninja.errors import LatticeError, OptionError, OutputError, SymbolError, named
from ninja.files.output import Guard
from ninja.formats.format import FIELDS, Format, WriteSettings
from ninja.io.losses import COSTS, Item, converted, lost_of_lattice, lost_of_list
from ninja.io.resume import Facts
from ninja.io.scales import ChosenScales, ScalesOutput
from ninja.io.symbol_tables import TableConsistency, TableOutput
from ninja.lattice import Lattice
from ninja.lattice.batch import Batch, refuse_pair
from ninja.lattice.lattice import check_costs
from ninja.lattice.nbest import NBest

LONGEST_KEY = 4096  # bytes, as Kaldi's tools read it
Lossy = Literal["allow", "refuse"]
Self = TypeVar("Self", bound="LatticeWriter")


@dataclass(frozen=True, slots=True)
class OutputSettings:
    """Settings of an output."""

    place: str
    format: Format
    settings: WriteSettings
    lossy: Lossy = "allow"
    packed: bool = False  # gzip
    words_out: str | None = None  # file for the symbol table of ids  [default: beside the output, if it is needed]
    note: str | None = None  # how costs are joined, if the caller's scales determine it
    beside: tuple[str, ...] = ()  # files or folder whose scales are written beside them
    chosen: ChosenScales | None = None
    run: Facts | None = None  # that the lattices depend on; an unfinished output with other facts is another run's
    guard: Guard | None = None


class LatticeWriter:
    """An output of lattices, n-best lists or confusion networks; use it in a ``with`` block.

    Files appear when the block is left without an exception, or not at all. An error with a ``key`` concerns that
    lattice only; nothing of it is written, and others can be. Any other error ends the output.

    Attributes:
        keys_done: Number of lattices of each key that the output has already, with `resume`.
        lost: Number of lattices that lost each field.
        resumed: Description of an earlier attempt that is resumed, if there was one.
        kept: Number of lattices of a failed output that are kept for the next attempt, with `resume`.
        words_path: Path of the symbol table of the ids, if it was written.
        scales_path: Path of the scales, if they were written.
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
        """Whether ids of words are written, whose names are not in the file."""
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
        """Remove the output, or keep it for the next attempt."""
        self._scales.abandon(keep=self._is_kept())
        self._abandon()

    def _is_kept(self) -> bool:
        """Return whether a failed output is kept for the next attempt."""
        return False

    def write(self, item: Item, *, key: str | None = None) -> None:
        """Append a lattice, converted to the format's item, for example an n-best list or a confusion network.

        Args:
            item: A lattice; or an n-best list or a confusion network, if the format holds these.
            key: Utterance id.  [default: that of the item]

        Raises:
            LatticeError: The format cannot hold it, or it would lose something with ``lossy="refuse"``.
            SymbolError: A word has no name, one that the format cannot hold, or another than in previous lattices.
            OptionError: It is not a lattice and not an item of the format, or the names of ids would be lost.
            OutputError: It cannot be written: the disk is full, for example, or a file of one lattice has one.
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
                message = f"{self.format.name} would lose: {', '.join(lost)}; allow it with lossy='allow'"
                raise LatticeError(f"{message} (--lossy allow)", key=name)
            self._put(name, output_item)
        except UnicodeEncodeError as error:
            raise SymbolError("a word or the key cannot be written as UTF-8", key=name) from error
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
        """Encode a batch for `write_all`; None if its lattices must be written one by one.

        It may be called on any thread, and for batches in any order.
        """
        return None

    def write_all(self, batch: Batch, prepared: Any) -> bool:
        """Append a batch that `prepared` has encoded; return False if its lattices must be written one by one."""
        raise NotImplementedError

    def notes(self) -> list[str]:
        """Return the messages for the user once the output is complete."""
        notes = []
        if self.words_path is not None and self._output.words_out is None:
            notes.append(f"the words and their ids are in {self.words_path}")
        elif self.words_path is None and self._output.words_out is not None:
            notes.append(f"{self._output.words_out} is not written: the words have no names")
        if self.scales_path is not None:
            notes.append(f"the scales are in {self.scales_path}")
        if self.repeated:
            repeated = [key for key, count in self._keys.items() if count > 1]
            notes.append(f"{len(repeated)} keys occur more than once: {named(repeated)}")
        if self._output.note is not None and self._keys:
            notes.append(self._output.note)
        if self.lost:
            notes.append(f"warning: {_losses(self.lost)} ({self.format.name} files cannot store them)")
        return notes

    @property
    def repeated(self) -> bool:
        """Whether a key was written more than once."""
        return self._keys.total() > len(self._keys)

    def _lost(self, item: Item, output_item: Any, key: str) -> list[str]:
        """Return the fields of an item that the output does not keep."""
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
        """Refuse a key that the output cannot hold."""
        if self._write.key_is_field:
            check_key(key)
        if 4 * len(key) > LONGEST_KEY and len(os.fsencode(key)) > LONGEST_KEY:
            raise LatticeError(f"the key is longer than {LONGEST_KEY} bytes", key=key[:60])
        if self._write.encoded_keys:
            try:
                key.encode(self._settings.encoding)
            except UnicodeEncodeError as error:
                encoding = self._settings.encoding.upper()
                message = f"the key cannot be written as {encoding}; give the lattice another"
                raise LatticeError(message, key=key) from error
        if self._write.unique_keys and key in self._keys:
            raise OutputError("the key is in the output already", self.name, key=key)

    def _open(self) -> None:
        """Open the files."""
        raise NotImplementedError

    def _put(self, key: str, item: Any) -> None:
        """Write a checked item."""
        raise NotImplementedError

    def _finish(self) -> None:
        """Give the files their names."""
        raise NotImplementedError

    def _abandon(self) -> None:
        """Remove the files; this may be called after ``_finish`` failed."""
        raise NotImplementedError


def check_key(key: str) -> None:
    """Refuse a key that is empty or holds a blank."""
    if not key or key.split() != [key]:
        raise LatticeError(f"the key {key!r} is empty or holds a blank; give the lattice another", key=key)


def _losses(lost: Counter[str]) -> str:
    fields: dict[int, list[str]] = {}
    for field, count in sorted(lost.items()):
        fields.setdefault(count, []).append(field)
    return "; ".join(
        f"{count} {'lattice' if count == 1 else 'lattices'} lost: {', '.join(names)}"
        for count, names in sorted(fields.items(), reverse=True)
    )
