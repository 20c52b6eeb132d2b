"""Types of the kernel behind ``ninja.consensus``."""

import numpy as np
import numpy.typing as npt

from ninja.lattice import Lattice

_Ints = npt.NDArray[np.int32]
_Floats = npt.NDArray[np.float32]

def decode_mbr(
    lattice: Lattice,
    time: _Ints,
    acoustic_scale: float,
    lm_scale: float,
    word_penalty: float,
    start: _Ints | None,
    search: bool,
    silence: bool,
) -> tuple[_Ints, _Floats, _Floats, npt.NDArray[np.int64], _Ints, _Floats, _Floats, _Floats, float, int] | None: ...
