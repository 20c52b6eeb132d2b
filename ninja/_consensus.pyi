"""Types of the compiled minimum-Bayes-risk decoder."""

from ninja._core import Float32, Float64, Int32, Int64
from ninja.lattice import Lattice, Scales
from ninja.lattice.batch import Batch

def decode_mbr(
    lattices: Lattice | Batch,
    scales: Scales,
    start: tuple[Int32, Int64] | None,
    forms: tuple[Int64, Int32] | None,
    search: bool,
    silence: bool,
    whole_words: int = ...,
    least_words: int = ...,
    most_words: int = ...,
) -> tuple[
    int,
    tuple[Int64, Int32, Float32, Float32],
    tuple[Int64, Int64, Float32],
    tuple[Int64, Int32, Float32, Float32],
    tuple[Float64, Int64, Int64],
    tuple[Int64, Int32, Int32, Int32, Float32, Float32] | None,
]: ...
