"""A completions endpoint on the loopback interface: a tiny causal model that answers as vLLM or llama.cpp does."""

from __future__ import annotations

import functools
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import torch
import transformers
from tiny_hf import folder

KEY = "secret"


class Model:
    """A model of transformers with its tokens and scores."""

    def __init__(self, kind: str) -> None:
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder(kind))
        self.network = transformers.AutoModelForCausalLM.from_pretrained(folder(kind)).eval()
        self.lock = threading.Lock()

    def logprobs(self, tokens: list[int]) -> torch.Tensor:
        with self.lock, torch.no_grad():
            return self.network(torch.tensor([tokens])).logits[0].double().log_softmax(-1)


model_of = functools.cache(Model)  # servers share the models


class Fault:
    """A fault of the server: it answers the first `times` requests to `path` with a response of this kind."""

    def __init__(self, path: str = "", kind: str = "", times: int = 10**9) -> None:
        self.path, self.kind, self.times = path, kind, times


class Server(ThreadingHTTPServer):
    daemon_threads = False  # a thread that runs torch when Python exits would abort the process

    def __init__(self, kind: str, form: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.model, self.form = model_of(kind), form
        self.fault = Fault()
        self.requests: list[tuple[str, Any]] = []
        self.connections: list[socket.socket] = []
        self.keys: set[str | None] = set()
        path = "/completion" if form == "llama.cpp" else "/v1/completions"
        self.url = f"http://127.0.0.1:{self.server_port}{path}"

    def get_request(self) -> Any:
        connection, address = super().get_request()
        self.connections.append(connection)
        return connection, address

    def server_close(self) -> None:
        for connection in self.connections:
            with suppress(OSError):  # closed by the handler
                connection.shutdown(socket.SHUT_RDWR)
        super().server_close()  # waits for the handlers

    def count(self, path: str) -> int:
        return sum(name.endswith(path) for name, _ in self.requests)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = (
        True  # headers and body are sent separately; the body would wait 40 ms for an acknowledgement
    )
    server: Server

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.answer(None)

    def do_POST(self) -> None:
        self.answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def answer(self, body: Any) -> None:
        server, fault = self.server, self.server.fault
        server.requests.append((self.path, body))
        server.keys.add(self.headers.get("Authorization"))
        document = {
            "/v1/models": self.models, "/tokenize": self.tokenize, "/props": self.props,
            "/v1/completions": self.completions, "/completion": self.completion,
        }[self.path](body)  # fmt: skip
        content, status, headers = json.dumps(document).encode(), 200, {}
        if fault.times > 0 and fault.path and self.path.endswith(fault.path):
            fault.times -= 1
            content, status, headers = self.faulty(fault.kind, document, content)
        if status == 0:
            self.close_connection = True
            return
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content) + (100 if fault.kind == "cut off" and headers else 0)))
        self.end_headers()
        self.wfile.write(content)
        if fault.kind == "cut off" and headers:
            self.close_connection = True

    def faulty(self, kind: str, document: Any, content: bytes) -> tuple[bytes, int, dict[str, str]]:
        if kind == "slow":
            time.sleep(0.6)
        elif kind == "refused":
            return b"", 0, {}
        elif kind == "truncated":
            return content[: len(content) // 2], 200, {}
        elif kind == "cut off":
            return content[: len(content) // 2], 200, {"X-Cut": "1"}
        elif kind == "overloaded":
            return b'{"error": {"message": "try later"}}', 503, {}
        elif kind == "forbidden":
            return b'{"error": {"message": "wrong key"}}', 401, {}
        elif kind == "moved":
            return b"", 302, {"Location": "http://127.0.0.1:9/elsewhere"}
        elif kind == "changed":
            document = CHANGES[self.server.form](document)
            return json.dumps(document).encode(), 200, {}
        elif kind.startswith("{"):
            return kind.encode(), 200, {}
        return content, 200, {}

    def models(self, _: Any) -> Any:
        described: dict[str, Any] = {"id": "tiny"}
        if self.server.form == "llama.cpp":
            described["meta"] = {"n_vocab": len(self.server.model.tokenizer)}
        else:
            described["max_model_len"] = 64
        return {"object": "list", "data": [described]}

    def props(self, _: Any) -> Any:
        tokenizer = self.server.model.tokenizer
        return {
            "bos_token": tokenizer.bos_token, "eos_token": tokenizer.eos_token,
            "default_generation_settings": {"n_ctx": 64},
        }  # fmt: skip

    def tokenize(self, body: Any) -> Any:
        text = body["content" if self.server.form == "llama.cpp" else "prompt"]
        tokens = self.server.model.tokenizer(text, add_special_tokens=False)["input_ids"]
        return {"tokens": tokens} | (
            {} if self.server.form == "llama.cpp" else {"count": len(tokens), "max_model_len": 64}
        )

    def completions(self, body: Any) -> Any:
        choices = []
        for index, tokens in enumerate(body["prompt"]):
            scores = self.server.model.logprobs(tokens)
            values = [float(scores[place, token]) for place, token in enumerate(tokens[1:])]
            choice: dict[str, Any] = {"index": index, "text": "…"}
            if self.server.form == "vllm":
                entries = [
                    {str(token): {"logprob": value, "rank": 1}} for token, value in zip(tokens[1:], values, strict=True)
                ]
                choice["prompt_logprobs"] = [None, *entries]
            else:  # "echo" with "logprobs"; one token is generated
                choice["logprobs"] = {"token_logprobs": [None, *values, -1.0], "tokens": ["…"] * (len(tokens) + 1)}
            choices.append(choice)
        return {"choices": choices[::-1], "usage": {"prompt_tokens": sum(map(len, body["prompt"]))}}

    def completion(self, body: Any) -> Any:
        scores = self.server.model.logprobs(body["prompt"])[-1]
        top = scores.argsort(descending=True)[: body["n_probs"]].tolist()
        candidates = [{"id": token, "token": "…", "logprob": float(scores[token])} for token in top]
        return {
            "content": "…", "tokens_evaluated": len(body["prompt"]), "truncated": False,
            "completion_probabilities": [candidates[0] | {"top_logprobs": candidates}],
        }  # fmt: skip


def _without_last(document: Any) -> Any:
    document["choices"][0]["prompt_logprobs"].pop()
    return document


def _half(document: Any) -> Any:
    candidates = document["completion_probabilities"][0]["top_logprobs"]
    document["completion_probabilities"][0]["top_logprobs"] = candidates[: len(candidates) // 2]
    return document


def _generated_only(document: Any) -> Any:
    for choice in document["choices"]:
        choice["logprobs"] = {"token_logprobs": [-1.0], "tokens": ["…"]}
    return document


CHANGES = {"vllm": _without_last, "echo": _generated_only, "llama.cpp": _half}  # wrong numbers of tokens


@contextmanager
def run_server(form: str, kind: str = "gpt2") -> Iterator[Server]:
    """Run a server whose answers have a form: vllm, echo or llama.cpp."""
    server = Server(kind, form)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
