"""Arcs for phrases that sound like words of a lattice."""
