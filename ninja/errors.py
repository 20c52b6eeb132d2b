"""Exceptions, and classes for the log and the summary of a run.

The message of an error contains the file, key, line or byte, describes the problem, and suggests a remedy. Every error
is a ``NinjaError`` and also the appropriate built-in exception, so both ``except ninja.NinjaError`` and
``except ValueError`` work.
"""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, NamedTuple, TypeVar

Default = TypeVar("Default")
Options = TypeVar("Options")

LONGEST_SHOWN = 120  # maximum number of characters of a key in a message
LARGEST_COUNT = 2**63 - 1  # kernels use 64-bit integers
MAX_JOBS = 4096  # maximum number of threads of a run
MAX_WIDTH = 100_000  # maximum width of the layers of a network that is trained
MAX_LEARNING_RATE = 1e30  # larger values overflow in single precision
NAMED = 20  # maximum number of keys in a message
_NO_THREAD = ("can't start new thread", os.strerror(errno.EAGAIN))  # error messages of Python and of the kernels


class NinjaWarning(UserWarning):
    """Warning that a peculiarity of an input, such as a byte-order mark, was corrected."""


class NinjaError(Exception):
    """Base class of all errors of this package.

    ``of_run`` marks errors that every lattice in a run would cause, for example because of its options, symbol table or
    libraries. They are raised even if failures of single lattices are tolerated.

    Args:
        message: One line with the problem, the offending value and the remedy.
        path: File or rspecifier that caused the error; ``-`` is standard input or, for an `OutputError`, standard
            output.
        key: Key of the lattice.
        line: Line in a text file, counted from 1.
        byte: Offset in a binary file, counted from 0.
    """

    of_run: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        path: str | os.PathLike[str] | None = None,
        *,
        key: str | None = None,
        line: int | None = None,
        byte: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.path = None if path is None else os.fspath(path)
        self.key = key
        self.line = line
        self.byte = byte

    def __str__(self) -> str:
        place = self.path or ""
        if place == "-":
            place = "standard output" if isinstance(self, OutputError) else "standard input"
        if self.line is not None:
            place += f":{self.line}"
        if self.byte is not None:
            place += f"{', ' if place else ''}byte {self.byte}"
        if self.key is not None:
            place += f"{', ' if place else ''}key {shown(self.key)}"
        return f"{place}: {self.message}" if place else self.message

    def __reduce__(self) -> tuple[object, ...]:
        """Keep all attributes when the error is pickled."""
        return (type(self), (self.message, self.path), self.__dict__)


def shown(key: str) -> str:
    """Format a key for use in a message: quote it, and truncate it to ``LONGEST_SHOWN`` characters."""
    return repr(key) if len(key) <= LONGEST_SHOWN else f"{key[:LONGEST_SHOWN]!r}…"


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number, followed by a noun in the singular or plural; by default, the plural is `one` with an -s."""
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def type_name(value: object) -> str:
    """Return the name of a value's type, preceded by an indefinite article; None has no article."""
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[:1] in 'AEIOUaeiou' else 'a'} {name}"


def kind_of(argument: object) -> str:
    """Describe the type of an invalid argument for a message; a tuple is described as a pair from `ninja.read`."""
    return "a (key, lattice) pair" if isinstance(argument, tuple) else type_name(argument)


def all_failed(number: int) -> str:
    """Return the beginning of the error message for a run in which all lattices failed."""
    return "the only lattice failed" if number == 1 else f"all {number} lattices failed"


