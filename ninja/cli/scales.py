"""Options of the scales of paths, completed by the scales in files beside lattices."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
    """A number, or ``header`` for the scales in the headers of HTK lattices."""

    name = "number|header"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | str:
        """Convert a number."""
        return HEADER if value == HEADER else click.FLOAT.convert(value, param, ctx)


lm_scale = click.option(
    "--lm-scale",
    default=1.0,
    type=LmScale(),
    help="Factor of graph costs; header: take the scales in the headers of HTK lattices.",
)
OPTIONS = (
    acoustic_scale,
    inv_acoustic_scale,
    lm_scale,
    word_penalty,
    config_of(KEYS, "Take scales from FILE, as `ninja tune` writes it; command-line options take precedence."),
)
MOST_SCALES = 10_000  # of one option


class Numbers(click.ParamType):
    """Numbers separated by commas, or a range of integers: ``7:17``."""

    name = "numbers"

    def convert(
        self, value: object, parameter: click.Parameter | None, context: click.Context | None
    ) -> tuple[float, ...]:
        """Split the list."""
        if isinstance(value, tuple):
            return value
        numbers: list[float] = []
        try:
            for part in str(value).split(","):
                first, colon, last = part.partition(":")
                numbers += range(int(first), int(last) + 1) if colon else [Spelled(part)]
        except ValueError:
            numbers = []
        if not numbers or len(numbers) > MOST_SCALES:
            self.fail(f"{value!r} is not a list of numbers such as 0.5,1 or 7:17", parameter, context)
        return tuple(dict.fromkeys(numbers))


class NumbersOrHeader(Numbers):
    """Numbers, or ``header`` for the scales in the headers of HTK lattices."""

    name = "numbers|header"

    def convert(  # type: ignore[override]
        self, value: object, parameter: click.Parameter | None, context: click.Context | None
    ) -> tuple[float | str, ...]:
        """Split the list."""
        return (HEADER,) if value == HEADER else super().convert(value, parameter, context)


class Spelled(float):
    """A number that is printed as the user typed it."""

    def __new__(cls, text: str) -> Spelled:
        """Read a number."""
        number = super().__new__(cls, text)
        number.text = str(text).strip()  # a number, if it comes from another process
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
        help=f"Factors of acoustic costs, separated by commas; {USUAL_SCALE}.",
    ),
    click.option(
        "--inv-acoustic-scale",
        "--lmwt",
        type=NUMBERS,
        default="1.0",
        metavar="NUMBERS",
        help="Inverses of --acoustic-scale; 7:17 is all integers from 7 to 17.",
    ),
    click.option(
        "--lm-scale",
        type=NumbersOrHeader(),
        default="1.0",
        metavar="NUMBERS|header",
        help="Factors of graph costs; header: take the scales in the headers of HTK lattices.",
    ),
    click.option(
        "--word-penalty",
        "--word-ins-penalty",
        type=NUMBERS,
        default="0.0",
        metavar="NUMBERS",
        help="Costs added for each word.",
    ),
    OPTIONS[-1],
)


@dataclass(frozen=True, slots=True)
class CompletedScales:
    """Scales of a command, after those that the user did not give are taken from files beside the lattices.

    Args:
        values: By the names of the options.
        names: Names of the lattices.
        chosen: Scales in files beside these.
        defaults: Options that neither the user nor a file gives.
    """

    values: dict[str, Any]
    names: tuple[str, ...]
    chosen: ChosenScales | None = None
    defaults: frozenset[str] = frozenset()


def scales(function: Command) -> Command:
    """Add the scales of paths, passed to the command together as ``scales``.

    Those that are not given are taken from files beside the lattices.
    """

    @click.pass_context
    @functools.wraps(function)
    def collected(context: click.Context, /, **options: Any) -> Any:
        user_scales = {name: options.pop(name) for name in KEYS}
        completed = complete(context, user_scales, _sources(options))
        return function(scales=as_scales(completed.values), completed_scales=completed, **options)

    return section("Scales", *OPTIONS)(collected)


def grid_of_scales(function: Command) -> Command:
    """Add scales as ``scales`` does, each with one or several values; ``scales`` is a tuple of all combinations."""

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
    """Take scales that a command's own options do not give from files beside its lattices."""

    @click.pass_context
    @functools.wraps(function)
    def collected(context: click.Context, /, **options: Any) -> Any:
        user_scales = {name: options[name] for name in KEYS if name in options}
        completed = complete(context, user_scales, _sources(options))
        return function(**options | completed.values, completed_scales=completed)

    return collected


