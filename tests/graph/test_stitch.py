"""Joining overlapping windows: paths, costs and times compared with enumeration; times of windows; the command."""

import math
from dataclasses import replace

import numpy as np
import pytest
from fake_lm import FakeLM
from reference_graph import paths

import ninja as package
from ninja.errors import LatticeError, Log, OptionError, SymbolError
from ninja.graph import best_path, from_arcs, path_lattice, posteriors
from ninja.graph.kinds import remove_alignments
from ninja.graph.stitch import join_windows
from ninja.graph.windows import Windows, stitch
from ninja.lattice import Scales
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.times import num_frames, state_times
from ninja.rescoring import RescoreOptions, rescore

WORDS = SymbolTable.from_words(["<eps>", *(f"w{i}" for i in range(1, 40))])
SCALES = Scales(0.5)


def sausage(key, begin, end, seed=0, cut_words=(), labels=True):
    """Return a section of an endless recording, in which word i lasts 4 + i % 3 frames and has one competitor.

    A word that crosses either end is cut; its id is then replaced by one of `cut_words`, if given.
    """
    random = np.random.default_rng(seed)
    arcs, boundary_frame, state = [], 0, 0
    times = [0]
    for number in range(200):
        length = 4 + number % 3
        first, last = max(boundary_frame, begin), min(boundary_frame + length, end)
        boundary_frame += length
        if first >= last:
            continue
        is_cut = last - first < length
        word = 1 + number % 30
        for cost, candidate in ((1.0, word), (2.5, 31 + number % 8)):
            label = cut_words[number % len(cut_words)] if is_cut and cut_words else candidate
            arcs.append((state, state + 1, label, cost + random.random() * 0.1, last - first))
        state += 1
        times.append(last - begin)
    src, dst, word, graph, length = zip(*arcs, strict=True)
    acoustic = [0.3 * (number % 4) for number in range(len(src))]
    pools = [[label] * frames for label, frames in zip(word, length, strict=True)]
    return from_arcs(
        key, src, dst, word, graph, acoustic, finals={state: 0.0}, labels=pools if labels else None,
        time=None if labels else times, words=WORDS,
    )  # fmt: skip


def best_words(lattice, scales=SCALES):
    return [lattice.words.word(word) for word in best_path(lattice, scales).words.tolist()]


@pytest.mark.parametrize("labels", [True, False])
def test_joined_windows_have_the_best_words_and_times_of_the_recording(labels):
    whole = sausage("whole", 0, 400, cut_words=(38, 39), labels=labels)
    begins = [0, 75, 150, 225, 300]
    windows = [sausage(f"w{b}", b, min(b + 100, 400), seed=b + 1, cut_words=(38, 39), labels=labels) for b in begins]
    result = join_windows(windows, [0.01 * begin for begin in begins], "rec", 0.01, SCALES)
    assert best_words(result.lattice) == best_words(whole)
    assert num_frames(result.lattice) == 400
    assert result.lattice.key == "rec"
    assert result.lattice.frame_shift == 0.01
    boundaries = set(state_times(whole).tolist())
    assert [seam.frame in boundaries for seam in result.seams] == [True] * 4
    assert all(begin + 5 < seam.frame < begin + 20 for begin, seam in zip(begins[1:], result.seams, strict=True))
    assert min(seam.probability for seam in result.seams) > 0.999
    assert (result.lattice.time is None) == labels
    path = best_path(result.lattice, SCALES)
    if labels:  # every frame of the best path has the label of its word
        expected = path_lattice(whole, best_path(whole, SCALES))
        assert path_lattice(result.lattice, path).ali.tolist() == expected.ali.tolist()


