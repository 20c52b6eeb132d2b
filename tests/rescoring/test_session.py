"""`Rescorer.session`: growing lattices, stable words, and reuse of scores."""

from __future__ import annotations

import asyncio
import math
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from fake_lm import FakeLM
from rescoring_cases import EXACT, TABLE, random_lattice

import ninja
from ninja.context import Context, Contextual, Entities
from ninja.errors import ClosedError, OptionError, VocabularyError
from ninja.graph import best_path, connect, from_arcs, linear
from ninja.lattice import Lattice, Scales
from ninja.lm.mixture import Mixture
from ninja.rescoring import StreamOptions
from ninja.rescoring.session import Session, prefix_posteriors

OPTIONS = replace(EXACT, max_hyps=3, beam=8.0, normalizer="none")


def grown(lattice: Lattice, last: int) -> Lattice:
    """Return a lattice up to a state; words in progress there are not known yet."""
    complete = lattice.dst <= last
    going = np.flatnonzero((lattice.src <= last) & ~complete)
    end = last + 1
    arcs = np.concatenate([np.flatnonzero(complete), going])
    dst, word, graph = (np.where(complete, old, new)[arcs] for old, new in
                        ((lattice.dst, end), (lattice.word, 0), (lattice.graph, 0.0)))  # fmt: skip
    acoustic = lattice.acoustic[arcs] / 2
    whole = from_arcs(lattice.key, lattice.src[arcs], dst, word, graph, acoustic, finals={end: 0.0}, words=TABLE)
    return connect(whole)


def best_words(lattice: Lattice) -> tuple[str, ...]:
    return tuple(TABLE.spell([word for word in best_path(lattice, OPTIONS.scales).words.tolist() if word]))


def updates(lattice: Lattice) -> Iterator[Lattice]:
    yield from (grown(lattice, last) for last in range(4, lattice.num_states - 1, 4))
    yield lattice


@pytest.mark.parametrize("mixed", [False, True])
def test_the_final_update_equals_rescoring_the_whole_lattice(mixed: bool) -> None:
    model = Mixture(((FakeLM(), 0.6), (FakeLM(salt=1), 0.4))) if mixed else FakeLM()
    with ninja.Rescorer(model, OPTIONS, old_lm=FakeLM(salt=2), max_latency=0.0) as rescorer:
        for seed in range(3):
            lattice = random_lattice(seed, 20)
            session = rescorer.session()
            partials = [session.update(part, final=part is lattice) for part in updates(lattice)]
            expected = rescorer.submit(lattice).result()
            assert np.array_equal(partials[-1].lattice.graph, expected.graph)
            assert partials[-1].words == best_words(expected)
            assert partials[-1].num_stable == len(partials[-1].words)


