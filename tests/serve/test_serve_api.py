"""The endpoints of the server: responses, limits and refused requests."""

from __future__ import annotations

import base64
import gzip
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_lm import FakeLM, GatedLM, symbols
from rescoring_cases import random_lattice
from served import Client, file_of, run_server

import ninja
from ninja.context import Context, Entities
from ninja.errors import OptionError
from ninja.lattice import Lattice
from ninja.rescoring import ModelFiles, RescoreOptions, rescore
from ninja.serve import ServeOptions
from ninja.serve.scorer import Scorer

pytest.importorskip("starlette", reason="the extra ninja-asr[serve] is not installed")
LATTICES = [random_lattice(seed) for seed in range(12)]
OPTIONS = RescoreOptions(acoustic_scale=0.5, unk_penalty=1.0, max_unknown=1.0, normalizer="none", algorithm="arcbeam")
EXPLICIT_OPTIONS = ("acoustic_scale", "lm_weight", "word_penalty")
FORMATS = ["slf", "text", "binary", "native", "pfsg", "openfst", "fst-text"]


def scorer(lm: FakeLM | None = None, **options: Any) -> Scorer:
    context = Context(Entities.from_dict({}))
    return Scorer(lm or FakeLM(), OPTIONS, words=symbols(), context=context, chosen=EXPLICIT_OPTIONS, **options)


def best_text(lattice: Lattice) -> str:
    return " ".join(lattice.words.spell(ninja.graph.best_path(lattice, OPTIONS.scales).words))


def rescored_texts(lattices: list[Lattice]) -> list[str]:
    pairs = [(lattice.key, lattice) for lattice in lattices]
    return [best_text(rescored) for _, rescored in rescore(pairs, FakeLM(), OPTIONS)]


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with run_server(scorer()) as http_client:
        yield http_client


@pytest.mark.parametrize("format", FORMATS)
def test_rescoring_any_format_agrees_with_the_library(client: Client, format: str, tmp_path: Path) -> None:
    pytest.importorskip({"native": "pyarrow"}.get(format, "numpy"))
    for lattice in LATTICES[:3]:
        body = file_of(lattice, format)
        round_trip = read_back(body, format, tmp_path)
        answer = client.rescore(body, "key=one&n=1")
        assert answer.status == 200, answer.body
        assert answer.text == rescored_texts([round_trip])[0]
        assert answer.json["key"] == "one"
        assert answer.json["complete"] is True


def read_back(body: bytes, format: str, folder: Path) -> Lattice:
    path = folder / "body"
    path.write_bytes(body)
    ((_, lattice),) = ninja.read(path, words=symbols(), format={"text": None, "binary": None}.get(format, format))
    return lattice


def test_concurrent_clients_receive_the_results_of_their_own_lattices(client: Client) -> None:
    lattices = [random_lattice(seed).with_key(f"utt{seed}") for seed in range(32)]
    with ThreadPoolExecutor(32) as threads:
        answers = list(threads.map(lambda lattice: client.rescore(file_of(lattice)), lattices))
    assert [answer.json["key"] for answer in answers] == [lattice.key for lattice in lattices]
    assert [answer.text for answer in answers] == rescored_texts(lattices)


def test_an_n_best_list_in_json_is_rescored_like_its_lattice() -> None:
    rows = [
        {"text": "w1 w2", "am_score": -1.0, "lm_score": -2.0},
        {"text": "w3 w2", "am_score": -1.5, "lm_score": -1.0},
    ]
    table = ninja.SymbolTable.growing()
    lattice = ninja.from_nbest("utt", [(row["text"], row["am_score"], row["lm_score"]) for row in rows], words=table)
    with run_server(scorer()) as client:
        answer = client.rescore_json(nbest=rows, key="utt")
    assert answer.text == rescored_texts([lattice])[0]
    assert {hypothesis["text"] for hypothesis in answer.json["nbest"]} == {"w1 w2", "w3 w2"}
    scores = [hypothesis["score"] for hypothesis in answer.json["nbest"]]
    assert scores == sorted(scores, reverse=True)


