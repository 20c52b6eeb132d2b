"""`WordMap`, which maps a symbol table to a language model's words, and `Coverage`, a model's coverage of lattices."""

from __future__ import annotations

import copy
import math
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from ninja.errors import FormatError, ModelError, SymbolError, TableError, VocabularyError, counted
from ninja.lattice import Lattice
from ninja.lattice.symbols import EPSILON, SymbolTable, not_in_table
from ninja.lm.protocol import LanguageModel, OOVScore

WordMapping = Literal["case", "unk"]

NUM_NAMED = 8  # maximum number of unknown words in a message
MAP_WORDS = "set map_words if the model uses another spelling"  # advice on unknown words
NO_WORD = -1
# Labels that some decoders leave on arcs and that are not words.
MARKS = ("<s>", "</s>", "<eps>")
# Spellings of <unk> in recognisers and models; mapped only on request.
UNK_SPELLINGS = ("<unk>", "<UNK>", "[unk]", "[UNK]", "UNK", "unk", "<SPOKEN_NOISE>", "<oov>", "<OOV>")
MAX_ADVICE_WORDS = 1000  # maximum number of words passed to `LanguageModel.advice`
OOV_SCORE = "set oov_score (skip, spread or a log-probability)"


@dataclass(frozen=True, slots=True)
class Coverage:
    """A language model's coverage of the words in lattices; the coverages of parts of a run can be added."""

    num_arcs: Counter[str]  # number of arcs per word
    lacking: frozenset[str]  # words that are unknown to the model
    unk_penalty: float  # cost added to the cost of <unk> for unknown words
    model: str = "the language model"  # name of the model in messages
    has_unk: bool = True  # whether the model has <unk>
    oov_score: OOVScore | None = None  # score of unknown words, if the model itself has no <unk>
    advice: str = MAP_WORDS  # advice on unknown words, if the model has no <unk>
    warning: str | None = None  # result of `LanguageModel.advice`, for example about upper-case words
    mapped: tuple[tuple[WordMapping, frozenset[str]], ...] = ()  # words that the model has only in another spelling
    other_case: frozenset[str] = frozenset()  # unknown words that the model has in lower or upper case

    def __add__(self, other: Coverage) -> Coverage:
        """Add the coverages of two parts of a run; both must refer to the same model."""
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
        """Number of arcs with a word."""
        return self.num_arcs.total()

    @property
    def unknown_arcs(self) -> int:
        """Number of arcs with a word that is unknown to the model."""
        return sum(self.num_arcs[word] for word in self.lacking)

    @property
    def words(self) -> int:
        """Number of distinct words on arcs."""
        return len(self.num_arcs)

    @property
    def unknown_words(self) -> int:
        """Number of distinct words that are unknown to the model."""
        return len(self.lacking)

    @property
    def in_case(self) -> int:
        """Number of unknown words that the mapping ``"case"`` would map to known words."""
        return len(self.other_case)

    @property
    def share(self) -> float:
        """Fraction of arcs with a word that is unknown to the model, in [0, 1]."""
        return self.unknown_arcs / self.arcs if self.num_arcs else 0.0

    @property
    def facts(self) -> str:
        """Message that states the fraction of arcs with unknown words, and the most frequent unknown words."""
        mapped = "".join(f"; {counted(len(words), 'word')} found by {method}" for method, words in self.mapped)
        if not self.lacking:
            text = "the only word" if self.words == 1 else f"all {self.words} words"
            return f"{self.model} contains {text} of the lattices{mapped}"
        unknown = [(word, count) for word, count in self.num_arcs.items() if word in self.lacking]
        unknown.sort(key=lambda item: -item[1])
        most_frequent = ", ".join(word for word, _ in unknown[:NUM_NAMED])
        if self.in_case:
            mapped += f"; map_words case would find {self.in_case} of them"
        return (
            f"{self.share:.1%} of arcs have words unknown to {self.model} ({self.unknown_words} of "
            f"{self.words} words; most frequent: {most_frequent}){mapped}"
        )

    def __str__(self) -> str:
        warning = "" if self.warning is None else f"; warning: {self.warning}"
        return f"{self._scored}{warning}"

    @property
    def _scored(self) -> str:
        if not self.lacking:
            return self.facts
        if not self.has_unk:
            return f"{self.facts}; the model has no <unk>, so lattices with these words fail; {self.advice}"
        if self.oov_score is not None:
            score = self.oov_score if isinstance(self.oov_score, str) else f"{self.oov_score:g}"
            penalty = f" and penalty {self.unk_penalty:.2f}" if self.unk_penalty else ""
            return f"{self.facts}; the model has no <unk>, so they are scored with oov_score {score}{penalty}"
        return f"{self.facts}; they are scored as <unk> with penalty {self.unk_penalty:.2f}"


