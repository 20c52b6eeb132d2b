import numpy as np
import numpy.typing as npt

from ninja.lattice import Lattice

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]

def path_extremes(arc_begin: Int64, dst: Int32, cost: Float64, final_cost: Float64) -> tuple[float, float]: ...
def remove_epsilons(
    lattice: Lattice, acoustic_scale: float, max_arcs: int
) -> (
    tuple[
        Int32,
        tuple[Int64, Int32, Int32, Float32, Float32, Int64, Int32, Float32, Float32, Int64, Int32],
    ]
    | None
): ...
def determinize(
    lattice: Lattice, acoustic_scale: float, max_arcs: int
) -> tuple[Int64, Int32, Int32, Int64, Int32, Int32, Int64, Int32] | None: ...
def determinize_pruned(
    lattice: Lattice,
    beam: float,
    acoustic_scale: float,
    retry_cutoff: float,
    delta: float,
    max_mem: int,
    max_arcs: int,
    max_states: int,
    max_loop: int,
) -> tuple[
    int,
    float,
    float,
    int,
    tuple[Int64, Int32, Int32, Float32, Float32, Int64, Int32, Float32, Float32, Int64, Int32] | None,
]: ...
