"""Written and lexical forms of words: `Normalizer` and `LexicalTable`.

A word of a lattice is written text, such as ``Clendenin,``. Its lexical form is the sequence of words that a listener
would write down for it in lower case: ``clendenin``; none for ``,``; ``twenty three`` for ``twenty-three``.
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

from ninja import _core
from ninja.errors import FormatError, LatticeError, OptionError, VocabularyError
from ninja.files import text as utf8
from ninja.lattice.arrays import offsets
from ninja.lattice.batch import Batch
from ninja.lattice.characters import APOSTROPHES, LABEL
from ninja.lattice.english import english_forms
from ninja.lattice.lattice import Lattice
from ninja.lattice.symbols import EPSILON, SymbolTable

Form = tuple[str, ...]
Name = Literal["none", "basic", "english"]
AUTO = "auto"
NORMALIZER_HELP = (
    "Compare words by their lexical forms: none, basic (case and punctuation ignored), english (rules of Whisper), "
    "or a file of written words and their forms.  [default: basic where words look written, else none]"
)
NORMALIZERS: tuple[str, ...] = get_args(Name)

_PLAIN = re.compile(r"[a-z]+(?:'[a-z]+)*'?|'[a-z]+(?:'[a-z]+)*")  # its own basic form
_PLAIN_TEXT = re.compile(r"[a-z]+(?: [a-z]+)*")
_SIGNS = string.punctuation.replace("'", "") + "".join(map(chr, range(32))) + "\x7f"  # at the ends of ASCII words
_DIVIDER = re.compile(r"[\s\-‐‑‒–—―−⁻/⁄_﹣－…]+|\.{2,}")
_VARIANT_SELECTORS = re.compile("[\ufe00-\ufe0f\u20e3\U000e0100-\U000e01ef]")
_JOINERS = "\u200c\u200d"  # they separate letters of a word in Persian and in Indic scripts
_MAX_REPEATS = 8  # of a normalisation, until nothing changes

_ENDS = re.compile(r"\S[,?!;:…。、！？،؟।]$|\w{3}\.$", re.MULTILINE)  # ends of written words
MIN_SHARE = 0.02  # of words with such an end, from which on words look written
_SAMPLE = 4096  # words of a table that are looked at
LOOKS_WRITTEN = "words look written: case and punctuation are ignored (normalizer basic); normalizer none compares them"


class Normalizer:
    """A function from a written word to its lexical form; equal words always have equal forms.

    Args:
        name: Name in messages.
        forms: Returns the forms of words. The form of each word of a form is this word alone.
    """

    def __init__(self, name: str, forms: Callable[[Sequence[str]], list[Form]]) -> None:
        self.name = name
        self._compute = forms
        self._form: dict[str, Form] = {}

    @property
    def is_identity(self) -> bool:
        """Whether every word is its own lexical form."""
        return self.name == "none"

    def __call__(self, word: str) -> Form:
        """Return the lexical form of a word: zero or more words."""
        form = self._form.get(word)
        return self.forms((word,))[0] if form is None else form

    def forms(self, words: Sequence[str]) -> list[Form]:
        """Return the lexical form of each word."""
        known = self._form
        try:
            return [known[word] for word in words]
        except KeyError:
            pass
        missing = [word for word in dict.fromkeys(words) if word not in known]
        if missing:
            known.update(zip(missing, self._compute(missing), strict=True))
        return [known[word] for word in words]

    def changes(self, words: Sequence[str]) -> list[tuple[int, Form]]:
        """Return the position and the form of each word that is not its own form."""
        places = odd_places(words) if self.name == "basic" else range(len(words))
        forms = self.forms([words[place] for place in places])
        return [(place, form) for place, form in zip(places, forms, strict=True) if form != (words[place],)]

    def words(self, text: Iterable[str]) -> list[str]:
        """Return the lexical words of a sequence of written words."""
        return [word for form in self.forms(list(text)) for word in form]

    def text(self, text: str) -> str:
        """Return the lexical words of a text, separated by single blanks."""
        if self.name == "basic" and _PLAIN_TEXT.fullmatch(text):
            return text
        return " ".join(self.words(text.split()))

    def __reduce__(self) -> tuple[object, ...]:
        return make_normalizer, (self.name,)

    def __repr__(self) -> str:
        return f"Normalizer({self.name!r})"


def make_normalizer(name: str | os.PathLike[str] | Normalizer) -> Normalizer:
    """Return a normalizer.

    Args:
        name: ``none``: words are compared as they are. ``basic``: Unicode NFKC, case folding, punctuation and symbols
            stripped from both ends, words divided at hyphens. ``english``: the rules of Whisper's evaluation for
            English; numbers are spelled out. Otherwise the path of a table of two columns: a written word and,
            separated by white space, its lexical words, or nothing; words that the table lacks are their own form.

    Raises:
        OptionError: The name is neither known nor that of a file.
        FormatError: A word of the table has two entries, or a lexical word has an entry of another form.
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
    """Read a table of written words and their lexical forms; lines that begin with ``#`` and a blank are comments.

    Raises:
        FormatError: A word occurs twice, or a lexical word is itself written as something else, so that forms of forms
            would differ.
    """
    forms: dict[str, Form] = {}
    line_of: dict[str, int] = {}
    for number, line in enumerate(utf8.read(path).split("\n"), start=1):
        word, *form = line.split() or ("#",)
        if word == "#":
            continue
        if word in forms:
            raise FormatError(f"{word!r} has a form in line {line_of[word]} already; leave one", path, line=number)
        forms[word], line_of[word] = tuple(form), number
    for word, lexical in forms.items():
        for part in lexical:
            if (other := forms.get(part, (part,))) != (part,):
                message = f"{word!r} becomes {part!r}, which line {line_of[part]} changes to {' '.join(other)!r}"
                raise FormatError(f"{message}; give each word its last form", path, line=line_of[word])
    return forms


