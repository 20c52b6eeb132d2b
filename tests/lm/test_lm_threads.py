"""Threads that share a language model get the same scores as one thread."""

from __future__ import annotations

import copy
import os
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_lm import FakeLM

from ninja.lm import LanguageModel, Mixture, from_module, load, sentence_logprobs
from ninja.rescoring import RescoreOptions, Rescorer, rescore

torch = pytest.importorskip("torch")

import tiny_lstm  # noqa: E402
import tiny_pointer  # noqa: E402
from rescoring_cases import random_lattice  # noqa: E402
from tiny_lstm import VOCABULARY, SentenceModule, StepModule  # noqa: E402

from ninja.context.deep.context_lm import ContextMixture  # noqa: E402
from ninja.context.deep.phrase_list_ids import PhraseListIds  # noqa: E402
from ninja.decoding.pointer_tracker import PointerTracker  # noqa: E402
from ninja.lattice.text import LexicalForms  # noqa: E402
from ninja.lm.lexical import LexicalLM  # noqa: E402
from ninja.lm.recurrent.lstm import LstmLM  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections")
THREADS = 4
RUNS = int(os.environ.get("NINJA_THREAD_RUNS", "2"))
OPTIONS = RescoreOptions(acoustic_scale=0.5, max_unknown=1.0, batch_arcs=200, output="best")
LATTICES = [(lattice.key, lattice) for lattice in (random_lattice(seed, num_states=16) for seed in range(6))]


