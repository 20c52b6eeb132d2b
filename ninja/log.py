"""The log of a run: counts of results, notes for the user, failures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields

from ninja.errors import NinjaError

OnError = Callable[[NinjaError], None]


@dataclass(slots=True)
class Log:
    """Counts, notes and failures of a run, shared by its stages.

    Numeric fields, also those of subclasses, are summed when logs of several processes are merged.
    """

    on_note: Callable[[str], None] | None = None  # called with each note at once
    on_error: OnError | None = None  # called with each failure at once; without it, the first failure is raised
    lattices: int = 0  # results
    skipped: int = 0  # lattices whose results were in the output already
    notes: list[str] = field(default_factory=list)
    failures: list[NinjaError] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)  # duplicate keys, once for each repetition
    lists_repeated: bool = False  # whether a note lists these keys
    output: int = 0  # number of the current output
    _reported: set[tuple[int, str]] = field(default_factory=set)  # notes, with the output of each

    def note(self, message: str) -> None:
        """Add a message and show it to the user, once for each output."""
        if (self.output, message) in self._reported:
            return
        self._reported.add((self.output, message))
        if message not in self.notes:
            self.notes.append(message)
        if self.on_note is not None:
            self.on_note(message)

    def fail(self, error: NinjaError, key: str | None = None) -> None:
        """Add the failure of a lattice; raise it if failures are not tolerated or it concerns the whole run."""
        error.key = error.key or key
        if self.on_error is None or error.of_run:
            raise error
        self.failures.append(error)
        self.on_error(error)

    def merge(self, part: Log) -> None:
        """Add the log of a thread or process, without repeating notes."""
        for counter in fields(part):
            value = getattr(part, counter.name)
            if isinstance(value, int | float) and not isinstance(value, bool):
                setattr(self, counter.name, getattr(self, counter.name) + value)
        self.repeated += part.repeated
        for note in part.notes:
            self.note(note)
        for failure in part.failures:
            self.fail(failure)
