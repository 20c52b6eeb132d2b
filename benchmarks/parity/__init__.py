"""Comparison of Ninja's results with those of Kaldi's programs."""
