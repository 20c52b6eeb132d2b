"""The command ``ninja tune --entities``, which chooses boosts or context model weights on a development set."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import click
import numpy as np

from ninja.cli.command import given_on_command_line, refuse_without
from ninja.cli.context import OF_AUGMENTING, OF_RESCORING, check_models, with_acoustic_scale
from ninja.cli.main import current_console
from ninja.cli.models import WORD_OPTIONS, with_list_weights
from ninja.cli.options import write_config
from ninja.cli.source import READING, fitting_acoustic_scale, use_log
from ninja.context.augmentation.old_costs import with_unknown
from ninja.context.augmentation.options import AugmentOptions
from ninja.context.loader import load_ngram, load_pointer
from ninja.context.options import ContextOptions
from ninja.context.settings import Context
from ninja.context.stage import Contextual
from ninja.errors import OptionError
from ninja.evaluate import read_text
from ninja.graph.lexical import lexical_lattice
from ninja.io.inputs import Inputs
from ninja.lattice import Lattice, Scales
from ninja.lattice.text import NONE, LexicalForms, LexicalTable
from ninja.lm import LanguageModel
from ninja.lm.ngram.model import NgramLM
from ninja.lm.protocol import LoadOptions
from ninja.rescoring.algorithms import RescoreOptions
from ninja.rescoring.models import ModelFiles
from ninja.rescoring.utterances import RescoreReport
from ninja.tune.boosts import ContextSettings, DevSet, TunedContext, tune_context
from ninja.tune.plot import check_picture, plot_trade_off
from ninja.tune.pointer import PointerSet, tune_pointer
from ninja.tune.weights import word_error_rate

# Options of `ninja tune` that apply in all of its modes.
OF_INPUT = {"source", "ref", "output_file", "acoustic_scale", "word_penalty", "normalizer", "on_error", *READING}
CHOSEN = ("lm_weight", "acoustic_scale", "word_penalty")


@dataclass(frozen=True, slots=True)
class GeneralSet:
    """Utterances without phrases, and limits on the effect of boosts on them; the fields are options of `tune`."""

    general: tuple[str, ...]  # names of the lattice sources
    general_ref: str | None
    general_entities: str | None
    max_general_rise: float  # maximum increase in WER, in percentage points
    margin: float  # safety margin of the keyword boost, in nats
    curve: str | None  # file for a plot of WER against keyword boost


def tune_boosts(
    inputs: Inputs,
    ref: str,
    context: Context,
    options: RescoreOptions,
    old_lm: Any,
    speakers: Mapping[str, str] | None,
    output_file: str,
    general_set: GeneralSet,
) -> None:
    """Choose the boosts and write them to a file for ``ninja context --config``.

    Raises:
        OptionError: The options cannot be combined.
    """
    general, general_ref, curve = general_set.general, general_set.general_ref, general_set.curve
    if not general or general_ref is None:
        raise OptionError(
            "--entities requires --general and --general-ref with utterances that contain no phrases; without "
            "them, the largest boosts always seem best"
        )
    check_models(context, old_lm)
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
    if not (normalizer := forms.normalizer(words)).is_identity:  # convert lattices and references to lexical words
        lexical = LexicalTable(words, normalizer)
        lexical.learn(np.array([number for _, number in words], np.int64))
        words = lexical.lexical.snapshot()
    context = replace(context, normalizer=NONE)
    old = None if old_lm is None else load_ngram(old_lm, words, log, context.load_options)
    stage = other = Contextual(context)
    tracker = stage.bind(words, log)
    if general_set.general_entities is not None:
        other = Contextual(replace(context, entities=general_set.general_entities))
        tracker = other.bind(tracker.words, log)
    mixed = None if tracker.class_lm is None else old
    if mixed is not None and context.augmentation is not None:
        mixed = with_unknown(mixed)  # `Contextual` does the same
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
            max_general_rise=general_set.max_general_rise,
            margin=general_set.margin,
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
    values = _boosts(tuned.settings, context, old_lm) | changed_options(options, ("normalizer",))
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


def choose_pointer_weights(
    inputs: Inputs,
    ref: str,
    context: Context,
    models: ModelFiles,
    options: RescoreOptions,
    speakers: Mapping[str, str] | None,
    output_file: str,
    general_set: GeneralSet,
) -> None:
    """Choose the weights of a context model and write the options of ``ninja rescore``.

    Raises:
        OptionError: The options cannot be combined.
    """
    general, general_ref = general_set.general, general_set.general_ref
    if flags := given_on_command_line(("margin", "curve")):
        raise OptionError(f"{', '.join(flags)} cannot be used with --context-model, which replaces boosts")
    if flags := given_on_command_line(("num_sentences", "carry_over", "segments", "carry_words")):
        raise OptionError(
            f"tuning the weights of --context-model uses no n-best sentences and no carry-over; omit {', '.join(flags)}"
        )
    if bool(general) != (general_ref is not None):
        raise OptionError("--general and --general-ref must be used together; specify both or neither")
    if not general:
        refuse_without("--general", ("general_entities", "max_general_rise"))
    inputs.beside = general
    words, log = inputs.need_table(), use_log(inputs, RescoreReport())
    options = replace(options, acoustic_scale=fitting_acoustic_scale(inputs, options.acoustic_scale))
    words.complete()
    options = with_list_weights(inputs, models, options)
    file = context.context_model
    assert file is not None
    [(lm, options)], old_lm = models.load(options, words, log)
    if old_lm is not None:
        raise OptionError("--old-lm cannot be used to choose the weights of a context model; omit it")
    if not isinstance(lm, LanguageModel):
        raise OptionError("a context model requires exactly one language model; specify --rnnlm once")

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
        others = None
        if general_ref is not None:
            other_context = replace(context, entities=general_set.general_entities or context.entities)
            others = part(inputs.with_names(general).lattices(), general_ref, other_context)
        most = general_set.max_general_rise
        tuned = tune_pointer(contextual, others, lm, options, context.options, most, speakers=speakers)
    for trial in (tuned.before, *tuned.trials):
        current_console().say(str(trial))
    if tuned.chosen is None:
        current_console().say(f"no weights are chosen, and no options are written; {current_console().seconds:.1f} s")
        click.get_current_context().exit(1)
    values: dict[str, Any] = {name: getattr(options, name) for name in CHOSEN}
    values |= {"rnnlm": [str(model) for model in models.models if model is not None]} if any(models.models) else {}
    values |= {"context_model": str(file)}
    values |= {"context_prior": tuned.chosen.prior, "context_weight": tuned.chosen.weight}
    values |= {} if context.class_lm is None else {"class_lm": str(context.class_lm)}
    values |= changed_options(context.options, ("class_boost", "class_weight", "max_tokens", "context_boost"))
    values |= _augmenting(context) | search_options(options, models.load_options)
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
    """Return the word error rate of the output of ``ninja context``, in percent."""
    report = RescoreReport(on_error=lambda error: None)  # errors were already reported when the lattices were read
    scales = Scales(settings.acoustic_scale, word_penalty=settings.word_penalty)
    return word_error_rate(Contextual(context, old_lm)(lattices, report), references, scales)


def _dev_set(
    inputs: Inputs,
    lattices: Iterable[tuple[str, Lattice]],
    references: dict[str, list[str]],
    stage: Contextual,
    old_lm: NgramLM | None,
) -> DevSet:
    """Create a development set; phrases are added to the lattices only once, because they do not depend on boosts."""
    assert stage.entities is not None
    if stage.context.augmentation is not None:
        unboosted = ContextOptions(keyword_boost=0.0)
        augmented = Contextual(Context(stage.entities, None, None, unboosted, stage.context.augmentation), old_lm)
        keyed = ((key, lattice.with_words(stage.words)) for key, lattice in lattices)
        lattices = augmented(keyed, RescoreReport(on_error=inputs.on_failure))
    return DevSet(lattices, references, stage.entities)


def _table(tuned: TunedContext, before: str) -> Iterator[str]:
    """Yield the lines of a table that compares error rates without boosts and with the chosen boosts."""
    yield f"{'':24}contextual WER  general WER  entities found  false alarms"
    rows = {before: tuned.before, "best without entities": tuned.without, "chosen": tuned.after}
    for name, row in rows.items():
        recall = "-" if math.isnan(row.recall) else f"{row.recall:.1f}%"
        yield f"{name:24}{row.contextual_wer:14.2f}  {row.general_wer:11.2f}  {recall:>14}  {row.false_alarms:12}"


def _boosts(settings: ContextSettings, context: Context, old_lm: Any) -> dict[str, Any]:
    """Return the boosts as options of ``ninja context``."""
    models = {"class_lm": context.class_lm, "old_lm": old_lm}
    values: dict[str, Any] = {name: str(path) for name, path in models.items() if path is not None}
    boosts = ("keyword_boost",) if context.class_lm is None else ("keyword_boost", "class_boost", "class_weight")
    values |= {name: getattr(settings.options, name) for name in boosts}
    values |= {"acoustic_scale": settings.acoustic_scale, "word_penalty": settings.word_penalty}
    values |= changed_options(settings.options, ("max_tokens", "unk_penalty", "max_unknown", "map_words"))
    return values | changed_options(context.load_options, ("oov_score",)) | _augmenting(context)


def _augmenting(context: Context) -> dict[str, Any]:
    """Return the options that add phrases to lattices."""
    if context.augmentation is None:
        return {}
    names = [field.name for field in fields(AugmentOptions) if field.name != "acoustic_scale"]
    changed = changed_options(context.augmentation.options, names)
    values = {f"augment_{name}": value for name, value in changed.items()}
    return {"augment": True, **values, **changed_options(context.augmentation, OF_AUGMENTING)}


def search_options(options: RescoreOptions, load_options: LoadOptions) -> dict[str, Any]:
    """Return the options of ``ninja rescore`` that differ from their defaults, except the chosen weights."""
    names = [field.name for field in fields(options) if field.name not in (*CHOSEN, "output", "batch_arcs")]
    return changed_options(options, names) | changed_options(load_options, ("normalize", *WORD_OPTIONS))


def changed_options(options: Any, names: Iterable[str]) -> dict[str, Any]:
    """Return the named options that differ from their defaults."""
    defaults = type(options)()
    values = {name: getattr(options, name) for name in names}
    changed = {name: value for name, value in values.items() if value != getattr(defaults, name)}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in changed.items()}
