"""The log of a run, with counts, notes for the user and errors of lattices; and its summary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import NamedTuple

from ninja.errors import NinjaError, counted

OnError = Callable[[NinjaError], None]


@dataclass(slots=True, eq=False)
class Log:
    """Counts, notes and failures of a run, shared by its stages.

    Numeric fields, including those of subclasses, are added when the logs of several threads or processes are merged.
    """

    on_note: Callable[[str], None] | None = None  # called with each note
    on_error: OnError | None = None  # called with each failure; if None, the first failure is raised
    lattices: int = 0  # number of lattices with a result
    skipped: int = 0  # number of lattices whose results were already in the output
    notes: list[str] = field(default_factory=list)
    failures: list[NinjaError] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)  # duplicate keys, once for each repetition
    lists_repeated: bool = False  # whether a note lists the duplicate keys
    output: int = 0  # index of the current output
    _reported: set[tuple[int, str]] = field(default_factory=set)  # index of the output, and note

    def note(self, message: str) -> None:
        """Add a note, and pass it to ``on_note`` once per output."""
        if (self.output, message) in self._reported:
            return
        self._reported.add((self.output, message))
        if message not in self.notes:
            self.notes.append(message)
        if self.on_note is not None:
            self.on_note(message)

    def fail(self, error: NinjaError, key: str | None = None) -> None:
        """Add the error of a lattice; raise it if there is no ``on_error`` or if the error applies to the whole run."""
        error.key = error.key or key
        if self.on_error is None or error.of_run:
            raise error
        self.failures.append(error)
        self.on_error(error)

    def merge(self, part: Log) -> None:
        """Add the counts, notes and failures of another log."""
        for counter in fields(part):
            value = getattr(part, counter.name)
            if isinstance(value, int | float) and not isinstance(value, bool):
                setattr(self, counter.name, getattr(self, counter.name) + value)
        self.repeated += part.repeated
        for note in part.notes:
            self.note(note)
        for failure in part.failures:
            self.fail(failure)


class Summary(NamedTuple):
    """Counts, failures and notes of a run."""

    lattices: int  # input lattices processed without a failure
    written: int  # output lattices; a stage may return several for each input
    arcs: int  # arcs of the output lattices
    failures: tuple[NinjaError, ...]
    skipped: int  # lattices whose results were already in the output
    repeated: tuple[str, ...]  # duplicate keys, once for each repetition
    notes: tuple[str, ...]
    seconds: float

    def __str__(self) -> str:
        failed = f", {len(self.failures)} failed" if self.failures else ""
        skipped = f", {self.skipped} already in the output" if self.skipped else ""
        return (
            f"{counted(self.lattices, 'lattice')}, {counted(self.arcs, 'arc')}, {self.seconds:.1f} s{skipped}{failed}"
        )
