"""Word error rates: transcripts against references, and the best a lattice could do."""

from ninja.evaluate.biased import BiasedRate, score_biased
from ninja.evaluate.biasing_lists import BiasingList, read_biasing
from ninja.evaluate.error_rate import Alignment, ErrorRate, align, edits
from ninja.evaluate.scoring import Mode, oracle_score, score, score_each
from ninja.evaluate.transcripts import read_text

__all__ = [
    "Alignment",
    "BiasedRate",
    "BiasingList",
    "ErrorRate",
    "Mode",
    "align",
    "edits",
    "oracle_score",
    "read_biasing",
    "read_text",
    "score",
    "score_biased",
    "score_each",
]
