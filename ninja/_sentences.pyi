"""Types of the compiled kernels that unfold lattices."""

import numpy as np
import numpy.typing as npt

from ninja.lattice import Lattice

_Int32s = npt.NDArray[np.int32]
_Int64s = npt.NDArray[np.int64]
_Floats = npt.NDArray[np.float32]
_Doubles = npt.NDArray[np.float64]
_Unfolded = tuple[_Int32s, _Int64s, _Int32s, _Int64s, _Int32s, _Int32s, _Int32s, _Int32s]

def cover(
    lattice: Lattice,
    lm_word: _Int32s,
    eos: int,
    *,
    acoustic_scale: float,
    word_penalty: float,
    min_posterior: float,
    max_arcs: int,
) -> _Unfolded | None: ...
def prefixes(
    lattice: Lattice,
    lm_word: _Int32s,
    eos: int,
    *,
    acoustic_scale: float,
    word_penalty: float,
    beam: float,
    max_nodes: int,
    merge_order: int,
    max_arcs: int,
) -> _Unfolded | None: ...
def sentence_costs(
    lattice: Lattice, word: _Int32s, begin: _Int64s, acoustic_scale: float, word_penalty: float
) -> tuple[_Doubles, _Doubles]: ...
def replaced(
    lattice: Lattice,
    state_map: _Int32s,
    arc_begin: _Int64s,
    dst: _Int32s,
    arc_map: _Int64s,
    graph: _Floats,
    final_graph: _Floats,
    acoustic_scale: float,
    word_penalty: float,
) -> tuple[_Floats, _Floats]: ...
