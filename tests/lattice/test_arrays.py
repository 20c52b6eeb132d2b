"""Gathering runs from a pool, compared with a loop."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ninja.lattice.arrays import gather, gather_labels, offsets

LENGTHS = st.lists(st.integers(0, 40), max_size=12)


@given(LENGTHS, st.data())
def test_gather_concatenates_the_selected_runs(lengths, data):
    begin = offsets(lengths)
    pool = np.arange(begin[-1], dtype=np.int32) * 7
    indices = np.array(data.draw(st.lists(st.integers(0, len(lengths) - 1), max_size=20)) if lengths else [], np.int64)
    mask = np.array([data.draw(st.booleans()) for _ in indices], bool)
    runs = [pool[begin[index] : begin[index + 1]] for index in indices]
    new_begin, copy = gather_labels(pool, begin, indices)
    assert (new_begin.tolist(), copy.tolist()) == (
        offsets([*map(len, runs)]).tolist(),
        [n for run in runs for n in run],
    )
    assert (copy.dtype, copy.flags.writeable) == (np.int32, False)
    new_begin, copy = gather_labels(pool, begin, indices, mask)
    runs = [run if selected else run[:0] for run, selected in zip(runs, mask, strict=True)]
    assert (new_begin.tolist(), copy.tolist()) == (
        offsets([*map(len, runs)]).tolist(),
        [n for run in runs for n in run],
    )
    length = new_begin[1:] - new_begin[:-1]
    assert gather(pool, begin[indices], length)[1].tolist() == copy.tolist()
