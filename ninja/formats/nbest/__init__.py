"""N-best list formats, and conversion of n-best lists to lattices."""
