"""Logistic regression with an additional weight for each frequent word, and isotonic regression."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninja.consensus.word_features import sigmoid

MIN_COUNT = 3  # minimum number of occurrences of a word that has a weight
MAX_WORDS = 5000  # maximum number of words that have a weight
MAX_ROUNDS = 20  # maximum number of rounds in which weights of features and of words are fitted in turn
MAX_STEPS = 30  # maximum number of steps of Newton's method
RISE = 1e-3  # maximum rise of an isotonic map from 0 to its first block, and from its last block to 1
BLOCK = 128  # number of rows in a matrix product; BLAS starts no threads for such small products
ENOUGH = 1e-6  # a search ends if no weight changes by at least this amount

Doubles = npt.NDArray[np.float64]
Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Logistic:
    """A logistic regression on features and word identities."""

    bias: float
    weights: Doubles  # [num_features]
    words: dict[str, float]

    def logits(self, table: Doubles, words: Sequence[str]) -> Doubles:
        """Return the log-odds for rows of features, float64 [num_rows]."""
        logits: Doubles = self.bias + table @ self.weights + np.array([self.words.get(word, 0.0) for word in words])
        return logits


def fit_logistic(
    table: Doubles,
    words: Sequence[str],
    is_correct: npt.NDArray[np.bool_],
    penalty: float | Doubles,
    word_penalty: float | None,
    row_weight: Doubles | None = None,
) -> Logistic:
    """Fit a logistic regression with L2 penalties by Newton's method.

    Args:
        table: Features, float64 [num_rows, num_features]. The penalty applies to weights of standardised features.
        words: The word that each row of `table` describes.
        is_correct: Whether the word of each row is correct.
        penalty: Factor for half the sum of squared feature weights, > 0; a number or float64 [num_features].
        word_penalty: Factor for half the sum of squared weights of the words that occur at least `MIN_COUNT` times. If
            it is None, no word weights are fitted.
        row_weight: Factor for the loss on each row, > 0.  [default: 1]

    Source: Hastie, Tibshirani and Friedman, 2009, "The Elements of Statistical Learning", section 4.4.
    """
    mean, deviation = table.mean(0), table.std(0)
    deviation = np.where(deviation > 1e-9, deviation, 1.0)
    design = np.column_stack((np.ones(len(table)), (table - mean) / deviation))
    penalties = np.full(design.shape[1], 1e-9)  # penalty of the bias
    penalties[1:] = penalty
    number_of = _frequent(words) if word_penalty is not None else {}
    number = np.array([number_of.get(word, len(number_of)) for word in words], np.int64)
    weights, effects = np.zeros(design.shape[1]), np.zeros(len(number_of) + 1)
    target = is_correct.astype(np.float64)
    if row_weight is None:
        row_weight = np.ones(len(table))
    blocks, targets, row_weights = _in_blocks(design), _in_blocks(target), _in_blocks(row_weight)
    for _ in range(MAX_ROUNDS if number_of else 1):
        before = weights
        weights = _newton(blocks, targets, row_weights, penalties, weights, _in_blocks(effects[number]))
        if number_of:
            assert word_penalty is not None
            logits = (blocks @ weights).reshape(-1)[: len(table)]
            effects = _word_effects(logits, target, row_weight, number, effects, word_penalty)
        if np.abs(weights - before).max() < ENOUGH**0.5:
            break
    scaled = weights[1:] / deviation
    bias = float(weights[0] - scaled @ mean)
    return Logistic(bias, scaled, {word: float(effects[place]) for word, place in number_of.items()})


def _frequent(words: Sequence[str]) -> dict[str, int]:
    counts = Counter(words).most_common(MAX_WORDS)
    return {word: index for index, (word, count) in enumerate(counts) if count >= MIN_COUNT}


def _newton(
    design: Doubles, target: Doubles, row_weight: Doubles, penalties: Doubles, weights: Doubles, offset: Doubles
) -> Doubles:
    """Minimise the penalised loss over the feature weights with Newton's method, for rows from `_in_blocks`."""
    for _ in range(MAX_STEPS):
        probability = sigmoid(design @ weights + offset)
        variance = row_weight * np.maximum(probability * (1.0 - probability), 1e-9)
        gradient = (design * (row_weight * (probability - target))[..., None]).sum((0, 1)) + penalties * weights
        hessian = (design.transpose(0, 2, 1) @ (design * variance[..., None])).sum(0) + np.diag(penalties)
        step = np.linalg.solve(hessian, gradient)
        weights = weights - step
        if np.abs(step).max() < ENOUGH:
            break
    return weights


