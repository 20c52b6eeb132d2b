"""Lattice file formats; each is recognised by its content."""
