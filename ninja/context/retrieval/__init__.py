"""Search for the phrases of long lists that sound like parts of a lattice, by vectors."""
