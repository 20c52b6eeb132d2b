"""`Confusion`, costs of substituting, inserting and deleting phones."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ninja.errors import FormatError, OptionError
from ninja.files.output import opened_as_text
from ninja.files.stream import text_of
from ninja.lattice.lattice import frozen

FORMAT = "ninja phone confusion 1"
MAX_PHONES = 1000

# Kondrak's features of English phones. Consonants: place, manner, voice, nasal, retroflex, lateral. Vowels: height,
# backness, roundness, length; the features of a diphthong are the mean of its two halves.
_BILABIAL, _LABIODENTAL, _DENTAL, _ALVEOLAR, _PALATO_ALVEOLAR, _PALATAL, _VELAR, _GLOTTAL = (
    1.0, 0.95, 0.9, 0.85, 0.75, 0.7, 0.6, 0.1,
)  # fmt: skip
_RETROFLEX = 0.8
_STOP, _AFFRICATE, _FRICATIVE, _APPROXIMANT = 1.0, 0.9, 0.8, 0.6
_HIGH, _MID, _LOW = 1.0, 0.5, 0.0
_FRONT, _CENTRAL, _BACK = 1.0, 0.5, 0.0
_CONSONANTS = {
    "P": (_BILABIAL, _STOP, 0, 0, 0, 0), "B": (_BILABIAL, _STOP, 1, 0, 0, 0), "T": (_ALVEOLAR, _STOP, 0, 0, 0, 0),
    "D": (_ALVEOLAR, _STOP, 1, 0, 0, 0), "K": (_VELAR, _STOP, 0, 0, 0, 0), "G": (_VELAR, _STOP, 1, 0, 0, 0),
    "M": (_BILABIAL, _STOP, 1, 1, 0, 0), "N": (_ALVEOLAR, _STOP, 1, 1, 0, 0), "NG": (_VELAR, _STOP, 1, 1, 0, 0),
    "F": (_LABIODENTAL, _FRICATIVE, 0, 0, 0, 0), "V": (_LABIODENTAL, _FRICATIVE, 1, 0, 0, 0),
    "TH": (_DENTAL, _FRICATIVE, 0, 0, 0, 0), "DH": (_DENTAL, _FRICATIVE, 1, 0, 0, 0),
    "S": (_ALVEOLAR, _FRICATIVE, 0, 0, 0, 0), "Z": (_ALVEOLAR, _FRICATIVE, 1, 0, 0, 0),
    "SH": (_PALATO_ALVEOLAR, _FRICATIVE, 0, 0, 0, 0), "ZH": (_PALATO_ALVEOLAR, _FRICATIVE, 1, 0, 0, 0),
    "HH": (_GLOTTAL, _FRICATIVE, 0, 0, 0, 0), "CH": (_PALATO_ALVEOLAR, _AFFRICATE, 0, 0, 0, 0),
    "JH": (_PALATO_ALVEOLAR, _AFFRICATE, 1, 0, 0, 0), "L": (_ALVEOLAR, _APPROXIMANT, 1, 0, 0, 1),
    "R": (_RETROFLEX, _APPROXIMANT, 1, 0, 1, 0), "W": (_BILABIAL, _APPROXIMANT, 1, 0, 0, 0),
    "Y": (_PALATAL, _APPROXIMANT, 1, 0, 0, 0),
}  # fmt: skip
_VOWELS = {
    "IY": (_HIGH, _FRONT, 0, 1), "IH": (_HIGH, _FRONT, 0, 0), "EH": (_MID, _FRONT, 0, 0), "AE": (_LOW, _FRONT, 0, 0),
    "AH": (_MID, _CENTRAL, 0, 0), "AA": (_LOW, _BACK, 0, 1), "AO": (_MID, _BACK, 1, 1), "UH": (_HIGH, _BACK, 1, 0),
    "UW": (_HIGH, _BACK, 1, 1), "ER": (_MID, _CENTRAL, 0, 1),
    "EY": ((_MID + _HIGH) / 2, _FRONT, 0, 1), "OW": ((_MID + _HIGH) / 2, _BACK, 1, 1),
    "AY": ((_LOW + _HIGH) / 2, (_CENTRAL + _FRONT) / 2, 0, 1),
    "AW": ((_LOW + _HIGH) / 2, (_CENTRAL + _BACK) / 2, 0.5, 1),
    "OY": ((_MID + _HIGH) / 2, (_BACK + _FRONT) / 2, 0.5, 1),
}  # fmt: skip
# Saliences of the features, and the scores of an exact match, of a vowel in a match, and of a skip.
_SYLLABIC, _PLACE, _MANNER, _VOICE, _NASAL, _RHOTIC, _LATERAL = 5, 40, 50, 10, 10, 10, 10
_HEIGHT, _BACKNESS, _ROUND, _LENGTH = 5, 5, 5, 1
_SAME, _VOWEL, _SKIP = 35, 10, -10


@dataclass(frozen=True, eq=False)
class Confusion:
    """Edit costs of phones. With the articulatory costs, deleting a consonant costs 0.79 and deleting a vowel 0.5.

    Raises:
        OptionError: There are no phones, too many phones or duplicate phones, a shape is wrong, or a cost is
            out of range.
    """

    phones: tuple[str, ...]  # phones in the order of the rows and columns
    substitution: npt.NDArray[np.float32]  # substitution costs, [reference, hypothesis], ≥ 0; the diagonal is 0
    insertion: npt.NDArray[np.float32]  # cost of a phone that is only in the hypothesis, [phones], > 0
    deletion: npt.NDArray[np.float32]  # cost of a phone that is only in the reference, [phones], > 0
    source: str = field(default="")  # origin of the costs, as written to files

    def __post_init__(self) -> None:
        count = len(self.phones)
        if not 0 < count <= MAX_PHONES or len(set(self.phones)) < count:
            raise OptionError(
                f"there are {count} phones, {len(set(self.phones))} of them distinct; specify 1 to {MAX_PHONES} "
                "distinct phones"
            )
        for name, shape in (("substitution", (count, count)), ("insertion", (count,)), ("deletion", (count,))):
            cost = np.array(getattr(self, name), np.float32, order="C")
            if cost.shape != shape:
                raise OptionError(
                    f"{name} has shape {list(cost.shape)}, but {list(shape)} is needed for {count} phones"
                )
            low = 0.0 if name == "substitution" else np.finfo(np.float32).tiny
            if (bad := ~(np.isfinite(cost) & (cost >= low))).any():
                at = tuple(map(int, np.argwhere(bad)[0]))
                named = " → ".join(self.phones[index] for index in at)
                bound = ">= 0" if name == "substitution" else "> 0"
                raise OptionError(f"the {name} cost of {named} is {cost[at]}, but must be finite and {bound}")
            object.__setattr__(self, name, frozen(cost))
        if (diagonal := np.diagonal(self.substitution)).any():
            phone = self.phones[int(np.flatnonzero(diagonal)[0])]
            raise OptionError(f"the cost of substituting {phone} with itself is {diagonal.max()}, but must be 0")

    @cached_property
    def id(self) -> dict[str, int]:
        """Map from each phone to its index in ``phones``."""
        return {phone: number for number, phone in enumerate(self.phones)}

    @classmethod
    def articulatory(cls) -> Confusion:
        """Return articulatory costs for the phones of the CMU dictionary.

        The costs are Kondrak's ALINE similarities, converted to distances. ALINE scores a substitution as
        ``35 − δ(p, q) − V(p) − V(q)`` and a skip as ``−10``, where δ is the sum of feature differences weighted by
        their saliences, and V is 10 for a vowel. The distance between two strings,
        ``(s(x, x) + s(y, y)) / 2 − s(x, y)``, is then the sum of ``δ(p, q)`` over substitutions and
        ``35 / 2 − V(p) + 10`` over skips, divided here by 35.
        The features of a diphthong are the mean of its two halves.

        Source: G. Kondrak 2002, "Algorithms for Language Reconstruction", section 4.5 (features, saliences), as given
        in NLTK, nltk/metrics/aline.py, except for the changes noted there; alineR, raw.alignment (the saliences).
        """
        phones = tuple(sorted(_CONSONANTS | _VOWELS))
        substitution = [[_difference(reference, hypothesis) / _SAME for hypothesis in phones] for reference in phones]
        skip = [(_SAME / 2 - _VOWEL * (phone in _VOWELS) - _SKIP) / _SAME for phone in phones]
        return cls(
            phones, np.array(substitution), np.array(skip), np.array(skip), "articulatory features, Kondrak 2002"
        )

    @classmethod
    def uniform(cls, phones: Sequence[str]) -> Confusion:
        """Return the costs of the unweighted edit distance, where each edit costs 1."""
        count = len(phones)
        one = np.ones(count, np.float32)
        return cls(tuple(phones), 1 - np.eye(count, dtype=np.float32), one, one, "uniform")

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Confusion:
        """Read a JSON file written by `write`.

        Raises:
            FormatError: The file is damaged or has the wrong format.
        """
        try:
            content = json.loads(text_of(path))
        except (json.JSONDecodeError, RecursionError) as error:
            raise FormatError(f"not valid JSON: {error}", path) from error
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise FormatError(f'not a phone confusion file: "format": "{FORMAT}" is missing', path)
        try:
            phones = tuple(str(phone) for phone in content["phones"])
            substitution, insertion, deletion = (
                np.array(content[name], np.float32) for name in ("substitution", "insertion", "deletion")
            )
            return cls(phones, substitution, insertion, deletion, str(content.get("source", "")))
        except (KeyError, TypeError, ValueError) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            raise FormatError(f"invalid phone confusion table: {reason}", path) from error

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the costs as JSON with 4 decimal places."""
        rows = ",\n  ".join(json.dumps([round(float(cost), 4) for cost in row]) for row in self.substitution)
        parts = [f'"format": {json.dumps(FORMAT)}', f'"source": {json.dumps(self.source, ensure_ascii=False)}']
        parts.append(f'"phones": {json.dumps(self.phones, ensure_ascii=False)}')
        for name in ("insertion", "deletion"):
            parts.append(f'"{name}": {json.dumps([round(float(cost), 4) for cost in getattr(self, name)])}')
        parts.append(f'"substitution": [\n  {rows}]')
        with opened_as_text(os.fspath(path)) as file:
            file.write("{" + ",\n ".join(parts) + "}\n")

    def distance(self, reference: Sequence[str], hypothesis: Sequence[str]) -> float:
        """Return the weighted edit distance between two phone strings."""
        rows, columns = self.numbers(reference), self.numbers(hypothesis)
        before: list[float] = [0.0, *np.cumsum(self.insertion[columns], dtype=np.float64).tolist()]
        for row in rows:
            now = [before[0] + float(self.deletion[row])]
            for index, column in enumerate(columns):
                substituted = before[index] + float(self.substitution[row, column])
                deleted = before[index + 1] + float(self.deletion[row])
                now.append(min(substituted, deleted, now[index] + float(self.insertion[column])))
            before = now
        return before[-1]

    def numbers(self, phones: Sequence[str]) -> list[int]:
        """Return the index of each phone.

        Raises:
            OptionError: There are no costs for a phone.
        """
        try:
            return [self.id[phone] for phone in phones]
        except KeyError as error:
            examples = " ".join(self.phones[:8])
            raise OptionError(f"no confusion costs for the phone {error}; known phones: {examples} …") from None


