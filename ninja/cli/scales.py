"""Options for the acoustic scale, LM scale and word penalty, whose defaults may come from files next to lattices."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource

from ninja.cli.files import CommandFiles
from ninja.cli.options import USUAL_SCALE, Command, acoustic_scale, config_of, inv_acoustic_scale, section, word_penalty
from ninja.errors import OptionError
from ninja.io.scales import (
    KEYS,
    SCALES_ADVICE,
    ChosenScales,
    find_header_scales,
    find_scales,
    header_scales_of,
)
from ninja.io.sources import Sources
from ninja.lattice import Scales

if TYPE_CHECKING:
    from ninja.io.inputs import Inputs

HEADER = "header"  # instead of a number


class LmScale(click.ParamType):
    """A number, or ``header`` for the scales in HTK lattice headers."""

    name = "number|header"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | str:
        """Parse the value."""
        return HEADER if value == HEADER else click.FLOAT.convert(value, param, ctx)


lm_scale = click.option(
    "--lm-scale",
    default=1.0,
    type=LmScale(),
    help="Factor applied to graph costs, or 'header' to use the scales in HTK lattice headers.",
)
OPTIONS = (
    acoustic_scale,
    inv_acoustic_scale,
    lm_scale,
    word_penalty,
    config_of(KEYS, "Read scales from a TOML file such as `ninja tune` writes; command-line options take precedence."),
)
MAX_SCALES = 10_000  # per option


class Numbers(click.ParamType):
    """Numbers and integer ranges, separated by commas; ``7:17`` includes 17."""

    name = "numbers"

    def convert(
        self, value: object, parameter: click.Parameter | None, context: click.Context | None
    ) -> tuple[float, ...]:
        """Parse the list."""
        if isinstance(value, tuple):
            return value
        numbers: list[float] = []
        try:
            for part in str(value).split(","):
                first, colon, last = part.partition(":")
                numbers += range(int(first), int(last) + 1) if colon else [Spelled(part)]
        except ValueError:
            numbers = []
        if not numbers or len(numbers) > MAX_SCALES:
            expected = f"a list of at most {MAX_SCALES:,} numbers such as 0.5,1 or 7:17"
            self.fail(f"{value!r} is not {expected}", parameter, context)
        return tuple(dict.fromkeys(numbers))


class NumbersOrHeader(Numbers):
    """Numbers, or ``header`` for the scales in HTK lattice headers."""

    name = "numbers|header"

    def convert(  # type: ignore[override]
        self, value: object, parameter: click.Parameter | None, context: click.Context | None
    ) -> tuple[float | str, ...]:
        """Parse the list."""
        return (HEADER,) if value == HEADER else super().convert(value, parameter, context)


class Spelled(float):
    """A number that is printed as the user wrote it."""

    def __new__(cls, text: str) -> Spelled:
        """Parse a number."""
        number = super().__new__(cls, text)
        number.text = str(text).strip()  # unpickling passes a float
        return number

    text: str

    def __str__(self) -> str:
        return self.text


NUMBERS = Numbers()
GRID = (
    click.option(
        "--acoustic-scale",
        type=NUMBERS,
        default="1.0",
        metavar="NUMBERS",
        help=f"Factors applied to acoustic costs, separated by commas; {USUAL_SCALE}.",
    ),
    click.option(
        "--inv-acoustic-scale",
        "--lmwt",
        type=NUMBERS,
        default="1.0",
        metavar="NUMBERS",
        help="Inverses of --acoustic-scale; 7:17 means all integers from 7 to 17.",
    ),
    click.option(
        "--lm-scale",
        type=NumbersOrHeader(),
        default="1.0",
        metavar="NUMBERS|header",
        help="Factors applied to graph costs, or 'header' to use the scales in HTK lattice headers.",
    ),
    click.option(
        "--word-penalty",
        "--word-ins-penalty",
        type=NUMBERS,
        default="0.0",
        metavar="NUMBERS",
        help="Costs added per word, separated by commas.",
    ),
    OPTIONS[-1],
)


class CompletedScales(NamedTuple):
    """Scales set by the user, by scale files next to the lattices, or by default, in this order of precedence.

    Args:
        values: Value of each option, by option name.
        names: Names of the sources.
        chosen: Scales from files next to the sources, None if there are none.
        defaults: Names of the options that neither the user nor a file sets.
    """

    values: dict[str, Any]
    names: tuple[str, ...]
    chosen: ChosenScales | None = None
    defaults: frozenset[str] = frozenset()


def scales(function: Command) -> Command:
    """Add the scale options, passed to the command as ``scales``.

    Scales that the user does not set are read from scale files next to the lattices.
    """

    @click.pass_context
    @functools.wraps(function)
    def collected(context: click.Context, /, **options: Any) -> Any:
        user_scales = {name: options.pop(name) for name in KEYS}
        completed = complete(context, user_scales, _sources(options))
        return function(scales=as_scales(completed.values), completed_scales=completed, **options)

    return section("Scales", *OPTIONS)(collected)


def grid_of_scales(function: Command) -> Command:
    """Add the scale options with one or several values each, passed to the command as ``scales``.

    The command gets a tuple of `Scales`, one for each combination of values.
    """

    @click.pass_context
    @functools.wraps(function)
    def collected(context: click.Context, /, **options: Any) -> Any:
        user_scales = {name: options.pop(name) for name in KEYS}
        single = {name: values[0] for name, values in user_scales.items() if len(values) == 1}
        completed = complete(context, single, _sources(options))
        user_scales |= {name: (value,) for name, value in completed.values.items()}
        grid = tuple(
            as_scales(dict(zip(user_scales, values, strict=True)))
            for values in itertools.product(*user_scales.values())
        )
        return function(scales=grid, completed_scales=completed, **options)

    return section("Scales", *GRID)(collected)


def completes_scales(function: Command) -> Command:
    """Read the scales that the user does not set from scale files next to the lattices; adds no options."""

    @click.pass_context
    @functools.wraps(function)
    def collected(context: click.Context, /, **options: Any) -> Any:
        user_scales = {name: options[name] for name in KEYS if name in options}
        completed = complete(context, user_scales, _sources(options))
        return function(**options | completed.values, completed_scales=completed)

    return collected


def shared_scales(*arguments: str) -> Callable[[Command], Command]:
    """Add the scale options to a command that compares sources; scale files next to one source apply to all.

    Args:
        arguments: Names of the arguments of the command that hold a source.
    """

    def add(function: Command) -> Command:
        @click.pass_context
        @functools.wraps(function)
        def collected(context: click.Context, /, **options: Any) -> Any:
            user_scales = {name: options.pop(name) for name in KEYS}
            files: CommandFiles = context.obj
            sources = [options[name] for name in arguments]
            from_files = {name: chosen for name in sources if (chosen := find_scales(files.sources.select((name,))))}
            if not {"acoustic_scale", "word_penalty"} <= _set_by_user(context):
                for first, second in itertools.pairwise(from_files.values()):
                    if first.scales != second.scales:
                        raise OptionError(f"{first.path} and {second.path} differ; {SCALES_ADVICE}")
            completed = complete(context, user_scales, (next(iter(from_files), sources[0]),))
            return function(scales=as_scales(completed.values), **options)

        return section("Scales", *OPTIONS)(collected)

    return add


def as_scales(values: dict[str, Any]) -> Scales:
    """Build `Scales` from option values."""
    return Scales(**{KEYS[name]: value for name, value in values.items()})


def complete(context: click.Context, values: dict[str, Any], names: tuple[str, ...]) -> CompletedScales:
    """Replace scales that the user did not set by those in files next to the lattices, and print them.

    Args:
        values: Value of each option, by option name.
        names: Names of the sources.

    Raises:
        OptionError: The scale files of the sources differ, and the user did not set all scales.
    """
    files: CommandFiles = context.obj
    sources = files.sources.select(names)
    user_scales = _set_by_user(context)
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
        _say(f"{error.message.partition(';')[0]}; using the scales of the options instead")
        return CompletedScales(values, names, defaults=defaults)
    if chosen is None:
        return CompletedScales(values, names, defaults=defaults)
    in_files = {name: value for name, value in chosen.values().items() if name in values}
    from_files = {name: value for name, value in in_files.items() if name not in user_scales}
    others = {name: values[name] for name, value in in_files.items() if name in user_scales and values[name] != value}
    if from_files or others:
        exceptions = f"; replaced by options: {_formatted(others)}" if others else ""
        _say(f"scales from {chosen.path}: {_formatted(in_files)}{exceptions}")
    return CompletedScales(values | from_files, names, chosen, defaults - from_files.keys())


def say_default(inputs: Inputs) -> None:
    """Print a note if no scale is set, so that the acoustic scale is 1."""
    if inputs.default_scales == KEYS.keys():
        _say("using acoustic scale 1; set --acoustic-scale or --lmwt, or provide a scale file next to the lattices")


def fitting_acoustic_scale(inputs: Inputs, default: float) -> float:
    """Return an acoustic scale suitable for the inputs.

    Args:
        default: The scale of the command, which suits Kaldi's lattices.

    Returns:
        1 if no scale is set and the paths of the inputs have a single score, else the default.
    """
    if "acoustic_scale" not in inputs.default_scales or (kind := inputs.single_scores()) is None:
        return default
    _say(f"using acoustic scale 1, the default for {kind}; set --acoustic-scale to change it")
    return 1.0


def _has_unused_headers(sources: Sources) -> bool:
    """Return whether an HTK lattice header contains scales other than the defaults; print a note if so."""
    for name, scales in header_scales_of(sources):
        if scales != Scales():
            values = {option: getattr(scales, field) for option, field in KEYS.items()}
            _say(f"{name}: ignoring the scales in the header ({_formatted(values)}); --lm-scale header uses them")
            return True
    return False


def _header_values(sources: Sources, values: dict[str, Any], user_scales: frozenset[str]) -> dict[str, Any]:
    """Return the option values, with those that the user did not set replaced by the scales in HTK lattice headers."""
    if (header := find_header_scales(sources)) is None:
        raise OptionError("--lm-scale header needs files of HTK lattices (SLF), but the sources contain none")
    name, scales = header
    from_files = {
        option: getattr(scales, field)
        for option, field in KEYS.items()
        if option == "lm_scale" or option not in user_scales
    }
    _say(f"scales from the header of {name}: {_formatted(from_files)}")
    return values | from_files


def _sources(options: dict[str, Any]) -> tuple[str, ...]:
    return (*options.get("source", ()), *options.get("others", ()))


def _set_by_user(context: click.Context) -> frozenset[str]:
    """Return the names of the scales that are set on the command line or in an options file."""
    sources = {name: context.get_parameter_source(name) for name in (*KEYS, "inv_acoustic_scale")}
    user_scales = {name for name, source in sources.items() if source not in (None, ParameterSource.DEFAULT)}
    return frozenset({"acoustic_scale" if name == "inv_acoustic_scale" else name for name in user_scales})


def _formatted(values: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in values.items())


def _say(message: str) -> None:
    click.echo(f"ninja: {message}", err=True)
