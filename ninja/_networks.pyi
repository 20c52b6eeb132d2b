"""Types of the kernels of networks."""

import numpy as np
import numpy.typing as npt

from ninja._core import Float32, Int32, Int64

UInt16 = npt.NDArray[np.uint16]  # bfloat16 numbers

def logsumexp(scores: Float32, num_rows: int) -> Float32: ...
def lstm_cell(gates: Float32, old: Float32, new: Float32) -> Float32: ...
def peephole_cell(gates: Float32, before: Float32, peephole: Float32) -> Float32: ...
def lstm_step(
    below: Float32,
    below_row: Int64,
    before: Float32,
    before_row: Int64,
    cell: Float32,
    old_row: Int64,
    new_row: Int64,
) -> Float32: ...

class Product:
    @property
    def num_outputs(self) -> int: ...
    @property
    def num_inputs(self) -> int: ...
    def __init__(self, weight: Float32, bias: Float32 | None, level: int = 2) -> None: ...
    def __call__(self, rows: Float32, row: Int64 | None = None) -> Float32: ...

def silu(x: Float32) -> None: ...
def word_scores(
    output: Float32,
    row: Int64,
    embedding: Float32 | npt.NDArray[np.int8],
    scale: Float32 | None,
    bias: Float32 | None,
    word: Int32,
) -> Float32: ...
def scatter_rows(pieces: list[Float32], slots: Int64, slab: Float32) -> None: ...
def sampled_softmax(
    score: UInt16,
    offset: Float32,
    target_score: Float32,
    hit: Int64,
    share: float,
    self_normalize: float,
    offset_slope: Float32,
) -> tuple[Float32, Float32]: ...
