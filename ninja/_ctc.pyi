"""Types of the compiled CTC search."""

from ninja._core import Float32, Float64, Int32, Int64, UInt8

def search(
    logprob: Float64,
    blank: int,
    kind: UInt8,
    child_begin: Int64,
    unit: Int32,
    child: Int32,
    is_word: UInt8,
    beam: int,
    score_beam: float,
    max_units: int,
) -> tuple[Int32, Int32, Int64, Int32, Float64, Int64, Int32, Int32, Int32, Float64, Int32]: ...
def lattice(
    hypothesis: Int64,
    logprob: Float64,
    word_begin: Int64,
    node: Int32,
    first: Int32,
    end: Int32,
    cost: Float64,
    alignment: Int32,
    silence: int,
    same: Int32,
    kind: Int32,
    id_begin: Int64,
    id: Int32,
) -> tuple[Int64, Int32, Int32, Float32, Int64, Int32]: ...
