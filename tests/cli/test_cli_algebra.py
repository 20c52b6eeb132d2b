"""Commands that combine and transform lattices, from union to expand-ngram."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from ended import interrupt_at
from lattice_files import write_all

import ninja as package
from ninja import _core
from ninja.graph import combine, equivalent, from_arcs, interp, minimize, push, union
from ninja.lattice import Lattice, Scales

Run = Callable[..., tuple[int, str, str]]


def lattice_of(key: str, *costs: float) -> Lattice:
    """Return a lattice with words 1, 2, ... at these costs, followed by word 9."""
    count = len(costs)
    src, dst = [*[0] * count, 1], [*[1] * count, 2]
    word, cost = [*range(1, count + 1), 9], [*costs, 0.5]
    labels = [*[[11, 12]] * count, [13]]
    return from_arcs(key, src, dst, word, cost, finals={2: 0.25}, labels=labels)


A = {"u1": lattice_of("u1", 1.0, 2.0), "u2": lattice_of("u2", 3.0, 1.0), "u3": lattice_of("u3", 1.0)}
B = {"u1": lattice_of("u1", 2.0, 1.0, 7.0), "u2": lattice_of("u2", 1.0, 9.0, 8.0)}


def write_archive(path: Path, lattices: dict[str, Lattice]) -> str:
    write_all(path, lattices.values())
    return str(path)


@pytest.fixture
def first(tmp_path: Path) -> str:
    return write_archive(tmp_path / "a.ark", A)


@pytest.fixture
def second(tmp_path: Path) -> str:
    return write_archive(tmp_path / "b.ark", B)


def read(path: Path | str) -> dict[str, Lattice]:
    return dict(package.read(path))


def test_union_joins_lattices_by_key_and_lists_missing_keys(
    ninja: Run, first: str, second: str, tmp_path: Path
) -> None:
    out = tmp_path / "union.ark"
    code, _, errors = ninja("union", first, second, "-o", out)
    assert code == 0
    assert f"ninja: 1 key is missing from {second}: u3\n" in errors
    unions = read(out)
    assert list(unions) == ["u1", "u2", "u3"]
    for key in B:
        assert unions[key].identical(union([A[key], B[key]]))
    assert unions["u3"].identical(union([A["u3"]]))
    code, _, errors = ninja("union", first, second, "-o", out, "--strict")
    assert code == 1
    assert "1 failed: u3" in errors
    assert len(read(out)) == 3


def test_a_resumed_union_counts_the_missing_keys_of_skipped_lattices(
    ninja: Run, second: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, out = tmp_path / "twice.ark", tmp_path / "union.ark"
    write_all(first, [A["u3"], A["u1"], A["u1"]])
    line = ["union", first, second, "-o", out, "--strict"]
    assert ninja(*line)[0] == 1
    complete = out.read_bytes()
    out.unlink()
    with interrupt_at(3, monkeypatch):
        assert ninja(*line, "--resume")[0] == 130
    code, _, errors = ninja(*line, "--resume")
    assert (code, f"2 keys are missing from {second}: u3, u1\n" in errors) == (1, True), errors
    assert out.read_bytes() == complete


def test_union_reads_several_archives_in_any_order(ninja: Run, first: str, second: str, tmp_path: Path) -> None:
    reversed_archive = write_archive(tmp_path / "reversed.ark.gz", dict(reversed(A.items())))
    out = tmp_path / "union.ark"
    assert ninja("union", first, second, reversed_archive, "-o", out, "--determinize=false")[0] == 0
    unions = read(out)
    assert unions["u1"].num_arcs == 2 * A["u1"].num_arcs + B["u1"].num_arcs
    assert unions["u3"].num_arcs == 2 * A["u3"].num_arcs


def test_a_failed_union_does_not_affect_the_others(ninja: Run, first: str, second: str, tmp_path: Path) -> None:
    out = tmp_path / "union.ark"
    code, _, errors = ninja("union", first, second, "-o", out, "--max-arcs", "3")
    assert code == 1
    assert "key 'u1': determinization of the union needs more than 3 arcs, or as much work" in errors
    assert list(read(out)) == ["u3"]
    code, _, errors = ninja(
        "union", first, second, "-o", tmp_path / "none.ark", "--max-arcs", "3", "--on-error", "raise"
    )
    assert code == 1
    assert not (tmp_path / "none.ark").exists()


def test_only_one_archive_can_be_standard_input(ninja: Run, second: str) -> None:
    code, _, errors = ninja("union", "-", second, "-")
    assert (code, "only one of the inputs can be standard input (-)" in errors) == (2, True)


def test_union_resumes_after_an_interruption(
    ninja: Run, first: str, second: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "union.ark"
    assert ninja("union", first, second, "-o", out)[0] == 0
    complete = out.read_bytes()
    out.unlink()
    with interrupt_at(2, monkeypatch):
        assert ninja("union", first, second, "-o", out, "--resume")[0] == 130
    code, _, errors = ninja("union", first, second, "-o", out, "--resume")
    assert code == 0
    assert "skipped 1 lattice that is already in the output" in errors
    assert out.read_bytes() == complete


def test_combine_has_the_weights_and_scales_of_kaldi(ninja: Run, first: str, second: str, tmp_path: Path) -> None:
    out = tmp_path / "both.ark"
    options = ["--lat-weights=0.6:0.4", "--inv-acoustic-scale=10", "--lm-scale=0.5", "--exp-weights=true"]
    code, _, errors = ninja("combine", first, second, *options, "-o", out)
    assert code == 0
    assert f"1 key is missing from {second}: u3" in errors
    for key, lattice in read(out).items():
        assert lattice.identical(combine([A[key], B.get(key)], [0.6, 0.4], Scales(0.1, 0.5), exponents=True))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--lat-weights=0.6"], "there are 1 weights, but 2 systems"),
        (["--lat-weights=a:b"], "--lat-weights is 'a:b', but must be numbers separated by colons"),
        (["--lat-weights=1:0"], "a weight is 0.0, but must be above 0"),
        (
            ["--inv-acoustic-scale=10", "--acoustic-scale=0.5"],
            "--acoustic-scale cannot be used with",
        ),
    ],
)
def test_combine_refuses_invalid_weights_and_scales(
    ninja: Run, first: str, second: str, options: list[str], message: str
) -> None:
    code, _, errors = ninja("combine", first, second, *options)
    assert code == 2
    assert message in errors


def test_interp_fails_for_keys_missing_from_the_second_archive(
    ninja: Run, first: str, second: str, tmp_path: Path
) -> None:
    out = tmp_path / "i.ark"
    code, _, errors = ninja("interp", first, second, "--alpha=0.25", "-o", out)
    assert code == 1
    assert f"failed: key 'u3': {second} has no lattice with this key" in errors
    lattices = read(out)
    assert list(lattices) == ["u1", "u2"]
    assert lattices["u1"].identical(interp(A["u1"], B["u1"], 0.25))
    assert ninja("interp", first, second, "--alpha", "2")[0] == 2


def test_compose_reads_an_fst_or_lattices(ninja: Run, first: str, second: str, tmp_path: Path) -> None:
    # The FST replaces word 1 by word 5 at a cost of 1; the path of word 9 takes the failure arc and costs 2.
    fst = tmp_path / "g.fst"
    fst.write_bytes(
        _core.write_image(
            "standard",
            np.array([0, 2, 3], np.int64),
            np.array([0, 1, 0], np.int32),
            np.array([1, 77, 9], np.int32),
            np.array([5, 0, 9], np.int32),
            np.array([1.0, 0.5, 1.5]),
            np.array([0.25, math.inf]),
        )
    )
    out = tmp_path / "c.ark"
    assert ninja("compose", first, fst, "--phi-label", "77", "-o", out)[0] == 0
    lattices = read(out)
    assert list(lattices) == ["u1", "u2", "u3"]
    assert lattices["u1"].word.tolist() == [5, 9]
    assert lattices["u1"].graph.sum() + lattices["u1"].final_graph[-1] == pytest.approx(1 + 1 + 0.5 + 2 + 0.25 + 0.25)
    assert ninja("compose", first, fst, "-o", out)[0] == 1  # without failure arcs, the FST does not accept word 9
    assert ninja("compose", first, f"ark:{second}", "-o", out)[0] == 1  # u3 is missing
    assert read(out)["u1"].graph[0] == 3.0
    code, _, errors = ninja("compose", first, f"ark:{second}", "--phi-label", "3", "-o", out)
    assert (code, "--phi-label applies only to an FST, but OTHER contains lattices" in errors) == (2, True)
    code, _, errors = ninja("compose", first, second, "-o", out)
    assert code == 1
    assert f"not an OpenFst file: the magic number is wrong; if it contains lattices, use ark:{second}" in errors


def test_compose_writes_raw_lattices_on_request(ninja: Run, first: str, tmp_path: Path) -> None:
    out = tmp_path / "c.ark"
    assert ninja("compose", first, f"ark:{first}", "--write-compact=false", "-o", out)[0] == 0
    raw = read(out)["u1"]
    assert raw.kind == "raw"
    assert equivalent(raw, interp(A["u1"], A["u1"]), 100.0)


def test_difference_lists_lattices_and_transcripts_without_a_match(ninja: Run, first: str, tmp_path: Path) -> None:
    ref, out = tmp_path / "ref", tmp_path / "d.ark"
    ref.write_text("u1 1 9\nu3 1 9\nu7 4\n")
    code, _, errors = ninja("difference", first, "--ref", ref, "-o", out)
    assert code == 1
    assert "failed: key 'u3': no path remains: all paths have the words of the transcript" in errors
    assert "1 lattice without a transcript: u2" in errors
    assert "1 transcript without a lattice: u7" in errors
    assert read(out)["u1"].word.tolist() == [2, 9]
    ref.write_text("u1 1 9\nu2 4 4\n")
    assert ninja("difference", first, "--ref", ref, "-o", out)[0] == 0
    assert ninja("difference", first, "--ref", ref, "-o", out, "--strict")[0] == 1
    assert ninja("difference", first, "--ref", ref, "-o", out, "--jobs", "2")[0] == 2


def test_difference_reads_words_with_a_symbol_table(ninja: Run, first: str, tmp_path: Path) -> None:
    ref, out, words = tmp_path / "ref", tmp_path / "d.ark", tmp_path / "words.txt"
    words.write_text("<eps> 0\none 1\ntwo 2\nnine 9\n")
    ref.write_text("u1 one nine\nu2 unheard of\n")
    assert ninja("difference", first, "--ref", ref, "--words", words, "-o", out)[0] == 0
    assert [lattice.num_arcs for lattice in read(out).values()] == [2, 3]
    ref.write_text("u1 one nine\n")
    code, _, errors = ninja("difference", first, "--ref", ref, "-o", out)
    assert code == 1
    assert "'one' is not a word id" in errors


def test_push_and_minimize_agree_with_their_functions(ninja: Run, first: str, tmp_path: Path) -> None:
    out = tmp_path / "p.ark"
    assert ninja("push", first, "-o", out)[0] == 0
    assert all(lattice.identical(push(A[key])) for key, lattice in read(out).items())
    assert ninja("push", first, "--push-weights=false", "-o", out, "--jobs", "2")[0] == 0
    assert all(lattice.identical(push(A[key], weights=False)) for key, lattice in read(out).items())
    assert ninja("minimize", first, "-o", out)[0] == 0
    assert all(lattice.identical(minimize(A[key])) for key, lattice in read(out).items())
    assert ninja("minimize", first, "--push-strings=false", "--push-weights=false", "-o", out)[0] == 0
    assert ninja("expand-ngram", first, "--n=2", "-o", out)[0] == 0
    assert read(out)["u1"].num_arcs == 4
    assert ninja("expand-ngram", first, "--n=0", "-o", out)[0] == 2
