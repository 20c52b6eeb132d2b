"""Types of the compiled kernels of language models."""

import numpy as np
import numpy.typing as npt

def logsumexp(scores: npt.NDArray[np.float32], num_rows: int) -> npt.NDArray[np.float32]: ...
def lstm_cell(
    gates: npt.NDArray[np.float32], old: npt.NDArray[np.float32], new: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]: ...
