"""Everything a command says on stderr: progress, notes, failures, the closing line; and its exit code."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn, TypeVar

import click

from ninja.errors import shown
from ninja.log import Log

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

NAMED_FAILURES = 20
AnyLog = TypeVar("AnyLog", bound=Log)


@dataclass(slots=True)
class Bar:
    """A progress line."""

    progress: Progress
    task: TaskID

    def step(self, description: str, completed: int | None = None) -> None:
        """Show one more item done, or how many are done in all."""
        text = f"[dim]{description.replace('[', '')}"
        if completed is None:
            self.progress.update(self.task, advance=1, description=text)
        else:
            self.progress.update(self.task, completed=completed, description=text)


@dataclass(slots=True)
class Console:
    """The messages of one run of a command, and the log that they show."""

    log: Log = field(default_factory=Log)
    tolerant: bool = True  # go on after a lattice failed
    repeated: list[str] = field(default_factory=list)  # keys that came again, one for each time
    start: float = field(default_factory=time.perf_counter)
    _bar: Bar | None = None

    def __post_init__(self) -> None:
        """Show the log's notes and failures."""
        self.use_log(self.log)

    def use_log(self, log: AnyLog) -> AnyLog:
        """Make this the log of the run, and show its notes and failures."""
        self.log = log
        log.on_note = self.say
        log.on_error = (lambda failure: self.say(f"failed: {failure}")) if self.tolerant else None
        return log

    @property
    def seconds(self) -> float:
        """Seconds since the command began."""
        return time.perf_counter() - self.start

    def say(self, message: str) -> None:
        """Print a line on stderr, above the progress line if there is one."""
        if self._bar is None:
            click.echo(f"ninja: {message}", err=True)
        else:
            self._bar.progress.console.print(f"ninja: {message}", markup=False, highlight=False, soft_wrap=True)

    def say_keys(self, keys: Sequence[str], what: str) -> None:
        """Say how many keys there are and name the first ones, if there are any."""
        if keys:
            self.say(f"{len(keys)} {what}: {named(keys)}")

    @contextmanager
    def progress(self, unit: str, *, to_stdout: bool = False) -> Iterator[Bar | None]:
        """Show a progress line in a ``with`` block, if stderr is a terminal and no results are printed on it."""
        if not sys.stderr.isatty() or (to_stdout and sys.stdout.isatty()):
            yield None
            return
        from rich.console import Console as Terminal
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        with Progress(
            SpinnerColumn(),
            TextColumn(f"{{task.completed:.0f}} {unit}"),
            TimeElapsedColumn(),
            TextColumn("{task.description}"),
            console=Terminal(stderr=True),
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        ) as progress:
            self._bar = Bar(progress, progress.add_task("", total=None))
            try:
                yield self._bar
            finally:
                self._bar = None

    def close(self, message: str | None = None, *, failed: bool = False) -> NoReturn:
        """Print results and failures, and end the command; it failed if the caller says so or any lattice failed."""
        if message is not None:
            self.say(message)
        if self.log.skipped:
            self.say(f"{self.log.skipped} lattices were in the output already and were skipped")
        self.say_keys(self.repeated, "lattices have keys that came before")
        self.say_keys([failure.key or failure.path or "?" for failure in self.log.failures], "failed")
        click.get_current_context().exit(1 if failed or self.log.failures else 0)

    def close_counting(self, what: str = "lattices") -> NoReturn:
        """End the command with a line of the number of results and the time."""
        self.close(f"{self.log.lattices} {what}, {self.seconds:.1f} s")


def named(keys: Sequence[str]) -> str:
    """Return the first of some keys, and how many more there are."""
    more = f" and {len(keys) - NAMED_FAILURES} more" if len(keys) > NAMED_FAILURES else ""
    return ", ".join(key if key.isprintable() and len(key) < 80 else shown(key) for key in keys[:NAMED_FAILURES]) + more
