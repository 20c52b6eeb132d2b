"""Files of lattices, read and written; formats are recognised by content."""

from __future__ import annotations

from ninja.formats.tables import keys, read, vocabulary
from ninja.formats.writer import Writer, write

__all__ = ["Writer", "keys", "read", "vocabulary", "write"]
