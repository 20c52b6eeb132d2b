"""`WS /v1/stream`: growing lattices and CTC frames, limits, refused messages, and the end of sessions."""

from __future__ import annotations

import base64
import math
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from fake_lm import FakeLM, GatedLM, symbols
from rescoring_cases import random_lattice
from served import Client, file_of, run_server

from ninja.context import Context, Entities
from ninja.decoding import ctc_lattice, ctc_units
from ninja.graph import best_path
from ninja.lattice import Lattice, Scales
from ninja.rescoring import RescoreOptions, rescore
from ninja.serve import ServeOptions
from ninja.serve.scorer import Scorer

pytest.importorskip("starlette", reason="the extra ninja-asr[serve] is not installed")
pytest.importorskip("wsproto", reason="the extra ninja-asr[serve] is not installed")
OPTIONS = RescoreOptions(acoustic_scale=0.5, unk_penalty=1.0, max_unknown=1.0, normalizer="none", algorithm="arcbeam")
EXPLICIT_OPTIONS = ("acoustic_scale", "lm_weight", "word_penalty")
UNITS = ["<b>", "|", *(f"w{digit}" for digit in range(1, 4))]
CTC = {"units": UNITS, "blank": "<b>", "scheme": "words", "frame_shift": 0.02}


def scorer(lm: FakeLM | None = None, **options: Any) -> Scorer:
    context = Context(Entities.from_dict({}))
    return Scorer(
        lm or FakeLM(), OPTIONS, words=symbols(), context=context, chosen=EXPLICIT_OPTIONS, max_latency=0.0, **options
    )


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with run_server(scorer(), ServeOptions(max_body=20_000, max_phrases=2)) as http_client:
        yield http_client


def best_words(lattice: Lattice, scales: Scales) -> list[str]:
    return lattice.words.spell([word for word in best_path(lattice, scales).words.tolist() if word])


def offline_words(lattice: Lattice) -> list[str]:
    ((_, rescored),) = rescore([(lattice.key, lattice)], FakeLM(), OPTIONS)
    return best_words(rescored, OPTIONS.scales)


def test_streaming_a_growing_lattice_agrees_with_offline_rescoring(client: Client) -> None:
    stream = client.stream()
    stream.send({"key": "utt1", "agreement": 2, "min_posterior": 0.0})
    for seed in range(3):
        lattice = random_lattice(seed, 8)
        answer = stream.ask({"lattice": file_of(lattice).decode()} if seed else file_of(lattice))
        assert answer["stable"] + answer["tail"] == offline_words(lattice)
        assert answer["final"] is False
    full_lattice = random_lattice(7)
    answer = stream.ask({"lattice_base64": base64.b64encode(file_of(full_lattice)).decode(), "final": True})
    assert (answer["stable"], answer["tail"], answer["final"]) == (offline_words(full_lattice), [], True)
    rescored = client.rescore(file_of(full_lattice), "key=utt1").json
    assert answer["result"] == rescored
    assert (stream.receive(), stream.code) == (None, 1000)


def test_words_become_stable_and_changes_are_counted(client: Client) -> None:
    stream = client.stream()
    stream.send({"agreement": 2, "min_posterior": 0})
    texts = ["w1", "w1 w2", "w1 w2 w3", "w4"]
    answers = [stream.ask({"nbest": [{"text": text, "score": 0.0}]}) for text in texts]
    assert [answer["stable"] for answer in answers] == [[], ["w1"], ["w1", "w2"], []]
    assert [answer["num_changed"] for answer in answers] == [0, 0, 0, 2]
    final = stream.ask({"final": True})
    assert (final["stable"], final["result"]["nbest"][0]["text"]) == (["w4"], "w4")


def frames(words: list[int], rng: np.random.Generator) -> np.ndarray:
    """Return noisy CTC log-probabilities of a sequence of words, float32 [time, units]."""
    columns = [column for word in words for column in (0, 1 + word, 0)]
    logits = rng.normal(size=(len(columns), len(UNITS))) + 6.0 * np.eye(len(UNITS))[columns]
    return (logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))).astype("<f4")


def test_streaming_ctc_frames_agrees_with_offline_rescoring(client: Client) -> None:
    matrix = frames([1, 2, 3, 1, 2], np.random.default_rng(1))
    stream = client.stream()
    stream.send({"key": "utt", "ctc": CTC})
    for begin in range(0, 12, 4):
        answer = stream.ask(matrix[begin : begin + 4].tobytes())
    assert answer["stable"] + answer["tail"]
    answer = stream.ask({"frames": base64.b64encode(matrix[12:].tobytes()).decode(), "final": True})
    table = symbols().growing_copy()
    lattice = ctc_lattice(matrix, ctc_units(UNITS, "<b>", "words"), "utt", words=table, frame_shift=0.02)
    assert answer["stable"] == offline_words(lattice)
    assert answer["result"]["nbest"][0]["words"][0]["start"] >= 0.0


