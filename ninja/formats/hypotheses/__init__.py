"""Hypothesis files of recognisers, read by presets and written back in the form in which they came."""
