"""Ids of phrase lists. An id is the first word of a history, and selects the phrases of the utterance."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from weakref import WeakValueDictionary

from ninja.context.entities.lists import PhraseList
from ninja.lattice.text import NONE, Normalizer
from ninja.lm.protocol import FIRST_MARK

MAX_UNUSED = 32  # maximum number of recent phrase sets that are kept even if they are unused


class PhraseSet:
    """The phrases of an utterance and their id; see `ninja.lm.protocol.PhraseMark`."""

    __slots__ = ("__weakref__", "lists", "number")

    def __init__(self, lists: tuple[PhraseList, ...], number: int) -> None:
        self.lists = lists
        self.number = number

    def texts(self) -> list[str]:
        """Return the distinct texts of the phrases with a weight >= 0, in alphabetical order."""
        return texts_of(self.lists)


def texts_of(lists: Sequence[PhraseList], normalizer: Normalizer = NONE) -> list[str]:
    """Return the distinct normalised texts of the phrases with a weight >= 0, in alphabetical order."""
    texts = {phrase.text for phrase_list in lists for _, phrase in phrase_list if phrase.weight >= 0}
    if not normalizer.is_identity:
        texts = {" ".join(normalizer.words(text.split())) for text in texts} - {""}
    return sorted(texts)


class PhraseListIds:
    """Ids of combinations of phrase lists; a combination keeps its id while the id is in use or cached."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._in_use: WeakValueDictionary[int, PhraseSet] = WeakValueDictionary()
        self._recent: OrderedDict[tuple[int, ...], PhraseSet] = OrderedDict()  # keys are the lists' object ids
        self._last = FIRST_MARK + 1

    def of(self, lists: Sequence[PhraseList]) -> PhraseSet | None:
        """Return the phrase set for the given lists; None if the lists contain no phrases."""
        lists = tuple(phrases for phrases in lists if phrases.num_phrases)
        if not lists:
            return None
        key = tuple(map(id, lists))
        with self._lock:
            phrase_set = self._recent.pop(key, None)
            if phrase_set is None:
                self._last -= 1
                phrase_set = self._in_use[self._last] = PhraseSet(lists, self._last)
            self._recent[key] = phrase_set
            if len(self._recent) > MAX_UNUSED:
                self._recent.popitem(last=False)
        return phrase_set

    def numbered(self, number: int) -> PhraseSet:
        """Return the phrase set with the given id, which must be in use."""
        return self._in_use[number]
