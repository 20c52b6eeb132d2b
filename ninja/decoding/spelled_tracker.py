"""The class `SpelledTracker`: the contextual grammar for decoders with units smaller than words."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from ninja.context.entities.lists import PhraseList
from ninja.context.grammar.tracker import Match, Tracker, class_words
from ninja.context.options import ContextOptions
from ninja.decoding.partial_boosts import OpenVocabulary, PartialBoosts
from ninja.decoding.spelling import Spelling
from ninja.errors import OptionError, VocabularyError
from ninja.lm.ngram.classes import is_class
from ninja.lm.ngram.model import NgramLM
from ninja.lm.protocol import exclusive
from ninja.lm.word_map import MARKS

ROOM = 1 << 17  # number of phrase words that can be added to the vocabulary


class _State(NamedTuple):
    """The state of a unit history; histories with equal states get equal scores for the same units."""

    utterance: int
    words: int  # state of the word tracker
    positions: tuple[tuple[int, int], ...]  # (list, position) of the phrases in progress
    text: str | None  # letters of the unfinished word; None if no known word begins with them


class SpelledTracker:
    """Tracker that scores a decoder's unit histories with a contextual word grammar; it has the interface of `Tracker`.

    A word is scored when the next word begins, or at the end of the sentence. Until then, its letters receive part of
    the boost that the word would have if it continued a phrase; this partial boost is removed when the word is scored.
    The unit scores in a sentence therefore have the same sum as the word scores. Threads that share a tracker wait for
    each other.

    The vocabulary is open. Words in phrases are added to it, even if they are unknown to the class model. All other
    words that are unknown to the class model are scored as its ``<unk>``.
    """

    def __init__(
        self,
        spelling: Spelling,
        class_lm: NgramLM | None = None,
        options: ContextOptions | None = None,
        *,
        lm_scale: float = 1.0,
        room: int = ROOM,
    ) -> None:
        """Create a tracker.

        Args:
            spelling: Rule that determines how the decoder's units spell words.
            class_lm: N-gram model over words and classes (``@name``).  [default: phrases are only boosted]
            options: Boosts and limits; ``unk_penalty`` is 0 by default, because the decoder scores the spelling.
            lm_scale: Factor applied to the model's log-probabilities, but not to boosts.
            room: Number of phrase words that can be added to the class model's words.

        Raises:
            VocabularyError: The class model has no ``<unk>``.
        """
        if class_lm is not None and class_lm.unk is None:
            raise VocabularyError(
                "the class model has no <unk>, but a decoder may spell any word; train the model with <unk>",
                class_lm.vocabulary.path,
            )
        options = options or ContextOptions()
        self.spelling = spelling
        self.options = options if options.unk_penalty is not None else replace(options, unk_penalty=0.0)
        self._class_lm = class_lm
        self._lm_scale = lm_scale
        words = [] if class_lm is None else [word for word, _ in class_lm.vocabulary]
        self._known = sorted(word for word in words if word not in MARKS and not is_class(word))
        self._classes = set() if class_lm is None else {word for word, _ in class_words(class_lm)}
        self._compiled: WeakKeyDictionary[PhraseList, PartialBoosts] = WeakKeyDictionary()  # cache for shared lists
        self._make_vocabulary(room)
        self._forget()

    def _make_vocabulary(self, room: int) -> None:
        self._room = room
        self._words = OpenVocabulary(self._known, room=room)
        self._tracker = Tracker(self._words, self._class_lm, self.options, lm_scale=self._lm_scale)
        self._compiled.clear()

    def _forget(self) -> None:
        self._utterances: list[tuple[PartialBoosts, ...]] = []
        self._states: list[_State] = []
        self._boosts: list[float] = []  # boost of each state's unfinished word
        self._number: dict[_State, int] = {}
        self._steps: dict[int, tuple[int, float]] = {}  # state · num_units + unit -> next state, score
        self._ends: dict[int, tuple[_State | None, float]] = {}  # state -> the state with its word finished, score

    @exclusive
    def clear(self) -> None:
        """Discard all states; if less than half of the room for phrase words is free, also discard these words."""
        self._tracker.clear()
        self._forget()
        if self._words.room < self._room // 2:
            in_use = set[str]().union(*(boosts.words for boosts in self._compiled.values()))
            self._make_vocabulary(max(self._room, 4 * len(in_use)))

    @exclusive
    def start(self, lists: Sequence[PhraseList] = ()) -> int:
        """Return the initial state for an utterance with the given phrase lists."""
        self._utterances.append(tuple(self._boosts_of(phrases) for phrases in lists))
        return self._intern(_State(len(self._utterances) - 1, self._tracker.start(lists), (), ""))

    def _boosts_of(self, phrases: PhraseList) -> PartialBoosts:
        boosts = self._compiled.get(phrases)
        if boosts is None:
            boosts = PartialBoosts(phrases, self.options, self._classes)
            self._words.add(sorted(boosts.words))
            if phrases.name:
                self._compiled[phrases] = boosts
        return boosts

    @exclusive
    def advance(
        self, states: npt.NDArray[np.int64], units: npt.NDArray[np.int32]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Advance states by one unit each; see `Tracker.advance`. Silent units do not change a state.

        Scores include partial boosts. If a unit begins a new word, and the class model does not allow the completed
        word, the new state is -1 and the score is -inf.
        """
        states, units = np.asarray(states, np.int64), np.asarray(units, np.int64)
        if states.ndim != 1 or states.shape != units.shape:
            raise OptionError(f"states have shape {states.shape} and units {units.shape}; both must have shape [n]")
        num_units = len(self.spelling)
        if units.size and not 0 <= units.min() <= units.max() < num_units:
            bad = units[(units < 0) | (units >= num_units)][0]
            raise OptionError(f"unit {bad} is out of range; there are {num_units} units")
        self._check(states)
        get = self._steps.get
        steps = [get(key) or self._step(key) for key in (states * num_units + units).tolist()]
        after = np.fromiter((state for state, _ in steps), np.int64, len(steps))
        return after, np.fromiter((gain for _, gain in steps), np.float32, len(steps))

    @exclusive
    def final(self, states: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Return the score of finishing the last word and ending the sentence in each state, float32 [n].

        The partial boost of the last word is subtracted.
        """
        states = np.asarray(states, np.int64)
        self._check(states)
        ends = [self._end(state) for state in states.tolist()]
        is_allowed = np.array([end is not None for end, _ in ends], np.bool_)
        gain = np.fromiter((gain for _, gain in ends), np.float64, len(ends))
        words = np.array([end.words for end, _ in ends if end is not None], np.int64)
        gain[is_allowed] += self._tracker.final(words)
        return gain.astype(np.float32)

    @exclusive
    def matches(self, start: int, units: Sequence[int]) -> list[Match]:
        """Return the phrases in a unit sequence; positions are word indices. See `Tracker.matches`."""
        words = np.array([self._id(word) for word in self.spelling.words(units)], np.int32)
        return self._tracker.matches(self._states[start].words, words)

    def spell(self, units: Sequence[int]) -> list[str]:
        """Return the words that a unit sequence spells."""
        return self.spelling.words(units)

    def unspellable(self, lists: Sequence[PhraseList]) -> tuple[str, ...]:
        """Return the distinct phrases that are never found because the units cannot spell one of their words."""
        texts = dict.fromkeys(phrase.text for phrases in lists for _, phrase in phrases)
        words = {word for text in texts for word in text.split()}
        unspellable = {word for word in words if not self.spelling.can_spell(word)}
        return tuple(text for text in texts if not unspellable.isdisjoint(text.split()))

    def _check(self, states: npt.NDArray[np.int64]) -> None:
        if states.size and not 0 <= states.min() <= states.max() < len(self._states):
            bad = states[(states < 0) | (states >= len(self._states))][0]
            raise OptionError(
                f"{bad} is not a state of this tracker; use states that it returned since the last `clear`"
            )

    def _id(self, word: str) -> int:
        number = self._words.id(word)
        return self._words.UNKNOWN if number is None else number

    def _step(self, key: int) -> tuple[int, float]:
        """Return the next state and the score after a unit, and cache both; `key` is state · number of units + unit."""
        number, unit = divmod(key, len(self.spelling))
        before: _State | None
        if self.spelling.silent[unit]:
            step = number, 0.0
        else:
            if self.spelling.begins[unit]:
                before, gain = self._end(number)
            else:
                before, gain = self._states[number], -self._boosts[number]
            step = -1, gain
            if before is not None:
                after = self._intern(before._replace(text=self._longer(before, self.spelling.text[unit])))
                step = after, gain + self._boosts[after]
        self._steps[key] = step
        return step

    def _end(self, number: int) -> tuple[_State | None, float]:
        """Finish the word of a state; return ``(state, score without the partial boost)``.

        The result is ``(None, -inf)`` if the class model does not allow the word.
        """
        if number in self._ends:
            return self._ends[number]
        state = self._states[number]
        end: tuple[_State | None, float] = state, 0.0
        if state.text != "":
            word = self._words.UNKNOWN if state.text is None else self._id(state.text)
            after, gain = self._tracker.advance(np.array([state.words]), np.array([word], np.int32))
            end = None, -np.inf
            if after[0] >= 0:
                ended = state._replace(words=int(after[0]), positions=self._follow(state), text="")
                end = ended, float(gain[0]) - self._boosts[number]
        self._ends[number] = end
        return end

    def _follow(self, state: _State) -> tuple[tuple[int, int], ...]:
        """Return the ``(list, position)`` pairs of the phrases in progress after the current word of a state."""
        if state.text is None:
            return ()
        lists = self._utterances[state.utterance]
        after = ((number, lists[number].follow(at, state.text)) for number, at in self._positions(state))
        return tuple(sorted({(number, position) for number, position in after if position is not None}))

    def _longer(self, state: _State, text: str) -> str | None:
        """Return the unfinished word with `text` appended, or None if no known word begins with the result."""
        if state.text is None:
            return None
        longer = state.text + text
        if not longer or any(longer in boosts.beginnings for boosts in self._utterances[state.utterance]):
            return longer
        at = bisect_left(self._known, longer)
        return longer if at < len(self._known) and self._known[at].startswith(longer) else None

    def _intern(self, state: _State) -> int:
        number = self._number.get(state)
        if number is None:
            number = self._number[state] = len(self._states)
            self._states.append(state)
            lists, text = self._utterances[state.utterance], state.text
            boosts = (lists[at].boost(position, text) for at, position in self._positions(state)) if text else ()
            self._boosts.append(max(boosts, default=0.0))
        return number

    def _positions(self, state: _State) -> Iterator[tuple[int, int]]:
        """Yield the ``(list, position)`` pairs of the phrases that the current word of a state can continue or begin.

        A position is a node in the list's trees of phrases; the word can begin a phrase at a root.
        """
        yield from state.positions
        for number in range(len(self._utterances[state.utterance])):
            for root in PartialBoosts.ROOTS:
                yield number, root
