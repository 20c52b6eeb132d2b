"""Recognise class tokens in text, and replace phrases with class tokens."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ninja.errors import OptionError, counted
from ninja.evaluate.normal_form import composed_words
from ninja.lm.word_map import BOS, EOS, UNK

_CLASS = re.compile(r"[@$]\S+|<[^\s<>]+>")
_NO_CLASSES = {BOS, EOS, UNK, "<UNK>", "<eps>"}
_SHOWN = 3  # maximum number of examples in a message


def is_class(word: str) -> bool:
    """Return whether a word is a class token: ``@name``, ``$name``, or ``<name>`` except special words."""
    return _CLASS.fullmatch(word) is not None and word not in _NO_CLASSES


@dataclass(slots=True)
class _Node:
    """A node in the trie of phrases."""

    after: dict[str, _Node] = field(default_factory=dict)
    classes: list[str] = field(default_factory=list)
    num_tagged: int = 0


class Tagger:
    """Tagger that replaces phrases with class tokens from left to right, using the longest phrase at each position.

    Words are compared in Unicode's composed form (NFC); their case must match. If a phrase belongs to several classes,
    its occurrences are assigned to these classes in turn, so the counts are shared evenly and the result is
    deterministic. Class tokens in the text are not changed.

    Args:
        phrases: The phrases that each class token replaces.

    Raises:
        OptionError: A class name is not a class token, a phrase is empty or contains a class token, or there are no
            phrases.
    """

    def __init__(self, phrases: Mapping[str, Iterable[str]]) -> None:
        self.num_phrases: Counter[str] = Counter()  # number of distinct phrases per class
        self.num_tagged: Counter[str] = Counter()  # number of replaced phrases per class
        self.num_present: Counter[str] = Counter()  # number of tokens of each class that the text already contained
        self._root = _Node()
        self._shared: dict[str, _Node] = {}
        for name, members in phrases.items():
            if not is_class(name):
                raise OptionError(f"{name!r} is not a class name; write @name, $name or <name>")
            self.num_phrases[name] = 0
            for phrase in members:
                self._add(name, phrase)
        if not self.num_phrases.total():
            raise OptionError("the classes have no phrases; omit the classes")

    def _add(self, name: str, phrase: str) -> None:
        words = composed_words(phrase.split())
        if not words:
            raise OptionError(f"the class {name} contains an empty phrase; remove it")
        token = next((word for word in words if is_class(word) or word in _NO_CLASSES), None)
        if token is not None:
            raise OptionError(
                f"the phrase {phrase[:60]!r} of {name} contains {token}; phrases must consist of plain words"
            )
        node = self._root
        for word in words:
            node = node.after.setdefault(word, _Node())
        if name not in node.classes:
            node.classes.append(name)
            self.num_phrases[name] += 1
            if len(node.classes) > 1:
                self._shared[" ".join(words)] = node

    def tag(self, sentence: Sequence[str]) -> list[str]:
        """Replace the phrases in a sentence with class tokens."""
        tagged: list[str] = []
        composed = composed_words(sentence)
        begin = 0
        first = self._root.after
        while begin < len(sentence):
            word = sentence[begin]
            longest, end = None, begin + 1
            node = first.get(composed[begin])
            at = begin + 1
            while node is not None:
                if node.classes:
                    longest, end = node, at
                node = node.after.get(composed[at]) if at < len(sentence) else None
                at += 1
            if longest is not None:
                word = longest.classes[longest.num_tagged % len(longest.classes)]
                longest.num_tagged += 1
                self.num_tagged[word] += 1
            elif word[0] in "@$<" and is_class(word):
                self.num_present[word] += 1
            tagged.append(word)
            begin = end
        return tagged

    def notes(self) -> list[str]:
        """Return lines for the user that summarise how often each class occurs and mention possible problems."""
        lines = [
            f"{name}: {counted(count, 'phrase')} in the lists, "
            f"{counted(self.num_tagged[name], 'occurrence')} in the text"
            + (f", {counted(self.num_present[name], 'token')} already in the text" if self.num_present[name] else "")
            for name, count in self.num_phrases.items()
        ]
        unused = [name for name in self.num_phrases if not self.num_tagged[name] + self.num_present[name]]
        if unused:
            lines.append(f"classes that do not occur in the text and are therefore poorly trained: {_first(unused)}")
        unlisted = [name for name in self.num_present if name not in self.num_phrases]
        if unlisted:
            lines.append(f"class tokens in the text that have no phrase list: {_first(unlisted)}")
        if self._shared:
            count = sum(node.num_tagged for node in self._shared.values())
            shown = _first([f"{text!r} ({', '.join(node.classes)})" for text, node in self._shared.items()])
            phrases = counted(len(self._shared), "phrase belongs", "phrases belong")
            occurrences = counted(count, "occurrence was", "occurrences were")
            lines.append(f"{phrases} to several classes: {shown}; {occurrences} assigned to these classes in turn")
        return lines


def _first(names: Sequence[str]) -> str:
    return f"{', '.join(names[:_SHOWN])}{f' and {len(names) - _SHOWN} more' if len(names) > _SHOWN else ''}"
