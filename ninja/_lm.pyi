"""Types of the compiled kernels of language models."""

import numpy as np
import numpy.typing as npt

def logsumexp(scores: npt.NDArray[np.float32], num_rows: int) -> npt.NDArray[np.float32]: ...
def lstm_cell(
    gates: npt.NDArray[np.float32], old: npt.NDArray[np.float32], new: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]: ...
def peephole_cell(
    gates: npt.NDArray[np.float32], before: npt.NDArray[np.float32], peephole: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]: ...
def scatter_rows(
    pieces: list[npt.NDArray[np.float32]], slots: npt.NDArray[np.int64], slab: npt.NDArray[np.float32]
) -> None: ...
