"""Types of the compiled expansion engine."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ninja.lattice import Lattice

NO_PATH: int
NOT_FINITE: int
TOO_LARGE: int

_Int32s = npt.NDArray[np.int32]
_Int64s = npt.NDArray[np.int64]
_Floats = npt.NDArray[np.float32]

class Expander:
    def __init__(
        self,
        root_slot: int,
        *,
        graph_share: float,
        lm_scale: float,
        acoustic_scale: float,
        word_penalty: float,
        beam: float,
        first_pass_beam: float,
        growth_ratio: float,
        max_hyps: int,
        max_active: int,
        max_arcs: int,
        merge_order: int,
        eos: int,
        pruned: bool,
        per_arc: bool,
        look_ahead: bool,
        calibrate: bool,
    ) -> None: ...
    def add(self, lattice: Lattice, lm_word: _Int32s, extra: _Floats, context: Sequence[int] = ()) -> int: ...
    def gather(self) -> tuple[_Int64s, _Int64s, _Int32s, _Int64s, _Int32s]: ...
    def scatter(self, slots: _Int64s, logprob: _Floats) -> None: ...
    def ended(self) -> list[tuple[int, int, int]]: ...
    def remove(self, ticket: int) -> None: ...
    def source(self, ticket: int) -> Lattice: ...
    def all_slots(self) -> _Int64s: ...
    def lattice(self, ticket: int) -> Lattice: ...
    def replaced(self, ticket: int) -> tuple[_Floats, _Floats]: ...