def random_window(key, seed, num_frames=40):
    """Draw a lattice with word boundaries at random frames, some near each other."""
    random = np.random.default_rng(seed)
    times = np.unique(np.concatenate([[0, num_frames], random.integers(1, num_frames, 7)]))
    arcs = []
    for state in range(len(times) - 1):
        end = min(state + int(random.integers(1, 4)), len(times) - 1)
        arcs.append((state, end, int(random.integers(0, 30)), random.uniform(0, 2), random.uniform(0, 2)))
        arcs.append((state, state + 1, int(random.integers(1, 30)), random.uniform(0, 2), random.uniform(0, 2)))
    src, dst, word, graph, acoustic = zip(*arcs, strict=True)
    labels = [
        [int(word_id) + 1] * int(times[dst_state] - times[src_state])
        for src_state, dst_state, word_id in zip(src, dst, word, strict=True)
    ]
    return from_arcs(key, src, dst, word, graph, acoustic, finals={len(times) - 1: 0.25}, labels=labels, words=WORDS)


@pytest.mark.parametrize("seed", range(8))
def test_path_posterior_is_the_product_of_the_window_posteriors(seed):
    first, second = random_window("a", seed), random_window("b", seed + 100)
    result = join_windows([first, second], [0.0, 0.25], "rec", 0.01, SCALES)
    frame = result.seams[0].frame

    def half_probabilities(lattice, offset, is_first):
        """Return the probability of each word sequence before or after the seam, by enumeration."""
        time = state_times(lattice) + offset
        cost = SCALES.of_arcs(lattice)
        probabilities = {}
        for path in paths(lattice):
            total = math.exp(-float(sum(cost[arc] for arc in path)))
            ends = [0, *(int(lattice.dst[arc]) for arc in path)]
            for place, state in enumerate(ends):
                part = path[:place] if is_first else path[place:]
                if (frame - 1 <= time[state] <= frame) if is_first else (frame <= time[state] <= frame + 2):
                    words = tuple(int(lattice.word[arc]) for arc in part if lattice.word[arc])
                    probabilities[state, words] = probabilities.get((state, words), 0.0) + total
        by_words = {}
        for (_, words), probability in probabilities.items():
            by_words[words] = by_words.get(words, 0.0) + probability
        return by_words

    before, after = half_probabilities(first, 0, True), half_probabilities(second, 25, False)
    joined, cost = {}, SCALES.of_arcs(result.lattice)
    for path in paths(result.lattice):
        words = tuple(int(result.lattice.word[arc]) for arc in path if result.lattice.word[arc])
        joined[words] = joined.get(words, 0.0) + math.exp(-float(sum(cost[arc] for arc in path)))
    expected = {}
    for first_words, first_mass in before.items():
        for second_words, second_mass in after.items():
            expected[first_words + second_words] = (
                expected.get(first_words + second_words, 0.0) + first_mass * second_mass
            )
    assert joined.keys() == expected.keys()
    share, total = sum(expected.values()), sum(joined.values())
    for words, probability in joined.items():
        assert probability / total == pytest.approx(expected[words] / share, rel=1e-4)
    assert num_frames(result.lattice) == 65
    state_times(result.lattice)  # all paths to a state have the same length


def test_a_single_window_is_the_whole_recording():
    window = sausage("w", 0, 60)
    result = join_windows([window], [3.0], "rec", 0.01, SCALES)
    assert not result.seams
    assert best_words(result.lattice) == best_words(window)
    np.testing.assert_allclose(sorted(posteriors(result.lattice, SCALES)), sorted(posteriors(window, SCALES)))


@pytest.mark.parametrize(
    ("windows", "begins", "message"),
    [
        ([sausage("a", 0, 50), sausage("b", 50, 90)], [0.0, 0.5], r"the windows a \(0.00 to 0.50 s\) and b .* do not"),
        ([sausage("a", 0, 50), sausage("b", 20, 60)], [0.0, -0.3], "do not overlap, or are not in chronological order"),
        ([remove_alignments(sausage("a", 0, 50))], [0.0], "key 'a': the lattice has neither alignments nor times"),
        ([sausage("a", 0, 50), sausage("b", 30, 90, labels=False)], [0.0, 0.3], "some windows have alignments and"),
    ],
)  # fmt: skip
def test_windows_that_cannot_be_joined_are_refused(windows, begins, message):
    with pytest.raises(LatticeError, match=message):
        join_windows(windows, begins, "rec", 0.01, SCALES)


