import numpy as np
import numpy.typing as npt

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
Machine = tuple[list[tuple[bytes, int]], Int32 | None, Int64, Int32, Int32, Float64, Float64]

def look(content: bytes) -> tuple[bool, bool, bool, bool, list[bytes]]: ...
def read(
    content: bytes, line: int, *, acceptor: bool, spelled: bool
) -> tuple[int, int, bytes, int, Machine | None]: ...
