"""The Pareto front of error rate and time."""

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.rescoring.front import Point, on_front, settings, table

PLACES = st.lists(st.tuples(st.integers(1, 9), st.integers(20, 29)), min_size=1, max_size=12)


def points(places):
    return [
        Point("LSTM", "nbest", f"n {number}", wer, 0, time, 0.8, 0.1, 0) for number, (time, wer) in enumerate(places)
    ]


@given(PLACES)
def test_what_is_on_the_front_is_beaten_by_nothing_and_beats_the_rest(places):
    every = points(places)
    front = on_front(every)
    assert front
    for point in every:
        beaten = [
            o
            for o in every
            if o.seconds <= point.seconds and o.wer <= point.wer and (o.seconds, o.wer) != (point.seconds, point.wer)
        ]
        assert (point in front) == (not beaten)


def test_the_table_stands_in_order_of_time_with_kaldis_points_between():
    lines = table(points([(8, 21), (1, 24), (5, 22)]), copy=0.21)
    assert [line.split(" | ")[3] for line in lines if line.startswith("| LSTM") or line.startswith("| Kaldi")] == [
        "1.00", "5.00", "8.00", "8.1", "19.2",
    ]  # fmt: skip
    assert "- in that time: 21.00 by LSTM, nbest, n 0 (8.00 s)" in lines


def test_every_width_is_an_option_of_rescoring():
    assert dict(settings("nbest"))["num best 10"] == {"algorithm": "nbest", "num_best": 10}
    assert dict(settings("arcbeam, 1 hypothesis"))["beam 1"] == {"algorithm": "arcbeam", "beam": 1, "max_hyps": 1}
