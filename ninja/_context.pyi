"""Types of the compiled contextual grammars."""

from typing import Any

import numpy as np
import numpy.typing as npt

from ninja.lattice import Lattice

class Phrases:
    @property
    def num_states(self) -> int: ...
    @property
    def num_bytes(self) -> int: ...
    def __init__(
        self,
        arc_begin: npt.NDArray[np.int64],
        word: npt.NDArray[np.int32],
        dst: npt.NDArray[np.int32],
        bonus: npt.NDArray[np.float32],
        final_bonus: npt.NDArray[np.float32],
    ) -> None: ...

class Tracker:
    def __init__(
        self,
        no_word: npt.NDArray[np.uint8],
        class_model: Any,
        class_word: npt.NDArray[np.int32] | None,
        class_cost: npt.NDArray[np.float32] | None,
        class_eos: int,
        old_model: Any,
        old_word: npt.NDArray[np.int32] | None,
        old_cost: npt.NDArray[np.float32] | None,
        old_eos: int,
        *,
        scale: float,
        class_share: float,
        class_boost: float,
        keyword_boost: float,
        max_tokens: int,
    ) -> None: ...
    def __len__(self) -> int: ...
    def clear(self) -> None: ...
    def num_tokens(self, state: int) -> int: ...
    def start(self, lists: list[tuple[Phrases, int]], unwanted: list[Phrases]) -> int: ...
    def advance(
        self, states: npt.NDArray[np.int64], words: npt.NDArray[np.int32]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]: ...
    def final(self, states: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]: ...
    def explain(self, start: int, words: npt.NDArray[np.int32]) -> list[tuple[int, int, int]]: ...
    def compose(
        self, lattice: Lattice, start: int, graph_share: float, max_arcs: int
    ) -> tuple[
        npt.NDArray[np.int32],
        npt.NDArray[np.int64],
        npt.NDArray[np.int32],
        npt.NDArray[np.int64],
        npt.NDArray[np.float32],
        npt.NDArray[np.float32],
    ]: ...
