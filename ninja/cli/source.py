"""Options for inputs, outputs and scales, and functions to run the pipeline with these options.

Default scales can come from scale files next to the lattices.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar, cast

import click
from click.core import ParameterSource

from ninja.cli.command import IGNORED, MAY_CHANGE, Command, CommandFiles, Lattices, given_on_command_line
from ninja.cli.config import config_of
from ninja.cli.main import AnyLog, current_console
from ninja.cli.options import acoustic_scale, inv_acoustic_scale, jobs, reads, section, word_penalty
from ninja.errors import NinjaError, OptionError
from ninja.files.stream import SPECIFIER
from ninja.formats.format import HEAD
from ninja.io import detection
from ninja.io.inputs import Inputs, state_of
from ninja.io.reader import Reading
from ninja.io.sources import KEYS, ChosenScales, SourceFile, Sources, find_scales, is_kaldi
from ninja.lattice import Kind, Lattice, Scales
from ninja.lattice.batch import Batch
from ninja.pipeline import OnBatches, Output, Summary, TextOutput, execution
from ninja.pipeline.execution import Progress, Stage
from ninja.pipeline.stages import Pairs
from ninja.pipeline.streaming import stream

if TYPE_CHECKING:
    from ninja.cli.progress_bar import ProgressBar

Result = TypeVar("Result")

WORDS_HELP = "Symbol table with one word and its id per line."
BESIDE_HELP = f"{WORDS_HELP}  [default: words.txt next to the source]"
READING = ("words", "format", "encoding", "allow_pipes")  # options of `Inputs`
NO_SCALES = Scales()  # the default of every scale option
HEADER = "header"  # value of ``--lm-scale`` that selects the scales in HTK lattice headers
WRITING = ("to", "lossy", "words_out", "resume")  # options of `Output`


def reads_lattices(command: Command) -> Command:
    """Add the argument SOURCE and the input options; the command receives them as ``inputs``.

    The output options of a command that writes lattices are passed to it as ``destination``.
    """
    return _reads(reading_options(jobs)(command))


def reads_lattices_alone(command: Command) -> Command:
    """Add the options of `reads_lattices` except ``--jobs``, for commands that run on a single thread."""
    return _reads(reading_options()(command))


def _reads(command: Command) -> Command:
    @click.argument("source", nargs=-1, required=True, type=Lattices())
    @functools.wraps(command)
    def collected(source: tuple[str, ...], **options: Any) -> None:
        _refuse_output_as_source(source)
        command(**build_inputs(source, options))

    return collected


def reading_options(*running: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Return a decorator that gives a command the input options that `build_inputs` requires.

    Args:
        running: Decorators that add more options to the section "Running".
    """
    text = "Skip failed lattices and exit with code 1 at the end, or stop at the first failure."
    return section(
        "Input and output",
        reads("--words", BESIDE_HELP),
        click.option(
            "--from",
            "format",
            metavar="FORMAT[:OPTION=VALUE,...]",
            help="Format of the sources.  [default: detected from the content]",
        ),
        click.option("--encoding", default="utf-8", help="Text encoding of the sources."),
        section(
            "Running",
            *running,
            click.option("--on-error", type=click.Choice(["skip", "raise"]), default="skip", help=text),
            click.option("--allow-pipes", is_flag=True, help="Allow shell commands as sources ('ark:command |')."),
        ),
    )


def build_inputs(names: tuple[str, ...], options: dict[str, Any], **others: Any) -> dict[str, Any]:
    """Build the inputs and the output of a command from its option values.

    Args:
        names: Names of the sources, as on the command line.
        options: Values of all options of the command.
        others: Additional arguments of `Inputs`.

    Returns:
        Arguments for the command: ``inputs``, ``destination`` if the command writes lattices, and the remaining
        options.
    """
    arguments = dict(options)
    files: CommandFiles = click.get_current_context().obj
    console = current_console()
    console.jobs = arguments.pop("jobs", None)
    console.tolerant = arguments.pop("on_error", "skip") == "skip"
    reading = {name: arguments.pop(name) for name in READING if name in arguments}
    if console.jobs == 1:
        reading["read_ahead"] = False
    completed: CompletedScales | None = arguments.pop("completed_scales", None)
    if completed is not None:
        reading["default_scales"] = completed.defaults
    if "to" in arguments:
        arguments["destination"] = output = build_output(arguments)
        reading["needs_words"] = output.resolved.writes_words
    inputs = Inputs(
        names,
        log=console.use_log(console.log),
        watch=watch_reading,
        guard=files.guard,
        sources=files.sources.select(names),
        **(reading | others),
    )
    if completed is not None and completed.names == names:
        inputs.scales = completed.chosen
    if files.tables is not None and files.inputs is None:
        from hashlib import sha256  # only needed for shards

        inputs.tables, inputs.digest = files.tables, sha256()
        files.inputs = inputs
    return arguments | {"inputs": inputs}


