"""Training that is written out against torch's own, and its kernels against their definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from ninja import _lm  # noqa: E402
from ninja.models.lstm import Config, LSTMLanguageModel  # noqa: E402
from ninja.train import objective  # noqa: E402
from ninja.train.fused import FusedLSTM  # noqa: E402
from ninja.train.objective import Sampler  # noqa: E402

BF16 = torch.bfloat16
SHAPES = {"rows": st.integers(1, 5), "cells": st.sampled_from([1, 3, 16, 33, 64]), "seed": st.integers(0, 2**32 - 1)}


def bits(values):
    return values.view(torch.uint16).numpy()


def draw(seed, *shapes):
    """Normal numbers that bfloat16 holds exactly, float64."""
    random = np.random.default_rng(seed)
    return [torch.from_numpy(random.normal(0, 1, shape)).to(BF16).double() for shape in shapes]


def slow_cell(gates, old):
    """A step in float64: gates in torch's order, before their non-linearities."""
    entry, forget, candidate, leave = gates.chunk(4, 1)
    cell = forget.sigmoid() * old + entry.sigmoid() * candidate.tanh()
    return cell, leave.sigmoid() * cell.tanh()


@pytest.mark.parametrize("first", [True, False])
@given(**SHAPES)
def test_a_step_and_its_way_back_agree_with_their_slow_twins(first, rows, cells, seed):
    wide = (rows, 4 * cells)
    entry, recurrent, bias, old, hidden_slope, cell_slope = draw(
        seed, wide, wide, (4 * cells,), (rows, cells), (rows, cells), (rows, cells)
    )
    if first:
        recurrent, old = torch.zeros(wide, dtype=torch.float64), torch.zeros(rows, cells, dtype=torch.float64)
    place = torch.from_numpy(np.random.default_rng(seed).integers(rows, size=rows))
    inputs = (entry[place] + recurrent + bias).requires_grad_(), old.clone().requires_grad_()
    cell, hidden = slow_cell(*inputs)
    slopes = torch.autograd.grad((cell, hidden), inputs, (cell_slope, hidden_slope))

    gates, new, out = torch.empty(wide, dtype=BF16), torch.empty(rows, cells), torch.empty(rows, cells, dtype=BF16)
    before = None if first else old.float().numpy()
    more = None if first else bits(recurrent.to(BF16))
    given_ = bits(entry.to(BF16)), place.numpy(), more, bias.float().numpy(), before
    _lm.train_cell(*given_, bits(gates), new.numpy(), bits(out))
    torch.testing.assert_close(new.double(), cell.detach(), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(out.double(), hidden.detach(), atol=1e-5, rtol=2**-8)

    by_cell, by_gates, by_bias = cell_slope.float(), torch.empty(wide, dtype=BF16), torch.ones(4 * cells)
    given_ = bits(gates), before, new.numpy(), bits(hidden_slope.to(BF16)), by_cell.numpy()
    _lm.train_cell_back(*given_, bits(by_gates), by_bias.numpy())
    torch.testing.assert_close(by_gates.double(), slopes[0], atol=0.03, rtol=0.03)  # from gates in bfloat16
    torch.testing.assert_close(by_bias.double(), 1 + slopes[0].sum(0), atol=0.03 * rows, rtol=0.03)
    if not first:
        torch.testing.assert_close(by_cell.double(), slopes[1], atol=0.03, rtol=0.03)


@given(rows=st.integers(0, 9), width=st.integers(1, 40), sums=st.integers(1, 4), seed=st.integers(0, 2**32 - 1))
def test_rows_are_added_where_they_belong(rows, width, sums, seed):
    values, start = draw(seed, (rows, width), (sums, width))
    to = torch.from_numpy(np.random.default_rng(seed).integers(sums, size=rows))
    found = start.float()
    _lm.add_rows(bits(values.to(BF16)), to.numpy(), found.numpy())
    torch.testing.assert_close(found.double(), start.index_add(0, to, values), atol=1e-5, rtol=1e-5)


@given(
    rows=st.integers(1, 5),
    length=st.sampled_from([1, 2, 63, 64, 65, 200]),
    spread=st.sampled_from([0.1, 3.0, 40.0]),
    self_normalize=st.sampled_from([0.0, 0.3]),
    seed=st.integers(0, 2**32 - 1),
)
def test_compiled_slopes_of_a_softmax_are_the_plain_ones(rows, length, spread, self_normalize, seed):
    others, offset, score, start = (
        values.float() for values in draw(seed, (rows, length), (length,), (rows,), (length,))
    )
    others = (others * spread).to(BF16)
    hit = torch.from_numpy(np.random.default_rng(seed).integers(-1, length, size=rows))
    sums = start.clone(), start.clone()
    expected = objective.plain_slopes(others.clone(), offset, score, hit, 7.0, self_normalize, sums[0])
    found = objective.compiled_slopes(others, offset, score, hit, 7.0, self_normalize, sums[1])
    for mine, other in zip(found, expected, strict=True):
        torch.testing.assert_close(mine.float(), other.float(), atol=1e-5, rtol=2**-7)
    torch.testing.assert_close(sums[1], sums[0], atol=1e-5, rtol=1e-4)


def module_of(kind, **sizes):
    torch.manual_seed(3)
    module = kind(Config(40, **{"embedding": 12, "hidden": 20, **sizes}))
    module.initialise()
    with torch.no_grad():
        module.embedding.weight.mul_(5)
    return module


@pytest.mark.parametrize(
    "sizes",
    [
        {},
        {"layers": 1},
        {"projection": 8},
        {"projection": 8, "layers": 1},
        {"hidden": 12},
        {"hidden": 8},
        {"hidden": 9, "layers": 3},
    ],
)
def test_gradients_are_those_of_the_network_of_torch(sizes):
    word = torch.arange(35).reshape(7, 5) % 11
    target = (torch.arange(35) * 7 % 40)[:30]
    everything = Sampler.of_counts(np.ones(40), 0)
    found = []
    for kind in (LSTMLanguageModel, FusedLSTM):
        module = module_of(kind, **sizes)
        module.train()
        with torch.autocast("cpu", BF16, enabled=kind is FusedLSTM):
            output = module(word).flatten(0, 1)[:30]
            loss = objective.backward(module, output, target, everything)
        found.append((loss, {name: weight.grad for name, weight in module.named_parameters()}))
    (loss, slopes), (own_loss, own) = found
    assert own_loss == pytest.approx(loss, rel=3e-3)
    for name, slope in slopes.items():
        assert float((own[name] - slope).norm()) < 0.03 * float(slope.norm()), name


def test_dropout_leaves_the_same_numbers_out_in_all_steps_of_a_sentence():
    module = module_of(FusedLSTM, layers=1, dropout=0.5)
    module.train()
    with torch.autocast("cpu", BF16):
        output = module(torch.ones(6, 4, dtype=torch.int64))
    left_out = (output == 0).all(0)
    assert torch.equal((output == 0).any(0), left_out)
    assert 0.2 < float(left_out.float().mean()) < 0.8


def test_in_evaluation_and_in_single_precision_it_is_the_network_of_torch():
    word = torch.arange(35).reshape(7, 5) % 11
    plain, fused = module_of(LSTMLanguageModel, projection=8), module_of(FusedLSTM, projection=8)
    torch.testing.assert_close(fused(word), plain(word), atol=0, rtol=0)
    with torch.autocast("cpu", BF16):
        torch.testing.assert_close(fused.eval()(word), plain.eval()(word), atol=0, rtol=0)
