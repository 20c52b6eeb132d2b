"""``ninja tune``."""

from __future__ import annotations

import shlex
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import click

from ninja.cli.config import write_config
from ninja.cli.context import AUGMENT_HELP, OF_AUGMENTING, OF_RESCORING, entities
from ninja.cli.context import HELP as CONTEXT_HELP
from ninja.cli.models import language_models, map_words
from ninja.cli.options import command, from_fields, output_file, section, typed
from ninja.cli.source import Source, reads_lattices
from ninja.errors import OptionError
from ninja.evaluate import read_text
from ninja.rescoring.carry_over import CarryOver
from ninja.rescoring.models import ModelFiles
from ninja.rescoring.options import RescoreOptions
from ninja.rescoring.report import RescoreReport

if TYPE_CHECKING:
    from ninja.context.stage import Context
    from ninja.tune.weights import Tuned

CHOSEN = ("lm_weight", "acoustic_scale", "word_penalty")
OF_BOTH = {"source", "ref", "output_file", "old_lm", "acoustic_scale", "word_penalty", *OF_RESCORING, "map_words"}
OF_BOTH |= {"words", "jobs", "on_error", "allow_pipes"}
SKIPPED = (*OF_RESCORING, "max_arcs")  # which mean the same in a rescoring, or nearly so
OF_CONTEXT = {"entities", "utt2group", "class_lm", *CONTEXT_HELP} - {*SKIPPED}
OF_CONTEXT |= {"augment", *OF_AUGMENTING, *(f"augment_{name}" for name in AUGMENT_HELP)}
OF_CONTEXT |= {"general", "general_ref", "general_entities", "max_general_rise", "margin", "curve"}
DIGITS = 4


@command
@click.option("--ref", required=True, metavar="FILE", help="Reference transcripts: a key and its words on each line.")
@click.option(
    "--num-sentences",
    type=click.IntRange(1),
    default=300,
    help="Best sentences of each rescored lattice to choose from.",
)
@language_models
@map_words
@from_fields(RescoreOptions, skip=("map_words", "output"))
@entities(required=False, skip=SKIPPED)
@section(
    "Tuning of context",
    click.option(
        "--general",
        metavar="SOURCE",
        multiple=True,
        help="With --entities: lattices of utterances in which none of their phrases is said.",
    ),
    click.option("--general-ref", metavar="FILE", help="With --entities: reference transcripts of these."),
    click.option("--general-entities", metavar="FILE", help="Phrases of these.  [default: --entities]"),
    click.option("--max-general-rise", default=0.2, help="How far context may raise their WER, percent absolute."),
    click.option(
        "--margin", default=1.0, help="Nats by which the keyword boost could be larger without it rising further."
    ),
    click.option("--curve", metavar="FILE", help="Picture of what keyword boosts give and cost, .svg or .png."),
)
@output_file("File for the options, which `ninja rescore --config` or `ninja context --config` takes")
@reads_lattices
def tune(
    source: Source,
    ref: str,
    models: ModelFiles,
    carry_over: CarryOver | None,
    context: Context | None,
    general: tuple[str, ...],
    general_ref: str | None,
    general_entities: str | None,
    max_general_rise: float,
    margin: float,
    curve: str | None,
    output_file: str,
    num_sentences: int,
    **chosen: Any,
) -> None:
    """Choose the weights of a rescoring on a development set.

    SOURCE and --ref are a set that no results are reported on. It is rescored once, with the weights given; then those
    are sought under which the best of its sentences have the fewest errors.

    With --entities the boosts of `ninja context` are chosen instead: for the fewest errors in SOURCE, where phrases are
    said, of all that hardly raise WER in --general, where none are.

    \b
    Examples:
      ninja tune dev.ark.gz --ref dev.text --rnnlm model.pt --words words.txt -o weights.toml
      ninja rescore --config weights.toml test.ark.gz --words words.txt -o rescored.ark.gz
      ninja tune calls.ark.gz --ref calls.text --entities names.jsonl --general talk.ark.gz --general-ref talk.text
    """
    from ninja.cli.tune_context import General, tune_boosts
    from ninja.tune.weights import tune_weights

    options = RescoreOptions(**chosen)
    _refuse_others(context)
    if context is not None:
        shared = {name: getattr(options, name) for name in (*OF_RESCORING, "map_words")}
        context = replace(context, options=replace(context.options, **shared))
        apart = General(general, general_ref, general_entities, max_general_rise, margin)
        tune_boosts(source, ref, context, models.old_lm, options, apart, curve, output_file)
        return
    if models.directions or carry_over is not None:
        raise OptionError("weights are chosen for one pass over single utterances: no --iterate, no --carry-over")
    if source.jobs > 1:
        raise OptionError("one process tunes; leave --jobs out")
    if not models.models:
        raise OptionError("there is no language model whose weight could be chosen; give one with --rnnlm")
    references = read_text(ref)
    log = source.console.use_log(RescoreReport())
    [(lm, options)], old_lm = models.load(options, source.need_table(), log)
    assert lm is not None
    tuned = tune_weights(
        source.lattices(),
        references,
        lm,
        options,
        old_lm=old_lm,
        num_best=num_sentences,
        report=log,
    )
    story = (
        f"WER {tuned.wer_first_pass:.2f} before rescoring, {tuned.wer_before:.2f} with the weights given, "
        f"{tuned.wer:.2f} with these; {tuned.wer_oracle:.2f} is the least there is"
    )
    basis = f"{tuned.num_sentences} sentences of {tuned.num_lattices} lattices"
    write_config(output_file, _values(tuned, models, options), [*_origin(source, ref), f"{story} ({basis})"])
    for edge in tuned.edges:
        source.console.say(f"note: {edge}")
    weights = tuned.weights
    mixed = f", mixture {','.join(f'{share:.3g}' for share in weights.mixture)}" if len(weights.mixture) > 1 else ""
    source.console.close(
        f"{story}: LM weight {weights.lm_weight:.3g}, acoustic scale {weights.acoustic_scale:.3g}, word penalty "
        f"{weights.word_penalty:.3g}{mixed}; {basis}, {source.console.seconds:.1f} s"
    )