def build_output(options: dict[str, Any]) -> Output:
    """Build the output of a command from its options and remove the output options from ``options``."""
    context = click.get_current_context()
    files: CommandFiles = context.obj
    writing = {name: options.pop(name) for name in WRITING if name in options}
    scales_costs = getattr(context.command, "scales_costs", False)
    output = Output(
        options.pop("output_file"),
        **writing,
        scales=None if scales_costs else _scales(options),
        keeps_scales=not scales_costs,
        command=context.command.name or "",
        guard=files.guard,
    )
    return output.with_settings(*files.settings(_states, IGNORED | MAY_CHANGE)) if output.resolved.is_kaldi else output


def _states(paths: list[str]) -> list[list[Any]]:
    return [list(state_of(path)) for path in paths]


def _scales(options: dict[str, Any]) -> Scales | None:
    """Return the scales that a command uses to compare paths; None if the command does not compare paths."""
    if isinstance(scales := options.get("scales"), Scales):
        return scales
    if options.get("acoustic_scale") is None:
        return None
    return Scales(options["acoustic_scale"], options.get("lm_scale", 1.0), options.get("word_penalty", 0.0))


def watch_reading(reading: Reading) -> Iterator[tuple[str, Lattice]]:
    """Yield lattices as they are read, and show their number unless the number of results is already shown."""
    console = current_console()
    if console.bar is not None and not console.bar.by_reading:
        yield from reading.lattices()
        return
    with console.progress("lattices read") as new_bar:
        bar = new_bar or console.bar
        for key, lattice in reading.lattices():
            if bar is not None:
                bar.step(key, share=reading.share)
            yield key, lattice


def _refuse_output_as_source(names: tuple[str, ...]) -> None:
    """Raise `OptionError` for Kaldi's syntax ``ark:IN ark:OUT``, where OUT would be read as a second source."""
    writes = any(parameter.name == "output_file" for parameter in click.get_current_context().command.params)
    are_specifiers = len(names) == 2 and all(SPECIFIER.fullmatch(name) for name in names)
    if writes and are_specifiers and not given_on_command_line(["output_file"]):
        raise OptionError(
            f"{names[1]} would be read, not written; specify the output with -o, or omit 'ark:' to read both"
        )


class LmScale(click.ParamType):
    """Parameter type for LM scales: a number, or ``header`` for the scales in HTK lattice headers."""

    name = "number|header"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | str:
        """Parse a number or ``header``."""
        return HEADER if value == HEADER else click.FLOAT.convert(value, param, ctx)


lm_scale = click.option(
    "--lm-scale",
    default=1.0,
    type=LmScale(),
    metavar="NUMBER|header",
    help="Factor applied to graph costs, or 'header' to use the scales in HTK lattice headers.",
)
SCALES = (
    acoustic_scale,
    inv_acoustic_scale,
    lm_scale,
    word_penalty,
    config_of(
        KEYS, "Read scales from a TOML file like those written by `ninja tune`; command-line options take precedence."
    ),
)


class CompletedScales(NamedTuple):
    """Scales that are set by the user, by scale files next to the lattices, or by default, in this order of precedence.

    Args:
        values: Option values by name.
        names: Names of the sources.
        chosen: Scales from files next to the sources, or None if there are none.
        defaults: Names of the options that neither the user nor a file sets.
    """

    values: dict[str, Any]
    names: tuple[str, ...]
    chosen: ChosenScales | None = None
    defaults: frozenset[str] = frozenset()

    @property
    def scales(self) -> Scales:
        """The scales as a `Scales` object."""
        return NO_SCALES if self.defaults == KEYS.keys() else as_scales(self.values)


def scales(function: Command) -> Command:
    """Add the scale options; the command receives them as ``scales``.

    Scales that the user does not set are read from scale files next to the lattices.
    """

    @click.pass_context
    @functools.wraps(function)
    def collected(context: click.Context, /, **options: Any) -> Any:
        user_scales = {name: options.pop(name) for name in KEYS}
        completed = complete(context, user_scales, source_names(options))
        return function(scales=completed.scales, completed_scales=completed, **options)

    return section("Scales", *SCALES)(collected)


