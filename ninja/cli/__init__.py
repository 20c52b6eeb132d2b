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

import click

from ninja.errors import NinjaError, OptionError

# Name and help line of each command, so that `ninja --help` imports none of them.
COMMANDS = {
    "rescore": "Rescore lattices with language models.",
    "lmrescore": "Add the scores of an n-gram model to lattices, or take them out, exactly.",
    "context": "Make the names, places and titles that matter to an utterance more probable.",
    "prune": "Remove the arcs of lattices that lie outside a beam.",
    "best": "Print the best word sequence of each lattice.",
    "nbest": "Print the n best word sequences of each lattice.",
    "posteriors": "Print the probability of each arc.",
    "info": "Show the size of lattices and how well a vocabulary covers them.",
    "convert": "Convert lattices between formats.",
    "determinize-pruned": "Keep one path for each word sequence within a beam, the best.",
    "determinize-phone-pruned": "Keep the best path of each word sequence within a beam, by way of phones.",
    "determinize": "Keep one path for each word sequence, the best.",
    "union": "Unite the lattices of several archives.",
    "combine": "Combine the lattices of several systems for consensus decoding.",
    "compose": "Compose lattices with an FST, or with other lattices.",
    "interp": "Interpolate the costs of two archives of lattices.",
    "difference": "Take transcripts out of lattices.",
    "push": "Push alignments and costs of lattices towards their start.",
    "minimize": "Merge states of lattices that have the same completions.",
    "expand-ngram": "Split the states of lattices until each has one history of n - 1 words.",
    "copy": "Copy lattices, all or those of some keys, to another archive or form.",
    "copy-backoff": "Copy lattices, those of a second archive where it has them.",
    "merge": "Merge archives: one after the other, each key once.",
    "split": "Split lattices into several archives.",
    "scale": "Multiply the costs of lattices, or mix graph and acoustic ones.",
    "add-penalty": "Add a word insertion penalty to the graph costs of lattices.",
    "limit-depth": "Limit how many arcs of a lattice cross any frame.",
    "boost-ali": "Lower the graph costs of arcs by how many of their frames have a wrong phone.",
    "project": "Make lattices of words alone, or of transition ids alone.",
    "rmali": "Remove the alignments of lattices.",
    "reverse": "Turn lattices round, for language models that read backwards.",
    "topsort": "Sort the states of lattices topologically.",
    "equivalent": "Test whether two archives hold equivalent lattices; exit code 1 when they do not.",
    "depth": "Print the mean number of arcs that cross a frame of each lattice.",
    "depth-per-frame": "Print how many arcs of each lattice cross each frame.",
    "to-post": "Write the posterior of each transition id at each frame of lattices.",
    "to-mpe-post": "Write posteriors of transition ids for training by minimum phone frame error.",
    "to-smbr-post": "Write posteriors of transition ids for training by state-level minimum Bayes risk.",
    "arc-post": "Print the posterior of each arc of lattices, as Kaldi does.",
    "best-path": "Write words and alignment of the best path of each lattice.",
    "1best": "Write the best path of each lattice as a lattice.",
    "to-nbest": "Write the n best paths of each lattice as lattices.",
    "nbest-to-linear": "Write words, alignment and costs of lattices that are single paths.",
    "nbest-to-prons": "Print the phones of each word of lattices that are single paths.",
    "ctc-decode": "Make lattices of the matrices of a CTC model, by prefix beam search.",
    "linear-to-nbest": "Make lattices of single paths out of alignments, words and costs.",
    "nbest-to-lattice": "Unite the n-best paths of each utterance, keys ending in -1, -2, …, in one lattice.",
    "string-to-lattice": "Make a lattice of each line of word ids, or of words where --words is given.",
    "align-words": "Give each arc of lattices one word, or silence, and exactly the frames of its phones.",
    "align-words-lexicon": "Give each arc of lattices one word, and exactly the frames of its phones, by a lexicon.",
    "align-phones": "Give each arc of lattices one phone and exactly its frames.",
    "to-phone-lattice": "Turn word lattices into phone lattices, by their transition ids.",
    "add-trans-probs": "Add transition costs to the graph costs of lattices made without them.",
    "mbr-decode": "Print the word sequence of least expected word error of each lattice.",
    "to-ctm-conf": "Print each word of lattices with its time and how sure it is.",
    "nbest-to-ctm": "Print each word of lattices that are single paths with its time.",
    "confidence": "Print by how much the second-best word sequence of each lattice costs more than the best.",
    "to-fst": "Turn lattices into OpenFst's machines, without costs unless scales are given.",
    "score": "Compute the word error rate of transcripts or lattices.",
    "oracle": "Find the path of each lattice nearest to what was said.",
    "compute-wer": "Compute word and sentence error rates of transcripts, as Kaldi's compute-wer.",
    "compute-wer-bootci": "Compute how sure a word error rate is, or a difference between two.",
    "align-text": "Align the words of two texts, as Kaldi's align-text.",
    "show": "Write a page that shows a lattice as a graph, for any browser.",
    "report": "Write a page that compares lattices before and after with what was said.",
    "train": "Train a language model on a text.",
    "tune": "Choose the weights of a rescoring on a development set.",
    "lm": "Ask language models for scores, show what they are, convert them.",
    "doctor": "Check the installation.",
    "version": "Print the version.",
}

