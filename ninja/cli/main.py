"""The entry point of the command line, and the console that prints messages and progress."""

from __future__ import annotations

import errno
import importlib
import io
import os
import re
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn, TypeVar, cast

import click

from ninja.cli.commands import ALIASES, COMMANDS, PROGRAMS, SECTIONS, suggestions
from ninja.errors import InputError, Log, NinjaError, NinjaWarning, OptionError, counted, named
from ninja.files.output import printing
from ninja.libraries import explained

if TYPE_CHECKING:
    from ninja.cli.progress_bar import ProgressBar

# Keys of `click.Context.meta`.
DEBUG, COMMAND, ARGUMENTS, _CONSOLE = "ninja.debug", "ninja.command", "ninja.arguments", "ninja.console"
# Option or argument that affects memory → advice for commands that have this option.
MEMORY_ADVICE = {
    "--batch-arcs": "use a smaller --batch-arcs",
    "--batch-tokens": "use a smaller --batch-tokens",
    "--batch": "use a smaller --batch",
    "--jobs": "use fewer --jobs",
    "source": "prune the lattices first",
}
MAX_SHOWN = 3  # maximum number of failures of each kind that are printed
_NAME_OR_NUMBER = re.compile(r"'[^']*'|\"[^\"]*\"|[-+]?\d[\d.]*")  # parts in which messages of one kind differ
AnyLog = TypeVar("AnyLog", bound=Log)
_shown: ProgressBar | None = None  # the progress line on the terminal
_signal: int | None = None  # number of the first signal that terminates the program


class UnreadOutput(Exception):
    """Raised when the process that reads stdout has closed the pipe."""


class Terminated(BaseException):
    """Raised when a signal terminates the program; the argument is the signal number."""


class Commands(click.Group):
    """Command group that imports the module of a command when the command is first needed."""

    def list_commands(self, context: click.Context) -> list[str]:
        """Return the command names in the order in which ``--help`` lists them."""
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Import a command; return None for an unknown name."""
        if name not in COMMANDS:
            return None
        entry = COMMANDS[name]
        module = importlib.import_module(f"ninja.cli.{entry.module}")
        if _signal is not None:  # during an import, CPython can suppress an exception from a signal handler
            raise Terminated(_signal)
        return cast(click.Command, getattr(module, entry.function or name.replace("-", "_")))

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, and append ``=true`` to switches that have no value, such as ``--rm-eps``."""
        if (pair := " ".join(arguments[:2])) in COMMANDS:  # a two-word command, such as ninja train ngram
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
        """Run the command.

        Errors in a command line are reported with suggestions, and messages contain the names of options rather than
        of Python arguments.

        Raises:
            UnreadOutput: The process that reads the output has closed the pipe; click would exit instead.
        """
        try:
            return super().invoke(context)
        except click.NoSuchOption as error:
            command = self if error.ctx is None else error.ctx.command
            options = [option for parameter in command.params for option in parameter.opts]
            names = suggestions(error.option_name, options, ALIASES)
            advice = f"did you mean {' or '.join(names)}?" if names else "see --help"
            raise click.UsageError(f"no such option {error.option_name!r}; {advice}", error.ctx) from None
        except (NinjaError, OSError) as error:
            if isinstance(error, BrokenPipeError) or isinstance(error.__cause__, BrokenPipeError):
                raise UnreadOutput from error
            if isinstance(error, NinjaError) and ".toml" not in str(error):  # keys in TOML files are Python names
                error.message = with_option_names(error.message, context.meta.get(COMMAND, self))
            raise
        except MemoryError as error:
            available = {name for parameter in context.meta.get(COMMAND, self).params for name in parameter.opts}
            advice = " or ".join(text for name, text in MEMORY_ADVICE.items() if name in available)
            raise NinjaError(f"out of memory; {advice}" if advice else "out of memory") from error

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands, divided into sections."""
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
        Exit code: 0 for success; 1 for bad input or a failed lattice; 2 for incorrect usage; 129 after SIGHUP;
            130 after an interrupt; 141 if the process that reads stdout closed the pipe; 143 after SIGTERM.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    # Set before numpy is imported: its BLAS starts a thread for each core, which spins for 0.1 s.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")  # spin for 2^4 processor cycles
    # If the caller closed stdout, writing results must fail; if the caller closed stderr, messages are discarded.
    if sys.stdout is None:
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream, errors in ((sys.stdout, "surrogateescape"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=errors)  # words are UTF-8 in every locale
    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # warnings from libraries are meant for programmers
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
    global _signal

    def terminate(number: int, frame: object) -> None:
        global _signal
        _signal = number
        signal.signal(number, signal.SIG_IGN)  # ignore repeated signals
        raise Terminated(number)

    _signal, handlers = None, {}
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
    """Return a one-line message that describes an error and suggests a remedy."""
    if isinstance(error, ImportError):
        error = explained(error)
    if isinstance(error, NinjaError):
        return str(error)
    if isinstance(error, MemoryError):
        return "out of memory"
    if isinstance(error, OSError):
        stream = "standard output" if error.errno == errno.ENOSPC else "input or output"
        file = stream if error.filename is None else error.filename
        return f"{file}: {error.strerror or error}"
    name = f"{type(error).__name__}: {error}".replace("\n", " ")
    return f"internal error ({name}); please report it with the traceback that `ninja --debug COMMAND ...` prints"


def _drop_output() -> None:
    """Discard buffered output, which Python would otherwise try to flush again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _say(message: str) -> None:
    print(f"ninja: {message}", file=sys.stderr)