def _refuse_others(context: Context | None) -> None:
    """Refuse what was typed and belongs to what is not chosen now."""
    if context is None and (wrong := typed(OF_CONTEXT)):
        raise OptionError(f"{', '.join(wrong)}: of use with --entities only")
    others = {each.name or "" for each in click.get_current_context().command.params} - OF_CONTEXT - OF_BOTH
    if context is not None and (wrong := typed(others)):
        raise OptionError(f"with --entities boosts are chosen, no weights of a rescoring: leave {', '.join(wrong)} out")


def _origin(source: Source, ref: str) -> list[str]:
    return [f"ninja tune {shlex.join(source.places)} --ref {shlex.quote(ref)}"]


def _values(tuned: Tuned, models: ModelFiles, options: RescoreOptions) -> dict[str, Any]:
    """Return the options of ``ninja rescore`` that say the same."""
    weights = tuned.weights
    values: dict[str, Any] = {name: round(getattr(weights, name), DIGITS) for name in CHOSEN}
    used = [place for place, share in enumerate(weights.mixture) if share > 0]
    named = [str(models.models[place]) for place in used if models.models[place] is not None]
    if named:
        values["rnnlm"] = named
    if len(used) > 1:
        values["mixture"] = models.mixture
        shares = [round(weights.mixture[place], DIGITS) for place in used]
        shares[-1] = round(1 - sum(shares[:-1]), DIGITS)
        values["mixture_weights"] = ",".join(f"{share:g}" for share in shares)
    if models.old_lm is not None:
        values["old_lm"] = str(models.old_lm)
    # Whatever else was asked for belongs to the weights: with another search they would not be the best.
    plain = RescoreOptions()
    for field in fields(options):
        value = getattr(options, field.name)
        if field.name not in (*CHOSEN, "output", "batch_arcs") and value != getattr(plain, field.name):
            values[field.name] = list(value) if isinstance(value, tuple) else value
    return values
