"""Boosts for unfinished words, and a vocabulary to which the words in phrases are added."""

from __future__ import annotations

from collections.abc import Container, Iterable

from ninja.context.entities.lists import PhraseList
from ninja.context.options import ContextOptions
from ninja.errors import OptionError
from ninja.lattice.symbols import SymbolTable

_FREE = "\0"  # prefix of the placeholder of a free id; words do not contain it


class OpenVocabulary(SymbolTable):
    """A symbol table to which words can be added; id 0 is epsilon, and id 1 represents all unknown words."""

    __slots__ = ("_next", "_room")

    UNKNOWN = 1

    def __init__(self, words: Iterable[str] = (), *, room: int) -> None:
        """Create a table of distinct words with `room` free ids; arrays indexed by id then do not have to grow."""
        fixed = ["<eps>", _FREE, *words]
        super().__init__((word, number) for number, word in enumerate(fixed))
        self._next = len(fixed)
        self._room = room
        free = range(len(fixed), len(fixed) + room)
        placeholders = [f"{_FREE}{number}" for number in free]
        self._word.update(zip(free, placeholders, strict=True))
        self._id.update(zip(placeholders, free, strict=True))

    @property
    def room(self) -> int:
        """Number of words that can still be added."""
        return len(self._word) - self._next

    def add(self, words: Iterable[str]) -> None:
        """Add the given words, except words that are already in the table."""
        new = [word for word in dict.fromkeys(words) if word not in self._id]
        if len(new) > self.room:
            raise OptionError(f"cannot add {len(new)} words; only {self.room} ids are free, so use a larger `room`")
        for number, word in enumerate(new, start=self._next):
            del self._id[self._word[number]]
            self._id[word] = number
            self._word[number] = word
        self._next += len(new)


class PartialBoosts:
    """Boosts for the prefixes of words that begin or continue phrases in a list.

    For a word with n letters, a prefix of k letters gets the fraction k / n of the word's boost, so a complete word has
    the full boost. Phrases with a negative weight are not boosted.

    The phrases form two trees of words: one for the phrases with a class in the class model, and one for all other
    phrases. A position is a node of these trees.
    """

    ROOTS = (0, 1)  # roots of phrases without a class in the class model, and of phrases with such a class

    def __init__(self, phrases: PhraseList, options: ContextOptions, classes: Container[str] = ()) -> None:
        """Build the word trees of the phrases; `classes` are the classes in the class model."""
        self._next: list[dict[str, int]] = [{}, {}]
        weight: dict[int, float] = {}  # weight of the best phrase through each position
        self.words: set[str] = set()  # words of all phrases
        for name, phrase in phrases:
            position = self.ROOTS[name in classes]
            for word in phrase.text.split():
                position = self._next[position].setdefault(word, len(self._next))
                if position == len(self._next):
                    self._next.append({})
                self.words.add(word)
                weight[position] = max(phrase.weight, weight.get(position, 0.0))
        self.beginnings = {word[:end] for word in self.words for end in range(1, len(word) + 1)}
        self._gained = [0.0, options.class_boost] + [0.0] * len(weight)  # total boost of the words up to each position
        for position, children in enumerate(self._next):
            for child in children.values():  # children come later, because they have larger positions
                self._gained[child] = self._gained[position] + options.keyword_boost * weight[child]
        self._boosts: dict[int, dict[str, float]] = {}

    def follow(self, position: int, word: str) -> int | None:
        """Return the phrase-tree node that a word leads to, or None if no phrase continues after the word."""
        after = self._next[position].get(word)
        return after if after is not None and self._next[after] else None

    def boost(self, position: int, text: str) -> float:
        """Return the boost for the unfinished word `text` that follows a node of the phrase tree, in nats, ≥ 0."""
        if position in self._boosts:
            return self._boosts[position].get(text, 0.0)
        boosts: dict[str, float] = {}
        before = max(self._gained[position], 0.0) if position not in self.ROOTS else 0.0
        for word, after in self._next[position].items():
            boost = self._gained[after] - before  # `before` is at least 0, the boost without the phrase
            if boost > 0:
                for end in range(1, len(word) + 1):
                    boosts[word[:end]] = max(boosts.get(word[:end], 0.0), boost * end / len(word))
        self._boosts[position] = boosts
        return boosts.get(text, 0.0)
