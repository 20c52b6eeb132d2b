"""Readers and writers for lattice file formats; the format of a file is detected from its content.

``read_X(content, key, path, words, options)`` reads one lattice. The arguments are the decompressed bytes of a file,
the utterance id of the lattice, the file name for messages, a symbol table that must contain all words in the file, and
the options of the format. By default, the words in the file form a new symbol table, in which epsilon has the id 0.
Readers for files with several lattices accept either a whole file or blocks of complete lines, and yield each lattice
or its error.

``write_X(lattice, words, options, encoding)`` encodes one lattice. By default, `words` is the symbol table of the
lattice.
"""
