"""N-best lists of every maker, and the lattices whose paths they are."""
