"""Random small lattices for property tests: ``@given(lattices())``."""

from __future__ import annotations

from typing import Literal

import numpy as np
from hypothesis import strategies as st

from ninja.lattice import Lattice

GRID = 64  # costs are multiples of 1/64: sums are exact in float32, in any order

KEYS = st.text("abcXYZ019-_.가é", min_size=1, max_size=8)


def costs(low: float = -8.0, high: float = 8.0, grid: int = GRID) -> st.SearchStrategy[float]:
    """Draw finite costs on a grid that float32 represents exactly."""
    return st.integers(int(low * grid), int(high * grid)).map(lambda step: step / grid)


@st.composite
def lattices(
    draw: st.DrawFn,
    max_states: int = 8,
    max_arcs: int = 3,
    max_word: int = 5,
    max_labels: int = 3,
    kind: Literal["compact", "raw", "any"] = "any",
    connected: bool = True,
    epsilons: bool = True,
    keys: st.SearchStrategy[str] = KEYS,
) -> Lattice:
    """Draw an acyclic lattice: parallel arcs, epsilons, several final states, labels on arcs and final states.

    Args:
        max_states: Largest number of states, at least 1.
        max_arcs: Number of random arcs from each state, besides the arc that keeps it connected.
        max_word: Largest word id.
        max_labels: Largest number of labels of an arc or final state ("raw": one per arc, none on final states).
        kind: Kind of the lattice.
        connected: Every state lies on a path from the start to a final state; otherwise unreachable states and
            dead ends occur.
        epsilons: Words may be 0.
        keys: Utterance ids.
    """
    num_states = draw(st.integers(1, max_states))
    lattice_kind = draw(st.sampled_from(["compact", "raw"])) if kind == "any" else kind
    arcs: list[tuple[int, int]] = []
    for state in range(num_states - 1):
        arcs += [(state, draw(st.integers(state + 1, num_states - 1))) for _ in range(draw(st.integers(0, max_arcs)))]
    if connected:
        sources = {src for src, _ in arcs}
        arcs += [(s, draw(st.integers(s + 1, num_states - 1))) for s in range(num_states - 1) if s not in sources]
        entered = {dst for _, dst in arcs}
        arcs += [(draw(st.integers(0, s - 1)), s) for s in range(1, num_states) if s not in entered]
    arcs.sort(key=lambda arc: arc[0])  # stable: destinations stay in any order
    num_arcs = len(arcs)
    final = np.array(draw(st.lists(st.booleans(), min_size=num_states, max_size=num_states)))
    final[-1] |= connected or not final.any()  # the last state has no arcs

    def draw_list(element: st.SearchStrategy[float], length: int) -> list[float]:
        return draw(st.lists(element, min_size=length, max_size=length))

    def pools(length: int, max_length: int, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        lengths = np.where(mask, draw_list(st.integers(0, max_length), length), 0) if length else np.zeros(0, np.int64)
        begin = np.concatenate([[0], np.cumsum(lengths)])
        return begin, np.array(draw_list(st.integers(1, 12000), int(begin[-1])), np.int32)

    ali_begin, ali = pools(
        num_arcs, max_labels if lattice_kind == "compact" else min(1, max_labels), np.ones(num_arcs, bool)
    )
    final_ali_begin, final_ali = pools(num_states, max_labels if lattice_kind == "compact" else 0, final)
    return Lattice.from_arrays(
        draw(keys),
        np.searchsorted([src for src, _ in arcs], np.arange(num_states + 1)) if arcs else np.zeros(num_states + 1),
        [dst for _, dst in arcs],
        draw_list(st.integers(0 if epsilons else 1, max_word), num_arcs),
        draw_list(costs(), num_arcs),
        draw_list(costs(), num_arcs),
        np.where(final, draw_list(costs(), num_states), np.inf),
        np.where(final, draw_list(costs(), num_states), np.inf),
        ali_begin=ali_begin,
        ali=ali,
        final_ali_begin=final_ali_begin,
        final_ali=final_ali,
        kind=lattice_kind,
    )