def odd_places(words: Collection[str]) -> list[int]:
    """Return the positions of the words whose basic form may differ from them."""
    text = np.frombuffer("\n".join(words).encode("utf-8", "surrogatepass"), np.uint8)
    line_ends = np.flatnonzero(text == ord("\n"))
    if len(line_ends) != len(words) - 1:  # a word has a line break, or there is none
        return [place for place, word in enumerate(words) if not _PLAIN.fullmatch(word)]
    is_letter = (text >= ord("a")) & (text <= ord("z"))
    is_plain = is_letter.copy()
    is_plain[1:] |= (text[1:] == ord("'")) & is_letter[:-1]
    is_plain[line_ends] = True
    places = np.searchsorted(line_ends, np.flatnonzero(~is_plain))  # sorted; np.unique would import numpy.ma
    places = places[np.diff(places, prepend=-1) > 0].tolist()
    names = words if isinstance(words, Sequence) else list(words)
    return [place for place in places if not _PLAIN.fullmatch(names[place])]


def _basic_forms(words: Sequence[str]) -> list[Form]:
    forms: list[Form] = [(word,) for word in words]
    for place in odd_places(words):
        forms[place] = _basic_form(words[place])
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
    for _ in range(_MAX_REPEATS):  # in rare scripts a change of case changes other characters
        again = tuple(part for piece in form for part in _divided(piece))
        if again == form:
            break
        form = again
    return form


def _is_changed(letters: str) -> bool:
    """Tell whether letters of one case are not their own form: compatibility characters, and an apostrophe."""
    return not unicodedata.is_normalized("NFKC", letters) or "\u02bc" in letters