def added(before: Sequence[Coverage], more: Sequence[Coverage]) -> tuple[Coverage, ...]:
    """Add the coverages of two parts of a run; each sequence contains one coverage per model, or is empty."""
    return tuple(one + other for one, other in zip(before, more, strict=True)) if before and more else (*before, *more)


class WordMap:
    """Language model id and out-of-vocabulary penalty of every word in a symbol table.

    Args:
        words: The symbol table.
        lm: The language model.
        unk_penalty: Cost added to the cost of <unk> for unknown words. By default, the probability of <unk> is divided
            evenly: the penalty is the natural log of the number of distinct words that <unk> replaced in training. If
            this number is not known, the number of unknown words in the table is used; if readers add words
            to the table, all words that can be determined in advance are added before the words are counted.
        map_words: Fallbacks for unknown words: ``"case"`` looks them up in lower and upper case; ``"unk"`` maps the
            usual spellings of <unk> to the model's <unk>, which can also have any of these spellings.
        name: Name of the model for messages.
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
        self.mapped: dict[WordMapping, list[int]] = {how: [] for how in map_words}
        self._chosen_penalty = unk_penalty
        self._has_fixed_ids = lm.fixed_ids
        self._num_entries = 0  # number of entries of the table that the map covers
        self._listed = np.zeros(0, np.bool_)
        self.lm_word = np.zeros(0, np.int32)  # the model's id of each word id; -1 for no word
        self.is_empty = np.zeros(0, np.bool_)  # whether the word with each id has an empty lexical form
        self._known = np.zeros(0, np.bool_)
        self._cover_table()

    def grown(self) -> WordMap:
        """Return a map that also contains the words added to the table since this map was created.

        The result equals a new `WordMap` with the same arguments.
        """
        if not self._has_fixed_ids:
            return WordMap(self.words, self.lm, self._chosen_penalty, map_words=tuple(self.mapped), name=self.name)
        other = copy.copy(self)
        other.mapped = {how: [*numbers] for how, numbers in self.mapped.items()}
        other._cover_table()
        return other

    def _cover_table(self) -> None:
        """Add the new entries of the symbol table to the map."""
        complete(self.words, self._chosen_penalty, self.lm)
        names, numbers = self.words.since(self._num_entries)
        self._num_entries += len(names)
        more = self.words.end_of_ids() - self._listed.size
        self._listed, self.is_empty = np.pad(self._listed, (0, more)), np.pad(self.is_empty, (0, more))
        self.lm_word = np.pad(self.lm_word, (0, more), constant_values=NO_WORD)
        self._known = np.pad(self._known, (0, more), constant_values=True)
        lm, number = self.lm, np.array(numbers, np.int64)
        lm_word = np.asarray(number if lm.vocabulary is self.words else lm.vocabulary.ids(names), np.int64)
        is_empty = lm_word == (-2 if lm.empty is None else lm.empty)
        lm_word[is_empty] = NO_WORD
        is_mark = np.fromiter((name in MARKS for name in names), np.bool_, len(names)) | (number == EPSILON)
        self._listed[number], self.is_empty[number], self.lm_word[number] = True, is_empty, lm_word
        self._known[number] = (lm_word >= 0) | is_empty | is_mark
        new_unknown = number[~self._known[number]]
        if self.mapped:
            self._map_unknown(new_unknown.tolist())
        self.lm_word[new_unknown[~self._known[new_unknown]]] = NO_WORD if self.unk is None else self.unk
        self.lm_word[number[is_mark]] = NO_WORD
        num_unknown = lm.unk_words or int(np.count_nonzero(~self._known))
        self.unk_penalty = math.log(max(num_unknown, 1)) if self._chosen_penalty is None else self._chosen_penalty
        # Cost of each word id in addition to the model's score, float32.
        self.extra = np.where(self._known, np.float32(0), np.float32(self.unk_penalty))

    def covers(self, lattice: Lattice) -> bool:
        """Return whether the map covers all words of a lattice; words added to the table later are not covered."""
        if not self.words.grows:
            return True
        in_range = int(lattice.word.max(initial=0)) < self._listed.size
        # A new word can have a smaller id than the largest id in the map.
        return in_range and bool(self._listed[lattice.word].all())

    def of(self, lattice: Lattice) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
        """Map the words on the arcs of a lattice to the model's words.

        Returns:
            (word ids, penalties): the model's word id for each arc, -1 for no word, int32 [num_arcs]; and the
            out-of-vocabulary penalty of each arc, float32 [num_arcs].

        Raises:
            TableError: The word id of an arc is not in the symbol table.
            VocabularyError: The word of an arc is unknown to a model without <unk>.
        """
        word = lattice.word
        if word.size and (int(word.max()) >= self._listed.size or not self._listed[word].all()):
            bad = next(int(w) for w in word if w >= self._listed.size or not self._listed[w])
            raise TableError(not_in_table(bad), self.words.path, key=lattice.key)
        self.refuse_unknown(lattice)
        return self.lm_word[word], self.extra[word]

    def refuse_unknown(self, lattice: Lattice) -> None:
        """Raise a `VocabularyError` if a word of a lattice is unknown to a model without <unk>."""
        if self.unk is not None or (known := self._known[lattice.word]).all():
            return
        lacking = self.words.word(int(lattice.word[~known][0]))
        path = self.lm.vocabulary.path
        raise VocabularyError(
            f"{self.name} contains neither {lacking!r} nor <unk>{f' ({path})' if path else ''}; {self._advice}",
            key=lattice.key,
        )

    @property
    def _advice(self) -> str:
        return f"{OOV_SCORE}, or {MAP_WORDS}" if self.lm.takes_oov_score else MAP_WORDS

    def coverage(self, lattice: Lattice) -> Coverage:
        """Return the coverage of the words in a lattice."""
        return self.coverage_of(np.bincount(lattice.word))

    def coverage_of(self, count: npt.NDArray[np.int64]) -> Coverage:
        """Compute the coverage from the number of arcs per word id, int64 [num_words]."""
        words = np.flatnonzero(count[: self._known.size])
        # Epsilons and sentence marks do not count as words.
        words = words[~self._known[words] | (self.lm_word[words] != NO_WORD)]
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
            warning=self.lm.advice([*spelled.values()][:MAX_ADVICE_WORDS]),
            mapped=tuple(
                (how, frozenset(spelled[number] for number in spelled.keys() & set(numbers)))
                for how, numbers in self.mapped.items()
            ),
            other_case=frozenset(filter(self._has_in_case, lacking if self._compares_case else ())),
        )

    def unknown_share(self, lattice: Lattice) -> float:
        """Return the fraction of a lattice's arcs with a word that is unknown to the model, in [0, 1]."""
        word = lattice.word
        if word.max(initial=0) >= self._known.size:
            word = word[word < self._known.size]
        unknown = ~self._known.take(word)
        num_words = int(np.count_nonzero(unknown | (self.lm_word.take(word) != NO_WORD)))
        return int(np.count_nonzero(unknown)) / max(num_words, 1)

    @property
    def _compares_case(self) -> bool:
        return "case" not in self.mapped and self.lm.empty is None

    def _has_in_case(self, word: str) -> bool:
        return _first_known((word.lower(), word.upper()), self.lm) is not None

    def _map_unknown(self, unknown: Iterable[int]) -> None:
        """Look up other spellings of unknown words, according to `map_words`."""
        for number in unknown:
            word = self.words.word(number)
            for how, numbers in self.mapped.items():
                if how == "case":
                    lm_word = _first_known((word.lower(), word.upper()), self.lm)
                else:
                    lm_word = self.unk if word in UNK_SPELLINGS else None
                if lm_word is not None:
                    self.lm_word[number] = lm_word
                    self._known[number] = True
                    numbers.append(number)
                    break


