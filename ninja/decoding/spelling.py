"""How the units of a decoder spell words."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from ninja.errors import OptionError


class Spelling:
    """How each unit of a decoder continues the words before it.

    A unit that starts with the boundary begins a new word; any other continues the word. That is the rule of
    sentencepiece (``▁to`` ``m``), and of characters with a unit for the space, which consists of a boundary alone.
    """

    __slots__ = ("_first", "_longest", "_more", "begins", "silent", "text")

    def __init__(self, units: Sequence[str], *, boundary: str = "▁", silent: Collection[str] = ()) -> None:
        """Make a spelling.

        Args:
            units: The decoder's units by number.
            boundary: Prefix of units that begin a word: ``"▁"`` for sentencepiece, ``" "`` or ``"|"`` for characters.
            silent: Units that are no part of words, such as ``<blank>``, ``<s>``, ``</s>`` and ``<pad>``.

        Raises:
            OptionError: The boundary is empty, a unit is empty, or a silent unit is not among the units.
        """
        if not boundary:
            raise OptionError('boundary is empty, but words begin with it; give one such as "▁" or " "')
        unknown = sorted(set(silent) - set(units))
        if unknown:
            raise OptionError(f"silent names {unknown[0]!r}, which is not one of the {len(units)} units")
        empty = next((number for number, unit in enumerate(units) if not unit and unit not in silent), None)
        if empty is not None:
            raise OptionError(f"unit {empty} is empty; if it is not a part of words, list it in silent")
        self.silent = tuple(unit in silent for unit in units)
        self.begins = tuple(unit.startswith(boundary) and unit not in silent for unit in units)
        self.text = tuple("" if unit in silent else unit.removeprefix(boundary) for unit in units)
        pairs = set(zip(self.text, self.begins, strict=True))
        self._first = {text for text, begins in pairs if begins}  # texts with which words may begin
        self._more = {text for text, begins in pairs if text and not begins}  # and with which they may continue
        self._longest = max(map(len, self.text), default=0)

    def __len__(self) -> int:
        return len(self.text)

    def words(self, units: Iterable[int]) -> list[str]:
        """Return the words that some units spell."""
        words = [""]
        for unit in units:
            if not 0 <= unit < len(self):
                raise OptionError(f"unit {unit} is not one of the {len(self)} units")
            if self.begins[unit]:
                words.append("")
            words[-1] += self.text[unit]
        return [word for word in words if word]

    def can_spell(self, word: str) -> bool:
        """Tell whether units can spell a word."""
        reached = {end for end in range(len(word) + 1) if end == 0 or word[:end] in self._first}
        for end in range(1, len(word) + 1):
            begins = range(max(0, end - self._longest), end)
            if any(begin in reached and word[begin:end] in self._more for begin in begins):
                reached.add(end)
        return len(word) in reached