def test_the_model_computes_no_score_twice() -> None:
    class Counting(FakeLM):
        def logprob(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
            scored.extend((self.history[int(slot)], int(word)) for slot, word in zip(slots, words, strict=True))
            return super().logprob(slots, words)

    scored: list[tuple[tuple[int, ...], int]] = []
    with ninja.Rescorer(Counting(), OPTIONS, max_latency=0.0) as rescorer:
        for _ in range(2):  # two sessions with the same words
            session = rescorer.session()
            for part in updates(random_lattice(1)):
                session.update(part)
        num_sent = rescorer.report.scores
    assert len(scored) == len(set(scored))
    assert num_sent > 2 * len(scored)


def path(text: str) -> Lattice:
    words = text.split()
    return linear("utt", TABLE.ids(words), symbols=TABLE)


def stable_words(texts: list[str], options: StreamOptions) -> list[str]:
    session = Session(lambda lattice: pytest.fail("not submitted"), Scales(), options)
    return [" ".join(session.observe(path(text)).stable) for text in texts]


def test_words_are_stable_when_updates_agree() -> None:
    texts = ["w1", "w1 w2", "w1 w3", "w1 w3 w4", "w1 w3 w4"]
    assert stable_words(texts, StreamOptions(agreement=2)) == ["", "w1", "w1", "w1 w3", "w1 w3 w4"]
    assert stable_words(texts, StreamOptions(agreement=3)) == ["", "", "w1", "w1", "w1 w3"]
    assert stable_words(texts, StreamOptions(agreement=1)) == texts


def test_changes_of_stable_words_are_counted() -> None:
    session = Session(lambda lattice: pytest.fail("not submitted"), Scales(), StreamOptions(agreement=1))
    changes = [session.observe(path(text)).num_changed for text in ("w1 w2 w3", "w1 w2 w3 w4", "w1 w5", "w1 w5 w6")]
    assert changes == [0, 0, 3, 0]
    final = session.observe(path("w7"), final=True)
    assert (final.stable, final.tail, final.num_changed) == (("w7",), (), 3)


def test_words_with_probable_alternatives_are_not_stable() -> None:
    lattice = from_arcs("utt", [0, 1, 1], [1, 2, 2], TABLE.ids(["w1", "w2", "w3"]), [0.0, 0.0, math.log(4)],
                        finals={2: 0.0}, words=TABLE)  # fmt: skip
    for least, expected in ((0.79, 2), (0.81, 1)):
        session = Session(lambda lattice: pytest.fail("not submitted"), Scales(), StreamOptions(1, least))
        assert session.observe(lattice).num_stable == expected


def test_output_best_does_not_hide_alternatives() -> None:
    lattice = from_arcs("utt", [0, 0], [1, 1], TABLE.ids(["w1", "w2"]), [0.0, 0.1], finals={1: 0.0}, words=TABLE)
    options = replace(OPTIONS, output="best", lm_weight=0.0)
    with ninja.Rescorer(FakeLM(), options, max_latency=0.0) as rescorer:
        partial = rescorer.session(StreamOptions(1, 0.9)).update(lattice)
        assert (partial.words, partial.num_stable) == (("w1",), 0)


@pytest.mark.parametrize("seed", range(5))
def test_posteriors_of_prefixes_agree_with_enumeration(seed: int) -> None:
    lattice = random_lattice(seed, 7, 2)
    scales = Scales(0.3, 0.7, 0.1)
    paths = list(enumerated(lattice, scales))
    total = sum(weight for _, weight in paths)
    words = max(paths, key=lambda pair: pair[1])[0]
    expected = [
        sum(weight for path_words, weight in paths if path_words[:length] == words[:length]) / total
        for length in range(1, len(words) + 1)
    ]
    assert prefix_posteriors(lattice, words, scales) == pytest.approx(expected, abs=1e-6)


def enumerated(lattice: Lattice, scales: Scales) -> Iterator[tuple[tuple[int, ...], float]]:
    """Yield the words and the weight of every path."""

    def below(state: int) -> Iterator[tuple[tuple[int, ...], float]]:
        if np.isfinite(lattice.final_graph[state]):
            yield (), scales.lm * lattice.final_graph[state] + scales.acoustic * lattice.final_acoustic[state]
        for arc in range(lattice.arc_begin[state], lattice.arc_begin[state + 1]):
            word = int(lattice.word[arc])
            cost = scales.lm * lattice.graph[arc] + scales.acoustic * lattice.acoustic[arc]
            for words, completion in below(int(lattice.dst[arc])):
                yield ((word, *words) if word else words), cost + completion + scales.word_penalty * (word != 0)

    yield from ((words, math.exp(-cost)) for words, cost in below(0))


def test_sessions_on_many_threads_are_independent() -> None:
    lattices = [random_lattice(seed, 12).with_key(f"utt{seed}") for seed in range(8)]
    with ninja.Rescorer(FakeLM(), OPTIONS) as rescorer, ThreadPoolExecutor(8) as threads:

        def words_of(lattice: Lattice) -> tuple[str, ...]:
            session = rescorer.session()
            return [session.update(part, final=part is lattice) for part in updates(lattice)][-1].words

        results = list(threads.map(words_of, lattices))
        expected = [best_words(rescorer.submit(lattice).result()) for lattice in lattices]
    assert results == expected


def test_an_error_does_not_end_the_session() -> None:
    with ninja.Rescorer(FakeLM(), OPTIONS, max_latency=0.0) as rescorer:
        session = rescorer.session()
        with pytest.raises(VocabularyError):
            session.update(path("w1").with_words(None))
        assert session.update(path("w1 w2"), final=True).words == ("w1", "w2")
        with pytest.raises(ClosedError, match="the session has already received its final lattice; open a new session"):
            session.update(path("w1 w2"))
    with pytest.raises(ClosedError):
        rescorer.session()
    with pytest.raises(ClosedError):
        Session.submit(session, path("w1"))


def test_a_session_can_be_awaited() -> None:
    async def words() -> tuple[str, ...]:
        with ninja.Rescorer(FakeLM(), OPTIONS, max_latency=0.0) as rescorer:
            session = rescorer.session()
            rescored = await asyncio.wrap_future(session.submit(path("w1 w2")))
            return session.observe(rescored, final=True).words

    assert asyncio.run(words()) == ("w1", "w2")


def test_phrases_of_a_session_are_boosted() -> None:
    lattice = from_arcs("utt", [0, 0], [1, 1], TABLE.ids(["w1", "w2"]), [0.0, 0.0], finals={1: 0.0}, words=TABLE)
    context = Contextual(Context(Entities.from_dict({})))
    with ninja.Rescorer(FakeLM(), replace(OPTIONS, lm_weight=0.1), context=context, max_latency=0.0) as rescorer:
        best = rescorer.session().update(lattice).words[0]
        alternative = ({"w1", "w2"} - {best}).pop()
        assert rescorer.session(entities={"phrases": [alternative]}).update(lattice).words == (alternative,)
    with ninja.Rescorer(FakeLM(), OPTIONS) as rescorer, pytest.raises(OptionError, match="entities require a context"):
        rescorer.session(entities={"phrases": [alternative]})


def test_options_out_of_range_are_refused() -> None:
    for wrong in ({"agreement": 0}, {"min_posterior": 1.5}):
        with pytest.raises(OptionError):
            StreamOptions(**wrong)


def test_prefix_posteriors_of_long_lattices_take_little_memory() -> None:
    count = 500
    states = np.repeat(np.arange(count), 2)
    word = np.tile([1, 0], count)
    lattice = from_arcs("k", states, states + 1, word, np.tile([0.1, 3.0], count), finals={count: 0.0}, words=TABLE)
    tracemalloc.start()
    posteriors = prefix_posteriors(lattice, [1] * count, Scales())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 << 20  # 12 MB if the probabilities of all states are stored
    assert len(posteriors) == count


def test_an_agreement_option_that_is_too_large_is_refused() -> None:
    with pytest.raises(OptionError, match="agreement"):
        StreamOptions(agreement=10**12)
