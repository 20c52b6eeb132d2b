"""Completions endpoints: the scores equal those of the Hugging Face model, and a fault never yields a score."""

import os
import sqlite3
from dataclasses import replace

import numpy as np
import pytest
from lattice_files import write_all
from rescoring_cases import EXACT, random_lattice

from ninja.errors import ModelError, OptionError
from ninja.lattice.symbols import SymbolTable
from ninja.lm import EndpointOptions, Mixture, load
from ninja.lm.endpoint import client as client_module
from ninja.lm.endpoint.client import EndpointError
from ninja.lm.trie import score_by_levels
from ninja.rescoring import Prompts, rescore

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers", reason="Hugging Face's transformers is not installed: ninja-asr[hf]")

from completions_server import KEY, Fault, run_server  # noqa: E402
from tiny_hf import folder, load_model, make_trie, one_quiet_thread  # noqa: E402, F401

FORMS = ("vllm", "echo", "llama.cpp")
EOS = {"gpt2": "<|endoftext|>", "llama": "</s>"}
BOS = {"gpt2": None, "llama": "<s>"}
NAMED = SymbolTable.from_words(["<eps>", "the", "cat", "sat", "catalogue", "saturated", "theatre", "he", "mats"])
SMALL = [(f"utt{i}", replace(random_lattice(i, 6, 1), key=f"utt{i}", words=NAMED)) for i in range(2)]


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(client_module, "FIRST_PAUSE", 0.001)
    monkeypatch.delenv(client_module.KEY_VARIABLE, raising=False)


def options(kind="gpt2", **values):
    return EndpointOptions(eos=EOS[kind], bos=BOS[kind], **{"timeout": 5.0, "retries": 1} | values)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_scores_equal_those_of_the_hugging_face_model(form, kind):
    local = load_model(kind)
    parent, word = make_trie(local, 30)
    with run_server(form, kind) as server:
        lm = load(server.url, endpoint=options(kind, batch=4))
        ids = np.array(lm.vocabulary.ids(local.vocabulary.word(number) for number in word.tolist()), np.int32)
        expected = local.score_trie(parent, word)
        np.testing.assert_allclose(lm.score_trie(parent, ids), expected, atol=1e-3)
        np.testing.assert_allclose(score_by_levels(lm, parent, ids), expected, atol=1e-3)
        assert lm.num_slots == 0
        assert expected.std() > 1


@pytest.mark.parametrize(
    ("form", "algorithm"),
    [("vllm", "nbest"), ("vllm", "trie"), ("vllm", "arcbeam"), ("echo", "nbest"), ("llama.cpp", "trie")],
)
def test_rescoring_agrees_with_the_local_hugging_face_model(form, algorithm):
    rescore_options = replace(EXACT, algorithm=algorithm, unk_penalty=None)
    prompts = Prompts("the dog saw")
    with run_server(form) as server:
        server_results = rescore(SMALL, load(server.url, endpoint=options()), rescore_options, prompts=prompts)
        local_results = rescore(SMALL, load_model("gpt2"), rescore_options, prompts=prompts)
        for (_, server_lattice), (_, local_lattice) in zip(server_results, local_results, strict=True):
            assert server_lattice.word.tolist() == local_lattice.word.tolist()
            np.testing.assert_allclose(server_lattice.graph, local_lattice.graph, atol=1e-3)
            np.testing.assert_allclose(server_lattice.final_graph, local_lattice.final_graph, atol=1e-3)


def test_vllm_gets_batches_of_whole_sentences_and_llama_cpp_one_history_per_request():
    parent = np.array([-1, 0, 1, 1, 0, 4], np.int32)
    with run_server("vllm") as server:
        lm = load(server.url, endpoint=options(batch=2))
        word = np.array(
            [*lm.vocabulary.ids(["the", "cat", "sat"]), lm.eos, *lm.vocabulary.ids(["dog"]), lm.eos], np.int32
        )
        lm.score_trie(parent, word)
        sizes = [len(body["prompt"]) for path, body in server.requests if path == "/v1/completions"]
        assert sorted(sizes) == [1, 2]  # the cat sat; the cat </s>; the dog </s>
    with run_server("llama.cpp") as server:
        lm = load(server.url, endpoint=options())
        pieces = [len(lm._spelling.text(text)) for text in ("the", " cat", " dog")]
        lm.vocabulary.ids(["the", "cat", "sat", "dog"])
        lm.score_trie(parent, word)
        extra = len(lm._spelling.text(" sat")) - 1
        assert server.count("/completion") == 1 + sum(pieces) + extra


