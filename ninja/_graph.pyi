"""Types of the compiled graph kernels."""

from ninja._core import Arrays, Bool, Float64, Int32, Int64
from ninja.graph.path import Path
from ninja.lattice import Lattice

def connect(lattice: Lattice, wanted: Bool | None, arc_map: bool) -> Lattice | tuple[Lattice, Int64]: ...
def prune(
    lattice: Lattice, beam: float, acoustic_scale: float, lm_scale: float, word_penalty: float, arc_map: bool
) -> Lattice | tuple[Lattice, Int64]: ...
def limit_depth(
    lattice: Lattice, time: Int32, frames: int, max_arcs_per_frame: int, acoustic_scale: float, arc_map: bool
) -> Lattice | tuple[Lattice, Int64]: ...
def best_path(lattice: Lattice, acoustic_scale: float, lm_scale: float, word_penalty: float) -> Path: ...
def nbest(lattice: Lattice, n: int, acoustic_scale: float, lm_scale: float, word_penalty: float) -> list[Path]: ...
def path_lattice(lattice: Lattice, path_arcs: Int64) -> Lattice: ...
def posteriors(lattice: Lattice, acoustic_scale: float, lm_scale: float, word_penalty: float) -> Float64: ...
def forward_backward(
    lattice: Lattice, acoustic_scale: float, lm_scale: float, word_penalty: float
) -> tuple[Float64, Float64, float]: ...
def top_sort(arc_begin: Int64, dst: Int32, start: int) -> tuple[Int32, list[int]]: ...
def path_extremes(arc_begin: Int64, dst: Int32, cost: Float64, final_cost: Float64) -> tuple[float, float]: ...
def remove_epsilons(
    lattice: Lattice, acoustic_scale: float, max_arcs: int
) -> (
    tuple[
        Int32,
        Arrays,
    ]
    | None
): ...
def determinize(
    lattice: Lattice, acoustic_scale: float, max_arcs: int
) -> tuple[Int64, Int32, Int32, Int64, Int32, Int32, Int64, Int32] | None: ...
def determinize_pruned(
    lattice: Lattice,
    beam: float,
    acoustic_scale: float,
    retry_cutoff: float,
    delta: float,
    max_mem: int,
    max_arcs: int,
    max_states: int,
    max_loop: int,
) -> tuple[
    int,
    float,
    float,
    int,
    Arrays | None,
]: ...
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
def oracle(lattice: Lattice, reference: Int32) -> tuple[int, int, int, Int64] | None: ...
def align_words(
    reference: Int32,
    hypothesis: Int32,
    insertion: int,
    deletion: int,
    substitution: int,
) -> tuple[Int32, Int32]: ...
