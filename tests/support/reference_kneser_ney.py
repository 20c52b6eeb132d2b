"""Slow implementation of Kneser–Ney smoothing: dictionaries of n-grams, probabilities by recursion."""

from __future__ import annotations

from collections import Counter

Words = tuple[str, ...]
BOS, EOS, UNK = "<s>", "</s>", "<unk>"
FALLBACK = (0.5, 1.0, 1.5)


class SlowKneserNey:
    """An interpolated model, according to the formulas.

    Args:
        sentences: Words of each sentence.
        order: N-gram order.
        vocabulary: Words of the model; all words if None.
        cutoffs: Minimum counts of 2-grams, 3-grams, …; the last one also applies to longer n-grams.
        discounts: Discounts of counts 1, 2, 3 and more; estimated if None.
        unk_share: Share of <unk> in the uniform distribution; that of any word if None.
    """

    def __init__(self, sentences, order, vocabulary=None, cutoffs=(1,), discounts=None, unk_share=None):
        known_words = {word for sentence in sentences for word in sentence} if vocabulary is None else set(vocabulary)
        self.words = sorted(known_words | {EOS, UNK})  # the words that can be predicted
        self.order = order
        self.cutoffs = (1, *cutoffs)
        self.unk_share = unk_share
        self.occurs: Counter[Words] = Counter()
        for sentence in sentences:
            padded = (BOS, *(word if word in known_words else UNK for word in sentence), EOS)
            for length in range(1, order + 1):
                for begin in range(len(padded) - length + 1):
                    self.occurs[padded[begin : begin + length]] += 1
        self.counts = {ngram: self.count(ngram) for ngram in self.occurs if ngram != (BOS,)}
        self.discounts = {length: discounts or self.estimate(length) for length in range(1, order + 1)}

    def count(self, ngram: Words) -> int:
        """Return a(ngram): occurrences, or for shorter n-grams the number of different preceding words."""
        if len(ngram) == self.order or ngram[0] == BOS:
            return self.occurs[ngram]
        return sum(longer[1:] == ngram for longer in self.occurs if len(longer) == len(ngram) + 1)

    def estimate(self, length: int) -> tuple[float, ...]:
        n = Counter(count for ngram, count in self.counts.items() if len(ngram) == length)
        if n[1] == 0 or n[2] == 0:
            return FALLBACK
        y = n[1] / (n[1] + 2 * n[2])
        if n[3] > 0:
            discounts = tuple(k - (k + 1) * y * n[k + 1] / n[k] for k in (1, 2, 3))
            if all(0 < d <= k for k, d in zip((1, 2, 3), discounts, strict=True)):
                return discounts
        return (y, 2 * y, 3 * y)

    def discount(self, length: int, count: int) -> float:
        return 0.0 if count == 0 else self.discounts[length][min(count, 3) - 1]

    def is_kept(self, ngram: Words) -> bool:
        return self.occurs[ngram] >= self.cutoffs[min(len(ngram), len(self.cutoffs)) - 1]

    def uniform(self, word: str) -> float:
        share = 1 / len(self.words) if self.unk_share is None else self.unk_share
        return share if word == UNK else (1 - share) / (len(self.words) - 1)

    def probability(self, history: Words, word: str) -> float:
        """Return P(word | history), with a history shorter than the order."""
        lower = self.probability(history[1:], word) if history else self.uniform(word)
        after = {g: c for g, c in self.counts.items() if len(g) == len(history) + 1 and g[:-1] == history}
        total = sum(after.values())
        if total == 0:
            return lower
        length = len(history) + 1
        backoff_mass = sum(self.discount(length, c) if length == 1 or self.is_kept(g) else c for g, c in after.items())
        ngram = (*history, word)
        discounted = 0.0
        if ngram in after and (length == 1 or self.is_kept(ngram)):
            discounted = (after[ngram] - self.discount(length, after[ngram])) / total
        return discounted + backoff_mass / total * lower

    def score(self, history: Words, word: str) -> float:
        """Return P(word | whole history of a sentence, including <s>)."""
        return self.probability(history[max(0, len(history) - self.order + 1) :], word)