def test_a_mixture_with_a_local_model_scores_with_both():
    with run_server("vllm") as server:
        server_lm, local_lm = load(server.url, endpoint=options()), load_model("gpt2")
        rescore_options = replace(EXACT, algorithm="nbest")
        mixture_results = dict(rescore(SMALL, Mixture([(server_lm, 0.5), (local_lm, 0.5)]), rescore_options))
        local_results = dict(rescore(SMALL, local_lm, rescore_options))
        for key, lattice in mixture_results.items():
            np.testing.assert_allclose(lattice.graph, local_results[key].graph, atol=1e-3)


def test_commands_accept_the_url_of_a_server_as_a_model(ninja, tmp_path):
    write_all(tmp_path / "lat.ark", [lattice for _, lattice in SMALL])
    (tmp_path / "words.txt").write_text("".join(f"{word} {number}\n" for word, number in NAMED))
    (tmp_path / "text").write_text("k the cat sat\n")
    rescoring = ["rescore", tmp_path / "lat.ark", "--max-unknown", 1, "--algorithm", "nbest", "--rnnlm", "none"]
    eos_options = ["--endpoint-eos", EOS["gpt2"]]
    with run_server("vllm") as server:
        server_run = ninja("lm", "score", server.url, tmp_path / "text", *eos_options)
        code, _, errors = ninja(*rescoring, "--old-lm", server.url, *eos_options, "-o", tmp_path / "out.ark")
        assert "completions endpoint" in ninja("lm", "info", server.url, *eos_options)[1]
        tuning = ["tune", tmp_path / "lat.ark", "--ref", tmp_path / "ref", "--max-unknown", 1, "--rnnlm", server.url]
        (tmp_path / "ref").write_text("utt0 the cat\nutt1 sat\n")
        tuning_run = ninja(*tuning, *eos_options, "-o", tmp_path / "weights.toml")
        server_options = ["--config", tmp_path / "weights.toml", "--rnnlm", server.url, *eos_options]
        assert ninja("rescore", tmp_path / "lat.ark", *server_options, "-o", tmp_path / "tuned.ark")[0] == 0, (
            tuning_run[2]
        )
    assert f"allowed only on the command line; add --rnnlm {server.url}" in tuning_run[2]
    assert (code, server_run[0]) == (0, 0), errors + server_run[2]
    local_run = ninja("lm", "score", folder("gpt2"), tmp_path / "text")
    scores = [[float(score) for score in output.split()[1:]] for _, output, _ in (server_run, local_run)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-3)


# Faults

TRIE = (np.array([-1, 0, 1], np.int32), ["the", "cat", "</s>"])


def trie_scores(lm):
    return lm.score_trie(TRIE[0], np.array(lm.vocabulary.ids(TRIE[1]), np.int32))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("slow", "no response within 0.3 seconds"),
        ("refused", "without response|reset|closed"),
        ("truncated", "the response is not JSON"),
        ("cut off", "the response is not JSON|IncompleteRead"),
        ("overloaded", "status 503: try later"),
        ("changed", "log-probabilities for|prompt_logprobs for"),
        ('{"choices": []}', "unexpected response"),
        ('{"choices": [{"index": 0, "prompt_logprobs": [null, {"1": {"logprob": NaN}}]}]}', "unexpected response"),
    ],
)
def test_a_server_fault_raises_an_error_after_all_attempts(form, kind, message):
    with run_server(form) as server:
        lm = load(server.url, endpoint=options(timeout=0.3 if kind == "slow" else 5.0))
        expected = trie_scores(lm)
        path = "/completion" if form == "llama.cpp" else "/completions"
        server.fault = Fault(path, kind)
        with pytest.raises(EndpointError, match=f"(?s)^http://127.0.0.1:.*({message}).*gave up after 2 attempts"):
            trie_scores(lm)
        server.fault = Fault(path, kind, 1)  # the request succeeds when it is repeated
        np.testing.assert_allclose(trie_scores(lm), expected, atol=1e-6)


