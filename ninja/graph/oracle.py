"""The oracle: the path of a lattice nearest to what was really said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninja import _evaluate
from ninja.errors import LatticeError, OptionError
from ninja.lattice import Lattice


@dataclass(frozen=True, slots=True, eq=False)
class Oracle:
    """The nearest path and what still separates it from the reference."""

    words: npt.NDArray[np.int32]  # word ids of the path, epsilons left out
    arcs: npt.NDArray[np.int64]  # arc ids of the path
    substitutions: int
    insertions: int
    deletions: int

    @property
    def edits(self) -> int:
        """Edit distance between path and reference."""
        return self.substitutions + self.insertions + self.deletions


def oracle(lattice: Lattice, reference: Sequence[int] | npt.NDArray[np.int32]) -> Oracle:
    """Find the path with the fewest word errors, whatever it costs; exactly.

    Args:
        lattice: The lattice.
        reference: Word ids said; an id that no arc carries, such as -1, never matches. Epsilon (0) is no word.

    Returns:
        The path; of several equally near, the edits are split and the path is chosen by the order of arcs.

    Raises:
        LatticeError: No path leads from the start to a final state.
        OptionError: The reference holds an epsilon.

    Source: Kaldi, latbin/lattice-oracle.cc, for the definition.
    """
    wanted = np.ascontiguousarray(reference, np.int32)
    if (wanted == 0).any():
        raise OptionError("the reference holds word id 0, epsilon, which is no word")
    found = _evaluate.oracle(lattice, wanted)
    if found is None:
        raise LatticeError("no path leads from the start to a final state", key=lattice.key)
    substitutions, insertions, deletions, arcs = found
    words = lattice.word[arcs]
    return Oracle(words[words != 0], arcs, substitutions, insertions, deletions)