def test_windows_without_a_common_boundary_are_refused():
    first = from_arcs("a", [0], [1], [1], [0.0], finals={1: 0.0}, labels=[[1] * 50], words=WORDS)
    second = from_arcs("b", [0], [1], [1], [0.0], finals={1: 0.0}, labels=[[1] * 50], words=WORDS)
    with pytest.raises(LatticeError, match=r"key 'rec': the windows a .* and b .* have no word boundary in common"):
        join_windows([first, second], [0.0, 0.25], "rec", 0.01)
    mismatched = sausage("b", 25, 75).with_words(SymbolTable.from_words(["<eps>", "x"]))
    with pytest.raises(SymbolError):
        join_windows([sausage("a", 0, 50), mismatched], [0.0, 0.25], "rec", 0.01)
    with pytest.raises(OptionError, match="frame_shift is 0"):
        join_windows([first], [0.0], "rec", 0)
    with pytest.raises(OptionError, match="0 start times for 1 window"):
        join_windows([first], [], "rec", 0.01)


# Times of windows


@pytest.mark.parametrize(
    ("key", "seconds", "expected"),
    [
        ("rec_000030-000065", 34.98, ("rec", 30.0)),  # seconds
        ("sw02001-A_000098-001156", 10.57, ("sw02001-A", 0.98)),  # hundredths
        ("a_b-0002500-0005500", 2.99, ("a_b", 2.5)),  # thousandths
    ],
)
def test_unit_of_times_in_keys_is_inferred_from_the_lattice_length(key, seconds, expected):
    assert Windows().of(key, seconds) == pytest.approx(expected)


def test_windows_without_times_are_refused(tmp_path):
    with pytest.raises(LatticeError, match="does not match in seconds, hundredths or thousandths"):
        Windows().of("rec_000030-000065", 12.0)
    with pytest.raises(LatticeError, match="the key does not end in a time range"):
        Windows().of("rec", 12.0)
    with pytest.raises(LatticeError, match="does not end in the number of the window"):
        Windows.regular(30, 5).of("rec", 30.0)
    assert Windows.regular(30, 5).of("rec-017", 30.0) == ("rec", 425.0)
    (tmp_path / "segments").write_text("u1 rec 1.5 31.5\n")
    segments = Windows.from_segments(tmp_path / "segments")
    assert segments.of("u1", 7.0) == ("rec", 1.5)
    with pytest.raises(LatticeError, match=r"key 'u2': .*segments has no segment for this window"):
        segments.of("u2", 7.0)
    for window, overlap in ((5, 5), (0, 1), (5, 0), (math.inf, 1)):
        with pytest.raises(OptionError):
            Windows.regular(window, overlap)


def windows_of(recording, count=3, seed=0):
    return [
        (f"{recording}-{n}", sausage(f"{recording}-{n}", 75 * n, 75 * n + 100, seed=n + seed)) for n in range(count)
    ]


def test_recordings_are_joined_in_order_and_failures_are_isolated():
    regular = Windows.regular(1.0, 0.25)
    lattices = [*windows_of("a"), *windows_of("b", 2), *windows_of("c")]
    results = dict(stitch(lattices, regular, scales=SCALES))
    assert list(results) == ["a", "b", "c"]
    assert [num_frames(lattice) for lattice in results.values()] == [250, 175, 250]
    errors, notes = [], []
    log = Log(on_error=errors.append, on_note=notes.append)
    broken = [*windows_of("a"), windows_of("b")[0], windows_of("b")[2], *windows_of("c"), windows_of("a", 4)[3]]
    assert list(dict(stitch(broken, regular, scales=SCALES, log=log))) == ["a", "c"]
    assert [error.key for error in errors] == ["b", "a-3"]
    assert "do not overlap" in str(errors[0])
    assert "the windows of a are not consecutive; sort the lattices" in str(errors[1])
    assert not notes
    with pytest.raises(LatticeError, match="key 'b'"):
        list(stitch(broken, regular, scales=SCALES))


