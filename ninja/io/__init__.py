"""Reading lattices from sources of all kinds, and writing them to outputs of all kinds."""

from ninja.io.reader import read
from ninja.io.sources import ChosenScales, find_scales
from ninja.io.vocabulary import keys, vocabulary
from ninja.io.writer import LatticeWriter
from ninja.io.writing import write

__all__ = ["ChosenScales", "LatticeWriter", "find_scales", "keys", "read", "vocabulary", "write"]