def test_words_have_times_confidences_and_alternatives(client: Client) -> None:
    rows = [{"text": "w1", "score": -1.0, "words": [{"word": "w1", "start": 0.1, "end": 0.5}]},
            {"text": "w2", "score": -1.2, "words": [{"word": "w2", "start": 0.1, "end": 0.4}]}]  # fmt: skip
    content = json.dumps({"key": "utt", "nbest": rows})
    answer = client.rescore_json(lattice=content, format="json").json
    (word,) = answer["nbest"][0]["words"]
    (slot,) = answer["alternatives"]
    assert (word["start"], word["end"]) in ((0.1, 0.5), (0.1, 0.4))
    assert {alternative["word"] for alternative in slot} == {"w1", "w2"}
    assert slot[0] == {"word": word["word"], "confidence": word["confidence"]}
    assert sum(alternative["confidence"] for alternative in slot) == pytest.approx(1.0, abs=1e-5)
    subtitles = client.rescore_json(lattice=content, format="json", to="srt").body.decode()
    assert subtitles.splitlines()[2:] == [word["word"], ""]
    assert subtitles.startswith("1\n00:00:00,100 --> 00:00:00,")


@pytest.mark.parametrize("format", ["slf", "text", "json"])
def test_the_response_can_be_a_lattice(client: Client, format: str, tmp_path: Path) -> None:
    lattice = LATTICES[0]
    answer = client.rescore(file_of(lattice), f"to={format}")
    assert answer.status == 200, answer.body
    assert answer.headers["x-ninja-complete"] == "true"
    assert best_text(read_back(answer.body, format, tmp_path)) == rescored_texts([lattice])[0]


@pytest.mark.parametrize("format", ["text", "transcripts", "nbest-kaldi", "mesh"])
def test_formats_with_keys_as_fields_refuse_whitespace_in_keys(client: Client, format: str) -> None:
    answer = client.rescore_json(nbest=[{"text": "w1", "score": 0}], key="a\nb c", to=format)
    assert (answer.status, "whitespace" in answer.json["detail"]) == (422, True)


def test_the_body_can_be_compressed_or_encoded_in_base64(client: Client) -> None:
    body = file_of(LATTICES[0])
    plain = client.rescore(body).json
    assert client.rescore(gzip.compress(body)).json == plain
    assert client.rescore_json(lattice_base64=base64.b64encode(body).decode()).json == plain
    assert client.rescore_json(lattice=body.decode()).json == plain


def test_request_phrases_and_server_lists_change_the_words(tmp_path: Path) -> None:
    path = tmp_path / "contacts.txt"
    path.write_text("w3\n")
    rows = [{"text": "w1 w2", "score": -1.0}, {"text": "w1 w3", "score": -1.1}]
    with run_server(scorer(lists={"contacts": path})) as client:
        baseline = client.rescore_json(nbest=rows, n=1).text
        alternative = ({"w1 w2", "w1 w3"} - {baseline}).pop()
        assert client.rescore_json(nbest=rows, entities=[alternative.split()[1]]).text == alternative
        assert (
            client.rescore_json(nbest=rows, entities={"@name": [{"text": alternative.split()[1]}]}).text == alternative
        )
        assert client.rescore_json(nbest=rows, lists=["contacts"]).text == "w1 w3"
        assert client.rescore_json(nbest=rows, n=1).text == baseline
        answer = client.rescore_json(nbest=rows, lists=["other"])
        assert (answer.status, answer.json["detail"]) == (422, "there is no phrase list 'other'; available: contacts")


