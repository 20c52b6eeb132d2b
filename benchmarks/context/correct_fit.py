"""Estimate the weights and the threshold of corrections on development sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from zlib import crc32

import numpy as np
import numpy.typing as npt
import torch

from benchmarks.context.correct_cases import Case, cases, is_in
from ninja.context.correction.corrector import Corrector
from ninja.context.correction.decision import Decision, overlaps
from ninja.context.correction.evidence import FEATURES
from ninja.evaluate import align
from ninja.tune.false_corrections import choose_threshold

FOLDS = 5
NEAREST = 20  # candidates of an utterance that take part in the estimate, by distance
PENALTY = 0.003  # of the squares of the standardised weights
MAX_RATE = 0.01
UNKNOWN = [FEATURES.index(name) for name in ("doubt", "has_confidence")]
ORIGIN = (
    "dev sets of the English test-bed (calls, general, libri) and of real speech (Whisper, PocketSphinx), with lists "
    "of 100 to 5,000 phrases; the threshold from lists of 100 phrases without the spoken ones, by cross-validation"
)


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """The candidates of an utterance."""

    case: Case
    features: npt.NDArray[np.float64]
    spans: list[tuple[int, int]]
    is_right: npt.NDArray[np.bool_]  # whether each candidate removes errors, and is spoken


def example(corrector: Corrector, case: Case) -> Example:
    """Return the labelled candidates of an utterance."""
    transcript = corrector.transcript(case.words, case.confidences)
    found = corrector.candidates(transcript, case.lists)
    reference, words = corrector.normalizer.words(case.reference), transcript.lexical
    errors = num_errors(reference, words)
    right = []
    for match in found.matches:
        phrase = match.variant.text.split(" ")
        corrected = [*words[: match.begin], *phrase, *words[match.end :]]
        right.append(is_in(phrase, reference) and num_errors(reference, corrected) < errors)
    order = np.sort(np.argsort(found.features[:, 0], kind="stable")[:NEAREST])
    spans = [found.spans[number] for number in order.tolist()]
    return Example(case, found.features[order], spans, np.array(right, np.bool_)[order])


def num_errors(reference: Sequence[str], words: Sequence[str]) -> int:
    """Return the number of word errors."""
    return sum(first != second for first, second in align(reference, words).pairs)


def estimate(examples: Sequence[Example]) -> Decision:
    """Return the weights of greatest likelihood; utterances with confidences count once with and once without."""
    both = [variant for one in examples if one.spans for variant in _variants(one)]
    count, longest = len(both), max(len(one.spans) for one in both)
    features = torch.zeros(count, longest, len(FEATURES), dtype=torch.float64)
    right, present = torch.zeros(count, longest), torch.zeros(count, longest, dtype=torch.bool)
    overlap = torch.zeros(count, longest, longest, dtype=torch.bool)
    for row, one in enumerate(both):
        size = len(one.spans)
        features[row, :size] = torch.from_numpy(one.features)
        right[row, :size] = torch.from_numpy(one.is_right).float()
        overlap[row, :size, :size] = torch.from_numpy(overlaps(one.spans))
        present[row, :size] = True
    mean, deviation = features[present].mean(0), features[present].std(0) + 1e-6
    standard = (features - mean) / deviation
    weights = torch.zeros(len(FEATURES), dtype=torch.float64, requires_grad=True)
    bias = torch.tensor(-3.0, dtype=torch.float64, requires_grad=True)
    search = torch.optim.LBFGS([weights, bias], max_iter=200, line_search_fn="strong_wolfe")
    none = torch.tensor(-1e9, dtype=torch.float64)

    def loss() -> torch.Tensor:
        score = torch.where(present, standard @ weights + bias, none)  # [utterances, candidates]
        rivals = torch.where(overlap, score[:, None, :], none)
        total = torch.logsumexp(torch.cat([rivals, torch.zeros_like(score)[..., None]], -1), -1)
        log_probability = (score - total).clamp(max=-1e-6)
        terms = right * log_probability + (1 - right) * torch.log1p(-log_probability.exp())
        return -(terms * present).sum() / count + PENALTY * (weights**2).sum()

    def step() -> torch.Tensor:
        search.zero_grad()
        value = loss()
        value.backward()
        return value

    search.step(step)
    scaled = (weights / deviation).detach().numpy()
    return Decision(scaled, float(bias.detach()) - float(scaled @ mean.numpy()), 0.5, ORIGIN)


def fit(corrector: Corrector, english: Path, real: Path) -> tuple[Decision, str]:
    """Return the decision for the shipped file, and a line about its threshold."""
    examples: list[Example] = []
    for case in cases(english, real, "dev", (100, 1000, 5000)):
        if case.size > 100 and case.bed not in ("calls", "general"):
            continue
        examples.append(example(corrector, case))
        other = case.without_spoken() if case.spoken and case.size < 5000 else None
        if other is not None and other.lists:
            examples.append(example(corrector, other))
    fold = [crc32(f"{one.case.bed} {one.case.key}".encode()) % FOLDS for one in examples]
    scores = []
    for number in range(FOLDS):
        decision = estimate([one for one, part in zip(examples, fold, strict=True) if part != number])
        for one, part in zip(examples, fold, strict=True):
            if part == number and not one.case.spoken and one.case.size == 100:
                probability = decision.probabilities(one.features, one.spans) if one.spans else np.zeros(1)
                scores.append(float(probability.max()))
    bound = choose_threshold(scores, MAX_RATE)
    assert bound is not None, "no threshold bounds the rate"
    story = f"threshold {bound.threshold}: {bound.changed} of {bound.utterances} utterances changed, at most "
    return replace(estimate(examples), threshold=bound.threshold), f"{story}{bound.upper:.4f} with 95 % confidence"


def _variants(one: Example) -> list[Example]:
    if one.case.confidences is None:
        return [one]
    features = one.features.copy()
    features[:, UNKNOWN] = 0
    return [one, replace(one, features=features)]
