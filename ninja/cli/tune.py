"""``ninja tune``."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

import click
import numpy as np

from ninja.cli.console import current_console, use_log
from ninja.cli.context import AUGMENTING, BOOSTS, OF_AUGMENTING, OF_RESCORING, entities, with_acoustic_scale
from ninja.cli.files import Lattices
from ninja.cli.models import (
    NO_MODEL,
    WORD_OPTIONS,
    fitting_weights,
    history_of_speakers,
    language_models,
    map_words,
    recordings,
)
from ninja.cli.options import (
    command,
    from_fields,
    given_on_command_line,
    output_file,
    reads,
    section,
    write_config,
    writes,
)
from ninja.cli.source import completes_scales, fitting_acoustic_scale, reads_lattices
from ninja.cli.tune_confidence import ConfidenceFit, fits_confidences
from ninja.cli.tune_correction import correction_options, tune_threshold
from ninja.context.augmentation.old_costs import with_unknown
from ninja.context.augmentation.options import AugmentOptions
from ninja.context.loader import load_ngram, load_pointer
from ninja.context.options import ContextOptions
from ninja.context.settings import Context
from ninja.context.stage import Contextual
from ninja.errors import OptionError
from ninja.evaluate import read_speakers, read_text
from ninja.graph.lexical import lexical_lattice
from ninja.io.inputs import Inputs
from ninja.lattice import Lattice, Scales
from ninja.lattice.text import NONE, LexicalForms, LexicalTable
from ninja.lm import LanguageModel
from ninja.lm.ngram.model import NgramLM
from ninja.rescoring.carry_over import CarryOver
from ninja.rescoring.models import ModelFiles
from ninja.rescoring.options import RescoreOptions
from ninja.rescoring.report import RescoreReport
from ninja.tune.boosts import ContextSettings, DevSet, TunedContext, tune_context
from ninja.tune.first_pass import tune_first_pass
from ninja.tune.plot import check_picture, plot_trade_off
from ninja.tune.pointer import PointerSet, tune_pointer
from ninja.tune.weights import Tuned, tune_weights, word_error_rate

CHOSEN = ("lm_weight", "acoustic_scale", "word_penalty")
OF_BOTH = {"source", "ref", "utt2spk", "output_file", "old_lm", "acoustic_scale", "word_penalty", "map_words"}
OF_BOTH |= {*OF_RESCORING, *WORD_OPTIONS, "words", "jobs", "on_error", "allow_pipes"}
SKIPPED = (*OF_RESCORING, "max_arcs")  # shared with the rescoring
OF_CONTEXT = {"entities", "utt2group", "class_lm", *BOOSTS} - {*SKIPPED}
OF_CONTEXT |= {"augment", *OF_AUGMENTING, *AUGMENTING}
OF_TUNING = ("general", "general_ref", "general_entities", "max_general_rise", "margin", "curve")
OF_CONTEXT |= {*OF_TUNING}


@command
@completes_scales
@reads("--ref", "Reference transcripts, with a key and words on each line.", required=True)
@reads("--utt2spk", "Speaker of each utterance, for intervals and cross-validation.  [default: by utterance]")
@click.option("--num-sentences", type=click.IntRange(1), default=300, help="Number of n-best sentences.")
@language_models
@map_words
@history_of_speakers
@from_fields(RescoreOptions, skip=("map_words", "output"))
@entities(required=False, skip=SKIPPED, points=True)
@section(
    "Tuning of context",
    reads(
        "--general", "With --entities: lattices of utterances that contain no phrases.", kind=Lattices(), multiple=True
    ),
    reads("--general-ref", "With --entities: reference transcripts of --general."),
    reads("--general-entities", "Phrases of --general.  [default: --entities]"),
    click.option("--max-general-rise", default=0.2, help="Maximum rise of the WER of --general, in percentage points."),
    click.option("--margin", default=1.0, help="Safety margin of the keyword boost, in nats."),
    writes("--curve", "Write a plot of WER against keyword boost (.svg or .png)."),
)
@fits_confidences
@correction_options
@output_file("File for the options, which `ninja rescore --config` or `ninja context --config` takes")
@reads_lattices
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

    SOURCE and --ref are a development set, never a test set. It is rescored with the initial weights, then weights with
    fewer expected word errors on its n-best sentences are chosen, and the set is rescored with these. This is repeated
    until the weights no longer change. The printed word error rate is that of the last rescoring.

    Without --lm-weight, --word-penalty and --old-lm, the initial weights are the usual ones for the kind of input: 0.8
    and 0.5 for lattices with graph costs, 0.15 and -1 for n-best lists without graph costs. The initial weights are
    kept and written unless the set shows that others are better, for which it needs at least 500 words. Among weights
    within one standard error of the best, the simplest are chosen. The 95 % interval of the difference to the initial
    weights is printed, cross-validated by the speakers of --utt2spk or by utterance.

    With --carry-over, the recordings are those of --segments, or the speakers of --utt2spk; there must be one model.

    With --rnnlm none, the lattices are not rescored: acoustic scale and word penalty are chosen for `ninja best`,
    `ninja score` and other commands, which read them with --config.

    With --entities, the boosts of `ninja context` are chosen instead: those with the fewest errors in SOURCE, whose
    utterances contain phrases, among those that hardly raise the WER in --general, whose utterances contain none. With
    --context-model, the weights of the context model are chosen; --general is optional then.

    With --confidence, a map from posteriors and other features of words to the probability that they are correct is
    fitted, which `ninja mbr-decode --confidence` and other commands read.

    With --correct, the threshold of `ninja correct` is chosen instead: the lowest one with which at most
    --max-false-corrections of the utterances whose references contain no phrase are changed, with 95 % confidence.

    \b
    Examples:
      ninja tune dev.ark.gz --ref dev.text --rnnlm model.pt --words words.txt -o weights.toml
      ninja rescore --config weights.toml test.ark.gz --words words.txt -o rescored.ark.gz
      ninja tune dev.ark.gz --ref dev.text --rnnlm none --words words.txt -o weights.toml
      ninja score test.text test.ark.gz --words words.txt --config weights.toml
      ninja tune calls.ark.gz --ref calls.text --entities names.jsonl --general talk.ark.gz --general-ref talk.text
      ninja tune dev.ark.gz --ref dev.text --confidence --words words.txt --acoustic-scale 0.1 -o confidence.toml
    """
    of_context = {name: values.pop(name) for name in OF_TUNING}
    options = RescoreOptions(**values)
    speakers = None if utt2spk is None else read_speakers(utt2spk)
    history = recordings(carry_over, utt2spk if carry_over and segments is None else None, segments, carry_words)
    if fit is not None:
        fit.run(inputs, ref, options, speakers, output_file)
    points = context is not None and context.context_model is not None
    if correct:
        tune_threshold(inputs, ref, context, options, max_false_corrections, output_file)
        return
    if given_on_command_line(["max_false_corrections"]):
        raise OptionError("--max-false-corrections: only with --correct")
    if not points:
        _refuse_others(context)
    if (current_console().jobs or 1) > 1:
        raise OptionError("--jobs is not supported by tuning; omit it")
    if context is not None and points:
        _tune_pointer(inputs, ref, context, models, options, speakers, output_file, **of_context)
    elif context is not None:
        context = replace(context, load_options=models.load_options)
        _tune_boosts(inputs, ref, context, options, models.old_lm, speakers, output_file, **of_context)
    elif models.directions:
        raise OptionError("weights are chosen for one pass; omit --iterate")
    elif not models.models and models.old_lm is None:
        if history is not None:
            raise OptionError("--carry-over requires a language model; omit it, or give a model with --rnnlm")
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
            "there is no language model to choose a weight for; give one with --rnnlm, or omit --old-lm to choose "
            "scales of the first pass"
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
            log.note(f"initial weights are those of {weights.kind}: {weights}")
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
    comments = [f"ninja tune {shlex.join(inputs.places)} --ref {shlex.quote(ref)}", f"{tuned.story} ({tuned.basis})"]
    history = {} if carry_over is None else {"carry_over": True, "carry_words": carry_over.max_words}
    write_config(output_file, _weights(tuned, models, options) | history, [*comments, tuned.evidence])
    for edge in tuned.edges:
        log.note(f"note: {edge}")
    current_console().say(tuned.evidence)
    current_console().close(f"{tuned.story}: {tuned.weights}; {tuned.basis}, {current_console().seconds:.1f} s")


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
    comments = [f"ninja tune {shlex.join(inputs.places)} --ref {shlex.quote(ref)} --rnnlm {NO_MODEL}", tuned.story]
    values = {"acoustic_scale": tuned.scales.acoustic, "word_penalty": tuned.scales.word_penalty}
    write_config(output_file, values, [*comments, tuned.tuned.evidence])
    for note in (*(f"note: {edge}" for edge in tuned.edges), tuned.tuned.evidence):
        current_console().say(note)
    chosen = ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in values.items())
    current_console().close(
        f"{tuned.story}: {chosen}; {tuned.num_lattices} lattices, {current_console().seconds:.1f} s"
    )


