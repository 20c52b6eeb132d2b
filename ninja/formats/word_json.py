"""Entries of the JSON format ``ninja-words``: words with times and confidences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

DIGITS = 4  # number of decimal places of confidences
TIME_DIGITS = 3  # number of decimal places of times in seconds


def word_entries(
    words: Sequence[str],
    confidences: Sequence[float],
    without_boosts: Sequence[float] | None = None,
    times: Sequence[Sequence[float]] | None = None,
) -> list[dict[str, Any]]:
    """Return one object per word, with ``word``, ``start``, ``end``, ``confidence`` and ``confidence_without_boosts``.

    Args:
        words: The words.
        confidences: Confidence of each word, in [0, 1].
        without_boosts: Confidence of each decoded word in the lattice without boosts, in [0, 1].  [default: the field
            is omitted]
        times: Start and end of each word in seconds.  [default: the fields are omitted]
    """
    entries = []
    for index, (word, confidence) in enumerate(zip(words, confidences, strict=True)):
        entry: dict[str, Any] = {"word": word}
        if times is not None:
            begin, end = times[index]
            entry |= {"start": round(float(begin), TIME_DIGITS), "end": round(float(end), TIME_DIGITS)}
        entry["confidence"] = round(float(confidence), DIGITS)
        if without_boosts is not None:
            entry["confidence_without_boosts"] = round(float(without_boosts[index]), DIGITS)
        entries.append(entry)
    return entries
