from typing import Literal

import numpy as np
import numpy.typing as npt

from ninja.lattice import Lattice

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
UInt32 = npt.NDArray[np.uint32]
Float32 = npt.NDArray[np.float32]
Arrays = tuple[Int64, Int32, Int32, Float32, Float32, Int64, Int32, Float32, Float32, Int64, Int32]

def align(
    lattice: Lattice,
    known: UInt32,
    by_phone: bool,
    reorder: bool,
    silence_word: int,
    max_states: int,
    max_labels: int,
) -> Lattice | Literal[False] | None: ...
def align_generally(
    lattice: Lattice,
    known: UInt32,
    by_phone: bool,
    phones_as_words: bool,
    reorder: bool,
    silence_word: int,
    partial_word: int,
    expansion: int,
    max_states: int,
    max_labels: int,
    *,
    epsilons: bool = False,
) -> tuple[Arrays, int] | None: ...
def find_unknown_label(labels: Int32, known: UInt32) -> int: ...

class Lexicon:
    def __init__(self, entries: Int32, begin: Int64) -> None: ...

def align_by_lexicon(
    lattice: Lattice,
    known: UInt32,
    lexicon: Lexicon,
    no_word: int,
    partial_word: int,
    expansion: int,
    max_states: int,
    max_labels: int,
) -> tuple[Arrays, int, int] | None: ...
