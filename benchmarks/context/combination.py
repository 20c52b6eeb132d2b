"""A class model, a contextual language model, and both together in read sentences, in docs/context.md.

    python -m benchmarks.context combination                       the tables, from the stored measurements
    python -m benchmarks.context combination --measure ../shared   measure the missing cells first

The folder's data/english is described in `benchmarks.context.bed`, data/real in its README.md. Cells are stored in
combination.jsonl next to this file, each with its date, machine, command and CPU seconds; delete a line to measure it
again. The weights of both together are chosen on dev for each length of list, by one rule for both sets: of the
weights that keep the limits on dev, those that keep them in the largest share of paired bootstrap replications of dev,
and among equals those with the lowest sum of WERs. A replication keeps the limits of `LIMITS` if both its sets do. The
speakers of real are drawn as a whole; the utterances of libri one by one, as its voices are not listed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command import ROOT, command, path_option
from benchmarks.context.bed import LM_WEIGHT, PRIOR, READ, SIZES, Bed, biased_figures, biasing_entities, rescored_words
from benchmarks.context.pointer import BOOST
from benchmarks.measure import set_torch_threads
from benchmarks.tables import Cells, head, put, row
from ninja import read
from ninja.context.augmentation.old_costs import with_unknown
from ninja.context.deep.pointer import ContextPointer
from ninja.context.loader import load_pointer
from ninja.context.options import ContextOptions
from ninja.context.settings import DEFAULT_MODEL, Context
from ninja.context.stage import Contextual
from ninja.evaluate import BiasedRate, read_biasing, read_speakers, read_text, score_biased
from ninja.evaluate.bootstrap import REPLICATIONS, Counts, resample
from ninja.evaluate.paired import paired_difference
from ninja.lm import LanguageModel, load

STORED = Path(__file__).with_name("combination.jsonl")
COMMAND = "python -m benchmarks.context combination --measure ../shared"
PARTS, SETS = ("dev", "test"), ("libri", "real")
RATES = {"WER": "wer", "U-WER": "unbiased", "B-WER": "biased"}
# How much the rates of both together may be above those of the better model of a replication, in percent absolute.
LIMITS = {"unbiased": 0.1, "biased": 0.0}
CLASS_MODEL, CONTEXTUAL, BOTH = "class model", "contextual model", "both"
WITHOUT = "both, without the gains"  # the class model alone with the class weight and boost of both
METHODS = (CLASS_MODEL, CONTEXTUAL, BOTH, WITHOUT)
# Tried on dev: weights of the class model, weights of the gains, and boosts by the length of the list.
CLASS_WEIGHTS, CONTEXT_WEIGHTS = (0.5, 0.0, 0.25), (0.5, 0.75, 0.25, 0.125)
BOOSTS = {100: (4.0, 5.0, 6.0, 3.0, 8.0), 1000: (3.0, 4.0, 5.0, 2.0, 6.0)}


@dataclass(frozen=True, slots=True)
class Trial:
    """A set of sentences, and the models and weights that rescore it."""

    part: str  # dev or test
    sentences: str
    size: int
    method: str
    class_weight: float = 0.0
    context_weight: float = 0.0
    boost: float = 0.0

    @property
    def name(self) -> str:
        """The name of its cell."""
        weights = {
            CLASS_MODEL: "",
            CONTEXTUAL: "",
            WITHOUT: f", {self.class_weight:g}, {self.boost:g}",
        }
        together = f", {self.class_weight:g}, {self.context_weight:g}, {self.boost:g}"
        return f"{self.part}, {self.sentences}, {self.size}, {self.method}{weights.get(self.method, together)}"

    @property
    def words_name(self) -> str:
        """The name of the cell with the number of words of each utterance."""
        return f"{self.part}, {self.sentences}"

    @property
    def options(self) -> ContextOptions:
        """The weights and boosts; those of a model alone were chosen on dev."""
        if self.method == CLASS_MODEL:
            return ContextOptions(keyword_boost=BOOST[self.size])
        if self.method == CONTEXTUAL:
            return ContextOptions(context_prior=PRIOR)
        if self.method == WITHOUT:
            return ContextOptions(class_weight=self.class_weight, keyword_boost=self.boost)
        return ContextOptions(
            context_prior=PRIOR,
            class_weight=self.class_weight,
            context_weight=self.context_weight,
            context_boost=self.boost,
        )


def weights(size: int) -> list[tuple[float, float, float]]:
    """Return the weights tried on dev: of the class model, of the gains, and the boost."""
    return list(product(CLASS_WEIGHTS, CONTEXT_WEIGHTS, BOOSTS[size]))


def trials(part: str, size: int, method: str, model_weights: tuple[float, float, float] = (0, 0, 0)) -> list[Trial]:
    """Return the trials of both sets of sentences."""
    return [Trial(part, sentences, size, method, *model_weights) for sentences in SETS]


def group_counts(cells: Mapping[str, Mapping[str, Any]], trial: Trial, rate: str) -> tuple[Counts, Counts]:
    """Return the words and errors of each speaker or utterance, int64 [groups] each."""
    words = cells[trial.words_name]
    counts = (words[f"{rate}_words"], cells[trial.name][f"{rate}_errors"])
    of_words, errors = (np.bincount(words["group"], count).astype(np.int64) for count in counts)
    return of_words, errors


def within_limits(
    cells: Mapping[str, Mapping[str, Any]], size: int, method: str = BOTH
) -> list[tuple[float, float, float]]:
    """Return the measured weights that keep all limits on dev itself.

    Others keep them in at most about half of the replications, so that their errors by utterance are not needed.
    """
    single_models = [trials("dev", size, method) for method in (CLASS_MODEL, CONTEXTUAL)]
    limits = [
        {rate: min(cells[trial.name][rate] for trial in models) + limit + 1e-9 for rate, limit in LIMITS.items()}
        for models in zip(*single_models, strict=True)
    ]

    def is_within(values: tuple[float, float, float]) -> bool:
        rates = [cells[trial.name] for trial in trials("dev", size, method, values)]
        return all(of_set[rate] <= limit[rate] for of_set, limit in zip(rates, limits, strict=True) for rate in LIMITS)

    return [values for values in weights(size) if is_measured(cells, size, method, values) and is_within(values)]


def is_measured(
    cells: Mapping[str, Mapping[str, Any]], size: int, method: str, values: tuple[float, float, float]
) -> bool:
    """Return whether weights are measured on both sets of dev."""
    return all(trial.name in cells for trial in trials("dev", size, method, values))


def shares(
    cells: Mapping[str, Mapping[str, Any]], size: int, method: str = BOTH
) -> dict[tuple[float, float, float], float]:
    """Return the share of replications of dev with all limits, of the weights that keep them on dev itself."""
    candidates = within_limits(cells, size, method)
    single_models = [trials("dev", size, method) for method in (CLASS_MODEL, CONTEXTUAL)]
    together = [trials("dev", size, method, values) for values in candidates]
    is_within = np.ones((len(candidates), REPLICATIONS), bool)
    for seed, of_set in enumerate(zip(*single_models, *together, strict=True)):
        for rate, limit in LIMITS.items():
            counts = [group_counts(cells, trial, rate) for trial in of_set]
            # The same seed for both rates draws the same groups.
            words, *errors = resample([counts[0][0], *(errors for _, errors in counts)], REPLICATIONS, seed)
            is_within &= np.array(errors[2:]) <= np.minimum(errors[0], errors[1]) + limit / 100 * words + 1e-9
    return dict(zip(candidates, is_within.mean(axis=1).tolist(), strict=True))


def choose(cells: Mapping[str, Mapping[str, Any]], size: int) -> tuple[float, float, float]:
    """Return the weights of both models together by the rule above."""
    share = shares(cells, size)

    def rank(values: tuple[float, float, float]) -> tuple[float, float]:
        return -share[values], sum(cells[trial.name]["wer"] for trial in trials("dev", size, BOTH, values))

    return min(share, key=rank)


class Sentences:
    """The lattices, references and lists of both sets of a part."""

    def __init__(self, shared: Path, part: str) -> None:
        self.bed = Bed(shared / "data/english", part)
        folder = shared / "data/real/pocketsphinx" / part
        self._lattices = {
            "libri": self.bed.lattices["libri"],
            "real": list(read(folder / "lat.ark.gz", words=self.bed.words)),
        }
        self._references = {"libri": self.bed.references["libri"], "real": read_text(folder / "text")}
        self._speakers = read_speakers(folder / "utt2spk")  # of real; the voices of libri are not listed
        self._biasing = {
            "libri": self.bed.biasing,
            "real": {size: read_biasing(folder / f"biasing_{size}.jsonl.gz") for size in SIZES},
        }
        self._entities = {
            (name, size): biasing_entities(lists, self.bed.words)
            for name, sizes in self._biasing.items()
            for size, lists in sizes.items()
        }

    def rates(
        self, trial: Trial, lm: LanguageModel, pointer: ContextPointer, stage: Callable[..., Contextual] = Contextual
    ) -> dict[str, Any]:
        """Return WER, U-WER and B-WER of a trial, and the errors of each utterance; `stage` returns its context."""
        has_class_model = trial.method != CONTEXTUAL
        context = Context(
            self._entities[trial.sentences, trial.size],
            self.bed.class_lm if has_class_model else None,
            options=trial.options,
            context_model=None if trial.method in (CLASS_MODEL, WITHOUT) else pointer,
        )
        old_lm = with_unknown(self.bed.old_lm) if has_class_model else None
        lattices = self._lattices[trial.sentences]
        hypotheses = rescored_words(lattices, lm, stage(context, old_lm, LM_WEIGHT), READ, old_lm)
        utterances = self._scores(trial.sentences, hypotheses)
        return {
            **biased_figures(sum(utterances, BiasedRate())),
            "unbiased_errors": [rate.unbiased.errors for rate in utterances],
            "biased_errors": [rate.biased.errors for rate in utterances],
        }

    def words(self, sentences: str) -> dict[str, list[int]]:
        """Return the number of reference words of each utterance, and the group that is resampled as a whole."""
        utterances = self._scores(sentences, {key: [] for key in self._references[sentences]})
        groups: dict[str, int] = {}
        speakers = (self._speakers.get(key, key) for key in self._references[sentences])
        return {
            "unbiased_words": [rate.unbiased.words for rate in utterances],
            "biased_words": [rate.biased.words for rate in utterances],
            "group": [groups.setdefault(speaker, len(groups)) for speaker in speakers],
        }

    def _scores(self, sentences: str, hypotheses: Mapping[str, Sequence[str]]) -> list[BiasedRate]:
        biasing = self._biasing[sentences][100]
        return [
            score_biased({key: reference}, {key: hypotheses[key]}, biasing)
            for key, reference in self._references[sentences].items()
        ]


def measure(shared: Path, cells: Cells) -> None:
    """Measure the missing cells of dev, then those of test with the chosen weights."""
    set_torch_threads()
    lm, pointer = load(None), load_pointer(DEFAULT_MODEL)

    def add(part: str, planned: Sequence[Trial]) -> None:
        missing = [trial for trial in planned if trial.name not in cells]
        if not missing:
            return
        sentences = Sentences(shared, part)
        for trial in missing:
            if trial.words_name not in cells:
                cells.measured(trial.words_name, 0.0, COMMAND, **sentences.words(trial.sentences))
            begin = time.process_time()
            rates = sentences.rates(trial, lm, pointer)
            cells.measured(trial.name, time.process_time() - begin, COMMAND, **rates)

    single_models = list(product(SIZES, (CLASS_MODEL, CONTEXTUAL)))
    dev = [trial for size, method in single_models for trial in trials("dev", size, method)]
    dev += [trial for size in SIZES for values in weights(size) for trial in trials("dev", size, BOTH, values)]
    add("dev", dev)
    weights_of = {size: choose(cells, size) for size in SIZES}
    for part in PARTS:
        add(
            part,
            [
                trial
                for size, method in product(SIZES, METHODS)
                for trial in trials(part, size, method, weights_of[size])
            ],
        )


def table(cells: Cells, weights_of: Mapping[int, tuple[float, float, float]]) -> Iterator[str]:
    """Yield the error rates of each model and of both together."""
    yield from head("sentences", "phrases", "method", *(f"{part} {rate}" for part in PARTS for rate in RATES))
    for sentences, size, method in product(SETS, SIZES, METHODS):
        rates = [cells[Trial(part, sentences, size, method, *weights_of[size]).name] for part in PARTS]
        figures = (f"{rate[name]:.2f}" for rate in rates for name in RATES.values())
        yield row(sentences, f"{size:,}", method, *figures)


def difference_table(cells: Cells, weights_of: Mapping[int, tuple[float, float, float]]) -> Iterator[str]:
    """Yield the rates of both together less those of the better model, with 95% intervals."""
    limited = {name: rate for name, rate in RATES.items() if rate in LIMITS}
    yield from head("sentences", "phrases", *(f"{part} {name}" for part in PARTS for name in limited))
    for sentences, size in product(SETS, SIZES):
        differences = []
        for part, rate in product(PARTS, limited.values()):
            single_models = [Trial(part, sentences, size, method) for method in (CLASS_MODEL, CONTEXTUAL)]
            better = min(single_models, key=lambda trial: cells[trial.name][rate])
            words, errors = group_counts(cells, better, rate)
            _, both_errors = group_counts(cells, Trial(part, sentences, size, BOTH, *weights_of[size]), rate)
            differences.append(paired_difference(errors, both_errors, words))
        yield row(sentences, f"{size:,}", *differences)


def weight_table(cells: Cells, weights_of: Mapping[int, tuple[float, float, float]]) -> Iterator[str]:
    """Yield the chosen weights, and their share of replications, with the median of all candidates."""
    columns = ("`--class-weight`", "`--context-weight`", "`--context-boost`", "replications within the limits")
    yield from head("phrases", *columns, "weights within the limits on dev", "median of these weights")
    for size, values in weights_of.items():
        share = shares(cells, size)
        median = float(np.median(list(share.values())))
        yield row(
            f"{size:,}",
            *(f"{value:g}" for value in values),
            f"{100 * share[values]:.1f}%",
            f"{len(share)} of {len(weights(size))}",
            f"{100 * median:.1f}%",
        )


@command
@path_option("--measure", "shared", metavar="SHARED", help="Folder with data/, to measure missing cells.")
@path_option("--cells", default=STORED, help="Stored measurements.")
@path_option("--output", default=ROOT / "docs/context.md", metavar="PAGE", help="Page to write the tables to.")
def main(shared: Path | None, cells: Path, output: Path) -> None:
    stored = Cells(cells)
    if shared is not None:
        measure(shared, stored)
    weights_of = {size: choose(stored, size) for size in SIZES}
    put(output, "weights", list(weight_table(stored, weights_of)))
    put(output, "combination", list(table(stored, weights_of)))
    put(output, "differences", list(difference_table(stored, weights_of)))
