"""Types of the compiled rescoring searches."""

from collections.abc import Sequence

from ninja._core import Float32, Float64, Int32, Int64
from ninja.lattice import Lattice

NO_PATH: int
NOT_FINITE: int
TOO_LARGE: int
OVERFLOW: int

class Expander:
    def __init__(
        self,
        root_slot: int,
        *,
        graph_share: float,
        lm_scale: float,
        acoustic_scale: float,
        word_penalty: float,
        beam: float,
        first_pass_beam: float,
        growth_ratio: float,
        max_hyps: int,
        max_active: int,
        max_arcs: int,
        merge_order: int,
        eos: int,
        pruned: bool,
        per_arc: bool,
        look_ahead: bool,
        calibrate: bool,
    ) -> None: ...
    def add(self, lattice: Lattice, lm_word: Int32, extra: Float32, context: Sequence[int] = ()) -> int: ...
    def gather(self) -> tuple[Int64, Int64, Int32, Int64, Int32]: ...
    def scatter(self, slots: Int64, logprob: Float32) -> None: ...
    def ended(self) -> list[tuple[int, int, int]]: ...
    def stop(self, ticket: int) -> bool: ...
    def remove(self, ticket: int) -> None: ...
    def source(self, ticket: int) -> Lattice: ...
    def all_slots(self) -> Int64: ...
    def lattice(self, ticket: int, max_arcs: int) -> Lattice | None: ...
    def replaced(self, ticket: int) -> tuple[Float32, Float32]: ...

_Unfolded = tuple[Int32, Int64, Int32, Int64, Int32, Int32, Int32, Int32]

def cover(
    lattice: Lattice,
    lm_word: Int32,
    eos: int,
    *,
    acoustic_scale: float,
    word_penalty: float,
    min_posterior: float,
    max_arcs: int,
) -> _Unfolded | None: ...
def prefixes(
    lattice: Lattice,
    lm_word: Int32,
    eos: int,
    *,
    acoustic_scale: float,
    word_penalty: float,
    beam: float,
    max_nodes: int,
    merge_order: int,
    max_arcs: int,
) -> _Unfolded | None: ...
def sentence_costs(
    lattice: Lattice, word: Int32, begin: Int64, acoustic_scale: float, word_penalty: float
) -> tuple[Float64, Float64]: ...
def replaced(
    lattice: Lattice,
    state_map: Int32,
    arc_begin: Int64,
    dst: Int32,
    arc_map: Int64,
    graph: Float32,
    final_graph: Float32,
    acoustic_scale: float,
    word_penalty: float,
) -> tuple[Float32, Float32]: ...
