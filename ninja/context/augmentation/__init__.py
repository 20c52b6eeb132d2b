"""Arcs for phrases that sound like words in a lattice."""
