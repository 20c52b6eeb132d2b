"""Marks of lists of phrases: words before an utterance's histories that tell a language model which phrases it has."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from weakref import WeakValueDictionary

from ninja.context.entities.lists import PhraseList
from ninja.lm.protocol import FIRST_MARK

MOST_KEPT = 32  # marks that stay though no utterance in flight has them


class Mark:
    """The phrases of an utterance; see `ninja.lm.protocol.PhraseMark`."""

    __slots__ = ("__weakref__", "lists", "number")

    def __init__(self, lists: tuple[PhraseList, ...], number: int) -> None:
        self.lists = lists
        self.number = number

    def texts(self) -> list[str]:
        """Return the distinct texts of the phrases of no negative weight, sorted."""
        return texts_of(self.lists)


def texts_of(lists: Sequence[PhraseList]) -> list[str]:
    """Return the distinct texts of the phrases of no negative weight, sorted."""
    listed = (phrase for each in lists for phrases in each.classes.values() for phrase in phrases)
    return sorted({phrase.text for phrase in listed if phrase.weight >= 0})


class Marks:
    """The marks in use; equal lists have the same one, while it lives."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._alive: WeakValueDictionary[int, Mark] = WeakValueDictionary()
        self._recent: OrderedDict[tuple[int, ...], Mark] = OrderedDict()  # by the identities of their lists
        self._last = FIRST_MARK + 1

    def of(self, lists: Sequence[PhraseList]) -> Mark | None:
        """Return the mark of some lists; None where they hold no phrase."""
        lists = tuple(each for each in lists if each.num_phrases)
        if not lists:
            return None
        key = tuple(map(id, lists))
        with self._lock:
            mark = self._recent.pop(key, None)
            if mark is None:
                self._last -= 1
                mark = self._alive[self._last] = Mark(lists, self._last)
            self._recent[key] = mark
            if len(self._recent) > MOST_KEPT:
                self._recent.popitem(last=False)
        return mark

    def numbered(self, number: int) -> Mark:
        """Return a mark in use by its number."""
        return self._alive[number]
