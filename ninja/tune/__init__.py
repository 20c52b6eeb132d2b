"""Choosing weights and boosts on development sets."""

from ninja.tune.boosts import DevSet, tune_context
from ninja.tune.weights import tune_weights

__all__ = ["DevSet", "tune_context", "tune_weights"]
