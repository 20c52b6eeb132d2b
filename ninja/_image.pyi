import numpy as np
import numpy.typing as npt

from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Float32 = npt.NDArray[np.float32]
Arrays = tuple[Int64, Int32, Int32, Float32, Float32, Float32, Float32, Int32 | None, Int32 | None]

def read_k2(
    arcs: Int32,
    first: int,
    last: int,
    num_states: int,
    word: Int32 | None,
    lm: Float32 | None,
    am: Float32 | None,
    *,
    as_graph: bool,
    places: bool,
) -> tuple[str, int, bool, Arrays | None]: ...
def whole_lattice(
    key: str,
    arrays: Arrays,
    ali_begin: Int64,
    ali: Int32,
    final_ali_begin: Int64,
    final_ali: Int32,
    kind: str,
    time: Int32 | None,
    frame_shift: float | None,
    words: SymbolTable | None,
) -> Lattice: ...
