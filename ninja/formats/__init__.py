"""Lattice file formats; each is recognised by its content.

``read_X(content, key, path, words, options)`` takes the decompressed bytes of a file, the utterance id of the lattice,
the file name for messages, the symbol table that has its words (by default a new table of the words of the file, with
epsilon 0), and the options of the format. Readers of many lattices take a whole file, or blocks of its whole lines, and
yield each lattice or its error. ``write_X(lattice, words, options, encoding)`` takes the symbol table of the lattice
(by default the attached one).
"""
