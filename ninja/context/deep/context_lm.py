"""A language model that reads an utterance's list of phrases: a frozen model, and a pointer that copies whole phrases.

    outside     α₀(h) · P(w | h), and Σ αᵢ(h) over the phrases i that begin with w
    in phrases  share of the phrases begun so that go on with w

A history's probability mass is outside of phrases, or in nodes of the tree of phrases that its last words lead to; all
ways to read its words are summed. A phrase that ends gives its mass back outside; one that is not finished loses it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from threading import Lock
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import torch

from ninja.context.deep.phrase_list_ids import PhraseListIds, PhraseSet, texts_of
from ninja.context.deep.phrase_tree import END, NOWHERE, UNKNOWN, PhraseTree
from ninja.context.deep.pointer import ContextPointer
from ninja.context.entities.lists import PhraseList
from ninja.lattice.symbols import SymbolTable
from ninja.lm.compute import linear, logsumexp
from ninja.lm.coverage import WordMapping
from ninja.lm.mixture import Mixture, MixtureLM
from ninja.lm.protocol import FIRST_MARK, exclusive

MOST_SCORES = 100_000  # of phrases after histories that exist at once: they stay in the cache
UNMARKED = 0  # of a history without phrases

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Slots = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ContextMixture(Mixture):
    """A language model with a pointer; `over` makes one model of them once the lattices' words are known."""

    pointer: ContextPointer | None = None
    phrase_lists: PhraseListIds | None = None  # of the utterances' phrases
    gain: float = 1.0  # share of ln Q - ln P that is added to the model's ln P; at 1 probabilities sum to 1
    prior: float = 0.0  # added to the log-odds that a phrase is said

    def over(
        self, words: SymbolTable, unk_penalty: float | None = None, map_words: Collection[WordMapping] = ()
    ) -> ContextLM:
        """Return the model over the words of a symbol table, see `ContextLM`."""
        return ContextLM(self, words, unk_penalty, map_words)


