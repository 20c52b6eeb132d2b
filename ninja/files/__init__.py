"""Open, decompress and inspect input files, and write output files atomically."""
