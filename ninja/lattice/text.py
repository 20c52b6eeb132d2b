"""Written and lexical forms of words: `Normalizer` and `LexicalTable`.

A word in a lattice is written text, such as ``Clendenin,``. Its lexical form is the sequence of spoken words in lower
case: ``clendenin``; no words for ``,``; ``twenty three`` for ``twenty-three``.
"""

from __future__ import annotations

import os
import re
import string
import threading
import unicodedata
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import islice
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from ninja._core import irregular_words
from ninja.errors import FormatError, LatticeError, OptionError, VocabularyError
from ninja.files.stream import text_of
from ninja.files.text import line_fields
from ninja.lattice.arrays import offsets
from ninja.lattice.characters import APOSTROPHES, LABEL
from ninja.lattice.english import english_forms
from ninja.lattice.form_numbers import FormNumbers
from ninja.lattice.lattice import Lattice
from ninja.lattice.symbols import EPSILON, SymbolTable

Form = tuple[str, ...]
Name = Literal["none", "basic", "english"]
AUTO = "auto"
MAX_TABLES = 64  # maximum number of symbol tables whose lexical forms are cached
NORMALIZER_HELP = (
    "Normalizer whose lexical forms are compared: none, basic (ignores case and punctuation), english (Whisper's "
    "rules), or a file of written and lexical forms.  [default: basic if words end with punctuation, else none]"
)
NORMALIZERS: tuple[str, ...] = get_args(Name)

_PLAIN_TEXT = re.compile(r"[a-z]+(?: [a-z]+)*")
# Characters that are stripped from the ends of ASCII words.
_SIGNS = string.punctuation.replace("'", "") + "".join(map(chr, range(32))) + "\x7f"
_DIVIDER = re.compile(r"[\s\-‐‑‒–—―−⁻/⁄_﹣－…]+|\.{2,}")
_VARIANT_SELECTORS = re.compile("[\ufe00-\ufe0f\u20e3\U000e0100-\U000e01ef]")
_PIECE = re.compile(r"[^\W_]+")
_JOINERS = "\u200c\u200d"  # separate the letters of a word in Persian and in Indic scripts
_MAX_REPEATS = 8  # maximum number of times that normalisation is repeated while the form changes

_ENDS = re.compile(r"\S[,?!;:…。、！？،؟।]$|\w{3}\.$", re.MULTILINE)  # punctuation at the end of a written word
MIN_SHARE = 0.02  # minimum share of words with final punctuation in written text
_SAMPLE = 4096  # approximate number of words of a table that are tested
LOOKS_WRITTEN = (
    "words end with punctuation: using normalizer basic (ignores case and punctuation); use none to compare them as is"
)


