"""Formats for n-best lists, and conversion of n-best lists to lattices."""
