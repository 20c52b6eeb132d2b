"""``ninja tune --entities``: choosing boosts."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import click

from ninja.cli.config import write_config
from ninja.cli.context import OF_AUGMENTING
from ninja.cli.source import Source
from ninja.context.entities.lists import Entities
from ninja.context.options import ContextOptions
from ninja.context.sound.augment import AugmentOptions
from ninja.context.sound.old_costs import with_unknown
from ninja.context.stage import Augmentation, Context, Contextual, load_ngram
from ninja.errors import OptionError
from ninja.evaluate import read_text
from ninja.lattice.symbols import SymbolTable
from ninja.lm.ngram.model import NgramLM
from ninja.rescoring.engine import Keyed
from ninja.rescoring.options import RescoreOptions
from ninja.rescoring.report import RescoreReport
from ninja.tune.boosts import ContextSettings, TunedContext, tune_context
from ninja.tune.plot import check_picture, plot_trade_off
from ninja.tune.trials import DevSet

Name = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class General:
    """The set in which no phrases are said, as it was given."""

    source: tuple[str, ...]
    ref: str | None
    entities: str | None
    max_rise: float
    margin: float


def tune_boosts(
    source: Source,
    ref: str,
    context: Context,
    old_lm: Name | None,
    options: RescoreOptions,
    general: General,
    curve: str | None,
    output_file: str,
) -> None:
    """Choose boosts, and tell about it.

    Args:
        source: The contextual set.
        ref: File of what was said there.
        context: Phrases, models and augmentation.
        old_lm: File of the first pass's model.
        options: Those of a rescoring, of which scale and word penalty are taken.
        general: The general set.
        curve: File for the picture of the trade-off.
        output_file: File for what is chosen.

    Raises:
        OptionError: Options that do not go together.
        NinjaError: As `tune_context`.
    """
    if not general.source or general.ref is None:
        raise OptionError(
            "--entities needs --general and --general-ref, utterances in which no phrase is said: without them the "
            "largest boosts always look best"
        )
    if context.class_lm is None and context.augmentation is None and old_lm is not None:
        raise OptionError("--old-lm is what --class-lm is mixed with; give both, or none")
    if source.jobs > 1:
        raise OptionError("one process tunes; leave --jobs out")
    if curve is not None:
        check_picture(curve)
    source.beside = general.source
    words = source.need_table()
    said, said_in_general = read_text(ref), read_text(general.ref)
    old = None if old_lm is None else load_ngram(old_lm, words, source.console.log)
    files = of_general = _bound(context, words, source)
    if general.entities is not None:
        of_general = _bound(replace(context, entities=general.entities), files.words, source)
    mixed = old if files.class_lm is not None else None
    if mixed is not None and context.augmentation is not None:
        mixed = with_unknown(mixed)  # as `Contextual` does
    tuned = tune_context(
        DevSet(_lattices(source, files, old), said, files.entities),
        DevSet(
            _lattices(replace(source, places=general.source), of_general, old), said_in_general, of_general.entities
        ),
        of_general.words,
        files.class_lm,
        context.options,
        old_lm=mixed,
        acoustic_scale=options.acoustic_scale,
        word_penalty=options.word_penalty,
        max_general_rise=general.max_rise,
        margin=general.margin,
        fixed=() if context.augmentation is None else ("acoustic_scale",),
        log=source.console.log,
    )
    if curve is not None:
        plot_trade_off(curve, tuned)
    for note in (*tuned.edges, *tuned.warnings):
        source.console.say(f"note: {note}")
    told = list(_table(tuned, "no context" if context.augmentation is None else "no context, but added"))
    for line in told:
        source.console.say(line)
    if tuned.settings is None:
        source.console.say(f"no boosts are chosen, and no options written; {source.console.seconds:.1f} s")
        click.get_current_context().exit(1)
    values = _values(tuned.settings, context, old_lm)
    asked = ["ninja", "tune", *source.places, "--ref", ref, "--entities", str(context.entities)]
    asked += [part for source in general.source for part in ("--general", source)]
    write_config(output_file, values, [shlex.join([*asked, "--general-ref", general.ref]), *told, *tuned.warnings])
    typed = shlex.join(
        option if value is True else f"{option}={value}"
        for option, given in ((f"--{name.replace('_', '-')}", given) for name, given in values.items())
        for value in (given if isinstance(given, list) else [given])
    )
    source.console.close(f"ninja context LATTICES --entities FILE {typed}; {source.console.seconds:.1f} s")


@dataclass(frozen=True, slots=True)
class _Files:
    """What the files of a context hold."""

    entities: Entities
    class_lm: NgramLM | None
    augmentation: Augmentation | None
    known: SymbolTable  # words of the lattices
    words: SymbolTable  # those of the phrases, too, where these are to be added


def _bound(context: Context, words: SymbolTable, source: Source) -> _Files:
    """Read the files of a context, and say what is odd about them."""
    stage = Contextual(context)
    stage.bind(words, source.console.log)
    assert stage.entities is not None
    assert stage.tracker is not None
    return _Files(stage.entities, stage.tracker.class_lm, context.augmentation, words, stage.tracker.words)


def _lattices(source: Source, files: _Files, old_lm: NgramLM | None) -> Iterator[Keyed]:
    """Read lattices, and add phrases to them where that is wanted: once, for boosts mean nothing to it."""
    if files.augmentation is None:
        yield from source.lattices()
        return
    unboosted = Context(files.entities, options=ContextOptions(keyword_boost=0.0), augmentation=files.augmentation)
    augmented = Contextual(unboosted, old_lm)
    lattices = ((key, lattice.with_words(files.known)) for key, lattice in source.lattices())
    yield from augmented(lattices, RescoreReport(on_error=source.on_failure))


def _table(tuned: TunedContext, before: str) -> Iterator[str]:
    """Tell the figures without boosts, and with what was chosen."""
    yield f"{'':24}contextual WER  general WER  entities found  false alarms"
    rows = {before: tuned.before, "best without entities": tuned.without, "chosen": tuned.after}
    for name, row in rows.items():
        recall = "-" if math.isnan(row.recall) else f"{row.recall:.1f} %"
        yield f"{name:24}{row.contextual_wer:14.2f}  {row.general_wer:11.2f}  {recall:>14}  {row.false_alarms:12}"


def _values(settings: ContextSettings, context: Context, old_lm: Name | None) -> dict[str, Any]:
    """Return the options of ``ninja context`` that say the same."""
    models = {"class_lm": context.class_lm, "old_lm": old_lm}
    values: dict[str, Any] = {name: str(path) for name, path in models.items() if path is not None}
    boosts = ("keyword_boost",) if context.class_lm is None else ("keyword_boost", "class_boost", "class_weight")
    values |= {name: getattr(settings.options, name) for name in boosts}
    values |= {"acoustic_scale": settings.acoustic_scale, "word_penalty": settings.word_penalty}
    values |= _changed(settings.options, ("max_tokens", "unk_penalty", "max_unknown"))
    if settings.options.map_words:
        values["map_words"] = list(settings.options.map_words)
    if context.augmentation is not None:
        values["augment"] = True
        names = [field.name for field in fields(AugmentOptions) if field.name != "acoustic_scale"]
        changed = _changed(context.augmentation.options, names)
        values |= {f"augment_{name}": value for name, value in changed.items()}
        given = {name: getattr(context.augmentation, name) for name in OF_AUGMENTING}
        values |= {name: str(path) for name, path in given.items() if path is not None}
    return values


def _changed(options: Any, names: Iterable[str]) -> dict[str, Any]:
    """Return the options that are not at their defaults."""
    plain = type(options)()
    found = {name: getattr(options, name) for name in names}
    return {name: value for name, value in found.items() if value != getattr(plain, name)}
