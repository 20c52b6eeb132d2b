"""The log-normaliser kernel against its definition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninja import _lm


def slow_logsumexp(scores):
    """ln Σ e^score of each row, in float64."""
    wide = scores.astype(np.float64)
    most = wide.max(1, keepdims=True)
    return (most + np.log(np.exp(wide - most).sum(1, keepdims=True)))[:, 0]


@given(
    num_rows=st.integers(1, 4),
    length=st.sampled_from([1, 2, 63, 64, 65, 127, 128, 1000]),
    spread=st.sampled_from([0.0, 1.0, 10.0, 200.0]),
    offset=st.sampled_from([-300.0, 0.0, 300.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_logsumexp_agrees_with_its_slow_twin(num_rows, length, spread, offset, seed):
    random = np.random.default_rng(seed)
    scores = (random.normal(0, 1, (num_rows, length)) * spread + offset).astype(np.float32)
    found = _lm.logsumexp(scores.reshape(-1), num_rows)
    assert found.dtype == np.float32
    assert found == pytest.approx(slow_logsumexp(scores), abs=2e-5, rel=1e-6)


def test_scores_that_do_not_fill_their_rows_are_refused():
    with pytest.raises(ValueError, match="7 scores are not 2 rows"):
        _lm.logsumexp(np.zeros(7, np.float32), 2)
