"""`POST /v1/correct`: corrected documents, changes, limits and refused requests."""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_lm import FakeLM, symbols
from served import Answer, Client, run_server

from ninja.cli.main import main
from ninja.context import Context, Entities
from ninja.context.correction.options import CorrectOptions
from ninja.rescoring import RescoreOptions
from ninja.serve import ServeOptions
from ninja.serve import corrections as corrections_module
from ninja.serve.scorer import Scorer

pytest.importorskip("starlette", reason="the extra ninja-asr[serve] is not installed")
DATA = Path(__file__).resolve().parents[1] / "data"
OPTIONS = CorrectOptions(0.3, letters_only=True)
NAMES = ["Week Folowed", "Bartly", "Partlie", "Appel Bow", "Jon Chen"]
SRT = b"1\n00:00:00,100 --> 00:00:01,000\ncall <i>Jon Chan,</i> now\n\n"


def scorer(**options: Any) -> Scorer:
    rescoring = RescoreOptions(unk_penalty=1.0)
    context = Context(Entities.from_dict({}))
    return Scorer(FakeLM(), rescoring, words=symbols(), context=context, correct_options=OPTIONS, **options)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Scorer:
    path = tmp_path_factory.mktemp("lists") / "contacts.txt"
    path.write_text("Jon Chen\n")
    return scorer(lists={"contacts": path})


@pytest.fixture(scope="module")
def client(models: Scorer) -> Iterator[Client]:
    limits = ServeOptions(max_body=20_000, max_lattice_arcs=400, max_phrases=10)
    with run_server(models, limits) as http_client:
        yield http_client


def correct(client: Client, body: bytes, query: str = "phrase=Jon+Chen") -> Answer:
    return client.send("POST", f"/v1/correct?{query}", body)


def correct_json(client: Client, **fields: Any) -> Answer:
    return client.send("POST", "/v1/correct", json.dumps(fields).encode(), Content_Type="application/json")


@pytest.mark.parametrize("name", ["hypotheses/whisper.json", "nbest.json"])
def test_corrections_of_the_server_agree_with_the_command(client: Client, name: str, tmp_path: Path) -> None:
    rows = [{"text": "call jon chan", "score": -1.0}, {"text": "call john", "score": -1.5}]
    content = json.dumps({"key": "utt", "nbest": rows}).encode()
    body = content if name == "nbest.json" else (DATA / name).read_bytes()
    source, output, names = (tmp_path / f"{part}{Path(name).suffix}" for part in ("in", "out", "names"))
    source.write_bytes(body)
    names.with_suffix(".txt").write_text("\n".join(NAMES))
    report = tmp_path / "changes.jsonl"
    options = ["--entities", str(names.with_suffix(".txt")), "--threshold", "0.3", "--letters-only"]
    assert main(["correct", str(source), *options, "-o", str(output), "--report", str(report)]) == 0
    changes = [json.loads(line) for line in report.read_text().splitlines()]
    expected = [(change["before"], change["after"], change["probability"]) for change in changes]

    answer = correct(client, body, "&".join(f"phrase={name.replace(' ', '+')}" for name in NAMES))
    assert answer.status == 200, answer.body
    assert answer.json["transcript"].encode() == output.read_bytes() != body
    assert [(change["before"], change["after"], change["probability"]) for change in answer.json["changes"]] == expected
    if name == "hypotheses/whisper.json":
        document = correct_json(client, transcript=json.loads(body), entities=NAMES).json
        assert document["transcript"] == json.loads(output.read_bytes())
        assert document["changes"] == answer.json["changes"]


def test_corrections_use_server_lists_and_request_classes(client: Client) -> None:
    expected = correct(client, SRT).json
    assert expected["transcript"] == SRT.decode().replace("Chan", "Chen")
    assert correct(client, gzip.compress(SRT), "list=contacts&format=srt").json == expected
    answer = correct_json(client, transcript=SRT.decode(), entities={"@name": [{"text": "Jon Chen"}]}).json
    assert (answer["transcript"], answer["changes"][0]["class"]) == (expected["transcript"], "@name")
    refusal = correct(client, SRT, "list=other")
    assert (refusal.status, refusal.json["detail"]) == (422, "there is no phrase list 'other'; available: contacts")


