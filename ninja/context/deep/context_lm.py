"""A language model conditioned on an utterance's phrase list: a frozen model, and a pointer that copies phrases.

    outside phrases  α₀(h) · P(w | h), plus Σ αᵢ(h) over the phrases i that begin with w
    inside phrases   share of the phrases in progress that continue with w

The pointer assigns the weight αᵢ(h) to phrase i after the history h, and the weight α₀(h) to "no phrase"; the
weights sum to 1. The probability mass of a history is divided among its parses: in each parse, the last words
are outside phrases or lead to a node of the phrase tree. The probability of a word is the sum over all
parses. When a phrase ends, its mass moves outside; the mass of phrases that do not continue with the next
word is lost.
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
from ninja.lattice.text import NONE, Normalizer
from ninja.lm.compute import linear, logsumexp
from ninja.lm.lexical import LexicalLM
from ninja.lm.mixture import Mixture, MixtureLM
from ninja.lm.protocol import FIRST_MARK, exclusive
from ninja.lm.word_map import WordMapping

MAX_SCORES = 100_000  # maximum number of (history, phrase) scores in a batch, which must fit into the CPU cache
NO_PHRASES = 0  # list id of a history without phrases

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Slots = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ContextMixture(Mixture):
    """A language model and a pointer; `over` combines them into a model for the lattices' words."""

    pointer: ContextPointer | None = None
    phrase_lists: PhraseListIds | None = None  # phrase lists of the utterances
    gain: float = 1.0  # factor applied to ln Q - ln P, the change of log-probabilities due to phrases
    prior: float = 0.0  # bias added to the log-odds of a phrase, nats

    def over(
        self, words: SymbolTable, unk_penalty: float | None = None, map_words: Collection[WordMapping] = ()
    ) -> ContextLM:
        """Return the combined model over the words of a symbol table; see `ContextLM`."""
        return ContextLM(self, words, unk_penalty, map_words)