class _Keys:
    """Keys of phrases, float32 [phrases, width], whose products with queries are summed.

    Args:
        shared: Many marks have them: they are laid out for products once.
    """

    __slots__ = ("_at_once", "_product")

    def __init__(self, key: torch.Tensor, *, shared: bool) -> None:
        self._at_once = max(1, MOST_SCORES // len(key))
        self._product = linear(key, None) if shared else lambda some: some @ key.T

    def log_sums(self, queries: torch.Tensor) -> Floats:
        """Return ln Σ exp of all products of each query, float32 [queries]."""
        return np.concatenate([logsumexp(self._product(some)) for some in queries.split(self._at_once)])


@dataclass(frozen=True, slots=True)
class _List:
    """The phrases of a mark."""

    tree: PhraseTree
    key: torch.Tensor  # of each phrase, float32 [phrases, width]
    readable: torch.Tensor  # those of the tree, in its order
    parts: tuple[_Keys, ...]  # the keys again, by list; those of a list that many marks have are the same object

    @property
    def offset(self) -> float:
        """Factor of the offset of no phrase."""
        return math.log(max(len(self.key), 1))


@dataclass(frozen=True, slots=True)
class _Part:
    """The phrases of one of the lists that a mark has."""

    row: dict[str, int]  # by text
    words: npt.NDArray[np.int64]  # as `PhraseTree` takes them
    key: torch.Tensor  # float32 [phrases, width]
    keys: _Keys | None  # None: there are no phrases
    num_known: int  # words of the vocabulary by then

    def without(self, others: Sequence[_Part]) -> tuple[npt.NDArray[np.int64], torch.Tensor, _Keys | None]:
        """Return words and keys of the phrases that are in none of some other lists."""
        twice = {text for other in others for text in self.row.keys() & other.row.keys()}
        if not twice:
            return self.words, self.key, self.keys
        rows = [row for text, row in self.row.items() if text not in twice]
        key = self.key[rows]
        return self.words[rows], key, _Keys(key, shared=False) if rows else None


class _Lists:
    """The phrases of marks in use, and of lists, which many marks may have."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.of: WeakKeyDictionary[PhraseSet, _List] = WeakKeyDictionary()
        self.part: WeakKeyDictionary[PhraseList, _Part] = WeakKeyDictionary()


class ContextLM(MixtureLM):
    """A language model with a pointer behind the protocol of `LanguageModel`; its words are those of a symbol table.

    The history of an utterance with phrases begins with their id, see `PhraseListIds`; without an id, the scores are
    those of the language model below, bit for bit.
    """

    def __init__(
        self,
        mixture: ContextMixture,
        words: SymbolTable,
        unk_penalty: float | None = None,
        map_words: Collection[WordMapping] = (),
    ) -> None:
        """Make a model for the words that will be scored; a `ModelError` says that the pointer is another model's."""
        assert mixture.pointer is not None
        assert mixture.phrase_lists is not None
        lm = mixture.models[0][0]
        assert not isinstance(lm, Mixture)
        mixture.pointer.refuse_other(lm)
        self._pointer = mixture.pointer
        self._marks = mixture.phrase_lists
        self._gain, self._prior = mixture.gain, mixture.prior
        self._lists = _Lists()
        self._empty()
        super().__init__(mixture, words, unk_penalty, map_words)
        self.takes_phrases = True
        self.scores_tries = False

    def _empty(self) -> None:
        """Begin without slots."""
        width = self._pointer.network.config.width
        self._mark = np.zeros(0, np.int64)  # number of each slot's mark, [capacity]
        self._outside = np.zeros(0)  # share of the mass that is outside of phrases, [capacity]
        self._node = np.zeros((0, 0), np.int64)  # of phrases begun so many words ago, [capacity, depth]
        self._mass = np.zeros((0, 0))  # share of the mass in each, [capacity, depth]
        self._query = np.zeros((0, width), np.float32)  # [capacity, width], once there is a score of no phrase
        self._total = np.zeros(0)  # log-normaliser of the pointer, [capacity]
        self._no_phrase = np.zeros(0)  # ln α₀, [capacity]; NaN: not computed yet

    def twin(self) -> ContextLM | None:
        """See `LanguageModel.twin`."""
        twin = super().twin()
        if twin is None:
            return None
        assert isinstance(twin, ContextLM)
        twin._empty()
        return twin

    def start(self, count: int) -> np.ndarray:
        """See `LanguageModel.start`."""
        slots = super().start(count)
        self._begin_at(slots, UNMARKED)
        return slots

    def advance(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """See `LanguageModel.advance`; a mark is the first word of a history, if it has one."""
        for number in np.unique(words[words <= FIRST_MARK]).tolist():
            self._deepen(self._list(number).tree.depth)  # before any slot is made
        new = super().advance(slots, words)
        marked = words <= FIRST_MARK
        self._begin_at(new, np.where(marked, words, self._mark[slots]))
        try:
            self._read(slots[~marked], words[~marked], new[~marked])
        except BaseException:
            self.release(new)
            raise
        return new

    def logprob(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """See `LanguageModel.logprob`."""
        score = super().logprob(slots, words)
        at = np.flatnonzero((self._mark[slots] != UNMARKED) & (words > FIRST_MARK))
        if len(at):
            below = score[at].astype(np.float64)
            outside, single, longer, inside = self._parts_of(slots[at], words[at], below)
            with np.errstate(divide="ignore"):
                whole = np.logaddexp(outside, np.log(single + longer + inside))
            score[at] = below + self._gain * (whole - below)
        return score

    @exclusive
    def below(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """Return ln P of words without the pointer, float32 [n]."""
        return super().logprob(slots, words)

    @exclusive
    def given(self, slots: np.ndarray, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return ln P of words without the pointer, and the probability that they are copied from phrases, [n] each."""
        below = self.below(slots, words).astype(np.float64)
        outside, single, longer, inside = self._parts_of(slots, words, below)
        copied = single + longer + inside
        return below, copied / (copied + np.exp(outside))

    def _begin_at(self, slots: Slots, marks: Slots | int) -> None:
        self._mark[slots] = marks
        self._outside[slots] = 1.0
        self._node[slots] = NOWHERE
        self._mass[slots] = 0.0
        self._no_phrase[slots] = np.nan

    def _read(self, slots: Slots, words: npt.NDArray[np.int32], new: Slots) -> None:
        """Move the mass of histories along a word, where it is, or comes to be, in phrases."""
        matters = self._mass[slots].any(1)
        node = np.full(len(slots), NOWHERE)
        for each, rows in self._by_list(slots):
            node[rows] = each.tree.entered(words[rows])
        at = np.flatnonzero(matters | (node != NOWHERE))
        if not len(at):
            return
        slots, words, new, node = slots[at], words[at], new[at], node[at]
        below = super().logprob(slots, words).astype(np.float64)
        outside, single, longer, _ = self._parts_of(slots, words, below)
        free = np.exp(outside) + single
        made_node = np.full(self._node[slots].shape, NOWHERE)
        made_mass = np.zeros(self._mass[slots].shape)
        made_node[:, 0], made_mass[:, 0] = node, longer
        for each, rows in self._by_list(slots):
            mass = self._mass[slots[rows]]
            ends, goes_on, child = each.tree.steps(self._node[slots[rows]], words[rows, None])
            free[rows] += (mass * ends).sum(1)
            made_node[rows, 1:], made_mass[rows, 1:] = child[:, :-1], (mass * goes_on)[:, :-1]
        total = free + made_mass.sum(1)
        possible = total > 0  # less than the least number is none
        total = np.where(possible, total, 1.0)
        self._outside[new] = np.where(possible, free / total, 1.0)
        self._node[new], self._mass[new] = made_node, made_mass / total[:, None]

    def _parts_of(
        self, slots: Slots, words: npt.NDArray[np.int32], below: Doubles
    ) -> tuple[Doubles, Doubles, Doubles, Doubles]:
        """Return how words of marked histories come about.

        Args:
            below: ln P of each word in the model below.

        Returns:
            Log-probability outside of phrases; probabilities as a phrase of one word, as the first word of a longer
            one, and as a later word of one; float64 [n] each.
        """
        self._point(slots)
        single, longer, inside = np.zeros(len(slots)), np.zeros(len(slots)), np.zeros(len(slots))
        for each, rows in self._by_list(slots):
            of, asked = slots[rows], words[rows]
            begin, end = each.tree.entries(asked)
            count = end - begin
            which = np.repeat(np.arange(len(rows)), count)
            if len(which):
                place = np.arange(len(which)) + np.repeat(begin - np.cumsum(count) + count, count)
                key = each.key[each.readable[place]].numpy()
                log_share = np.einsum("nk,nk->n", self._query[of[which]], key) - self._total[of[which]]
                share = np.exp(log_share) * self._outside[of[which]]
                is_word = each.tree.is_word[place]
                single[rows] = np.bincount(which, share * is_word, len(rows))
                longer[rows] = np.bincount(which, share * ~is_word, len(rows))
            mass = self._mass[of]
            if mass.any():
                ends, goes_on, _ = each.tree.steps(self._node[of], asked[:, None])
                inside[rows] += (mass * (ends + goes_on)).sum(1)
        with np.errstate(divide="ignore"):
            outside = np.log(self._outside[slots]) + self._no_phrase[slots] + below
        return outside, single, longer, inside

    @torch.inference_mode()
    def _point(self, slots: Slots) -> None:
        """Compute queries and normalisers of marked histories that lack them."""
        missing = np.unique(slots[np.isnan(self._no_phrase[slots])])
        if not len(missing):
            return
        network = self._pointer.network
        query, no_phrase = network.queries(torch.from_numpy(np.ascontiguousarray(self.states(missing))))
        self._query[missing] = query.numpy()
        alone, offset = no_phrase.double().numpy() - self._prior, float(network.offset)
        asked: dict[_Keys, list[Slots]] = {}
        for each, rows in self._by_list(missing):
            alone[rows] += offset * each.offset
            for keys in each.parts:
                asked.setdefault(keys, []).append(rows)
        total = alone.copy()
        for keys, parts in asked.items():
            rows = np.concatenate(parts)
            total[rows] = np.logaddexp(total[rows], keys.log_sums(query[torch.from_numpy(rows)]))
        self._total[missing] = total
        self._no_phrase[missing] = alone - total

    def _by_list(self, slots: Slots) -> Iterator[tuple[_List, npt.NDArray[np.int64]]]:
        """Yield each list of some histories, and the histories that have it."""
        marks = self._mark[slots]
        order = np.argsort(marks, kind="stable")
        numbers, begin = np.unique(marks[order], return_index=True)
        end = np.append(begin, len(order))[1:]
        for number, first, last in zip(numbers.tolist(), begin, end, strict=True):
            if number != UNMARKED:
                yield self._list(number), order[first:last]

    def _list(self, number: int) -> _List:
        """Return the phrases of a mark, encoded when it is first met."""
        mark = self._marks.numbered(number)
        found = self._lists.of.get(mark)
        if found is not None:
            return found
        with self._lists.lock:
            parts = sorted(map(self._part_of, mark.lists), key=lambda part: -len(part.row))
            words, key, keys = zip(*(part.without(parts[:at]) for at, part in enumerate(parts)), strict=True)
            longest = max(each.shape[1] for each in words)
            padded = [np.pad(each, ((0, 0), (0, longest - each.shape[1])), constant_values=END) for each in words]
            tree = PhraseTree(np.concatenate(padded))
            some = tuple(each for each in keys if each is not None)
            found = _List(tree, torch.cat(key), torch.from_numpy(tree.phrase), some)
            self._lists.of[mark] = found
        return found

    def _part_of(self, phrases: PhraseList) -> _Part:
        """Return the phrases of a list, encoded when it is first met, or met with words that were unknown then."""
        part = self._lists.part.get(phrases)
        if part is None or (part.num_known != len(self.vocabulary) and (part.words == UNKNOWN).any()):
            texts = texts_of((phrases,))
            spelled = [text.split(" ") for text in texts]
            length = np.array([len(each) for each in spelled], np.int64)
            words = np.full((len(texts), int(length.max(initial=1))), END)
            ids = self.vocabulary.ids([word for each in spelled for word in each])
            words[np.arange(words.shape[1]) < length[:, None]] = ids
            row = {text: at for at, text in enumerate(texts)}
            key = self._keys_of(texts, words[:, 0], length)
            keys = _Keys(key, shared=bool(phrases.name)) if texts else None
            part = _Part(row, words, key, keys, len(self.vocabulary))
            self._lists.part[phrases] = part
        return part

    @torch.inference_mode()
    def _keys_of(self, texts: list[str], first: Slots, length: Slots) -> torch.Tensor:
        """Return the keys of phrases, by their first words and lengths; the pointer keeps them for other lists."""
        if not texts:
            return torch.zeros(0, self._pointer.network.config.width)
        known = first != UNKNOWN
        first = np.where(known, first, self.eos).astype(np.int32)

        def made(places: list[int]) -> Floats:
            vector = self._pointer.encoder.vectors([texts[place] for place in places], [()] * len(places))
            first_word = np.where(known[places, None], self.word_vectors(first[places]), np.float32(0))
            num_words = torch.from_numpy(length[places]).float()
            keys = self._pointer.network.keys(torch.from_numpy(vector), torch.from_numpy(first_word), num_words)
            return np.asarray(keys)

        # The word of a lattice may come to be another of the model's, by the map of its words.
        model_word = np.where(known, self._parts[0].word[first], UNKNOWN).tolist()
        return torch.from_numpy(self._pointer.keys.get(list(zip(texts, model_word, strict=True)), made))

    def _deepen(self, depth: int) -> None:
        """Make room for longer phrases."""
        spare = max(0, depth - self._node.shape[1])
        self._node = np.pad(self._node, ((0, 0), (0, spare)), constant_values=NOWHERE)
        self._mass = np.pad(self._mass, ((0, 0), (0, spare)))

    def _grow(self, capacity: int) -> None:
        super()._grow(capacity)
        old = len(self._mark)
        spare = capacity - old
        self._mark = np.append(self._mark, np.zeros(spare, np.int64))
        self._outside = np.append(self._outside, np.ones(spare))
        self._total = np.append(self._total, np.zeros(spare))
        self._no_phrase = np.append(self._no_phrase, np.full(spare, np.nan))
        self._query = np.concatenate([self._query, np.zeros((spare, self._query.shape[1]), np.float32)])
        self._node = np.pad(self._node, ((0, spare), (0, 0)), constant_values=NOWHERE)
        self._mass = np.pad(self._mass, ((0, spare), (0, 0)))