def test_a_run_whose_server_fails_ends_with_an_error():
    with run_server("vllm") as server:
        lm = load(server.url, endpoint=options(retries=0))
        server.fault = Fault("/completions", "truncated")
        with pytest.raises(EndpointError, match="the response is not JSON"):
            list(rescore(SMALL, lm, replace(EXACT, algorithm="nbest")))


@pytest.mark.parametrize("response", ['{"tokens": ["a"]}', '{"tokens": [1, 2], "count": 3}', '{"tokens": 7}', "{}"])
def test_faulty_tokens_are_refused(response):
    with run_server("vllm") as server:
        lm = load(server.url, endpoint=options())
        server.fault = Fault("/tokenize", response)
        with pytest.raises(EndpointError, match="/tokenize: unexpected response"):
            trie_scores(lm)


def test_a_permanent_error_status_is_not_retried():
    with run_server("vllm") as server:
        lm = load(server.url, endpoint=options(retries=5))
        server.fault = Fault("/completions", "forbidden")
        num_requests = server.count("/completions")
        with pytest.raises(EndpointError, match="status 401 Unauthorized: wrong key"):
            trie_scores(lm)
        assert server.count("/completions") == num_requests + 1


def test_probability_zero_is_accepted_and_invalid_values_are_refused():
    with run_server("vllm") as server:
        lm = load(server.url, endpoint=options())
        scores = lm._pieces._server.scores([(0, 5)])
        response = {"choices": [{"index": 0, "prompt_logprobs": [None, {"5": {"logprob": -9999.0}}]}]}
        import json

        server.fault = Fault("/completions", json.dumps(response))
        assert lm._pieces._server.scores([(0, 5)]) == {(0, 5): -np.inf} != scores
        token_entry = response["choices"][0]["prompt_logprobs"][1]["5"]
        for value in (float("nan"), 0.5, "-1", True, None):
            token_entry["logprob"] = value
            server.fault = Fault("/completions", json.dumps(response))
            with pytest.raises(EndpointError, match="is not a log-probability"):
                lm._pieces._server.scores([(0, 5)])


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ({"max_requests": 8}, "after 8 requests, the next request would exceed the limit endpoint_max_requests of 8"),
        ({"max_tokens": 12}, r"after \d+ tokens, the next request would exceed the limit endpoint_max_tokens of 12"),
        ({"max_seconds": 1e-9}, "the limit endpoint_max_seconds of 1e-09 is reached"),
    ],
)
def test_limits_end_the_run(limit, message):
    with run_server("vllm") as server:
        with pytest.raises(EndpointError, match=message):
            list(
                rescore(SMALL, load(server.url, endpoint=options(**limit, batch=1)), replace(EXACT, algorithm="nbest"))
            )
        assert server.count("/completions") <= 8


def test_the_score_cache_is_reused_by_later_runs(tmp_path):
    cache = str(tmp_path / "scores.sqlite")
    rescore_options = replace(EXACT, algorithm="trie")
    with run_server("vllm") as server:
        results = dict(rescore(SMALL, load(server.url, endpoint=options(cache=cache)), rescore_options))
        server.requests.clear()
        cached_results = dict(rescore(SMALL, load(server.url, endpoint=options(cache=cache)), rescore_options))
        assert server.count("/completions") == 0
        assert all(lattice.identical(cached_results[key]) for key, lattice in results.items())
        # A failed run stores the scores that it received.
        partial_cache = str(tmp_path / "other.sqlite")
        with pytest.raises(EndpointError):
            list(
                rescore(
                    SMALL,
                    load(server.url, endpoint=options(cache=partial_cache, max_requests=30, batch=1)),
                    rescore_options,
                )
            )
        with sqlite3.connect(partial_cache) as file:
            assert file.execute("SELECT count(*) FROM token").fetchone()[0] > 0
    (tmp_path / "text").write_text("not a cache of scores, but a text\n" * 100)
    with run_server("vllm") as server, pytest.raises(ModelError, match="not a score cache"):
        load(server.url, endpoint=options(cache=str(tmp_path / "text")))
    assert (tmp_path / "text").read_text().startswith("not a cache")


# Connections