def _weights(tuned: Tuned, models: ModelFiles, options: RescoreOptions) -> dict[str, Any]:
    """Return the equivalent options of ``ninja rescore``."""
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
    # Other options of the search are part of the result.
    others = [field.name for field in fields(options) if field.name not in (*CHOSEN, "output", "batch_arcs")]
    return values | _changed(options, others) | _changed(models.load_options, WORD_OPTIONS)


def _tune_boosts(
    inputs: Inputs,
    ref: str,
    context: Context,
    options: RescoreOptions,
    old_lm: Any,
    speakers: Mapping[str, str] | None,
    output_file: str,
    general: tuple[str, ...],
    general_ref: str | None,
    general_entities: str | None,
    curve: str | None,
    max_general_rise: float,
    margin: float,
) -> None:
    if not general or general_ref is None:
        raise OptionError(
            "--entities requires --general and --general-ref with utterances that contain no phrases; without "
            "them, the largest boosts always seem best"
        )
    if context.class_lm is None and context.augmentation is None and old_lm is not None:
        raise OptionError("--old-lm is mixed with --class-lm; give both or neither")
    if curve is not None:
        check_picture(curve)
    shared = {name: getattr(options, name) for name in (*OF_RESCORING, "map_words")}
    context = replace(context, options=replace(context.options, **shared))
    inputs.beside = general
    words, log = inputs.need_table(), inputs.log
    options = replace(options, acoustic_scale=fitting_acoustic_scale(inputs, options.acoustic_scale))
    context = with_acoustic_scale(context, options.acoustic_scale)
    words.complete()
    forms = LexicalForms(options.normalizer, log.note)
    if not (normalizer := forms.normalizer(words)).is_identity:  # lattices and references are made lexical
        lexical = LexicalTable(words, normalizer)
        lexical.learn(np.array([number for _, number in words], np.int64))
        words = lexical.lexical.snapshot()
    context = replace(context, normalizer=NONE)
    old = None if old_lm is None else load_ngram(old_lm, words, log, context.load_options)
    stage = other = Contextual(context)
    tracker = stage.bind(words, log)
    if general_entities is not None:
        other = Contextual(replace(context, entities=general_entities))
        tracker = other.bind(tracker.words, log)
    mixed = None if tracker.class_lm is None else old
    if mixed is not None and context.augmentation is not None:
        mixed = with_unknown(mixed)  # as `Contextual` does
    with current_console().progress("lattices", by_reading=True):
        sides = [list(side) for side in (inputs.lattices(), inputs.with_names(general).lattices())]
        references = [
            {key: normalizer.words(text) for key, text in read_text(path).items()} for path in (ref, general_ref)
        ]
        if not normalizer.is_identity:
            sides = [
                [(key, lexical_lattice(lattice, lexical).lattice.with_words(words)) for key, lattice in side]
                for side in sides
            ]
        tuned = tune_context(
            _dev_set(inputs, sides[0], references[0], stage, old),
            _dev_set(inputs, sides[1], references[1], other, old),
            tracker.words,
            tracker.class_lm,
            context.options,
            old_lm=mixed,
            fixed=() if context.augmentation is None else ("acoustic_scale",),
            log=log,
            acoustic_scale=options.acoustic_scale,
            word_penalty=options.word_penalty,
            speakers=speakers,
            max_general_rise=max_general_rise,
            margin=margin,
        )
    if curve is not None:
        plot_trade_off(curve, tuned)
    for note in (*tuned.edges, *tuned.warnings):
        current_console().say(f"note: {note}")
    current_console().say(tuned.evidence)
    table = list(_table(tuned, "no context" if context.augmentation is None else "no context, phrases added"))
    for line in table:
        current_console().say(line)
    if tuned.settings is None:
        current_console().say(f"no boosts are chosen, and no options are written; {current_console().seconds:.1f} s")
        click.get_current_context().exit(1)
    rates = [
        _context_wer(*side, replace(part.context, options=tuned.settings.options), old, tuned.settings)
        for side, part in zip(zip(sides, references, strict=True), (stage, other), strict=True)
    ]
    table.append(f"{'by ninja context':24}{rates[0]:14.2f}  {rates[1]:11.2f}")
    current_console().say(table[-1])
    values = _boosts(tuned.settings, context, old_lm)
    command_line = ["ninja", "tune", *inputs.places, "--ref", ref, "--entities", str(context.entities)]
    command_line += [part for place in general for part in ("--general", place)]
    write_config(
        output_file,
        values,
        [shlex.join([*command_line, "--general-ref", general_ref]), *table, *tuned.warnings, tuned.evidence],
    )
    options_text = shlex.join(
        option if value is True else f"{option}={value}"
        for option, setting in ((f"--{name.replace('_', '-')}", setting) for name, setting in values.items())
        for value in (setting if isinstance(setting, list) else [setting])
    )
    current_console().close(f"ninja context LATTICES --entities FILE {options_text}; {current_console().seconds:.1f} s")


