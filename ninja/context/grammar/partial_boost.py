"""Partial boosts of phrases for words that are not finished."""

from __future__ import annotations

from collections.abc import Container

from ninja.context.entities.lists import PhraseList
from ninja.context.options import ContextOptions


class PartialBoosts:
    """The phrases of one list as two trees of words; each position knows how the words that go on from it begin.

    The first k of the n letters of a word get the share k / n of the boost that the whole word brings its phrase, so
    that the boost is complete when the word is. Phrases of negative weight boost no letters.
    """

    ROOTS = (0, 1)  # positions before phrases that are boosted where they stand, and before those of a class

    def __init__(self, phrases: PhraseList, options: ContextOptions, classes: Container[str] = ()) -> None:
        """Make the trees; they do not depend on the order of the phrases.

        Args:
            phrases: The list.
            options: The boosts.
            classes: Which classes the class model has.
        """
        self._next: list[dict[str, int]] = [{}, {}]
        weight: dict[int, float] = {}  # of the best phrase through a position
        self.words: set[str] = set()  # of all phrases
        for name, members in phrases.classes.items():
            root = self.ROOTS[name in classes]
            for phrase in members:
                words = phrase.text.split()
                self.words.update(words)
                for position in self._path(root, words):
                    weight[position] = max(phrase.weight, weight.get(position, 0.0))
        self._beginnings = {word[:end] for word in self.words for end in range(1, len(word) + 1)}
        self._gained = [0.0, options.class_boost] + [0.0] * len(weight)  # by the words up to a position
        for position, after in enumerate(self._next):
            for each in after.values():  # larger than position
                self._gained[each] = self._gained[position] + options.keyword_boost * weight[each]
        self._boosts: dict[int, dict[str, float]] = {}

    def _path(self, root: int, words: list[str]) -> list[int]:
        """Return the positions after each of some words; those that are not there yet are made."""
        path = [root]
        for word in words:
            after = self._next[path[-1]].setdefault(word, len(self._next))
            if after == len(self._next):
                self._next.append({})
            path.append(after)
        return path[1:]

    def follow(self, position: int, word: str) -> int | None:
        """Return the position after a word, None where no phrase goes on."""
        after = self._next[position].get(word)
        return after if after is not None and self._next[after] else None

    def boost(self, position: int, text: str) -> float:
        """Return the boost of the letters of an unfinished word, nats ≥ 0."""
        boosts = self._boosts.get(position)
        if boosts is None:
            boosts = self._boosts[position] = self._boosts_from(position)
        return boosts.get(text, 0.0)

    def _boosts_from(self, position: int) -> dict[str, float]:
        boosts: dict[str, float] = {}
        before = max(self._gained[position], 0.0) if position not in self.ROOTS else 0.0
        for word, after in self._next[position].items():
            boost = self._gained[after] - before  # a phrase that has not gained anything yet is not the best reading
            if boost > 0:
                for end in range(1, len(word) + 1):
                    boosts[word[:end]] = max(boosts.get(word[:end], 0.0), boost * end / len(word))
        return boosts

    def has_beginning(self, text: str) -> bool:
        """Tell whether a word of a phrase begins with a text."""
        return text in self._beginnings
