"""Hypothesis files written by recognisers: presets for reading, and writers that change only the words."""