def _in_blocks(rows: Doubles) -> Doubles:
    """Divide rows into blocks of `BLOCK` rows; the last block is padded with zeros."""
    num_blocks = -(-len(rows) // BLOCK)
    padded = np.zeros((num_blocks * BLOCK, *rows.shape[1:]), rows.dtype)
    padded[: len(rows)] = rows
    return padded.reshape(num_blocks, BLOCK, *rows.shape[1:])


def _word_effects(
    offset: Doubles, target: Doubles, row_weight: Doubles, number: Int64s, effects: Doubles, penalty: float
) -> Doubles:
    """Fit the weight of each frequent word; the last weight is for all other words, and stays 0."""
    size = len(effects)
    for _ in range(MAX_STEPS):
        probability = sigmoid(offset + effects[number])
        gradient = np.bincount(number, row_weight * (probability - target), size) + penalty * effects
        hessian = np.bincount(number, row_weight * probability * (1.0 - probability), size) + penalty
        step = gradient / hessian
        step[-1] = 0.0
        effects = effects - step
        if np.abs(step).max() < ENOUGH:
            break
    return effects


def fit_isotonic(values: Doubles, is_correct: npt.NDArray[np.bool_], least: int) -> tuple[Doubles, Doubles]:
    """Fit an increasing map from values in [0, 1] to probabilities.

    Adjacent blocks of values are pooled until each block contains at least `least` words and the smoothed share
    of correct words increases from block to block. The map has a point at the mean value of each block, and
    points at 0 and 1. It is strictly increasing.

    Args:
        values: Value for each word, in [0, 1].
        is_correct: Target for each word.
        least: Minimum number of words in a block, ≥ 1.

    Returns:
        The values and the probabilities at the points of the map, both strictly increasing.

    Source: Barlow, Bartholomew, Bremner and Brunk, 1972, "Statistical Inference under Order Restrictions", for the
        pooling of adjacent violators.
    """
    unique, index = np.unique(values, return_inverse=True)
    counts = np.bincount(index).astype(np.float64)
    correct = np.bincount(index, is_correct.astype(np.float64))
    blocks: list[tuple[float, float, float]] = []  # number of words, number of correct words, sum of values
    pending = (0.0, 0.0, 0.0)
    for value, count, right in zip(unique.tolist(), counts.tolist(), correct.tolist(), strict=True):
        pending = (pending[0] + count, pending[1] + right, pending[2] + count * value)
        if pending[0] < least:
            continue
        blocks.append(pending)
        pending = (0.0, 0.0, 0.0)
        _pool(blocks)
    if pending[0]:
        blocks[-1:] = [_joined(blocks[-1], pending)] if blocks else [pending]
        _pool(blocks)
    points = [(total / count, _smoothed((count, right, total))) for count, right, total in blocks]
    if points[0][0] > 0.0:
        points.insert(0, (0.0, points[0][1] - min(RISE, points[0][1] / 2)))
    if points[-1][0] < 1.0:
        points.append((1.0, points[-1][1] + min(RISE, (1.0 - points[-1][1]) / 2)))
    return np.array([point[0] for point in points]), np.array([point[1] for point in points])


def _pool(blocks: list[tuple[float, float, float]]) -> None:
    """Join the last block with preceding blocks until its smoothed share of correct words is the largest."""
    while len(blocks) > 1 and _smoothed(blocks[-2]) >= _smoothed(blocks[-1]):
        blocks[-2:] = [_joined(*blocks[-2:])]


def _smoothed(block: tuple[float, float, float]) -> float:
    count, right, _ = block
    return (right + 0.5) / (count + 1.0)


def _joined(first: tuple[float, float, float], second: tuple[float, float, float]) -> tuple[float, float, float]:
    return first[0] + second[0], first[1] + second[1], first[2] + second[2]
