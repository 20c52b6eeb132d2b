"""Entry point of the command line: runs a command, and turns exceptions into messages and exit codes."""

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

from ninja.cli.commands import ALIASES, COMMANDS, PROGRAMS, SECTIONS, suggestions
from ninja.errors import NinjaError, NinjaWarning, OptionError
from ninja.files.output import printing
from ninja.libraries import explained

DEBUG, COMMAND = "ninja.debug", "ninja.command"  # keys in a context's meta


class UnreadOutput(Exception):
    """Raised when the reader of stdout has closed it."""


class Terminated(BaseException):
    """Raised when a signal terminates the program; the argument is the signal number."""


class Commands(click.Group):
    """Command group that imports each command when it is first needed."""

    def list_commands(self, context: click.Context) -> list[str]:
        """Return the names of the commands in the order of the help."""
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Import a command; return None for an unknown name."""
        if name not in COMMANDS:
            return None
        entry = COMMANDS[name]
        module = importlib.import_module(f"ninja.cli.{entry.module}")
        return cast(click.Command, getattr(module, entry.function or name.replace("-", "_")))

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, and complete switches without a value: ``--rm-eps`` means ``--rm-eps=true``."""
        if (pair := " ".join(arguments[:2])) in COMMANDS:  # ninja train ngram
            arguments = [pair, *arguments[2:]]
        if arguments[0] not in COMMANDS and not arguments[0].startswith("-"):
            names = suggestions(arguments[0], COMMANDS, PROGRAMS)
            advice = f"did you mean {' or '.join(names)}?" if names else "see ninja --help"
            raise click.UsageError(f"no such command {arguments[0]!r}; {advice}", context)
        name, command, arguments = super().resolve_command(context, arguments)
        context.meta[COMMAND] = command
        options = [option for option in (command.params if command else ()) if isinstance(option, click.Option)]
        switches = {
            flag for option in options if option.type is click.BOOL and not option.is_flag for flag in option.opts
        }
        for index, argument in enumerate(arguments):
            value = arguments[index + 1].lower() if index + 1 < len(arguments) else ""
            if argument in switches and value not in ("true", "false"):
                arguments[index] = f"{argument}=true"
        return name, command, arguments

    def invoke(self, context: click.Context) -> object:
        """Run the command; raise `UnreadOutput` for a broken pipe, for which click would exit."""
        try:
            return super().invoke(context)
        except click.NoSuchOption as error:
            command = context.meta.get(COMMAND, self)
            options = [option for parameter in command.params for option in parameter.opts]
            names = suggestions(error.option_name, options, ALIASES)
            advice = f"did you mean {' or '.join(names)}?" if names else "see --help"
            raise click.UsageError(f"no such option {error.option_name!r}; {advice}", error.ctx) from None
        except (NinjaError, OSError) as error:
            if isinstance(error, BrokenPipeError) or isinstance(error.__cause__, BrokenPipeError):
                raise UnreadOutput from error
            if isinstance(error, NinjaError) and ".toml" not in str(error):  # keys in TOML files are Python names
                from ninja.cli.console import with_option_names  # for errors only

                error.message = with_option_names(error.message, context.meta.get(COMMAND, self))
            raise

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in sections."""
        width = max(map(len, COMMANDS))
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                rows = [(name.ljust(width), command.help) for name, command in commands.items()]
                formatter.write_dl(rows, col_max=width)


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
    """Rescore and post-process the lattices and n-best lists of any speech recogniser.

    \b
    Example:
      ninja rescore lat.ark.gz --words words.txt -o rescored.ark.gz
    """
    context.meta[DEBUG] = debug


def main(arguments: list[str] | None = None) -> int:
    """Run the command line.

    Returns:
        Exit code: 0 for success; 1 for bad input or a failed lattice; 2 for wrong usage; 130 if interrupted; 141 if the
        reader of stdout closed it; 143 (129) if terminated by SIGTERM (SIGHUP).
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    # Set before numpy is imported: its BLAS starts a thread for each core, which spins for 0.1 s.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")  # 2^4 processor cycles
    # If the caller closed stdout, writing results must fail; if the caller closed stderr, messages are discarded.
    if sys.stdout is None:
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream, errors in ((sys.stdout, "surrogateescape"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=errors)  # words are UTF-8 in every locale
    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # warnings of libraries are for programmers
        warnings.simplefilter("default", NinjaWarning)
        warnings.showwarning = lambda message, *_, **__: _say(str(message))
    with printing():
        return _run(arguments)


def _run(arguments: list[str]) -> int:
    try:
        with _raising_on_signals():
            code = group.main(arguments, prog_name="ninja", standalone_mode=False)
            sys.stdout.flush()
        return int(code or 0)
    except Terminated as error:
        _say(f"terminated by {signal.Signals(error.args[0]).name}")
        return int(128 + error.args[0])
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
def _raising_on_signals() -> Iterator[None]:
    """Raise `Terminated` on SIGTERM and SIGHUP, so that unfinished outputs are removed."""

    def terminate(number: int, frame: object) -> None:
        signal.signal(number, signal.SIG_IGN)  # ignore repeated signals
        raise Terminated(number)

    handlers = {}
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                handlers[number] = signal.signal(number, terminate)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def describe(error: Exception) -> str:
    """Return a one-line message with an error and its remedy."""
    if isinstance(error, ImportError):
        error = explained(error)
    if isinstance(error, NinjaError):
        return str(error)
    if isinstance(error, MemoryError):
        return "out of memory; use a smaller --batch-arcs, fewer --jobs, or prune the lattices first"
    if isinstance(error, OSError):
        stream = "standard output" if error.errno == errno.ENOSPC else "input or output"
        file = stream if error.filename is None else error.filename
        return f"{file}: {error.strerror or error}"
    name = f"{type(error).__name__}: {error}".replace("\n", " ")
    return f"internal error ({name}); please report it, with the traceback that `ninja --debug COMMAND ...` shows"


def _drop_output() -> None:
    """Discard buffered output, which Python would otherwise try to flush again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _say(message: str) -> None:
    print(f"ninja: {message}", file=sys.stderr)
