"""Random and damaged requests: the server answers every one of them without an internal error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from fake_lm import FakeLM, symbols
from hypothesis import given, settings
from hypothesis import strategies as st
from rescoring_cases import random_lattice
from served import Client, file_of, run_server

from ninja.context import Context, Entities
from ninja.context.correction.options import CorrectOptions
from ninja.rescoring import RescoreOptions
from ninja.serve.requests import DESCRIPTIONS
from ninja.serve.scorer import Scorer

pytest.importorskip("starlette", reason="the extra ninja-asr[serve] is not installed")
BODIES = [
    file_of(random_lattice(seed, 6), format) for seed, format in enumerate(("slf", "text", "binary", "json", "pfsg"))
]
NAMES = st.sampled_from([*DESCRIPTIONS, "list", "phrase", "other"])
TEXTS = st.text(max_size=8) | st.sampled_from(["slf", "json", "text", "ctm", "k2", "@name", "w1", "utt"])
NUMBERS = st.integers() | st.floats()
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["text", "score", "words", "word", "start", "@name"]) | TEXTS, inner)
    ),
    max_leaves=8,
)
HYPOTHESES = st.lists(
    st.fixed_dictionaries({"text": TEXTS}, optional={"score": NUMBERS, "words": VALUES}),
    max_size=4,
)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    options = RescoreOptions(unk_penalty=1.0)
    context, correct_options = Context(Entities.from_dict({})), CorrectOptions(letters_only=True)
    scorer = Scorer(FakeLM(), options, words=symbols(), context=context, correct_options=correct_options)
    with run_server(scorer) as http_client:
        yield http_client


def check_answer(status: int, document: bytes, media_type: str) -> None:
    assert status in (200, 400, 413, 422), document
    if status != 200:
        assert media_type == "application/problem+json"
        assert json.loads(document)["status"] == status


@settings(max_examples=10)
@given(fields=st.dictionaries(NAMES, VALUES, max_size=4), nbest=st.none() | HYPOTHESES)
def test_any_json_object_receives_a_valid_response(
    client: Client, fields: dict[str, Any], nbest: list[Any] | None
) -> None:
    lattice = fields if nbest is None else {"key": "utt", **fields, "nbest": nbest}
    transcript = {"transcript": fields if nbest is None else {"nbest": nbest}, "entities": ["w1 w2"]}
    for path, content in (("rescore", lattice), ("correct", transcript)):
        answer = client.send("POST", f"/v1/{path}", json.dumps(content).encode(), Content_Type="application/json")
        check_answer(answer.status, answer.body, answer.headers["content-type"])


@settings(max_examples=12)
@given(
    body=st.sampled_from(BODIES),
    changes=st.lists(st.tuples(st.integers(0, 4000), st.binary(max_size=6)), max_size=4),
    end=st.none() | st.integers(0, 4000),
    query=st.lists(st.tuples(NAMES, TEXTS), max_size=2),
)
def test_damaged_lattices_receive_a_valid_response(
    client: Client, body: bytes, changes: list[tuple[int, bytes]], end: int | None, query: list[tuple[str, str]]
) -> None:
    for offset, content in changes:
        offset %= len(body)
        body = body[:offset] + content + body[offset + len(content) :]
    answer = client.rescore(body[:end], urlencode(query, errors="surrogatepass"))
    check_answer(answer.status, answer.body, answer.headers["content-type"])
