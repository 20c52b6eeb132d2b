import numpy as np
import numpy.typing as npt

from ninja.lattice import Lattice

def oracle(
    lattice: Lattice, reference: npt.NDArray[np.int32]
) -> tuple[int, int, int, npt.NDArray[np.int64]] | None: ...
def align_words(
    reference: npt.NDArray[np.int32],
    hypothesis: npt.NDArray[np.int32],
    insertion: int,
    deletion: int,
    substitution: int,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]: ...
