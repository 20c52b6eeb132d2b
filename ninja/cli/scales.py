"""The scales of paths: one group of options, which the scales that stand beside lattices complete."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ninja.cli.config import config_of
from ninja.cli.console import SCALES
from ninja.cli.options import USUAL_SCALE, Command, acoustic_scale, inv_acoustic_scale, section, word_penalty
from ninja.errors import OptionError
from ninja.io.header_scales import find_header_scales, header_scales_of
from ninja.io.scales_beside import KEYS, SCALES_ADVICE, ChosenScales, find_scales
from ninja.lattice import Scales

if TYPE_CHECKING:
    from ninja.io.inputs import Inputs

HEADER = "header"  # in place of a number


class LmScale(click.ParamType):
    """A number, or the word that asks for the scales in the headers of HTK lattices."""

    name = "number|header"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | str:
        """Return the number, or the word."""
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
    config_of(KEYS, "Take scales from FILE, as `ninja tune` writes it; what is typed has precedence."),
)
_BY_DEFAULT, _ACOUSTIC_BY_DEFAULT = f"{__name__}.by_default", f"{__name__}.acoustic_by_default"
_TOLD = f"{__name__}.told"  # of the scales in a header
MOST_SCALES = 10_000  # of one option


class Numbers(click.ParamType):
    """Numbers, with commas between, or whole ones from one to another: ``7:17``."""

    name = "numbers"

    def convert(
        self, value: object, parameter: click.Parameter | None, context: click.Context | None
    ) -> tuple[float, ...]:
        """Split the list."""
        if isinstance(value, tuple):
            return value
        found: list[float] = []
        try:
            for part in str(value).split(","):
                first, colon, last = part.partition(":")
                found += range(int(first), int(last) + 1) if colon else [Spelled(part)]
        except ValueError:
            found = []
        if not found or len(found) > MOST_SCALES:
            self.fail(f"{value!r} is no list of numbers such as 0.5,1 or 7:17", parameter, context)
        return tuple(dict.fromkeys(found))


class NumbersOrHeader(Numbers):
    """Numbers, or the word that asks for the scales in the headers of HTK lattices."""

    name = "numbers|header"

    def convert(  # type: ignore[override]
        self, value: object, parameter: click.Parameter | None, context: click.Context | None
    ) -> tuple[float | str, ...]:
        """Split the list, or return the word as its one entry."""
        return (HEADER,) if value == HEADER else super().convert(value, parameter, context)


class Spelled(float):
    """A number that is shown as it was typed."""

    def __new__(cls, text: str) -> Spelled:
        """Read a number."""
        made = super().__new__(cls, text)
        made.text = str(text).strip()  # a number, where it comes from another process
        return made

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
        help=f"Factors of acoustic costs, with commas between; {USUAL_SCALE}.",
    ),
    click.option(
        "--inv-acoustic-scale",
        "--lmwt",
        type=NUMBERS,
        default="1.0",
        metavar="NUMBERS",
        help="Inverses of --acoustic-scale; 7:17 is all whole numbers from 7 to 17.",
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


def scales(function: Command) -> Command:
    """Add the scales under which paths are compared, handed to the command together as ``scales``.

    Those that are not given stand beside the lattices, if there are any.
    """

    @functools.wraps(function)
    def collected(**options: Any) -> Any:
        given = {name: options.pop(name) for name in KEYS}
        return function(scales=as_scales(completed(given)), **options)

    return section("Scales", *OPTIONS)(collected)


def grid_of_scales(function: Command) -> Command:
    """Add scales as ``scales`` does, each of which may have several values; ``scales`` is then a tuple of all pairs."""

    @functools.wraps(function)
    def collected(**options: Any) -> Any:
        given = {name: options.pop(name) for name in KEYS}
        alone = completed({name: values[0] for name, values in given.items() if len(values) == 1})
        given |= {name: (value,) for name, value in alone.items()}
        grid = tuple(as_scales(dict(zip(given, each, strict=True))) for each in itertools.product(*given.values()))
        return function(scales=grid, **options)

    return section("Scales", *GRID)(collected)


def completes_scales(function: Command) -> Command:
    """Let scales that a command's own options do not give be those that stand beside its lattices."""

    @functools.wraps(function)
    def collected(**options: Any) -> Any:
        return function(**options | completed({name: options[name] for name in KEYS if name in options}))

    return collected


def shared_scales(*arguments: str) -> Callable[[Command], Command]:
    """Add scales as ``scales`` does to a command that compares sources: those beside any of them hold for all."""

    def add(function: Command) -> Command:
        @functools.wraps(function)
        def collected(**options: Any) -> Any:
            given = {name: options.pop(name) for name in KEYS}
            context = click.get_current_context()
            beside = {options[name]: chosen_scales(context, [options[name]]) for name in arguments}
            noted = {place: chosen for place, chosen in beside.items() if chosen is not None}
            both_given = _is_given(context, "acoustic_scale") and _is_given(context, "word_penalty")
            for one, other in itertools.pairwise(noted.values() if not both_given else ()):
                if one.scales != other.scales:
                    raise OptionError(f"{one.path} and {other.path} differ; {SCALES_ADVICE}")
            return function(scales=as_scales(completed(given, [next(iter(noted), options[arguments[0]])])), **options)

        return section("Scales", *OPTIONS)(collected)

    return add


