"""Types of the kernels behind ``ninja.ctc.search``."""

import numpy as np
import numpy.typing as npt

_Ints = npt.NDArray[np.int32]
_Longs = npt.NDArray[np.int64]
_Bytes = npt.NDArray[np.uint8]
_Doubles = npt.NDArray[np.float64]
_Floats = npt.NDArray[np.float32]

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
) -> tuple[_Ints, _Ints, _Longs, _Ints, _Doubles, _Longs, _Ints, _Ints, _Ints, _Doubles, _Ints]: ...
def lattice(
    hypothesis: _Longs,
    logprob: _Doubles,
    word_begin: _Longs,
    place: _Ints,
    first: _Ints,
    end: _Ints,
    cost: _Doubles,
    alignment: _Ints,
    silence: int,
    same: _Ints,
    kind: _Ints,
    id_begin: _Longs,
    id: _Ints,
) -> tuple[_Longs, _Ints, _Ints, _Floats, _Longs, _Ints]: ...
