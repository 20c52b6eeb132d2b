"""Reports of changes: paths and costs against enumeration, and the option of the command."""

import json
from dataclasses import replace

import numpy as np
import pytest
from fake_lm import FakeLM
from reference_rescore import path_costs, total
from rescoring_cases import EXACT, TABLE, random_lattice

import ninja as package
from ninja.graph import best_path
from ninja.lattice import Scales
from ninja.rescoring import Rescorer, RescoreReport, rescore
from ninja.rescoring.changes import ReportingRescorer, changes

OPTIONS = replace(EXACT, word_penalty=0.25)
LATTICES = [(f"u{i}", replace(random_lattice(i, 6, 1), key=f"u{i}")) for i in range(12)]


def texts(lattice, scales):
    return " ".join(lattice.words.word(word) for word in best_path(lattice, scales).words.tolist())


def cheapest(lattice, text, options):
    """Return graph, acoustic and total cost of the best path with a text, by enumeration."""
    ids = tuple(TABLE.ids(text.split()))
    costs = [cost for cost in path_costs(lattice) if cost.words == ids]
    if not costs:
        return None
    best = min(costs, key=lambda cost: total(cost, options))
    return pytest.approx({"graph": best.graph, "acoustic": best.acoustic, "total": total(best, options)}, abs=2e-4)


def test_each_change_has_both_paths_and_their_costs_in_both_passes():
    results = dict(rescore(LATTICES, FakeLM(), OPTIONS))
    num_changed = 0
    for key, before in LATTICES:
        after = results[key]
        record = changes(before, after, OPTIONS.scales)
        old, new = texts(before, OPTIONS.scales), texts(after, OPTIONS.scales)
        if old == new:
            assert record is None
            continue
        num_changed += 1
        assert record["utt"] == key
        for side, text in (("before", old), ("after", new)):
            assert record[side]["text"] == text
            assert record[side]["first_pass"] == cheapest(before, text, OPTIONS)
            assert record[side]["rescored"] == cheapest(after, text, OPTIONS)
        # Replacing the spans turns the old text into the new one, and the new path is cheaper after rescoring.
        assert record["after"]["rescored"]["total"] < record["before"]["rescored"]["total"]
        words = old.split()
        for change in record["changes"]:
            assert change["from"] or change["to"]
            assert all(word in words for word in change["from"].split())
    assert num_changed > 3


def test_spans_have_times_and_paths_missing_from_a_lattice_have_no_costs():
    line = package.graph.linear("u", [1, 2, 3], [1] * 9, 2.0, 4.0, TABLE)
    rescored_line = package.graph.linear("u", [1, 5, 3], [1] * 9, 1.0, 3.0, TABLE)
    w = [TABLE.word(number) for number in range(6)]
    first_pass = {"graph": 2.0, "acoustic": 4.0, "total": 4.0}
    rescored = {"graph": 1.0, "acoustic": 3.0, "total": 2.5}
    assert changes(line, rescored_line, Scales(0.5)) == {
        "utt": "u",
        "changes": [{"from": w[2], "to": w[5], "begin": 0.01, "end": 0.02}],
        "before": {"text": f"{w[1]} {w[2]} {w[3]}", "first_pass": first_pass, "rescored": None},
        "after": {"text": f"{w[1]} {w[5]} {w[3]}", "first_pass": None, "rescored": rescored},
    }


def test_a_stage_reports_in_input_order_and_skips_lattices_that_fail():
    dead = package.Lattice.from_arrays("dead", [0, 1, 1, 1], [1], [1], [0], [0], [np.inf, np.inf, 0], words=TABLE)
    records, errors = [], []
    stage = ReportingRescorer(Rescorer(FakeLM(), OPTIONS), OPTIONS.scales, records.append)
    mixed = [*LATTICES[:3], ("dead", dead), *LATTICES[3:]]
    results = dict(stage(mixed, RescoreReport(on_error=errors.append)))
    assert [error.key for error in errors] == ["dead"]
    assert list(results) == [key for key, _ in LATTICES]
    expected = [changes(lattice, results[key], OPTIONS.scales) for key, lattice in LATTICES]
    assert records == [record for record in expected if record is not None]
    assert all(lattice.identical(results[key]) for key, lattice in rescore(LATTICES, FakeLM(), OPTIONS))


def test_the_command_writes_a_report(tmp_path, ninja):
    lists = tmp_path / "lists.jsonl"
    hypotheses = [{"text": "he seas the cat", "score": -1}, {"text": "he sees the cat", "score": -1.2}]
    entries = {"key": "u1", "nbest": hypotheses}, {"key": "u2", "nbest": [{"text": "the cat", "score": -1}]}
    lists.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    common = ["rescore", lists, "--acoustic-scale", 1, "--lm-weight", 0.9, "-o", tmp_path / "out.jsonl"]
    assert ninja(*common, "--report", tmp_path / "report.jsonl")[0] == 0
    (record,) = map(json.loads, (tmp_path / "report.jsonl").read_text().splitlines())
    assert record["utt"] == "u1"
    assert record["changes"] == [{"from": "seas", "to": "sees"}]
    assert record["before"]["first_pass"]["acoustic"] == pytest.approx(1.0)
    assert record["after"]["rescored"]["total"] < record["before"]["rescored"]["total"]
    code, _, errors = ninja(*common, "--report", tmp_path / "report.jsonl", "--resume")
    assert code == 2
    assert "--report cannot be used with --resume" in errors