def as_scales(given: dict[str, Any]) -> Scales:
    """Make scales of the options."""
    return Scales(**{KEYS[name]: value for name, value in given.items()})


def completed(given: dict[str, Any], places: Sequence[str] | None = None) -> dict[str, Any]:
    """Return options of scales with those beside the lattices in place of what the user did not give; say so.

    Args:
        given: Their values, by name.
        places: The lattices; None: the sources of the running command.

    Raises:
        OptionError: Different scales stand beside the sources, and not all are given.
    """
    context = click.get_current_context()
    asked = {name for name in KEYS if _is_given(context, name)}
    context.meta[_ACOUSTIC_BY_DEFAULT] = "acoustic_scale" not in asked
    if "lm_scale" in given:
        of_headers = given["lm_scale"] == HEADER
        given = _with_headers(context, given, asked, places)
        if of_headers:
            return given
    try:
        chosen = chosen_scales(context, places)
    except OptionError as error:
        if not {"acoustic_scale", "word_penalty"} <= asked:
            raise
        _say(f"{error.message.partition(';')[0]}; what is given is used")
        return given
    if chosen is None:
        context.meta[_BY_DEFAULT] = not asked
        return given
    values = {name: value for name, value in chosen.values().items() if name in given}
    taken = {name: value for name, value in values.items() if name not in asked}
    others = {name: given[name] for name, value in values.items() if name in asked and given[name] != value}
    if taken or others:
        but = f"; but as given: {_listed(others)}" if others else ""
        _say(f"scales of {chosen.path}: {_listed(values)}{but}")
    context.params.update(taken)
    context.meta[_ACOUSTIC_BY_DEFAULT] &= "acoustic_scale" not in taken
    return given | taken


def by_default() -> bool:
    """Tell whether the scales of the running command are neither given nor found, beside lattices or in a header."""
    meta = click.get_current_context().meta
    return meta.get(_BY_DEFAULT, False) and not meta.get(_TOLD, False)


def say_default() -> None:
    """Print the acoustic scale of the running command where it is the default."""
    if by_default():
        _say("acoustic scale 1: none is given (--acoustic-scale, --lmwt), and none stands beside")


def fitting_acoustic_scale(inputs: Inputs, default: float) -> float:
    """Return the acoustic scale of a command for Kaldi's lattices: without one, 1 for paths of a single score."""
    if not click.get_current_context().meta.get(_ACOUSTIC_BY_DEFAULT):
        return default
    if (kind := inputs.single_scores()) is None:
        return default
    _say(f"acoustic scale 1, the default for {kind}: none is given (--acoustic-scale), and none stands beside")
    return 1.0


def _with_headers(
    context: click.Context, given: dict[str, Any], asked: set[str], places: Sequence[str] | None
) -> dict[str, Any]:
    """Return options of scales with those of HTK lattices' headers, if they are asked for; else say what these are."""
    sources = _sources(context) if places is None else places
    if given["lm_scale"] != HEADER:
        others = ((name, scales) for name, scales in ([] if asked else header_scales_of(sources)) if scales != Scales())
        for name, scales in itertools.islice(others, 1):
            unused = _listed({option: getattr(scales, field) for option, field in KEYS.items()})
            context.meta[_TOLD] = True
            _say(f"{name}: the scales of its header are not used: {unused}; --lm-scale header takes them")
        return given
    if (found := find_header_scales(sources)) is None:
        raise OptionError("--lm-scale header is for HTK lattices (SLF) in files, and there are none")
    name, scales = found
    values = {option: getattr(scales, field) for option, field in KEYS.items()}
    taken = {option: value for option, value in values.items() if option == "lm_scale" or option not in asked}
    _say(f"scales of the header of {name}: {_listed(taken)}")
    context.params.update(taken)
    return given | taken


def chosen_scales(context: click.Context, places: Sequence[str] | None = None) -> ChosenScales | None:
    """Return the scales in files beside the sources of a command, or beside some of them; looked for once."""
    names = tuple(_sources(context) if places is None else places)
    known: dict[tuple[str, ...], ChosenScales | None] = context.meta.setdefault(SCALES, {})
    if names not in known:
        known[names] = find_scales(names, allow_pipes=True)  # no command is run for it
    return known[names]


def _sources(context: click.Context) -> list[str]:
    return [*context.params.get("source", ()), *context.params.get("others", ())]


def _is_given(context: click.Context, name: str) -> bool:
    names = (name, "inv_acoustic_scale") if name == "acoustic_scale" else (name,)
    return any(context.get_parameter_source(each) not in (None, ParameterSource.DEFAULT) for each in names)


def _listed(values: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in values.items())


def _say(message: str) -> None:
    click.echo(f"ninja: {message}", err=True)
