"""``ninja rescore``."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click

from ninja.cli.config import config
from ninja.cli.context import OF_RESCORING, Addressed, entities, write_words
from ninja.cli.kaldi.mbr_decode import DEFAULT_FRAME_SHIFT
from ninja.cli.models import language_models, map_words
from ninja.cli.options import check_files, from_fields, lattice_output, resume
from ninja.cli.reading import Reading, reads_lattices
from ninja.errors import OptionError
from ninja.lattice import Lattice
from ninja.rescoring.carry_over import CarryOver
from ninja.rescoring.options import RescoreOptions
from ninja.rescoring.report import RescoreReport
from ninja.rescoring.stage import Ensemble, Rescoring

if TYPE_CHECKING:
    from ninja.context.stage import Context, ContextualRescoring
    from ninja.rescoring.vocabulary import Coverage

HELP = {
    "algorithm": "Hypotheses compete on each arc, in each state, or all together (Kaldi's pruned composition).",
    "output": "Expanded lattice, input topology with replaced graph costs, or best path.",
    "backward": "The models read sentences from their end.",
    "lm_weight": "Share of the language model in the graph cost, 0 to 1.",
    "acoustic_scale": "Factor of acoustic costs; 1 for chain models.",
    "word_penalty": "Cost of each word while searching; never written back.",
    "unk_penalty": "Cost of a word the model lacks, beyond <unk>.  [default: ln of how many share it]",
    "max_unknown": "Refuse when a larger share of arcs carries words the model lacks.",
    "max_hyps": "Live hypotheses per arc or state; 0 is unlimited.  [default: 4 per arc, 5 per state]",
    "beam": "Keep hypotheses within this cost of the best; inf keeps all.  [default: 8; pruned 6]",
    "prune_beam": "Drop arcs this far off the first pass's best path.  [default: beam + 2]",
    "merge_order": "Words of history that keep hypotheses apart; 0 is all.  [default: 5]",
    "max_active": "Live hypotheses per lattice and level; 0 is unlimited.",
    "look_ahead": "How the cost still to come is estimated.",
    "max_ngram_order": "pruned: histories equal in their last words, one fewer than this, are one; 0 keeps all apart.",
    "max_arcs": "pruned: expand no more arcs of a lattice once a path is complete.",
    "growth_ratio": "pruned: growth of an expansion between two looks at all its costs.",
    "num_best": "nbest: sentences of each lattice.",
    "min_posterior": "cover: an arc of a higher posterior leads to a copy of its own of the state it enters.",
    "max_trie_nodes": "trie: word prefixes of each lattice; 0: as many as the beam holds.",
    "batch_arcs": "Arcs of lattices in flight at once.",
}


@click.command()
@config
@language_models
@entities(required=False, skip=(*OF_RESCORING, "max_arcs"))
@lattice_output("The rescored lattices")
@from_fields(RescoreOptions, HELP, skip=("map_words",))
@map_words
@click.option("--device", default="cpu", show_default=True, help="Where the model computes: cpu, cuda, cuda:1, …")
@click.option(
    "--frame-shift",
    type=float,
    help="Seconds of a frame, for the summary.  [default: as the lattices say, else 0.01]",
)
@resume
@reads_lattices
def rescore(
    reading: Reading,
    models: Ensemble,
    carry_over: CarryOver | None,
    context: Context | None,
    output_file: str,
    device: str,
    frame_shift: float | None,
    resume: bool,
    **chosen: Any,
) -> None:
    """Rescore lattices with language models.

    With --entities, phrases that matter to an utterance are made more probable in the same run, see `ninja context`;
    --class-lm is mixed with --old-lm, where that is given. Without --words, words.txt or words.txt.gz beside SOURCE is
    taken. Without -o the rescored lattices go to stdout as a binary archive; if that is a terminal, the best word
    sequences are printed instead.

    \b
    Example:
      ninja rescore lat.ark.gz --rnnlm model.pt --words words.txt -o rescored.ark.gz
    """
    options = RescoreOptions(**chosen)
    if models.directions and options.backward:
        raise OptionError("--iterate says how each model reads; leave --backward out")
    if carry_over is not None and (reading.jobs > 1 or resume):
        raise OptionError("--carry-over needs all lattices in their order: leave --jobs and --resume out")
    if frame_shift is not None and not frame_shift > 0:
        raise OptionError(f"frame_shift is {frame_shift}, but must be above 0")
    words = reading.need_table()
    if carry_over is not None and carry_over.recording is None:
        reading.say("neither --utt2spk nor --segments: all lattices are taken for one recording, one after the other")

    def cover(coverage: Coverage) -> None:
        reading.say(f"vocabulary: {coverage}")

    stage: Rescoring | ContextualRescoring
    stage = rescoring = Rescoring(
        models,
        options,
        device,
        carry_over,
        on_coverage=cover,
        on_note=reading.say,
    )
    addressed: Addressed | None = None
    if context is not None:
        from ninja.context.stage import ContextualRescoring
        from ninja.io.targets import target

        read = [reading.words, context.entities, context.groups, context.class_lm, models.old_lm]
        check_files([target(output_file).archive, reading.output.words_out], [*reading.source, *read])
        stage = ContextualRescoring.of(context, rescoring, options, reading.say, cover)
        stage.contextual.bind(words)
        addressed = Addressed(stage.contextual)
    report = RescoreReport()
    shifts: set[float | None] = set()

    def take(lattice: Lattice) -> None:
        shifts.add(lattice.frame_shift)
        if addressed is not None:
            addressed.count(lattice)

    def count(part: RescoreReport) -> None:
        if reading.jobs > 1:
            for coverage in () if report.coverages else part.coverages:
                cover(coverage)
            for note in part.notes:
                if note not in report.notes:  # another worker's
                    reading.say(note)
                    report.notes.append(note)
        _add(report, part)

    if output_file == "-" and sys.stdout.isatty():
        results = reading.results(stage, True, (), options.batch_arcs, count)
        for key, lattice in results:
            take(lattice)
            click.echo(" ".join([key, *_best_words(lattice, options)]))
    else:
        reading.write(output_file, stage, resume=resume, batch_arcs=options.batch_arcs, on_batch=count, on_result=take)
    if addressed is not None:
        write_words(reading.output.words_out, addressed.stage)
        reading.say(str(addressed))
    shift = frame_shift or next((each for each in shifts if each is not None), DEFAULT_FRAME_SHIFT)
    spent, audio = reading.seconds, report.frames * shift
    steps = f"{report.calls} LM steps of {report.scores} scores"
    sound = f", {audio:.0f} s of audio (real-time factor {spent / audio:.4f})" if audio else ""
    reading.close(
        f"{report.lattices} lattices, {report.arcs} arcs ({report.expanded_arcs} expanded), {report.histories} "
        f"histories, {steps}, {spent:.1f} s ({report.lm_seconds:.1f} s in the LM){sound}"
    )


def _add(total: RescoreReport, part: RescoreReport) -> None:
    """Count a batch's report into the total."""
    total.coverages = total.coverages or part.coverages
    for field in fields(part):
        value = getattr(part, field.name)
        if isinstance(value, int | float):
            setattr(total, field.name, getattr(total, field.name) + value)


def _best_words(lattice: Lattice, options: RescoreOptions) -> Iterable[str]:
    from ninja.graph import best_path

    path = best_path(lattice, options.acoustic_scale, 1.0, options.word_penalty)
    return lattice.words.spell(path.words) if lattice.words else map(str, path.words)
