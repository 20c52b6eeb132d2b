"""Rescoring with language models: one expansion engine, and the algorithms that drive it."""

from ninja.lm.word_map import Coverage, WordMap
from ninja.rescoring.carry_over import CarryOver
from ninja.rescoring.models import ModelFiles, coverage
from ninja.rescoring.options import RescoreOptions
from ninja.rescoring.report import RescoreReport
from ninja.rescoring.rescorer import Rescorer, iterate, rescore

__all__ = [
    "CarryOver",
    "Coverage",
    "ModelFiles",
    "RescoreOptions",
    "RescoreReport",
    "Rescorer",
    "WordMap",
    "coverage",
    "iterate",
    "rescore",
]