def _tune_pointer(
    inputs: Inputs,
    ref: str,
    context: Context,
    models: ModelFiles,
    options: RescoreOptions,
    speakers: Mapping[str, str] | None,
    output_file: str,
    general: tuple[str, ...],
    general_ref: str | None,
    general_entities: str | None,
    max_general_rise: float,
    **of_boosts: Any,
) -> None:
    if bool(general) != (general_ref is not None):
        raise OptionError("--general and --general-ref must be used together; give both or neither")
    inputs.beside = general
    words, log = inputs.need_table(), use_log(inputs, RescoreReport())
    options = replace(options, acoustic_scale=fitting_acoustic_scale(inputs, options.acoustic_scale))
    words.complete()
    file = context.context_model
    assert file is not None
    [(lm, options)], old_lm = models.load(options, words, log)
    if old_lm is not None:
        raise OptionError("--old-lm cannot be used when weights of a context model are chosen; omit it")
    if not isinstance(lm, LanguageModel):
        raise OptionError("a context model needs exactly one language model; give one --rnnlm")

    context = replace(context, context_model=load_pointer(file))

    def part(lattices: Iterable[tuple[str, Lattice]], text: str, part_context: Context) -> PointerSet:
        stage = Contextual.before(part_context, models, options)
        stage.bind(words, log)
        return PointerSet(
            list(lattices),
            read_text(text),
            lambda chosen: stage.with_weights(chosen.context_prior, chosen.context_weight),
        )

    with current_console().progress("lattices", by_reading=True):
        contextual = part(inputs.lattices(), ref, context)
        general_set = None
        if general_ref is not None:
            others = replace(context, entities=general_entities or context.entities)
            general_set = part(inputs.with_names(general).lattices(), general_ref, others)
        tuned = tune_pointer(contextual, general_set, lm, options, context.options, max_general_rise, speakers=speakers)
    for trial in (tuned.before, *tuned.trials):
        current_console().say(str(trial))
    if tuned.chosen is None:
        current_console().say(f"no weights are chosen, and no options are written; {current_console().seconds:.1f} s")
        click.get_current_context().exit(1)
    values: dict[str, Any] = {name: getattr(options, name) for name in CHOSEN}
    values |= {"rnnlm": [str(model) for model in models.models if model is not None]} if any(models.models) else {}
    values |= {"context_model": str(file)}
    values |= {"context_prior": tuned.chosen.prior, "context_weight": tuned.chosen.weight}
    current_console().say(tuned.evidence)
    write_config(output_file, values, [*(str(trial) for trial in (tuned.before, *tuned.trials)), tuned.evidence])
    current_console().close(f"chosen: {str(tuned.chosen).strip()}; {current_console().seconds:.1f} s")


