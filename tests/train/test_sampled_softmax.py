"""The compiled sampled softmax of training in bfloat16 against the plain one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from ninja.train.objective import compiled_slopes, plain_slopes  # noqa: E402


@given(
    rows=st.integers(1, 5),
    length=st.sampled_from([1, 2, 63, 64, 65, 200]),
    spread=st.sampled_from([0.1, 3.0, 40.0]),
    self_normalize=st.sampled_from([0.0, 0.3]),
    seed=st.integers(0, 2**32 - 1),
)
def test_compiled_softmax_slopes_agree_with_the_plain_ones(rows, length, spread, self_normalize, seed):
    random = np.random.default_rng(seed)
    sample_logits, offset, score, start = (
        torch.from_numpy(random.normal(0, 1, shape)).bfloat16().float()
        for shape in ((rows, length), (length,), (rows,), (length,))
    )
    sample_logits = (sample_logits * spread).bfloat16()
    hit = torch.from_numpy(random.integers(-1, length, size=rows))
    sums = start.clone(), start.clone()
    expected = plain_slopes(sample_logits.clone(), offset, score, hit, 7.0, self_normalize, sums[0])
    slopes = compiled_slopes(sample_logits, offset, score, hit, 7.0, self_normalize, sums[1])
    for slope, expected_slope in zip(slopes, expected, strict=True):
        torch.testing.assert_close(slope.float(), expected_slope.float(), atol=1e-5, rtol=2**-7)
    torch.testing.assert_close(sums[1], sums[0], atol=1e-5, rtol=1e-4)
