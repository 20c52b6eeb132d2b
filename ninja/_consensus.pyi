"""Types of the compiled minimum Bayes risk decoder."""

from ninja._core import Float32, Int32, Int64
from ninja.lattice import Lattice, Scales

def decode_mbr(
    lattice: Lattice,
    time: Int32,
    weights: Scales,
    start: Int32 | None,
    search: bool,
    silence: bool,
    whole_words: int = ...,
    least_words: int = ...,
    most_words: int = ...,
) -> tuple[Int32, Float32, Float32, Int64, Int32, Float32, Float32, Float32, float, int, bool]: ...
