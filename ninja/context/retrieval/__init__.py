"""Vector search in long phrase lists for phrases that sound like spans of a lattice."""
