import numpy as np
import numpy.typing as npt

from ninja.errors import NinjaError
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable

Strings = tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]

def checksum(lattice: Lattice) -> int: ...

class Columns:
    size: int
    def __init__(
        self,
        offsets: list[npt.NDArray[np.int64]],
        lists: list[npt.NDArray[np.generic]],
        *,
        keys: Strings,
        kinds: Strings,
        frame_shifts: npt.NDArray[np.float64],
        timed: npt.NDArray[np.uint8],
        checksums: npt.NDArray[np.uint32],
        summed: npt.NDArray[np.uint8],
        num_words: int,
        path: str | None,
    ) -> None: ...
    def keys(self) -> list[str]: ...
    def lattice(self, row: int, words: SymbolTable | None, *, check: bool) -> Lattice: ...
    def entries(
        self, first: int, last: int, words: SymbolTable | None, *, check: bool
    ) -> list[tuple[str, Lattice | NinjaError]]: ...
    def unread(self, first: int, last: int, words: SymbolTable | None) -> list[Lattice]: ...
