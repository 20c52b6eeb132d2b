"""Retrieval, by vector similarity, of the phrases in long lists that sound like parts of a lattice."""