def test_an_expired_deadline_returns_the_first_pass_marked_incomplete() -> None:
    lm = GatedLM()
    with run_server(scorer(lm)) as client, ThreadPoolExecutor(1) as thread:
        first = thread.submit(client.rescore, file_of(LATTICES[0]))
        client.wait_for("ninja_batch_lattices", 1)
        second = ThreadPoolExecutor(1).submit(client.rescore, file_of(LATTICES[1]), "deadline_ms=1")
        client.wait_for("ninja_requests_in_progress", 2)
        time.sleep(0.05)
        lm.gate.set()
        answer = second.result()
        assert first.result().json["complete"] is True
    assert answer.json["complete"] is False
    assert answer.text == best_text(LATTICES[1])
    assert answer.headers["x-ninja-complete"] == "false"


def test_requests_above_the_limit_are_refused_with_retry_after() -> None:
    lm = GatedLM()
    with run_server(scorer(lm), ServeOptions(max_requests=1)) as client, ThreadPoolExecutor(1) as thread:
        first = thread.submit(client.rescore, file_of(LATTICES[0]))
        client.wait_for("ninja_requests_in_progress", 1)
        refusal = client.rescore(file_of(LATTICES[1]))
        assert (refusal.status, refusal.headers["retry-after"]) == (429, "1")
        lm.gate.set()
        assert first.result().status == 200
        assert client.rescore(file_of(LATTICES[1])).status == 200


