"""Rescoring as a stage of the pipeline: models by their files, so that every process can load them for itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal

from ninja.errors import ModelError, NinjaError, OptionError
from ninja.lattice.symbols import SymbolTable
from ninja.lm import LanguageModel, Mixture, load
from ninja.lm.mixture import How
from ninja.rescoring.carry_over import CarryOver
from ninja.rescoring.iterate import Pass, iterate
from ninja.rescoring.options import RescoreOptions
from ninja.rescoring.report import RescoreReport
from ninja.rescoring.run import Keyed
from ninja.rescoring.vocabulary import Coverage

Direction = Literal["forward", "backward"]


@dataclass(frozen=True, slots=True)
class Ensemble:
    """The language models of a rescoring, by their files.

    Without `directions` the models mix in one pass. With them, each rescores what the one before it left, and its
    weight is the LM weight of its pass.
    """

    models: Sequence[str | os.PathLike[str] | None] = (None,)  # what ninja.lm.load takes; none at all: only the old LM
    old_lm: str | os.PathLike[str] | None = None
    mixture: How = "loglinear"
    weights: Sequence[float] = ()  # of the models; not given: equal, or the LM weight for each pass
    directions: Sequence[Direction] = ()  # how each model reads sentences

    def __post_init__(self) -> None:
        """Refuse numbers that do not match.

        Raises:
            OptionError: Names them.
        """
        for name, values in (("weights", self.weights), ("directions", self.directions)):
            if values and len(values) != len(self.models):
                raise OptionError(f"{len(values)} {name} for {len(self.models)} language models")

    def passes(
        self,
        device: str,
        options: RescoreOptions,
        words: SymbolTable | None,
        on_note: Callable[[str], None],
        old_lm: LanguageModel | None = None,
    ) -> tuple[list[Pass], LanguageModel | None]:
        """Load the models; return what is to be done with each, and the old one.

        Args:
            device: Where they compute.
            options: Of every pass, as far as `weights` and `directions` do not say otherwise.
            words: The lattices' symbol table, for models that have no words of their own.
            on_note: Called when that is what happened.
            old_lm: The old one, where it is loaded already.

        Raises:
            NinjaError: A model cannot be loaded, or a weight is out of range.
        """
        loaded = [load_for(model, device, words, on_note) for model in self.models]
        if old_lm is None and self.old_lm is not None:
            old_lm = load_for(self.old_lm, device, words, on_note)
        if self.directions:
            last = len(loaded) - 1
            weights = self.weights or [options.lm_weight] * len(loaded)
            between = "lattice" if options.output == "best" else options.output
            return [
                (
                    lm,
                    replace(
                        options,
                        lm_weight=weights[place],
                        backward=self.directions[place] == "backward",
                        output=options.output if place == last else between,
                    ),
                )
                for place, lm in enumerate(loaded)
            ], old_lm
        if len(loaded) > 1:
            weights = self.weights or [1 / len(loaded)] * len(loaded)
            names = [str(model or "the shipped model") for model in self.models]
            return [(Mixture(tuple(zip(loaded, weights, strict=True)), self.mixture, names), options)], old_lm
        return [(loaded[0] if loaded else None, options)], old_lm


def load_for(
    path: str | os.PathLike[str] | None, device: str, words: SymbolTable | None, on_note: Callable[[str], None]
) -> LanguageModel:
    """Load a model; one that lacks words of its own takes those of the lattices, never instead of its own."""
    try:
        return load(path, device)
    except (ModelError, OptionError) as error:
        try:
            lm = load(path, device, words=words)
        except (ModelError, OptionError) as other:
            # Either it was not for want of words, or with words something else is wrong.
            raise (other if isinstance(error, OptionError) else error) from None
        on_note(f"{path}: the words are those of the lattices' symbol table")
        return lm


class Rescoring:
    """The stage that rescores lattices with language models, which each process loads for itself.

    Args:
        model: A language model for ``ninja.lm.load`` (None is the shipped one), or several.
        options: As for ``ninja.rescore``.
        device: Where the models compute: ``cpu``, ``cuda``, ``cuda:1``, …
        carry_over: As for ``ninja.rescore``; in one process only, which sees all lattices.
        on_coverage: Called with how well each model knows the first words; in this process only.
        on_note: As for ``ninja.rescore``; in this process only.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | Ensemble | None = None,
        options: RescoreOptions | None = None,
        device: str = "cpu",
        carry_over: CarryOver | None = None,
        on_coverage: Callable[[Coverage], None] | None = None,
        on_note: Callable[[str], None] | None = None,
    ) -> None:
        self.models = model if isinstance(model, Ensemble) else Ensemble((model,))
        self.device = device
        self.on_coverage = on_coverage
        self.on_note = on_note
        self._options = options
        self._carry_over = carry_over
        self._passes: list[Pass] = []
        self.old_lm: LanguageModel | None = None  # once it is loaded; by another stage, perhaps
        self._reports: list[RescoreReport] = []

    @property
    def report(self) -> RescoreReport | None:
        """What the last call came to so far."""
        return RescoreReport.of_passes(self._reports) if self._reports else None

    def __call__(self, lattices: Iterable[Keyed], on_error: Callable[[NinjaError], None] | None) -> Iterator[Keyed]:
        """Yield the rescored lattices."""
        lattices = iter(lattices)
        first = next(lattices, None)
        if first is None:
            return iter(())
        lattices = chain([first], lattices)
        notes: list[str] = []
        if not self._passes:
            options = self._options or RescoreOptions()
            passes, self.old_lm = self.models.passes(self.device, options, first[1].words, notes.append, self.old_lm)
            # Of a worker's later batches: whether the vocabularies fit was asked of the first.
            self._passes = [(lm, replace(options, max_unknown=1.0)) for lm, options in passes]
        else:
            passes = self._passes
        self._reports = [RescoreReport() for _ in passes]
        self._reports[0].notes += notes
        if self.on_note is not None:
            for note in notes:
                self.on_note(note)
        return iterate(
            lattices,
            passes,
            old_lm=self.old_lm,
            carry_over=self._carry_over,
            on_error=on_error,
            on_coverage=self.on_coverage,
            on_note=self.on_note,
            reports=self._reports,
        )

    def __reduce__(self) -> tuple[object, ...]:
        if self._carry_over is not None:
            raise OptionError("context cannot be carried over from one worker process to another; use one process")
        return Rescoring, (self.models, self._options, self.device)
