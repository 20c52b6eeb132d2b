"""Scores that an HTK file keeps beside a lattice, in logarithms of another base."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from ninja.errors import FormatError, LatticeError, OptionError

SCORES = frozenset({"a", "acoustic", "l", "language", "n", "ngram", "r", "ds"})  # in the header's base
LARGEST = 700.0  # natural logarithm of a probability that float64 holds; at twice that exp(-cost) would be 0
_PENALTY = "wdpenalty"
_SEGMENTS = frozenset({"d", "div"})
_PLAIN = frozenset({"v", "var", "s", "states", "p"})  # p, the posterior, is a probability in every base
_TEXTS = frozenset({"VERSION", "V", "UTTERANCE", "U", "SUBLAT", "S", "base", "start", "end", "dir"})
_TEXTS |= frozenset({"lmname", "ngname", "vocab", "hmms"})


class Rebasing:
    """The change from one base of a header to another: numbers above 1, 1 for natural logarithms, 0 for probabilities.

    Args:
        before: The base of the scores that there are.
        after: The base of those that are wanted.
        key: Of the lattice, for messages.
    """

    def __init__(self, before: float, after: float, key: str) -> None:
        self._before, self._after = _unit(before), _unit(after)
        self._key = key
        self._bases = f"{before:g} to {after:g}"

    @property
    def changes(self) -> bool:
        """Whether scores in one base differ from those in the other."""
        return self._before != self._after

    def of_header(self, header: Mapping[str, str]) -> dict[str, str]:
        """Return the fields of a header in the other base.

        Raises:
            OptionError: Nobody can tell whether the number of a field is a logarithm.
            FormatError: The penalty is no number.
            LatticeError: It is no logarithm in one of the bases.
        """
        for name, value in header.items():
            if name in _TEXTS or name == _PENALTY or name.endswith("scale"):
                continue
            if _number(value) is not None:
                raise self._unknown(f"{name}={value} in the header")
        return {name: self.score(name, value) if name == _PENALTY else value for name, value in header.items()}

    def of_rows(self, table: Mapping[str, Mapping[int, str]]) -> dict[str, dict[int, str]]:
        """Return fields of links or nodes in the other base.

        Args:
            table: The values of each field by the numbers of what they belong to.

        Raises:
            OptionError: Nobody can tell whether a field is a logarithm.
            FormatError: A score is no number.
            LatticeError: It is no logarithm in one of the bases.
        """
        result = {}
        for name, values in table.items():
            self._check(name, values.values())
            scored = name in SCORES
            result[name] = {row: self.score(name, value) if scored else value for row, value in values.items()}
        return result

    def score(self, name: str, value: str) -> str:
        """Return a score in the other base.

        Raises:
            FormatError: It is no number.
            LatticeError: It is no logarithm in one of the bases.
        """
        number = _number(value)
        if number is None:
            raise FormatError(f"{name}={value} is no number", key=self._key)
        if not math.isfinite(number) or (self._before == 0 and number <= 0):
            raise LatticeError(f"{name}={value} has no logarithm, so it cannot change its base", key=self._key)
        natural = number * self._before if self._before else math.log(number)
        if self._after:
            return repr(natural / self._after)
        if abs(natural) > LARGEST:
            raise LatticeError(f"{name}={value} is too large for a probability; write logarithms", key=self._key)
        return repr(math.exp(natural))

    def _check(self, name: str, values: Iterable[str]) -> None:
        """Refuse a field of which nobody can tell whether it is a logarithm."""
        if name in SCORES or name in _PLAIN:
            return
        if name in _SEGMENTS:
            # Of a segment that has a third part, it is a likelihood.
            if not any(part.count(",") > 1 for value in values for part in value.split(":")):
                return
            raise self._unknown(f"the likelihoods of {name}=")
        raise self._unknown(f"the field {name!r}")

    def _unknown(self, what: str) -> OptionError:
        message = f"{what} may be a logarithm or not, so its base cannot change from {self._bases}; "
        return OptionError(message + "leave it out of the extras, or keep the base", key=self._key)


def _unit(base: float) -> float:
    """Return the natural logarithm that 1 stands for; 0: numbers are probabilities."""
    return base if base in (0, 1) else math.log(base)


def _number(value: str) -> float | None:
    try:
        return float(value.strip("\"'"))
    except ValueError:
        return None
