"""The contextual grammar, which scores the words after a history using the phrases of an utterance."""

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
from ninja.lm.protocol import exclusive
from ninja.lm.word_map import MARKS, NO_WORD, WordMap, complete

NO_CLASS = ""  # class of phrases that are boosted after any history
CLASS_LM, OLD_LM = "the class language model", "the old language model"  # names in messages


@dataclass(frozen=True, slots=True)
class Match:
    """A phrase of the context that occurs in a sentence."""

    begin: int  # index of the first word
    end: int  # index of the last word plus 1
    cls: str  # class, "" for a phrase without one
    text: str

    def as_dict(self) -> dict[str, Any]:
        """Return the match as a JSON object."""
        return {"class": self.cls, "text": self.text, "begin": self.begin, "end": self.end}


class Tracker:
    """Tracker of word histories in a contextual grammar.

    The state of a history is an integer that identifies a set of tokens. A token is a state of the grammar, outside all
    phrases or inside a phrase, with the score of the best path to it. Equal sets have the same integer, so that
    histories with the same future can be recombined. The score of a word is the gain of the best token.

        state = tracker.start(lists)
        states, gains = tracker.advance(states, words)      for each word
        gains += tracker.final(states)                      at the end of the sentence

    The score of a sentence is the sum of its gains. Several threads can use one tracker: a call waits while another
    thread calls the tracker, and `clear` deletes the states of all threads.
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
        num_symbols: int | None = None,
    ) -> None:
        """Create a tracker without states.

        Args:
            words: Symbol table of the histories and of the phrases.
            class_lm: N-gram model with class words (``@name``). Without it, phrases are only boosted.
            options: Weights, boosts and limits. Default: ``ContextOptions()``.
            old_lm: N-gram model of the first pass. Outside phrases, it is interpolated linearly with the class model.
                Its log-probabilities are also subtracted from all scores, so that the scores replace its share of the
                costs. Without it, scores are the log-probabilities of the class model times ``class_weight``.
            lm_scale: Factor applied to the log-probabilities of both models, but not to boosts. It is the share of
                the graph costs that remains after rescoring with another language model. Without an old model, it also
                scales the graph costs of lattices.
            compiler: Compiler for the phrase lists; trackers with the same symbols can share it.
            num_symbols: Largest symbol id of histories plus 1, for a table that will grow. Models score only the words
                that the table currently contains.

        Raises:
            OptionError: ``old_lm`` is set without ``class_lm``, or ``lm_scale`` is negative or not finite.
        """
        options = options or ContextOptions()
        check_range("lm_scale", lm_scale, least=0, finite=True)
        if class_lm is None and old_lm is not None:
            raise OptionError("an old language model requires a class language model; pass class_lm, or omit old_lm")
        self.words = words
        self.class_lm = class_lm
        self.options = options
        complete(words, options.unk_penalty, *(lm for lm in (class_lm, old_lm) if lm is not None))
        if num_symbols is None or class_lm is not None:
            words = words.snapshot()
        self._compiler = compiler or ListCompiler(words.ids)
        mapping: dict[str, Any] = {"unk_penalty": options.unk_penalty, "map_words": options.map_words}
        self.class_map = None if class_lm is None else WordMap(words, class_lm, name=CLASS_LM, **mapping)
        self.old_map = None if old_lm is None else WordMap(words, old_lm, name=OLD_LM, **mapping)
        self._class_word = {} if class_lm is None else dict(class_words(class_lm))
        alone = class_lm is not None and old_lm is None
        share = options.class_weight if alone else 1.0
        # Share of the graph costs that is kept: 1 with an old model, because its scores are subtracted word by word.
        self.graph_share = 1.0 if old_lm is not None else lm_scale * (1.0 - options.class_weight if alone else 1.0)
        end = words.end_of_ids() if num_symbols is None or class_lm is not None else num_symbols
        self.num_symbols = max(end, EPSILON + 1)  # an empty table does not even contain epsilon
        no_word = np.zeros(self.num_symbols, np.uint8)  # words that do not change a history
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

    @exclusive
    def start(self, lists: Sequence[PhraseList] = ()) -> int:
        """Return the state before the first word of an utterance with the given phrase lists."""
        boosted: list[tuple[_context.Phrases, int]] = []
        suppressed: list[_context.Phrases] = []
        names: list[str] = []
        for compiled in self._compiler.of(lists):
            for name, phrases in compiled.boosted.items():
                boosted.append((phrases, self._class_word.get(name, NO_WORD)))
                names.append(name)
            suppressed += compiled.suppressed
        state: int = self._tracker.start(boosted, suppressed)
        self._names[state] = tuple(names)
        return state

    @exclusive
    def advance(
        self, states: npt.NDArray[np.int64], words: npt.NDArray[np.int32]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Advance each state by one word.

        Args:
            states: States of the histories, int64 [n].
            words: The symbol id that follows each history, int32 [n]. Epsilons, ``<s>`` and ``</s>`` do not change the
                state.

        Returns:
            The new states, int64 [n], and the scores of the words in nats, float32 [n]; higher is better. Scores
            include the boosts of the phrases that the words continue, and remove the boosts of phrases that the
            words do not continue. Where the model does not allow a word, the state is -1 and the score -inf.

        Raises:
            OptionError: A state or a symbol does not exist, or the shapes differ.
        """
        if np.shape(states) != np.shape(words) or np.ndim(states) != 1:
            shapes = f"{list(np.shape(states))} and {list(np.shape(words))}"
            raise OptionError(f"states and words have the shapes {shapes}, but must both be [n]")
        after, gain = self._tracker.advance(
            np.ascontiguousarray(states, np.int64), np.ascontiguousarray(words, np.int32)
        )
        return after, gain

    @exclusive
    def final(self, states: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Return the score of a sentence end after each history.

        Args:
            states: States of the histories, int64 [n].

        Returns:
            The scores in nats, float32 [n]. They include the score of ``</s>``, and remove the boosts of
            incomplete phrases.
        """
        score: npt.NDArray[np.float32] = self._tracker.final(np.ascontiguousarray(states, np.int64))
        return score

    @exclusive
    def compose(self, lattice: Lattice, start: int) -> tuple[Lattice, npt.NDArray[np.int64]]:
        """Add the costs of the grammar to every path of a lattice; see the function `add_context`.

        Args:
            lattice: The lattice.
            start: Grammar state before the first word of the lattice, as returned by the method `start`.

        Returns:
            The expanded lattice, and the old arc of each new arc, int64 [num_arcs].
        """
        for word_map in (self.class_map, self.old_map):
            if word_map is not None:
                word_map.of(lattice)
        return self._tracker.compose(lattice, start, self.graph_share, self.options.max_arcs)

    def spell(self, words: Sequence[int]) -> list[str]:
        """Return the words of a sequence of ids."""
        return self.words.spell(words)

    @exclusive
    def clear(self) -> None:
        """Delete all states, but keep the compiled phrase lists."""
        self._tracker.clear()
        self._names.clear()

    @exclusive
    def _add_context(self, lattice: Lattice, lists: Sequence[PhraseList]) -> tuple[Lattice, npt.NDArray[np.int64]]:
        """Delete all states, and compose a lattice with the grammar of the given phrase lists; see `compose`."""
        self.clear()
        return self.compose(lattice, self.start(lists))

    @exclusive
    def matches(self, start: int, words: Sequence[int] | npt.NDArray[np.int32]) -> list[Match]:
        """Return the phrases on the grammar's best path through a sentence.

        Args:
            start: A state that `start` returned since the last `clear`.
            words: The word ids of the sentence.

        Raises:
            OptionError: `start` is not the state before the first word of an utterance.
        """
        ids = np.ascontiguousarray(words, np.int32)
        names = self._names.get(start)
        if names is None:
            raise OptionError(
                f"state {start} is not the start of an utterance; use one that `start` returned since the last `clear`"
            )
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
    """Add the score of the contextual grammar to every path of a lattice.

    States are split where the grammar distinguishes histories; the set of paths stays the same. If ``gain`` is the
    score of a word from `Tracker.advance`, its graph cost becomes

        graph − gain                          with an old language model, or with no class model
        (1 − class_weight) · graph − gain        with a class model alone

    Args:
        lattice: The lattice. Epsilons do not change histories.
        tracker: The grammar. Its states are deleted first.
        lists: The phrase lists of the utterance.
        return_arc_map: Also return the old arc of each new arc.

    Returns:
        The expanded lattice without unreachable states, with the same acoustic costs and alignments; if
        ``return_arc_map``, also the old arc of each new arc, int64 [num_arcs].

    Raises:
        LatticeError: The result has more than ``max_arcs`` arcs.
        ModelError: A model assigns probability zero to a word.
        SymbolError: A word id is not in the symbol table.
        VocabularyError: A word is unknown to a model without <unk>.

    Source: Chen, Jain, Wang, Seltzer and Fuegen 2018, arXiv:1812.02142 (token passing, class and keyword boosts; the
    paper applies them in the beam search of an end-to-end model).
    """
    composed, arc_map = tracker._add_context(lattice, lists)
    return (composed, arc_map) if return_arc_map else composed


def class_words(lm: NgramLM) -> list[tuple[str, int]]:
    """Return the class words of a model and their ids.

    Class words are ``@name``, ``$name`` and ``<name>``, but not ``<s>`` and other special words.
    """
    return [(word, number) for word, number in lm.vocabulary if is_class(word)]


def _tables(
    lm: NgramLM | None, word_map: WordMap | None
) -> tuple[object, npt.NDArray[np.int32] | None, npt.NDArray[np.float32] | None, int]:
    if lm is None or word_map is None:
        return None, None, None, 0
    return lm.model, word_map.lm_word, word_map.extra, lm.eos
