"""The class `Spelling`, which maps a decoder's units to words."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from ninja.errors import OptionError


class Spelling:
    """A rule that determines how a decoder's units spell words.

    A unit that starts with the boundary begins a new word; any other unit continues the current word. The rule covers
    sentencepiece units, such as ``▁to`` and ``m``, and characters, if the boundary itself is the unit for the space.
    """

    __slots__ = ("_first", "_longest", "_more", "begins", "silent", "text")

    def __init__(self, units: Sequence[str], *, boundary: str = "▁", silent: Collection[str] = ()) -> None:
        """Create a spelling.

        Args:
            units: The decoder's units, ordered by number.
            boundary: Prefix of units that begin a word: ``"▁"`` for sentencepiece, ``" "`` or ``"|"`` for characters.
            silent: Units that are never part of words, such as ``<blank>``, ``<s>``, ``</s>`` and ``<pad>``.

        Raises:
            OptionError: The boundary or a unit is empty, or a silent unit is not in `units`.
        """
        if not boundary:
            raise OptionError('boundary is empty, but must be a prefix such as "▁" or " "')
        unknown = sorted(set(silent) - set(units))
        if unknown:
            raise OptionError(f"silent contains {unknown[0]!r}, which is not one of the {len(units)} units")
        empty = next((number for number, unit in enumerate(units) if not unit and unit not in silent), None)
        if empty is not None:
            raise OptionError(f"unit {empty} is empty; add it to silent if it is never part of a word")
        self.silent = tuple(unit in silent for unit in units)
        self.begins = tuple(unit.startswith(boundary) and unit not in silent for unit in units)
        self.text = tuple("" if unit in silent else unit.removeprefix(boundary) for unit in units)
        pairs = set(zip(self.text, self.begins, strict=True))
        self._first = {text for text, begins in pairs if begins}  # texts that may begin a word
        self._more = {text for text, begins in pairs if text and not begins}  # texts that may continue a word
        self._longest = max(map(len, self.text), default=0)

    def __len__(self) -> int:
        return len(self.text)

    def words(self, units: Iterable[int]) -> list[str]:
        """Return the words that a unit sequence spells."""
        words = [""]
        for unit in units:
            if not 0 <= unit < len(self):
                raise OptionError(f"unit {unit} is out of range; there are {len(self)} units")
            if self.begins[unit]:
                words.append("")
            words[-1] += self.text[unit]
        return [word for word in words if word]

    def can_spell(self, word: str) -> bool:
        """Return whether a word can be spelled with the units."""
        reached = {end for end in range(len(word) + 1) if end == 0 or word[:end] in self._first}
        for end in range(1, len(word) + 1):
            begins = range(max(0, end - self._longest), end)
            if any(begin in reached and word[begin:end] in self._more for begin in begins):
                reached.add(end)
        return len(word) in reached
