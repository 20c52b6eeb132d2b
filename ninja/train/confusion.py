"""Estimation of phone confusion costs from references and recognised words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from ninja.context.sound.confusion import Confusion
from ninja.context.sound.pronunciation import Phones, Pronouncer
from ninja.errors import OptionError, check_range
from ninja.evaluate import align

LEAST = 0.02  # minimum cost of a confusion; keeps different phones at a distance
TEMPER = 0.6  # factor of learned costs in the mean of learned and prior costs
MOST_PHONES = 400  # error regions with more phones are ignored, because they are not phone confusions


def learn(
    pairs: Iterable[tuple[Sequence[str], Sequence[str]]],
    pronouncer: Pronouncer,
    prior: Confusion,
    *,
    iterations: int = 5,
    prior_count: float = 20.0,
    sharpness: float = 4.0,
    source: str = "",
) -> Confusion:
    """Estimate confusion costs from pairs of references and recognised word sequences.

    Words are aligned once. In each iteration, the phones of each error region are aligned with the current costs and
    counted, and the costs are computed from the counts. With relative frequencies ``p``, which include the counts of
    the prior, a substitution costs ``log p(spoken | spoken) − log p(recognised | spoken)``; other edits are analogous.
    All costs are then scaled so that the mean cost of a deletion is the same as in the prior, which keeps
    distances comparable.

    Args:
        pairs: ``(reference words, recognised words)`` for each utterance.
        pronouncer: Pronunciations; error regions that contain words without a pronunciation are ignored.
        prior: Initial costs, which also determine the costs of rare confusions.
        iterations: Number of iterations, ≥ 1.
        prior_count: Weight of the prior, expressed as a number of observations per phone, > 0.
        sharpness: Nats of log-probability per unit of the prior costs, > 0.
        source: Description of the data, to be stored with the costs.

    Raises:
        OptionError: An option is out of range, or no word in the pairs can be pronounced.

    Source: E. S. Ristad and P. N. Yianilos 1998, "Learning String-Edit Distance" (the memoryless stochastic transducer;
    here with the best alignment instead of all alignments).
    """
    check_range("iterations", iterations, least=1)
    check_range("prior_count", prior_count, above=0, finite=True)
    check_range("sharpness", sharpness, above=0, finite=True)
    stretches, plain = _stretches(pairs, pronouncer, set(prior.phones))
    # [spoken, recognised]; the last row counts insertions, and the last column deletions.
    correct = np.zeros((len(prior.phones) + 1,) * 2)
    for phones in plain:
        np.add.at(correct, (rows := prior.numbers(phones), rows), 1.0)
    if not correct.any() and not stretches:
        raise OptionError("no word in the pairs has a pronunciation; specify a lexicon, or pairs in the right language")
    costs = prior
    for _ in range(iterations):
        counts = correct.copy()
        for spoken, recognised in stretches:
            variants = [(one, other) for one in spoken for other in recognised]
            _count(counts, *min(variants, key=lambda pair: costs.distance(*pair)), costs)
        costs = _costs(counts, prior, prior_count, sharpness, source)
    return costs


def tempered(learned: Confusion, prior: Confusion) -> Confusion:
    """Return the mean of the prior costs and the learned costs after scaling the learned costs by `TEMPER`.

    Learned costs are accurate for frequent confusions, but unreliable for rare confusions. The mean finds as many
    phrases as the prior, with half as many false alarms. Learned costs are scaled because they have a wider range than
    the prior.

    Args:
        learned: Costs that `learn` estimated.
        prior: Costs for the same phones, in the same order.

    Raises:
        OptionError: `learned` and `prior` are for different phones.
    """
    if learned.phones != prior.phones:
        raise OptionError("the learned costs and the prior have different phones; specify the prior used in training")
    half, size = np.float32(0.5), np.float32(TEMPER)
    return Confusion(
        prior.phones,
        half * (size * learned.substitution + prior.substitution),
        half * (size * learned.insertion + prior.insertion),
        half * (size * learned.deletion + prior.deletion),
        f"halfway between {learned.source} and {prior.source}",
    )


Counts = npt.NDArray[np.float64]
Variants = tuple[list[Phones], list[Phones]]


def _stretches(
    pairs: Iterable[tuple[Sequence[str], Sequence[str]]], pronouncer: Pronouncer, known: set[str]
) -> tuple[list[Variants], list[Phones]]:
    """Return the pronunciations of error regions and of correct words in pairs of word sequences.

    Returns:
        ``(error regions, correct words)``. Each error region has the pronunciations of the spoken words and the
        pronunciations of the recognised words; each correctly recognised word has its first pronunciation. Words and
        regions without a usable pronunciation are left out.
    """
    stretches: list[Variants] = []
    plain: list[Phones] = []
    for reference, hypothesis in pairs:
        spoken: list[str] = []
        recognised: list[str] = []
        for word, other in [*align(reference, hypothesis).pairs, ("", "")]:
            if word != other:
                spoken += [word] if word else []
                recognised += [other] if other else []
                continue
            if spoken or recognised:
                variants = _pronunciations(spoken, pronouncer, known), _pronunciations(recognised, pronouncer, known)
                if all(variants):
                    stretches.append(variants)
                spoken, recognised = [], []
            if word:
                plain += _pronunciations([word], pronouncer, known)[:1]
    return stretches, plain


def _pronunciations(words: Sequence[str], pronouncer: Pronouncer, known: set[str]) -> list[Phones]:
    """Return at most four pronunciations of a word sequence, or an empty list if a word has none.

    Pronunciations with more than `MOST_PHONES` phones, or with phones that are not in `known`, are left out.
    """
    variants: list[Phones] = [()]
    for word in words:
        variants = [before + after for before in variants for after in pronouncer.of(word)[:2]][:4]
    return [phones for phones in variants if len(phones) <= MOST_PHONES and known.issuperset(phones)]


def _count(counts: Counts, spoken: Phones, recognised: Phones, costs: Confusion) -> None:
    """Add the edits in the best alignment of two phone sequences to the counts."""
    rows, columns = costs.numbers(spoken), costs.numbers(recognised)
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
            counts[rows[i - 1], columns[j - 1]] += 1
            i, j = i - 1, j - 1
        elif i and (not j or best[i, j] == best[i - 1, j] + costs.deletion[rows[i - 1]]):
            counts[rows[i - 1], -1] += 1
            i -= 1
        else:
            counts[-1, columns[j - 1]] += 1
            j -= 1


def _costs(counts: Counts, prior: Confusion, prior_count: float, sharpness: float, source: str) -> Confusion:
    """Compute phone confusion costs from the counts of edits and the prior costs; see `learn`."""
    # The prior as a distribution: a cost of 1 / sharpness corresponds to a probability ratio of e.
    table = np.exp(-sharpness * np.column_stack([prior.substitution, prior.deletion]).astype(np.float64))
    table /= table.sum(axis=1, keepdims=True)
    observed = counts[:-1] + prior_count * table
    odds = observed / np.diagonal(observed)[:, None]
    cost = np.maximum(-np.log(odds), LEAST)
    np.fill_diagonal(cost, 0.0)
    # An insertion may occur before each phone; in the prior, insertions are as frequent as deletions.
    total = observed.sum()
    rate = np.exp(-sharpness * prior.insertion.astype(np.float64))
    inserted = counts[-1, :-1] + prior_count * rate * (table[:, -1].sum() / rate.sum())
    insertion = np.maximum(np.log(total / inserted), LEAST)
    weight = observed.sum(axis=1)
    unit = float((cost[:, -1] * weight).sum() / (prior.deletion * weight).sum())
    cost, insertion = (cost / unit).astype(np.float32), (insertion / unit).astype(np.float32)
    return Confusion(prior.phones, cost[:, :-1], insertion, cost[:, -1], source)