def test_uncertain_seams_and_late_starts_are_reported():
    windows, notes = [], []
    for key, boundary in (("r_000010-000050", 28), ("r_000035-000075", 3)):  # a boundary on the less probable path only
        labels = [[1] * 40, [1] * boundary, [1] * (40 - boundary)]
        window = from_arcs(key, [0, 0, 1], [2, 1, 2], [1, 2, 3], [0, 2, 0], finals={2: 0.0}, labels=labels, words=WORDS)
        windows.append((key, window))
    [(key, lattice)] = stitch(windows, log=Log(on_note=notes.append))
    assert (key, best_words(lattice)) == ("r", ["w2", "w3"])
    assert notes == [
        "r: times are counted from 0.10 s, where the first window begins",
        "r: at 1 of 1 seam, the windows probably have no word boundary in common (0.28 s)",
    ]


def test_language_model_histories_cross_the_seams():
    words = SymbolTable.from_words(["<eps>", *(f"w{i}" for i in range(1, 40))])

    def part(key, begin, end):
        lattice = sausage(key, begin, end, cut_words=(38, 39))
        return replace(lattice, graph=np.where(lattice.word < 31, np.float32(1), np.float32(1.5)), words=words)

    class Bigrams(FakeLM):
        def score(self, history, word):
            return super().score(history[-1:], word)

    lm = Bigrams(39)
    exact = {"max_hyps": 0, "max_active": 0, "merge_order": 1, "beam": math.inf, "prune_beam": math.inf}
    options = RescoreOptions(lm_weight=0.5, acoustic_scale=0.5, output="best", max_unknown=1.0, **exact)
    windows = [(f"rec-{n}", part(f"rec-{n}", 75 * n, 75 * n + 100)) for n in range(4)]
    joined = stitch(windows, Windows.regular(1.0, 0.25), scales=SCALES)
    [(_, result)] = rescore(joined, lm, options)
    [(_, expected)] = rescore([("rec", part("rec", 0, 325))], lm, options)
    assert best_words(result) == best_words(expected) != best_words(part("rec", 0, 325))
    assert not lm.history


# The command


def test_stitch_command_writes_lattices_and_subtitles(tmp_path, ninja):
    with package.write(tmp_path / "windows.ark") as output:
        for _, lattice in windows_of("talk", 4):
            output.write(lattice)
    (tmp_path / "words.txt").write_text("".join(f"{word} {number}\n" for word, number in WORDS))
    (tmp_path / "segments").write_text("".join(f"talk-{n} talk {0.75 * n} {0.75 * n + 1}\n" for n in range(4)))
    common = ["stitch", tmp_path / "windows.ark", "--acoustic-scale", 0.5, "--words", tmp_path / "words.txt"]
    code, _, errors = ninja(*common, "--window", 1, "--overlap", 0.25, "-o", tmp_path / "talk.ark")
    assert (code, errors.splitlines()[-1].split(",")[0]) == (0, "ninja: 1 recording")
    [(key, lattice)] = package.read(tmp_path / "talk.ark", words=tmp_path / "words.txt")
    assert key == "talk"
    assert best_words(lattice) == best_words(sausage("whole", 0, 325))
    assert ninja(*common, "--segments", tmp_path / "segments", "-o", tmp_path / "talk.srt")[0] == 0
    cues = (tmp_path / "talk.srt").read_text().split("\n\n")
    text = " ".join(" ".join(cue.splitlines()[2:]) for cue in cues)
    assert text.split() == best_words(lattice)
    assert ninja(*common, "--segments", tmp_path / "segments", "-o", tmp_path / "talk.vtt")[0] == 0
    for options, message in (
        (["--window", 1], "--window requires --overlap"),
        (["--window", 1, "--overlap", 1], "overlap is 1, but must be less than window"),
        (["--segments", tmp_path / "segments", "--window", 1], "--segments cannot be used with --window"),
    ):
        code, _, errors = ninja(*common, *options, "-o", tmp_path / "x.ark")
        assert code == 2
        assert message in errors
    code, _, errors = ninja(*common, "-o", tmp_path / "x.ark")
    assert code == 1
    assert "the key does not end in a time range" in errors
    assert not (tmp_path / "x.ark").exists()


