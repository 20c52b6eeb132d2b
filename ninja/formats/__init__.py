"""Lattice file formats, which are detected by content.

``read_X(content, key, path, words, options)`` takes the decompressed bytes of a file, the utterance id of the lattice,
the file name for messages, a symbol table that must have its words (by default a new table of the words in the file,
in which epsilon is 0), and the options of the format. Readers of several lattices take a whole file, or blocks of
complete lines, and yield each lattice or its error. ``write_X(lattice, words, options, encoding)`` takes the symbol
table of the words (by default that of the lattice).
"""
