"""The command line: parse, call one function, print."""

from __future__ import annotations

import errno
import importlib
import io
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import click

from ninja.cli import wording
from ninja.cli.commands import COMMANDS, SECTIONS
from ninja.errors import NinjaError, NinjaWarning, OptionError
from ninja.files.terminal import printing
from ninja.libraries import explained

DEBUG, COMMAND = "ninja.debug", "ninja.command"  # keys in a context's meta


class UnreadOutput(Exception):
    """Standard output was closed by its reader."""


class Ended(BaseException):
    """Termination by the signal of this number."""


class Commands(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, context: click.Context) -> list[str]:
        """Return the names of all commands, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Import a command, or return None when there is none of this name."""
        if name not in COMMANDS:
            return None
        module, _, function = COMMANDS[name][0].partition(":")
        command = getattr(importlib.import_module(f"ninja.cli.{module}"), function or name.replace("-", "_"))
        return cast(click.Command, command)

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, and give its switches that stand alone their value: ``--rm-eps`` is ``--rm-eps=true``."""
        if (pair := " ".join(arguments[:2])) in COMMANDS:  # ninja train ngram
            arguments = [pair, *arguments[2:]]
        if arguments[0] not in COMMANDS and not arguments[0].startswith("-"):
            likely = wording.meant(arguments[0], COMMANDS, wording.PROGRAMS)
            found = f"did you mean {' or '.join(likely)}?" if likely else "see ninja --help"
            raise click.UsageError(f"there is no command {arguments[0]!r}; {found}", context)
        name, command, left = super().resolve_command(context, arguments)
        context.meta[COMMAND] = command
        options = [each for each in command.params if isinstance(each, click.Option)] if command is not None else []
        switches = {name for each in options if each.type is click.BOOL and not each.is_flag for name in each.opts}
        alone = [
            argument in switches and following.lower() not in ("true", "false")
            for argument, following in zip(left, [*left, ""][1:], strict=True)
        ]
        return name, command, [f"{each}=true" if bare else each for each, bare in zip(left, alone, strict=True)]

    def invoke(self, context: click.Context) -> object:
        """Run the command; click itself would end the process when its output is not read."""
        try:
            return super().invoke(context)
        except click.NoSuchOption as error:
            command = context.meta.get(COMMAND, self)
            options = [option for each in command.params for option in each.opts]
            likely = wording.meant(error.option_name, options, wording.ALIASES)
            found = f"did you mean {' or '.join(likely)}?" if likely else "see --help"
            raise click.UsageError(f"there is no option {error.option_name!r}; {found}", error.ctx) from None
        except (NinjaError, OSError) as error:
            if isinstance(error, BrokenPipeError) or isinstance(error.__cause__, BrokenPipeError):
                raise UnreadOutput from error
            if isinstance(error, NinjaError) and ".toml" not in str(error):  # whose keys are spelled as in Python
                error.message = wording.in_options(error.message, context.meta.get(COMMAND, self))
            raise

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands, in sections."""
        width = max(map(len, COMMANDS))
        for title, rows in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), text) for name, (_, text) in rows.items()], col_max=width)


def _print_version(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        from ninja.libraries import installed_version

        click.echo(f"ninja-asr {installed_version()}")
        context.exit()


@click.command(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110, "show_default": True},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
@click.option("--debug", is_flag=True, help="Show the Python traceback of errors.")
@click.pass_context
def group(context: click.Context, debug: bool) -> None:
    """Better transcripts from the word lattices of any recogniser.

    \b
    Example:
      ninja rescore lat.ark.gz --words words.txt -o rescored.ark.gz
    """
    context.meta[DEBUG] = debug


def main(arguments: list[str] | None = None) -> int:
    """Run the command line.

    Returns:
        Exit code: 0 done; 1 bad input, or a lattice failed; 2 wrong usage; 130 interrupted; 141 output not read; 143
        (129) told to end by SIGTERM (SIGHUP).
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    # Before numpy is imported: its BLAS starts a thread for each core, and each spins for a tenth of a second.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")  # 2^4 processor cycles
    # Closed by the caller: results cannot be written, and messages go nowhere.
    if sys.stdout is None:
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream, errors in ((sys.stdout, "surrogateescape"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=errors)  # as the words are, whatever the locale
    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # what libraries warn programmers of is noise to users
        warnings.simplefilter("default", NinjaWarning)
        warnings.showwarning = lambda message, *_, **__: _say(str(message))
    with printing():
        return _run(arguments)


def _run(arguments: list[str]) -> int:
    try:
        with _ends_in_order():
            code = group.main(arguments, prog_name="ninja", standalone_mode=False)
            sys.stdout.flush()
        return int(code or 0)
    except Ended as end:
        _say(f"ended by {signal.Signals(end.args[0]).name}")
        return int(128 + end.args[0])
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        _say("interrupted")
        return 130
    except (UnreadOutput, BrokenPipeError):
        _drop_output()
        return 141
    except Exception as error:
        if "--debug" in arguments:
            import traceback

            traceback.print_exc()
        try:
            sys.stdout.flush()
        except OSError:
            _drop_output()
        _say(f"error: {describe(error)}")
        return 2 if isinstance(error, OptionError) else 1


@contextmanager
def _ends_in_order() -> Iterator[None]:
    """Turn signals of termination into an exception, so that no unfinished output is left."""

    def end(number: int, frame: object) -> None:
        signal.signal(number, signal.SIG_IGN)  # once is enough
        raise Ended(number)

    before = {}
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                before[number] = signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def describe(error: Exception) -> str:
    """Describe an error and its remedy in one line."""
    if isinstance(error, ImportError):
        error = explained(error)
    if isinstance(error, NinjaError):
        return str(error)
    if isinstance(error, MemoryError):
        return "out of memory; use a smaller --batch-arcs, fewer --jobs, or prune the lattices first"
    if isinstance(error, OSError):
        nameless = "standard output" if error.errno == errno.ENOSPC else "input or output"  # files say their names
        place = nameless if error.filename is None else error.filename
        return f"{place}: {error.strerror or error}"
    name = f"{type(error).__name__}: {error}".replace("\n", " ")
    return f"internal error ({name}); please report it; --debug before the command shows the traceback"


def _drop_output() -> None:
    """Discard the output that Python would still flush at its end: that must not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _say(message: str) -> None:
    print(f"ninja: {message}", file=sys.stderr)
