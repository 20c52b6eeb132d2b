"""The command ``ninja rescore``, which rescores lattices with language models."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import IO, TYPE_CHECKING, Any, get_args

import click

from ninja.cli.best import best_words
from ninja.cli.config import config
from ninja.cli.context import OF_RESCORING, PhraseCounts, entities, with_acoustic_scale, write_words
from ninja.cli.history import history_across_utterances, prompts_before_utterances
from ninja.cli.main import current_console
from ninja.cli.models import (
    NO_MODEL,
    WEIGHT_DEFAULTS,
    language_models,
    map_words,
    with_list_weights,
)
from ninja.cli.options import DEFAULT_FRAME_SHIFT, ListType, command, from_fields, lattice_output, section, writes
from ninja.cli.source import completes_scales, fitting_acoustic_scale, reads_lattices, results, use_log, write
from ninja.errors import OptionError
from ninja.files.output import text_output
from ninja.io.inputs import Inputs
from ninja.io.sources import ChosenScales
from ninja.lattice import Lattice
from ninja.pipeline import Output
from ninja.rescoring.algorithms import RescoreOptions
from ninja.rescoring.carry_over import CarryOver
from ninja.rescoring.changes import Record, ReportingRescorer
from ninja.rescoring.models import Direction, ModelFiles
from ninja.rescoring.prompts import Prompts
from ninja.rescoring.rescorer import Rescorer
from ninja.rescoring.utterances import RescoreReport

if TYPE_CHECKING:
    from ninja.context.settings import Context

DIRECTIONS = ListType(
    lambda text: get_args(Direction)[get_args(Direction).index(text)], "forward or backward for each model"
)


@command
@completes_scales
@config
@language_models
@history_across_utterances
@prompts_before_utterances
@map_words
@section(
    "Models",
    click.option(
        "--iterate",
        type=DIRECTIONS,
        metavar="D,D,…",
        help="Rescore with one model after the other; D is the direction of each model, forward or backward. The LM "
        "weights of the passes are --mixture-weights or, by default, --lm-weight.",
    ),
)
@from_fields(RescoreOptions, skip=("map_words",), defaults=WEIGHT_DEFAULTS)
@entities(required=False, skip=(*OF_RESCORING, "max_arcs"), points=True)
@lattice_output("Output for the rescored lattices")
@section(
    "Input and output",
    writes("--report", "For each lattice whose best path changes, write a JSON line with both paths and their costs."),
)
@reads_lattices
def rescore(
    inputs: Inputs,
    models: ModelFiles,
    carry_over: CarryOver | None,
    prompts: Prompts | None,
    iterate: tuple[Direction, ...] | None,
    context: Context | None,
    destination: Output,
    report: str | None,
    **chosen: Any,
) -> None:
    """Rescore lattices with language models.

    With --entities, phrases that are relevant to each utterance are boosted in the same run (see `ninja context`),
    and --class-lm is mixed with --old-lm if both are specified. With --context-model, phrases are not boosted;
    instead, the context model scores them together with the language model. By default, --words is words.txt or
    words.txt.gz next to SOURCE. Without -o, a binary archive is written to stdout; if stdout is a terminal, the
    best word sequences are printed instead.

    If the first entry of SOURCE is an n-best list without graph costs, and none of --lm-weight, --word-penalty and
    --old-lm is specified, the LM weight is 0.15 and the word penalty -1. These values were tuned on n-best lists of
    Whisper.

    \b
    Example:
      ninja rescore lat.ark.gz --rnnlm model.pt --words words.txt -o rescored.ark.gz
    """
    options = RescoreOptions(**chosen)
    models = replace(models, directions=iterate or ())
    if not models.models and models.old_lm is None:
        raise OptionError(f"--rnnlm {NO_MODEL} requires --old-lm; otherwise there is no model to rescore with")
    if models.directions and options.backward:
        raise OptionError("--backward cannot be used with --iterate, which sets the direction of each model")
    if carry_over is not None and destination.resume:
        raise OptionError("--carry-over cannot be used with --resume")
    if report is not None and destination.resume:
        raise OptionError("--report cannot be used with --resume")
    if carry_over is not None and destination.is_per_file:
        raise OptionError("--carry-over cannot be used with one output per input; specify a single file with -o")
    words = inputs.need_table()
    options = replace(options, acoustic_scale=fitting_acoustic_scale(inputs, options.acoustic_scale))
    options = with_list_weights(inputs, models, options)
    destination = replace(destination, chosen=ChosenScales(options.scales, options.lm_weight), scales=options.scales)
    log = use_log(inputs, RescoreReport())
    if carry_over is not None and carry_over.recording is None:
        log.note("neither --utt2spk nor --segments is given; all lattices are treated as one recording, in input order")
    rescorer = Rescorer(models, options, carry_over=carry_over, prompts=prompts)
    phrases: PhraseCounts | None = None
    if context is not None:
        from ninja.context.stage import Contextual

        context = with_acoustic_scale(context, options.acoustic_scale)
        rescorer.context = contextual = Contextual.before(context, models, options)
        contextual.bind(words, log)
        phrases = PhraseCounts(contextual)

    frame_shift: float | None = None

    def write_json_line(lines: IO[str], record: Record) -> None:
        lines.write(json.dumps(record, ensure_ascii=False) + "\n")

    def take(lattice: Lattice) -> None:
        nonlocal frame_shift
        frame_shift = frame_shift or lattice.frame_shift
        if phrases is not None:
            phrases.count(lattice)

    with nullcontext() if report is None else text_output(report) as lines:
        stage: Rescorer | ReportingRescorer = rescorer
        if lines is not None:
            stage = ReportingRescorer(rescorer, options.scales, partial(write_json_line, lines))
        if destination.name == "-" and sys.stdout.isatty():
            for key, lattice in results(stage, inputs, to_stdout=True):
                take(lattice)
                click.echo(" ".join([key, *best_words(lattice, options.scales)]))
        else:
            write(stage, inputs, destination, on_result=take)
    if phrases is not None:
        write_words(destination.words_out, phrases.stage)
        phrases.stage.note_late(log)
        log.note(str(phrases))
    current_console().close(log.summary(current_console().seconds, frame_shift or DEFAULT_FRAME_SHIFT))