def _context_wer(
    lattices: list[tuple[str, Lattice]],
    references: dict[str, list[str]],
    context: Context,
    old_lm: NgramLM | None,
    settings: ContextSettings,
) -> float:
    """Return the word error rate of the output of ``ninja context``, percent."""
    report = RescoreReport(on_error=lambda error: None)  # already reported
    scales = Scales(settings.acoustic_scale, word_penalty=settings.word_penalty)
    return word_error_rate(Contextual(context, old_lm)(lattices, report), references, scales)


def _dev_set(
    inputs: Inputs,
    lattices: Iterable[tuple[str, Lattice]],
    references: dict[str, list[str]],
    stage: Contextual,
    old_lm: NgramLM | None,
) -> DevSet:
    """Create a development set; phrases are added to its lattices once, as they do not depend on boosts."""
    assert stage.entities is not None
    if stage.context.augmentation is not None:
        unboosted = ContextOptions(keyword_boost=0.0)
        augmented = Contextual(Context(stage.entities, None, None, unboosted, stage.context.augmentation), old_lm)
        known = ((key, lattice.with_words(stage.words)) for key, lattice in lattices)
        lattices = augmented(known, RescoreReport(on_error=inputs.on_failure))
    return DevSet(lattices, references, stage.entities)


def _table(tuned: TunedContext, before: str) -> Iterator[str]:
    """Format error rates without boosts and with the chosen boosts."""
    yield f"{'':24}contextual WER  general WER  entities found  false alarms"
    rows = {before: tuned.before, "best without entities": tuned.without, "chosen": tuned.after}
    for name, row in rows.items():
        recall = "-" if math.isnan(row.recall) else f"{row.recall:.1f} %"
        yield f"{name:24}{row.contextual_wer:14.2f}  {row.general_wer:11.2f}  {recall:>14}  {row.false_alarms:12}"