def named(names: Sequence[str], most: int = NAMED) -> str:
    """Join the first ``most`` file names or keys with commas for a message, and append the number of further names."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(name if name.isprintable() and len(name) < 80 else shown(name) for name in names[:most]) + more


class FormatError(NinjaError, ValueError):
    """A file violates its format and cannot be read further."""


class LatticeError(NinjaError, ValueError):
    """A lattice is invalid: for example, it has a cycle, a NaN cost, or no final state."""


class SymbolError(NinjaError, ValueError):
    """A word or a word id is missing from a symbol table."""


class TableError(SymbolError):
    """A word id is missing from the symbol table, so the table must belong to other lattices."""

    of_run = True


class ModelError(NinjaError, ValueError):
    """A model has the wrong type, is damaged or inconsistent, or returns invalid values."""


class VocabularyError(NinjaError, ValueError):
    """Words cannot be scored, because a vocabulary does not contain them or a lattice has no symbol table."""


class OptionError(NinjaError, ValueError):
    """An option is out of range or contradicts another option."""

    of_run = True


class InputError(NinjaError, OSError):
    """A file could not be opened or read."""


class StoreError(InputError):
    """An object store failed during reading; incomplete outputs must be discarded."""

    of_run = True


class OutputError(NinjaError, OSError):
    """A result could not be written."""


class DependencyError(NinjaError, ImportError):
    """A required library is not installed."""

    of_run = True


class WorkerError(NinjaError, RuntimeError):
    """A worker process could not be started, failed repeatedly, or died before it returned its results."""

    of_run = True


class ThreadError(NinjaError, RuntimeError):
    """The operating system cannot start another thread."""

    of_run = True


@contextmanager
def starting_threads() -> Iterator[None]:
    """Raise `ThreadError` if a thread cannot be started in a ``with`` block."""
    try:
        yield
    except RuntimeError as error:
        if not any(reason in str(error) for reason in _NO_THREAD):
            raise
        advice = "use fewer --jobs (jobs=), or raise the process limit (ulimit -u) or the limit of the cgroup"
        raise ThreadError(f"cannot start a thread, because a system limit has been reached; {advice}") from error


class BusyError(NinjaError, TimeoutError):
    """The maximum number of pending lattices is reached, and waiting for a free slot timed out."""

    of_run = True


class ClosedError(NinjaError, RuntimeError):
    """A lattice was submitted after the service was closed, or was not finished when the service was closed."""

    of_run = True


OnError = Callable[[NinjaError], None]


@dataclass(slots=True, eq=False)
class Log:
    """Counts, notes and failures of a run; all stages of the run share the log.

    Numeric fields, including fields of subclasses, are added up when the logs of several threads or processes are
    merged.
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

    @property
    def counts(self) -> tuple[int, int]:
        """``(number of lattices done, number of failures)``; skipped lattices count as done."""
        return self.lattices + self.skipped, len(self.failures)

    def note(self, message: str) -> None:
        """Add a note and pass it to ``on_note``; ignore a note that was already added for the current output."""
        if (self.output, message) in self._reported:
            return
        self._reported.add((self.output, message))
        if message not in self.notes:
            self.notes.append(message)
        if self.on_note is not None:
            self.on_note(message)

    def fail(self, error: NinjaError, key: str | None = None) -> None:
        """Add the error of a lattice and pass it to ``on_error``.

        If ``on_error`` is None, or if the error would occur for every lattice of the run, it is raised instead.
        """
        error.key = error.key or key
        if self.on_error is None or error.of_run:
            raise error
        self.failures.append(error)
        self.on_error(error)

    def checking_words(self, stage: Any) -> AbstractContextManager[Any]:
        """Raise an `OptionError`; only the subclass ``RescoreReport`` can check words for the models of a stage."""
        name = type(stage).__name__
        raise OptionError(f"{name} requires a RescoreReport; use Inputs(..., log=ninja.RescoreReport(on_error=...))")

    def merge(self, part: Log) -> None:
        """Add the counts, notes and failures from another log."""
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


def described(default: Default, help: str) -> Default:
    """Return a field of an options dataclass with a default and a help text."""
    option: Default = field(default=default, metadata={"help": help})
    return option


def documented(options: type[Options]) -> type[Options]:
    """Add the fields of an options dataclass, with their help texts, to the docstring of the class."""
    described_fields = [option for option in fields(options) if "help" in option.metadata]  # type: ignore[arg-type]
    lines = (f"        {option.name}: {option.metadata['help']}" for option in described_fields)
    options.__doc__ = "\n".join([(options.__doc__ or "").rstrip(), "", "    Attributes:", *lines, "    "])
    return options


def check_range(
    name: str,
    value: float,
    *,
    least: float = -math.inf,
    most: float = math.inf,
    above: float | None = None,
    finite: bool = False,
) -> None:
    """Check that an option is within its range.

    Args:
        name: Name of the option, for the message.
        value: Value of the option; NaN is always out of range.
        least: Lower bound, inclusive.
        most: Upper bound, inclusive.
        above: Lower bound, exclusive.
        finite: Do not allow infinity.

    Raises:
        OptionError: The value is out of range.
    """
    if least <= value <= most and (above is None or value > above) and (math.isfinite(value) or not finite):
        return
    if above is not None:
        bounds = f"above {above:g}" + (f" and at most {most:g}" if math.isfinite(most) else "")
    elif math.isfinite(least):
        bounds = f"between {least:g} and {most:g}" if math.isfinite(most) else f"{least:g} or more"
    else:
        bounds = f"{most:g} or less" if math.isfinite(most) else "finite"
    infinite = finite and math.isinf(value) and least <= value <= most and bounds != "finite"
    raise OptionError(f"{name} is {value}, but must be {bounds}{' and finite' if infinite else ''}")


def check_count(name: str, value: int, *, least: int, most: int = LARGEST_COUNT) -> None:
    """Check that a whole number is within its range; the message contains only the bound that is exceeded.

    Args:
        name: Name of the option, for the message.
        value: Value of the option.
        least: Lower bound, inclusive.
        most: Upper bound, inclusive.

    Raises:
        OptionError: The value is out of range.
    """
    check_range(name, value, least=least)
    if value > most:
        raise OptionError(f"{name} is {value}, but must be at most {most}")
