import numpy as np
import numpy.typing as npt

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
Symbols = list[tuple[bytes, int]]

def write_image(
    arc_type: str,
    arc_begin: Int64,
    dst: Int32,
    ilabel: Int32,
    olabel: Int32,
    cost: Float64,
    final_cost: Float64,
    symbols: bytes = b"",
) -> bytes: ...
def parse_image(
    image: bytes, begin: int = 0
) -> tuple[
    str,
    int,
    tuple[str, int, Int64, Int32, Int32, Int32, Float64, Float64, tuple[Symbols | None, Symbols | None]] | None,
]: ...
def image_end(image: bytes, begin: int = 0) -> int: ...