def current_console() -> Console:
    """Return the console of the running command; the first call creates it."""
    meta = click.get_current_context().meta
    if _CONSOLE not in meta:
        meta[_CONSOLE] = Console()
    console: Console = meta[_CONSOLE]
    return console


class FailureKind:
    """A group of failures whose messages differ only in names and numbers."""

    def __init__(self, first_message: str) -> None:
        self.first_message = first_message
        # (file, index) of each printed failure; the index is None if the file cannot be read.
        self.shown: set[tuple[str | None, int | None]] = set()
        self.num_hidden = 0  # failures that are not printed


class Console:
    """Console of a running command, which prints messages and progress, and holds the log."""

    def __init__(self) -> None:
        """Attach a new log, and arrange for the number of hidden failures to be printed when the command ends."""
        self.tolerant = True  # whether to continue after failed lattices
        self.start = time.perf_counter()
        self.bar: ProgressBar | None = None
        self.jobs: int | None = None  # threads; all cores by default
        self._prints = False  # whether results are being printed on the terminal
        self._kinds: dict[str, FailureKind] = {}
        self._first_outputs: dict[str, int] = {}  # kind of note → first output that has a note of this kind
        self._other_outputs: set[int] = set()  # later outputs with notes of the same kinds
        self.log = self.attach(Log())
        if (context := click.get_current_context(silent=True)) is not None:
            context.call_on_close(self._say_more)  # called even after an error

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
        """Print a failure, or only count it if enough failures of the same kind have been printed.

        At most `MAX_SHOWN` failures of each kind are printed, but only one for each file that cannot be read.
        """
        kind = self._kinds.setdefault(_NAME_OR_NUMBER.sub("", failure.message), FailureKind(str(failure)))
        cause = failure.path, None if isinstance(failure, InputError) else len(kind.shown)
        if cause in kind.shown or len(kind.shown) == MAX_SHOWN:
            kind.num_hidden += 1
        else:
            kind.shown.add(cause)
            self.say(f"failed: {_with_option_names(str(failure))}")

    def _say_more(self) -> None:
        """Print the number of hidden failures of each kind."""
        for kind in self._kinds.values():
            if kind.num_hidden:
                self.say(f"failed: {kind.num_hidden} more like {_with_option_names(kind.first_message)}")
        self._kinds.clear()

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
        """Print a note, unless a note of the same kind was printed for an earlier output."""
        kind = " ".join(_NAME_OR_NUMBER.sub("", message).split()[:3])
        if self._first_outputs.setdefault(kind, self.log.output) == self.log.output:
            self.say(_with_option_names(message))
        else:
            self._other_outputs.add(self.log.output)

    def say_keys(self, keys: Sequence[str], description: str, of_one: str = "") -> None:
        """Print the number of keys and the first few keys; print nothing if there are no keys.

        Args:
            keys: Keys to print.
            description: Text to print between the number and the keys.
            of_one: Text that replaces `description` if there is a single key; an empty string keeps `description`.
        """
        if keys:
            self.say(f"{counted(len(keys), of_one or description, description)}: {named(keys)}")

    @contextmanager
    def progress(self, unit: str, *, to_stdout: bool = False, by_reading: bool = False) -> Iterator[ProgressBar | None]:
        """Show a progress line in a ``with`` block if stderr is a terminal and no results are printed on a terminal.

        Args:
            unit: Plural name of the counted items.
            to_stdout: Whether the command prints results on stdout.
            by_reading: Whether `watch_reading` advances the line as lattices are read; if False, the caller advances
                it.
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
        try:
            self.bar.start()  # inside `try`, because an interrupted start may already have hidden the cursor
            yield self.bar
        finally:
            self.bar.stop()
            self.bar = _shown = None

    def close(self, message: str | None = None, *, failed: bool = False) -> NoReturn:
        """Print a summary of the failures and a closing message, and exit.

        Args:
            message: Closing message; if None, no message is printed.
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
        """Print the number of processed lattices and the elapsed time, and exit.

        Args:
            details: Text to print after the number.
            unit: Singular noun for the counted items.
        """
        self.close(f"{counted(self.log.lattices, unit)}{details}, {self.seconds:.1f} s")


def _with_option_names(message: str) -> str:
    context = click.get_current_context(silent=True)
    return message if context is None else with_option_names(message, context.command)


def with_option_names(message: str, command: click.Command) -> str:
    """Replace the names of Python arguments in a message with the corresponding options of a command."""
    message = re.sub(r" \(\w+=(?:'\w+')?\)", "", message)  # remove the hint for Python callers
    for parameter in command.params:
        if not isinstance(parameter, click.Option) or not parameter.name or parameter.name not in message:
            continue
        name = re.escape(parameter.name)
        option = max(parameter.opts, key=len)
        message = re.sub(rf"^{name}(?= is | has | and | cannot | must )", option, message)
        if "_" in parameter.name:
            message = re.sub(rf"(?<![\w.=:/'\"-]){name}(?![\w./'\"(-]|=\w)", option, message)
    return re.sub(r"(--[\w-]+)((?: [A-Z]+)?) \(\1\)", r"\1\2", message)