def _boosts(settings: ContextSettings, context: Context, old_lm: Any) -> dict[str, Any]:
    """Return the equivalent options of ``ninja context``."""
    models = {"class_lm": context.class_lm, "old_lm": old_lm}
    values: dict[str, Any] = {name: str(path) for name, path in models.items() if path is not None}
    boosts = ("keyword_boost",) if context.class_lm is None else ("keyword_boost", "class_boost", "class_weight")
    values |= {name: getattr(settings.options, name) for name in boosts}
    values |= {"acoustic_scale": settings.acoustic_scale, "word_penalty": settings.word_penalty}
    values |= _changed(settings.options, ("max_tokens", "unk_penalty", "max_unknown", "map_words"))
    values |= _changed(context.load_options, WORD_OPTIONS)
    if context.augmentation is not None:
        values["augment"] = True
        names = [field.name for field in fields(AugmentOptions) if field.name != "acoustic_scale"]
        changed = _changed(context.augmentation.options, names)
        values |= {f"augment_{name}": value for name, value in changed.items()}
        files = {name: getattr(context.augmentation, name) for name in OF_AUGMENTING}
        values |= {name: str(path) for name, path in files.items() if path is not None}
    return values


def _changed(options: Any, names: Iterable[str]) -> dict[str, Any]:
    """Return the options that differ from their defaults."""
    defaults = type(options)()
    values = {name: getattr(options, name) for name in names}
    changed = {name: value for name, value in values.items() if value != getattr(defaults, name)}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in changed.items()}


def _refuse_others(context: Context | None) -> None:
    """Check that no option of the other kind of tuning was given."""
    if context is None and (wrong := given_on_command_line(OF_CONTEXT)):
        raise OptionError(f"{', '.join(wrong)}: only allowed with --entities")
    others = {parameter.name or "" for parameter in click.get_current_context().command.params} - OF_CONTEXT - OF_BOTH
    if context is not None and (wrong := given_on_command_line(others)):
        raise OptionError(f"--entities chooses boosts instead of rescoring weights; omit {', '.join(wrong)}")
