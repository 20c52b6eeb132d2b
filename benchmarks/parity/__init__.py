"""Comparison of Ninja's answers with those of Kaldi's programs."""
