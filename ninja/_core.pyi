"""Types of the compiled tries, FSTs and times."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
UInt8 = npt.NDArray[np.uint8]
UInt32 = npt.NDArray[np.uint32]
Bool = npt.NDArray[np.bool_]

class WordTrie:
    def __init__(self) -> None: ...
    def __len__(self) -> int: ...
    @property
    def parent(self) -> Int32: ...
    @property
    def word(self) -> Int32: ...
    def add(self, word: Int32, begin: Int64) -> Int32: ...
    def add_trie(self, parent: Int32, word: Int32, below: int = -1) -> Int32: ...

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
def parse_machine(
    image: bytes,
) -> tuple[str, int, tuple[int, Int64, Int32, Int32, Int32, Float64, Float64] | None]: ...
def state_times(lattice: Lattice) -> tuple[Int32, int]: ...
def first_backward_arc(lattice: Lattice, time: Int32) -> int: ...
def num_frames(lattice: Lattice, time: Int32) -> int: ...
def depth_per_frame(lattice: Lattice, time: Int32, frames: int) -> Int32: ...
def gathered(lattices: Sequence[Lattice]) -> object: ...
def count(items: object) -> int: ...
def arcs_in(items: object) -> int: ...
def all_compact(items: object) -> bool: ...
def keys(items: object) -> list[str]: ...
def lattice_at(
    items: object,
    number: int,
    blank: object,
    slots: tuple[Any, ...],
    words: SymbolTable | None,
    origins: Sequence[Lattice],
) -> Lattice: ...
def unsafe_option() -> str: ...
