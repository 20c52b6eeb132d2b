"""Options for language models: files, mixtures, words, and completions endpoints."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import click

from ninja.cli.command import Command, NamedFile, OutputFile, given_on_command_line, grouped, keeps_defaults
from ninja.cli.main import current_console
from ninja.cli.options import ListType, from_fields, reads, section
from ninja.errors import OptionError
from ninja.io.inputs import Inputs
from ninja.lm.endpoint.options import EndpointOptions
from ninja.lm.load import is_endpoint
from ninja.lm.mixture import How
from ninja.lm.protocol import Backend, LoadOptions, OOVScore, TextTransform
from ninja.lm.word_map import WordMapping
from ninja.rescoring.models import ModelFiles
from ninja.rescoring.options import LISTS, DefaultWeights, default_weights

if TYPE_CHECKING:
    from ninja.rescoring.algorithms import RescoreOptions

NO_MODEL = "none"
WEIGHTS = ListType(float, "numbers")
WEIGHTS_HELP = "Weights of the models, separated by commas.  [default: equal]"
DEVICE_HELP = (
    "Device of the models: cpu, cuda or cuda:1; cuda:0,cuda:1 runs a copy of the models on each; auto uses a GPU if "
    "there is one."
)
BACKEND_HELP = (
    "Library that computes LSTMs and Kaldi RNNLMs: numpy starts fast and does not require torch; torch supports GPUs, "
    "and half precision on processors that support it; auto uses torch on a GPU, else numpy."
)
backend_option = click.option("--backend", type=click.Choice(get_args(Backend)), default="auto", help=BACKEND_HELP)
NOT_OPTIONS = ("retries", "batch", "connections")  # fields of EndpointOptions that have no option
ENDPOINT = tuple(f"endpoint_{field.name}" for field in fields(EndpointOptions) if field.name not in NOT_OPTIONS)


class OOVScoreType(click.ParamType):
    """Parameter type for the score of unknown words: ``skip``, ``spread``, or a natural-log probability."""

    name = "score"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> OOVScore:
        """Parse the score of unknown words: ``skip``, ``spread``, or a natural-log probability."""
        if value in ("skip", "spread"):
            return cast("Literal['skip', 'spread']", value)
        try:
            return float(value)
        except ValueError:
            self.fail(f"{value!r} is not skip, spread or a number", param, ctx)


WORD_OPTIONS: dict[str, Callable[[Command], Command]] = {  # field of LoadOptions → option
    "oov_score": click.option(
        "--oov-score",
        type=OOVScoreType(),
        metavar="SCORE",
        help="Score of unknown words if an n-gram model has no <unk>: skip (no cost), spread (a total probability of "
        "1 / vocabulary size, divided among the unknown words), or a natural-log probability.  [default: lattices with "
        "unknown words fail; `ninja lm score` skips unknown words]",
    ),
    "classes": reads("--classes", "Class definitions in SRILM's format, for class-based n-gram models."),
    "multi_char": click.option(
        "--multi-char",
        metavar="CHAR",
        help="Split words at CHAR before scoring them, like SRILM's -multiwords.",
    ),
    "text_transform": click.option(
        "--text-transform",
        type=click.Choice(get_args(TextTransform)),
        help="Convert words to lower case before Hugging Face models score them. Use this for text in upper case.",
    ),
}


def word_options(*names: str) -> Callable[[Command], Command]:
    """Add options from `WORD_OPTIONS`; the command receives their values as ``load_options``.

    Args:
        names: Keys of the options in `WORD_OPTIONS`.
    """

    def add(command: Command) -> Command:
        @section("Models", *(WORD_OPTIONS[name] for name in names))
        @functools.wraps(command)
        def collected(**options: Any) -> None:
            chosen = {name: options.pop(name) for name in names}
            command(load_options=LoadOptions(**chosen), **options)

        return collected

    return add


class ModelType(NamedFile):
    """Parameter type for language models: a file, a name, or the URL of a completions endpoint."""

    def is_file(self, name: str) -> bool:
        """Return whether a value is a file or a model name, rather than the URL of an endpoint."""
        return not is_endpoint(name)


class CacheFile(OutputFile):
    """Parameter type for a file that stores values for later runs."""

    is_joined = False

    def targets(self, name: str) -> list[str]:
        """Return the path of the file."""
        return [name]


def endpoint_options(command: Command) -> Command:
    """Add the options for completions endpoints; the command receives them as ``endpoint``."""
    options = from_fields(EndpointOptions, skip=NOT_OPTIONS, prefix="endpoint", param_types={"cache": CacheFile()})
    return options(grouped("endpoint", ENDPOINT, _endpoint)(command))


def language_models(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options for language models; the command receives them as ``models``."""

    @section(
        "Models",
        reads(
            "--rnnlm",
            "Language model: a file, a shipped model (english, english-ngram), or the URL of a completions endpoint, "
            "such as http://HOST:PORT/v1/completions (vLLM) or http://HOST:PORT/completion (llama.cpp); may be given "
            f"several times to combine models. With '{NO_MODEL}', no new model is used.  [default: english]",
            kind=ModelType(),
            multiple=True,
        ),
        reads("--old-lm", "First-pass language model; its scores are subtracted.", kind=ModelType()),
        click.option(
            "--mixture",
            type=click.Choice(get_args(How)),
            default="loglinear",
            help="Combine models by a weighted sum of log-probabilities (loglinear) or of word probabilities (linear).",
        ),
        click.option("--mixture-weights", type=WEIGHTS, metavar="W,W,…", help=WEIGHTS_HELP),
    )
    @word_options(*WORD_OPTIONS)
    @section(
        "Models",
        click.option(
            "--normalize/--no-normalize",
            default=None,
            help="Normalise scores exactly, or leave them unnormalised.  [default: as the model was trained]",
        ),
    )
    @endpoint_options
    @section("Running", click.option("--device", default="auto", help=DEVICE_HELP), backend_option)
    @functools.wraps(command)
    def collected(
        rnnlm: tuple[str, ...],
        old_lm: str | None,
        normalize: bool | None,
        backend: Backend,
        load_options: LoadOptions,
        endpoint: EndpointOptions | None,
        **options: Any,
    ) -> None:
        how, device = options.pop("mixture"), options.pop("device")
        refuse_endpoint_options([*rnnlm, old_lm or ""])
        weights = options.pop("mixture_weights") or ()
        load_options = replace(load_options, normalize=normalize, backend=backend, endpoint=endpoint)
        models = ModelFiles(_files(rnnlm), old_lm, how, weights, device=device, load_options=load_options)
        command(models=models, **options)

    return collected