def completes_scales(function: Command) -> Command:
    """For each scale that the user does not set, use the value in a file next to the lattices.

    The command must already have the scale options, and receives the scales as their values. It also receives
    `CompletedScales` as ``completed_scales``.
    """

    @click.pass_context
    @functools.wraps(function)
    def collected(context: click.Context, /, **options: Any) -> Any:
        user_scales = {name: options[name] for name in KEYS if name in options}
        completed = complete(context, user_scales, source_names(options))
        return function(**options | completed.values, completed_scales=completed)

    return collected


def as_scales(values: dict[str, Any]) -> Scales:
    """Build `Scales` from option values."""
    return Scales(**{KEYS[name]: value for name, value in values.items()})


def complete(context: click.Context, values: dict[str, Any], names: tuple[str, ...]) -> CompletedScales:
    """Read the scales that the user did not set from a file next to the lattices, and print them.

    Args:
        values: Option values by name.
        names: Names of the sources.

    Raises:
        OptionError: The sources have different scale files, and the user did not set both the acoustic scale and the
            word penalty; or the LM scale is ``header``, but the sources have no HTK headers, or their scales differ.
    """
    files: CommandFiles = context.obj
    sources = files.sources.select(names)
    user_scales = scales_set_by_user(context)
    defaults = frozenset(KEYS) - user_scales
    if values.get("lm_scale") == HEADER:
        values = _header_values(sources, values, user_scales)
        return CompletedScales(values, names, defaults=defaults - values.keys())
    if "lm_scale" in values and not user_scales and _has_unused_headers(sources):
        defaults -= {"lm_scale"}
    try:
        chosen = find_scales(sources)
    except OptionError as error:
        if not {"acoustic_scale", "word_penalty"} <= user_scales:
            raise
        current_console().say(f"{error.message.partition(';')[0]}; using the scales of the options instead")
        return CompletedScales(values, names, defaults=defaults)
    if chosen is None:
        return CompletedScales(values, names, defaults=defaults)
    in_files = {name: value for name, value in chosen.values().items() if name in values}
    from_files = {name: value for name, value in in_files.items() if name not in user_scales}
    others = {name: values[name] for name, value in in_files.items() if name in user_scales and values[name] != value}
    if from_files or others:
        exceptions = f"; overridden by options: {_formatted(others)}" if others else ""
        current_console().say(f"scales from {chosen.path}: {_formatted(in_files)}{exceptions}")
    return CompletedScales(values | from_files, names, chosen, defaults - from_files.keys())


def say_default(inputs: Inputs) -> None:
    """If no scale is set, print a note that the acoustic scale is 1."""
    if inputs.default_scales == KEYS.keys():
        current_console().say(
            "using acoustic scale 1; set --acoustic-scale or --lmwt, or provide a scale file next to the lattices"
        )


def fitting_acoustic_scale(inputs: Inputs, default: float) -> float:
    """Return an acoustic scale that is suitable for the inputs.

    Args:
        default: The command's default scale, which is suitable for Kaldi's lattices.

    Returns:
        1 if no scale is set and the paths in the inputs have only a single score, else `default`.
    """
    if "acoustic_scale" not in inputs.default_scales or (kind := inputs.single_scores()) is None:
        return default
    current_console().say(f"using acoustic scale 1, the default for {kind}; set --acoustic-scale to change it")
    return 1.0


def _has_unused_headers(sources: Sources) -> bool:
    """Return whether an HTK lattice header contains scales other than the defaults; if so, print a note."""
    for name, scales in header_scales_of(sources):
        if scales != NO_SCALES:
            values = {option: getattr(scales, field) for option, field in KEYS.items()}
            current_console().say(
                f"{name}: ignoring the scales in the header ({_formatted(values)}); set --lm-scale header to use them"
            )
            return True
    return False


def _header_values(sources: Sources, values: dict[str, Any], user_scales: frozenset[str]) -> dict[str, Any]:
    """Return the option values; scales that the user did not set are taken from HTK lattice headers."""
    if (header := find_header_scales(sources)) is None:
        raise OptionError("--lm-scale header requires files of HTK lattices (SLF), but the sources contain none")
    name, scales = header
    from_files = {
        option: getattr(scales, field)
        for option, field in KEYS.items()
        if option == "lm_scale" or option not in user_scales
    }
    current_console().say(f"scales from the header of {name}: {_formatted(from_files)}")
    return values | from_files


