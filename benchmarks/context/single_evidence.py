"""Two ways to count the evidence of boosts and of a contextual model once instead of twice, in docs/context.md.

    python -m benchmarks.context single_evidence                       shares of dev, from the stored measurements
    python -m benchmarks.context single_evidence --measure ../shared   measure the missing cells first

Both together add the boost and the gain of a word, see `benchmarks.context.combination`, which has the rule and the
limits. Here the boost of a phrase's word is reduced by its gain, or its gain is only its share among the phrases of
the list. They are compared on dev at the class weight that both together use, for phrases of one word.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, fields
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks.command import command, path_option
from benchmarks.context.bed import LM_WEIGHT, SIZES
from benchmarks.context.combination import BOTH, STORED, Sentences, is_measured, shares, trials, weights
from benchmarks.measure import set_torch_threads
from benchmarks.tables import Cells, head, row, show
from ninja.context.deep.context_lm import NO_PHRASES, ContextLM, ContextMixture
from ninja.context.loader import load_pointer
from ninja.context.settings import DEFAULT_MODEL
from ninja.context.stage import Contextual
from ninja.lattice.symbols import SymbolTable
from ninja.lm import load
from ninja.lm.mixture import MixtureLM
from ninja.lm.protocol import FIRST_MARK
from ninja.lm.word_map import WordMapping
from ninja.rescoring.models import Model

CELLS = Path(__file__).with_name("single_evidence.jsonl")
COMMAND = "python -m benchmarks.context single_evidence --measure ../shared"
REDUCED, NORMALISED = "boosts reduced by the gains", "gains normalised over the list"
CLASS_WEIGHT = 0.25
# Tried on dev of the weights of both together: weights of the gains, and boosts by the length of the list.
CONTEXT_WEIGHTS = (0.5, 0.25, 0.75)
BOOSTS = {100: (8.0, 6.0, 5.0), 1000: (5.0, 6.0, 4.0)}


@dataclass(frozen=True, slots=True)
class SingleMixture(ContextMixture):
    """A language model and a pointer, whose evidence is not added to the boosts of phrases of one word."""

    boost: float | None = None  # boost of phrases, divided by the LM weight; gains are normalised over the list if None

    def over(
        self, words: SymbolTable, unk_penalty: float | None = None, map_words: Collection[WordMapping] = ()
    ) -> ContextLM:
        """See `ContextMixture.over`."""
        return SingleContextLM(self, words, unk_penalty, map_words)


class SingleContextLM(ContextLM):
    """A language model with the gains of a `SingleMixture`.

    reduced      of a phrase's word max(gain, boost) − boost if the gain is positive, so that the lattice's boost
                 and the gain sum to the larger of both
    normalised   of a phrase's word ln(number of phrases · its share of all phrases), else ln of the share of none
    """

    def __init__(self, mixture: SingleMixture, *options: object) -> None:
        super().__init__(mixture, *options)
        self._boost = mixture.boost

    def logprob(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """See `LanguageModel.logprob`."""
        score = MixtureLM.logprob(self, slots, words)
        rows = np.flatnonzero((self._list[slots] != NO_PHRASES) & (words > FIRST_MARK))
        slot, below = slots[rows], score[rows].astype(np.float64)
        outside, single, longer, inside = self._ways(slot, words[rows], below)
        assert not (longer + inside).any(), "phrases have one word"
        with np.errstate(divide="ignore"):
            phrase = np.log(single)
            if self._boost is None:
                num_phrases = np.zeros(len(rows))
                for encoded, of_list in self._by_list(slot):
                    num_phrases[of_list] = encoded.offset  # ln
                share = phrase - np.log(-np.expm1(self._no_phrase[slot]))
                gain = self._gain * np.where(single > 0, share + num_phrases, self._no_phrase[slot])
            else:
                gain = self._gain * (np.logaddexp(outside, phrase) - below)
                gain -= np.where(single > 0, np.clip(gain, 0.0, self._boost), 0.0)
        score[rows] = below + gain
        return score


class SingleContextual(Contextual):
    """The stage that adds context to lattices, with the gains of a `SingleMixture`."""

    is_reduced = True

    def over(self, lm: Model) -> Model:
        """See `Contextual.over`."""
        mixture = super().over(lm)
        assert isinstance(mixture, ContextMixture)
        values = {field.name: getattr(mixture, field.name) for field in fields(ContextMixture)}
        boost = self.context.options.context_boost / LM_WEIGHT if self.is_reduced else None
        return SingleMixture(**values, boost=boost)


class NormalisedContextual(SingleContextual):
    """A mixture whose gains are normalised over the list."""

    is_reduced = False


STAGES = {REDUCED: SingleContextual, NORMALISED: NormalisedContextual}


def candidates(size: int) -> list[tuple[float, float, float]]:
    """Return the weights tried: of the class model, of the gains, and the boost."""
    return list(product((CLASS_WEIGHT,), CONTEXT_WEIGHTS, BOOSTS[size]))


def measure(shared: Path, cells: Cells) -> None:
    """Measure the missing cells of dev."""
    set_torch_threads()
    lm, pointer, sentences = load(None), load_pointer(DEFAULT_MODEL), Sentences(shared, "dev")
    for method, size in product(STAGES, SIZES):
        for trial in (trial for values in candidates(size) for trial in trials("dev", size, method, values)):
            if trial.name not in cells:
                begin = time.process_time()
                rates = sentences.rates(trial, lm, pointer, STAGES[method])
                cells.measured(trial.name, time.process_time() - begin, COMMAND, **rates)


def table(both: Cells, cells: Cells) -> Iterator[str]:
    """Yield the weights of each way that keep the limits in the largest share of replications of dev."""
    yield from head(
        "phrases", "evidence", "weights tried", "`--context-weight`", "`--context-boost`",
        "replications within the limits", "sum of the WERs of dev",
    )  # fmt: skip
    stored = {**both, **cells}
    for size, method in product(SIZES, (BOTH, *STAGES)):
        share = shares(stored, size, method)
        wer = {v: sum(stored[trial.name]["wer"] for trial in trials("dev", size, method, v)) for v in share}
        best = min(share, key=lambda values: (-share[values], wer[values]))
        count = sum(is_measured(stored, size, method, values) for values in weights(size))
        name = "sum" if method == BOTH else method
        yield row(
            f"{size:,}", name, count, f"{best[1]:g}", f"{best[2]:g}", f"{100 * share[best]:.1f}%", f"{wer[best]:.2f}"
        )


@command
@path_option("--measure", "shared", metavar="SHARED", help="Folder with data/, to measure missing cells.")
@path_option("--cells", default=CELLS, help="Stored measurements.")
def main(shared: Path | None, cells: Path) -> None:
    stored = Cells(cells)
    if shared is not None:
        measure(shared, stored)
    show(table(Cells(STORED), stored))
