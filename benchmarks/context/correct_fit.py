"""Estimate the weights and the threshold of corrections on development sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from zlib import crc32

import numpy as np
import numpy.typing as npt
import torch

from benchmarks.context.correct_cases import Case, UnspokenNames, cases, is_in
from ninja.context.correction.corrector import Corrector
from ninja.context.correction.decision import Decision, overlaps
from ninja.context.correction.evidence import FEATURES
from ninja.evaluate import edits
from ninja.tune.false_corrections import choose_threshold

FOLDS = 5
NEAREST = 20  # candidates of an utterance that take part in the estimate, by distance
PENALTY = 0.02  # of the squares of the standardised weights
MAX_RATE = 0.01
UNKNOWN = [FEATURES.index(name) for name in ("doubt", "has_confidence")]
ORIGIN = (
    "dev sets of the English test-bed and of real speech (Whisper, PocketSphinx), with lists of 100 to 5,000 names and "
    "of 100 rare words; the thresholds from lists of 100 names, none of them spoken, by cross-validation"
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
    candidates = corrector.candidates(transcript, case.lists)
    reference, words = corrector.normalizer.words(case.reference), transcript.lexical
    errors = edits(reference, words)
    right = []
    for match in candidates.matches:
        phrase = match.variant.text.split(" ")
        corrected = [*words[: match.begin], *phrase, *words[match.end :]]
        right.append(is_in(phrase, reference) and edits(reference, corrected) < errors)
    order = np.sort(np.argsort(candidates.features[:, 0], kind="stable")[:NEAREST])
    spans = [candidates.spans[number] for number in order.tolist()]
    return Example(case, candidates.features[order], spans, np.array(right, np.bool_)[order])


def estimate(examples: Sequence[Example]) -> Decision:
    """Return the weights of greatest likelihood; utterances with confidences count once with and once without."""
    variants = [variant for example in examples if example.spans for variant in _variants(example)]
    count, longest = len(variants), max(len(variant.spans) for variant in variants)
    features = torch.zeros(count, longest, len(FEATURES), dtype=torch.float64)
    right, present = torch.zeros(count, longest), torch.zeros(count, longest, dtype=torch.bool)
    overlap = torch.zeros(count, longest, longest, dtype=torch.bool)
    for row, variant in enumerate(variants):
        size = len(variant.spans)
        features[row, :size] = torch.from_numpy(variant.features)
        right[row, :size] = torch.from_numpy(variant.is_right).float()
        overlap[row, :size, :size] = torch.from_numpy(overlaps(variant.spans))
        present[row, :size] = True
    mean, deviation = features[present].mean(0), features[present].std(0) + 1e-6
    standard = (features - mean) / deviation
    weights = torch.zeros(len(FEATURES), dtype=torch.float64, requires_grad=True)
    bias = torch.tensor(-3.0, dtype=torch.float64, requires_grad=True)
    search = torch.optim.LBFGS([weights, bias], max_iter=200, line_search_fn="strong_wolfe")
    no_score = torch.tensor(-1e9, dtype=torch.float64)

    def loss() -> torch.Tensor:
        score = torch.where(present, standard @ weights + bias, no_score)  # [utterances, candidates]
        rivals = torch.where(overlap, score[:, None, :], no_score)
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
    return Decision(scaled, float(bias.detach()) - float(scaled @ mean.numpy()), 0.5, 0.5, ORIGIN)


def fit(corrector: Corrector, english: Path, real: Path) -> tuple[Decision, str]:
    """Return the decision for the shipped file, and a line about its thresholds."""
    unspoken = UnspokenNames(english)
    examples: list[Example] = []
    names: list[Example] = []  # with lists of 100 names, none of them spoken
    for case in cases(english, real, "dev", (100, 1000, 5000)):
        has_names = case.bed in ("calls", "general")
        if (case.size > 100 and not has_names) or not case.words:
            continue
        examples.append(example(corrector, case))
        unspoken_case = case.without_spoken() if case.size < 5000 else None
        if unspoken_case is not None and unspoken_case.lists and case.spoken:
            examples.append(example(corrector, unspoken_case))
        if has_names and case.size == 100:
            names.append(examples[-1])
        elif (unspoken_case := unspoken.of(case)) is not None:
            names.append(example(corrector, unspoken_case))
            examples.append(names[-1])
    thresholds = []
    notes = []
    decisions = [estimate([entry for entry in examples if _fold(entry) != number]) for number in range(FOLDS)]
    for has_confidences in (False, True):
        scores = []
        for entry in names:
            features = entry.features if has_confidences else _variants(entry)[-1].features
            probability = decisions[_fold(entry)].probabilities(features, entry.spans) if entry.spans else np.zeros(1)
            scores.append(float(probability.max()))
        bound = choose_threshold(scores, MAX_RATE, None)
        assert bound is not None, "no threshold bounds the rate"
        thresholds.append(bound.threshold)
        kind = "with" if has_confidences else "without"
        notes.append(
            f"{bound.threshold} {kind} confidences: {bound.changed} of {bound.utterances} utterances changed, "
            f"at most {bound.upper:.4f} with 95% confidence"
        )
    decision = replace(estimate(examples), threshold=thresholds[0], confident_threshold=thresholds[1])
    return decision, "; ".join(notes)


def _fold(example: Example) -> int:
    return crc32(f"{example.case.bed} {example.case.key}".encode()) % FOLDS


def _variants(example: Example) -> list[Example]:
    if example.case.confidences is None:
        return [example]
    features = example.features.copy()
    features[:, UNKNOWN] = 0
    return [example, replace(example, features=features)]
