"""`CtcStream`: lattices of frames that arrive in parts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninja.decoding import CtcOptions, CtcStream, ctc_lattice, ctc_units
from ninja.errors import LatticeError, ModelError
from ninja.lattice import Lattice, SymbolTable

UNITS = ctc_units(["<b>", "|", "a", "b"], 0, boundary="|")
OPTIONS = CtcOptions(beam=12)


def matrix(seed: int, num_frames: int) -> np.ndarray:
    logits = 3.0 * np.random.default_rng(seed).normal(size=(num_frames, 4))
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def paths(lattice: Lattice) -> Iterator[tuple[tuple[str, ...], float, int]]:
    """Yield the words, the cost and the number of labels of each path."""

    def below(state: int) -> Iterator[tuple[tuple[int, ...], float, int]]:
        if np.isfinite(lattice.final_graph[state]):
            yield (), 0.0, 0
        for arc in range(lattice.arc_begin[state], lattice.arc_begin[state + 1]):
            word, labels = int(lattice.word[arc]), int(lattice.ali_begin[arc + 1] - lattice.ali_begin[arc])
            for words, cost, length in below(int(lattice.dst[arc])):
                yield ((word, *words) if word else words), float(lattice.acoustic[arc]) + cost, labels + length

    for words, cost, length in below(0):
        yield tuple(lattice.words.spell(words)), round(cost, 3), length


@given(seed=st.integers(0, 1000), sizes=st.lists(st.integers(0, 4), min_size=1, max_size=4))
def test_stream_lattices_equal_those_of_all_frames_so_far(seed: int, sizes: list[int]) -> None:
    values = matrix(seed, sum(sizes) + 1)
    stream = CtcStream("utt", UNITS, options=OPTIONS, words=SymbolTable.growing())
    begin = 0
    for size in [sizes[0] + 1, *sizes[1:]]:
        part = stream.add(values[begin : begin + size])
        begin += size
        whole = ctc_lattice(values[:begin], UNITS, "utt", options=OPTIONS)
        expected = sorted((words[:-1], cost, length) for words, cost, length in paths(whole))
        actual = sorted(paths(part))
        assert [(words, length) for words, _, length in actual] == [(words, length) for words, _, length in expected]
        assert np.allclose([cost for _, cost, _ in actual], [cost for _, cost, _ in expected], atol=2e-3)
    assert stream.num_frames == begin
    assert sorted(paths(stream.add(np.zeros((0, 4)), final=True))) == sorted(paths(whole))


def test_frames_without_log_probabilities_are_refused_and_not_added() -> None:
    stream = CtcStream("utt", UNITS, words=SymbolTable.growing())
    with pytest.raises(LatticeError, match="there are no frames yet; add at least one frame"):
        stream.add(np.zeros((0, 4)))
    for wrong in (np.zeros((2, 4)), matrix(0, 2)[:, :3] * np.nan):
        with pytest.raises(ModelError):
            stream.add(wrong)
    with pytest.raises(ModelError, match="the matrix has 1 columns, but there are 4 units"):
        stream.add(np.zeros((2, 1)))
    assert stream.num_frames == 0
    assert stream.add(matrix(0, 3)).num_arcs
