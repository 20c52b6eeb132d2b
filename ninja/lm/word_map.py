"""Mapping of a symbol table's words to those of a language model, and its coverage."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from ninja.errors import FormatError, ModelError, SymbolError, TableError, VocabularyError
from ninja.lattice import Lattice
from ninja.lattice.symbols import EPSILON, SymbolTable
from ninja.lm.protocol import LanguageModel, OOVScore

WordMapping = Literal["case", "unk"]

NUM_NAMED = 8  # unknown words in a message
MAP_WORDS = "map_words may find it"  # advice on unknown words
NO_WORD = -1
# Decoders that leave these on arcs mean no word: the language model starts and ends sentences by itself.
MARKS = ("<s>", "</s>", "<eps>")
# How recognisers and models spell the word that stands for all unknown ones; mapped on request only.
UNK_SPELLINGS = ("<unk>", "<UNK>", "[unk]", "[UNK]", "UNK", "unk", "<SPOKEN_NOISE>", "<oov>", "<OOV>")
MOST_ASKED = 1000  # words of which a model is asked whether it knows their kind
OOV_SCORE = "give oov_score (skip, spread or a log-probability)"


@dataclass(frozen=True, slots=True)
class Coverage:
    """Coverage of the words of some lattices by a language model; those of several parts of a run add up."""

    num_arcs: Counter[str]  # that carry each word
    lacking: frozenset[str]  # words that the model lacks
    unk_penalty: float  # cost added to <unk> for each of them
    model: str = "the language model"  # name in messages
    has_unk: bool = True  # the model has a word for the unknown ones
    oov_score: OOVScore | None = None  # that such words have where the model itself has no <unk>
    advice: str = MAP_WORDS  # on unknown words of a model without <unk>
    warning: str | None = None  # of words of a kind that the model hardly knows
    mapped: tuple[tuple[WordMapping, frozenset[str]], ...] = ()  # words that were found in another spelling
    other_case: frozenset[str] = frozenset()  # unknown words that the model has in lower or upper case

    def __add__(self, other: Coverage) -> Coverage:
        """Return the coverage of both parts of a run by the same model."""
        mapped = tuple((how, words | dict(other.mapped).get(how, frozenset())) for how, words in self.mapped)
        return replace(
            other,
            num_arcs=self.num_arcs + other.num_arcs,
            lacking=self.lacking | other.lacking,
            warning=self.warning or other.warning,
            mapped=mapped,
            other_case=self.other_case | other.other_case,
        )

    @property
    def arcs(self) -> int:
        """Number of arcs that carry a word."""
        return self.num_arcs.total()

    @property
    def unknown_arcs(self) -> int:
        """Number of arcs whose word the model lacks."""
        return sum(self.num_arcs[word] for word in self.lacking)

    @property
    def words(self) -> int:
        """Number of distinct words on arcs."""
        return len(self.num_arcs)

    @property
    def unknown_words(self) -> int:
        """Number of distinct words that the model lacks."""
        return len(self.lacking)

    @property
    def in_case(self) -> int:
        """Number of unknown words that the model has in lower or upper case, which were not looked for."""
        return len(self.other_case)

    @property
    def share(self) -> float:
        """Share of arcs whose word the model lacks, in [0, 1]."""
        return self.unknown_arcs / self.arcs if self.num_arcs else 0.0

    @property
    def facts(self) -> str:
        """Number of arcs whose words the model lacks, and these words."""
        mapped = "".join(f"; {len(words)} words found by {how}" for how, words in self.mapped)
        if not self.lacking:
            return f"{self.model} knows all {self.words} words of the lattices{mapped}"
        unknown = [(word, count) for word, count in self.num_arcs.items() if word in self.lacking]
        unknown.sort(key=lambda each: -each[1])
        commonest = ", ".join(word for word, _ in unknown[:NUM_NAMED])
        if self.in_case:
            mapped += f"; map_words case would find {self.in_case} of them"
        return (
            f"{self.share:.1%} of arcs carry words unknown to {self.model} ({self.unknown_words} of "
            f"{self.words} words; commonest: {commonest}){mapped}"
        )

    def __str__(self) -> str:
        warning = "" if self.warning is None else f"; warning: {self.warning}"
        return f"{self._scored}{warning}"

    @property
    def _scored(self) -> str:
        if not self.lacking:
            return self.facts
        if not self.has_unk:
            return f"{self.facts}; it has no <unk>, so lattices with such words fail; {self.advice}"
        if self.oov_score is not None:
            score = self.oov_score if isinstance(self.oov_score, str) else f"{self.oov_score:g}"
            penalty = f" and penalty {self.unk_penalty:.2f}" if self.unk_penalty else ""
            return f"{self.facts}; it has no <unk>: scored with oov_score {score}{penalty}"
        return f"{self.facts}; scored as <unk> with penalty {self.unk_penalty:.2f}"


def added(before: Sequence[Coverage], more: Sequence[Coverage]) -> tuple[Coverage, ...]:
    """Add the coverages of a part of a run, model by model."""
    return tuple(one + other for one, other in zip(before, more, strict=True)) if before and more else (*before, *more)


class WordMap:
    """Language-model ids and out-of-vocabulary penalties of every word of a symbol table.

    Args:
        unk_penalty: Cost beyond <unk>'s for words the model lacks; None shares <unk>'s probability out evenly: the
            natural log of how many words it stood for in training, or if that is not known, of how many words of
            the table the model lacks, for which a table that grows is completed.
        map_words: Where else to look for a word the model lacks: ``"case"`` in lower and in upper case, ``"unk"``
            among the usual spellings of <unk>, if the word is one of them; a model without <unk> then takes another
            such spelling for it.
    """

    def __init__(
        self,
        words: SymbolTable,
        lm: LanguageModel,
        unk_penalty: float | None = None,
        *,
        map_words: Collection[WordMapping] = (),
        name: str = "the language model",
    ) -> None:
        self.words = words
        self.lm = lm
        self.name = name
        self.unk = lm.unk if lm.unk is not None or "unk" not in map_words else _first_known(UNK_SPELLINGS, lm)
        complete(words, unk_penalty, lm)
        spelled = dict(words)
        number = np.fromiter(spelled.values(), np.int64, len(spelled))
        size = words.end_of_ids()
        self._listed = np.zeros(size, np.bool_)
        self._listed[number] = True
        self.lm_word = np.full(size, NO_WORD, np.int32)  # the model's id of each word id; -1 where it takes no word
        self.lm_word[number] = number if lm.vocabulary is words else lm.vocabulary.ids(spelled)
        no_word = [EPSILON, *(found for mark in MARKS if (found := words.id(mark)) is not None)]
        self._known = self.lm_word >= 0
        self._known[[each for each in no_word if each < size]] = True
        self._known[~self._listed] = True
        self.mapped: dict[WordMapping, list[int]] = {how: [] for how in map_words}
        if map_words:
            self._map_unknown(lm)
        self.lm_word[~self._known] = NO_WORD if self.unk is None else self.unk
        self.lm_word[[each for each in no_word if each < size]] = NO_WORD
        sharing = lm.unk_words or int(np.count_nonzero(~self._known))
        self.unk_penalty = math.log(max(sharing, 1)) if unk_penalty is None else unk_penalty
        # Cost of each word id beyond the model's, float32.
        self.extra = np.where(self._known, np.float32(0), np.float32(self.unk_penalty))

    def covers(self, lattice: Lattice) -> bool:
        """Tell whether the map was made when the table had all words of a lattice."""
        return not self.words.grows or int(lattice.word.max(initial=0)) < self._listed.size

    def of(self, lattice: Lattice) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
        """Return the model's word (-1: none) and the out-of-vocabulary penalty of each arc, [num_arcs] each.

        Raises:
            TableError: An arc's word id is not in the symbol table.
            VocabularyError: An arc's word is unknown to a model without <unk>.
        """
        word = lattice.word
        if word.size and (int(word.max()) >= self._listed.size or not self._listed[word].all()):
            bad = next(int(w) for w in word if w >= self._listed.size or not self._listed[w])
            raise TableError(
                f"word id {bad} is not in the symbol table {self.words.path or ''}; is it the right one?",
                key=lattice.key,
            )
        self.refuse_unknown(lattice)
        return self.lm_word[word], self.extra[word]

    def refuse_unknown(self, lattice: Lattice) -> None:
        """Raise a `VocabularyError` for a lattice with words that the model lacks, if it has no <unk>."""
        if self.unk is not None or (known := self._known[lattice.word]).all():
            return
        lacking = self.words.word(int(lattice.word[~known][0]))
        path = self.lm.vocabulary.path
        raise VocabularyError(
            f"{self.name} has neither {lacking!r} nor <unk>{f' ({path})' if path else ''}; {self._advice}",
            key=lattice.key,
        )

    @property
    def _advice(self) -> str:
        return f"{OOV_SCORE}, or {MAP_WORDS}" if self.lm.takes_oov_score else MAP_WORDS

    def coverage(self, lattices: Iterable[Lattice]) -> Coverage:
        """Count how many arcs of some lattices carry words the model lacks."""
        count = np.zeros(self._listed.size, np.int64)
        for lattice in lattices:
            count += np.bincount(lattice.word[lattice.word < count.size], minlength=count.size)
        return self.coverage_of(count)

    def coverage_of(self, count: npt.NDArray[np.int64]) -> Coverage:
        """Return the coverage of words that so many arcs carry, by word id, int64 [num_words]."""
        words = np.flatnonzero(count[: self._known.size])
        words = words[~self._known[words] | (self.lm_word[words] != NO_WORD)]  # no epsilons and sentence marks
        spelled = {number: self.words.word(number) for number in words.tolist()}
        lacking = [spelled[number] for number in words[~self._known[words]].tolist()]
        return Coverage(
            Counter({word: int(count[number]) for number, word in spelled.items()}),
            frozenset(lacking),
            self.unk_penalty,
            self.name,
            has_unk=self.unk is not None,
            oov_score=self.lm.oov_score,
            advice=self._advice,
            warning=self.lm.advice([*spelled.values()][:MOST_ASKED]),
            mapped=tuple(
                (how, frozenset(spelled[number] for number in spelled.keys() & set(numbers)))
                for how, numbers in self.mapped.items()
            ),
            other_case=frozenset() if "case" in self.mapped else frozenset(filter(self._has_in_case, lacking)),
        )

    def unknown_share(self, lattice: Lattice) -> float:
        """Return the share of a lattice's words that the model lacks, counted by arcs, in [0, 1]."""
        word = lattice.word[lattice.word < self._known.size]
        unknown = ~self._known[word]
        num_words = int(np.count_nonzero(unknown | (self.lm_word[word] != NO_WORD)))
        return int(np.count_nonzero(unknown)) / max(num_words, 1)

    def _has_in_case(self, word: str) -> bool:
        """Tell whether the model has a word in lower or in upper case."""
        return _first_known((word.lower(), word.upper()), self.lm) is not None

    def _map_unknown(self, lm: LanguageModel) -> None:
        """Look for the words the model lacks in other spellings."""
        for number in np.flatnonzero(~self._known).tolist():
            word = self.words.word(number)
            for how, which in self.mapped.items():
                if how == "case":
                    found = _first_known((word.lower(), word.upper()), lm)
                else:
                    found = self.unk if word in UNK_SPELLINGS else None
                if found is not None:
                    self.lm_word[number] = found
                    self._known[number] = True
                    which.append(number)
                    break