def test_phrases_of_a_session_apply_to_its_updates(client: Client) -> None:
    rows = [{"text": "w1 w2", "score": -1.0}, {"text": "w1 w3", "score": -1.1}]
    stream = client.stream()
    stream.send({})
    baseline = stream.ask({"nbest": rows, "final": True})["stable"]
    alternative = ({"w2", "w3"} - {baseline[1]}).pop()
    stream = client.stream()
    stream.send({"entities": [alternative]})
    assert stream.ask({"nbest": rows, "final": True})["stable"] == ["w1", alternative]


def test_concurrent_sessions_receive_their_own_words(client: Client) -> None:
    lattices = [random_lattice(seed, 10).with_key(f"utt{seed}") for seed in range(16)]

    def stable_words(lattice: Lattice) -> list[str]:
        stream = client.stream()
        stream.send({"key": lattice.key})
        stream.ask(file_of(random_lattice(99, 5)))
        answer = stream.ask({"lattice": file_of(lattice).decode(), "final": True})
        assert answer["result"]["key"] == lattice.key
        return answer["stable"]

    with ThreadPoolExecutor(16) as threads:
        assert list(threads.map(stable_words, lattices)) == [offline_words(lattice) for lattice in lattices]


BLANKS = np.log([0.96, *[0.01] * (len(UNITS) - 1)]).astype("<f4").tobytes() * 600


@pytest.mark.parametrize(
    ("first_message", "update", "status", "detail"),
    [
        ("{", None, 400, "the content is not JSON: "),
        ("[1]", None, 400, "expected a JSON object, found a list"),
        ({"other": 1}, None, 400, "unknown field 'other'; allowed fields: key, format, n, entities, lists, agreement"),
        ({"agreement": 0}, None, 422, "agreement is 0, but must be between 1 and 1000"),
        ({"agreement": "x"}, None, 400, "agreement is 'x', but must be a number"),
        ({"min_posterior": math.inf}, None, 400, "the content is not JSON: Infinity is not a number"),
        ({"lists": ["other"]}, None, 422, "there is no phrase list 'other'; this server has none"),
        ({"entities": ["a", "b", "c"]}, None, 413, "the request has 3 phrases; at most 2 are allowed"),
        ({"ctc": {"units": UNITS}}, None, 400, "blank is null, but must be the name or the column of the blank"),
        ({"ctc": {**CTC, "blank": "x"}}, None, 422, "the blank is 'x', but no unit"),
        ({"ctc": {**CTC, "scheme": 3}}, None, 400, "scheme is 3, but must be one of "),
        ({}, {}, 400, "the update is empty; specify lattice, lattice_base64, nbest or frames, or final: true"),
        ({}, {"final": True}, 400, "the session has no lattice yet; send one before or together with final: true"),
        ({}, {"final": 1}, 400, "final is 1, but must be true or false"),
        ({}, {"nbest": [], "lattice": ""}, 400, "the update contains nbest and lattice; specify only one of them"),
        ({}, {"frames": ""}, 400, "the update contains frames, but the session accepts only lattices; see ctc"),
        ({"ctc": CTC}, {"nbest": []}, 400, "the update contains nbest, but the session accepts only frames"),
        ({"ctc": CTC}, b"abc", 400, "the frames have 3 bytes, which is not a multiple of 20 bytes for 5 units"),
        ({"ctc": CTC}, bytes(20), 422, "key 'utterance': the probabilities of frame 0 sum to 5, not 1"),
        ({"ctc": CTC}, b"", 422, "key 'utterance': there are no frames yet; add at least one frame"),
        ({}, b"hello world", 422, "body: "),
        ({}, {"lattice": "utt secret.txt\n"}, 422, "body: "),
    ],
)  # fmt: skip
def test_an_invalid_message_ends_its_session_with_an_error(
    client: Client, first_message: Any, update: Any, status: int, detail: str
) -> None:
    stream = client.stream()
    stream.send(first_message)
    if update is not None:
        stream.send(update)
    problem = stream.receive()
    assert (problem["status"], problem["detail"][: len(detail)]) == (status, detail)
    assert (stream.receive(), stream.code) == (None, 1008)


