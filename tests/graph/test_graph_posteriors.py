"""Forward-backward compared with successive log additions, and its invariants."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_graph import cost_of, log_space_posteriors, paths
from strategies import costs, lattices
from strategies_graph import scales_of

from ninja.consensus import mbr_decode
from ninja.errors import LatticeError, OptionError
from ninja.graph import forward_backward, frame_posteriors, from_arcs, posteriors
from ninja.lattice import Lattice, Scales
from ninja.rescoring.session import prefix_posteriors

SCALES = st.fixed_dictionaries(
    {"acoustic_scale": st.floats(0, 2), "lm_scale": st.floats(0, 2), "word_penalty": costs()}
)


@given(lattices(max_states=8, connected=False), SCALES)
def test_posteriors_agree_with_log_additions(lattice: Lattice, scales: dict[str, float]) -> None:
    if not paths(lattice):
        with pytest.raises(LatticeError, match="no path"):
            posteriors(lattice, scales_of(scales))
        with pytest.raises(LatticeError, match="no path"):
            forward_backward(lattice, scales_of(scales))
        return
    expected, alpha, beta = log_space_posteriors(lattice, **scales)
    assert posteriors(lattice, scales_of(scales)) == pytest.approx(expected, abs=1e-9)
    result = forward_backward(lattice, scales_of(scales))
    assert result.alpha == pytest.approx(alpha, abs=1e-9)
    assert result.beta == pytest.approx(beta, abs=1e-9)
    assert result.total == pytest.approx(beta[0], abs=1e-9)


@given(lattices(max_states=6), SCALES)
def test_posteriors_agree_with_enumeration(lattice: Lattice, scales: dict[str, float]) -> None:
    all_paths = paths(lattice)
    cost = np.array([cost_of(lattice, path, **scales) for path in all_paths])
    weight = np.exp(cost.min() - cost)
    expected = np.zeros(lattice.num_arcs)
    for path, share in zip(all_paths, weight / weight.sum(), strict=True):
        expected[list(path)] += share
    assert posteriors(lattice, scales_of(scales)) == pytest.approx(expected, abs=1e-9)


@given(lattices(max_states=8))
def test_posteriors_sum_to_one_across_every_cut(lattice: Lattice) -> None:
    posterior, src = posteriors(lattice), lattice.src
    result = forward_backward(lattice)
    final = lattice.final_graph.astype(float) + lattice.final_acoustic
    ending = np.exp(result.total - result.alpha - final)
    for cut in range(lattice.num_states):  # between the states up to `cut` and those after it
        crossing = posterior[(src <= cut) & (lattice.dst > cut)].sum()
        assert crossing + ending[: cut + 1].sum() == pytest.approx(1.0, abs=1e-9)


@given(st.integers(0, 2**32 - 1), st.sampled_from([1.0, 100.0, 1e4]))
def test_posteriors_are_exact_for_widely_spread_costs(seed: int, spread: float) -> None:
    random = np.random.default_rng(seed)
    src = np.repeat(np.arange(60), 3)
    dst = np.minimum(src + random.integers(1, 4, 180), 60)
    graph, acoustic = random.normal(0, spread, (2, 180))
    lattice = from_arcs("a", src, dst, np.arange(180) % 5, graph, acoustic, finals={60: 0.0, 55: 3 * spread})
    expected, _, beta = log_space_posteriors(lattice)
    assert posteriors(lattice) == pytest.approx(expected, abs=1e-9)
    assert forward_backward(lattice).total == pytest.approx(beta[0], rel=1e-12)


def test_arcs_on_no_complete_path_have_posterior_0() -> None:
    lattice = Lattice.from_arrays(
        "a", [0, 2, 2, 3, 3], [1, 3, 3], [1, 2, 3], [0, 0, -700], [0, 0, 0], [np.inf, np.inf, np.inf, 0]
    )
    assert posteriors(lattice).tolist() == [0.0, 1.0, 0.0]


@pytest.mark.parametrize("cost", [1e3, 1e16, -1e20, 3e38])
def test_posteriors_of_large_costs_are_probabilities(cost: float) -> None:
    src, labels = np.repeat(np.arange(3), 3), [[number % 3 + 1] for number in range(9)]
    lattice = from_arcs("a", src, src + 1, np.arange(1, 10), [cost] * 9, finals={3: cost}, labels=labels)
    assert frame_posteriors(lattice).posterior == pytest.approx([1 / 3] * 9)
    assert prefix_posteriors(lattice, [1, 4, 7], Scales()) == pytest.approx([1 / 3, 1 / 9, 1 / 27])
    result = mbr_decode(lattice)
    assert np.add.reduceat(result.posterior, result.bin_begin[:-1]) == pytest.approx(1.0)


def test_posteriors_refuse_a_nan_scale() -> None:
    with pytest.raises(OptionError, match="acoustic_scale is nan, but must be finite"):
        posteriors(from_arcs("a", [0], [1], [1], [0], finals={1: 0}), Scales(float("nan")))
