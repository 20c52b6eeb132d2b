"""Lattices from any source to any target: ``read`` and ``write``."""

from ninja.io.lattice_writer import LatticeWriter
from ninja.io.reader import keys, read, vocabulary
from ninja.io.scales_beside import ChosenScales, find_scales
from ninja.io.writer import write

__all__ = ["ChosenScales", "LatticeWriter", "find_scales", "keys", "read", "vocabulary", "write"]