# Texts that replace the defaults of `RescoreOptions` in help texts; see `with_list_weights`.
WEIGHT_DEFAULTS = {
    "lm_weight": f"0.5; {LISTS.lm_weight:g} for {LISTS.kind}",
    "word_penalty": f"0; {LISTS.word_penalty:g} for {LISTS.kind}",
}

map_words = section(
    "Models",
    click.option(
        "--map-words",
        type=click.Choice(get_args(WordMapping)),
        multiple=True,
        default=(),
        help="Look up unknown words in lower or upper case (case), or treat other spellings of <unk> as <unk> (unk); "
        "may be given several times.",
    ),
)


def _endpoint(chosen: dict[str, Any], others: dict[str, Any]) -> EndpointOptions:
    return EndpointOptions(**{name.removeprefix("endpoint_"): value for name, value in chosen.items()})


def refuse_endpoint_options(names: Iterable[str]) -> None:
    """Raise `OptionError` if the command line has options for completions endpoints, but no model name is a URL."""
    if not any(map(is_endpoint, names)) and (flags := given_on_command_line(ENDPOINT)):
        raise OptionError(f"{', '.join(flags)} can be used only with a completions endpoint (http://HOST:PORT/…)")


def _files(rnnlm: tuple[str, ...]) -> tuple[str | None, ...]:
    if NO_MODEL not in rnnlm:
        return rnnlm or (None,)
    if len(rnnlm) > 1:
        raise OptionError(f"--rnnlm {NO_MODEL} cannot be used with other models")
    return ()


def fitting_weights(inputs: Inputs) -> DefaultWeights | None:
    """Return the default weights for lattices of the same type as the first lattice.

    The result is None if the user or a scale file sets a weight, or if there are no default weights for this type.
    """
    if "word_penalty" not in inputs.default_scales or not keeps_defaults(("lm_weight", "word_penalty")):
        return None
    lattice = inputs.first_lattice()
    return None if lattice is None else default_weights(lattice)


def with_list_weights(inputs: Inputs, models: ModelFiles, options: RescoreOptions) -> RescoreOptions:
    """Set the weights to the defaults for n-best lists if the first lattice is an n-best list, and print them.

    The options are returned unchanged for other lattices, or if a weight or ``--old-lm`` is specified.
    """
    if models.old_lm is not None or fitting_weights(inputs) is not LISTS:
        return options
    current_console().say(f"{LISTS}, the defaults for {LISTS.kind}; set --lm-weight or --word-penalty to change them")
    return replace(options, lm_weight=LISTS.lm_weight, word_penalty=LISTS.word_penalty)