class Normalizer:
    """A function from a written word to its lexical form; equal words always have equal forms.

    Args:
        name: Name of the normalizer in messages.
        forms: Function that returns the lexical form of each word; it must not change the words in a lexical form.
    """

    def __init__(self, name: str, forms: Callable[[Sequence[str]], list[Form]]) -> None:
        self.name = name
        self._compute = forms
        self._form: dict[str, Form] = {}

    @property
    def is_identity(self) -> bool:
        """Whether every word equals its lexical form."""
        return self.name == "none"

    def __call__(self, word: str) -> Form:
        """Return the lexical form of a word: zero or more words."""
        form = self._form.get(word)
        return self.forms((word,))[0] if form is None else form

    def forms(self, words: Sequence[str]) -> list[Form]:
        """Return the lexical form of each word."""
        form_of = self._form
        try:
            return [form_of[word] for word in words]
        except KeyError:
            pass
        missing = [word for word in dict.fromkeys(words) if word not in form_of]
        if missing:
            form_of.update(zip(missing, self._compute(missing), strict=True))
        return [form_of[word] for word in words]

    def changes(self, words: Iterable[str]) -> list[tuple[int, str, Form]]:
        """Return ``(index, word, lexical form)`` for each word that differs from its lexical form."""
        irregular = irregular_words(words) if self.name == "basic" else list(enumerate(words))
        if not irregular:
            return []
        forms = self.forms([word for _, word in irregular])
        return [(index, word, form) for (index, word), form in zip(irregular, forms, strict=True) if form != (word,)]

    def irregular(self, table: SymbolTable) -> list[str] | None:
        """Return the words of a symbol table that might differ from their forms; None if the search would be slow."""
        return table.irregular() if self.name == "basic" else None

    def changed(self, table: SymbolTable) -> list[tuple[str, Form]]:
        """Return ``(word, lexical form)`` for each word in a symbol table that differs from its lexical form."""
        irregular = self.irregular(table)
        names = list(table.names) if irregular is None else irregular
        return [(word, form) for word, form in zip(names, self.forms(names), strict=True) if form != (word,)]

    def parts_among(self, words: Collection[str], table: SymbolTable) -> set[str]:
        """Return the members of `words` that occur in the lexical form of a different word in a symbol table."""
        names: Collection[str] = table.names
        if (irregular := self.irregular(table)) is not None:  # for printable ASCII, forms are parts of words
            pieces = set(_PIECE.findall("\n".join(irregular).lower()))
            likely = {word for word in words if pieces.issuperset(_PIECE.findall(word))}
            names = [
                name
                for name in irregular
                if not (name.isascii() and name.isprintable()) or any(word in name.lower() for word in likely)
            ]
        return {part for _, _, form in self.changes(names) for part in form}.intersection(words)

    def words(self, text: Iterable[str]) -> list[str]:
        """Return the lexical words for a sequence of written words."""
        return self.concatenated(list(text))[0]

    def concatenated(self, words: list[str]) -> tuple[list[str], list[int]]:
        """Return ``(concatenated lexical forms, number of lexical words of each word)``."""
        lexical: list[str] = []
        sizes = [1] * len(words)
        begin = 0
        for index, _, form in self.changes(words):
            lexical += words[begin:index]
            lexical += form
            sizes[index] = len(form)
            begin = index + 1
        lexical += words[begin:]
        return lexical, sizes

    def text(self, text: str) -> str:
        """Return the lexical words for a text, joined by single spaces."""
        if self.name == "basic" and _PLAIN_TEXT.fullmatch(text):
            return text
        return " ".join(self.words(text.split()))

    def __reduce__(self) -> tuple[object, ...]:
        return make_normalizer, (self.name,)

    def __repr__(self) -> str:
        return f"Normalizer({self.name!r})"


def make_normalizer(name: str | os.PathLike[str] | Normalizer) -> Normalizer:
    """Return the normalizer with the given name; if `name` is already a normalizer, return it unchanged.

    Args:
        name: ``none`` leaves words unchanged. ``basic`` applies Unicode NFKC and case folding, strips punctuation and
            symbols from both ends, and splits words at hyphens. ``english`` applies the rules of Whisper's evaluation
            for English and spells out numbers. Any other name is the path of a table: each line contains a written word
            and its lexical words (possibly none), separated by whitespace; other words are unchanged.

    Raises:
        OptionError: The name is not a normalizer, and no file has this path.
        FormatError: A word in the table has two entries, or a lexical word has an entry with a different form.
        DependencyError: The library for ``english`` is not installed.

    Source: Unicode Standard Annex 15 (NFKC); Radford et al. 2022, arXiv:2212.04356, appendix C.
    """
    if isinstance(name, Normalizer):
        return name
    name = os.fspath(name)
    if name == "none":
        return NONE
    if name == "basic":
        return BASIC
    if name == "english":
        return Normalizer(name, english_forms)
    if not os.path.exists(name):
        raise OptionError(f"normalizer is {name!r}, but must be one of {', '.join(NORMALIZERS)}, or an existing file")
    table = read_forms(name)
    return Normalizer(name, lambda words: [table.get(word, (word,)) for word in words])


def read_forms(path: str) -> dict[str, Form]:
    """Read a table of written words and their lexical forms. Lines that begin with ``#`` and whitespace are comments.

    Raises:
        FormatError: A word occurs twice, or a lexical word has an entry with a different form.
    """
    forms: dict[str, Form] = {}
    line_of: dict[str, int] = {}
    for number, line in enumerate(text_of(path).split("\n"), start=1):
        word, *form = line_fields(line) or ("#",)
        if word == "#":
            continue
        if word in forms:
            message = f"{word!r} already has a form on line {line_of[word]}; remove one of the lines"
            raise FormatError(message, path, line=number)
        forms[word], line_of[word] = tuple(form), number
    for word, lexical in forms.items():
        for part in lexical:
            if (other := forms.get(part, (part,))) != (part,):
                message = f"{word!r} becomes {part!r}, which line {line_of[part]} changes to {' '.join(other)!r}"
                raise FormatError(f"{message}; map each word to its final form", path, line=line_of[word])
    return forms


