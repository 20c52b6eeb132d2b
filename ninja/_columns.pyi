"""Types of the compiled reader of native files."""

import numpy as np
import numpy.typing as npt

from ninja._core import Float64, Int32, Int64, UInt8, UInt32
from ninja.errors import NinjaError
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable

Strings = tuple[Int32, UInt8]

def checksum(lattice: Lattice) -> int: ...

class Columns:
    size: int
    def __init__(
        self,
        offsets: list[Int64],
        lists: list[npt.NDArray[np.generic]],
        *,
        keys: Strings,
        kinds: Strings,
        frame_shifts: Float64,
        timed: UInt8,
        checksums: UInt32,
        summed: UInt8,
        num_words: int,
        path: str | None,
    ) -> None: ...
    def keys(self) -> list[str]: ...
    def lattice(self, row: int, words: SymbolTable | None, *, check: bool) -> Lattice: ...
    def entries(
        self, first: int, last: int, words: SymbolTable | None, *, check: bool
    ) -> list[tuple[str, Lattice | NinjaError]]: ...
    def unread(self, first: int, last: int, words: SymbolTable | None) -> list[Lattice]: ...
