"""`LexicalLM`, which scores written words by their lexical forms, and its base class `UnitLM`."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from ninja.lattice.symbols import SymbolTable
from ninja.lattice.text import NONE, Form, LexicalForms, Normalizer
from ninja.lm.mixture import Mixture
from ninja.lm.protocol import END_OF_PROMPTS, LanguageModel, exclusive
from ninja.lm.trie import score_trie

FIRST_FORM = END_OF_PROMPTS  # id of the empty form; larger ids are forms of several words
LMText = Literal["auto", "written", "lexical"]
Ids = npt.NDArray[np.int64]
Trie = tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]  # parent and word of each node


class UnitLM(LanguageModel, ABC):
    """A `LanguageModel` over words that scores them with a model of units, such as subword pieces.

    The slot of a history is the slot of its last unit. The log-probability of a word is the sum of the
    log-probabilities of its units. Subclasses define the units of words and set the attributes of `LanguageModel`.
    """

    scores_tries = True

    def __init__(self, units: LanguageModel) -> None:
        """Wrap a model of units."""
        self._units = units
        self.state_size = units.state_size

    @abstractmethod
    def _at_start(self, slots: Ids) -> npt.NDArray[np.bool_]:
        """Return whether each history consists only of ``<s>``, bool [n].

        All values are False if the units of a word do not depend on whether it begins a sentence.
        """

    @abstractmethod
    def _places(
        self, words: npt.NDArray[np.integer], first: npt.NDArray[np.bool_]
    ) -> tuple[Ids, Ids, npt.NDArray[np.integer]]:
        """Look up the units of words.

        Args:
            words: Word ids, [n].
            first: Whether each word is the first of a sentence, [n].

        Returns:
            (offsets, lengths, units): the offset of each word's first unit, [n]; the number of its units, [n]; and
            the array of units to which the offsets refer.
        """

    @property
    def num_parameters(self) -> int | None:
        """See `LanguageModel.num_parameters`."""
        return self._units.num_parameters

    @property
    def device(self) -> str | None:
        """See `LanguageModel.device`."""
        return self._units.device

    @property
    def normalized(self) -> bool | None:
        """Whether the scores of units are normalised exactly; None if unknown."""
        return self._units.normalized

    def start(self, count: int) -> np.ndarray:
        """See `LanguageModel.start`."""
        return self._units.start(count)

    def states(self, slots: np.ndarray) -> npt.NDArray[np.float32]:
        """Return the states of the unit model; see `LanguageModel.states`."""
        return self._units.states(slots)

    def word_vectors(self, words: np.ndarray) -> npt.NDArray[np.float32]:
        """Return the mean vector of each word's units; see `LanguageModel.word_vectors`."""
        place, count, units = self._places(words, np.zeros(len(words), np.bool_))
        begin = np.cumsum(count) - count
        unit = units[np.repeat(place - begin, count) + np.arange(count.sum())]
        total: npt.NDArray[np.float32] = np.add.reduceat(self._units.word_vectors(unit), begin)
        return (total / count[:, None]).astype(np.float32)

    def advance(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """See `LanguageModel.advance`."""
        place, remaining, unit = self._places(words, self._at_start(slots))
        new = np.empty(len(slots), np.int64)
        active = np.arange(len(slots))
        current = slots
        while len(active):
            longer = self._units.advance(current, unit[place[active]].astype(np.int32))
            if current is not slots:  # slots within words; the model keeps their states for the longer histories
                self._units.release(current)
            place[active] += 1
            remaining[active] -= 1
            more = remaining[active] > 0
            new[active[~more]] = longer[~more]
            active, current = active[more], longer[more]
        return new

    def logprob(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """See `LanguageModel.logprob`."""
        place, remaining, units = self._places(words, self._at_start(slots))
        score = np.zeros(len(slots))
        active = np.arange(len(slots))
        current = slots
        inside = np.empty(0, np.int64)  # slots in the middle of words
        while len(active):
            unit = units[place[active]].astype(np.int32)
            score[active] += self._units.logprob(current, unit)
            remaining[active] -= 1
            place[active] += 1
            more = remaining[active] > 0
            active = active[more]
            # Words after the same history often share their first units, which are read only once.
            pair, which = np.unique(np.stack((current[more], unit[more])), axis=1, return_inverse=True)
            longer = self._units.advance(pair[0], pair[1].astype(np.int32))
            self._units.release(inside)
            inside, current = longer, longer[which.reshape(-1)]
        return score.astype(np.float32)

    def release(self, slots: np.ndarray) -> None:
        """See `LanguageModel.release`."""
        self._units.release(slots)

    def score_trie(self, parent: npt.NDArray[np.int32], word: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        """See `LanguageModel.score_trie`; builds and scores a trie of units."""
        trie, sums = self._unit_trie(parent, word, parent < 0)
        return sums(self._score_units(*trie))

    def _unit_trie(
        self, parent: npt.NDArray[np.int32], word: npt.NDArray[np.int32], is_first: npt.NDArray[np.bool_]
    ) -> tuple[Trie, Callable[[npt.NDArray[np.float32]], npt.NDArray[np.float32]]]:
        """Convert a trie of words to a trie of their units.

        Args:
            parent: Parent of each word, [n].
            word: Word ids, [n].
            is_first: Whether each word is the first of a sentence, [n].

        Returns:
            ((parents, units), function): the parent node and the unit of each node in the new trie, and a function that
            converts the scores of the new trie's nodes to scores of words, [n], by adding the scores of each word's
            units.
        """
        places, count, units = self._places(word, is_first)
        begin, end, unit = places.tolist(), (places + count).tolist(), units.tolist()
        nodes: dict[tuple[int, int], int] = {}  # nodes of the new trie, by (parent, unit)
        last: list[int] = []  # node of the last unit of each word
        owner: list[int] = []
        part: list[int] = []
        for node, upper in enumerate(parent.tolist()):
            at = last[upper] if upper >= 0 else -1
            for index in range(begin[node], end[node]):
                at = nodes.setdefault((at, unit[index]), len(nodes))
                owner.append(node)
                part.append(at)
            last.append(at)
        trie = np.array(list(nodes), np.int32).reshape(-1, 2)

        def sums(score: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
            by_unit = score[part].astype(np.float64)
            return np.bincount(np.array(owner, np.int64), by_unit, len(parent)).astype(np.float32)

        return (np.ascontiguousarray(trie[:, 0]), np.ascontiguousarray(trie[:, 1])), sums

    def _score_units(self, parent: npt.NDArray[np.int32], unit: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        return score_trie(self._units, parent, unit)


class LexicalLM(UnitLM, locks=False):
    """A model of lexical words as a `LanguageModel` of written words; see `UnitLM`.

    Written words with the same lexical form have the same id. A word with an empty form does not change the history and
    has no cost. A form of several words is scored as one word if the vocabulary contains a word with this form, and
    otherwise as a sequence of words. A written word is unknown if any word in its form is unknown to the model.
    """

    def __init__(self, lm: LanguageModel, forms: LexicalForms) -> None:
        """Wrap a model of lexical words; `forms` maps written words to their lexical forms."""
        super().__init__(lm)
        self.forms = forms
        self._forms = _Forms(lm.vocabulary, forms, is_open=lm.open_vocabulary)
        self._shared: Counter[int] = Counter()  # additional references to slots that were extended by an empty form
        self._take_attributes(lm)
        self.vocabulary = self._forms
        self.replicas = [self._over(replica) for replica in lm.replicas]

    def _take_attributes(self, lm: LanguageModel) -> None:
        self.bos, self.eos, self.unk, self.unk_words = lm.bos, lm.eos, lm.unk, lm.unk_words
        self.oov_score, self.takes_oov_score = lm.oov_score, lm.takes_oov_score
        self.scores_tries, self.whole_sentences = lm.scores_tries, lm.whole_sentences
        self.classes, self.open_vocabulary = lm.classes, lm.open_vocabulary
        self.takes_prompts = lm.takes_prompts

    def _over(self, lm: LanguageModel) -> LexicalLM:
        """Wrap `lm`, a copy of the model of lexical words, in a new `LexicalLM` with the same lexical forms."""
        other = LexicalLM.__new__(LexicalLM)
        UnitLM.__init__(other, lm)
        other._take_attributes(lm)
        other.forms = self.forms
        other.vocabulary = other._forms = self._forms
        other._shared = Counter()
        return other

    @property
    def empty(self) -> int | None:
        """See `LanguageModel.empty`."""
        return None if self.forms.normalizer(None).is_identity else FIRST_FORM

    @property
    def end_of_ids(self) -> int:
        """See `LanguageModel.end_of_ids`."""
        return FIRST_FORM + self._forms.num_forms

    @property
    def fixed_ids(self) -> bool:  # type: ignore[override]
        """See `LanguageModel.fixed_ids`; False while the normalizer ``auto`` can still change lexical forms."""
        return self.forms.is_decided

    @property
    def lexical(self) -> LanguageModel:
        """The model of lexical words."""
        return self._units

    def twin(self) -> LanguageModel | None:
        """See `LanguageModel.twin`."""
        twin = self._units.twin()
        return None if twin is None else self._over(twin)

    def advice(self, words: Sequence[str]) -> str | None:
        """See `LanguageModel.advice`."""
        return self._units.advice(self.forms.normalizer_of(words).words(words))

    def prompt(self, text: str) -> int:
        """See `LanguageModel.prompt`; the prompt is not converted to a lexical form."""
        return self._units.prompt(text)

    def score_oovs(self, score: object) -> None:
        """See `LanguageModel.score_oovs`."""
        self._units.score_oovs(score)  # type: ignore[arg-type]
        self._take_attributes(self._units)

    def advance(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """See `LanguageModel.advance`."""
        if not self._forms.has_ids or (plain := words < FIRST_FORM).all():
            return self._units.advance(slots, words)
        return self._advance_forms(slots, words, plain)

    @exclusive
    def _advance_forms(self, slots: np.ndarray, words: np.ndarray, plain: np.ndarray) -> np.ndarray:
        """Extend histories by words; a word that is not `plain` has a lexical form of zero or several words."""
        new = np.empty(len(slots), np.int64)
        new[plain] = self._units.advance(slots[plain], words[plain])
        several, is_empty = words > FIRST_FORM, words == FIRST_FORM
        new[several] = super().advance(slots[several], words[several])
        new[is_empty] = slots[is_empty]
        self._shared.update(new[is_empty].tolist())
        return new

    def logprob(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """See `LanguageModel.logprob`."""
        if not self._forms.has_ids or (plain := words < FIRST_FORM).all():
            return self._units.logprob(slots, words)
        score = np.zeros(len(slots), np.float32)
        score[plain] = self._units.logprob(slots[plain], words[plain])
        several = words > FIRST_FORM
        score[several] = super().logprob(slots[several], words[several])
        return score

    def release(self, slots: np.ndarray) -> None:
        """See `LanguageModel.release`."""
        self._units.release(self._last_references(slots) if self._shared else slots)

    @exclusive
    def _last_references(self, slots: np.ndarray) -> Ids:
        """Release references to slots, and return the slots that no longer have references."""
        last = []
        for slot in slots.tolist():
            if self._shared[slot] > 0:
                self._shared[slot] -= 1
            else:
                last.append(slot)
        self._shared += Counter()  # drops zeros
        return np.array(last, np.int64)

    def score_trie(self, parent: npt.NDArray[np.int32], word: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        """See `LanguageModel.score_trie`."""
        if (word >= FIRST_FORM).any():
            return super().score_trie(parent, word)
        return self._score_units(parent, word)

    def word_vectors(self, words: np.ndarray) -> npt.NDArray[np.float32]:
        """See `LanguageModel.word_vectors`; words with an empty lexical form have zero vectors."""
        if not (words >= FIRST_FORM).any():
            return self._units.word_vectors(words)
        is_word = words != FIRST_FORM
        vectors = np.zeros((len(words), self.state_size or 0), np.float32)
        vectors[is_word] = super().word_vectors(words[is_word])
        return vectors

    def _at_start(self, slots: Ids) -> npt.NDArray[np.bool_]:
        return np.zeros(len(slots), np.bool_)

    def _places(
        self, words: npt.NDArray[np.integer], first: npt.NDArray[np.bool_]
    ) -> tuple[Ids, Ids, npt.NDArray[np.integer]]:
        begin, units = self._forms.columns()
        place, count = np.arange(len(words)), np.ones(len(words), np.int64)
        is_form = words >= FIRST_FORM
        form = words[is_form] - FIRST_FORM
        place[is_form], count[is_form] = len(words) + begin[form], begin[form + 1] - begin[form]
        return place, count, np.concatenate([words, units])


class _Forms(SymbolTable):
    """A model's vocabulary, looked up by written word; lexical forms of several words are added on first use."""

    __slots__ = ("_by_form", "_forms", "_inner", "_is_open", "_new_form", "_number", "_units", "has_ids")

    def __init__(self, inner: SymbolTable, forms: LexicalForms, *, is_open: bool) -> None:
        super().__init__((), inner.path)
        self._id, self._word = inner._id, inner._word  # shared, because copying a large table is slow
        self._inner = inner
        self._is_open = is_open  # whether the model scores pieces of words, so its vocabulary is open
        self.has_ids = False  # whether an id >= FIRST_FORM was returned
        self._forms = forms
        self._by_form: dict[Form, int] | None = None  # ids of the model's words that differ from their lexical forms
        self._new_form = threading.Lock()
        self._number: dict[Form, int] = {(): 0}
        self._units: list[list[int]] = [[]]  # ids of the words in each form, by the number of the form

    def id(self, word: str) -> int | None:
        """Return the id of a written word; None if a word in its lexical form is unknown to the model."""
        return self._id_by(word, self._forms.normalizer(None))

    def ids(self, words: Iterable[str]) -> list[int]:
        """Return the id of each written word; -1 if a word in its lexical form is unknown to the model."""
        names = list(words)
        normalizer = self._forms.normalizer_of(names)
        ids = self._inner.ids(names)
        if normalizer is NONE:
            return ids
        places = {place for place, _, _ in normalizer.changes(names)}
        # The model may contain the other words in another spelling.
        places.update(place for place, number in enumerate(ids) if number < 0)
        for place in sorted(places):
            number = self._id_by(names[place], normalizer)
            ids[place] = -1 if number is None else number
        return ids

    def _id_by(self, word: str, normalizer: Normalizer) -> int | None:
        if normalizer is NONE:
            return self._inner.id(word)
        form = normalizer(word)
        if not form:
            self.has_ids = True
            return FIRST_FORM
        if len(form) == 1 and (number := self._inner.id(form[0])) is not None:
            return number
        if (number := self._id_of_form(form, normalizer)) is not None or len(form) == 1:
            return number
        units = [self._id_by(part, normalizer) for part in form]
        known_units = [unit for unit in units if unit is not None]
        if len(known_units) < len(units):
            return None
        self.has_ids = True
        with self._new_form:
            if form not in self._number:
                self._units.append(known_units)
                self._number[form] = len(self._units) - 1
        return FIRST_FORM + self._number[form]

    @property
    def num_forms(self) -> int:
        """Number of lexical forms that consist of several words, plus one for the empty form."""
        return len(self._units)

    def columns(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return (offsets, units): the offset of each form's first unit, int64 [forms + 1], and the units, int64."""
        units = self._units
        begin = np.concatenate([[0], np.cumsum([len(unit) for unit in units])])
        return begin, np.array([unit for form in units for unit in form], np.int64)

    def _id_of_form(self, form: Form, normalizer: Normalizer) -> int | None:
        """Return the id of a model word with this lexical form but a different spelling; None if there is none."""
        if self._is_open:
            return None
        if len(form) > 1 and (number := self._inner.id("-".join(form))) is not None:
            return number
        if self._by_form is None:
            by_form: dict[Form, int] = {}
            for _, word, word_form in normalizer.changes(self._inner.names):
                by_form.setdefault(word_form, self._inner._id[word])
            self._by_form = by_form
        return self._by_form.get(form)

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and self.id(word) is not None


def with_lexical_forms(
    lm: LanguageModel | Mixture | None, forms: LexicalForms, text: LMText = "auto"
) -> LanguageModel | Mixture | None:
    """Convert a model of lexical words, or each model of a mixture, to a model of written words.

    Args:
        text: Type of the words that the models score; a model of written words is returned unchanged. By default,
            models trained on cased and punctuated text count as models of written words.
    """
    if isinstance(lm, Mixture):
        models = [(with_lexical_forms(model, forms, text), weight) for model, weight in lm.models]
        return Mixture(models, lm.how, lm.names)  # type: ignore[arg-type]
    if lm is None or isinstance(lm, LexicalLM):
        return lm
    return lm if text == "written" or (text == "auto" and lm.reads_written) else LexicalLM(lm, forms)


def models_of(lm: LanguageModel | Mixture | None) -> list[LanguageModel]:
    """Return the models of a mixture, or a list with a single model; the list is empty for None."""
    if isinstance(lm, Mixture):
        return [model for _, model in lm.named_models()]
    return [] if lm is None else [lm]


def merge_forms(words: SymbolTable, lm_word: npt.NDArray[np.int32], normalizer: Normalizer) -> npt.NDArray[np.int32]:
    """Map words with the same lexical form to one id, and words with an empty lexical form to -1.

    Args:
        words: Symbol table of the lattices.
        lm_word: The mixture's word id for each id in the table, or -1 if there is none; int32 [size].
        normalizer: Normalizer that determines the lexical forms.

    Returns:
        The new ids, int32 [size].
    """
    merged = lm_word.copy()
    first: dict[Form, int] = {}
    for word, form in normalizer.changed(words):
        number = words.id(word)
        if number is not None and lm_word[number] >= 0:
            plain = words.id(form[0]) if len(form) == 1 else None
            word_id = int(lm_word[number if plain is None else plain])
            merged[number] = first.setdefault(form, word_id) if form else -1
    return merged
