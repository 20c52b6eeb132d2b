"""The comparisons for docs/parity.md recognise equal and different results."""

from pathlib import Path

import pytest
from reference_graph import SHARED

ROOT = Path(__file__).resolve().parents[2]
KOREAN = SHARED / "golden" / "korean"

# The data are not part of the project; in CI, tests/conftest.py turns this skip into a failure.
pytestmark = pytest.mark.skipif(not KOREAN.exists(), reason="Kaldi's golden files are not part of the project")


@pytest.fixture(scope="module")
def checks():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        from benchmarks.parity import checks

        yield checks


def outcomes(finding):
    return finding.count, finding.equal


def test_a_file_is_equal_to_itself(checks):
    for check, name, count in (
        (checks.same_arrays(0.0), "prune4.ark.gz", 60),
        (checks.same_arcs(0.0), "prune4.ark.gz", 60),
        (checks.same_fields, "best.words.gz", 60),
        (checks.same_lines, "ctm_conf.gz", 60),
        (checks.same_numbers(0.0), "mbr.times.gz", 60),
        (checks.same_bins(0.0), "mbr.sausage.gz", 60),
        (checks.same_posteriors(0.0), "arc_post.txt.gz", 60),
        (checks.same_machines(0.0), "fst.txt.gz", 60),
        (checks.same_bytes, "lat.ark.gz", 60),
        (checks.same_bytes, "lat.txt.gz", 60),
    ):
        assert outcomes(check(KOREAN / name, KOREAN / name)) == (count, count), name


def test_different_archives_are_unequal(checks):
    lattices, penalized, pruned = (KOREAN / f"{name}.ark.gz" for name in ("prune4", "penalty", "limit_depth5"))
    assert outcomes(checks.same_arrays(0.1)(KOREAN / "lat.ark.gz", penalized)) == (60, 0)
    assert outcomes(checks.same_arcs(0.1)(lattices, pruned))[1] < 5
    assert outcomes(checks.Sequences()(lattices, pruned))[1] < 5
    assert outcomes(checks.Sequences(beam=2.0)(lattices, penalized)) == (60, 0)
    assert outcomes(checks.same_bytes(lattices, pruned))[1] < 5


@pytest.mark.parametrize(
    ("name", "check", "old", "new"),
    [
        ("best.words", "same_fields", " 285287 ", " 285288 "),
        ("ctm_conf", "same_lines", "0.93", "0.92"),
        ("mbr.times", "same_numbers", " 63 ", " 65 "),
        ("mbr.sausage", "same_bins", "0.9346014", "0.9336"),
        ("arc_post.txt", "same_posteriors", "0.9346014", "0.9344"),
        ("fst.txt", "same_machines", "-46.6972", "-46.69"),
        ("fst.txt", "same_machines", "\t285287\t285287", "\t5\t5"),
    ],
)
def test_a_single_changed_number_is_unequal(checks, tmp_path, name, check, old, new):
    golden = KOREAN / f"{name}.gz"
    text = checks.unpacked(golden).decode()
    assert old in text
    (tmp_path / "changed").write_text(text.replace(old, new, 1))
    compare = getattr(checks, check)
    if check not in ("same_fields", "same_lines"):
        compare = compare(1.0 if name == "mbr.times" else 1e-4)
    finding = compare(golden, tmp_path / "changed")
    assert outcomes(finding) == (60, 59)
    assert finding.unequal == ("ava-ava00022",)


def test_missing_lattices_and_lines_are_unequal(checks, tmp_path):
    (tmp_path / "none").write_text("")
    for check, name in (
        (checks.same_fields, "best.words.gz"),
        (checks.same_bins(1e-3), "mbr.sausage.gz"),
        (checks.same_lines, "ctm_conf.gz"),
    ):
        assert outcomes(check(KOREAN / name, tmp_path / "none")) == (60, 0)
