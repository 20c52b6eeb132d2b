"""Search long phrase lists, by vector similarity, for phrases that sound like spans of a lattice."""
