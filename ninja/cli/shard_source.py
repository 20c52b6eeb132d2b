"""The share of one shard in the sources of a command."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from ninja.files.place import Table
from ninja.lattice import Lattice
from ninja.lattice.batch import Batch

SHARD, ARGUMENTS = "ninja.shard", "ninja.arguments"  # keys in a context's meta
VALUES = "ninja.values"  # key of the values of the parameters, before files are loaded


@dataclass(slots=True)
class ShardSource:
    """What a command reads of its sources, and what it read."""

    tables: tuple[Table, ...]
    source: Any = None  # the `Source` that reads them
    keys: Any = field(default_factory=sha256)  # checksum of the keys read

    def noted_batches(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Yield batches, and note the keys of their lattices."""
        for batch in batches:
            self.keys.update(b"".join(key.encode("utf-8", "surrogateescape") + b"\n" for key in batch.keys))
            yield batch

    def noted(self, lattices: Iterator[tuple[str, Lattice]]) -> Iterator[tuple[str, Lattice]]:
        """Yield lattices, and note their keys."""
        for key, lattice in lattices:
            self.keys.update(key.encode("utf-8", "surrogateescape") + b"\n")
            yield key, lattice
