"""Options of language models: their files, mixture and carry-over."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, get_args

import click

from ninja.cli.options import Several, section
from ninja.errors import OptionError
from ninja.lm.mixture import How
from ninja.lm.word_map import WordMapping
from ninja.rescoring.carry_over import MAX_WORDS, CarryOver
from ninja.rescoring.models import Direction, ModelFiles

NO_MODEL = "none"
WEIGHTS = Several(float, "numbers")
WEIGHTS_HELP = "Weights of the models, or of --iterate's passes.  [default: equal]"
DIRECTIONS = Several(
    lambda text: get_args(Direction)[get_args(Direction).index(text)], "forward or backward for each model"
)
ITERATE_HELP = "Rescore with one model after the other, each forward or backward."


def language_models(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of its language models, handed to it as ``models`` and ``carry_over``."""

    @section(
        "Models",
        click.option(
            "--rnnlm",
            metavar="FILE",
            multiple=True,
            help=f"Language model; several are mixed. {NO_MODEL}: only --old-lm.  [default: the shipped English model]",
        ),
        click.option("--old-lm", metavar="FILE", help="The first pass's language model, whose scores are taken out."),
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
        click.option("--carry-over", is_flag=True, help="Let models see the words before in the recording."),
        click.option("--utt2spk", metavar="FILE", help="With --carry-over: a speaker's utterances are a recording."),
        click.option("--segments", metavar="FILE", help="With --carry-over: segments with recordings and times."),
        click.option(
            "--carry-words",
            type=click.IntRange(0),
            default=MAX_WORDS,
            help="With --carry-over: most words carried over; 0 is all.",
        ),
    )
    @section("Running", click.option("--device", default="cpu", help="Device of the models: cpu, cuda, cuda:1, …"))
    @functools.wraps(command)
    def collected(
        rnnlm: tuple[str, ...],
        old_lm: str | None,
        carry_over: bool,
        utt2spk: str | None,
        segments: str | None,
        carry_words: int,
        **options: Any,
    ) -> None:
        how = (options.pop(name) for name in ("mixture", "mixture_weights", "iterate", "device"))
        models = ModelFiles(_files(rnnlm, old_lm), old_lm, *how)
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


def _files(rnnlm: tuple[str, ...], old_lm: str | None) -> tuple[str | None, ...]:
    if NO_MODEL not in rnnlm:
        return rnnlm or (None,)
    if len(rnnlm) > 1:
        raise OptionError(f"--rnnlm {NO_MODEL} stands for no model at all, and cannot go with others")
    if old_lm is None:
        raise OptionError(f"--rnnlm {NO_MODEL} needs --old-lm: there is no model to rescore with")
    return ()


def _carry_over(wanted: bool, utt2spk: str | None, segments: str | None, words: int) -> CarryOver | None:
    if not wanted:
        if utt2spk or segments:
            raise OptionError("--utt2spk and --segments define the recordings of --carry-over; give it with them")
        return None
    if utt2spk and segments:
        raise OptionError("--utt2spk and --segments both define recordings; give one of them")
    if utt2spk:
        return CarryOver.from_utt2spk(utt2spk, words)
    return CarryOver.from_segments(segments, words) if segments else CarryOver(max_words=words)
