import numpy as np
import numpy.typing as npt

from ninja.lattice import Lattice

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Arrays = tuple[Int64, Int32, Int32, Float32, Float32, Int64, Int32, Float32, Float32, Int64, Int32]

def unite(
    lattices: list[Lattice], acoustic_scale: float, delta: float, max_arcs: int, max_labels: int
) -> Arrays | None: ...
def push(lattice: Lattice, strings: bool, weights: bool, acoustic_scale: float) -> Lattice: ...
def minimize(lattice: Lattice, strings: bool, weights: bool, acoustic_scale: float, delta: float) -> Lattice: ...
def expand_ngram(
    lattice: Lattice, num_words: int, max_arcs: int
) -> tuple[Int32, Int64, Int32, Int64, Int32] | None: ...
def follow_transcript(
    lattice: Lattice, words: Int32, max_arcs: int
) -> tuple[Int32, Int64, Int32, Int64, Int32] | None: ...
def compose_pair(
    first: Lattice, second: Lattice, max_arcs: int
) -> tuple[Int64, Int32, Int64, Int64, Int32, Int32] | None: ...
def parse_machine(
    image: bytes,
) -> tuple[str, int, tuple[int, Int64, Int32, Int32, Int32, Float64, Float64] | None]: ...
def compose_fst(
    lattice: Lattice,
    start: int,
    arc_begin: Int64,
    dst: Int32,
    ilabel: Int32,
    olabel: Int32,
    cost: Float64,
    final_cost: Float64,
    phi: int,
    max_arcs: int,
) -> tuple[Int64, Int32, Int32, Int64, Float64, Int32, Float64] | int | None: ...
