"""Rescoring with language models: one expansion engine, and the algorithms that drive it."""

from ninja.rescoring.carry_over import CarryOver
from ninja.rescoring.iterate import iterate
from ninja.rescoring.options import RescoreOptions
from ninja.rescoring.report import RescoreReport
from ninja.rescoring.rescorer import rescore
from ninja.rescoring.vocabulary import Coverage, WordMap, coverage

__all__ = ["CarryOver", "Coverage", "RescoreOptions", "RescoreReport", "WordMap", "coverage", "iterate", "rescore"]
