"""Spelling of words by a decoder's units, characters or pieces of words; and an open vocabulary."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from ninja.errors import OptionError
from ninja.lattice.symbols import SymbolTable

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
        """Make a table of some words.

        Args:
            words: None of them twice.
            room: How many more may come. They have ids from the start, so that tables made for this one fit.
        """
        fixed = ["<eps>", _FREE, *words]
        super().__init__((word, number) for number, word in enumerate(fixed))
        self._next = len(fixed)
        self._room = room
        for number in range(len(fixed), len(fixed) + room):
            self._word[number] = f"{_FREE}{number}"
            self._id[f"{_FREE}{number}"] = number

    @property
    def room(self) -> int:
        """How many more words may come."""
        return len(self._word) - self._next

    def add(self, words: Iterable[str]) -> None:
        """Take in those words that the table lacks."""
        new = [word for word in dict.fromkeys(words) if word not in self._id]
        if len(new) > self.room:
            raise OptionError(f"{len(new)} more words, but there is room for {self.room} only; ask for more room")
        for number, word in enumerate(new, start=self._next):
            del self._id[self._word[number]]
            self._id[word] = number
            self._word[number] = word
        self._next += len(new)
