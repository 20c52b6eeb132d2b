"""The command ``ninja tune``, which tunes scales, weights, boosts and thresholds on a development set."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import click

from ninja.cli.command import Lattices, refuse_all_but, refuse_without
from ninja.cli.context import AUGMENTING, BOOSTS, OF_AUGMENTING, OF_RESCORING, entities
from ninja.cli.history import history_of_speakers, recordings
from ninja.cli.main import current_console
from ninja.cli.models import (
    NO_MODEL,
    WEIGHT_DEFAULTS,
    fitting_weights,
    language_models,
    map_words,
)
from ninja.cli.options import command, from_fields, output_file, reads, section, write_config, writes
from ninja.cli.source import completes_scales, fitting_acoustic_scale, reads_lattices_alone, use_log
from ninja.cli.tune_confidence import ConfidenceFit, fits_confidences
from ninja.cli.tune_context import CHOSEN, OF_INPUT, GeneralSet, choose_pointer_weights, search_options, tune_boosts
from ninja.cli.tune_correction import correction_options, tune_threshold
from ninja.context.settings import Context
from ninja.errors import OptionError, counted
from ninja.evaluate import read_speakers, read_text
from ninja.io.inputs import Inputs
from ninja.lattice.text import LexicalForms
from ninja.rescoring.algorithms import RescoreOptions
from ninja.rescoring.carry_over import CarryOver
from ninja.rescoring.models import ModelFiles
from ninja.rescoring.options import LATTICES, LISTS
from ninja.rescoring.utterances import RescoreReport
from ninja.tune.first_pass import tune_first_pass
from ninja.tune.weights import Tuned, tune_weights

DEFAULTS = {
    **WEIGHT_DEFAULTS,
    "lm_weight": f"{LATTICES.lm_weight:g} for {LATTICES.kind}; {LISTS.lm_weight:g} for {LISTS.kind}; else 0.5",
    "word_penalty": f"{LATTICES.word_penalty:g} for {LATTICES.kind}; {LISTS.word_penalty:g} for {LISTS.kind}; else 0",
}
OF_SCALES = OF_INPUT | {"utt2spk"}
OF_BOTH = OF_SCALES | {*OF_RESCORING, "old_lm", "map_words", "oov_score"}
SKIPPED = (*OF_RESCORING, "max_arcs")  # fields of ContextOptions that are already rescoring options
OF_TUNING = tuple(field.name for field in fields(GeneralSet))
OF_CONTEXT = {"entities", "utt2group", "class_lm", *BOOSTS} - {*SKIPPED}
OF_CONTEXT |= {"augment", *OF_AUGMENTING, *AUGMENTING, *OF_TUNING}


@command
@completes_scales
@reads("--ref", "Reference transcripts, with a key and words on each line.", required=True)
@reads(
    "--utt2spk", "Speaker of each utterance, for intervals and cross-validation.  [default: one speaker per utterance]"
)
@click.option(
    "--num-sentences", type=click.IntRange(1), default=300, help="Maximum number of n-best sentences per lattice."
)
@language_models
@map_words
@history_of_speakers
@from_fields(RescoreOptions, skip=("map_words", "output"), defaults=DEFAULTS)
@entities(required=False, skip=SKIPPED, points=True)
@section(
    "Tuning of context",
    reads(
        "--general",
        "With --entities: lattices of utterances that contain no phrases.",
        kind=Lattices(),
        metavar="LATTICES",
        multiple=True,
    ),
    reads("--general-ref", "With --entities: reference transcripts of --general."),
    reads("--general-entities", "Phrases for the utterances of --general.  [default: --entities]"),
    click.option(
        "--max-general-rise", default=0.2, help="Maximum increase in the WER of --general, in percentage points."
    ),
    click.option(
        "--margin",
        default=1.0,
        help="Require --max-general-rise to hold even if the keyword boost is increased by this many nats.",
    ),
    writes("--curve", "Write a plot of WER against keyword boost (.svg or .png)."),
)
@fits_confidences
@correction_options
@output_file("File for the chosen options, which other commands read with --config, or for the confidence model")
@reads_lattices_alone
def tune(
    inputs: Inputs,
    ref: str,
    models: ModelFiles,
    context: Context | None,
    fit: ConfidenceFit | None,
    output_file: str,
    num_sentences: int,
    utt2spk: str | None,
    correct: bool,
    max_false_corrections: float,
    carry_over: bool,
    segments: str | None,
    carry_words: int,
    **values: Any,
) -> None:
    """Tune rescoring weights on a development set.

    SOURCE and --ref must be a development set, never a test set. The set is rescored with the initial weights. Then
    weights with fewer expected word errors on the n-best sentences are chosen, and the set is rescored with the new
    weights. These steps are repeated until the weights no longer change. The printed word error rate is measured after
    the last rescoring.

    Without --lm-weight, --word-penalty and --old-lm, the initial weights are the defaults for the type of input: LM
    weight 0.8 and word penalty 0.5 for lattices with graph costs, and 0.15 and -1 for n-best lists without graph costs.
    The baseline is the initial weights, or LM weight 0 if the first pass has fewer expected errors. Other weights
    are written only if the set contains at least 500 words and shows that they are better than the baseline.
    Among weights within one standard error of the best weights, those with the fewest changes are chosen. The
    difference from the baseline is printed with its 95% confidence interval, cross-validated by speaker with
    --utt2spk, else by utterance.

    With --carry-over, recordings are defined by --segments or by the speakers of --utt2spk, and only one model is
    allowed.

    With --rnnlm none, the lattices are not rescored. Instead, the acoustic scale and the word penalty are chosen for
    `ninja best`, `ninja score` and other commands, which read them with --config.

    With --entities, the boosts of `ninja context` are tuned instead. SOURCE contains utterances with phrases, and
    --general contains utterances without phrases. The boosts with the fewest errors in SOURCE are chosen; they may
    raise the WER in --general by at most --max-general-rise. With --context-model, the weights of the context model are
    tuned, and --general is optional.

    With --confidence, a confidence model is fitted, which maps posteriors and other features of words to the
    probability that the words are correct. `ninja mbr-decode --confidence` and other commands read this model.

    With --correct, the threshold of `ninja correct` is tuned instead. Corrections should not change utterances whose
    references contain no phrases. --max-false-corrections limits the fraction of such utterances
    that corrections would change, with 95% confidence, in a new set of the same size. The lowest threshold within
    this limit is chosen.
    --letters-only, --lexicon and --confusion apply to the corrections, and are written with the threshold.

    \b
    Examples:
      ninja tune dev.ark.gz --ref dev.text --rnnlm model.pt --words words.txt -o weights.toml
      ninja rescore --config weights.toml test.ark.gz --words words.txt -o rescored.ark.gz
      ninja tune dev.ark.gz --ref dev.text --rnnlm none --words words.txt -o weights.toml
      ninja score test.text test.ark.gz --words words.txt --config weights.toml
      ninja tune calls.ark.gz --ref calls.text --entities names.jsonl --general talk.ark.gz --general-ref talk.text
      ninja tune dev.ark.gz --ref dev.text --confidence --words words.txt --acoustic-scale 0.1 -o confidence.toml
    """
    general = GeneralSet(**{name: values.pop(name) for name in OF_TUNING})
    options = RescoreOptions(**values)
    speakers = None if utt2spk is None else read_speakers(utt2spk)
    history = recordings(carry_over, utt2spk if carry_over and segments is None else None, segments, carry_words)
    if fit is not None:
        fit.run(inputs, ref, options, speakers, output_file)
    points = context is not None and context.context_model is not None
    if correct:
        tune_threshold(inputs, ref, context, options, max_false_corrections, output_file)
        return
    refuse_without("--correct", ["max_false_corrections"])
    if not points:
        _refuse_others(context)
    if context is not None and points:
        choose_pointer_weights(inputs, ref, context, models, options, speakers, output_file, general)
    elif context is not None:
        context = replace(context, load_options=models.load_options)
        tune_boosts(inputs, ref, context, options, models.old_lm, speakers, output_file, general)
    elif not models.models and models.old_lm is None:
        if history is not None:
            raise OptionError(
                "--carry-over requires a language model; specify a model with --rnnlm, or omit --carry-over"
            )
        refuse_all_but(OF_SCALES | {"rnnlm"}, f"--rnnlm {NO_MODEL} chooses scales of the first pass")
        _tune_first_pass(inputs, ref, options, speakers, output_file)
    else:
        _tune_weights(inputs, ref, models, options, num_sentences, speakers, history, output_file)


def _tune_weights(
    inputs: Inputs,
    ref: str,
    models: ModelFiles,
    options: RescoreOptions,
    num_sentences: int,
    speakers: Mapping[str, str] | None,
    carry_over: CarryOver | None,
    output_file: str,
) -> None:
    if not models.models:
        raise OptionError(
            "there is no language model to tune; specify a model with --rnnlm, or omit --old-lm to tune the scales of "
            "the first pass"
        )
    references = read_text(ref)
    log = use_log(inputs, RescoreReport())
    words = inputs.need_table()
    options = replace(options, acoustic_scale=fitting_acoustic_scale(inputs, options.acoustic_scale))
    words.complete()
    [(lm, options)], old_lm = models.load(options, words, log)
    assert lm is not None
    with current_console().progress("lattices", by_reading=True):
        if models.old_lm is None and (weights := fitting_weights(inputs)) is not None:
            log.note(f"the initial weights are the defaults for {weights.kind}: {weights}")
            options = replace(options, lm_weight=weights.lm_weight, word_penalty=weights.word_penalty)
        tuned = tune_weights(
            inputs.lattices(),
            references,
            lm,
            options,
            old_lm=old_lm,
            num_best=num_sentences,
            speakers=speakers,
            carry_over=carry_over,
            report=log,
        )
    comments = [f"ninja tune {shlex.join(inputs.places)} --ref {shlex.quote(ref)}", f"{tuned.summary} ({tuned.basis})"]
    history = {} if carry_over is None else {"carry_over": True, "carry_words": carry_over.max_words}
    write_config(output_file, _weights(tuned, models, options) | history, [*comments, tuned.evidence])
    for edge in tuned.edges:
        log.note(edge)
    current_console().say(tuned.evidence)
    current_console().close(f"{tuned.summary}: {tuned.weights}; {tuned.basis}, {current_console().seconds:.1f} s")


def _tune_first_pass(
    inputs: Inputs, ref: str, options: RescoreOptions, speakers: Mapping[str, str] | None, output_file: str
) -> None:
    references = read_text(ref)
    inputs.need_table().complete()
    options = replace(options, acoustic_scale=fitting_acoustic_scale(inputs, options.acoustic_scale))
    tuned = tune_first_pass(
        inputs.lattices(),
        references,
        options.scales,
        speakers=speakers,
        forms=LexicalForms(options.normalizer, inputs.log.note),
        log=inputs.log,
    )
    comments = [f"ninja tune {shlex.join(inputs.places)} --ref {shlex.quote(ref)} --rnnlm {NO_MODEL}", tuned.summary]
    values = {"acoustic_scale": tuned.scales.acoustic, "word_penalty": tuned.scales.word_penalty}
    write_config(output_file, values, [*comments, tuned.tuned.evidence])
    for note in (*(f"note: {edge}" for edge in tuned.edges), tuned.tuned.evidence):
        current_console().say(note)
    chosen = ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in values.items())
    current_console().close(
        f"{tuned.summary}: {chosen}; {counted(tuned.num_lattices, 'lattice')}, {current_console().seconds:.1f} s"
    )


def _weights(tuned: Tuned, models: ModelFiles, options: RescoreOptions) -> dict[str, Any]:
    """Return the tuned weights as options of ``ninja rescore``."""
    weights = tuned.weights
    values: dict[str, Any] = {name: getattr(weights, name) for name in CHOSEN}
    used = [place for place, share in enumerate(weights.mixture) if share > 0]
    named = [str(models.models[place]) for place in used if models.models[place] is not None]
    if named:
        values["rnnlm"] = named
    if len(used) > 1:
        values["mixture"] = models.mixture
        values["mixture_weights"] = ",".join(f"{weights.mixture[place]:g}" for place in used)
    if models.old_lm is not None:
        values["old_lm"] = str(models.old_lm)
    # The weights are optimal only for these search options, so the options are written as well.
    return values | search_options(options, models.load_options)


def _refuse_others(context: Context | None) -> None:
    """Raise `OptionError` if an option is set that applies only to another mode of ``ninja tune``."""
    if context is None:
        refuse_without("--entities", OF_CONTEXT)
    else:
        refuse_all_but(OF_CONTEXT | OF_BOTH, "--entities chooses boosts instead of rescoring weights")
