"""Lattice file formats; each is recognised by its content.

``read_X(content, key, path, words, options)`` takes the bytes of a file, unpacked, the utterance id that the lattice
is to have, the file's name for messages, the symbol table that its words must be in (None: one of the file's own words
is made, epsilon 0), and how the file is understood. Readers of many lattices take all of a file, or blocks of its whole
lines, and yield each lattice, or what is wrong with it. ``write_X(lattice, words, options, encoding)`` takes the table
that names the lattice's words (None: the one attached to it).
"""