MODULES = {
    "align-words": "align",
    "align-words-lexicon": "align",
    "align-phones": "align",
    "to-phone-lattice": "transitions",
    "add-trans-probs": "transitions",
    "determinize": "determinize_pruned",
    "determinize-phone-pruned": "determinize_pruned",
    "combine": "union",
    "difference": "compose",
    "expand-ngram": "minimize",
    "interp": "compose",
    "push": "minimize",
    "align-text": "wer",
    "compute-wer": "wer",
    "compute-wer-bootci": "bootci",
    "confidence": "mbr_decode",
    "to-ctm-conf": "ctm",
    "nbest-to-ctm": "ctm",
    "nbest": "best",
    "version": "doctor",
    "copy": "archives",
    "copy-backoff": "archives",
    "merge": "archives",
    "split": "archives",
    "scale": "costs",
    "add-penalty": "costs",
    "limit-depth": "costs",
    "project": "labels",
    "rmali": "labels",
    "reverse": "labels",
    "topsort": "labels",
    "depth-per-frame": "depth",
    "best-path": "paths",
    "1best": "paths",
    "to-nbest": "paths",
    "nbest-to-linear": "linear",
    "nbest-to-prons": "prons",
    "to-mpe-post": "to_post",
    "to-smbr-post": "to_post",
    "linear-to-nbest": "linear",
    "nbest-to-lattice": "linear",
    "string-to-lattice": "linear",
}  # those that share a module with another
# How `ninja --help` groups them; those that no topic names follow at its end.
TOPICS = {
    "Language models and context": ("rescore", "lmrescore", "context", "train", "tune", "lm"),
    "Words of lattices": (
        *("best", "nbest", "best-path", "mbr-decode", "to-ctm-conf", "nbest-to-ctm", "confidence"),
        *("nbest-to-linear", "oracle", "nbest-to-prons"),
    ),
    "Lattices from lattices": (
        *("prune", "limit-depth", "determinize-pruned", "determinize-phone-pruned", "determinize", "minimize", "push"),
        *("reverse", "topsort", "project", "rmali", "scale", "add-penalty", "boost-ali", "add-trans-probs"),
        *("expand-ngram", "compose", "difference", "1best", "to-nbest"),
    ),
    "Several lattices": ("union", "combine", "interp", "equivalent", "nbest-to-lattice"),
    "Times and phones": ("align-words", "align-words-lexicon", "align-phones", "to-phone-lattice"),
    "Archives and formats": (
        *(
            "convert",
            "ctc-decode",
            "copy",
            "copy-backoff",
            "merge",
            "split",
            "to-fst",
            "linear-to-nbest",
            "string-to-lattice",
        ),
    ),
    "Figures": (
        "info",
        "posteriors",
        "arc-post",
        "to-post",
        "to-mpe-post",
        "to-smbr-post",
        "depth",
        "depth-per-frame",
        "show",
        "report",
    ),
    "Scores": ("score", "compute-wer", "compute-wer-bootci", "align-text"),
    "This program": ("doctor", "version"),
}
FUNCTIONS = {"1best": "one_best"}  # where a command's name cannot be a function's

INTERRUPTED = 130
BROKEN_PIPE = 141
DEBUG = "ninja.debug"  # key in a context's meta


class UnreadOutput(Exception):
    """Whoever read our output has gone away."""


class Ended(BaseException):
    """A signal told us to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Commands(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, context: click.Context) -> list[str]:
        """Return the names of all commands, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Import a command, or return None when there is none of this name."""
        if name not in COMMANDS:
            return None
        module = importlib.import_module(f"ninja.cli.{MODULES.get(name, name.replace('-', '_'))}")
        command: click.Command = getattr(module, FUNCTIONS.get(name, name.replace("-", "_")))
        return command

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, and give its switches that stand alone their value: ``--rm-eps`` is ``--rm-eps=true``."""
        name, command, left = super().resolve_command(context, arguments)
        options = [each for each in command.params if isinstance(each, click.Option)] if command is not None else []
        switches = {name for each in options if each.type is click.BOOL and not each.is_flag for name in each.opts}
        alone = [
            argument in switches and following.lower() not in ("true", "false")
            for argument, following in zip(left, [*left, ""][1:], strict=True)
        ]
        return name, command, [f"{each}=true" if bare else each for each, bare in zip(left, alone, strict=True)]

    def invoke(self, context: click.Context) -> object:
        """Run the command; click itself would end the process when nobody reads its output."""
        try:
            return super().invoke(context)
        except OSError as error:
            if isinstance(error, BrokenPipeError) or isinstance(error.__cause__, BrokenPipeError):
                raise UnreadOutput from error
            raise

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands, by topic."""
        width = max(map(len, COMMANDS))
        left = dict(COMMANDS)
        for title, names in {**TOPICS, "Others": tuple(COMMANDS)}.items():
            rows = [(name.ljust(width), left.pop(name)) for name in names if name in left]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows, col_max=width)


def _print_version(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        from ninja.doctor import installed_version

        click.echo(f"ninja-asr {installed_version()}")
        context.exit()


@click.command(cls=Commands, context_settings={"help_option_names": ["--help"], "max_content_width": 110})
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
    # Where whoever called us closed them: results cannot be written, and messages go nowhere.
    if sys.stdout is None:
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream, errors in ((sys.stdout, "surrogateescape"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=errors)  # as the words are, whatever the locale
    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # what libraries warn programmers of is noise to users
    try:
        with _ends_in_order():
            code = group.main(arguments, prog_name="ninja", standalone_mode=False)
            sys.stdout.flush()
        return int(code or 0)
    except Ended as end:
        _say(f"ended by {signal.Signals(end.number).name}")
        return 128 + end.number
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        _say("interrupted")
        return INTERRUPTED
    except (UnreadOutput, BrokenPipeError):
        _drop_output()
        return BROKEN_PIPE
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
    """Let the signals that ask a program to end do so as an exception, so that no unfinished output stays behind."""

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
    """Say in one line what is wrong and what to do."""
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
    """Send what Python would still write at its end nowhere: that must not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _say(message: str) -> None:
    print(f"ninja: {message}", file=sys.stderr)