@pytest.fixture(autouse=True)
def quick_switches() -> Iterator[None]:
    """Switch threads 100 times as often as usual, which makes races more likely."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(5e-5)
    yield
    sys.setswitchinterval(interval)


def fake(_: Path) -> LanguageModel:
    return FakeLM()


def lstm(_: Path) -> LanguageModel:
    return LstmLM(tiny_lstm.MODULE, VOCABULARY)


def transformer(_: Path) -> LanguageModel:
    from tiny_transformer import make_lm

    return make_lm()


def ngram(_: Path) -> LanguageModel:
    return load("english-ngram")


def classes(folder: Path) -> LanguageModel:
    from reference_ngram import CLASSES, MODEL, write_arpa

    (folder / "lm.arpa").write_bytes(write_arpa(MODEL))
    (folder / "classes").write_text(CLASSES)
    return load(folder / "lm.arpa", classes=folder / "classes", oov_score=-5.0)


def kenlm(_: Path) -> LanguageModel:
    pytest.importorskip("kenlm")
    return load(Path(__file__).parents[1] / "data" / "ngram" / "trie.kenlm")


def kaldi(folder: Path) -> LanguageModel:
    from tiny_rnnlm import write_model

    return load(write_model(folder / "rnnlm"))


def causal(_: Path) -> LanguageModel:
    pytest.importorskip("transformers")
    from tiny_hf import folder

    return load(folder("gpt2"))


def multiwords(_: Path) -> LanguageModel:
    pytest.importorskip("transformers")
    from tiny_hf import folder

    return load(folder("gpt2"), multi_char="_")


def onnx(folder: Path) -> LanguageModel:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    from tiny_onnx import write_recurrent

    return load(write_recurrent(folder / "model.onnx"))


def caffe2(folder: Path) -> LanguageModel:
    pytest.importorskip("google.protobuf")
    from ninja.lm.imported import export

    export.to_caffe2(tiny_lstm.CHECKPOINT, folder / "nets")
    return load(folder / "nets")


def module(_: Path) -> LanguageModel:
    return from_module(StepModule(), VOCABULARY, batch_dim=1)


def history(_: Path) -> LanguageModel:
    return from_module(SentenceModule(), VOCABULARY)


MODELS = [fake, lstm, transformer, ngram, classes, kenlm, kaldi, causal, multiwords, onnx, caffe2, module, history]


def run_in_threads(work: Callable[[int], Any]) -> list[Any]:
    """Start all threads at the same time, and return the result of each."""
    barrier = threading.Barrier(THREADS)

    def begin(number: int) -> Any:
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(begin, range(THREADS)))


def best(lm: Any, lattices: Any = LATTICES, **options: Any) -> list[tuple[str, list[str], float]]:
    """Return key, words, and cost of each best path."""
    results = rescore(lattices, lm, OPTIONS, **options)
    return [
        (key, lattice.words.spell(lattice.word.tolist()), float(lattice.graph.sum() + lattice.acoustic.sum()))
        for key, lattice in results
    ]


def assert_close_paths(paths: Any, expected: Any) -> None:
    assert [path[:2] for path in paths] == [path[:2] for path in expected]
    assert [path[2] for path in paths] == pytest.approx([path[2] for path in expected], abs=1e-3)


@pytest.mark.parametrize("build", MODELS)
def test_threads_sharing_a_model_get_the_costs_of_one_thread(build, tmp_path):
    for name in ("alone", "shared"):
        (tmp_path / name).mkdir()
    slow = build in (causal, multiwords)
    lattices = LATTICES[:3] if slow else LATTICES
    expected = best(build(tmp_path / "alone"), lattices)
    lm = build(tmp_path / "shared")
    for _ in range(1 if slow else RUNS):
        for paths in run_in_threads(lambda _: best(lm, lattices)):
            assert_close_paths(paths, expected)


@pytest.mark.parametrize("build", [lstm, module])
def test_threads_can_share_mixtures_and_old_models(build, tmp_path):
    def mixed(lm: LanguageModel, old: LanguageModel) -> Any:
        return best(Mixture([(lm, 0.5), (FakeLM(), 0.5)], "linear"), old_lm=old)

    expected = mixed(build(tmp_path), lstm(tmp_path))
    lm, old = build(tmp_path), lstm(tmp_path)
    for _ in range(RUNS):
        for paths in run_in_threads(lambda _: mixed(lm, old)):
            assert_close_paths(paths, expected)


@pytest.mark.parametrize("build", [lstm, transformer, kaldi, causal, module])
def test_direct_calls_and_sentence_scoring_can_run_concurrently(build, tmp_path):
    lm = build(tmp_path)
    lm.vocabulary.ids(f"w{number}" for number in range(1, 8))
    words = [number for _, number in list(lm.vocabulary) if number not in (lm.bos, lm.eos, lm.unk)][1:6]
    texts = [[int(word) for word in np.random.default_rng(seed).choice(words, 6)] for seed in range(8)]
    expected = sentence_logprobs(lm, texts)

    def work(number: int) -> Any:
        if number % 2:
            return sentence_logprobs(lm, texts)
        scores = []
        for text in texts:
            [slot], total = lm.start(1), 0.0
            for word in [*text, lm.eos]:
                total += float(lm.logprob(np.array([slot]), np.array([word], np.int32))[0])
                [next_slot] = lm.advance(np.array([slot]), np.array([word], np.int32)) if word != lm.eos else [slot]
                if word != lm.eos:
                    lm.release(np.array([slot]))
                slot = next_slot
            lm.release(np.array([slot]))
            scores.append(total)
        return scores

    for _ in range(RUNS):
        for logprobs in run_in_threads(work):
            assert logprobs == pytest.approx(expected, abs=1e-3)


def test_rescorers_and_interleaved_runs_can_share_a_model():
    expected = best(lstm(Path()))
    lm = lstm(Path())
    with Rescorer(lm, OPTIONS) as first, Rescorer(lm, OPTIONS) as second:
        futures = [rescorer.submit(lattice) for _, lattice in LATTICES for rescorer in (first, second)]
        results = [future.result(timeout=60) for future in futures]
    for lattices in (results[::2], results[1::2]):
        costs = [float(lattice.graph.sum() + lattice.acoustic.sum()) for lattice in lattices]
        assert costs == pytest.approx([cost for _, _, cost in expected], abs=1e-3)
    pairs = list(zip(rescore(LATTICES, lm, OPTIONS), rescore(LATTICES, lm, OPTIONS), strict=True))
    for runs in zip(*pairs, strict=True):
        costs = [float(lattice.graph.sum() + lattice.acoustic.sum()) for _, lattice in runs]
        assert costs == pytest.approx([cost for _, _, cost in expected], abs=1e-3)


def test_threads_can_share_a_tracker_and_a_contextual_model():
    phrases = tiny_pointer.entities([tiny_pointer.WORDS[5:7], tiny_pointer.WORDS[6:8]]).of("*")
    texts = [np.random.default_rng(seed).integers(5, 9, 6).tolist() for seed in range(6)]

    def follow(tracker: PointerTracker) -> list[float]:
        scores = []
        for text in texts:
            state = np.array([tracker.start(phrases)])
            for word in text:
                state, gain = tracker.advance(state, np.array([word], np.int32))
                scores.append(float(gain[0]))
        return scores

    def mark_scores(lm: LanguageModel, ids: PhraseListIds) -> list[float]:
        mark = ids.of(phrases)
        assert mark is not None
        scores = []
        for text in texts:
            slots = lm.start(1)
            for word in [mark.number, *text]:
                old_slots, slots = slots, lm.advance(slots, np.array([word], np.int32))
                lm.release(old_slots)
                scores.append(float(lm.logprob(slots, np.array([text[0]], np.int32))[0]))
            lm.release(slots)
        return scores

    ids = PhraseListIds()
    lm = ContextMixture(((tiny_pointer.BASE, 1.0),), pointer=tiny_pointer.POINTER, phrase_lists=ids).over(
        tiny_pointer.TABLE, tiny_pointer.PENALTY
    )
    tracker = PointerTracker(tiny_pointer.TABLE, tiny_pointer.BASE, tiny_pointer.POINTER)
    expected = follow(tracker), mark_scores(lm, ids)
    for _ in range(RUNS):
        for tracker_scores, lm_scores in run_in_threads(lambda _: (follow(tracker), mark_scores(lm, ids))):
            assert tracker_scores == pytest.approx(expected[0], abs=1e-3)
            assert lm_scores == pytest.approx(expected[1], abs=1e-3)


def test_threads_can_share_a_lexical_model():
    unit_lm = FakeLM()
    lm = LexicalLM(unit_lm, LexicalForms("basic"))
    words = np.array(lm.vocabulary.ids(["W1,", ",", "w2-w3", ",", "W4-w1!", ",", "w5"]), np.int32)

    def score(_: int) -> list[float]:
        scores, slots = [], [lm.start(1) for _ in range(20)]
        for place in range(len(slots)):
            for word in np.split(words, len(words)):
                scores.append(float(lm.logprob(slots[place], word)[0]))
                old_slot, slots[place] = slots[place], lm.advance(slots[place], word)
                lm.release(old_slot)
            slots.append(lm.advance(slots[place], words[1:2]))  # a second reference to the slot
        for slot in slots:
            lm.release(slot)
        return scores

    expected = score(0)
    for _ in range(4 * RUNS):
        assert all(scores == expected for scores in run_in_threads(score))
    assert unit_lm.history == {}  # every slot is released once


def test_words_added_by_several_threads_get_distinct_ids(tmp_path):
    lm = multiwords(tmp_path)
    words = [f"w{first}_w{second}" for first in range(30) for second in range(30)]
    for ids in run_in_threads(lambda number: lm.vocabulary.ids(words[number:] + words[:number])):
        assert len(set(ids)) == len(words)
    assert [lm.vocabulary.word(number) for number in lm.vocabulary.ids(words)] == words


def test_copies_of_a_model_do_not_share_its_lock():
    class Slow(FakeLM):
        def start(self, count: int) -> np.ndarray:
            entered.set()
            assert proceed.wait(30)
            return super().start(count)

    entered, proceed = threading.Event(), threading.Event()
    lm = Slow()
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(lm.start, 1)
        assert entered.wait(30)
        for lm_copy in (copy.copy(lm), copy.deepcopy(lm)):
            lm_copy.advance(np.empty(0, np.int64), np.empty(0, np.int32))  # returns while a thread uses `lm`
        proceed.set()
        assert len(future.result()) == 1
    assert pickle.loads(pickle.dumps(FakeLM())).vocabulary == FakeLM().vocabulary
