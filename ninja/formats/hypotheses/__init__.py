"""Hypothesis files of recognisers, which are read by presets and rewritten with new words in their original format."""
