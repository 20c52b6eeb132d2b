"""The contextual grammar: scores of words after a history, by the phrases of an utterance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from ninja import _context
from ninja.context.entities.lists import PhraseList
from ninja.context.grammar.compile import ListCompiler
from ninja.context.options import ContextOptions
from ninja.errors import OptionError, check_range
from ninja.lattice import Lattice
from ninja.lattice.symbols import EPSILON, SymbolTable
from ninja.lm.ngram.classes import is_class
from ninja.lm.ngram.model import NgramLM
from ninja.lm.word_map import MARKS, NO_WORD, WordMap, complete

NO_CLASS = ""  # phrases that are boosted wherever they stand
CLASS_LM, OLD_LM = "the class language model", "the old language model"  # names in messages


@dataclass(frozen=True, slots=True)
class Match:
    """Words of a sentence that were taken as a phrase of the context."""

    begin: int  # first word
    end: int  # word behind the last
    cls: str  # class, "" for none
    text: str


class Tracker:
    """Follows word histories through a contextual grammar.

    A history's state is an integer. It stands for several tokens, grammar states with the score of the best way to
    each: outside all phrases, or in the middle of one or another. Equal sets of tokens are the same integer, so that
    histories which have the same future can be recombined. The score of a word is what the best token gains.

        state = tracker.start(lists)
        states, gains = tracker.advance(states, words)      again and again
        gains += tracker.final(states)                      the sum over a sentence is its score

    Nothing depends on what else the tracker follows.
    """

    def __init__(
        self,
        words: SymbolTable,
        class_lm: NgramLM | None = None,
        options: ContextOptions | None = None,
        *,
        old_lm: NgramLM | None = None,
        lm_scale: float = 1.0,
        compiler: ListCompiler | None = None,
    ) -> None:
        """Make a tracker.

        Args:
            words: The symbols that histories are made of; those of the phrases, too.
            class_lm: N-gram model with class words (``@name``); None: phrases are boosted, and nothing else.
            old_lm: Model of the first pass: outside phrases, the class model is mixed with it linearly, and all scores
                are differences to its own, so that they replace its share of the costs. None: without a first-pass
                model, scores are ``class_weight`` times the class model's log-probability.
            lm_scale: A factor of both models' log-probabilities, but not of boosts: the share that another language
                model leaves them. Without an old model, lattices keep that share of their graph costs, too.
            compiler: Of the lists, for trackers of the same symbols that share what is compiled; None: one of its own.

        Raises:
            OptionError: There is an old model, but no class model; or ``lm_scale`` is no number of 0 or more.
        """
        options = options or ContextOptions()
        check_range("lm_scale", lm_scale, least=0, finite=True)
        if class_lm is None and old_lm is not None:
            raise OptionError("an old language model is of use with a class language model only")
        self.words = words
        self.class_lm = class_lm
        self.options = options
        complete(words, options.unk_penalty, *(lm for lm in (class_lm, old_lm) if lm is not None))
        words = words.snapshot()
        self._compiler = compiler or ListCompiler(words)
        given: dict[str, Any] = {"unk_penalty": options.unk_penalty, "map_words": options.map_words}
        self.class_map = None if class_lm is None else WordMap(words, class_lm, name=CLASS_LM, **given)
        self.old_map = None if old_lm is None else WordMap(words, old_lm, name=OLD_LM, **given)
        self._class_word = {} if class_lm is None else dict(class_words(class_lm))
        alone = class_lm is not None and old_lm is None
        share = options.class_weight if alone else 1.0
        # Of the costs there were: an old model's scores are taken out of them one by one instead.
        self.graph_share = 1.0 if old_lm is not None else lm_scale * (1.0 - options.class_weight if alone else 1.0)
        no_word = np.zeros(words.end_of_ids(), np.uint8)  # leaves a history as it is
        no_word[[EPSILON, *(number for mark in MARKS if (number := words.id(mark)) is not None)]] = 1
        self._tracker = _context.Tracker(
            no_word,
            *_tables(class_lm, self.class_map),
            *_tables(old_lm, self.old_map),
            scale=lm_scale * share,
            class_share=options.class_weight,
            class_boost=options.class_boost,
            keyword_boost=options.keyword_boost,
            max_tokens=options.max_tokens,
        )
        self._names: dict[int, tuple[str, ...]] = {}

    def start(self, lists: Sequence[PhraseList] = ()) -> int:
        """Return the state before the first word of an utterance which has these lists of phrases."""
        wanted: list[tuple[_context.Phrases, int]] = []
        unwanted: list[_context.Phrases] = []
        names: list[str] = []
        for each in self._compiler.of(lists):
            for name, phrases in each.wanted.items():
                wanted.append((phrases, self._class_word.get(name, NO_WORD)))
                names.append(name)
            unwanted += each.unwanted
        state: int = self._tracker.start(wanted, unwanted)
        self._names[state] = tuple(names)
        return state

    def advance(
        self, states: npt.NDArray[np.int64], words: npt.NDArray[np.int32]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Advance by one word from each of some states.

        Args:
            states: Histories, int64 [n].
            words: The symbol that follows each, int32 [n]; epsilons and sentence marks change nothing.

        Returns:
            (states, int64 [n]; score of each word in nats, more is better, float32 [n]), with the boosts of phrases
            begun, and less those of phrases broken off. -1 and -inf where the model does not allow the word.

        Raises:
            OptionError: A state or a symbol that does not exist, or as many states as words there are not.
        """
        if np.shape(states) != np.shape(words) or np.ndim(states) != 1:
            shapes = f"{list(np.shape(states))} and {list(np.shape(words))}"
            raise OptionError(f"states and words have the shapes {shapes}, but must both be [n]")
        after, gain = self._tracker.advance(
            np.ascontiguousarray(states, np.int64), np.ascontiguousarray(words, np.int32)
        )
        return after, gain

    def final(self, states: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Return the score of ending in each of some states, float32 [n]: ``</s>``, partial boosts taken back."""
        score: npt.NDArray[np.float32] = self._tracker.final(np.ascontiguousarray(states, np.int64))
        return score

    def compose(self, lattice: Lattice, start: int) -> tuple[Lattice, npt.NDArray[np.int64]]:
        """Add the costs of the grammar to every path of a lattice, see `add_context`."""
        for word_map in (self.class_map, self.old_map):
            if word_map is not None:
                word_map.of(lattice)
        return self._tracker.compose(lattice, start, self.graph_share, self.options.max_arcs)

    def spell(self, words: Sequence[int]) -> list[str]:
        """Return the words of a sequence of ids."""
        return self.words.spell(words)

    def clear(self) -> None:
        """Forget all states, but keep compiled lists."""
        self._tracker.clear()
        self._names.clear()

    def matches(self, start: int, words: Sequence[int] | npt.NDArray[np.int32]) -> list[Match]:
        """Return the phrases that the best way through a sentence takes, from a state that `start` gave.

        Raises:
            OptionError: `start` never gave that state, or it was forgotten since.
        """
        ids = np.ascontiguousarray(words, np.int32)
        names = self._names.get(start)
        if names is None:
            raise OptionError(f"state {start} begins no utterance; take what `start` gave since the last `clear`")
        return [
            Match(begin, end, names[number], " ".join(self.words.spell(ids[begin:end])))
            for begin, end, number in self._tracker.explain(start, ids)
        ]


@overload
def add_context(
    lattice: Lattice, tracker: Tracker, lists: Sequence[PhraseList] = ..., *, return_arc_map: Literal[False] = False
) -> Lattice: ...
@overload
def add_context(
    lattice: Lattice, tracker: Tracker, lists: Sequence[PhraseList] = ..., *, return_arc_map: Literal[True]
) -> tuple[Lattice, npt.NDArray[np.int64]]: ...
def add_context(
    lattice: Lattice, tracker: Tracker, lists: Sequence[PhraseList] = (), *, return_arc_map: bool = False
) -> Lattice | tuple[Lattice, npt.NDArray[np.int64]]:
    """Give every path of a lattice the score of the contextual grammar.

    States split where the grammar tells histories apart; no path is lost or made. With the ``gain`` of each word by
    `Tracker.advance`, graph costs become

        graph − gain                          with an old language model, or with no class model
        (1 − class_weight) · graph − gain        with a class model alone

    Args:
        lattice: Any lattice; epsilons leave histories alone.
        tracker: The grammar; what it followed before is forgotten.
        return_arc_map: Return also the old arc of each new arc, int64 [num_arcs].

    Returns:
        The expanded lattice; acoustic costs and alignments are as before. States that cannot be reached are left out.

    Raises:
        LatticeError: More than ``max_arcs`` arcs arise.
        ModelError: A model gives a word probability zero.
        SymbolError: A word id is not in the symbol table.
        VocabularyError: A word is unknown to a model without <unk>.

    Source: Chen, Jain, Wang, Seltzer and Fuegen 2018, arXiv:1812.02142 (token passing, class and keyword boosts; there
    in the beam search of an end-to-end model).
    """
    tracker.clear()
    composed, arc_map = tracker.compose(lattice, tracker.start(lists))
    return (composed, arc_map) if return_arc_map else composed


def class_words(lm: NgramLM) -> list[tuple[str, int]]:
    """Return the class words of a model and their ids: ``@name``, ``$name`` and ``<name>`` but for the usual marks."""
    return [(word, number) for word, number in lm.vocabulary if is_class(word)]


def _tables(
    lm: NgramLM | None, word_map: WordMap | None
) -> tuple[object, npt.NDArray[np.int32] | None, npt.NDArray[np.float32] | None, int]:
    if lm is None or word_map is None:
        return None, None, None, 0
    return lm.model, word_map.lm_word, word_map.extra, lm.eos
