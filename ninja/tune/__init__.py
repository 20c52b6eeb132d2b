"""Tuning of weights, scales, boosts and thresholds on development sets."""

from ninja.tune.boosts import DevSet, tune_context
from ninja.tune.confidence import TunedConfidence, tune_confidence
from ninja.tune.first_pass import TunedScales, tune_first_pass
from ninja.tune.weights import tune_weights

__all__ = [
    "DevSet",
    "TunedConfidence",
    "TunedScales",
    "tune_confidence",
    "tune_context",
    "tune_first_pass",
    "tune_weights",
]
