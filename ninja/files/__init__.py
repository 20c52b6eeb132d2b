"""Opening, decompression and inspection of input files, and atomic writing of output files."""