def complete(words: SymbolTable, unk_penalty: float | None, *models: LanguageModel) -> None:
    """Learn all words of the sources where a model lacks some, and their penalty depends on how many it lacks."""
    if not words.grows or unk_penalty is not None:
        return
    names = [word for word, number in words if number != EPSILON and word not in MARKS]
    if any(lm.unk_words is None and lm.unk is not None and -1 in lm.vocabulary.ids(names) for lm in models):
        words.complete()


def _first_known(words: Iterable[str], lm: LanguageModel) -> int | None:
    return next((found for word in words if (found := lm.vocabulary.id(word)) is not None), None)


BOS = "<s>"
EOS = "</s>"
UNK = "<unk>"
SPECIAL = (BOS, EOS, UNK)  # ids 0, 1, 2 of every vocabulary made here
BESIDE = "words.txt"  # or packed, with .gz behind it


@dataclass(frozen=True, slots=True)
class Words:
    """A model's words and which of them begin and end sentences and stand for unknown ones."""

    vocabulary: SymbolTable  # ids from 0 without gaps
    bos: int
    eos: int
    unk: int | None
    unk_words: int | None = None  # distinct words of the training text that `unk` stood for, where known

    @classmethod
    def of(
        cls,
        vocabulary: SymbolTable,
        path: str | os.PathLike[str] | None = None,
        *,
        bos: str = BOS,
        eos: str = EOS,
        unk: str = UNK,
        unk_words: int | None = None,
    ) -> Words:
        """Look up the special words of a vocabulary; `bos` may do what `eos` does, and there need be no `unk`."""
        size = len(vocabulary)
        largest = max((number for _, number in vocabulary), default=-1)
        if largest != size - 1:
            raise ModelError(
                f"{size} words, but ids up to {largest}; give each id from 0 a word", vocabulary.path or path
            )
        first, last = vocabulary.id(bos), vocabulary.id(eos)
        if first is None or last is None:
            lacking = bos if first is None else eos
            raise ModelError(f"the vocabulary lacks {lacking}; name the words that begin and end sentences", path)
        return cls(vocabulary, first, last, vocabulary.id(unk), unk_words)

    def fit(self, num_words: int, path: str | None = None) -> Words:
        """Return the words, if a network scores as many."""
        if len(self.vocabulary) != num_words:
            found = f"{len(self.vocabulary)} words in the vocabulary, but the network scores {num_words}"
            raise ModelError(f"{found}; give the words it has", path)
        return self


