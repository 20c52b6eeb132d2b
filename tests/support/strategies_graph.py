"""Strategies for the tests of ``ninja.graph``."""

from __future__ import annotations

from hypothesis import strategies as st
from strategies import costs

from ninja.graph import from_arcs
from ninja.lattice import Lattice, Scales

# Powers of two and costs on the grid: all sums are exact, so ties do not depend on the order of addition.
SCALES = st.fixed_dictionaries(
    {
        "acoustic_scale": st.sampled_from([0.125, 0.5, 1.0]),
        "lm_scale": st.sampled_from([0.5, 1.0]),
        "word_penalty": costs(),
    }
)


@st.composite
def timed_lattices(draw: st.DrawFn, max_frames: int = 6, max_arcs: int = 12) -> Lattice:
    """Draw a lattice whose labels count frames: states have times, and arcs have as many labels as frames."""
    times = [0, *sorted(draw(st.lists(st.integers(0, max_frames), min_size=1, max_size=6)))]
    last = len(times) - 1
    spans = [(src, dst) for src in range(last) for dst in range(src + 1, last + 1)]
    arcs = sorted([(0, last), *draw(st.lists(st.sampled_from(spans), max_size=max_arcs))])
    cost = draw(st.lists(st.floats(0, 20, width=32), min_size=len(arcs), max_size=len(arcs), unique=True))
    src, dst = zip(*arcs, strict=True)
    labels = [[7] * (times[end] - times[start]) for start, end in arcs]
    return from_arcs("timed", src, dst, range(len(arcs)), cost, finals={last: 0.5}, labels=labels)


def scales_of(scales: dict[str, float]) -> Scales:
    """Return scales from the names of command-line options, with defaults for missing ones."""
    return Scales(scales.get("acoustic_scale", 1.0), scales.get("lm_scale", 1.0), scales.get("word_penalty", 0.0))
