"""A class model, a contextual language model, and both together: names found in commands.

    python -m benchmarks.context both ../shared/data/english                table of the page, and with augmentation
    python -m benchmarks.context both ../shared/data/english --set dev      to choose weights

The folder is described in `benchmarks.context.bed`. All lattices are rescored with the shipped language model. Weights
were chosen on dev; figures are of test unless --set says otherwise. Read sentences: `benchmarks.context.combination`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from benchmarks.command import argument, command, option
from benchmarks.context.bed import COMMANDS, PRIOR, SIZES, Bed, Words, rescored_words
from benchmarks.context.tables import BOOST
from benchmarks.measure import set_torch_threads
from benchmarks.tables import head, row, show
from ninja.context.augmentation.old_costs import with_unknown
from ninja.context.augmentation.options import AugmentOptions
from ninja.context.deep.pointer import ContextPointer
from ninja.context.entities.lists import Entities
from ninja.context.loader import load_pointer
from ninja.context.options import ContextOptions
from ninja.context.settings import DEFAULT_MODEL, Augmentation, Context
from ninja.context.stage import Contextual
from ninja.lattice import Lattice
from ninja.lm import LanguageModel, load

# With a contextual model; chosen on dev, without and with augmentation.
CLASS_BOOST, AUGMENTED_CLASS_BOOST = -6.0, 0.0


@dataclass(frozen=True, slots=True)
class Method:
    """The models that a row uses."""

    name: str
    class_lm: bool
    points: bool


METHODS = (
    Method("class model", True, False),
    Method("contextual model", False, True),
    Method("both", True, True),
)


@dataclass(frozen=True, slots=True)
class Models:
    """The models and weights of all rows."""

    bed: Bed
    lm: LanguageModel
    pointer: ContextPointer
    class_boost: float | None  # of both models together, instead of those chosen on dev

    def options(self, method: Method, boost: float, *, augment: bool) -> ContextOptions:
        """Return the boosts and weights of a method for commands."""
        if not method.points:
            return ContextOptions(keyword_boost=boost)
        default = AUGMENTED_CLASS_BOOST if augment else CLASS_BOOST
        return ContextOptions(
            context_prior=PRIOR, class_boost=default if self.class_boost is None else self.class_boost
        )

    def rescored(
        self,
        method: Method,
        lattices: list[tuple[str, Lattice]],
        entities: Entities,
        options: ContextOptions,
        *,
        augment: bool,
    ) -> Words:
        """Return the transcripts of commands by a method."""
        acoustic, _, lm_weight = COMMANDS
        old_lm = with_unknown(self.bed.old_lm) if method.class_lm or augment else None
        context = Context(
            entities,
            self.bed.class_lm if method.class_lm else None,
            options=options,
            augmentation=Augmentation(AugmentOptions(acoustic_scale=acoustic)) if augment else None,
            context_model=self.pointer if method.points else None,
        )
        return rescored_words(lattices, self.lm, Contextual(context, old_lm, lm_weight), COMMANDS, old_lm)


def calls_table(models: Models, *, augment: bool) -> Iterator[str]:
    """Yield the names found in commands, and the errors in general sentences."""
    bed = models.bed
    yield from head(
        "method", "phrases", "found", "new words found", "contextual WER", "general WER", "false alarms", "CPU s"
    )
    for size in SIZES:
        entities = bed.entities(size)
        for method in METHODS:
            start = time.process_time()
            options = models.options(method, BOOST, augment=augment)
            calls, general = (
                models.rescored(method, bed.lattices[name], entities, options, augment=augment)
                for name in ("calls", "general")
            )
            seconds = time.process_time() - start
            cell = bed.command_figures(calls, general, entities)
            yield row(
                f"{method.name}{' + augmentation' if augment else ''}",
                size,
                f"{cell['found']} of {cell['said']}",
                f"{cell['new_found']} of {cell['new_said']}",
                f"{cell['contextual']:.2f}",
                f"{cell['general']:.2f}",
                cell["alarms"],
                f"{seconds:.0f}",
            )


@command
@argument("folder")
@option("--set", "part", default="test", type=click.Choice(["dev", "test"]))
@option("--only", type=click.Choice(["calls", "augmented"]))
@option("--class-boost", type=float)
def main(folder: Path, part: str, only: str | None, class_boost: float | None) -> None:
    set_torch_threads()
    models = Models(Bed(folder, part), load(), load_pointer(DEFAULT_MODEL), class_boost)
    for name, augment in (("calls", False), ("augmented", True)):
        if only in (None, name):
            show(calls_table(models, augment=augment))
            print()
