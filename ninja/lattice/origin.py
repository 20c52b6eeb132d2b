"""``Origin``: the position of an utterance in its source file, with fields that a lattice does not store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """The position of an utterance in its source file, and the fields that the file has for its words.

    Writers of the same format replace the words in that file; other writers take confidences and speakers from here.
    """

    document: Any  # ``ninja.formats.hypotheses.document.Document``
    entry: int  # index of the line or block of the file; 0 if the file is read as a whole
    place: int  # index of the utterance within the entry, from 0
    words: tuple[str, ...] = ()  # words of the first hypothesis
    begin: float | None = None  # seconds
    end: float | None = None  # seconds
    speaker: str | None = None
    channel: str | None = None
    confidences: tuple[float | None, ...] = ()  # [num_words] or empty
    speakers: tuple[str | None, ...] = ()  # [num_words] or empty
