"""The errors Ninja raises: where it is, what is wrong, what to do.

Every error is a ``NinjaError`` and the built-in exception a Python programmer would expect, so that
both ``except ninja.NinjaError`` and ``except ValueError`` work.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import field, fields
from typing import ClassVar, TypeVar

Default = TypeVar("Default")
Options = TypeVar("Options")

LONGEST_SHOWN = 120  # characters of a key
NAMED = 20  # keys in a message


class NinjaWarning(UserWarning):
    """A peculiarity of an input that was removed while it was read, which the user should know."""


class NinjaError(Exception):
    """Base of all errors of this package.

    ``of_run`` tells errors of a run, its options, symbol table or libraries, from those of a lattice: any other lattice
    would fail like this one. They are raised, also where failures of lattices are tolerated.

    Args:
        message: What is wrong and what to do, in one line, with the offending value.
        path: File, stream or rspecifier in which it was found.
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
        if self.line is not None:
            place += f":{self.line}"
        if self.byte is not None:
            place += f"{', ' if place else ''}byte {self.byte}"
        if self.key is not None:
            place += f"{', ' if place else ''}key {shown(self.key)}"
        return f"{place}: {self.message}" if place else self.message

    def __reduce__(self) -> tuple[object, ...]:
        """Keep the place when the error crosses a process boundary."""
        return (type(self), (self.message, self.path), self.__dict__)


def shown(key: str) -> str:
    """Return a key as messages show it: quoted, and not the whole of what is no key at all."""
    return repr(key) if len(key) <= LONGEST_SHOWN else f"{key[:LONGEST_SHOWN]!r}…"


def named(names: Sequence[str], most: int = NAMED) -> str:
    """Return the first names of files or keys as messages show them, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(name if name.isprintable() and len(name) < 80 else shown(name) for name in names[:most]) + more


class FormatError(NinjaError, ValueError):
    """A file does not hold what its format demands; reading it cannot go on."""


class LatticeError(NinjaError, ValueError):
    """A lattice that could be read breaks an invariant: a cycle, NaN, no final state."""


class SymbolError(NinjaError, ValueError):
    """A word or a word id is missing from a symbol table."""


class TableError(SymbolError):
    """A word id is missing from the symbol table, which is not the one that the lattices were made with."""

    of_run = True


class ModelError(NinjaError, ValueError):
    """A language model file is of the wrong kind, damaged or inconsistent."""


class VocabularyError(NinjaError, ValueError):
    """Lattices and language model do not share enough of a vocabulary to give honest scores."""


class OptionError(NinjaError, ValueError):
    """An option is out of its range or contradicts another."""

    of_run = True


class InputError(NinjaError, OSError):
    """A file could not be opened or read."""


class StoreError(InputError):
    """An object store stopped giving the bytes of a file; what was written so far must not pass for all."""

    of_run = True


class OutputError(NinjaError, OSError):
    """A result could not be written."""


class DependencyError(NinjaError, ImportError):
    """A library that this operation needs is not installed."""

    of_run = True


class WorkerError(NinjaError, RuntimeError):
    """A worker process died before it gave its results back."""

    of_run = True


class ThreadError(NinjaError, RuntimeError):
    """The system has no more threads for this process."""

    of_run = True


class BusyError(NinjaError, TimeoutError):
    """As many lattices are in flight as may be, and the time to wait for one of them is over."""

    of_run = True


class ClosedError(NinjaError, RuntimeError):
    """A lattice was given to something that is closed, or not done when it was closed."""

    of_run = True


def described(default: Default, help: str) -> Default:
    """Make a field of an options dataclass with its help text."""
    found: Default = field(default=default, metadata={"help": help})
    return found


def documented(options: type[Options]) -> type[Options]:
    """List the fields of an options dataclass, with their help texts, in its docstring."""
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
    """Check that an option lies within its range.

    Args:
        value: Its value; NaN is in no range.
        above: The value must be larger than this; None: no such bound.
        finite: Infinity is not allowed.
    """
    if least <= value <= most and (above is None or value > above) and (math.isfinite(value) or not finite):
        return
    if above is not None:
        bounds = f"above {above:g}"
    elif math.isfinite(least):
        bounds = f"between {least:g} and {most:g}" if math.isfinite(most) else f"{least:g} or more"
    else:
        bounds = f"{most:g} or less" if math.isfinite(most) else "finite"
    raise OptionError(f"{name} is {value}, but must be {bounds}")
