"""The example lattices: paths, keys, and small archives."""

import gzip
from itertools import islice
from pathlib import Path

from lattice_files import write_all

import ninja

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
ARCHIVE = EXAMPLES / "lat.ark.gz"
WORDS = EXAMPLES / "words.txt"
TEXT = EXAMPLES / "text"
KEYS = [line.split()[0] for line in TEXT.read_text().splitlines()]


def write_first(path, count=5):
    """Write the first lattices of the example archive; return the path."""
    write_all(path, (lattice for _, lattice in islice(ninja.read(ARCHIVE), count)))
    return path


def keys_of(path):
    return [key for key, _ in ninja.read(path)]


def gzip_lines(path):
    return [line.rstrip() for line in gzip.decompress(path.read_bytes()).decode().splitlines()]
