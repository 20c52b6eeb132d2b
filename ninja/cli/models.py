"""Options of language models: their files, mixture and carry-over."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, cast, get_args

import click

from ninja.cli.options import Command, ListType, reads, section
from ninja.errors import OptionError
from ninja.lm.mixture import How
from ninja.lm.protocol import LoadOptions, OOVScore, TextTransform
from ninja.lm.word_map import WordMapping
from ninja.rescoring.carry_over import MAX_WORDS, CarryOver
from ninja.rescoring.models import Direction, ModelFiles

NO_MODEL = "none"
WEIGHTS = ListType(float, "numbers")
WEIGHTS_HELP = "Weights of the models, or of --iterate's passes.  [default: equal]"
DIRECTIONS = ListType(
    lambda text: get_args(Direction)[get_args(Direction).index(text)], "forward or backward for each model"
)
DEVICE_HELP = "Device of the models: cpu, cuda, cuda:1, copies on cuda:0,cuda:1; auto for a GPU if there is one."
ITERATE_HELP = "Rescore with one model after the other, each forward or backward."


class OOVScoreType(click.ParamType):
    """``skip``, ``spread``, or a natural-log probability."""

    name = "score"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> OOVScore:
        """Return the score."""
        if value in ("skip", "spread"):
            return cast("Literal['skip', 'spread']", value)
        try:
            return float(value)
        except ValueError:
            self.fail(f"{value!r} is not skip, spread or a number.", param, ctx)


WORD_OPTIONS: dict[str, Callable[[Command], Command]] = {  # of LoadOptions
    "oov_score": click.option(
        "--oov-score",
        type=OOVScoreType(),
        metavar="SCORE",
        help="Score of words that an n-gram model without <unk> lacks: skip (they cost nothing), spread (1 / its "
        "words, shared), or a natural-log probability.",
    ),
    "classes": reads("--classes", "SRILM's class definitions, for n-gram models with such classes."),
    "multi_char": click.option(
        "--multi-char", metavar="CHAR", help="Split words at this character for models, as SRILM's -multiwords does."
    ),
    "text_transform": click.option(
        "--text-transform",
        type=click.Choice(get_args(TextTransform)),
        help="Change words for models of pieces (Hugging Face), such as those of lattices in upper case.",
    ),
}


def word_options(*names: str) -> Callable[[Command], Command]:
    """Add options of the words of models to a command, passed as ``load_options``."""

    def add(command: Command) -> Command:
        @section("Models", *(WORD_OPTIONS[name] for name in names))
        @functools.wraps(command)
        def collected(**options: Any) -> None:
            chosen = {name: options.pop(name) for name in names}
            command(load_options=LoadOptions(**chosen), **options)

        return collected

    return add


def language_models(command: Callable[..., None]) -> Callable[..., None]:
    """Add options of language models to a command, passed as ``models`` and ``carry_over``."""

    @section(
        "Models",
        reads(
            "--rnnlm",
            "Language model, or a shipped one: english, english-ngram; several are mixed. "
            f"{NO_MODEL} for --old-lm only.  [default: english]",
            multiple=True,
        ),
        reads("--old-lm", "The first pass's language model, whose scores are taken out."),
        click.option(
            "--mixture",
            type=click.Choice(get_args(How)),
            default="loglinear",
            help="How several models mix: sums of log-probabilities, or probabilities of each word.",
        ),
        click.option("--mixture-weights", type=WEIGHTS, default=(), metavar="W,W,…", help=WEIGHTS_HELP),
        click.option("--iterate", type=DIRECTIONS, default=(), metavar="D,D,…", help=ITERATE_HELP),
    )
    @section(
        "History across utterances",
        click.option(
            "--carry-over", is_flag=True, help="Use the previous words of the recording as history of the models."
        ),
        reads("--utt2spk", "With --carry-over: a speaker's utterances are a recording."),
        reads("--segments", "With --carry-over: segments with recordings and times."),
        click.option(
            "--carry-words",
            type=click.IntRange(0),
            default=MAX_WORDS,
            help="With --carry-over: maximum number of words carried over; 0 for all.",
        ),
    )
    @word_options(*WORD_OPTIONS)
    @section(
        "Models",
        click.option(
            "--normalize/--no-normalize",
            default=None,
            help="Normalise scores exactly, or not at all.  [default: as the model was trained]",
        ),
    )
    @section("Running", click.option("--device", default="auto", help=DEVICE_HELP))
    @functools.wraps(command)
    def collected(
        rnnlm: tuple[str, ...],
        old_lm: str | None,
        carry_over: bool,
        utt2spk: str | None,
        segments: str | None,
        carry_words: int,
        normalize: bool | None,
        load_options: LoadOptions,
        **options: Any,
    ) -> None:
        how = (options.pop(name) for name in ("mixture", "mixture_weights", "iterate", "device"))
        models = ModelFiles(_files(rnnlm), old_lm, *how)
        models = replace(models, load_options=replace(load_options, normalize=normalize))
        command(models=models, carry_over=_carry_over(carry_over, utt2spk, segments, carry_words), **options)

    return collected


map_words = section(
    "Models",
    click.option(
        "--map-words",
        type=click.Choice(get_args(WordMapping)),
        multiple=True,
        default=(),
        help="Find words a model lacks in lower or upper case, or as another spelling of <unk>.",
    ),
)


def _files(rnnlm: tuple[str, ...]) -> tuple[str | None, ...]:
    if NO_MODEL not in rnnlm:
        return rnnlm or (None,)
    if len(rnnlm) > 1:
        raise OptionError(f"--rnnlm {NO_MODEL} means no model, and cannot be given with others")
    return ()


def _carry_over(is_on: bool, utt2spk: str | None, segments: str | None, words: int) -> CarryOver | None:
    if not is_on:
        if utt2spk or segments:
            raise OptionError("--utt2spk and --segments define the recordings of --carry-over; give it with them")
        return None
    if utt2spk and segments:
        raise OptionError("--utt2spk and --segments both define recordings; give one of them")
    if utt2spk:
        return CarryOver.from_utt2spk(utt2spk, words)
    return CarryOver.from_segments(segments, words) if segments else CarryOver(max_words=words)
