"""Choosing weights and boosts on development sets."""

from ninja.tune.context import DevSet, tune_context

__all__ = ["DevSet", "tune_context"]