def test_only_the_host_of_the_url_is_contacted(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    with run_server("vllm") as server:
        lm = load(server.url, endpoint=options())
        trie_scores(lm)
        server.fault = Fault("/completions", "moved")
        with pytest.raises(EndpointError, match="status 302 Found"):
            trie_scores(lm)


def test_the_api_key_comes_only_from_the_environment(monkeypatch):
    monkeypatch.setenv(client_module.KEY_VARIABLE, KEY)
    with run_server("vllm") as server:
        load(server.url, endpoint=options())
        assert server.keys == {f"Bearer {KEY}"}
        for url in (server.url.replace("//", "//user:word@"), f"{server.url}?key=word", "http://:80/v1/completions"):
            with pytest.raises(OptionError, match="not the URL of a server") as error:
                load(url, endpoint=options())
            assert "word" not in str(error.value)


def test_options_that_do_not_fit_the_server_are_refused():
    with run_server("vllm") as server:
        for values, message in (
            ({"eos": None}, "the server does not report the end-of-text token; set endpoint_eos"),
            ({"eos": "the cat"}, "endpoint_eos is 'the cat', which consists of 2 tokens"),
            ({"model": "large"}, "the server has no model 'large'; set endpoint_model to one of tiny"),
        ):
            with pytest.raises(OptionError, match=message):
                load(server.url, endpoint=EndpointOptions(**{"eos": EOS["gpt2"]} | values))
        with pytest.raises(OptionError, match=r"the path of the URL must end in /v1/completions"):
            load(server.url.replace("/completions", ""), endpoint=options())
        lm = load(server.url, endpoint=options())
        with pytest.raises(ModelError, match="has 65 tokens, but the server's model accepts at most 63"):
            lm._pieces.score_trie(np.arange(-1, 63, dtype=np.int32), np.full(64, 5, np.int32))
    with pytest.raises(EndpointError, match="refused"):
        load("http://127.0.0.1:9/v1/completions", endpoint=options(retries=0))
    with pytest.raises(OptionError, match="endpoint_batch is 0"):
        EndpointOptions(batch=0)


def test_the_command_rescores_with_a_server(tmp_path, capsys):
    from ninja.cli.main import main

    lists = tmp_path / "lists.jsonl"
    lists.write_text(
        '{"key": "u1", "nbest": [{"text": "the cat sat", "score": -1}, {"text": "the mat sat", "score": -2}]}\n'
    )
    common = ["rescore", str(lists), "--acoustic-scale", "1"]
    with run_server("vllm") as server:
        arguments = ["--endpoint-eos", EOS["gpt2"], "--endpoint-cache", str(tmp_path / "cache")]
        assert main([*common, "--rnnlm", server.url, *arguments, "-o", str(tmp_path / "served.jsonl")]) == 0
        assert main([*common, "--rnnlm", str(folder("gpt2")), "-o", str(tmp_path / "local.jsonl")]) == 0
        import json

        server_entry, local_entry = (
            json.loads((tmp_path / name).read_text()) for name in ("served.jsonl", "local.jsonl")
        )
        assert [row["text"] for row in server_entry["nbest"]] == [row["text"] for row in local_entry["nbest"]]
        capsys.readouterr()
        # A configuration file may set neither a server nor an output file.
        for text in (f'rnnlm = "{server.url}"\n', 'endpoint_cache = "scores"\n'):
            (tmp_path / "options.toml").write_text(text)
            server.requests.clear()
            assert main([*common, "--config", str(tmp_path / "options.toml"), "-o", str(tmp_path / "x.jsonl")]) == 2
            assert "on the command line" in capsys.readouterr().err
            assert not server.requests
    assert os.path.exists(tmp_path / "cache")


def test_a_key_with_a_line_break_is_refused_and_not_printed(monkeypatch):
    monkeypatch.setenv(client_module.KEY_VARIABLE, "sk-secret\nX: y")
    with pytest.raises(OptionError, match="set it to the key only") as caught:
        load("http://127.0.0.1:9/v1/completions", endpoint=options())
    assert "secret" not in str(caught.value)


def test_an_invalid_host_is_refused():
    with pytest.raises(OptionError, match="Invalid IPv6"):
        load("http://[x/v1/completions", endpoint=options())


@pytest.mark.parametrize("model", [{}, {"meta": None}, {"meta": {"n_vocab": "many"}}])
def test_llama_cpp_without_the_size_of_its_vocabulary_is_refused(model, monkeypatch):
    monkeypatch.setattr("ninja.lm.endpoint.servers.LlamaCpp._models", lambda _: model)
    with run_server("llama.cpp") as server, pytest.raises(EndpointError, match="n_vocab"):
        load(server.url, endpoint=options())
