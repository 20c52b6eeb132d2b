"""The running command: its messages on stderr, its calls of the pipeline with them, and its exit code."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

import click

from ninja import pipeline
from ninja.cli.messages import with_option_names
from ninja.errors import InputError, NinjaError, named
from ninja.files.threads import num_cores
from ninja.io.inputs import Inputs
from ninja.lattice import Kind
from ninja.lattice.batch import Batch
from ninja.lattice.text import LexicalForms
from ninja.log import Log
from ninja.pipeline import OnBatches, Output, Summary, TextOutput
from ninja.pipeline.execution import Progress, Stage
from ninja.pipeline.stages import Pairs

if TYPE_CHECKING:
    from ninja.cli.progress_bar import ProgressBar


# Keys of a context's meta.
_CONSOLE, ARGUMENTS = "ninja.console", "ninja.arguments"
SHOWN = 3  # failures of each kind that are printed
_VARIES = re.compile(r"'[^']*'|\"[^\"]*\"|[-+]?\d[\d.]*")  # differs between failures of one kind
Result = TypeVar("Result")
AnyLog = TypeVar("AnyLog", bound=Log)
_shown: ProgressBar | None = None  # there is one progress line


@dataclass(slots=True)
class FailureKind:
    """Failures whose messages differ only in names and numbers."""

    shown: set[tuple[str | None, int | None]] = field(default_factory=set)  # file and number of each printed failure
    first: str = ""  # message
    more: int = 0  # failures that are not printed


def current_console() -> Console:
    """Return the console of the running command; the first call creates it."""
    meta = click.get_current_context().meta
    if _CONSOLE not in meta:
        meta[_CONSOLE] = Console()
    console: Console = meta[_CONSOLE]
    return console


def use_log(inputs: Inputs, log: AnyLog) -> AnyLog:
    """Set the log of the running command and its inputs."""
    inputs.log = current_console().use_log(log)
    return log


@dataclass(slots=True)
class Console:
    """The messages of one run of a command, and its log."""

    log: Log = field(default_factory=Log)
    tolerant: bool = True  # continue after failed lattices
    start: float = field(default_factory=time.perf_counter)
    bar: ProgressBar | None = None
    jobs: int | None = None  # threads; all cores by default
    _prints: bool = False  # results are printed on the terminal
    _kinds: dict[str, FailureKind] = field(default_factory=dict)
    _noted: dict[str, int] = field(default_factory=dict)  # kind of note → first output with such a note
    _noted_alike: set[int] = field(default_factory=set)  # other outputs with such notes

    def __post_init__(self) -> None:
        """Print notes and failures of the log."""
        self.use_log(self.log)
        if (context := click.get_current_context(silent=True)) is not None:
            context.call_on_close(self._say_more)  # even after an error

    def use_log(self, log: AnyLog) -> AnyLog:
        """Set the log of the run, and print its notes and failures."""
        self.log = self.attach(log)
        return log

    def attach(self, log: AnyLog) -> AnyLog:
        """Print the notes and failures of a log as they are added."""
        log.on_note = self.note
        log.on_error = self._say_failure if self.tolerant else None
        return log

    def _say_failure(self, failure: NinjaError) -> None:
        """Print the first failures of a kind, once for a file that cannot be read; count the others."""
        kind = self._kinds.setdefault(_VARIES.sub("", failure.message), FailureKind(first=str(failure)))
        cause = failure.path, None if isinstance(failure, InputError) else len(kind.shown)
        if cause in kind.shown or len(kind.shown) == SHOWN:
            kind.more += 1
        else:
            kind.shown.add(cause)
            self.say(f"failed: {_with_option_names(str(failure))}")

    def _say_more(self) -> None:
        """Print how many more failures of each kind there are."""
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
        """Print a message on stderr, above the progress line if there is one."""
        if _shown is None:
            click.echo(f"ninja: {message}", err=True)
        else:
            _shown.say(f"ninja: {message}")

    def note(self, message: str) -> None:
        """Print a note, once for several outputs."""
        kind = " ".join(_VARIES.sub("", message).split()[:3])
        if self._noted.setdefault(kind, self.log.output) == self.log.output:
            self.say(_with_option_names(message))
        else:
            self._noted_alike.add(self.log.output)

    def say_keys(self, keys: Sequence[str], description: str) -> None:
        """Print the number of keys and the first of them, if there are any."""
        if keys:
            self.say(f"{len(keys)} {description}: {named(keys)}")

    @contextmanager
    def progress(self, unit: str, *, to_stdout: bool = False, by_reading: bool = False) -> Iterator[ProgressBar | None]:
        """Show a progress line in a ``with`` block, if stderr is a terminal and no results are printed on it.

        Args:
            unit: Name of the items counted.
            to_stdout: Results are printed on stdout.
            by_reading: Lattices advance the line as they are read, see `watch_reading`; otherwise the caller does.
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
        """Print the failures and a closing message, and exit.

        Args:
            message: Closing line.
            failed: Exit with 1 even if no lattice failed.
        """
        self._say_more()
        if self._noted_alike:
            self.say(f"{len(self._noted_alike)} other outputs have such notes, too")
        if message is not None:
            self.say(message)
        if self.log.skipped:
            self.say(f"{self.log.skipped} lattices are already in the output and were skipped")
        if not self.log.lists_repeated:
            self.say_keys(self.log.repeated, "duplicate keys")
        self.say_keys([failure.key or failure.path or "?" for failure in self.log.failures], "failed")
        click.get_current_context().exit(1 if failed or self.log.failures else 0)

    def close_counting(self, unit: str = "lattices") -> NoReturn:
        """Exit with a line of the number of results and the time."""
        self.close(f"{self.log.lattices} {unit}, {self.seconds:.1f} s")


