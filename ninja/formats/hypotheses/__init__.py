"""Hypothesis files of recognisers: presets for reading them, and writers that change only the words."""
