"""N-best lists of all toolkits, and the lattices whose paths they are."""