def test_bodies_lattices_and_phrases_above_their_limits_are_refused() -> None:
    options = ServeOptions(max_body=20_000, max_lattice_arcs=3, max_phrases=2)
    large = next(lattice for lattice in LATTICES if lattice.num_arcs > 3)
    with run_server(scorer(), options) as client:
        refusals = [
            client.rescore(b"x" * 20_001),
            client.rescore(gzip.compress(b"x" * 50_000)),
            client.rescore(file_of(large)),
            client.rescore_json(nbest=[{"text": "w1", "score": 0}], entities=["a", "b", "c"]),
        ]
        # A chunked body has no Content-Length; it is refused as soon as it exceeds the limit.
        with client.connect() as connection:
            connection.sendall(b"POST /v1/rescore HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
            connection.sendall(b"7530\r\n" + b"x" * 30_000 + b"\r\n")
            assert b" 413 " in connection.recv(100)
    assert [answer.status for answer in refusals] == [413] * 4
    assert refusals[0].json["detail"] == "the body has more than 20000 bytes; prune the lattice first"
    assert refusals[1].json["detail"] == "the body unpacks to more than 20000 bytes; prune the lattice first"
    arcs = f"the lattice has {large.num_arcs} arcs, but at most 3 are allowed; prune it first"
    assert refusals[2].json["detail"] == arcs
    assert refusals[3].json["detail"] == "the request has 3 phrases; at most 2 are allowed"


def test_requests_that_do_not_arrive_completely_time_out() -> None:
    with run_server(scorer(), ServeOptions(max_seconds=0.3)) as client, client.connect() as connection:
        connection.sendall(b"POST /v1/rescore HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nx")
        assert b" 408 " in connection.recv(100)
        with client.connect() as idle_connection:
            idle_connection.sendall(b"POST /v1/resc")
            assert idle_connection.recv(100) == b""
        # The first request is answered; the header of the second does not arrive.
        with client.connect() as second_connection:
            second_connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            response = b""
            while not response.endswith(b"ok\n"):
                response += second_connection.recv(1000)
            second_connection.sendall(b"POST /v1/resc")
            second_connection.settimeout(20)
            assert second_connection.recv(100) == b""
        assert client.metric("ninja_requests_in_progress") == 0


def test_a_disconnected_client_frees_its_slot() -> None:
    lm = GatedLM()
    with run_server(scorer(lm), ServeOptions(max_requests=2)) as client, ThreadPoolExecutor(1) as thread:
        first = thread.submit(client.rescore, file_of(LATTICES[0]))
        client.wait_for("ninja_batch_lattices", 1)
        body = file_of(LATTICES[1])
        with client.connect() as connection:
            head = f"POST /v1/rescore HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
            connection.sendall(head.encode() + body)
            client.wait_for("ninja_lattices_waiting", 1)
        client.wait_for("ninja_requests_in_progress", 1)
        assert client.metric("ninja_lattices_waiting") == 0
        lm.gate.set()
        assert first.result().status == 200


def test_a_stopping_server_answers_requests_in_progress() -> None:
    lm = GatedLM()
    with ThreadPoolExecutor(1) as thread:
        with run_server(scorer(lm)) as client:
            answer = thread.submit(client.rescore, file_of(LATTICES[0]))
            client.wait_for("ninja_batch_lattices", 1)
            threading.Timer(0.2, lm.gate.set).start()
        assert answer.result().text == rescored_texts(LATTICES[:1])[0]


def test_a_server_with_closed_models_is_not_ready() -> None:
    models = scorer()
    with run_server(models) as client:
        assert client.get("/readyz").status == 200
        models.close()
        for answer in (client.get("/readyz"), client.rescore(file_of(LATTICES[0]))):
            assert (answer.status, answer.json["title"]) == (503, "Not available")
            assert answer.headers["retry-after"] == "1"
        assert client.get("/healthz").status == 200


def test_a_token_is_required_except_for_pages_and_health() -> None:
    token = "0123456789abcdef"
    body = file_of(LATTICES[0])
    with run_server(scorer(), token=token) as client:
        assert {client.get(path).status for path in ("/", "/docs", "/healthz", "/readyz", "/openapi.json")} == {200}
        for headers in ({}, {"Authorization": "Bearer 0123456789abcdeg"}, {"Authorization": f"Basic {token}"}):
            client.headers = headers
            refusal = client.rescore(body)
            assert (refusal.status, refusal.headers["www-authenticate"]) == (401, "Bearer")
            assert client.get("/metrics").status == 401
        client.headers = {"Authorization": f"Bearer {token}"}
        assert client.rescore(body).status == 200
        assert "security" in client.get("/openapi.json").json["paths"]["/v1/rescore"]["post"]


def test_a_token_can_contain_any_characters() -> None:
    token = "schlüssel-für-ninja"
    with run_server(scorer(), token=token) as client:
        # The header has the UTF-8 bytes of the token, as curl sends them.
        client.headers = {"Authorization": f"Bearer {token}".encode().decode("latin-1")}
        assert client.get("/metrics").status == 200


def test_no_request_opens_a_file(client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    secret, missing = Path("secret.txt"), Path("no_file.txt")
    secret.write_text("w1\n")
    rows = [{"text": "w1", "score": 0}]

    def send_all(path: Path) -> list[tuple[int, str]]:
        answers = [
            client.rescore(f"utt {path}\n".encode()),
            client.rescore(f"{path}\n".encode()),
            client.rescore_json(nbest=rows, entities={"lists": {"a": {"file": str(path)}}}),
            client.rescore_json(nbest=rows, entities={"@a": [], "file": [str(path)]}),
            client.rescore_json(nbest=rows, lists=[str(path)]),
            client.rescore_json(nbest=rows, to=f"srt:segments={path}"),
            client.rescore_json(nbest=rows, format=f"json:encoding={path}"),
            client.rescore_json(lattice="w1", format=str(path)),
        ]
        return [(answer.status, answer.body.decode().replace(str(path), "PATH")) for answer in answers]

    answers = send_all(secret)
    assert [status for status, _ in answers] == [422, 422, 400, 400, 422, 422, 400, 422]
    assert answers == send_all(missing)  # responses do not reveal whether the file exists


@pytest.mark.parametrize(
    ("fields", "detail"),
    [
        ({}, "the request contains no lattice; specify exactly one of lattice, lattice_base64 and nbest"),
        ({"lattice": "a", "nbest": []}, "the request contains lattice and nbest; specify exactly one of lattice, "),
        ({"lattice": 3}, "lattice is 3, but must be text"),
        ({"lattice_base64": "?"}, "lattice_base64 is not base64: "),
        ({"nbest": [], "n": 0}, "n is 0, but must be an integer from 1 to 1000"),
        ({"nbest": [], "deadline_ms": -1}, "deadline_ms is -1, but must be a finite number above 0"),
        (
            {"nbest": [], "entities": 3},
            "entities is 3, but must be a list of phrases, or an object that maps classes to lists of phrases",
        ),
        ({"nbest": [], "url": "x"}, "unknown field 'url'; allowed fields: lattice"),
        ({"nbest": [], "key": ""}, "key is '', but must be a string of 1 to 1024 characters"),
    ],
)  # fmt: skip
def test_errors_of_malformed_requests_name_the_field(client: Client, fields: dict, detail: str) -> None:
    answer = client.rescore_json(**fields)
    assert (answer.status, answer.headers["content-type"]) == (400, "application/problem+json")
    assert answer.json["detail"].startswith(detail)


@pytest.mark.parametrize("body", [b"{", b"[1]", b'{"n": 1, "n": 2}', b"\xff", b"[" * 100_000, b"1" * 5000, b"NaN"])
def test_a_body_other_than_a_json_object_is_refused(client: Client, body: bytes) -> None:
    assert client.send("POST", "/v1/rescore", body, Content_Type="application/json").status == 400


@pytest.mark.parametrize(
    ("field", "name", "known", "others"),
    [
        ("to", "htl", "responses; choose one of binary, text, slf, ", ("parquet", "espnet")),
        ("to", "parquet", "responses; choose one of binary, text, slf, ", ("parquet", "espnet")),
        ("format", "htl", "requests; choose one of kaldi, binary, text, slf, ", ("espnet",)),
        ("format", "espnet", "requests; choose one of kaldi, binary, text, slf, ", ("espnet",)),  # a folder
    ],
)
def test_an_unavailable_format_is_refused_with_a_list_of_the_available_ones(
    client: Client, field: str, name: str, known: str, others: tuple[str, ...]
) -> None:
    answer = client.rescore_json(lattice="w1", **{field: name})
    assert answer.status == 422
    assert answer.json["detail"].startswith(f"{name!r} is not a format for {known}")
    assert not {*others} & {*answer.json["detail"].partition("choose one of ")[2].split(", ")}


def test_the_problem_detail_is_the_error_message_of_the_library(client: Client, tmp_path: Path) -> None:
    body = file_of(LATTICES[0]).replace(b"J=0", b"J=x", 1)
    path = tmp_path / "body"
    path.write_bytes(body)
    with pytest.raises(ninja.NinjaError) as failure:
        list(ninja.read(path, format="slf"))
    answer = client.rescore(body)
    assert answer.status == 422
    assert answer.json["detail"].partition(": ")[2] == str(failure.value).partition(": ")[2]
    assert answer.json["detail"].startswith("body:")


@pytest.mark.parametrize(
    "body", [b"", b"\0" * 100, b"hello world\n", b"\xd6\xfd\xb2\x7e" + b"\0" * 60, b"\x1f\x8b" + b"\0" * 20]
)
def test_a_body_without_a_lattice_is_unprocessable(client: Client, body: bytes) -> None:
    assert client.rescore(body).status == 422


def test_several_lattices_in_a_body_are_refused(client: Client) -> None:
    answer = client.rescore(file_of(LATTICES[0], "text") + file_of(LATTICES[1].with_key("other"), "text"))
    assert answer.json["detail"] == "body: the body contains several lattices; send each lattice in a separate request"


def test_a_request_cannot_use_word_ids_added_by_another_request(client: Client) -> None:
    assert client.rescore_json(nbest=[{"text": "neverheard", "score": 0}]).status == 200
    lattice = LATTICES[0]
    new_lattice = lattice.replace(word=np.where(lattice.word > 0, np.int32(len(symbols())), lattice.word), words=None)
    assert client.rescore(file_of(new_lattice, "text")).status == 422
    answer = client.rescore_json(nbest=[{"text": "neverheard", "score": 0}], to="text")
    assert "not all words of the lattice are in the server's symbol table" in answer.json["detail"]


def test_unknown_paths_and_methods_are_answered_with_problem_documents(client: Client) -> None:
    for method, path, status in (
        ("GET", "/v2", 404),
        ("GET", "/v1/rescore", 405),
        ("POST", "/healthz", 405),
        ("POST", "/v1/rescore/", 404),
    ):
        answer = client.send(method, path)
        assert (answer.status, answer.headers["content-type"]) == (status, "application/problem+json")
        methods = {("GET", 405): ["POST"], ("POST", 405): ["GET", "HEAD"]}.get((method, status), [])
        assert sorted(answer.headers.get("allow", "").split(", ")) == (methods or [""])


def test_metrics_count_lattices_and_language_model_calls(client: Client) -> None:
    before = client.metric("ninja_lm_calls_total"), client.metric("ninja_lattices_total")
    assert client.rescore(file_of(LATTICES[0])).status == 200
    after = client.metric("ninja_lm_calls_total"), client.metric("ninja_lattices_total")
    assert after[0] > before[0]
    assert after[1] == before[1] + 1
    assert client.metric("ninja_lm_seconds_total") >= 0


def test_the_openapi_document_describes_rescoring(client: Client) -> None:
    document = client.get("/openapi.json").json

    def references(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            yield from ([value["$ref"]] if "$ref" in value else [])
            value = list(value.values())
        for child in value if isinstance(value, list) else ():
            yield from references(child)

    for reference in references(document):
        assert reference.removeprefix("#/components/schemas/") in document["components"]["schemas"]
    operation = document["paths"]["/v1/rescore"]["post"]
    example = operation["requestBody"]["content"]["application/json"]["example"]
    answer = client.rescore_json(**example)
    assert answer.status == 200
    schema = document["components"]["schemas"]["Answer"]["properties"]
    assert set(answer.json) == set(schema)
    assert set(answer.json["nbest"][0]) == set(schema["nbest"]["items"]["properties"])
    properties = document["components"]["schemas"]["Request"]["properties"]
    assert all(
        client.rescore_json(**{"nbest": [], name: field_value(name)}).status in (200, 400, 422) for name in properties
    )
    for format in properties["to"]["enum"]:
        assert client.rescore_json(**example, to=format).status in (200, 422), format
    page = client.get("/docs").body.decode()
    assert all(f"<code>{name}</code>" in page for name in properties)


def field_value(name: str) -> Any:
    return {"n": 1, "deadline_ms": 5.0, "entities": ["a"], "lists": []}.get(name, "x")


def test_an_unknown_word_penalty_that_depends_on_other_requests_is_refused() -> None:
    with pytest.raises(OptionError, match="so scores would depend on other requests; set unk_penalty or, with"):
        Scorer(FakeLM(), RescoreOptions())
    Scorer(FakeLM(), RescoreOptions(), words=symbols()).close()


def test_models_with_directions_are_refused() -> None:
    with pytest.raises(OptionError, match="directions cannot be used in a server"):
        Scorer(ModelFiles(directions=["forward"]), RescoreOptions())


def test_the_symbol_table_of_requests_is_renewed_at_its_size_limit() -> None:
    from ninja.serve.lattices import Vocabularies

    vocabularies = Vocabularies(symbols(), most=10)
    first_table = vocabularies.current().words
    for number in range(11):
        rows = [(f"new{number}", -1.0)]
        vocabularies.attach(ninja.from_nbest("utt", rows))
    second_table = vocabularies.current().words
    assert second_table is not first_table
    assert dict(second_table) == dict(symbols())