def complete(words: SymbolTable, unk_penalty: float | None, *models: LanguageModel) -> None:
    """Add all words that readers will add to a growing symbol table, if the penalty for unknown words depends on them.

    This is the case if the penalty is computed from the number of words in the table that are unknown to a model.
    """
    if not words.grows or unk_penalty is not None:
        return
    names = [word for word, number in words if number != EPSILON and word not in MARKS]
    if any(lm.unk_words is None and lm.unk is not None and -1 in lm.vocabulary.ids(names) for lm in models):
        words.complete()


def _first_known(words: Iterable[str], lm: LanguageModel) -> int | None:
    return next((number for word in words if (number := lm.vocabulary.id(word)) is not None), None)


BOS = "<s>"
EOS = "</s>"
UNK = "<unk>"
SPECIAL = (BOS, EOS, UNK)  # ids 0, 1, 2 of every vocabulary that Ninja creates
WORDS_FILE = "words.txt"  # or words.txt.gz
_FIELD = re.compile(r"[^ \t\r]+")  # words can contain other whitespace, such as U+00A0


@dataclass(frozen=True, slots=True)
class Words:
    """The vocabulary of a model, and the ids of its special words."""

    vocabulary: SymbolTable  # contiguous ids from 0
    bos: int
    eos: int
    unk: int | None
    unk_words: int | None = None  # number of distinct words that `unk` replaced in training, if known

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
        """Look up the special words of a vocabulary; `bos` and `eos` can be equal, and `unk` can be missing.

        Raises:
            ModelError: The ids are not contiguous, or `bos` or `eos` is missing.
        """
        size = len(vocabulary)
        largest = max((number for _, number in vocabulary), default=-1)
        if largest != size - 1:
            raise ModelError(
                f"the vocabulary has {size} words, but ids up to {largest}; number the words from 0 without gaps",
                vocabulary.path or path,
            )
        first, last = vocabulary.id(bos), vocabulary.id(eos)
        if first is None or last is None:
            lacking = bos if first is None else eos
            raise ModelError(
                f"the vocabulary does not contain {lacking}; set bos and eos to the words that begin and end sentences",
                path,
            )
        return cls(vocabulary, first, last, vocabulary.id(unk), unk_words)

    def fit(self, num_words: int, path: str | None = None) -> Words:
        """Return self after checking that the vocabulary has as many words as the network scores.

        Raises:
            ModelError: The vocabulary does not contain `num_words` words.
        """
        if len(self.vocabulary) != num_words:
            message = f"the vocabulary has {len(self.vocabulary)} words, but the network scores {num_words}"
            raise ModelError(f"{message}; specify the vocabulary of the network", path)
        return self