def _divided(word: str) -> Form:
    """Return the pieces of a word without punctuation at their ends."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", word).casefold())
    folded = _VARIANT_SELECTORS.sub("", folded.translate(APOSTROPHES))
    bare = map(_bare, _DIVIDER.split(folded))
    return tuple(piece for piece in bare if any(unicodedata.category(char)[0] in "LN" for char in piece))


def _bare(piece: str) -> str:
    """Strip punctuation, symbols and control characters from both ends; a single apostrophe belongs to the word."""
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
    if not (_is_letter(inner[0]) and _is_letter(inner[-1])):  # as in «'em»
        inner = _bare(inner)
        return f"{bare[0] * (bare[0] == chr(39))}{inner}{bare[-1] * (bare[-1] == chr(39))}" if inner else ""
    return bare


def _is_letter(char: str) -> bool:
    return unicodedata.category(char)[0] in "LNM"


NONE = Normalizer("none", lambda words: [(word,) for word in words])
BASIC = Normalizer("basic", _basic_forms)


def looks_written(words: Collection[str]) -> bool:
    """Tell whether words are written text: a share of them ends with punctuation."""
    step = max(1, len(words) // _SAMPLE)
    sample = list(islice(words, 0, None, step))
    return len(_ENDS.findall("\n".join(sample))) >= max(1, MIN_SHARE * len(sample))


def unknown_forms(words: Iterable[str], table: SymbolTable, normalizer: Normalizer) -> list[str]:
    """Return the words with a lexical word that is part of no word of a symbol table."""
    names = list(table.names)
    changes = normalizer.changes(names)
    changed = {names[place] for place, _ in changes}
    parts = {part for _, form in changes for part in form}
    return [
        word
        for word in words
        if any(part not in parts and (part not in table or part in changed) for part in normalizer(word))
    ]


class LexicalTable:
    """The lexical forms of the words of a symbol table; each word is normalised when it first occurs.

    Args:
        words: The written words of lattices; the table may grow.
    """

    def __init__(self, words: SymbolTable, normalizer: Normalizer) -> None:
        self.words = words
        self.normalizer = normalizer
        self.lexical = SymbolTable.growing()  # the lexical words; 0 is epsilon
        self._lock = threading.Lock()
        self._length = np.full(1, 0, np.int32)  # [size], number of lexical words of each word id; -1 = not known yet
        self._first = np.zeros(1, np.int32)  # [size], the first of them, 0 = none
        self._flag = np.zeros(1, np.uint8)  # [size], whether the form of a word differs from it; 2 = not known yet
        self._extended: SymbolTable | None = None  # see `written_ids`
        self._changed_parts: set[str] = set()  # lexical words of the words that are not their own forms
        self._changed_size = -1  # words of the symbol table when they were collected
        self._forms: dict[int, npt.NDArray[np.int32]] = {}  # of words with several

    def learn(self, ids: npt.NDArray[np.integer]) -> None:
        """Normalise the words of some ids.

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
            is_new = np.zeros(len(self._length), np.bool_)
            is_new[ids] = True
            new = np.flatnonzero(is_new & (self._length < 0))
            forms = self.normalizer.forms(self.words.words_of(new.tolist()))
            sizes = np.array([len(form) for form in forms], np.int32)
            parts = np.array(self.lexical.intern([part for form in forms for part in form]), np.int32)
            begin = offsets(sizes)
            for place in np.flatnonzero(sizes > 1).tolist():
                self._forms[int(new[place])] = parts[begin[place] : begin[place + 1]]
            has_words = sizes > 0
            self._first[new[has_words]] = parts[begin[:-1][has_words]]
            self._length[new] = sizes  # last, for threads that do not wait

    def form(self, number: int) -> list[int]:
        """Return the lexical ids of a written word's id."""
        if number >= len(self._length) or self._length[number] < 0:
            self.learn(np.array([number], np.int64))
        length = int(self._length[number])
        return self._forms[number].tolist() if length > 1 else [int(self._first[number])][:length]

    def forms_of(self, numbers: Iterable[int]) -> npt.NDArray[np.int32]:
        """Return the lexical ids of a sequence of written words' ids, int32; zeros are left out."""
        return np.array([part for number in numbers if number != EPSILON for part in self.form(int(number))], np.int32)

    def ids(self, words: Iterable[str]) -> list[int]:
        """Return the lexical ids of a sequence of written words, such as a reference; unknown ones are added."""
        return self.lexical.intern(self.normalizer.words(words))

    def changed(self, lattices: Lattice | Batch) -> list[int]:
        """Return the places of the lattices with a word that is not its own form; a lattice is a batch of one.

        Raises:
            SymbolError: A word id is not in the symbol table.
        """
        if len(self._flag) < len(self.words):
            self._extend_flags(len(self.words))
        places, unknown = _core.flagged_words(lattices, Lattice, self._flag)
        if len(unknown):
            self._compare(unknown)
            places, _ = _core.flagged_words(lattices, Lattice, self._flag)
        numbers: list[int] = places.tolist()
        return numbers

    def _compare(self, ids: npt.NDArray[np.int32]) -> None:
        """Find out which words differ from their forms."""
        flag = np.zeros(len(ids), np.uint8)
        flag[[place for place, _ in self.normalizer.changes(self.words.words_of(ids.tolist()))]] = 1
        self._extend_flags(int(ids.max()) + 1)
        with self._lock:
            self._flag[ids] = flag

    def _extend_flags(self, size: int) -> None:
        """Make room for the flags of ids below a size."""
        with self._lock:
            if size > len(self._flag):
                self._flag = np.concatenate((self._flag, np.full(size - len(self._flag), 2, np.uint8)))

    def written_ids(self, lexical: Iterable[int]) -> list[int]:
        """Return the ids of lexical words as written words.

        Words that the symbol table lacks are added to ``spelling``.
        """
        words = self.lexical.words_of(lexical)
        ids = self.spelling.intern(words)
        if -1 in ids:
            with self._lock:
                if self._extended is None:
                    self._extended = SymbolTable.growing(self.words)
            ids = self._extended.intern(words)
        return ids

    def has_word(self, lexical: int) -> bool:
        """Tell whether a lexical word is in the form of a word of the symbol table."""
        word = self.lexical.word(lexical)
        if self.words.id(word) is not None:  # a lexical word is its own form
            return True
        if self._changed_size != (size := len(self.words)):
            self._changed_parts = {part for _, form in self.normalizer.changes(list(self.words.names)) for part in form}
            self._changed_size = size
        return word in self._changed_parts

    @property
    def spelling(self) -> SymbolTable:
        """The symbol table of written words, and of the lexical ones that were added to it."""
        return self._extended or self.words

    def lexical_ids(self, numbers: Iterable[int]) -> list[int]:
        """Return the lexical ids of a sequence of written words' ids."""
        return [lexical for number in numbers for lexical in self.form(number)]

    def columns(self, lattice: Lattice) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Return the number of lexical words of each arc, and the first one (0 = none), int32 [num_arcs] each."""
        self.learn(lattice.word)
        return self._length[lattice.word], self._first[lattice.word]


class LexicalForms:
    """The normalizer of a run and its tables.

    Args:
        name: As for `make_normalizer`, or ``auto``: ``basic`` from the first symbol table on whose words look written,
            and ``none`` before.
        note: Called with a line when ``auto`` chooses ``basic``.

    Raises:
        NinjaError: As for `make_normalizer`.
    """

    def __init__(
        self, name: str | os.PathLike[str] | Normalizer = AUTO, note: Callable[[str], None] | None = None
    ) -> None:
        self._note = note
        self._lock = threading.Lock()
        self._normalizer = None if name == AUTO else make_normalizer(name)
        self._tables: dict[int, LexicalTable] = {}  # by the id of their symbol table, which they keep alive
        self._judged: tuple[SymbolTable | None, int] = None, 0  # the last table without written words, and its size

    @property
    def are_identical(self) -> bool:
        """Whether all words are their own forms, because ``none`` was named."""
        return self._normalizer is not None and self._normalizer.is_identity

    def normalizer(self, words: SymbolTable | None) -> Normalizer:
        """Return the normalizer for the words of lattices."""
        judged, size = self._judged
        if self._normalizer is None and words is not None and not (words is judged and len(words) == size):
            self._judged = words, len(words)
            return self.normalizer_of(words.names)
        return self._normalizer or NONE

    def normalizer_of(self, words: Collection[str]) -> Normalizer:
        """Return the normalizer for some words."""
        if self._normalizer is not None or not looks_written(words):
            return self._normalizer or NONE
        with self._lock:
            if self._normalizer is None:
                self._normalizer = BASIC
                if self._note is not None:
                    self._note(LOOKS_WRITTEN)
            return self._normalizer

    def table(self, lattice: Lattice) -> LexicalTable | None:
        """Return the lexical forms of a lattice's words; None if every word is its own form.

        Raises:
            VocabularyError: The lattice has no symbol table, but a normalizer was named.
        """
        table = self.table_of(lattice.words)
        if table is None and lattice.words is None and not self.normalizer(None).is_identity:
            message = f"the lattice has no symbol table for the normalizer {self.normalizer(None).name}; give its words"
            raise VocabularyError(message, key=lattice.key)
        return table

    def table_of(self, words: SymbolTable | None) -> LexicalTable | None:
        """Return the lexical forms of the words of a table; None if there is none, or every word is its own form."""
        normalizer = self.normalizer(words)
        if words is None or normalizer.is_identity:
            return None
        with self._lock:
            table = self._tables.get(id(words))
            if table is None:
                table = self._tables[id(words)] = LexicalTable(words, normalizer)
        return table

    def common_table(self, lattices: Iterable[Lattice]) -> LexicalTable | None:
        """Return the lexical forms of the words of several lattices; None if every word is its own form.

        Raises:
            LatticeError: The lattices have several symbol tables.
            VocabularyError: As for `table`.
        """
        tables = {}
        for lattice in lattices:
            table = self.table(lattice)
            tables[id(table)] = table
            if len(tables) > 1:
                raise LatticeError("lattices of several symbol tables; take them one by one", key=lattice.key)
        return next(iter(tables.values()), None)
