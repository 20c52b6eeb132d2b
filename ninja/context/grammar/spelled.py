"""The contextual grammar for decoders whose units are smaller than words."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from ninja.context.entities.lists import PhraseList
from ninja.context.grammar.tracker import Match, Tracker, class_words
from ninja.context.options import ContextOptions
from ninja.errors import OptionError, VocabularyError
from ninja.lattice.symbols import SymbolTable
from ninja.lm.ngram.classes import is_class
from ninja.lm.ngram.model import NgramLM
from ninja.lm.word_map import MARKS

ROOM = 1 << 17  # words of phrases that no model knows

_FREE = "\0"  # begins the placeholder of a word to come; no word has it


class Spelling:
    """Effect of each unit of a decoder on the words before it.

    A unit that begins with the boundary begins a new word, with the rest of it; any other goes on with the word. That
    is the rule of sentencepiece (``▁to`` ``m``), and of characters with a unit for the space, which is nothing but a
    boundary.
    """

    __slots__ = ("_first", "_longest", "_more", "begins", "silent", "text")

    def __init__(self, units: Sequence[str], *, boundary: str = "▁", silent: Collection[str] = ()) -> None:
        """Make a spelling.

        Args:
            units: The decoder's units by number.
            boundary: Beginning of a unit that begins a word: ``"▁"`` for sentencepiece, ``" "`` or ``"|"`` for
                characters.
            silent: Units that are no part of words, such as ``<blank>``, ``<s>``, ``</s>`` and ``<pad>``.

        Raises:
            OptionError: There is no boundary, a unit is empty, or a silent unit is not among the units.
        """
        if not boundary:
            raise OptionError('boundary is empty, but words begin with it; give one such as "▁" or " "')
        lacking = sorted(set(silent) - set(units))
        if lacking:
            raise OptionError(f"silent names {lacking[0]!r}, which is none of the {len(units)} units")
        empty = next((number for number, unit in enumerate(units) if not unit and unit not in silent), None)
        if empty is not None:
            raise OptionError(f"unit {empty} is empty; if it is no part of words, name it in silent")
        self.silent = tuple(unit in silent for unit in units)
        self.begins = tuple(unit.startswith(boundary) and unit not in silent for unit in units)
        self.text = tuple("" if unit in silent else unit.removeprefix(boundary) for unit in units)
        pairs = set(zip(self.text, self.begins, strict=True))
        self._first = {text for text, begins in pairs if begins}  # texts that words may begin with
        self._more = {text for text, begins in pairs if text and not begins}  # and continue with
        self._longest = max(map(len, self.text), default=0)

    def __len__(self) -> int:
        return len(self.text)

    def words(self, units: Iterable[int]) -> list[str]:
        """Return the words that some units make."""
        words = [""]
        for unit in units:
            if not 0 <= unit < len(self):
                raise OptionError(f"unit {unit} is none of the {len(self)} units")
            if self.begins[unit]:
                words.append("")
            words[-1] += self.text[unit]
        return [word for word in words if word]

    def can_spell(self, word: str) -> bool:
        """Tell whether units can make a word."""
        reached = {end for end in range(len(word) + 1) if end == 0 or word[:end] in self._first}
        for end in range(1, len(word) + 1):
            begins = range(max(0, end - self._longest), end)
            if any(begin in reached and word[begin:end] in self._more for begin in begins):
                reached.add(end)
        return len(word) in reached


class OpenVocabulary(SymbolTable):
    """A symbol table that words can be added to; id 0 is epsilon, id 1 stands for all words it lacks."""

    __slots__ = ("_next", "_room")

    UNKNOWN = 1

    def __init__(self, words: Iterable[str] = (), *, room: int) -> None:
        """Make a table of different words; `room` more have ids from the start, so that tables made for it fit."""
        fixed = ["<eps>", _FREE, *words]
        super().__init__((word, number) for number, word in enumerate(fixed))
        self._next = len(fixed)
        self._room = room
        for number in range(len(fixed), len(fixed) + room):
            self._word[number] = f"{_FREE}{number}"
            self._id[f"{_FREE}{number}"] = number

    @property
    def room(self) -> int:
        """Number of words that may still be added."""
        return len(self._word) - self._next

    def add(self, words: Iterable[str]) -> None:
        """Take in those words that the table lacks."""
        new = [word for word in dict.fromkeys(words) if word not in self._id]
        if len(new) > self.room:
            raise OptionError(f"{len(new)} more words, but there are ids for {self.room} only; give a larger `room`")
        for number, word in enumerate(new, start=self._next):
            del self._id[self._word[number]]
            self._id[word] = number
            self._word[number] = word
        self._next += len(new)


class PartialBoosts:
    """The phrases of one list as two trees of words; each position knows how the words that go on from it begin.

    The first k of the n letters of a word get the share k / n of the boost that the whole word brings its phrase, so
    that the boost is complete when the word is. Phrases of negative weight boost no letters.
    """

    ROOTS = (0, 1)  # positions before phrases that are boosted where they stand, and before those of a class

    def __init__(self, phrases: PhraseList, options: ContextOptions, classes: Container[str] = ()) -> None:
        """Make the trees; `classes` are those of the class model."""
        self._next: list[dict[str, int]] = [{}, {}]
        weight: dict[int, float] = {}  # of the best phrase through a position
        self.words: set[str] = set()  # of all phrases
        for name, members in phrases.classes.items():
            root = self.ROOTS[name in classes]
            for phrase in members:
                position = root
                for word in phrase.text.split():
                    position = self._next[position].setdefault(word, len(self._next))
                    if position == len(self._next):
                        self._next.append({})
                    self.words.add(word)
                    weight[position] = max(phrase.weight, weight.get(position, 0.0))
        self.beginnings = {word[:end] for word in self.words for end in range(1, len(word) + 1)}
        self._gained = [0.0, options.class_boost] + [0.0] * len(weight)  # by the words up to a position
        for position, after in enumerate(self._next):
            for each in after.values():  # larger than position
                self._gained[each] = self._gained[position] + options.keyword_boost * weight[each]
        self._boosts: dict[int, dict[str, float]] = {}

    def follow(self, position: int, word: str) -> int | None:
        """Return the position after a word, None where no phrase goes on."""
        after = self._next[position].get(word)
        return after if after is not None and self._next[after] else None

    def boost(self, position: int, text: str) -> float:
        """Return the boost of the letters of an unfinished word, nats ≥ 0."""
        if position in self._boosts:
            return self._boosts[position].get(text, 0.0)
        boosts: dict[str, float] = {}
        before = max(self._gained[position], 0.0) if position not in self.ROOTS else 0.0
        for word, after in self._next[position].items():
            boost = self._gained[after] - before  # a phrase that has not gained anything yet is not the best reading
            if boost > 0:
                for end in range(1, len(word) + 1):
                    boosts[word[:end]] = max(boosts.get(word[:end], 0.0), boost * end / len(word))
        self._boosts[position] = boosts
        return boosts.get(text, 0.0)


class _State(NamedTuple):
    """State of a history of units; equal ones have the same future."""

    utterance: int
    words: int  # state of the tracker of words
    positions: tuple[tuple[int, int], ...]  # (list, position) of the phrases begun
    text: str | None  # of the unfinished word; None: one that nothing knows


class SpelledTracker:
    """Follows histories of a decoder's units through a contextual grammar of words.

    To use like a `Tracker`. A word is scored when the next one begins, or at the end; until then its letters get a part
    of the boost that it would bring if it went on with a phrase, which is taken back with the word. So the scores of
    the units of a sentence have the same sum as those of its words.

    The vocabulary is open. Words of phrases are taken in as they come, whether or not the class model knows them; all
    others that it lacks are one word, its ``<unk>``.
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
        """Make a tracker.

        Args:
            spelling: What the decoder's units do to words.
            class_lm: N-gram model over words, with class words (``@name``); None: phrases are boosted, nothing else.
            options: Boosts and limits; without an ``unk_penalty`` there is none, for it is the decoder that spells.
            lm_scale: A factor of the model's log-probabilities, but not of boosts.
            room: How many words the phrases may have beyond those of the class model.

        Raises:
            VocabularyError: The class model has no ``<unk>``.
        """
        if class_lm is not None and class_lm.unk is None:
            raise VocabularyError(
                "the class model has no <unk>, but a decoder may spell any word; train it with one",
                class_lm.vocabulary.path,
            )
        options = options or ContextOptions()
        self.spelling = spelling
        self.options = options if options.unk_penalty is not None else replace(options, unk_penalty=0.0)
        self._class_lm = class_lm
        self._lm_scale = lm_scale
        known = [] if class_lm is None else [word for word, _ in class_lm.vocabulary]
        self._known = sorted(word for word in known if word not in MARKS and not is_class(word))
        self._classes = set() if class_lm is None else {word for word, _ in class_words(class_lm)}
        self._compiled: WeakKeyDictionary[PhraseList, PartialBoosts] = WeakKeyDictionary()  # of shared lists
        self._take_room(room)
        self._forget()

    def _take_room(self, room: int) -> None:
        """Begin with a vocabulary that no phrase has added to."""
        self._room = room
        self._words = OpenVocabulary(self._known, room=room)
        self._tracker = Tracker(self._words, self._class_lm, self.options, lm_scale=self._lm_scale)
        self._compiled.clear()

    def _forget(self) -> None:
        self._utterances: list[tuple[PartialBoosts, ...]] = []
        self._states: list[_State] = []
        self._boosts: list[float] = []  # of each state's unfinished word
        self._number: dict[_State, int] = {}
        self._steps: dict[int, tuple[int, float]] = {}  # state · units + unit -> state after it, score
        self._ends: dict[int, tuple[_State | None, float]] = {}  # state -> the same with its word finished, score

    def clear(self) -> None:
        """Forget all states, and the lists that are no longer in use."""
        self._tracker.clear()
        self._forget()
        if self._words.room < self._room // 2:
            in_use = set[str]().union(*(boosts.words for boosts in self._compiled.values()))
            self._take_room(max(self._room, 4 * len(in_use)))

    def start(self, lists: Sequence[PhraseList] = ()) -> int:
        """Return the state before the first unit of an utterance which has these lists of phrases."""
        self._utterances.append(tuple(self._boosts_of(each) for each in lists))
        return self._intern(_State(len(self._utterances) - 1, self._tracker.start(lists), (), ""))

    def _boosts_of(self, phrases: PhraseList) -> PartialBoosts:
        boosts = self._compiled.get(phrases)
        if boosts is None:
            boosts = PartialBoosts(phrases, self.options, self._classes)
            self._words.add(sorted(boosts.words))
            if phrases.name:
                self._compiled[phrases] = boosts
        return boosts

    def advance(
        self, states: npt.NDArray[np.int64], units: npt.NDArray[np.int32]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Advance by one unit from each of some states, as `Tracker.advance` by one word; silent units change nothing.

        Scores have the partial boosts given and taken back. They are -inf, and states -1, where the class model does
        not allow the word that the unit finishes.
        """
        states, units = np.asarray(states, np.int64), np.asarray(units, np.int64)
        if states.ndim != 1 or states.shape != units.shape:
            raise OptionError(f"states of shape {states.shape} and units of shape {units.shape}; both must be [n]")
        num_units = len(self.spelling)
        if units.size and not 0 <= units.min() <= units.max() < num_units:
            bad = units[(units < 0) | (units >= num_units)][0]
            raise OptionError(f"unit {bad} is none of the {num_units} units")
        self._check(states)
        get = self._steps.get
        found = [get(key) or self._step(key) for key in (states * num_units + units).tolist()]
        after = np.fromiter((state for state, _ in found), np.int64, len(found))
        return after, np.fromiter((gain for _, gain in found), np.float32, len(found))

    def final(self, states: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Return the score of ending in each state, float32 [n]: the last word, ``</s>``, partial boosts taken back."""
        states = np.asarray(states, np.int64)
        self._check(states)
        ends = [self._end(state) for state in states.tolist()]
        allowed = np.array([end is not None for end, _ in ends], np.bool_)
        gain = np.fromiter((gain for _, gain in ends), np.float64, len(ends))
        words = np.array([end.words for end, _ in ends if end is not None], np.int64)
        gain[allowed] += self._tracker.final(words)
        return gain.astype(np.float32)

    def matches(self, start: int, units: Sequence[int]) -> list[Match]:
        """Return the phrases as `Tracker.matches`; they begin and end at words of the sentence, not at units."""
        words = np.array([self._id(word) for word in self.spelling.words(units)], np.int32)
        return self._tracker.matches(self._states[start].words, words)

    def unspellable(self, lists: Sequence[PhraseList]) -> tuple[str, ...]:
        """Return the phrases, each once, with words that the units cannot spell: no hypothesis will have them."""
        texts = dict.fromkeys(each.text for list_ in lists for members in list_.classes.values() for each in members)
        words = {word for text in texts for word in text.split()}
        cannot = {word for word in words if not self.spelling.can_spell(word)}
        return tuple(text for text in texts if not cannot.isdisjoint(text.split()))

    def _check(self, states: npt.NDArray[np.int64]) -> None:
        if states.size and not 0 <= states.min() <= states.max() < len(self._states):
            bad = states[(states < 0) | (states >= len(self._states))][0]
            raise OptionError(f"{bad} is no state of this tracker")

    def _id(self, word: str) -> int:
        number = self._words.id(word)
        return self._words.UNKNOWN if number is None else number

    def _step(self, key: int) -> tuple[int, float]:
        """Work out one step, and keep it."""
        number, unit = divmod(key, len(self.spelling))
        ended: _State | None
        if self.spelling.silent[unit]:
            found = number, 0.0
        else:
            if self.spelling.begins[unit]:
                ended, gain = self._end(number)
            else:
                ended, gain = self._states[number], -self._boosts[number]
            found = -1, gain
            if ended is not None:
                after = self._intern(ended._replace(text=self._longer(ended, self.spelling.text[unit])))
                found = after, gain + self._boosts[after]
        self._steps[key] = found
        return found

    def _end(self, number: int) -> tuple[_State | None, float]:
        """Finish the word of a state and take its partial boost back; None and -inf if the class model forbids it."""
        if number in self._ends:
            return self._ends[number]
        state = self._states[number]
        found: tuple[_State | None, float] = state, 0.0
        if state.text != "":
            word = self._words.UNKNOWN if state.text is None else self._id(state.text)
            after, gain = self._tracker.advance(np.array([state.words]), np.array([word], np.int32))
            found = None, -np.inf
            if after[0] >= 0:
                ended = state._replace(words=int(after[0]), positions=self._follow(state), text="")
                found = ended, float(gain[0]) - self._boosts[number]
        self._ends[number] = found
        return found

    def _follow(self, state: _State) -> tuple[tuple[int, int], ...]:
        """Return the positions after the word of a state."""
        if state.text is None:
            return ()
        lists = self._utterances[state.utterance]
        after = ((number, lists[number].follow(at, state.text)) for number, at in self._positions(state))
        return tuple(sorted({(number, position) for number, position in after if position is not None}))

    def _longer(self, state: _State, text: str) -> str | None:
        """Return the letters of a word with more at its end; None once no known word begins with them."""
        if state.text is None:
            return None
        longer = state.text + text
        if not longer or any(longer in each.beginnings for each in self._utterances[state.utterance]):
            return longer
        at = bisect_left(self._known, longer)
        return longer if at < len(self._known) and self._known[at].startswith(longer) else None

    def _intern(self, state: _State) -> int:
        number = self._number.get(state)
        if number is None:
            number = self._number[state] = len(self._states)
            self._states.append(state)
            lists, text = self._utterances[state.utterance], state.text
            boosts = (lists[each].boost(at, text) for each, at in self._positions(state)) if text else ()
            self._boosts.append(max(boosts, default=0.0))
        return number

    def _positions(self, state: _State) -> Iterator[tuple[int, int]]:
        """Yield the positions from which the word of a state may go on, those before phrases, too."""
        yield from state.positions
        for number in range(len(self._utterances[state.utterance])):
            for root in PartialBoosts.ROOTS:
                yield number, root
