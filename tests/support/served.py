"""A server in a thread of the test, and a client that sends arbitrary requests."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from ninja.lattice import Lattice, Scales
from ninja.serve import application
from ninja.serve.lattices import output_format, write_lattice
from ninja.serve.options import ServeOptions
from ninja.serve.scorer import Scorer
from ninja.serve.server import Listener, configuration


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.json["nbest"][0]["text"]


@dataclass
class Client:
    port: int
    headers: dict[str, str] = field(default_factory=dict)

    def send(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            headers = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, self.headers | headers)
            response = connection.getresponse()
            fields = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, fields, response.read())
        finally:
            connection.close()

    def get(self, path: str) -> Answer:
        return self.send("GET", path)

    def rescore(self, body: bytes, query: str = "") -> Answer:
        return self.send("POST", f"/v1/rescore?{query}", body)

    def rescore_json(self, **fields: Any) -> Answer:
        return self.send("POST", "/v1/rescore", json.dumps(fields).encode(), Content_Type="application/json")

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)

    def metric(self, name: str) -> float:
        for line in self.get("/metrics").body.decode().splitlines():
            if line.startswith(f"{name} "):
                return float(line.split()[1])
        raise AssertionError(f"there is no {name}")

    def wait_for(self, name: str, value: float) -> None:
        """Wait until a metric has a value."""
        until = time.monotonic() + 60
        while self.metric(name) != value:
            assert time.monotonic() < until, f"{name} is {self.metric(name)}, not {value}"
            time.sleep(0.01)


@contextmanager
def served(scorer: Scorer, options: ServeOptions = ServeOptions(), token: str | None = None) -> Iterator[Client]:
    """Serve in a thread; at the end, requests in progress are answered and the thread has ended."""
    uvicorn = pytest.importorskip("uvicorn", reason="the extra ninja-asr[serve] is not installed")
    server = uvicorn.Server(configuration(application(scorer, options, token=token), Listener(port=0), options))
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=server.run, args=([bound],), name="test-server")
        thread.start()
        try:
            until = time.monotonic() + 60
            while not server.started:
                assert thread.is_alive()
                assert time.monotonic() < until
                time.sleep(0.005)
            yield Client(bound.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join(60)
            assert not thread.is_alive()


def file_of(lattice: Lattice, format: str = "slf") -> bytes:
    """Return the content of a file with a lattice."""
    return write_lattice(lattice, output_format(format), Scales(), 100)