def test_corrections_of_json_lines_leave_other_fields_unchanged(client: Client) -> None:
    rows = [{"key": f"utt{number}", "nbest": [{"text": text, "score": -1.0, "other": [number]}]}
            for number, text in enumerate(["call jon chan", "no name", "jon chan"])]  # fmt: skip
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    answer = correct(client, lines.encode())
    hypotheses = [json.loads(line)["nbest"][0] for line in answer.json["transcript"].splitlines()]
    assert [(hypothesis["text"], hypothesis["other"]) for hypothesis in hypotheses] == [
        ("call Jon Chen", [0]), ("no name", [1]), ("Jon Chen", [2])
    ]  # fmt: skip
    assert [change["utt"] for change in answer.json["changes"]] == ["utt0", "utt2"]


def test_corrections_above_a_limit_are_refused_with_advice(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    phrases = "&".join(f"phrase=x{number}" for number in range(11))
    subtitles = "1\n00:00:00,100 --> 00:00:01,000\n" + "a " * 401
    refusals = [
        correct(client, b"x" * 20_001),
        correct(client, gzip.compress(SRT + b"\n" * 20_000)),
        correct(client, SRT, phrases),
        correct(client, subtitles.encode()),
    ]
    monkeypatch.setattr(corrections_module, "MAX_WORDS", 3)
    refusals.append(correct(client, SRT))
    assert [(answer.status, answer.json["detail"]) for answer in refusals] == [
        (413, "the body has more than 20000 bytes; divide the transcript"),
        (413, "the body unpacks to more than 20000 bytes; divide the transcript"),
        (413, "the request has 11 phrases; at most 10 are allowed"),
        (413, "the transcript has 401 words, but at most 400 are allowed; divide it"),
        (413, "an utterance has 4 words, but at most 3 are allowed; divide it into segments"),
    ]


def test_a_correction_above_the_time_limit_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    from threading import Event

    gate = Event()

    class SlowCorrector:
        num_calls = 0

        def changes(self, *arguments: Any) -> list[Any]:
            self.num_calls += 1
            assert gate.wait(60)
            return []

    models, corrector = scorer(), SlowCorrector()
    monkeypatch.setattr(models.corrections, "_corrector", corrector)
    body = json.dumps({"key": "utt", "nbest": [{"text": text, "score": 0} for text in ("a", "b")]}).encode()
    with run_server(models, ServeOptions(max_seconds=0.2)) as client:
        answer = correct(client, body)
        detail = "the transcript was not corrected within 0.2 s; divide it"
        assert (answer.status, answer.json["detail"]) == (504, detail)
        assert client.metric("ninja_requests_in_progress") == 0
        gate.set()
        assert correct(client, SRT).status == 200
    assert corrector.num_calls == 2  # the second hypothesis of the first request is not corrected


@pytest.mark.parametrize(
    ("body", "query", "status", "detail"),
    [
        (SRT, "", 400, "the request contains no phrases; specify entities or lists"),
        (SRT, "phrase=a&n=3", 400, "unknown query parameter 'n'; allowed: format, list, phrase"),
        (b"VERSION=1.0\n", "phrase=a", 422, "the format is slf, but only transcript formats (ninja-words, "),
        (b"utt \n0 1 1 1,2,\n1\n\n", "phrase=a", 422, "the format is text, but only transcript formats ("),
        (b'{"segments": [{"text": 3, "id": 1, "start": 0}]}', "phrase=a", 422, "body"),
        (SRT, "phrase=a&format=parquet", 422, "'parquet' is not a format for requests; choose one of ninja-words, "),
        (
            SRT,
            "phrase=a&format=transcripts:keys=none",
            422,
            "'transcripts:keys=none' is not a format for requests; choose one of ninja-words, ",
        ),
    ],
)
def test_invalid_correction_requests_are_refused_with_a_reason(
    client: Client, body: bytes, query: str, status: int, detail: str
) -> None:
    answer = correct(client, body, query)
    assert (answer.status, answer.headers["content-type"]) == (status, "application/problem+json"), answer.body
    assert answer.json["detail"].startswith(detail)


@pytest.mark.parametrize(
    ("fields", "detail"),
    [
        ({"entities": ["a"]}, "transcript is missing; it must be text, an object or a list"),
        ({"transcript": 3}, "transcript is 3; it must be text, an object or a list"),
        ({"transcript": {}, "n": 3}, "unknown field 'n'; allowed fields: transcript, format, entities, lists"),
        ({"transcript": {}, "entities": {"file": ["secret.txt"]}},
         "entities contains 'file', which is neither a class (@…, $…, <…>) nor 'phrases'"),
    ],
)  # fmt: skip
def test_errors_of_malformed_corrections_name_the_field(client: Client, fields: dict, detail: str) -> None:
    answer = correct_json(client, **fields)
    assert (answer.status, answer.json["detail"]) == (400, detail)


def test_a_number_above_the_largest_float_is_refused(client: Client) -> None:
    body = b'{"transcript": {"segments": [{"text": "a", "x": 1e999}]}, "entities": {"@a": ["b"]}}'
    answer = client.send("POST", "/v1/correct", body, Content_Type="application/json")
    assert (answer.status, answer.json["detail"]) == (400, "transcript contains a number that is too large")


def test_correcting_a_transcript_opens_no_file(client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "-").write_bytes(SRT)  # "-" also denotes standard input
    streams: list[Any] = []
    monkeypatch.setattr("ninja.formats.hypotheses.document.open_stream", streams.append)
    body = b"u1 call jon chan\nu2 -\n"
    answer = correct(client, body, "phrase=Jon+Chen&format=transcripts")
    assert answer.json["transcript"] == "u1 call Jon Chen\nu2 -\n"
    assert (streams, [path.name for path in tmp_path.iterdir()]) == ([], ["-"])


def test_corrections_are_counted_and_require_the_token(client: Client) -> None:
    before = client.metric("ninja_corrections_total")
    assert len(correct(client, SRT).json["changes"]) == 1
    assert client.metric("ninja_corrections_total") == before + 1
    with run_server(scorer(), token="0123456789abcdef") as protected_client:
        assert correct(protected_client, SRT).status == 401


def test_caches_of_transcript_words_are_bounded(
    client: Client, models: Scorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ninja.context.sound import pronunciation

    monkeypatch.setattr(pronunciation, "MAX_CACHED", 5)
    pronouncer = pronunciation.Pronouncer({"a": ["AH"]}, lambda word: [(word,)])
    words = [f"w{number}" for number in range(20)]
    assert [pronouncer.of(word) for word in words] == [((word,),) for word in words]
    assert len(pronouncer._cache) <= 5
    assert len(correct(client, SRT).json["changes"]) == 1
    assert models.corrections._corrector is not None
    surprise = models.corrections._corrector._surprise
    size = len(surprise._unigram)
    assert {surprise.word(word) for word in words} == {surprise.word("zqxv")}
    assert len(surprise._unigram) == size


def test_a_disconnected_correction_client_frees_its_slot(client: Client) -> None:
    with socket.create_connection(("127.0.0.1", client.port), timeout=60) as connection:
        head = f"POST /v1/correct?phrase=a HTTP/1.1\r\nHost: x\r\nContent-Length: {len(SRT)}\r\n\r\n"
        connection.sendall(head.encode() + SRT)
    client.wait_for("ninja_requests_in_progress", 0)


def test_the_openapi_document_describes_corrections(client: Client) -> None:
    document = client.get("/openapi.json").json
    schemas = document["components"]["schemas"]
    operation = document["paths"]["/v1/correct"]["post"]
    answer = correct_json(client, **operation["requestBody"]["content"]["application/json"]["example"])
    assert answer.status == 200
    assert set(answer.json) == set(schemas["CorrectionAnswer"]["properties"])
    (change,) = answer.json["changes"]
    assert set(change) == set(schemas["CorrectionAnswer"]["properties"]["changes"]["items"]["properties"])
    assert correct_json(client, **dict.fromkeys(schemas["CorrectionRequest"]["properties"], "x")).status == 400
