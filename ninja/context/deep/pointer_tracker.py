"""Scores that a list of phrases adds to a language model's, step by step, for decoders whose units are words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ninja.context.deep.context_lm import ContextLM, ContextMixture
from ninja.context.deep.phrase_list_ids import PhraseListIds, PhraseSet
from ninja.context.deep.pointer import ContextPointer
from ninja.context.entities.lists import PhraseList
from ninja.context.grammar.tracker import Match
from ninja.context.options import ContextOptions
from ninja.errors import OptionError
from ninja.lattice.symbols import EPSILON, SymbolTable
from ninja.lm import LanguageModel
from ninja.lm.protocol import exclusive
from ninja.lm.word_map import MARKS

COPIED = 0.5  # probability from which on a word is taken as one of a phrase
NO_SLOT = -1  # of a history whose words the model has not read yet


class PointerTracker:
    """Follows word histories through a language model with a pointer, as `Tracker` does through a class model.

    A state is an integer for a history. What a word scores is ``context_weight · (ln Q - ln P)``: what the list adds to
    the language model's own log-probability, 0 for an utterance without phrases. With ``scores="all"`` it is ln Q
    itself, for decoders that have no language model. Several threads may use one tracker: they wait for each other.
    """

    def __init__(
        self,
        words: SymbolTable,
        lm: LanguageModel,
        context_model: ContextPointer,
        options: ContextOptions | None = None,
        *,
        scores: str = "gain",
    ) -> None:
        """Make a tracker.

        Args:
            words: The symbols that histories are made of; those of the phrases, too.
            lm: The language model that the pointer was trained for.

        Raises:
            ModelError: It was trained for another one.
            OptionError: ``scores`` is neither ``"gain"`` nor ``"all"``.
        """
        if scores not in ("gain", "all"):
            raise OptionError(f"scores is {scores!r}; it must be gain or all")
        self.words = words
        self.options = options or ContextOptions()
        self._all = scores == "all"
        self._marks = PhraseListIds()
        mixture = ContextMixture(
            ((lm, 1.0),),
            pointer=context_model,
            marks=self._marks,
            gain=self.options.context_weight,
            prior=self.options.context_prior,
        )
        self._lm: ContextLM = mixture.over(words, self.options.unk_penalty, self.options.map_words)
        self._no_word = {EPSILON, *(number for mark in MARKS if (number := words.id(mark)) is not None)}
        self._used: list[PhraseSet | None] = []  # marks live while their histories do
        self._slot: list[int] = []  # the model's slot of each state
        self._from: list[tuple[int, int]] = []  # the state before each, and the word that follows it
        self._state: dict[tuple[int, int], int] = {}

    @exclusive
    def clear(self) -> None:
        """Forget all states."""
        self._lm.release(np.array([slot for slot in self._slot if slot != NO_SLOT], np.int64))
        for each in (self._slot, self._from, self._state, self._used):
            each.clear()

    @exclusive
    def start(self, lists: Sequence[PhraseList] = ()) -> int:
        """Return the state before the first word of an utterance which has these lists of phrases."""
        mark = self._marks.of(lists)
        slots = self._lm.start(1)
        if mark is not None:
            root = slots
            slots = self._lm.advance(root, np.array([mark.number], np.int32))
            self._lm.release(root)
        self._used.append(mark)
        return self._added(-len(self._used), 0, int(slots[0]))

    @exclusive
    def advance(
        self, states: npt.NDArray[np.int64], words: npt.NDArray[np.int32]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Advance by one word from each of some states; see `Tracker.advance`.

        Returns:
            (states, int64 [n]; score of each word in nats, more is better, float32 [n]).
        """
        if np.shape(states) != np.shape(words) or np.ndim(states) != 1:
            shapes = f"{list(np.shape(states))} and {list(np.shape(words))}"
            raise OptionError(f"states and words have the shapes {shapes}, but must both be [n]")
        silent = np.isin(words, list(self._no_word))
        gain = np.zeros(len(states), np.float32)
        gain[~silent] = self._scores(states[~silent], words[~silent])
        after = [
            state if quiet else self._added(state, word, NO_SLOT)
            for state, word, quiet in zip(states.tolist(), words.tolist(), silent.tolist(), strict=True)
        ]
        return np.array(after, np.int64), gain

    @exclusive
    def final(self, states: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Return the score of ending in each of some states, float32 [n]."""
        return self._scores(states, np.full(len(states), self._lm.eos, np.int32))

    @exclusive
    def matches(self, start: int, words: Sequence[int] | npt.NDArray[np.int32]) -> list[Match]:
        """Return the phrases in a sentence whose words are likelier copied than not, from a state that `start` gave."""
        mark = self._used[-self._from[start][0] - 1]
        if mark is None:
            return []
        phrases = {tuple(self.words.ids(text.split(" "))): text for text in mark.texts()}
        classes = {phrase.text: name for each in mark.lists for name, some in each.classes.items() for phrase in some}
        copied, state, said = [], start, [word for word in map(int, words)]
        for word in said:
            if word in self._no_word:
                copied.append(0.0)
                continue
            slots, word_array = self._slots(np.array([state])), np.array([word], np.int32)
            copied.append(float(self._lm.given(slots, word_array)[1][0]))
            state = self._added(state, word, NO_SLOT)
        longest = max(map(len, phrases), default=0)
        found, begin = [], 0
        while begin < len(said):
            ends = (
                end for end in range(min(len(said), begin + longest), begin, -1) if tuple(said[begin:end]) in phrases
            )
            end = next((end for end in ends if np.mean(copied[begin:end]) >= COPIED), None)
            if end is not None:
                text = phrases[tuple(said[begin:end])]
                found.append(Match(begin, end, classes[text], text))
            begin = end or begin + 1
        return found

    def _scores(self, states: npt.NDArray[np.int64], words: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        slots = self._slots(states)
        score = self._lm.logprob(slots, np.ascontiguousarray(words, np.int32))
        return score if self._all else score - self._lm.below(slots, words)

    def _slots(self, states: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the model's slots of states, which it reads when they are first asked about."""
        wanted = list(dict.fromkeys(states.tolist()))
        unread = [state for state in wanted if self._slot[state] == NO_SLOT]
        if unread:
            before = self._slots(np.array([self._from[state][0] for state in unread]))
            made = self._lm.advance(before, np.array([self._from[state][1] for state in unread], np.int32))
            for state, slot in zip(unread, made.tolist(), strict=True):
                self._slot[state] = slot
        return np.array([self._slot[state] for state in states.tolist()], np.int64)

    def _added(self, before: int, word: int, slot: int) -> int:
        found = self._state.setdefault((before, word), len(self._slot))
        if found == len(self._slot):
            self._slot.append(slot)
            self._from.append((before, word))
        return found
