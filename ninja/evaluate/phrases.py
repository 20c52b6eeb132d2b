"""Phrases and their classes, indexed by words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ninja.lattice.text import NONE, Normalizer


class Entity(NamedTuple):
    """A phrase and its class."""

    class_name: str  # such as "@name"; "" for no class
    text: str  # words separated by single spaces


class Phrases:
    """The phrases in an entity list, indexed by their words to look them up in word sequences.

    Utterances with the same entity list share one object.

    Args:
        entities: Phrases as written words.
        normalizer: Normalizer that was applied to the word sequences.
    """

    __slots__ = ("class_of", "lengths", "written")

    def __init__(self, entities: Iterable[Entity], normalizer: Normalizer = NONE) -> None:
        """Index phrases by their words; a phrase that occurs in several classes belongs to the first class."""
        self.class_of: dict[tuple[str, ...], str] = {}
        self.written: dict[tuple[str, ...], set[str]] = {}  # lexical words -> phrases; empty without a normalizer
        for entity in entities:
            words = entity.text.split()
            if not normalizer.is_identity:
                words = normalizer.words(words)
                self.written.setdefault(tuple(words), set()).add(entity.text)
            if words:
                self.class_of.setdefault(tuple(words), entity.class_name)
        self.lengths = sorted({len(words) for words in self.class_of}, reverse=True)

    def lexical(self, normalizer: Normalizer) -> Phrases:
        """Return the phrases indexed by their lexical words, or this object itself if words are not normalised."""
        if normalizer.is_identity:
            return self
        return Phrases((Entity(name, " ".join(words)) for words, name in self.class_of.items()), normalizer)
