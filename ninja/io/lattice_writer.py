"""Conversion, checks and losses of lattices that are written."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Literal, TypeVar

import numpy as np

from ninja.errors import LatticeError, OptionError, OutputError, SymbolError
from ninja.formats.format import FIELDS, Field, Format, WriteSettings
from ninja.io.run_facts import Facts
from ninja.io.scales_beside import ChosenScales, ScalesBeside
from ninja.io.symbol_tables import Names, TableBeside
from ninja.lattice import Lattice, Scales
from ninja.lattice.batch import Batch
from ninja.lattice.keyed import refuse_pair
from ninja.lattice.lattice import check_costs
from ninja.lattice.list_lattice import ListLattice
from ninja.lattice.nbest import NBest, check, with_silence
from ninja.lattice.network import ConfusionNetwork
from ninja.lattice.times import state_times

LONGEST_KEY = 4096  # bytes, as Kaldi's tools read it
Lossy = Literal["allow", "refuse"]
Self = TypeVar("Self", bound="LatticeWriter")


@dataclass(frozen=True, slots=True)
class Output:
    """Settings of an output.

    Args:
        lossy: Whether lattices that lose something are refused.
        packed: Whether the file is gzip.
        words_out: File for the symbol table of ids; None: beside the output, where one is needed.
        note: How costs are joined, where the caller's scales decided it.
        beside: Files or folder whose scales stand beside them.
        chosen: These scales; None: none.
        run: What the lattices depend on, where an unfinished output is another run's if that differs.
    """

    place: str
    format: Format
    settings: WriteSettings
    lossy: Lossy = "allow"
    packed: bool = False
    words_out: str | None = None
    note: str | None = None
    beside: tuple[str, ...] = ()
    chosen: ChosenScales | None = None
    run: Facts | None = None


class LatticeWriter:
    """An output of lattices, n-best lists or confusion networks; use it in a ``with`` block.

    Files appear when the block is left without an exception, or not at all. An error that has a ``key`` is about that
    lattice only; nothing of it is written, and others can be. Any other error is the end of the output.

    Attributes:
        keys_done: How often each key stands in the output already, with `resume`.
        lost: Number of lattices that lost each field.
        resumed: What `resume` found of an earlier attempt, in words; None: nothing.
        kept: Number of lattices of an output that failed which are kept for the next attempt, with `resume`.
        words_path: Where the symbol table of the ids was written; None: nowhere.
        scales_path: Where the scales were written; None: nowhere.
    """

    def __init__(self, output: Output) -> None:
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
        untimed = {"key", "alignments", "raw", *_COSTS}  # nothing else is lost of a lattice without times
        self._keeps_untimed = output.format.holds == "lattice" and self._keeps >= untimed and not self._write.also_lost
        self._keys: Counter[str] = Counter()
        self._is_open = False
        self._names = Names(output.settings.words, shared="ids" in self._keeps)
        self._table = TableBeside(output.place, output.words_out, needed=self.needs_words)
        self._scales = ScalesBeside(output.beside, output.chosen if self._keeps >= _COSTS else None)

    @property
    def needs_words(self) -> bool:
        """True if ids of words are written, whose names are not in the file."""
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
        """Remove what was written, or keep it for the next attempt."""
        self._scales.abandon(keep=self._is_kept())
        self._abandon()

    def _is_kept(self) -> bool:
        """Tell whether what was written is kept for the next attempt."""
        return False

    def write(self, item: Item, *, key: str | None = None) -> None:
        """Append a lattice, made into what the format holds: an n-best list or a confusion network, for example.

        Args:
            item: A lattice; or an n-best list or a confusion network, where the format holds these.
            key: Utterance id; None: its own.

        Raises:
            LatticeError: The format cannot hold it, or it would lose something and nothing may be lost.
            SymbolError: A word has no name, one that the format cannot hold, or another than the lattices before.
            OptionError: It is no lattice and of another kind than the format holds, or the names of ids would be lost.
            OutputError: It cannot be written: the disk is full, for example, or a file of one lattice has one.
        """
        if not self._is_open:
            raise OutputError("the writer is not open; use it in a with block", self.name)
        refuse_pair(item)
        if key is not None and key != item.key:
            item = item.with_key(key) if isinstance(item, Lattice) else replace(item, key=key)
        name = item.key
        try:
            made: Any = item
            lost: list[str] = []
            if isinstance(item, Lattice):
                check_costs(item)
                self._table.check(item)
                self._names.check(item, name)
            if self.format.holds != "lattice" or not isinstance(item, Lattice):
                made, lost = converted(item, self.format, self._settings, with_names=not self.needs_words)
            self._check_key(name)
            if FIELDS["paths"] not in lost and not (self._keeps_untimed and made.time is None is made.frame_shift):
                lost = lost + self._lost(item, made, name)
            if lost and self._output.lossy == "refuse":
                message = f"{self.format.name} would lose: {', '.join(lost)}; allow it with lossy='allow'"
                raise LatticeError(f"{message} (--lossy allow)", key=name)
            self._put(name, made)
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
        """Return what `write_all` puts into the file for a batch; None: its lattices must be written one by one.

        It may be called on any thread, and for batches in any order.
        """
        return None

    def write_all(self, batch: Batch, prepared: Any) -> bool:
        """Append a batch as `prepared`; return False if its lattices must be written one by one instead."""
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
            again = [key for key, count in self._keys.items() if count > 1]
            shown = ", ".join(again[:20]) + (", …" if len(again) > 20 else "")
            notes.append(f"{len(again)} keys stand there more than once: {shown}")
        if self._output.note is not None and self._keys:
            notes.append(self._output.note)
        if self.lost:
            notes.append(f"warning: {_losses(self.lost)} ({self.format.name} files cannot store them)")
        return notes

    @property
    def repeated(self) -> bool:
        """True if a key was written more than once."""
        return self._keys.total() > len(self._keys)

    def _lost(self, item: Item, made: Any, key: str) -> list[str]:
        """Return the fields of an item that the output does not keep."""
        lost: list[str] = []
        if isinstance(made, NBest):
            lost += lost_of_list(made, self._keeps)
        elif isinstance(item, Lattice) and isinstance(made, Lattice):
            lost += lost_of_lattice(item, self._keeps)
        if self._write.also_lost is not None:
            lost += self._write.also_lost(made, self._settings)
        return lost if self._keeps_key(key) else [*lost, FIELDS["key"]]

    def _keeps_key(self, key: str) -> bool:
        """Tell whether a reader finds the key."""
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
            raise OutputError("the key stands in the output already", self.name, key=key)

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
    """Return a message of the losses and their numbers of lattices."""
    fields: dict[int, list[str]] = {}
    for field, count in sorted(lost.items()):
        fields.setdefault(count, []).append(field)
    return "; ".join(
        f"{count} {'lattice' if count == 1 else 'lattices'} lost: {', '.join(names)}"
        for count, names in sorted(fields.items(), reverse=True)
    )


_COSTS = {"graph", "acoustic", "apart", "unscaled"}
ASSUMED_SHIFT = 0.01  # seconds, which every reader takes where a file does not say


def lost_of_lattice(lattice: Lattice, keeps: frozenset[Field]) -> list[str]:
    """Return the fields of a lattice that a format does not keep.

    Times that kept alignments say are kept, and a frame shift matters only where alignments or times are.
    """
    lost = []
    if isinstance(lattice, ListLattice) and lattice.record and lattice.record.others and "fields" not in keeps:
        lost.append(FIELDS["fields"])
    labelled = lattice.has_labels
    aligned = labelled and "alignments" in keeps
    if labelled and not aligned:
        lost.append(FIELDS["alignments"])
    if lattice.time is not None and not aligned and "times" not in keeps:
        lost.append(FIELDS["times"])
    timed = aligned or ("times" in keeps and (labelled or lattice.time is not None))
    if timed and "frame shift" not in keeps and lattice.frame_shift not in (None, ASSUMED_SHIFT):
        lost.append(FIELDS["frame shift"])
    if lattice.kind == "raw" and "raw" not in keeps:
        lost.append(FIELDS["raw"])
    if keeps >= _COSTS:
        return lost
    final = lattice.is_final
    graph = bool(lattice.graph.any() or lattice.final_graph[final].any())
    acoustic = bool(lattice.acoustic.any() or lattice.final_acoustic[final].any())
    return lost + _lost_costs(keeps, graph=graph, acoustic=acoustic, apart=acoustic and "acoustic" in keeps)


def lost_of_list(nbest: NBest, keeps: frozenset[Field]) -> list[str]:
    """Return the fields of an n-best list that a format does not keep."""
    lost = []
    if nbest.record is not None and nbest.record.others and "fields" not in keeps:
        lost.append(FIELDS["fields"])
    hypotheses = nbest.hypotheses
    aligned = all(each.labels is not None and any(each.labels) for each in hypotheses) and "alignments" in keeps
    if "alignments" not in keeps and any(each.labels is not None and any(each.labels) for each in hypotheses):
        lost.append(FIELDS["alignments"])
    has_seconds = nbest.frame_shift is not None or "frame shift" not in keeps
    if any(each.begin for each in hypotheses) and not aligned and not ("times" in keeps and has_seconds):
        lost.append(FIELDS["times"])
    if "times" in keeps and "frame shift" not in keeps and nbest.frame_shift not in (None, ASSUMED_SHIFT):
        lost.append(FIELDS["frame shift"])
    if "word costs" not in keeps and any(any(each.graph[:-1]) or any(each.acoustic[:-1]) for each in hypotheses):
        lost.append(FIELDS["word costs"])
    if keeps >= _COSTS:
        return lost
    graph = any(each.graph_cost for each in hypotheses)
    acoustic = any(each.acoustic_cost for each in hypotheses)
    return lost + _lost_costs(keeps, graph=graph, acoustic=acoustic, apart=graph and "graph" in keeps)


def _lost_costs(keeps: frozenset[Field], *, graph: bool, acoustic: bool, apart: bool) -> list[str]:
    """Return which costs are lost; one cost of a lattice is read as graph cost, of a list as acoustic cost."""
    lost = [FIELDS["graph"]] if graph and "graph" not in keeps else []
    if acoustic and "acoustic" not in keeps:
        lost.append(FIELDS["acoustic"])
    elif acoustic and not graph and "unscaled" not in keeps:
        lost.append(FIELDS["unscaled"])
    if apart and "apart" not in keeps:
        lost.append(FIELDS["apart"])
    return lost


ALL_PATHS = 100_000  # of a lattice, where all are wanted; more are refused
Item = Lattice | NBest | ConfusionNetwork
_INSTEAD = {
    "lattice": "lattices; make one of an n-best list with ninja.graph.nbest_lattice",
    "nbest": "lattices and n-best lists",
    "network": "lattices and confusion networks",
}


def converted(item: Item, format: Format, settings: WriteSettings, *, with_names: bool) -> tuple[Any, list[str]]:
    """Convert an item for its format; return it with its losses.

    Args:
        item: A lattice, or what the format holds.
        settings: Its options; of lists the number of hypotheses and the scales, of networks the scales.
        with_names: Whether hypotheses are spelled and timed; where ids are written, alignments say the times.

    Raises:
        OptionError: The format holds neither lattices nor such items.
        LatticeError: The lattice has no path or too many, or the list is not consistent.
    """
    if isinstance(item, Lattice):
        if format.holds == "nbest":
            return _list(item if not with_names else _timed(item), settings, with_names=with_names)
        if format.holds == "network":
            return _network(item, settings)
        return item, []
    if isinstance(item, NBest) and format.holds == "nbest":
        item = with_silence(item)
        check(item)
    elif not (isinstance(item, ConfusionNetwork) and format.holds == "network"):
        raise OptionError(f"{format.name} holds {_INSTEAD[format.holds]}")
    return item, []


def _list(lattice: Lattice, settings: WriteSettings, *, with_names: bool) -> tuple[NBest, list[str]]:
    from ninja.graph import lattice_nbest

    options = settings.options
    most = options.most(lattice)
    found = lattice_nbest(
        lattice if with_names else lattice.with_words(None),
        most or ALL_PATHS + 1,
        Scales(options.acoustic_scale, options.lm_scale, options.word_penalty),
    )
    count = len(found.hypotheses)
    if not most and count > ALL_PATHS:
        raise LatticeError(f"more than {ALL_PATHS} paths; say how many are wanted (n=…)", key=lattice.key)
    is_whole = options.n is None and isinstance(lattice, ListLattice)
    return found, [f"paths beyond the {most} best"] if most and count >= most and not is_whole else []


def _network(lattice: Lattice, settings: WriteSettings) -> tuple[Lattice | ConfusionNetwork, list[str]]:
    from ninja.consensus import lattice_mesh

    options = settings.options
    if settings.words is not None:
        lattice = lattice.with_words(settings.words)
    if lattice.words is None and lattice.word.any():
        raise SymbolError("the words of the lattice have no names; give their symbol table", key=lattice.key)
    found, whole = lattice_mesh(lattice, Scales(options.acoustic_scale, options.lm_scale))
    return found, [] if whole else [FIELDS["paths"]]


def _timed(lattice: Lattice) -> Lattice:
    """Return a lattice with the times that its alignments give, if it has no times and they give any."""
    if lattice.time is not None or not lattice.has_labels:
        return lattice
    try:
        time = np.maximum(state_times(lattice), 0)  # -1: no path leads there
    except LatticeError:  # they do not count frames
        return lattice
    return lattice.replace(time=time, frame_shift=lattice.frame_shift or ASSUMED_SHIFT)
