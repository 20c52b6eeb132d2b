"""Training of phone confusion costs from references and recognised words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninja.context.sound.confusion import Confusion
from ninja.context.sound.pronunciation import Phones, Pronouncer
from ninja.errors import OptionError, check_range
from ninja.evaluate import align

LEAST = 0.02  # cost of the likeliest confusion, so that no two phones become one
MOST_PHONES_A_STRETCH = 400  # longer stretches of errors are no confusions of phones


@dataclass(frozen=True, slots=True)
class LearnOptions:
    """Options of the estimation."""

    iterations: int = 5  # alignments of all pairs, each by the costs of the last
    prior_count: float = 20.0  # observations of each phone that the prior costs are worth
    sharpness: float = 4.0  # nats of probability that a unit of the prior costs stands for

    def __post_init__(self) -> None:
        check_range("iterations", self.iterations, least=1)
        for name in ("prior_count", "sharpness"):
            check_range(name, getattr(self, name), above=0, finite=True)


def learn(
    pairs: Iterable[tuple[Sequence[str], Sequence[str]]],
    pronouncer: Pronouncer,
    prior: Confusion,
    options: LearnOptions | None = None,
    source: str = "",
) -> Confusion:
    """Estimate confusion costs from pairs of references and recognised word sequences.

    Words are aligned once; the phones of each stretch of errors are then aligned by the costs so far and counted, and
    the costs taken from the counts, until the iterations are over. With ``p`` the share of a phone's observations, the
    prior's among them, a substitution costs ``log p(said | said) − log p(heard | said)`` and so on; all costs are then
    divided by one number, so that a deletion costs on average what it does by the prior: distances stay comparable.

    Args:
        pairs: Reference and recognised words of utterances.
        pronouncer: Pronunciations; stretches with words that it lacks are left out.
        prior: Costs to start from, and for confusions that were seldom seen.
        options: Options of the estimation.
        source: A note on the data, kept with the costs.

    Raises:
        OptionError: No pair has a word in common with the pronouncer.

    Source: E. S. Ristad and P. N. Yianilos 1998, "Learning String-Edit Distance" (the memoryless stochastic transducer;
    here with the best alignment in place of all).
    """
    chosen = options or LearnOptions()
    known = set(prior.phones)
    stretches, plain = _stretches(pairs, pronouncer, known)
    same = np.zeros(len(prior.phones))
    for phones in plain:
        np.add.at(same, prior.numbers(phones), 1.0)
    if not same.any() and not stretches:
        raise OptionError("there is nothing to learn from: no pair has words that can be pronounced")
    costs = prior
    for _ in range(chosen.iterations):
        counts = _Counts.zeros(len(prior.phones))
        counts.substituted[np.diag_indices(len(prior.phones))] = same
        for said, heard in stretches:
            _count(counts, _nearest(said, heard, costs), costs)
        costs = _costs(counts, prior, chosen, source)
    return costs


@dataclass(slots=True)
class _Counts:
    substituted: npt.NDArray[np.float64]  # [said, heard]
    inserted: npt.NDArray[np.float64]  # [heard]
    deleted: npt.NDArray[np.float64]  # [said]

    @classmethod
    def zeros(cls, count: int) -> _Counts:
        return cls(np.zeros((count, count)), np.zeros(count), np.zeros(count))


Variants = tuple[list[Phones], list[Phones]]


def _stretches(
    pairs: Iterable[tuple[Sequence[str], Sequence[str]]], pronouncer: Pronouncer, known: set[str]
) -> tuple[list[Variants], list[Phones]]:
    """Return the pronunciations of each stretch of errors, and those of the words recognised correctly."""
    stretches: list[Variants] = []
    plain: list[Phones] = []
    for reference, hypothesis in pairs:
        said: list[str] = []
        heard: list[str] = []
        for word, other in [*align(reference, hypothesis).pairs, ("", "")]:
            if word != other:
                said += [word] if word else []
                heard += [other] if other else []
                continue
            if said or heard:
                both = _pronounced(said, pronouncer, known), _pronounced(heard, pronouncer, known)
                if both[0] and both[1]:
                    stretches.append(both)
                said, heard = [], []
            if word:
                plain += _pronounced([word], pronouncer, known)[:1]
    return stretches, plain


def _pronounced(words: Sequence[str], pronouncer: Pronouncer, known: set[str]) -> list[Phones]:
    """Return the pronunciations of some words in a row, a few at most; none if one of them is unknown."""
    found: list[Phones] = [()]
    for word in words:
        found = [before + after for before in found for after in pronouncer.of(word)[:2]][:4]
    return [phones for phones in found if len(phones) <= MOST_PHONES_A_STRETCH and known.issuperset(phones)]


def _nearest(said: list[Phones], heard: list[Phones], costs: Confusion) -> tuple[Phones, Phones]:
    """Return the two pronunciations that are the nearest."""
    both = [(one, other) for one in said for other in heard]
    return both[0] if len(both) == 1 else min(both, key=lambda pair: costs.distance(*pair))


def _count(counts: _Counts, pair: tuple[Phones, Phones], costs: Confusion) -> None:
    """Add the edits of the best alignment of two strings."""
    rows, columns = costs.numbers(pair[0]), costs.numbers(pair[1])
    best = np.zeros((len(rows) + 1, len(columns) + 1))
    best[1:, 0] = np.cumsum(costs.deletion[rows])
    best[0, 1:] = np.cumsum(costs.insertion[columns])
    for i, row in enumerate(rows, start=1):
        for j, column in enumerate(columns, start=1):
            best[i, j] = min(
                best[i - 1, j - 1] + costs.substitution[row, column],
                best[i - 1, j] + costs.deletion[row],
                best[i, j - 1] + costs.insertion[column],
            )
    i, j = len(rows), len(columns)
    while i or j:
        if i and j and best[i, j] == best[i - 1, j - 1] + costs.substitution[rows[i - 1], columns[j - 1]]:
            counts.substituted[rows[i - 1], columns[j - 1]] += 1
            i, j = i - 1, j - 1
        elif i and (not j or best[i, j] == best[i - 1, j] + costs.deletion[rows[i - 1]]):
            counts.deleted[rows[i - 1]] += 1
            i -= 1
        else:
            counts.inserted[columns[j - 1]] += 1
            j -= 1


def _costs(counts: _Counts, prior: Confusion, options: LearnOptions, source: str) -> Confusion:
    """Combine counts and prior to costs."""
    # The prior as a model of its own: probabilities fall by e for each 1 / sharpness of cost.
    table = np.exp(-options.sharpness * np.column_stack([prior.substitution, prior.deletion]).astype(np.float64))
    table /= table.sum(axis=1, keepdims=True)
    seen = np.column_stack([counts.substituted, counts.deleted]) + options.prior_count * table
    odds = seen / np.diagonal(seen)[:, None]
    cost = np.maximum(-np.log(odds), LEAST)
    np.fill_diagonal(cost, 0.0)
    # An insertion may come before each phone; by the prior, as often as a deletion.
    said = seen.sum()
    rate = np.exp(-options.sharpness * prior.insertion.astype(np.float64)) / table.shape[1]
    inserted = counts.inserted + options.prior_count * rate
    insertion = np.maximum(np.log(said / inserted), LEAST)
    spoken = seen.sum(axis=1)
    unit = float((cost[:, -1] * spoken).sum() / (prior.deletion * spoken).sum())
    cost, insertion = (cost / unit).astype(np.float32), (insertion / unit).astype(np.float32)
    return Confusion(prior.phones, cost[:, :-1], insertion, cost[:, -1], source)
