"""``Origin``: the place of an utterance in the file that it came from, with fields that a lattice does not store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """The place of an utterance in its file, and the file's fields of its words.

    Writers of the same format change the words in the file; other writers take confidences and speakers from here.
    """

    document: Any  # ``ninja.formats.hypotheses.document.Document``
    entry: int  # number of the line or block of the file; 0 in a file that is read as a whole
    place: int  # number of the utterance in the entry, from 0
    words: tuple[str, ...] = ()  # of the first hypothesis
    begin: float | None = None  # seconds
    end: float | None = None  # seconds
    speaker: str | None = None
    channel: str | None = None
    confidences: tuple[float | None, ...] = ()  # of each word, or empty
    speakers: tuple[str | None, ...] = ()  # of each word, or empty