def _basic_forms(words: Sequence[str]) -> list[Form]:
    forms: list[Form] = [(word,) for word in words]
    for index, word in irregular_words(words):
        forms[index] = _basic_form(word)
    return forms


def _basic_form(word: str) -> Form:
    if LABEL.fullmatch(word):
        return (word,)
    if word.isalpha() and word == word.casefold() and not _is_changed(word):
        return (word,)
    if word.isascii():
        pieces = _DIVIDER.split(word.lower())
        bare = (piece.strip(_SIGNS) for piece in pieces)
        return tuple(piece for piece in bare if piece.strip("'")) if "'" not in word else _divided(word.lower())
    form = _divided(word)
    for _ in range(_MAX_REPEATS):  # in rare scripts, case folding produces characters that change again
        again = tuple(part for piece in form for part in _divided(piece))
        if again == form:
            break
        form = again
    return form


def _is_changed(letters: str) -> bool:
    """Return whether a case-folded word is changed by NFKC, or contains the modifier letter apostrophe (U+02BC)."""
    return not unicodedata.is_normalized("NFKC", letters) or "\u02bc" in letters


def _divided(word: str) -> Form:
    """Split a word at hyphens and similar characters, and strip punctuation from the ends of the parts."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", word).casefold())
    folded = _VARIANT_SELECTORS.sub("", folded.translate(APOSTROPHES))
    bare = map(_bare, _DIVIDER.split(folded))
    return tuple(piece for piece in bare if any(unicodedata.category(char)[0] in "LN" for char in piece))


def _bare(piece: str) -> str:
    """Remove control characters (except joiners) and surrounding punctuation (except an apostrophe at only one end)."""
    piece = "".join(char for char in piece if char in _JOINERS or unicodedata.category(char) not in ("Cf", "Cc"))
    begin, end = 0, len(piece)
    while begin < end and piece[begin] != "'" and not _is_letter(piece[begin]):
        begin += 1
    while end > begin and piece[end - 1] != "'" and not _is_letter(piece[end - 1]):
        end -= 1
    bare = piece[begin:end]
    inner = bare.strip("'")
    if inner == bare:
        return bare
    if not inner or bare.startswith("''") or bare.endswith("''") or bare[0] == bare[-1]:  # quotation marks
        return _bare(inner)
    if not (_is_letter(inner[0]) and _is_letter(inner[-1])):  # as in '«em»
        inner = _bare(inner)
        return f"{bare[0] * (bare[0] == chr(39))}{inner}{bare[-1] * (bare[-1] == chr(39))}" if inner else ""
    return bare


def _is_letter(char: str) -> bool:
    return unicodedata.category(char)[0] in "LNM"


NONE = Normalizer("none", lambda words: [(word,) for word in words])
BASIC = Normalizer("basic", _basic_forms)


def looks_written(words: Collection[str]) -> bool:
    """Return whether words look like written text, that is, at least 2% of them end with punctuation."""
    step = max(1, len(words) // _SAMPLE)
    sample = list(islice(words, 0, None, step))
    return len(_ENDS.findall("\n".join(sample))) >= max(1, MIN_SHARE * len(sample))


def unknown_forms(words: Iterable[str], table: SymbolTable, normalizer: Normalizer) -> list[str]:
    """Return the words that need a lexical word which no word in a symbol table provides."""
    form_of = dict(normalizer.changed(table))
    parts = {part for form in form_of.values() for part in form}
    return [
        word
        for word in words
        if any(part not in parts and (part not in table or part in form_of) for part in normalizer(word))
    ]


class LexicalTable:
    """Lexical forms of the words in a symbol table; a word is normalised when it is first used.

    Args:
        words: Symbol table of the written words, which can grow.
        normalizer: Normalizer that maps a written word to its lexical form.
    """

    def __init__(self, words: SymbolTable, normalizer: Normalizer) -> None:
        self.words = words
        self.normalizer = normalizer
        self.numbers = FormNumbers(words, normalizer)
        self.lexical = SymbolTable.growing()  # the lexical words; 0 is epsilon
        self._lock = threading.Lock()
        self._length = np.full(1, 0, np.int32)  # [size], number of lexical words of each word id; -1 = unknown
        self._first = np.zeros(1, np.int32)  # [size], first lexical word of each word id, 0 = none
        self._number = np.zeros(1, np.int32)  # [lexical words], see `numbers_of`
        self._added: dict[str, int] = {}  # lexical words that the symbol table lacks, see `written_ids`
        self._first_added = 0  # id of the first word in `_added`
        self._is_part: dict[int, bool] = {}  # whether lexical words are in forms of irregular words, see `missing`
        self._parts_size = -1  # size of the symbol table for which `_is_part` is valid
        self._forms: dict[int, npt.NDArray[np.int32]] = {}  # word id → lexical ids, if there are several

    def learn(self, ids: npt.NDArray[np.integer]) -> None:
        """Compute the lexical forms of the words with the given ids.

        Raises:
            SymbolError: An id is not in the symbol table.
        """
        largest = int(ids.max(initial=0))
        if largest < len(self._length) and (self._length[ids] >= 0).all():
            return
        with self._lock:
            if largest >= len(self._length):
                size = max(largest + 1, len(self.words))
                length, first = np.full(size, -1, np.int32), np.zeros(size, np.int32)
                length[: len(self._length)], first[: len(self._first)] = self._length, self._first
                self._first, self._length = first, length
            new = np.unique(ids[self._length[ids] < 0])
            names, lengths = self.normalizer.concatenated(self.words.words_of(new.tolist()))
            parts, sizes = np.array(self.lexical.intern(names), np.int32), np.array(lengths, np.int32)
            begin = offsets(sizes)
            for index in np.flatnonzero(sizes > 1).tolist():
                self._forms[int(new[index])] = parts[begin[index] : begin[index + 1]]
            has_words = sizes > 0
            self._first[new[has_words]] = parts[begin[:-1][has_words]]
            self._length[new] = sizes  # last, because other threads read it without the lock

    def form(self, number: int) -> list[int]:
        """Return the ids of the lexical words for a written word id."""
        if number >= len(self._length) or self._length[number] < 0:
            self.learn(np.array([number], np.int64))
        length = int(self._length[number])
        return self._forms[number].tolist() if length > 1 else [int(self._first[number])][:length]

    def ids(self, words: Iterable[str]) -> list[int]:
        """Return the lexical ids of written words, concatenated; lexical words without an id are assigned one."""
        return self.lexical.intern(self.normalizer.words(words))

    def written_ids(self, words: Iterable[str]) -> list[int]:
        """Look up the ids of lexical words in the table of written words; other words get ids above its largest id."""
        names = list(words)
        ids = self.words.intern(names)
        if -1 in ids:
            with self._lock:
                ids = [self._added_id(name) if number < 0 else number for name, number in zip(names, ids, strict=True)]
        return ids

    def _added_id(self, word: str) -> int:
        if not self._added:
            self._first_added = self.words.end_of_ids()
        return self._added.setdefault(word, self._first_added + len(self._added))

    def spelling(self, ids: npt.NDArray[np.int32]) -> SymbolTable | None:
        """Return a symbol table for ids from `written_ids`; None if `words` already contains all of them."""
        if not self._added or int(ids.max(initial=EPSILON)) < self._first_added:
            return None
        added = {number: word for word, number in self._added.items()}
        numbers = dict.fromkeys(ids.tolist())
        return SymbolTable((added.get(number) or self.words.word(number), number) for number in numbers)

    def numbers_of(self, lexical: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Map each lexical id to the number of its word in `FormNumbers`; negative ids are returned unchanged."""
        with self._lock:
            size = len(self.lexical)
            if size > len(self._number):
                numbers = self.numbers.of(self.lexical.words_of(range(len(self._number), size)))
                self._number = np.concatenate((self._number, np.array(numbers, np.int32)))
            number = self._number
        return np.where(lexical < 0, lexical, number[lexical])

    def missing(self, lexical: Sequence[int]) -> list[int]:
        """Return the lexical words that do not occur in the lexical form of any word in the symbol table."""
        ids = self.words.ids(self.lexical.words_of(lexical))
        others = [one for one, number in zip(lexical, ids, strict=True) if number < 0]
        if not others:
            return []
        with self._lock:
            if self._parts_size != (size := len(self.words)):
                self._is_part, self._parts_size = {}, size
            if new := [one for one in others if one not in self._is_part]:
                names = self.lexical.words_of(new)
                parts = self.normalizer.parts_among(names, self.words)
                self._is_part.update((one, name in parts) for one, name in zip(new, names, strict=True))
            return [one for one in others if not self._is_part[one]]

    def lexical_ids(self, numbers: Iterable[int]) -> list[int]:
        """Return the concatenated lexical ids for written word ids."""
        return [lexical for number in numbers for lexical in self.form(number)]

    def columns(self, lattice: Lattice) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Return ``(number of lexical words, first lexical word or 0)`` of each arc, both int32 [num_arcs]."""
        self.learn(lattice.word)
        return self._length[lattice.word], self._first[lattice.word]


class LexicalForms:
    """The normalizer of a run, and a lexical table for each symbol table.

    Args:
        name: See `make_normalizer`; or ``auto``, which applies ``none`` until a symbol table looks like written
            text, and ``basic`` from then on.
        note: Function that is called with a one-line message when ``auto`` selects ``basic``.

    Raises:
        NinjaError: See `make_normalizer`.
    """

    def __init__(
        self, name: str | os.PathLike[str] | Normalizer = AUTO, note: Callable[[str], None] | None = None
    ) -> None:
        self._note = note
        self._lock = threading.Lock()
        self._normalizer = None if name == AUTO else make_normalizer(name)
        # The last MAX_TABLES tables, keyed by `id(words)`; a table keeps its symbol table alive, so keys are unique.
        self._tables: dict[int, LexicalTable] = {}
        self._unwritten: tuple[SymbolTable | None, int] = None, 0  # last table that is not written text; its size

    @property
    def are_identical(self) -> bool:
        """Whether the requested normalizer is ``none``, which leaves words unchanged."""
        return self._normalizer is not None and self._normalizer.is_identity

    @property
    def is_decided(self) -> bool:
        """Whether the normalizer is known; until then, ``auto`` may still select ``basic``."""
        return self._normalizer is not None

    def normalizer(self, words: SymbolTable | None) -> Normalizer:
        """Return the normalizer for lattices that use a symbol table."""
        unwritten, size = self._unwritten
        if self._normalizer is None and words is not None and not (words is unwritten and len(words) == size):
            self._unwritten = words, len(words)
            return self.normalizer_of(words.names)
        return self._normalizer or NONE

    def normalizer_of(self, words: Collection[str]) -> Normalizer:
        """Return the normalizer; ``auto`` selects ``basic`` if `words` look like written text (see `looks_written`)."""
        if self._normalizer is not None or not looks_written(words):
            return self._normalizer or NONE
        with self._lock:
            if self._normalizer is None:
                self._normalizer = BASIC
                if self._note is not None:
                    self._note(LOOKS_WRITTEN)
            return self._normalizer

    def table(self, lattice: Lattice) -> LexicalTable | None:
        """Return the lexical table for a lattice; None if every word equals its form.

        Raises:
            VocabularyError: A normalizer other than ``none`` was requested, and the lattice has no symbol table.
        """
        table = self.table_of(lattice.words)
        if table is None and lattice.words is None and not self.normalizer(None).is_identity:
            message = f"the normalizer {self.normalizer(None).name} requires the symbol table of the lattice"
            raise VocabularyError(f"{message}; set it with --words (words=)", key=lattice.key)
        return table

    def table_of(self, words: SymbolTable | None) -> LexicalTable | None:
        """Return the lexical table for a symbol table; None if `words` is None or each word is its own lexical form."""
        normalizer = self.normalizer(words)
        if words is None or normalizer.is_identity:
            return None
        with self._lock:
            table = self._tables.get(id(words))
            if table is None:
                table = self._tables[id(words)] = LexicalTable(words, normalizer)
                if len(self._tables) > MAX_TABLES:
                    del self._tables[next(iter(self._tables))]
        return table

    def common_table(self, lattices: Iterable[Lattice]) -> LexicalTable | None:
        """Return the lexical table that several lattices share; None if every word equals its form.

        Raises:
            LatticeError: The lattices have different symbol tables.
            VocabularyError: See `table`.
        """
        tables = {}
        for lattice in lattices:
            table = self.table(lattice)
            tables[id(table)] = table
            if len(tables) > 1:
                message = "the lattices have different symbol tables; process them one by one"
                raise LatticeError(message, key=lattice.key)
        return next(iter(tables.values()), None)
