"""What the fields of n-best lists in JSON are called, and what they mean."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from ninja.errors import OptionError
from ninja.formats.nbest.nemo import ScoreAs, check_score_as
from ninja.formats.textual import check_encoding, checked_shift

SCORE, AM_SCORE, LM_SCORE = "score", "am_score", "lm_score"


@dataclass(frozen=True, slots=True)
class ObjectFields:
    """What the fields are called, and what their scores mean.

    Scores whose names are joined by ``+`` are added up. Who names the score of all models gets that one, even where
    there are ``am_score`` and ``lm_score``, unless one of these is named as well.
    """

    key: str | None = "key"  # utterance id; None: objects are numbered, "3" or "2-3" where lists lie within a list
    nbest: str | None = "nbest"  # list of hypotheses; None: each object is a hypothesis itself, the only one
    text: str = "text"  # the sentence, or a list of its words
    score: str | None = SCORE  # of all models together
    am_score: str | None = AM_SCORE  # of the acoustic model
    lm_score: str | None = LM_SCORE  # of the language model
    words: str = "words"  # objects with these three fields; where they are there, the text is not read
    word: str = "word"
    start: str = "start"
    end: str = "end"
    meaning: Literal["logprob", "cost"] = "logprob"  # more is better, or less
    base: float = math.e  # of the logarithms
    score_as: ScoreAs = "acoustic"  # which cost the score of all models becomes
    missing_score: float | None = None  # score of hypotheses without one; None: these are refused
    skip: bool = (
        False  # leave out objects without hypotheses, such as the turns of a system; otherwise they are refused
    )
    group: bool = False  # objects of one key that follow each other make one list, such as lines of a hypothesis each
    join: bool = False  # what stands in an object are no hypotheses, but pieces of one, such as Whisper's segments
    frame_shift: float = 0.01  # seconds; times are rounded to frames
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        check_encoding(self.encoding)
        checked_shift(self.frame_shift)
        check_score_as(self.score_as)
        if self.meaning not in ("logprob", "cost"):
            raise OptionError(f"meaning is {self.meaning!r}, but must be logprob or cost")
        if not 1 < self.base < math.inf:
            raise OptionError(f"base is {self.base}, but logarithms need one greater than 1")
        if self.group and self.key is None:
            raise OptionError("objects are grouped by their keys; name the field of the key")

    @property
    def scores(self) -> list[str]:
        """Every field that has a score."""
        return [name for names in (self.score, self.am_score, self.lm_score) for name in parts(names)]

    @property
    def models_apart(self) -> bool:
        """Whether the scores of each model count; not where the user names only that of all."""
        return self.score in (None, SCORE) or (self.am_score, self.lm_score) != (AM_SCORE, LM_SCORE)


DSTC10 = ObjectFields(key=None, text="hyp", skip=True)  # dialogues of turns, of which those of the user have lists


def parts(names: str | None) -> list[str]:
    """Return the fields that are added up."""
    return [] if names is None else names.split("+")
