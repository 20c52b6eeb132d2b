"""Lattices from any source to any target: ``read`` and ``write``."""

from ninja.io.reader import keys, read, vocabulary
from ninja.io.writer import Writer, write

__all__ = ["Writer", "keys", "read", "vocabulary", "write"]
