"""``ConfusionNetwork``: bins of alternative words with posteriors and times in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninja.errors import counted
from ninja.lattice.arrays import offsets
from ninja.lattice.lattice import frozen

Floats = npt.NDArray[np.float32]
Entry = tuple[str | None, float, float | None, float | None]  # word, posterior, start and duration, if known


@dataclass(frozen=True, slots=True, eq=False)
class ConfusionNetwork:
    """A sequence of bins, each with alternative words and their posteriors."""

    key: str
    bin_begin: npt.NDArray[np.int64]  # [num_bins + 1]; entries of bin b are bin_begin[b] : bin_begin[b + 1]
    words: tuple[str | None, ...]  # [num_entries], None = no word
    posterior: Floats  # [num_entries]
    start: Floats  # [num_entries], seconds; NaN if unknown
    duration: Floats  # [num_entries], seconds; NaN if unknown

    @classmethod
    def from_bins(cls, key: str, bins: Sequence[Sequence[Entry]]) -> ConfusionNetwork:
        """Create a network from its bins."""
        entries = [entry for column in bins for entry in column]
        columns = [[np.nan if entry[field] is None else entry[field] for entry in entries] for field in (1, 2, 3)]
        posterior, start, duration = (frozen(np.array(column, np.float32)) for column in columns)
        begin = offsets([len(column) for column in bins])
        return cls(key, begin, tuple(entry[0] for entry in entries), posterior, start, duration)

    @property
    def num_bins(self) -> int:
        """Number of bins."""
        return len(self.bin_begin) - 1

    def bin(self, index: int) -> list[Entry]:
        """Return the entries of a bin, in the order in which they are stored."""
        part = slice(int(self.bin_begin[index]), int(self.bin_begin[index + 1]))
        times = (
            [None if np.isnan(seconds) else seconds for seconds in column[part].tolist()]
            for column in (self.start, self.duration)
        )
        return list(zip(self.words[part], self.posterior[part].tolist(), *times, strict=True))

    def identical(self, other: ConfusionNetwork) -> bool:
        """Return whether all fields of two networks are equal."""
        return (
            (self.key, self.words) == (other.key, other.words)
            and np.array_equal(self.bin_begin, other.bin_begin)
            and all(
                np.array_equal(getattr(self, name), getattr(other, name), equal_nan=True)
                for name in ("posterior", "start", "duration")
            )
        )

    def __repr__(self) -> str:
        size = f"{counted(self.num_bins, 'bin')}, {counted(len(self.words), 'entry', 'entries')}"
        return f"ConfusionNetwork({self.key!r}, {size})"
