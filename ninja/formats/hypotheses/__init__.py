"""Hypothesis files written by recognisers: presets for reading them, and writers that change only their words."""