def find(path: str, given: SymbolTable | None, inside: str | None) -> SymbolTable:
    """Find the vocabulary of a model: the user's own, else the text in the model, else ``words.txt`` beside it.

    The text has a word a line, by id, or a word and its id.
    """
    if given is not None:
        return given
    if inside is not None:
        return _parse(inside, path)
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    beside = os.path.join(folder, BESIDE)
    for name in (beside, f"{beside}.gz"):
        if os.path.isfile(name):
            return SymbolTable.read(name)
    message = (
        f"no vocabulary: neither in the model nor as {beside}; put the one it was made with there, or give it with"
    )
    raise ModelError(f"{message} load(path, words=SymbolTable.read(...))", path)


def _parse(text: str, path: str) -> SymbolTable:
    lines = [line.split() for line in text.strip("\r\n").split("\n")]
    fields = len(lines[0])
    odd = next((number for number, line in enumerate(lines, 1) if len(line) != fields), None)
    if fields not in (1, 2) or odd:
        place = f"line {odd or 1}"
        raise ModelError(f"the vocabulary inside is not a word, or a word and its id, a line ({place})", path)
    try:
        if fields == 1:
            return SymbolTable(((line[0], number) for number, line in enumerate(lines)), path)
        return SymbolTable(((word, int(number)) for word, number in lines), path)
    except (FormatError, SymbolError) as error:
        raise ModelError(f"the vocabulary inside is damaged: {error.message}", path) from error
    except ValueError as error:
        raise ModelError(f"the vocabulary inside has an id that is no integer ({error})", path) from error