def test_the_frames_of_a_session_are_bounded(client: Client) -> None:
    stream = client.stream()
    stream.send({"ctc": CTC})
    assert stream.ask(BLANKS)["final"] is False
    problem = stream.ask(BLANKS)
    detail = "the session's frames have more than 20000 bytes; use shorter sessions"
    assert (problem["status"], problem["detail"]) == (413, detail)


def test_a_message_above_the_size_limit_ends_its_session(client: Client) -> None:
    stream = client.stream()
    stream.send({})
    stream.send(b"x" * 20_001)
    assert (stream.receive(), stream.code) == (None, 1009)


def test_sessions_idle_time_and_lattice_arcs_are_bounded() -> None:
    with run_server(scorer(), ServeOptions(max_sessions=1, max_idle=0.3, max_lattice_arcs=3)) as client:
        stream = client.stream()
        refusal = client.stream().refusal
        assert refusal is not None
        assert (refusal.status, refusal.headers["retry-after"]) == (429, "1")
        assert refusal.json["detail"] == "1 sessions are open; try again later"
        assert stream.receive()["detail"] == "no message was received within 0.3 s"
        assert (stream.receive(), stream.code) == (None, 1008)
        client.wait_for("ninja_sessions", 0)
        stream = client.stream()
        stream.send({})
        large_lattice = random_lattice(1, 8)
        detail = f"the lattice has {large_lattice.num_arcs} arcs, but at most 3 are allowed; prune it first"
        assert stream.ask(file_of(large_lattice))["detail"] == detail


def test_a_session_requires_the_token_and_the_origin_of_the_server() -> None:
    with run_server(scorer(), token="0123456789abcdef") as client:
        refusal = client.stream().refusal
        assert refusal is not None
        assert (refusal.status, refusal.json["title"]) == (401, "Unauthorized")
        client.headers = {"Authorization": "Bearer 0123456789abcdef"}
        for origin in ("https://example.org", "http://[x"):
            refusal = client.stream(Origin=origin).refusal
            assert refusal is not None
            assert (refusal.status, refusal.json["detail"]) == (403, "pages of other sites cannot open sessions")
        assert client.stream(Origin=f"http://127.0.0.1:{client.port}").refusal is None


def test_a_stopping_server_answers_updates_in_progress() -> None:
    lm = GatedLM()
    with ThreadPoolExecutor(2) as threads:
        with run_server(scorer(lm)) as client:
            idle, stream = client.stream(), client.stream()
            stream.send({})
            answers = threads.submit(lambda: [stream.ask(file_of(random_lattice(1, 8))), stream.receive()])
            client.wait_for("ninja_batch_lattices", 1)
            threading.Timer(0.2, lm.gate.set).start()
            idle_reception = threads.submit(idle.receive)
        answer, end = answers.result()
        assert answer["stable"] + answer["tail"] == offline_words(random_lattice(1, 8))
        assert (end, stream.code) == (None, 1012)
        assert (idle_reception.result(), idle.code) == (None, 1012)


def test_an_update_above_the_time_limit_ends_its_session() -> None:
    lm = GatedLM()
    with run_server(scorer(lm), ServeOptions(max_seconds=0.2)) as client:
        stream = client.stream()
        stream.send({})
        timer = threading.Timer(2.0, lm.gate.set)
        timer.start()
        problem = stream.ask(file_of(random_lattice(1, 8)))
        timer.cancel()
        assert (problem.get("status"), problem.get("detail")) == (
            504, "the update was not rescored within 0.2 s; send a smaller lattice, or fewer frames per update"
        )  # fmt: skip
        lm.gate.set()


def test_a_session_ends_if_its_client_does_not_read() -> None:
    with run_server(scorer(), ServeOptions(max_seconds=1.0)) as client:
        stream = client.stream()
        stream.send({})
        update = {"nbest": [{"text": "w" * 500_000, "score": -1.0}]}

        def send_forever() -> None:
            with suppress(OSError):  # the server has closed the connection
                while True:
                    stream.send(update)

        sender = threading.Thread(target=send_forever)
        sender.start()
        client.wait_for("ninja_sessions", 1)
        client.wait_for("ninja_sessions", 0)
        sender.join(60)
        assert not sender.is_alive()
        stream.close()


def test_a_session_is_not_subject_to_the_request_time_limit() -> None:
    with run_server(scorer(), ServeOptions(max_seconds=2.0)) as client:
        stream = client.stream()
        stream.send({})
        threading.Event().wait(2.1)
        assert stream.ask(file_of(random_lattice(1, 8)))["final"] is False
        assert client.metric("ninja_updates_total") == 1
        stream.close()
        client.wait_for("ninja_sessions", 0)
