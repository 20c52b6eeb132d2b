"""Messages, progress and exit code of the running command, and its calls of the pipeline."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

import click

from ninja.errors import InputError, Log, NinjaError, counted, named
from ninja.files.threads import num_cores
from ninja.io.inputs import Inputs
from ninja.lattice import Kind
from ninja.lattice.batch import Batch
from ninja.pipeline import OnBatches, Output, Summary, TextOutput, execution
from ninja.pipeline.execution import Progress, Stage
from ninja.pipeline.stages import Pairs

if TYPE_CHECKING:
    from ninja.cli.progress_bar import ProgressBar


# Keys of a context's meta.
_CONSOLE, ARGUMENTS = "ninja.console", "ninja.arguments"
MAX_SHOWN = 3  # failures of each kind that are printed
_NAME_OR_NUMBER = re.compile(r"'[^']*'|\"[^\"]*\"|[-+]?\d[\d.]*")  # differ between failures of one kind
Result = TypeVar("Result")
AnyLog = TypeVar("AnyLog", bound=Log)
_shown: ProgressBar | None = None  # the progress line on the terminal


class FailureKind:
    """Failures whose messages differ only in names and numbers."""

    def __init__(self, first_message: str) -> None:
        self.first_message = first_message
        self.shown: set[tuple[str | None, int | None]] = set()  # file and number of each printed failure
        self.num_hidden = 0  # failures that are not printed


def current_console() -> Console:
    """Return the console of the running command; the first call creates it."""
    meta = click.get_current_context().meta
    if _CONSOLE not in meta:
        meta[_CONSOLE] = Console()
    console: Console = meta[_CONSOLE]
    return console


def use_log(inputs: Inputs, log: AnyLog) -> AnyLog:
    """Set the log of the running command and of its inputs, and return it."""
    inputs.log = current_console().use_log(log)
    return log


class Console:
    """Messages and log of a running command."""

    def __init__(self) -> None:
        """Attach a new log, and print the number of hidden failures when the command ends."""
        self.tolerant = True  # continue after failed lattices
        self.start = time.perf_counter()
        self.bar: ProgressBar | None = None
        self.jobs: int | None = None  # threads; all cores by default
        self._prints = False  # results are printed on the terminal
        self._kinds: dict[str, FailureKind] = {}
        self._first_outputs: dict[str, int] = {}  # kind of note → first output that has a note of this kind
        self._other_outputs: set[int] = set()  # later outputs with notes of the same kinds
        self.log = self.attach(Log())
        if (context := click.get_current_context(silent=True)) is not None:
            context.call_on_close(self._say_more)  # even after an error

    def use_log(self, log: AnyLog) -> AnyLog:
        """Set the log of the run, attach it, and return it."""
        self.log = self.attach(log)
        return log

    def attach(self, log: AnyLog) -> AnyLog:
        """Print the notes and failures of a log as they are added, and return the log."""
        log.on_note = self.note
        log.on_error = self._say_failure if self.tolerant else None
        return log

    def _say_failure(self, failure: NinjaError) -> None:
        """Print the first failures of each kind, but only one for each unreadable file; count the others."""
        kind = self._kinds.setdefault(_NAME_OR_NUMBER.sub("", failure.message), FailureKind(str(failure)))
        cause = failure.path, None if isinstance(failure, InputError) else len(kind.shown)
        if cause in kind.shown or len(kind.shown) == MAX_SHOWN:
            kind.num_hidden += 1
        else:
            kind.shown.add(cause)
            self.say(f"failed: {_with_option_names(str(failure))}")

    def _say_more(self) -> None:
        """Print how many more failures of each kind there are."""
        for kind in self._kinds.values():
            if kind.num_hidden:
                self.say(f"failed: {kind.num_hidden} more like {kind.first_message}")
        self._kinds.clear()

    @property
    def threads(self) -> int:
        """Number of threads of the command."""
        return self.jobs or num_cores()

    @property
    def seconds(self) -> float:
        """Seconds since the command started."""
        return time.perf_counter() - self.start

    def say(self, message: str) -> None:
        """Print a message on stderr, above the progress line if there is one."""
        if _shown is None:
            click.echo(f"ninja: {message}", err=True)
        else:
            _shown.say(f"ninja: {message}")

    def note(self, message: str) -> None:
        """Print a note, unless an earlier output had a note of the same kind."""
        kind = " ".join(_NAME_OR_NUMBER.sub("", message).split()[:3])
        if self._first_outputs.setdefault(kind, self.log.output) == self.log.output:
            self.say(_with_option_names(message))
        else:
            self._other_outputs.add(self.log.output)

    def say_keys(self, keys: Sequence[str], description: str, of_one: str = "") -> None:
        """Print the number of keys and the first of them, if there are any.

        Args:
            keys: The keys.
            description: Text between the number and the keys.
            of_one: Text for a single key.  [default: `description`]
        """
        if keys:
            self.say(f"{counted(len(keys), of_one or description, description)}: {named(keys)}")

    @contextmanager
    def progress(self, unit: str, *, to_stdout: bool = False, by_reading: bool = False) -> Iterator[ProgressBar | None]:
        """Show a progress line in a ``with`` block, if stderr is a terminal and no results are printed on a terminal.

        Args:
            unit: Plural name of the items counted.
            to_stdout: Whether the command prints results on stdout.
            by_reading: Whether `watch_reading` advances the line as lattices are read, instead of the caller.
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
        """Print a summary of the failures and a closing message, and exit.

        Args:
            message: Closing message; None prints none.
            failed: Exit with code 1 even if no lattice failed.
        """
        self._say_more()
        if self._other_outputs:
            self.say(f"{counted(len(self._other_outputs), 'other output has', 'other outputs have')} similar notes")
        if message is not None:
            self.say(message)
        if self.log.skipped:
            self.say(
                f"skipped {counted(self.log.skipped, 'lattice that is', 'lattices that are')} already in the output"
            )
        if not self.log.lists_repeated:
            self.say_keys(self.log.repeated, "duplicate keys", "duplicate key")
        self.say_keys([failure.key or failure.path or "?" for failure in self.log.failures], "failed")
        click.get_current_context().exit(1 if failed or self.log.failures else 0)

    def close_counting(self, details: str = "", unit: str = "lattice") -> NoReturn:
        """Print the number of results, some details and the elapsed time, and exit."""
        self.close(f"{counted(self.log.lattices, unit)}{details}, {self.seconds:.1f} s")


