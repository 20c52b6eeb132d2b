"""The Pareto front of error rate and time."""

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.rescoring.front import Point, on_front, settings, table

RESULTS = st.lists(st.tuples(st.integers(1, 9), st.integers(20, 29)), min_size=1, max_size=12)


def points(results):
    return [
        Point("LSTM", "nbest", f"n {number}", wer, 0, time, 0.8, 0.1, 0) for number, (time, wer) in enumerate(results)
    ]


@given(RESULTS)
def test_front_has_exactly_the_nondominated_points(results):
    all_points = points(results)
    front = on_front(all_points)
    assert front
    for point in all_points:
        dominating = [
            candidate
            for candidate in all_points
            if candidate.seconds <= point.seconds
            and candidate.wer <= point.wer
            and (candidate.seconds, candidate.wer) != (point.seconds, point.wer)
        ]
        assert (point in front) == (not dominating)


def test_table_is_sorted_by_time_and_includes_kaldi():
    lines = table(points([(8, 21), (1, 24), (5, 22)]), copy=0.21)
    assert [line.split(" | ")[3] for line in lines if line.startswith("| LSTM") or line.startswith("| Kaldi")] == [
        "1.00", "5.00", "8.00", "8.1", "19.2",
    ]  # fmt: skip
    assert "- in that time: 21.00 with LSTM, nbest, n 0 (8.00 s)" in lines


def test_settings_are_options_of_rescoring():
    assert dict(settings("nbest"))["num best 10"] == {"algorithm": "nbest", "num_best": 10}
    assert dict(settings("arcbeam, 1 hypothesis"))["beam 1"] == {"algorithm": "arcbeam", "beam": 1, "max_hyps": 1}
