"""Context carry-over: each utterance is scored after the previous ones, for any batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fake_lm import FakeLM, symbols
from reference_ngram import SlowNgram, write_arpa, write_grammar
from reference_rescore import LogProb, close, path_costs, path_costs_under, total
from rescoring_cases import EXACT, mixture_logprob, models, penalized_logprob, random_lattice

import ninja
from ninja.errors import FormatError, LatticeError, OptionError
from ninja.lattice import Lattice
from ninja.lm import Mixture
from ninja.rescoring import CarryOver, RescoreOptions, RescoreReport, rescore
from ninja.rescoring.options import Output

TABLE = symbols()
UTTERANCES = {f"utt{i}": f"rec{i % 3}" for i in range(12)}
SMALL = [(key, replace(random_lattice(i, num_states=7, fan=1), key=key)) for i, key in enumerate(UTTERANCES)]
LARGE = [(key, replace(random_lattice(i), key=key)) for i, key in enumerate(UTTERANCES)]
OPTIONS = RescoreOptions(max_unknown=1.0, acoustic_scale=0.5)


def in_sequence(logprob: LogProb, max_words: int) -> Iterator[list]:
    """Return the costs of every path of each utterance, by rescoring one utterance after the other."""
    history_words: dict[str, tuple[str, ...]] = {}
    for key, lattice in SMALL:
        before = history_words.get(UTTERANCES[key], ())
        costs = path_costs_under(lattice, logprob, EXACT, 1 - EXACT.lm_weight, before)
        best = min(costs, key=lambda cost: total(cost, EXACT))
        words = (*before, *(TABLE.word(word) for word in best.words), "<s>")
        history_words[UTTERANCES[key]] = words[-max_words:] if max_words else words
        yield costs


@pytest.mark.parametrize("max_words", [0, 3, 64])
@pytest.mark.parametrize("mixture", [False, True])
def test_each_utterance_is_scored_after_the_best_paths_before_it(max_words: int, mixture: bool) -> None:
    a, b, c = models()
    lm = Mixture(((a, 0.5), (b, 0.3), (c, 0.2)), "linear") if mixture else a
    logprob = penalized_logprob(a)
    if mixture:
        logprob = mixture_logprob([(logprob, 0.5), (penalized_logprob(b), 0.3), (penalized_logprob(c), 0.2)], "linear")
    carry_over = CarryOver(UTTERANCES, max_words=max_words)
    results = list(rescore(SMALL, lm, EXACT, carry_over=carry_over))
    assert [key for key, _ in results] == list(UTTERANCES)
    for (_, result), expected in zip(results, in_sequence(logprob, max_words), strict=True):
        assert close(path_costs(result), expected)
    assert not any(model.history for model in (a, b, c))


@pytest.mark.parametrize("algorithm", ["arcbeam", "pushforward", "pruned"])
@pytest.mark.parametrize("output", ["lattice", "best", "input"])
def test_carry_over_does_not_depend_on_batches(algorithm: str, output: Output) -> None:
    options = replace(OPTIONS, algorithm=algorithm, output=output)
    carry_over = CarryOver(UTTERANCES, max_words=9)
    lm = FakeLM()
    expected = dict(rescore(LARGE, lm, replace(options, batch_arcs=1), carry_over=carry_over))
    without = dict(rescore(LARGE, lm, options))
    assert (
        sum(lattice.identical(without[key]) for key, lattice in expected.items()) == 3
    )  # the first utterance of each recording
    for batch_arcs in (500, 3000, 1_000_000):
        results = list(rescore(LARGE, lm, replace(options, batch_arcs=batch_arcs), carry_over=carry_over))
        assert [key for key, _ in results] == list(UTTERANCES)
        assert all(lattice.identical(expected[key]) for key, lattice in results)
    assert not lm.history


def test_without_a_list_all_utterances_belong_to_one_recording() -> None:
    lm = FakeLM()
    results = dict(rescore(LARGE, lm, OPTIONS, carry_over=CarryOver()))
    listed = dict(rescore(LARGE, lm, OPTIONS, carry_over=CarryOver(dict.fromkeys(UTTERANCES, "same"))))
    assert all(lattice.identical(listed[key]) for key, lattice in results.items())


@pytest.mark.parametrize("kind", ["arpa", "grammar"])
def test_ngram_models_start_each_utterance_with_a_new_history(tmp_path: Path, kind: str) -> None:
    """Neither model has <s> as a word."""
    ngrams = {(word,): (-1.0, -0.5) for word in ("</s>", "<unk>", "w1", "w2")}
    model = SlowNgram(2, ngrams | {("w1", "w2"): (-0.25, 0.0), ("w2", "w1"): (-0.125, 0.0)})
    ids = {word: number for number, word in enumerate(["<eps>", "<s>", "</s>", "<unk>", "w1", "w2", "#0"])}
    (tmp_path / "lm").write_bytes(write_arpa(model) if kind == "arpa" else write_grammar(model, ids))
    lm = ninja.lm.load(tmp_path / "lm", words=ninja.SymbolTable(ids.items()))
    for model in (lm, Mixture(((lm, 0.5), (FakeLM(), 0.0)))):
        expected = dict(rescore(SMALL, model, OPTIONS))
        assert all(
            expected[key].identical(lattice) for key, lattice in rescore(SMALL, model, OPTIONS, carry_over=CarryOver())
        )


def test_lattices_that_wait_for_their_recording_count_in_the_arc_budget() -> None:
    read = []

    def source() -> Iterator[tuple[str, Lattice]]:
        for number in range(60):
            read.append(number)
            yield f"utt{number}", replace(random_lattice(number % 7), key=f"utt{number}")

    options = replace(OPTIONS, batch_arcs=500)
    results = rescore(source(), FakeLM(), options, carry_over=CarryOver())
    next(results)
    assert len(read) <= 20  # about 150 arcs per lattice; up to twice the budget is in flight
    assert len(list(results)) == 59


def test_a_failed_utterance_adds_no_words_to_the_history() -> None:
    dead = Lattice.from_arrays("dead", [0, 1, 1, 1], [1], [1], [0], [0], [np.inf, np.inf, 0], words=TABLE)
    strange = replace(random_lattice(3), key="strange", words=None)
    broken = [*LARGE[:2], ("dead", dead), ("strange", strange), *LARGE[2:5]]
    errors: list[ninja.NinjaError] = []
    lm = FakeLM()
    results = dict(rescore(broken, lm, OPTIONS, carry_over=CarryOver(), report=RescoreReport(on_error=errors.append)))
    expected = dict(rescore(LARGE[:5], lm, OPTIONS, carry_over=CarryOver()))
    assert [error.key for error in errors] == ["dead", "strange"]
    assert list(results) == list(expected)
    assert all(lattice.identical(expected[key]) for key, lattice in results.items())
    assert not lm.history


def test_a_run_stopped_while_a_model_reads_context_releases_all_slots() -> None:
    lm = FakeLM()
    stopped = rescore(LARGE, lm, replace(OPTIONS, batch_arcs=400), carry_over=CarryOver(UTTERANCES))
    for _ in range(4):
        next(stopped)
    stopped.close()
    assert not lm.history


@pytest.mark.parametrize("algorithm", ["arcbeam", "pruned"])
def test_only_the_end_of_a_long_context_is_stored(algorithm: str) -> None:
    class Counting(FakeLM):
        largest = 0

        def advance(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
            next_slots = super().advance(slots, words)
            self.largest = max(self.largest, len(self.history))
            return next_slots

    lm = Counting()
    word = Lattice.from_arrays("k", [0, 1, 1], [1], [1], [0], [0], [np.inf, 0], words=TABLE)
    pairs = [(f"utt{i}", replace(word, key=f"utt{i}")) for i in range(40)]
    options = replace(OPTIONS, algorithm=algorithm)
    assert len(list(rescore(pairs, lm, options, carry_over=CarryOver(max_words=0)))) == 40
    assert lm.largest < 10  # although the history of the last utterance has 79 words
    assert not lm.history


def test_only_the_utterance_without_a_recording_fails() -> None:
    errors: list[ninja.NinjaError] = []
    carry_over = CarryOver({key: of for key, of in UTTERANCES.items() if key != "utt4"})
    assert (
        len(list(rescore(SMALL, FakeLM(), EXACT, carry_over=carry_over, report=RescoreReport(on_error=errors.append))))
        == 11
    )
    assert [str(error) for error in errors] == [
        "key 'utt4': this utterance is missing from the utt2spk or segments file for carry-over"
    ]


def test_utterances_out_of_time_order_are_refused() -> None:
    carry_over = CarryOver(UTTERANCES, {"utt0": 1.5, "utt3": 1.0, "utt6": 2.0})
    with pytest.raises(
        LatticeError, match=r"'utt3': this utterance begins at 1.00 s in rec0, but the previous one begins at 1.50"
    ):
        list(rescore(SMALL, FakeLM(), EXACT, carry_over=carry_over))


def test_utt2spk_and_segments_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "utt2spk").write_text("a spk1\nb spk1\n\nc spk2\n")
    (tmp_path / "segments").write_text("a rec1 0.5 1.5\nb rec1 1.5 2\n")
    speakers = CarryOver.from_utt2spk(tmp_path / "utt2spk", 7)
    assert speakers == CarryOver({"a": "spk1", "b": "spk1", "c": "spk2"}, max_words=7)
    segments = CarryOver.from_segments(tmp_path / "segments")
    assert segments == CarryOver({"a": "rec1", "b": "rec1"}, {"a": 0.5, "b": 1.5})
    for text, message in (
        ("a spk\na spk", "utt2spk:2: utterance 'a' occurs twice"),
        ("a b c", "utt2spk:1: expected an utterance id and its speaker, found 'a b c'"),
    ):
        (tmp_path / "utt2spk").write_text(text)
        with pytest.raises(FormatError, match=message):
            CarryOver.from_utt2spk(tmp_path / "utt2spk")
    (tmp_path / "segments").write_text("a rec1 soon 1.5\n")
    with pytest.raises(FormatError, match=r"segments:1: expected start and end in seconds, found 'soon' and '1.5'"):
        CarryOver.from_segments(tmp_path / "segments")


def test_carry_over_refuses_models_that_cannot_use_it() -> None:
    with pytest.raises(OptionError, match="with a model that reads sentences backward"):
        rescore([], FakeLM(), replace(OPTIONS, backward=True), carry_over=CarryOver())
    with pytest.raises(OptionError, match="max_words is -1"):
        CarryOver(max_words=-1)


def test_a_word_with_id_zero_is_carried_over() -> None:
    lm = FakeLM()
    lm.vocabulary = ninja.SymbolTable.from_words(["w1", "<s>", "</s>", "<unk>", *(f"w{i}" for i in range(2, 9))])
    lm.bos, lm.eos, lm.unk = 1, 2, 3
    lattices = [(key, Lattice.from_arrays(key, [0, 1, 1], [1], [word], [0], [0], [np.inf, 0], words=TABLE))
            for key, word in (("one", TABLE.id("w1")), ("two", TABLE.id("w2")))]  # fmt: skip
    expected = dict(rescore(lattices, lm, OPTIONS))
    carried = dict(rescore(lattices, lm, OPTIONS, carry_over=CarryOver()))
    assert carried["one"].identical(expected["one"])
    assert not carried["two"].identical(expected["two"])
