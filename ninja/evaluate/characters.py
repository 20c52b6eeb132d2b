"""Character error rates for transcripts of a test set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ninja import _graph
from ninja.evaluate.error_rate import Counts, fraction, percent
from ninja.evaluate.lexical import NormalizerName, lexical_texts
from ninja.evaluate.scoring import Mode, scored_keys
from ninja.lattice.arrays import offsets
from ninja.lattice.text import NONE


@dataclass(frozen=True, slots=True)
class CharacterRate(Counts):
    """Counts of character errors, which can be added, as in ``sum(rates, CharacterRate())``."""

    characters: int = 0  # characters of the references
    substitutions: int = 0
    insertions: int = 0
    deletions: int = 0

    @property
    def errors(self) -> int:
        """Number of substitutions, insertions and deletions."""
        return self.substitutions + self.insertions + self.deletions

    @property
    def cer(self) -> float:
        """Character error rate in percent; for empty references, 0 if there are no errors, and infinity otherwise."""
        return percent(self.errors, self.characters)

    def __str__(self) -> str:
        """Format the rate as one line in the style of Kaldi's compute-wer."""
        counts = fraction(self.errors, self.characters, self.insertions, self.deletions, self.substitutions)
        return f"%CER {self.cer:.2f} {counts}"


def score_characters(
    references: Mapping[str, Sequence[str]],
    hypotheses: Mapping[str, Sequence[str]],
    mode: Mode = "strict",
    *,
    normalizer: NormalizerName = NONE,
) -> CharacterRate:
    """Count character errors over a test set.

    The characters of an utterance are the code points of its words in Unicode's composed form (NFC), with one space
    between words. The whole utterance is aligned with the fewest edits; ties are broken as in Kaldi's compute-wer.

    Args:
        references: Reference words by utterance id.
        hypotheses: Recognised words by utterance id.
        mode: Treatment of references without a hypothesis; see ``score``.
        normalizer: Normalizer applied before characters are compared; see ``score``.

    Raises:
        NinjaError: See ``score``.

    Source: jiwer, ``process_characters`` and its ``cer_default``; Kaldi, util/edit-distance-inl.h, for ties.
    """
    keys = scored_keys(references, hypotheses, mode)
    sides = [lexical_texts(texts, normalizer) for texts in (references, hypotheses)]
    texts = [[" ".join(side.get(key, ())) for key in keys] for side in sides]
    characters = sum(map(len, texts[0]))
    pairs = [(first, second) for first, second in zip(*texts, strict=True) if first != second]
    if not pairs:
        return CharacterRate(characters)
    counts = _graph.edit_counts(
        *_code_points([first for first, _ in pairs]), *_code_points([last for _, last in pairs])
    )
    insertions, deletions, substitutions = counts.reshape(-1, 3).sum(axis=0, dtype=np.int64).tolist()
    return CharacterRate(characters, substitutions, insertions, deletions)


def _code_points(texts: Sequence[str]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Concatenate the Unicode code points of several texts.

    Returns:
        ``(code_points, offsets)``: the code points of all texts, int32, and the offset of each text in this array
        followed by the length of the array, int64 [num_texts + 1].
    """
    points: Any = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), "<i4")
    return np.ascontiguousarray(points, np.int32), offsets(list(map(len, texts)))
