"""Options, lattices and mixtures for several tests of rescoring."""

from __future__ import annotations

import math
import threading
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import pytest
from fake_lm import FakeLM, symbols
from reference_rescore import LogProb, close, path_costs, rescored_path_costs, total, word_logprob

from ninja.lattice import Lattice
from ninja.lm.mixture import How
from ninja.rescoring import RescoreOptions, rescore

EXACT = RescoreOptions(
    lm_weight=0.75, acoustic_scale=0.5, word_penalty=0.25, unk_penalty=2.0, max_unknown=1.0,
    max_hyps=0, max_active=0, beam=math.inf,
)  # fmt: skip
TABLE = symbols()


def run(lattice: Lattice, options: RescoreOptions, lm: FakeLM | None = None) -> Lattice:
    [(_, result)] = rescore([(lattice.key, lattice)], lm or FakeLM(), options)
    return result


def with_symbols(lattice: Lattice) -> Lattice:
    return replace(lattice, words=TABLE)


def assert_agrees_with_enumeration(lattice: Lattice, options: RescoreOptions) -> None:
    """Assert that a search without limits returns all paths with their exact costs, and the best of them."""
    lattice = with_symbols(lattice)
    expected = rescored_path_costs(lattice, FakeLM(), options)
    assert close(path_costs(run(lattice, options)), expected)
    best = min(total(cost, options) for cost in expected)
    [best_cost] = path_costs(run(lattice, replace(options, output="best")))
    assert total(best_cost, options) == pytest.approx(best, abs=1e-4)


def assert_keeps_paths_within_the_beam(
    lattice: Lattice, options: RescoreOptions, *, prunes: bool, tolerance: float = 1e-4
) -> None:
    """Assert that a search with LM weight 0 keeps all paths within its beam, and drops others if `prunes` is True."""
    all_costs = path_costs(lattice)
    best = min(total(cost, options) for cost in all_costs)
    result = path_costs(run(lattice, options))
    assert not prunes or len(result) < len(all_costs)
    for cost in all_costs:
        if total(cost, options) <= best + options.search_beam - tolerance:
            assert any(close([cost], [expected]) for expected in result)


def random_lattice(seed: int, num_states: int = 30, fan: int = 4) -> Lattice:
    """Return a lattice too large for enumeration; every state is on a path."""
    rng = np.random.default_rng(seed)
    src = np.sort(np.concatenate([np.arange(num_states - 1), rng.integers(0, num_states - 1, num_states * fan)]))
    dst = np.minimum(src + rng.integers(1, 4, src.size), num_states - 1)
    dst[np.searchsorted(src, np.arange(num_states - 1))] = np.arange(1, num_states)
    return Lattice.from_arrays(
        f"seed-{seed}", np.searchsorted(src, np.arange(num_states + 1)), dst, rng.integers(0, 9, src.size),
        rng.uniform(0, 8, src.size), rng.uniform(0, 8, src.size),
        np.where(np.arange(num_states) == num_states - 1, 0.5, np.inf), words=TABLE,
    )  # fmt: skip


def models() -> list[FakeLM]:
    """Return three models that share some words; their ids and scores differ."""
    return [FakeLM(8), FakeLM(5, salt=1), FakeLM(7, salt=2, extra_words=("w0", "w00"))]


def mixture_logprob(parts: Sequence[tuple[LogProb, float]], kind: How) -> LogProb:
    """Return the probability of a mixture, computed independently."""

    def logprob(history: tuple[str, ...], word: str) -> float:
        scores = [(part(history, word), weight) for part, weight in parts]
        if kind == "linear":
            return math.log(sum(weight * math.exp(value) for value, weight in scores))
        return sum(weight * value for value, weight in scores)

    return logprob


def penalized_logprob(lm: FakeLM) -> LogProb:
    return word_logprob(lm, EXACT.unk_penalty or 0.0)


def running_threads(*names: str, besides: Collection[threading.Thread] = ()) -> list[str]:
    """Return the names of running threads, except for the threads in `besides`."""
    return [thread.name for thread in threading.enumerate() if thread.name in names and thread not in besides]