def find(path: str, words: SymbolTable | None, text: str | None) -> SymbolTable:
    """Return the vocabulary of a model: `words`, else `text`, else ``words.txt`` in the model's directory.

    A compressed file, ``words.txt.gz``, is also found.

    Args:
        path: Path of the model.
        words: Vocabulary specified by the user.
        text: Vocabulary stored in the model, one word per line, either in the order of ids or each followed by its id.

    Raises:
        ModelError: There is no vocabulary, or the vocabulary in the model is damaged.
    """
    if words is not None:
        return words
    if text is not None:
        return _parse(text, path)
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    default = os.path.join(folder, WORDS_FILE)
    for name in (default, f"{default}.gz"):
        if os.path.isfile(name):
            return SymbolTable.read(name)
    message = (
        f"the model contains no vocabulary, and {default} does not exist; put the training vocabulary there, or pass it"
    )
    raise ModelError(f"{message} with load(path, words=SymbolTable.read(...))", path)


def _parse(text: str, path: str) -> SymbolTable:
    lines = [_FIELD.findall(line) for line in text.strip("\r\n").split("\n")]
    fields = len(lines[0])
    irregular = next((number for number, line in enumerate(lines, 1) if len(line) != fields), None)
    if fields not in (1, 2) or irregular:
        raise ModelError(
            f"line {irregular or 1} of the model's vocabulary is invalid: expected a word on "
            "each line, or a word and its id on each line; export the model again",
            path,
        )
    try:
        if fields == 1:
            return SymbolTable(((line[0], number) for number, line in enumerate(lines)), path)
        return SymbolTable(((word, int(number)) for word, number in lines), path)
    except (FormatError, SymbolError) as error:
        raise ModelError(f"the model's vocabulary is damaged: {error.message}", path) from error
    except ValueError as error:
        raise ModelError(
            f"an id in the model's vocabulary is not an integer ({error}); export it again", path
        ) from error
