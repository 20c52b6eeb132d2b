"""Types of the kernel behind ``ninja.graph.ctc``."""

import numpy as np
import numpy.typing as npt

_Ints = npt.NDArray[np.int32]
_Longs = npt.NDArray[np.int64]
_Bytes = npt.NDArray[np.uint8]
_Doubles = npt.NDArray[np.float64]

def search(
    logprob: _Doubles,
    blank: int,
    kind: _Bytes,
    child_begin: _Longs,
    unit: _Ints,
    child: _Ints,
    is_word: _Bytes,
    beam: int,
    score_beam: float,
    max_units: int,
) -> tuple[_Doubles, _Doubles, _Longs, _Longs, _Ints, _Ints, _Ints, _Ints, _Ints, _Ints, _Doubles]: ...