def _difference(reference: str, hypothesis: str) -> float:
    """Return Kondrak's δ for two phones, the sum of their feature differences weighted by salience."""
    if reference in _VOWELS and hypothesis in _VOWELS:
        differences = np.abs(np.subtract(_VOWELS[reference], _VOWELS[hypothesis]))
        rhotic = _RHOTIC * ((reference == "ER") != (hypothesis == "ER"))
        return float(differences @ (_HEIGHT, _BACKNESS, _ROUND, _LENGTH)) + rhotic
    differences = np.abs(np.subtract(_as_consonant(reference), _as_consonant(hypothesis)))
    syllabic = _SYLLABIC * ((reference in _VOWELS) != (hypothesis in _VOWELS))
    return float(differences @ (_PLACE, _MANNER, _VOICE, _NASAL, _RHOTIC, _LATERAL)) + syllabic


def _as_consonant(phone: str) -> tuple[float, ...]:
    """Return the consonant features of a phone: place, manner, voice, nasal, retroflex and lateral.

    The place and manner of a vowel are derived from its backness and height, so that it can be compared with a
    consonant.
    """
    if phone in _CONSONANTS:
        return _CONSONANTS[phone]
    # The place of a vowel is the position of the tongue, palatal to velar; its manner continues the scale below
    # approximants.
    height, backness, _, _ = _VOWELS[phone]
    place = _VELAR + (_PALATAL - _VELAR) * backness
    return place, 0.4 * height, 1, 0, float(phone == "ER"), 0
