"""The class `PointerTracker`, which scores words with a context model step by step, for word-level decoders."""

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

COPIED = 0.5  # minimum mean copy probability of words that are reported as a phrase
NO_SLOT = -1  # marks states whose last word the model has not read yet


class PointerTracker:
    """Tracker for word histories, with a language model and a pointer; it has the same interface as `Tracker`.

    A state is an integer that represents a history. The score of a word is ``context_weight · (ln Q - ln P)``, where P
    is the word's probability under the language model, and Q its probability given the phrases. The score is 0 for
    utterances without phrases. With ``scores="all"``, the score is ln Q, for decoders without a language model. Threads
    that share a tracker wait for each other.
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
        """Create a tracker.

        Args:
            words: The symbol table for histories and phrases.
            lm: The language model for which the pointer was trained.
            context_model: The pointer and its encoder.
            options: Weights; boosts are not used.
            scores: ``"gain"`` or ``"all"``; see `PointerTracker`.

        Raises:
            ModelError: The pointer was trained for another language model.
            OptionError: ``scores`` is neither ``"gain"`` nor ``"all"``.
        """
        if scores not in ("gain", "all"):
            raise OptionError(f"scores is {scores!r}, but must be gain or all")
        self.words = words
        self.options = options or ContextOptions()
        self._all = scores == "all"
        self._ids = PhraseListIds()
        mixture = ContextMixture(
            ((lm, 1.0),),
            pointer=context_model,
            phrase_lists=self._ids,
            gain=self.options.context_weight,
            prior=self.options.context_prior,
        )
        self._lm: ContextLM = mixture.over(words, self.options.unk_penalty, self.options.map_words)
        self._silent = [EPSILON, *(number for mark in MARKS if (number := words.id(mark)) is not None)]
        self._started: list[PhraseSet | None] = []  # prevents garbage collection of phrases in use
        self._slot: list[int] = []  # slot of each state in the model
        self._origin: list[tuple[int, int]] = []  # previous state and last word of each state
        self._state: dict[tuple[int, int], int] = {}

    @exclusive
    def clear(self) -> None:
        """Discard all states."""
        self._lm.release(np.array([slot for slot in self._slot if slot != NO_SLOT], np.int64))
        for of_states in (self._slot, self._origin, self._state, self._started):
            of_states.clear()

    @exclusive
    def start(self, lists: Sequence[PhraseList] = ()) -> int:
        """Return the initial state for an utterance with the given phrase lists."""
        phrases = self._ids.of(lists)
        slots = self._lm.start(1)
        if phrases is not None:
            root = slots
            slots = self._lm.advance(root, np.array([phrases.number], np.int32))
            self._lm.release(root)
        self._started.append(phrases)
        return self._add(-len(self._started), 0, int(slots[0]))

    @exclusive
    def advance(
        self, states: npt.NDArray[np.int64], words: npt.NDArray[np.int32]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Advance states by one word each; see `Tracker.advance`.

        Returns:
            The new states, int64 [n], and the word scores in nats (higher is better), float32 [n].
        """
        if np.shape(states) != np.shape(words) or np.ndim(states) != 1:
            shapes = f"{list(np.shape(states))} and {list(np.shape(words))}"
            raise OptionError(f"states and words have shapes {shapes}; both must have shape [n]")
        is_silent = np.isin(words, self._silent)
        gain = np.zeros(len(states), np.float32)
        gain[~is_silent] = self._scores(states[~is_silent], words[~is_silent])
        after = [
            state if silent else self._add(state, word, NO_SLOT)
            for state, word, silent in zip(states.tolist(), words.tolist(), is_silent.tolist(), strict=True)
        ]
        return np.array(after, np.int64), gain

    @exclusive
    def final(self, states: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Return the score of ending a sentence in each state, float32 [n]."""
        return self._scores(states, np.full(len(states), self._lm.eos, np.int32))

    @exclusive
    def matches(self, start: int, words: Sequence[int] | npt.NDArray[np.int32]) -> list[Match]:
        """Return the phrases in a sentence that have a mean copy probability of at least `COPIED` per word.

        Args:
            start: The initial state for the utterance, as returned by the method `start`.
            words: Word ids of the sentence.
        """
        phrase_set = self._started[-self._origin[start][0] - 1]
        if phrase_set is None:
            return []
        phrases = {tuple(self.words.ids(text.split(" "))): text for text in phrase_set.texts()}
        classes = {phrase.text: name for phrase_list in phrase_set.lists for name, phrase in phrase_list}
        sentence = [int(word) for word in words]
        copied, state = [], start
        for word in sentence:
            if word in self._silent:
                copied.append(0.0)
                continue
            slots = self._slots(np.array([state]))
            copied.append(float(self._lm.with_copy_probability(slots, np.array([word], np.int32))[1][0]))
            state = self._add(state, word, NO_SLOT)
        longest = max(map(len, phrases), default=0)
        matches, begin = [], 0
        while begin < len(sentence):
            for end in range(min(len(sentence), begin + longest), begin, -1):
                text = phrases.get(tuple(sentence[begin:end]))
                if text is not None and np.mean(copied[begin:end]) >= COPIED:
                    matches.append(Match(begin, end, classes[text], text))
                    begin = end
                    break
            else:
                begin += 1
        return matches

    def spell(self, words: Sequence[int]) -> list[str]:
        """Return the words with the given ids."""
        return self.words.spell(words)

    def _scores(self, states: npt.NDArray[np.int64], words: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        slots = self._slots(states)
        score = self._lm.logprob(slots, np.ascontiguousarray(words, np.int32))
        return score if self._all else score - self._lm.below(slots, words)

    def _slots(self, states: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the model's slots for states; a slot is computed on first use."""
        unread = [state for state in dict.fromkeys(states.tolist()) if self._slot[state] == NO_SLOT]
        if unread:
            before = self._slots(np.array([self._origin[state][0] for state in unread]))
            slots = self._lm.advance(before, np.array([self._origin[state][1] for state in unread], np.int32))
            for state, slot in zip(unread, slots.tolist(), strict=True):
                self._slot[state] = slot
        return np.array([self._slot[state] for state in states.tolist()], np.int64)

    def _add(self, before: int, word: int, slot: int) -> int:
        state = self._state.setdefault((before, word), len(self._slot))
        if state == len(self._slot):
            self._slot.append(slot)
            self._origin.append((before, word))
        return state
