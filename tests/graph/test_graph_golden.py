"""Comparison with Kaldi's tools, on a few lattices in this repository and on all golden lattices, if available."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from reference_graph import SHARED
from reference_graph import archive as existing_archive

from ninja.graph import (
    add_word_penalty,
    best_path,
    connect,
    depth,
    depth_per_frame,
    limit_depth,
    nbest,
    posteriors,
    prune,
    scale,
    state_times,
)
from ninja.lattice import Lattice, Scales

SAMPLE = Path(__file__).parents[1] / "data" / "english" / "graph"
SETS = [(SAMPLE, 0.1), (SHARED / "golden" / "english", 0.1), (SHARED / "golden" / "korean", 1.0)]


@pytest.fixture(params=SETS, ids=["sample", "english", "korean"])
def golden(request: pytest.FixtureRequest) -> tuple[Path, float]:
    """Return the folder of Kaldi's results and their acoustic scale."""
    folder, acoustic_scale = request.param
    if not folder.exists():
        # In CI, tests/conftest.py stops the run if these files are missing.
        pytest.skip(
            f"{folder} is missing: Kaldi's results are not distributed with the project (in CI they are required)"
        )
    return folder, acoustic_scale


def archive(path: Path) -> dict[str, Lattice]:
    if not path.exists():
        # Which operation was run on which set is fixed by the files that came from Kaldi.
        pytest.skip(f"Kaldi was not asked for {path.name} on this set")
    return existing_archive(path)


def table(path: Path) -> dict[str, list[str]]:
    """Read a file with a key and fields per line."""
    if not path.exists():
        # Which operation was run on which set is fixed by the files that came from Kaldi.
        pytest.skip(f"Kaldi was not asked for {path.name} on this set")
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    return {line.split()[0]: line.split()[1:] for line in lines}


def arcs_of(lattice: Lattice) -> list[tuple[object, ...]]:
    """Return the arcs without state numbers and acoustic costs, which Kaldi scaled and scaled back."""
    time = state_times(lattice)
    return sorted(
        (
            int(time[src]),
            tuple(lattice.ali[lattice.ali_begin[arc] : lattice.ali_begin[arc + 1]].tolist()),
            int(lattice.word[arc]),
            float(lattice.graph[arc]),
        )
        for arc, src in enumerate(lattice.src)
    )


def assert_same(lattice: Lattice, expected: Lattice) -> None:
    assert arcs_of(lattice) == arcs_of(expected), lattice.key
    assert lattice.num_states == expected.num_states, lattice.key
    assert lattice.is_final.sum() == expected.is_final.sum(), lattice.key


def test_prune_agrees_with_lattice_prune(golden: tuple[Path, float]) -> None:
    folder, acoustic_scale = golden
    expected = archive(folder / "prune4.ark.gz")
    for key, lattice in archive(folder / "lat.ark.gz").items():
        assert_same(prune(lattice, 4.0, Scales(acoustic_scale)), expected[key])


def test_prune_of_wide_lattices_agrees_with_lattice_prune() -> None:
    expected = archive(SHARED / "golden" / "korean" / "wide_prune6.ark.gz")
    lattices = archive(SHARED / "data" / "korean" / "wide.ark.gz")
    for key, lattice in expected.items():
        assert_same(prune(lattices[key], 6.0), lattice)


def test_limit_depth_agrees_with_lattice_limit_depth(golden: tuple[Path, float]) -> None:
    folder, acoustic_scale = golden
    expected = archive(folder / "limit_depth5.ark.gz")
    for key, lattice in archive(folder / "lat.ark.gz").items():
        assert_same(limit_depth(lattice, 5, acoustic_scale), expected[key])


def test_best_path_agrees_with_lattice_best_path(golden: tuple[Path, float]) -> None:
    folder, acoustic_scale = golden
    words = table(folder / "best.words.gz")
    graph, acoustic = table(folder / "best.graph_cost.gz"), table(folder / "best.acoustic_cost.gz")
    alignment = table(folder / "best.ali.gz") if (folder / "best.ali.gz").exists() else None
    for key, lattice in archive(folder / "lat.ark.gz").items():
        path = best_path(lattice, Scales(acoustic_scale))
        name = key if key in graph else f"{key}-1"  # lattice-1best numbers its paths
        assert [str(word) for word in path.words] == words[key]
        assert path.graph_cost == pytest.approx(float(graph[name][0]), abs=1e-3)
        assert path.acoustic_cost == pytest.approx(float(acoustic[name][0]), abs=1e-3)
        if alignment is not None:
            assert [str(label) for label in path.alignment] == alignment[key]


@pytest.mark.parametrize("name", ["raw", "wide"])
def test_best_words_of_large_lattices_agree_with_kaldi(name: str) -> None:
    expected = table(SHARED / "golden" / "korean" / f"{name}_best.words.gz")
    for key, lattice in archive(SHARED / "data" / "korean" / f"{name}.ark.gz").items():
        assert [str(word) for word in best_path(lattice).words] == expected[key]


