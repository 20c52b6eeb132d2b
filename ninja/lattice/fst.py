"""``Fst``: a weighted transducer stored in flat arrays, such as a grammar, a lexicon or a lattice with one cost."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from ninja.lattice.arrays import owners


@dataclass(frozen=True, slots=True, eq=False)
class Fst:
    """A weighted transducer, which can be cyclic. Arcs are stored state by state, as in a lattice."""

    arc_begin: npt.NDArray[np.int64]  # [num_states + 1]; arcs of state s are arc_begin[s] : arc_begin[s + 1]
    dst: npt.NDArray[np.int32]  # [num_arcs]
    ilabel: npt.NDArray[np.int32]  # [num_arcs], 0 = epsilon
    olabel: npt.NDArray[np.int32]  # [num_arcs], 0 = epsilon
    cost: npt.NDArray[np.float64]  # [num_arcs], natural-log costs
    final_cost: npt.NDArray[np.float64]  # [num_states], +inf = not final
    start: int = 0
    path: str | None = None  # source file, for messages
    is_sorted: bool = False  # whether it is known that the arcs of each state are sorted by input label
    _sorted: Fst | None = field(default=None, init=False, repr=False)  # result of `sorted_by_input`

    @property
    def num_states(self) -> int:
        """Number of states."""
        return len(self.final_cost)

    @property
    def num_arcs(self) -> int:
        """Number of arcs."""
        return len(self.dst)

    def sorted_by_input(self) -> Fst:
        """Return a transducer in which the arcs of each state are sorted by input label, which composition requires.

        Arcs with equal labels keep their order. The result of the first call is cached; the arrays must not be changed
        afterwards.
        """
        if self.is_sorted:
            return self
        if self._sorted is None:
            order = np.lexsort((self.ilabel, owners(self.arc_begin)))
            columns = {name: getattr(self, name)[order] for name in ("dst", "ilabel", "olabel", "cost")}
            object.__setattr__(self, "_sorted", replace(self, **columns, is_sorted=True))
        assert self._sorted is not None
        return self._sorted