def source_names(options: dict[str, Any]) -> tuple[str, ...]:
    """Return the source names in the option values of a command."""
    return (*options.get("source", ()), *options.get("others", ()))


def scales_set_by_user(context: click.Context) -> frozenset[str]:
    """Return the names of the scales that are set on the command line or in an options file."""
    sources = {name: context.get_parameter_source(name) for name in (*KEYS, "inv_acoustic_scale")}
    user_scales = {name for name, source in sources.items() if source not in (None, ParameterSource.DEFAULT)}
    return frozenset({"acoustic_scale" if name == "inv_acoustic_scale" else name for name in user_scales})


def _formatted(values: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in values.items())


def find_header_scales(sources: Sources) -> tuple[str, Scales] | None:
    """Return ``(file name, header scales)`` for the first HTK lattice, or None if there is no HTK lattice.

    Raises:
        OptionError: The headers have different scales.
    """
    first: tuple[str, Scales] | None = None
    for name, scales in header_scales_of(sources):
        if first is None:
            first = name, scales
        elif scales != first[1]:
            raise OptionError(f"the headers of {first[0]} and {name} have different scales; specify numbers as scales")
    return first


def header_scales_of(sources: Sources) -> Iterator[tuple[str, Scales]]:
    """Yield ``(file name, header scales)`` for each HTK lattice; pipes and script files are skipped."""
    for file in sources.resolvable_files:
        for member in _header_files(file):
            if member.is_pipe:
                continue
            try:
                head = member.inspect().head(HEAD)
            except NinjaError:  # the error is reported when the lattices are read
                continue
            if not is_kaldi(head):
                from ninja.formats.slf import header_scales, is_slf

                if is_slf(head) and (scales := header_scales(head)) is not None:
                    yield member.name, scales


def _header_files(file: SourceFile) -> Iterator[SourceFile]:
    if file.kind == "folder":
        for member in file.files:
            if not detection.is_companion(member.path):
                yield member
                member.close_surplus()
    elif file.kind in ("ark", "list"):
        yield from file.members if file.kind == "list" else [file]


def use_log(inputs: Inputs, log: AnyLog) -> AnyLog:
    """Set the log of the running command and of its inputs, and return it."""
    inputs.log = current_console().use_log(log)
    return log


def write(
    stage: Stage[Any], inputs: Inputs, output: Output | TextOutput, *, kind: Kind | None = None, **how: Any
) -> Summary:
    """Run a stage and write its results, with a progress line; see ``ninja.pipeline.run``.

    Args:
        kind: Kind of the lattices that are written to Kaldi archives; None keeps ``output.kind``.
        how: Additional arguments of ``ninja.pipeline.run``.
    """
    console = current_console()
    if kind is not None:
        output = replace(cast(Output, output), kind=kind)
    with console.progress("lattices", to_stdout=output.is_stdout) as bar:
        return execution.run(inputs, stage, output, jobs=console.jobs, progress=_progress_callback(bar), **how)


def _progress_callback(bar: ProgressBar | None) -> Progress | None:
    """Return a function that shows the progress of a pipeline on a progress bar."""
    return None if bar is None else lambda key, count, share: bar.step(key, count, share=share)


def run(stage: Stage[Any], inputs: Inputs, output: Output, **how: Any) -> NoReturn:
    """Write the lattices that a stage returns, print their number, and exit."""
    write(stage, inputs, output, **how)
    current_console().close_counting()


def run_lines(function: Callable[[Batch], Sequence[str]], inputs: Inputs, output_file: str) -> None:
    """Apply a function to each batch of lattices, and write the strings that it returns to a text file."""
    write(OnBatches(function), inputs, TextOutput(output_file))


def results(
    stage: Stage[Result], inputs: Inputs | Pairs, *, to_stdout: bool = False, **how: Any
) -> Iterator[tuple[str, Result]]:
    """Yield ``(key, result)`` for each lattice and show progress on a terminal; see ``ninja.pipeline.stream``.

    Args:
        to_stdout: Whether the command prints results on stdout.
        how: Additional arguments of ``ninja.pipeline.stream``.
    """
    console = current_console()
    with console.progress("lattices", to_stdout=to_stdout) as bar:
        yield from stream(
            inputs,
            stage,
            jobs=console.jobs,
            log=None if isinstance(inputs, Inputs) else console.log,
            progress=_progress_callback(bar),
            **({"may_be_empty": False} | how),
        )