def _with_option_names(message: str) -> str:
    context = click.get_current_context(silent=True)
    return message if context is None else with_option_names(message, context.command)


def lexical_forms(name: str) -> LexicalForms:
    """Return the lexical forms of a run by its option ``--normalizer``; an automatic choice is printed.

    Raises:
        NinjaError: As for ``make_normalizer``.
    """
    console = current_console()
    return LexicalForms(name, lambda line: console.log.note(line))  # the log of the run may be set later


def write(
    stage: Stage[Any], inputs: Inputs, output: Output | TextOutput, *, kind: Kind | None = None, **how: Any
) -> Summary:
    """Write a stage's results, lattices as a kind; see ``ninja.pipeline.run``."""
    console = current_console()
    if kind is not None:
        output = replace(cast(Output, output), kind=kind)
    with console.progress("lattices", to_stdout=output.is_stdout) as bar:
        return pipeline.run(inputs, stage, output, jobs=console.jobs, progress=_shown_by(bar), **how)


def _shown_by(bar: ProgressBar | None) -> Progress | None:
    """Return the function that shows a pipeline's progress."""
    return None if bar is None else lambda key, count, share: bar.step(key, count, share=share)


def run(stage: Stage[Any], inputs: Inputs, output: Output, **how: Any) -> NoReturn:
    """Write a stage's lattices, report their number, and end the command."""
    write(stage, inputs, output, **how)
    current_console().close_counting()


def run_lines(function: Callable[[Batch], Sequence[str]], inputs: Inputs, output_file: str) -> None:
    """Write the lines that a function makes of each lattice of a batch to a text file."""
    write(OnBatches(function), inputs, TextOutput(output_file))


def results(
    stage: Stage[Result], inputs: Inputs | Pairs, *, to_stdout: bool = False, **how: Any
) -> Iterator[tuple[str, Result]]:
    """Yield a stage's result for each lattice, showing progress on a terminal; see ``ninja.pipeline.stream``.

    Args:
        to_stdout: The results are printed on stdout.
    """
    console = current_console()
    with console.progress("lattices", to_stdout=to_stdout) as bar:
        yield from pipeline.stream(
            inputs,
            stage,
            jobs=console.jobs,
            log=None if isinstance(inputs, Inputs) else console.log,
            progress=_shown_by(bar),
            **({"may_be_empty": False} | how),
        )
