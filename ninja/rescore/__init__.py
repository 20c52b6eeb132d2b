"""Rescoring: one expansion engine, and the algorithms that drive it."""

from ninja.rescore.engine import rescore
from ninja.rescore.options import RescoreOptions
from ninja.rescore.report import RescoreReport
from ninja.rescore.vocabulary import Coverage, WordMap

__all__ = ["Coverage", "RescoreOptions", "RescoreReport", "WordMap", "rescore"]