class _Keys:
    """Keys of phrases, and the log-sum-exp of their products with queries.

    Args:
        key: Keys, float32 [phrases, width].
        shared: Whether many utterances use the keys; shared keys are packed once for fast matrix products.
    """

    __slots__ = ("_batch", "_product")

    def __init__(self, key: torch.Tensor, *, shared: bool) -> None:
        self._batch = max(1, MAX_SCORES // len(key))
        self._product = linear(key, None) if shared else lambda queries: queries @ key.T

    def log_sums(self, queries: torch.Tensor) -> Floats:
        """Return the log-sum-exp of the products of each query with all keys, float32 [queries]."""
        return np.concatenate([logsumexp(self._product(batch)) for batch in queries.split(self._batch)])


@dataclass(frozen=True, slots=True)
class _EncodedSet:
    """The encoded phrases of an utterance."""

    tree: PhraseTree
    key: torch.Tensor  # key of each phrase, float32 [phrases, width]
    readable: torch.Tensor  # indices of the phrases in `tree`, in the order of the tree
    parts: tuple[_Keys, ...]  # the same keys by list; keys of shared lists are shared between utterances

    @property
    def offset(self) -> float:
        """ln(number of phrases), the factor of the pointer's offset in the "no phrase" score; 0 without phrases."""
        return math.log(max(len(self.key), 1))


@dataclass(frozen=True, slots=True)
class _EncodedList:
    """The encoded phrases of a list."""

    row: dict[str, int]  # row of each phrase by its text
    words: npt.NDArray[np.int64]  # word ids in the format of `PhraseTree`
    key: torch.Tensor  # float32 [phrases, width]
    keys: _Keys | None  # None if there are no phrases
    num_known: int  # size of the vocabulary when the list was encoded

    def without(self, others: Sequence[_EncodedList]) -> tuple[npt.NDArray[np.int64], torch.Tensor, _Keys | None]:
        """Return the word ids, keys and packed keys (None if no phrase remains) of the phrases not in `others`."""
        duplicates = {text for other in others for text in self.row.keys() & other.row.keys()}
        if not duplicates:
            return self.words, self.key, self.keys
        rows = [row for text, row in self.row.items() if text not in duplicates]
        key = self.key[rows]
        return self.words[rows], key, _Keys(key, shared=False) if rows else None


class _Encoded:
    """Cache of the encoded phrases in use, shared by the copies of a model on different threads."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.sets: WeakKeyDictionary[PhraseSet, _EncodedSet] = WeakKeyDictionary()
        self.lists: WeakKeyDictionary[PhraseList, _EncodedList] = WeakKeyDictionary()


class ContextLM(MixtureLM):
    """`LanguageModel` over the words of a symbol table that combines a language model with a pointer.

    If an utterance has phrases, its histories begin with the id of its phrase list; see `PhraseListIds`. Without an id,
    scores are bit-identical to the underlying language model's scores.
    """

    def __init__(
        self,
        mixture: ContextMixture,
        words: SymbolTable,
        unk_penalty: float | None = None,
        map_words: Collection[WordMapping] = (),
    ) -> None:
        """Create a model for the words of a symbol table; see `MixtureLM` for the arguments.

        Raises:
            ModelError: The pointer was trained for another language model.
        """
        assert mixture.pointer is not None
        assert mixture.phrase_lists is not None
        lm = mixture.models[0][0]
        assert not isinstance(lm, Mixture)
        mixture.pointer.refuse_other(lm)
        self._pointer = mixture.pointer
        self._ids = mixture.phrase_lists
        self._gain, self._prior = mixture.gain, mixture.prior
        self._encoded = _Encoded()
        self._forms = lm.forms if isinstance(lm, LexicalLM) else None
        self._of_form: tuple[int, dict[str, int]] = (0, {})  # size of the vocabulary, and ids of lexical words
        self._empty()
        super().__init__(mixture, words, unk_penalty, map_words)
        self.takes_phrases = True
        self.scores_tries = False

    def _empty(self) -> None:
        width = self._pointer.network.config.width
        self._list = np.zeros(0, np.int64)  # phrase list id of each slot, [capacity]
        self._outside = np.zeros(0)  # fraction of the mass outside phrases, [capacity]
        self._node = np.zeros((0, 0), np.int64)  # nodes of phrases that began 1, 2, … words ago, [capacity, depth]
        self._mass = np.zeros((0, 0))  # fraction of the mass at each node of `_node`, [capacity, depth]
        self._query = np.zeros((0, width), np.float32)  # [capacity, width], valid if `_no_phrase` is not NaN
        self._total = np.zeros(0)  # log-normaliser of the pointer, [capacity]
        self._no_phrase = np.zeros(0)  # ln α₀, [capacity]; NaN if not computed yet

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
        self._reset(slots, NO_PHRASES)
        return slots

    def advance(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """See `LanguageModel.advance`; the first word of a history can be the id of a phrase list."""
        for number in np.unique(words[words <= FIRST_MARK]).tolist():
            self._deepen(self._encoded_set(number).tree.depth)  # before any slot is created
        new = super().advance(slots, words)
        is_id = words <= FIRST_MARK
        self._reset(new, np.where(is_id, words, self._list[slots]))
        try:
            self._read(slots[~is_id], words[~is_id], new[~is_id])
        except BaseException:
            self.release(new)
            raise
        return new

    def logprob(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """See `LanguageModel.logprob`."""
        score = super().logprob(slots, words)
        rows = np.flatnonzero((self._list[slots] != NO_PHRASES) & (words > FIRST_MARK))
        if len(rows):
            below = score[rows].astype(np.float64)
            outside, single, longer, inside = self._ways(slots[rows], words[rows], below)
            with np.errstate(divide="ignore"):
                whole = np.logaddexp(outside, np.log(single + longer + inside))
            score[rows] = below + self._gain * (whole - below)
        return score

    @exclusive
    def below(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """Return ln P of each word in the underlying model, without the pointer, float32 [n]."""
        return super().logprob(slots, words)

    @exclusive
    def with_copy_probability(self, slots: np.ndarray, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return ln P of each word without the pointer, and the probability that the word belongs to a phrase.

        The pointer copies words from phrases; the second value is the fraction of the word's probability that is
        due to copying. Both arrays are float64 [n].
        """
        below = self.below(slots, words).astype(np.float64)
        outside, single, longer, inside = self._ways(slots, words, below)
        copied = single + longer + inside
        total = copied + np.exp(outside)
        return below, np.divide(copied, total, out=np.zeros_like(total), where=total > 0.0)

    def _reset(self, slots: Slots, lists: Slots | int) -> None:
        self._list[slots] = lists
        self._outside[slots] = 1.0
        self._node[slots] = NOWHERE
        self._mass[slots] = 0.0
        self._no_phrase[slots] = np.nan

    def _read(self, slots: Slots, words: npt.NDArray[np.int32], new: Slots) -> None:
        """Compute the probabilities that the histories `new` are outside phrases or at a node of the phrase tree.

        Each history in `new` extends the corresponding history in `slots` by one word.
        """
        is_in_phrase = self._mass[slots].any(1)
        entered = np.full(len(slots), NOWHERE)
        for phrases, rows in self._by_list(slots):
            entered[rows] = phrases.tree.entered(words[rows])
        moved = np.flatnonzero(is_in_phrase | (entered != NOWHERE))
        if not len(moved):
            return
        slots, words, new, entered = slots[moved], words[moved], new[moved], entered[moved]
        below = super().logprob(slots, words).astype(np.float64)
        outside, single, longer, _ = self._ways(slots, words, below)
        free = np.exp(outside) + single
        new_node = np.full(self._node[slots].shape, NOWHERE)  # [n, depth]
        new_mass = np.zeros(self._mass[slots].shape)
        new_node[:, 0], new_mass[:, 0] = entered, longer
        for phrases, rows in self._by_list(slots):
            mass = self._mass[slots[rows]]
            ends, goes_on, child = phrases.tree.steps(self._node[slots[rows]], words[rows, None])
            free[rows] += (mass * ends).sum(1)
            new_node[rows, 1:], new_mass[rows, 1:] = child[:, :-1], (mass * goes_on)[:, :-1]
        total = free + new_mass.sum(1)
        is_possible = total > 0  # the total may underflow
        total = np.where(is_possible, total, 1.0)
        self._outside[new] = np.where(is_possible, free / total, 1.0)
        self._node[new], self._mass[new] = new_node, new_mass / total[:, None]

    def _ways(
        self, slots: Slots, words: npt.NDArray[np.int32], below: Doubles
    ) -> tuple[Doubles, Doubles, Doubles, Doubles]:
        """Return the probabilities of each word's parses after a history with phrases.

        Args:
            slots: Slots of the histories, [n].
            words: The words, [n].
            below: ln P of each word in the underlying model, [n].

        Returns:
            (outside, single, longer, inside), float64 [n] each: the log-probability of the word outside phrases, and
            its probabilities as a one-word phrase, as the first word of a longer phrase, and as a later word of a
            phrase.
        """
        self._point(slots)
        single, longer, inside = np.zeros(len(slots)), np.zeros(len(slots)), np.zeros(len(slots))
        for phrases, rows in self._by_list(slots):
            slot, word = slots[rows], words[rows]
            begin, end = phrases.tree.entries(word)
            count = end - begin
            row = np.repeat(np.arange(len(rows)), count)  # one element for each phrase that begins with the word
            if len(row):
                index = np.arange(len(row)) + np.repeat(begin - np.cumsum(count) + count, count)
                key = phrases.key[phrases.readable[index]].numpy()
                log_share = np.einsum("nk,nk->n", self._query[slot[row]], key) - self._total[slot[row]]
                share = np.exp(log_share) * self._outside[slot[row]]
                is_word = phrases.tree.is_word[index]
                single[rows] = np.bincount(row, share * is_word, len(rows))
                longer[rows] = np.bincount(row, share * ~is_word, len(rows))
            mass = self._mass[slot]
            if mass.any():
                ends, goes_on, _ = phrases.tree.steps(self._node[slot], word[:, None])
                inside[rows] += (mass * (ends + goes_on)).sum(1)
        with np.errstate(divide="ignore"):
            outside = np.log(self._outside[slots]) + self._no_phrase[slots] + below
        return outside, single, longer, inside

    @torch.inference_mode()
    def _point(self, slots: Slots) -> None:
        """Compute the pointer's queries and normalisers for the histories that do not have them yet."""
        missing = np.unique(slots[np.isnan(self._no_phrase[slots])])
        if not len(missing):
            return
        network = self._pointer.network
        query, no_phrase = network.queries(torch.from_numpy(np.ascontiguousarray(self.states(missing))))
        self._query[missing] = query.numpy()
        alone, offset = no_phrase.double().numpy() - self._prior, float(network.offset)
        rows_of: dict[_Keys, list[Slots]] = {}
        for phrases, rows in self._by_list(missing):
            alone[rows] += offset * phrases.offset
            for keys in phrases.parts:
                rows_of.setdefault(keys, []).append(rows)
        total = alone.copy()
        for keys, parts in rows_of.items():
            rows = np.concatenate(parts)
            total[rows] = np.logaddexp(total[rows], keys.log_sums(query[torch.from_numpy(rows)]))
        self._total[missing] = total
        self._no_phrase[missing] = alone - total

    def _by_list(self, slots: Slots) -> Iterator[tuple[_EncodedSet, npt.NDArray[np.int64]]]:
        """Yield (encoded phrases, indices of the histories that use them) for each phrase list of the histories."""
        lists = self._list[slots]
        order = np.argsort(lists, kind="stable")
        numbers, begin = np.unique(lists[order], return_index=True)
        end = np.append(begin, len(order))[1:]
        for number, first, last in zip(numbers.tolist(), begin, end, strict=True):
            if number != NO_PHRASES:
                yield self._encoded_set(number), order[first:last]

    def _encoded_set(self, number: int) -> _EncodedSet:
        """Return the encoded phrases of the phrase set with the given id; encode them on first use."""
        phrase_set = self._ids.numbered(number)
        encoded = self._encoded.sets.get(phrase_set)
        if encoded is not None:
            return encoded
        with self._encoded.lock:
            parts = sorted(map(self._encoded_list, phrase_set.lists), key=lambda part: -len(part.row))
            words, key, keys = zip(*(part.without(parts[:index]) for index, part in enumerate(parts)), strict=True)
            longest = max(ids.shape[1] for ids in words)
            padded = [np.pad(ids, ((0, 0), (0, longest - ids.shape[1])), constant_values=END) for ids in words]
            tree = PhraseTree(np.concatenate(padded))
            shared = tuple(part for part in keys if part is not None)
            encoded = _EncodedSet(tree, torch.cat(key), torch.from_numpy(tree.phrase), shared)
            self._encoded.sets[phrase_set] = encoded
        return encoded

    def _encoded_list(self, phrases: PhraseList) -> _EncodedList:
        """Return the encoded phrases of a list.

        The phrases are encoded on first use. A list with unknown words is encoded again if the vocabulary has grown.
        """
        encoded = self._encoded.lists.get(phrases)
        if encoded is None or (encoded.num_known != len(self.vocabulary) and (encoded.words == UNKNOWN).any()):
            normalizer = NONE if self._forms is None else self._forms.normalizer(None)
            texts = texts_of((phrases,), normalizer)
            spelled = [text.split(" ") for text in texts]
            length = np.array(list(map(len, spelled)), np.int64)
            words = np.full((len(texts), int(length.max(initial=1))), END)
            words[np.arange(words.shape[1]) < length[:, None]] = self._ids_of(
                [word for text in spelled for word in text], normalizer
            )
            key = self._keys_of(texts, words[:, 0], length)
            keys = _Keys(key, shared=bool(phrases.name)) if texts else None
            row = {text: number for number, text in enumerate(texts)}
            encoded = _EncodedList(row, words, key, keys, len(self.vocabulary))
            self._encoded.lists[phrases] = encoded
        return encoded

    def _ids_of(self, words: list[str], normalizer: Normalizer) -> list[int]:
        """Return the ids of lexical words; as in lattices, words with the same form share an id (`merge_forms`)."""
        if normalizer.is_identity:
            return self.vocabulary.ids(words)
        if self._of_form[0] != len(self.vocabulary):
            names = list(self.vocabulary.names)
            ids = dict(zip(names, self.vocabulary.ids(names), strict=True))
            for _, word, form in normalizer.changes(names):
                number = ids.pop(word)
                if len(form) == 1:
                    ids.setdefault(form[0], number)
            self._of_form = len(self.vocabulary), ids
        return [self._of_form[1].get(word, UNKNOWN) for word in words]

    @torch.inference_mode()
    def _keys_of(self, texts: list[str], first: Slots, length: Slots) -> torch.Tensor:
        """Return the cached or new attention keys of phrases with the given texts, first words and lengths in words."""
        if not texts:
            return torch.zeros(0, self._pointer.network.config.width)
        is_known = first != UNKNOWN
        first = np.where(is_known, first, self.eos).astype(np.int32)

        def encode(missing: list[int]) -> Floats:
            vector = self._pointer.encoder.vectors([texts[index] for index in missing], [()] * len(missing))
            first_word = np.where(is_known[missing, None], self.word_vectors(first[missing]), np.float32(0))
            num_words = torch.from_numpy(length[missing]).float()
            keys = self._pointer.network.keys(torch.from_numpy(vector), torch.from_numpy(first_word), num_words)
            return np.asarray(keys)

        # Symbol tables may map the same word to different words of the model.
        model_word = np.where(is_known, self._parts[0].word[first], UNKNOWN).tolist()
        return torch.from_numpy(self._pointer.keys.get(list(zip(texts, model_word, strict=True)), encode))

    def _deepen(self, depth: int) -> None:
        """Extend the arrays of nodes and masses to `depth` columns, enough for phrases of up to `depth` + 1 words."""
        spare = max(0, depth - self._node.shape[1])
        self._node = np.pad(self._node, ((0, 0), (0, spare)), constant_values=NOWHERE)
        self._mass = np.pad(self._mass, ((0, 0), (0, spare)))

    def _grow(self, capacity: int) -> None:
        super()._grow(capacity)
        spare = capacity - len(self._list)
        self._list = np.append(self._list, np.zeros(spare, np.int64))
        self._outside = np.append(self._outside, np.ones(spare))
        self._total = np.append(self._total, np.zeros(spare))
        self._no_phrase = np.append(self._no_phrase, np.full(spare, np.nan))
        self._query = np.concatenate([self._query, np.zeros((spare, self._query.shape[1]), np.float32)])
        self._node = np.pad(self._node, ((0, spare), (0, 0)), constant_values=NOWHERE)
        self._mass = np.pad(self._mass, ((0, spare), (0, 0)))