def _with_option_names(message: str) -> str:
    context = click.get_current_context(silent=True)
    return message if context is None else with_option_names(message, context.command)


def with_option_names(message: str, command: click.Command) -> str:
    """Replace the names of Python arguments in a message by the corresponding options of a command."""
    message = re.sub(r" \(\w+=(?:'\w+')?\)", "", message)  # the hint for Python callers
    for parameter in command.params:
        if not isinstance(parameter, click.Option) or not parameter.name:
            continue
        name = re.escape(parameter.name)
        option = max(parameter.opts, key=len)
        message = re.sub(rf"^{name}(?= is | has | and | cannot | must )", option, message)
        if "_" in parameter.name:
            message = re.sub(rf"(?<![\w.=:/'\"-]){name}(?![\w./'\"(-]|=\w)", option, message)
    return re.sub(r"(--[\w-]+)((?: [A-Z]+)?) \(\1\)", r"\1\2", message)


def write(
    stage: Stage[Any], inputs: Inputs, output: Output | TextOutput, *, kind: Kind | None = None, **how: Any
) -> Summary:
    """Write the results of a stage; see ``ninja.pipeline.run``.

    Args:
        kind: Kind to which result lattices are converted; None uses the kind of the output.
        how: Further arguments of ``ninja.pipeline.run``.
    """
    console = current_console()
    if kind is not None:
        output = replace(cast(Output, output), kind=kind)
    with console.progress("lattices", to_stdout=output.is_stdout) as bar:
        return execution.run(inputs, stage, output, jobs=console.jobs, progress=_progress_callback(bar), **how)


def _progress_callback(bar: ProgressBar | None) -> Progress | None:
    """Return a function that shows the progress of a pipeline on a bar."""
    return None if bar is None else lambda key, count, share: bar.step(key, count, share=share)


def run(stage: Stage[Any], inputs: Inputs, output: Output, **how: Any) -> NoReturn:
    """Write the lattices of a stage, print their number, and exit."""
    write(stage, inputs, output, **how)
    current_console().close_counting()


def run_lines(function: Callable[[Batch], Sequence[str]], inputs: Inputs, output_file: str) -> None:
    """Write the text that a function returns for each lattice of a batch to a text file."""
    write(OnBatches(function), inputs, TextOutput(output_file))


def results(
    stage: Stage[Result], inputs: Inputs | Pairs, *, to_stdout: bool = False, **how: Any
) -> Iterator[tuple[str, Result]]:
    """Yield the key and the result of each lattice, and show progress on a terminal; see ``ninja.pipeline.stream``.

    Args:
        to_stdout: Whether the command prints results on stdout.
        how: Further arguments of ``ninja.pipeline.stream``.
    """
    console = current_console()
    with console.progress("lattices", to_stdout=to_stdout) as bar:
        yield from execution.stream(
            inputs,
            stage,
            jobs=console.jobs,
            log=None if isinstance(inputs, Inputs) else console.log,
            progress=_progress_callback(bar),
            **({"may_be_empty": False} | how),
        )
