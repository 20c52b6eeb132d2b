"""Retrieval of the phrases in long lists that sound like parts of a lattice, by vector similarity."""