def test_nbest_agrees_with_lattice_to_nbest(golden: tuple[Path, float]) -> None:
    folder, acoustic_scale = golden
    words = table(folder / "nbest20.words.gz")
    graph, acoustic = table(folder / "nbest20.graph_cost.gz"), table(folder / "nbest20.acoustic_cost.gz")
    for key, lattice in archive(folder / "lat.ark.gz").items():
        names = [name for name in words if name.rsplit("-", 1)[0] == key]
        expected = {tuple(map(int, words[name])): (float(graph[name][0]), float(acoustic[name][0])) for name in names}
        paths = {tuple(path.words.tolist()): path for path in nbest(lattice, 20, Scales(acoustic_scale))}
        assert set(paths) == set(expected), key
        for sequence, path in paths.items():
            assert (path.graph_cost, path.acoustic_cost) == pytest.approx(expected[sequence], abs=1e-3)


def test_nbest_of_undeterminized_lattices_has_distinct_word_sequences() -> None:
    for lattice in archive(SHARED / "data" / "korean" / "raw.ark.gz").values():
        paths = nbest(lattice, 50)
        assert len({tuple(path.words.tolist()) for path in paths}) == len(paths)
        costs = [path.cost() for path in paths]
        assert costs == pytest.approx(sorted(costs), abs=1e-9)
        assert paths[0].words.tolist() == best_path(lattice).words.tolist()


def test_posteriors_agree_with_lattice_arc_post(golden: tuple[Path, float]) -> None:
    folder, acoustic_scale = golden
    expected: dict[str, list[tuple[int, int, int, float]]] = {}
    for line in gzip.decompress((folder / "arc_post.txt.gz").read_bytes()).decode().splitlines():
        key, start, length, posterior, word = line.split("\t")[:5]
        expected.setdefault(key, []).append((int(start), int(length), int(word), float(posterior)))
    for key, lattice in archive(folder / "lat.ark.gz").items():
        posterior, time = posteriors(lattice, Scales(acoustic_scale)), state_times(lattice)
        assert posterior.min() >= 0.0
        assert posterior.max() <= 1.0 + 1e-12
        rows = sorted(
            (int(time[src]), int(time[lattice.dst[arc]] - time[src]), int(lattice.word[arc]), float(posterior[arc]))
            for arc, src in enumerate(lattice.src)
            if posterior[arc] > 1e-4
        )
        assert [row[:3] for row in rows] == [row[:3] for row in sorted(expected[key])]
        np.testing.assert_allclose(
            [row[3] for row in rows], [row[3] for row in sorted(expected[key])], rtol=0, atol=1e-4
        )


def test_depth_agrees_with_lattice_depth(golden: tuple[Path, float]) -> None:
    folder, _ = golden
    expected = table(folder / "depth.txt.gz")
    for key, lattice in archive(folder / "lat.ark.gz").items():
        assert f"{np.float32(depth(lattice)):.7g}" == expected[key][0]


def test_depth_per_frame_agrees_with_lattice_depth_per_frame(golden: tuple[Path, float]) -> None:
    folder, _ = golden
    expected = table(folder / "depth_per_frame.txt.gz")
    for key, lattice in archive(folder / "lat.ark.gz").items():
        assert depth_per_frame(lattice).tolist() == [int(count) for count in expected[key]]


def test_scales_and_word_penalties_agree_with_kaldi() -> None:
    folder = SHARED / "golden" / "korean"
    scaled, penalized = archive(folder / "scale.ark.gz"), archive(folder / "penalty.ark.gz")
    for key, lattice in archive(folder / "lat.ark.gz").items():
        for result, expected in (
            (scale(lattice, 0.7, 1.3), scaled[key]),
            (add_word_penalty(lattice, 0.5), penalized[key]),
        ):
            assert np.array_equal(result.word, expected.word)
            for name in ("graph", "acoustic", "final_graph", "final_acoustic"):
                np.testing.assert_allclose(getattr(result, name), getattr(expected, name), rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", ["raw", "wide"])
def test_best_path_prune_and_posteriors_are_consistent_on_large_lattices(name: str) -> None:
    for lattice in list(archive(SHARED / "data" / "korean" / f"{name}.ark.gz").values())[:10]:
        assert connect(lattice) is lattice
        pruned, arc_map = prune(lattice, 6.0, return_arc_map=True)
        best, pruned_best = best_path(lattice), best_path(pruned)
        assert arc_map[pruned_best.arcs].tolist() == best.arcs.tolist()
        assert limit_depth(lattice, 8).num_arcs < lattice.num_arcs
        outgoing = posteriors(lattice)[: lattice.arc_begin[1]].sum()
        assert outgoing == pytest.approx(1.0, abs=1e-9)
