"""Everything a command says on stderr: progress, notes, failures, the closing line; and its exit code."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn, TypeVar

import click

from ninja.cli.messages import with_option_names
from ninja.errors import InputError, NinjaError, named
from ninja.files.cores import num_cores
from ninja.log import Log

if TYPE_CHECKING:
    from ninja.cli.progress_bar import ProgressBar
    from ninja.io.inputs import Inputs

# Keys in a context's meta: the words of the command line, and the parameters before files are loaded; the part of the
# inputs that a shard reads; these inputs; scales in files beside inputs, and facts of the run, by the inputs' names.
_CONSOLE, ARGUMENTS, VALUES, TABLES, INPUTS, SCALES, FACTS = (
    f"ninja.{name}" for name in ("console", "arguments", "values", "tables", "inputs", "scales", "facts")
)
SHOWN = 3  # failures of a kind
_VARIES = re.compile(r"'[^']*'|\"[^\"]*\"|[-+]?\d[\d.]*")  # from one failure of a kind to another
AnyLog = TypeVar("AnyLog", bound=Log)
_shown: ProgressBar | None = None  # a terminal has room for one progress line


@dataclass(slots=True)
class Kind:
    """Failures that differ only in names and numbers."""

    shown: set[tuple[str | None, int | None]] = field(default_factory=set)  # file, and a number
    first: str = ""  # of them
    more: int = 0  # that are not shown


def current_console() -> Console:
    """Return the console of the running command, which is made when it is first needed."""
    meta = click.get_current_context().meta
    if _CONSOLE not in meta:
        meta[_CONSOLE] = Console()
    console: Console = meta[_CONSOLE]
    return console


def use_log(inputs: Inputs, log: AnyLog) -> AnyLog:
    """Make a log that of the running command and of its inputs."""
    inputs.log = current_console().use_log(log)
    return log


@dataclass(slots=True)
class Console:
    """The messages of one run of a command, and the log that they show."""

    log: Log = field(default_factory=Log)
    tolerant: bool = True  # go on after a lattice failed
    start: float = field(default_factory=time.perf_counter)
    bar: ProgressBar | None = None  # that is shown
    jobs: int | None = None  # threads; None: all cores
    _prints: bool = False  # results are being printed on the terminal
    _kinds: dict[str, Kind] = field(default_factory=dict)
    _noted: dict[str, int] = field(default_factory=dict)  # kinds of notes, with the first output that had each
    _alike: set[int] = field(default_factory=set)  # other outputs that had one

    def __post_init__(self) -> None:
        """Show the log's notes and failures."""
        self.use_log(self.log)
        if (context := click.get_current_context(silent=True)) is not None:
            context.call_on_close(self._say_more)  # also where an error ends the run

    def use_log(self, log: AnyLog) -> AnyLog:
        """Make this the log of the run, and show its notes and failures."""
        self.log = self.attach(log)
        return log

    def attach(self, log: AnyLog) -> AnyLog:
        """Show the notes and failures of a log."""
        log.on_note = self.note
        log.on_error = self._say_failure if self.tolerant else None
        return log

    def _say_failure(self, failure: NinjaError) -> None:
        """Show the first failures of a kind, of one file that cannot be read the first; count the others."""
        kind = self._kinds.setdefault(_VARIES.sub("", failure.message), Kind(first=str(failure)))
        cause = failure.path, None if isinstance(failure, InputError) else len(kind.shown)
        if cause in kind.shown or len(kind.shown) == SHOWN:
            kind.more += 1
        else:
            kind.shown.add(cause)
            self.say(f"failed: {_worded(str(failure))}")

    def _say_more(self) -> None:
        """Show how many failures of each kind there were besides those shown."""
        for kind in self._kinds.values():
            if kind.more:
                self.say(f"failed: {kind.more} more like {kind.first}")
        self._kinds.clear()

    @property
    def threads(self) -> int:
        """Number of threads of the command."""
        return self.jobs or num_cores()

    @property
    def seconds(self) -> float:
        """Seconds since the command began."""
        return time.perf_counter() - self.start

    def say(self, message: str) -> None:
        """Print a line on stderr, above the progress line if there is one."""
        if _shown is None:
            click.echo(f"ninja: {message}", err=True)
        else:
            _shown.say(f"ninja: {message}")

    def note(self, message: str) -> None:
        """Say what a run notes; of several outputs, for the first that it is noted for."""
        kind = " ".join(_VARIES.sub("", message).split()[:3])
        if self._noted.setdefault(kind, self.log.output) == self.log.output:
            self.say(_worded(message))
        else:
            self._alike.add(self.log.output)

    def say_keys(self, keys: Sequence[str], what: str) -> None:
        """Say how many keys there are and name the first ones, if there are any."""
        if keys:
            self.say(f"{len(keys)} {what}: {named(keys)}")

    @contextmanager
    def progress(self, unit: str, *, to_stdout: bool = False, by_reading: bool = False) -> Iterator[ProgressBar | None]:
        """Show a progress line in a ``with`` block, if stderr is a terminal and no results are printed on it.

        Args:
            unit: What is counted.
            to_stdout: Results are printed on stdout.
            by_reading: The line moves as lattices are read, see `watch_reading`; else the caller moves it.
        """
        global _shown
        if to_stdout and sys.stdout.isatty():
            self._prints = True
            try:
                yield None
            finally:
                self._prints = False
            return
        if _shown is not None or self._prints or not sys.stderr.isatty():
            yield None
            return
        from ninja.cli.progress_bar import ProgressBar

        self.bar = _shown = ProgressBar(unit, by_reading=by_reading)
        self.bar.start()
        try:
            yield self.bar
        finally:
            self.bar.stop()
            self.bar = _shown = None

    def close(self, message: str | None = None, *, failed: bool = False) -> NoReturn:
        """Print results and failures, and end the command; it failed if the caller says so or any lattice failed."""
        self._say_more()
        if self._alike:
            self.say(f"{len(self._alike)} other outputs were noted likewise")
        if message is not None:
            self.say(message)
        if self.log.skipped:
            self.say(f"{self.log.skipped} lattices were in the output already and were skipped")
        if not self.log.lists_repeated:
            self.say_keys(self.log.repeated, "lattices have keys that came before")
        self.say_keys([failure.key or failure.path or "?" for failure in self.log.failures], "failed")
        click.get_current_context().exit(1 if failed or self.log.failures else 0)

    def close_counting(self, what: str = "lattices") -> NoReturn:
        """End the command with a line of the number of results and the time."""
        self.close(f"{self.log.lattices} {what}, {self.seconds:.1f} s")


def _worded(message: str) -> str:
    """Return a message in the words of the command that is running."""
    context = click.get_current_context(silent=True)
    return message if context is None else with_option_names(message, context.command)
