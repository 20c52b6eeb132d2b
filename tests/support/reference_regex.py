"""Regular expressions matched slowly, with backtracking like Python's `re`, to count the steps."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

sre: Any = import_module("re._constants" if sys.version_info >= (3, 11) else "sre_constants")
parser: Any = import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")

CATEGORIES = {
    sre.CATEGORY_DIGIT: r"\d",
    sre.CATEGORY_NOT_DIGIT: r"\D",
    sre.CATEGORY_SPACE: r"\s",
    sre.CATEGORY_NOT_SPACE: r"\S",
    sre.CATEGORY_WORD: r"\w",
    sre.CATEGORY_NOT_WORD: r"\W",
}


class StepLimitError(Exception):
    """The match takes more steps than the limit."""


class Steps:
    """Matches of an expression at the beginning of a text, and the number of steps."""

    def __init__(self, expression: re.Pattern[Any], text: str, max_steps: int) -> None:
        flags = expression.flags & ~re.UNICODE if isinstance(expression.pattern, bytes) else expression.flags
        self._tree = parser.parse(expression.pattern, flags)
        self._text, self.max_steps, self.count = text, max_steps, 0
        self._flags, self._dotall = expression.flags & re.ASCII, expression.flags & re.DOTALL
        self._groups: dict[int, tuple[int, int]] = {}

    def fullmatch(self) -> bool:
        """Return whether the whole text matches."""
        return any(end == len(self._text) for end in self._sequence(list(self._tree), 0))

    def _step(self) -> None:
        self.count += 1
        if self.count > self.max_steps:
            raise StepLimitError

    def _sequence(self, items: list[Any], at: int) -> Iterator[int]:
        if not items:
            yield at
            return
        for middle in self._match_item(*items[0], at):
            yield from self._sequence(items[1:], middle)

    def _match_item(self, kind: Any, argument: Any, at: int) -> Iterator[int]:
        """Yield the possible ends of an item, in the order in which `re` tries them."""
        self._step()
        if kind in (sre.LITERAL, sre.NOT_LITERAL, sre.IN, sre.ANY):
            if at < len(self._text) and self._fits(kind, argument, self._text[at]):
                yield at + 1
        elif kind in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            min_repeats, max_repeats, body = argument
            yield from self._repeat(list(body), min_repeats, max_repeats, at, greedy=kind is sre.MAX_REPEAT)
        elif kind is sre.SUBPATTERN:
            for end in self._sequence(list(argument[3]), at):
                self._groups[argument[0]] = at, end
                yield end
        elif kind is sre.BRANCH:
            for branch in argument[1]:
                yield from self._sequence(list(branch), at)
        elif kind is sre.AT:
            if argument in (sre.AT_BEGINNING, sre.AT_BEGINNING_STRING):
                fits = at == 0
            elif argument in (sre.AT_END, sre.AT_END_STRING):
                fits = at == len(self._text)
            else:
                fits = re.compile(r"\b").match(self._text, at) is not None  # an approximation
            if fits:
                yield at
        elif kind in (sre.ASSERT, sre.ASSERT_NOT):
            ahead, body = argument
            width = body.getwidth()[0]
            begin = at if ahead > 0 else at - width
            matches = begin >= 0 and any(True for _ in self._sequence(list(body), begin))
            if matches == (kind is sre.ASSERT):
                yield at
        elif kind is sre.GROUPREF:
            begin, end = self._groups[argument]
            if self._text.startswith(self._text[begin:end], at):
                yield at + end - begin
        else:
            raise NotImplementedError(str(kind))

    def _repeat(
        self, body: list[Any], min_repeats: int, max_repeats: Any, begin: int, *, greedy: bool
    ) -> Iterator[int]:
        ends = [(begin, self._sequence(body, begin))]  # a stack of the repetitions so far
        max_repeats = len(self._text) + 1 if max_repeats is sre.MAXREPEAT else max_repeats
        if not greedy and min_repeats == 0:
            yield begin
        while ends:
            self._step()
            at, further = ends[-1]
            end = next(further, None) if len(ends) <= max_repeats else None
            if end is None or (end == at and len(ends) > min_repeats):
                ends.pop()
                if greedy and len(ends) >= min_repeats:
                    yield at
                continue
            ends.append((end, self._sequence(body, end)))
            if not greedy and len(ends) - 1 >= min_repeats:
                yield end

    def _fits(self, kind: Any, argument: Any, letter: str) -> bool:
        if kind is sre.ANY:
            return bool(self._dotall) or letter != "\n"
        if kind is sre.LITERAL:
            return ord(letter) == argument
        if kind is sre.NOT_LITERAL:
            return ord(letter) != argument
        negated = argument[0][0] is sre.NEGATE
        return negated != any(self._in(*item, letter) for item in argument if item[0] is not sre.NEGATE)

    def _in(self, kind: Any, argument: Any, letter: str) -> bool:
        if kind is sre.RANGE:
            return bool(argument[0] <= ord(letter) <= argument[1])
        if kind is sre.CATEGORY:
            return re.match(CATEGORIES[argument], letter, self._flags) is not None
        return ord(letter) == argument
