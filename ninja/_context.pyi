"""Types of the compiled contextual grammars."""

from typing import Any

from ninja._core import Float32, Int32, Int64, UInt8
from ninja.lattice import Lattice

class Phrases:
    @property
    def num_states(self) -> int: ...
    @property
    def num_bytes(self) -> int: ...
    def __init__(
        self,
        arc_begin: Int64,
        word: Int32,
        dst: Int32,
        bonus: Float32,
        final_bonus: Float32,
    ) -> None: ...

class Tracker:
    def __init__(
        self,
        no_word: UInt8,
        class_model: Any,
        class_word: Int32 | None,
        class_cost: Float32 | None,
        class_eos: int,
        old_model: Any,
        old_word: Int32 | None,
        old_cost: Float32 | None,
        old_eos: int,
        *,
        scale: float,
        class_share: float,
        class_boost: float,
        keyword_boost: float,
        max_tokens: int,
    ) -> None: ...
    def clear(self) -> None: ...
    def start(self, lists: list[tuple[Phrases, int]], unwanted: list[Phrases]) -> int: ...
    def advance(self, states: Int64, words: Int32) -> tuple[Int64, Float32]: ...
    def final(self, states: Int64) -> Float32: ...
    def explain(self, start: int, words: Int32) -> list[tuple[int, int, int]]: ...
    def compose(self, lattice: Lattice, start: int, graph_share: float, max_arcs: int) -> tuple[Lattice, Int64]: ...

def find_spans(
    lattice: Lattice,
    unit: Int32,
    first: Int64,
    sound_begin: Int64,
    sound_phone: Int32,
    string_begin: Int64,
    string_phone: Int32,
    substitution: Float32,
    insertion: Float32,
    deletion: Float32,
    acoustic_scale: float,
    weight: float,
    beam: float,
    max_distance: float,
    max_spans: int,
) -> tuple[Int32, Int32, Int32, Float32, Float32, Int64, Int64]: ...
def shared_weights(
    unit: Int32,
    first: Int64,
    sound_begin: Int64,
    sound_phone: Int32,
    string_begin: Int64,
    string_phone: Int32,
    substitution: Float32,
    insertion: Float32,
    deletion: Float32,
    weight: Float32,
    string: Int32,
    begin: Int32,
    end: Int32,
) -> Float32: ...
def best_arcs(lattice: Lattice, acoustic_scale: float) -> tuple[Int64, Int64]: ...
