import numpy as np
import numpy.typing as npt

from ninja.lattice import Lattice

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]

def find_spans(
    lattice: Lattice,
    unit: Int32s,
    first: Int64s,
    sound_begin: Int64s,
    sound_phone: Int32s,
    string_begin: Int64s,
    string_phone: Int32s,
    substitution: Floats,
    insertion: Floats,
    deletion: Floats,
    acoustic_scale: float,
    weight: float,
    beam: float,
    max_distance: float,
    max_spans: int,
) -> tuple[Int32s, Int32s, Int32s, Floats, Floats, Int64s, Int64s]: ...
def best_arcs(lattice: Lattice, acoustic_scale: float) -> tuple[Int64s, Int64s]: ...