def shared_scales(*arguments: str) -> Callable[[Command], Command]:
    """Add scales as ``scales`` does to a command that compares sources: those beside any of them hold for all."""

    def add(function: Command) -> Command:
        @click.pass_context
        @functools.wraps(function)
        def collected(context: click.Context, /, **options: Any) -> Any:
            user_scales = {name: options.pop(name) for name in KEYS}
            files: CommandFiles = context.obj
            places = [options[name] for name in arguments]
            beside = {place: chosen for place in places if (chosen := find_scales(files.sources.select((place,))))}
            if not {"acoustic_scale", "word_penalty"} <= _given(context):
                for one, other in itertools.pairwise(beside.values()):
                    if one.scales != other.scales:
                        raise OptionError(f"{one.path} and {other.path} differ; {SCALES_ADVICE}")
            completed = complete(context, user_scales, (next(iter(beside), places[0]),))
            return function(scales=as_scales(completed.values), **options)

        return section("Scales", *OPTIONS)(collected)

    return add


def as_scales(values: dict[str, Any]) -> Scales:
    """Make scales of the values of the options."""
    return Scales(**{KEYS[name]: value for name, value in values.items()})


def complete(context: click.Context, values: dict[str, Any], names: tuple[str, ...]) -> CompletedScales:
    """Replace the scales that the user did not give by those beside the lattices, and print them.

    Args:
        values: By the names of the options.
        names: Names of the lattices.

    Raises:
        OptionError: The sources have different scales beside them, and the user did not give all.
    """
    files: CommandFiles = context.obj
    sources = files.sources.select(names)
    user_scales = _given(context)
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
        _say(f"{error.message.partition(';')[0]}; the given scales are used")
        return CompletedScales(values, names, defaults=defaults)
    if chosen is None:
        return CompletedScales(values, names, defaults=defaults)
    beside = {name: value for name, value in chosen.values().items() if name in values}
    from_files = {name: value for name, value in beside.items() if name not in user_scales}
    others = {name: values[name] for name, value in beside.items() if name in user_scales and values[name] != value}
    if from_files or others:
        exceptions = f"; but as given: {_formatted(others)}" if others else ""
        _say(f"scales of {chosen.path}: {_formatted(beside)}{exceptions}")
    return CompletedScales(values | from_files, names, chosen, defaults - from_files.keys())


def say_default(inputs: Inputs) -> None:
    """Print the acoustic scale where it is the default."""
    if inputs.default_scales == KEYS.keys():
        _say("acoustic scale 1: none is given (--acoustic-scale, --lmwt), and there is none beside the lattices")


def fitting_acoustic_scale(inputs: Inputs, default: float) -> float:
    """Return the acoustic scale of a command for Kaldi's lattices: 1 for paths with a single score if none is given."""
    if "acoustic_scale" not in inputs.default_scales or (kind := inputs.single_scores()) is None:
        return default
    reason = "none is given (--acoustic-scale), and there is none beside the lattices"
    _say(f"acoustic scale 1, the default for {kind}: {reason}")
    return 1.0


def _has_unused_headers(sources: Sources) -> bool:
    """Print the scales in the header of an HTK lattice, which are not used; return whether there are any."""
    for name, scales in header_scales_of(sources):
        if scales != Scales():
            values = {option: getattr(scales, field) for option, field in KEYS.items()}
            _say(f"{name}: the scales of its header are not used: {_formatted(values)}; --lm-scale header takes them")
            return True
    return False


def _header_values(sources: Sources, values: dict[str, Any], user_scales: frozenset[str]) -> dict[str, Any]:
    """Return scales with those in the headers of HTK lattices."""
    if (header := find_header_scales(sources)) is None:
        raise OptionError("--lm-scale header is for HTK lattices (SLF) in files, and there are none")
    name, scales = header
    from_files = {
        option: getattr(scales, field)
        for option, field in KEYS.items()
        if option == "lm_scale" or option not in user_scales
    }
    _say(f"scales of the header of {name}: {_formatted(from_files)}")
    return values | from_files


def _sources(options: dict[str, Any]) -> tuple[str, ...]:
    return (*options.get("source", ()), *options.get("others", ()))


def _given(context: click.Context) -> frozenset[str]:
    """Return the scales that the command line or a file of options gives."""
    sources = {name: context.get_parameter_source(name) for name in (*KEYS, "inv_acoustic_scale")}
    user_scales = {name for name, source in sources.items() if source not in (None, ParameterSource.DEFAULT)}
    return frozenset({"acoustic_scale" if name == "inv_acoustic_scale" else name for name in user_scales})


def _formatted(values: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in values.items())


def _say(message: str) -> None:
    click.echo(f"ninja: {message}", err=True)
