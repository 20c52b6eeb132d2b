import numpy as np
import numpy.typing as npt

from ninja.lattice import Lattice

def oracle(
    lattice: Lattice, reference: npt.NDArray[np.int32]
) -> tuple[int, int, int, npt.NDArray[np.int64]] | None: ...
