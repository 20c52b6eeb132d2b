"""The class ``Path``: arcs, words and costs of a path through a lattice."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninja.errors import LatticeError, counted
from ninja.lattice.lattice import Scales


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Path:
    """A path from the start to a final state. Costs are unscaled natural-log costs, and include the final cost."""

    arcs: npt.NDArray[np.int64]  # arc ids
    words: npt.NDArray[np.int32]  # word ids without epsilons
    alignment: npt.NDArray[np.int32]  # one label per frame: transition ids in Kaldi
    graph_cost: float
    acoustic_cost: float

    def cost(self, scales: Scales = Scales()) -> float:
        """Return the scaled total cost of the path."""
        cost = scales.lm * self.graph_cost + scales.acoustic * self.acoustic_cost
        return cost + scales.word_penalty * len(self.words)

    def __repr__(self) -> str:
        first = " ".join(map(str, self.words[:8].tolist())) + (" …" if len(self.words) > 8 else "")
        words = f"{counted(len(self.words), 'word')}{': ' if first else ''}{first}"
        return f"Path({words}; graph cost {self.graph_cost:.7g}, acoustic cost {self.acoustic_cost:.7g})"


def no_path(key: str) -> LatticeError:
    """Return the error for a lattice without a complete path."""
    return LatticeError("no path leads from the start to a final state", key=key)