def test_nbest_lists_with_word_times_are_joined(tmp_path, ninja):
    import json

    words = [f"word{number}" for number in range(12)]
    entries = []
    for number, (first, last) in enumerate(((0, 8), (5, 12))):
        rows = [
            {"word": words[n], "start": 0.5 * (n - first), "end": 0.5 * (n - first) + 0.45} for n in range(first, last)
        ]
        if number:  # the first word of a window is often misrecognised
            rows[0]["word"] = "mix"
        entries.append(
            {
                "key": f"talk-{number}",
                "nbest": [{"text": " ".join(row["word"] for row in rows), "score": 0, "words": rows}],
            }
        )
    (tmp_path / "windows.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    code, _, errors = ninja(
        "stitch", tmp_path / "windows.jsonl", "--window", 4, "--overlap", 1.5, "-o", tmp_path / "talk.jsonl"
    )
    assert code == 0, errors
    [(_, lattice)] = package.read(tmp_path / "talk.jsonl")
    assert best_words(lattice) == words


@pytest.mark.parametrize("begin", [math.inf, math.nan, 1e308, 1e20])
def test_an_implausible_start_time_is_refused(begin):
    windows = [sausage("a", 0, 100), sausage("b", 75, 175)]
    with pytest.raises(LatticeError, match=r"must be finite, and less than 2\^31 frames from the first start"):
        join_windows(windows, [0.0, begin], "rec", 0.01, SCALES)


def test_a_scale_of_zero_is_refused():
    windows = [sausage("a", 0, 100), sausage("b", 75, 175)]
    with pytest.raises(OptionError, match="lm_scale"):
        join_windows(windows, [0.0, 0.75], "rec", 0.01, Scales(0.5, lm=0.0))


def test_a_window_without_a_path_with_boundaries_at_both_seams_is_refused():
    middle = from_arcs(
        "m", [0, 0, 1, 2], [1, 2, 3, 3], [1, 2, 3, 4], [1.0] * 4, finals={3: 0.0}, time=[0, 20, 80, 100], words=WORDS
    )
    first, last = (from_arcs(key, [0, 1], [1, 2], [5, 6], [1.0, 1.0], finals={2: 0.0}, time=time, words=WORDS)
                   for key, time in (("a", [0, 70, 100]), ("z", [0, 30, 100])))  # fmt: skip
    with pytest.raises(
        LatticeError,
        match="a window has no path with word boundaries at both seams with its neighbours",
    ):
        join_windows([first, middle, last], [0.0, 0.5, 1.0], "rec", 0.01, SCALES)


@pytest.mark.parametrize("missing", ["rec-1", "rec-3"])
def test_a_recording_with_a_window_of_unknown_time_is_not_joined(missing):
    windows = {f"rec-{number}": sausage(f"rec-{number}", 75 * number, 75 * number + 100) for number in (1, 2, 3)}
    segments = {key: ("rec", 0.75 * number, 0.75 * number + 1) for number, key in enumerate(windows) if key != missing}
    failures = []
    assert list(stitch(windows.items(), Windows(segments), scales=SCALES, log=Log(on_error=failures.append))) == []
    assert [failure.key for failure in failures] == [missing, "rec"]


def test_an_unparsable_window_key_fails_only_its_own_recording():
    windows = {"rec1_000000-000100": sausage("", 0, 100), "rec10_bad": sausage("", 0, 100)}
    errors = []
    (joined,) = stitch(windows.items(), scales=SCALES, log=Log(on_error=errors.append))
    assert (joined[0], [error.key for error in errors]) == ("rec1", ["rec10_bad"])
    windows["rec1_bad"] = windows.pop("rec10_bad")
    assert list(stitch(windows.items(), scales=SCALES, log=Log(on_error=errors.append))) == []
