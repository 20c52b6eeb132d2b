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


class Socket:
    """A WebSocket client; `code` is the close code of the server."""

    def __init__(self, connection: socket.socket, host: str, headers: dict[str, str]) -> None:
        from wsproto import ConnectionType, WSConnection, events

        self._events = events
        self._socket = connection
        self._state = WSConnection(ConnectionType.CLIENT)
        self._received: list[Any] = []
        self.code: int | None = None
        pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
        self._socket.sendall(self._state.send(events.Request(host, "/v1/stream", extra_headers=pairs)))
        first = self._next()
        self.refusal: Answer | None = None
        if isinstance(first, events.RejectConnection):
            body = b""
            while isinstance(part := self._next(), events.RejectData):
                body += bytes(part.data)
                if part.body_finished:
                    break
            self.refusal = Answer(
                first.status_code, {key.decode(): value.decode() for key, value in first.headers}, body
            )

    def _next(self) -> Any:
        """Return the next event; None at the end of the connection."""
        while not self._received:
            content = self._socket.recv(1 << 16)
            self._state.receive_data(content or None)
            self._received += self._state.events()
            if not content and not self._received:
                return None
        return self._received.pop(0)

    def send(self, content: dict[str, Any] | str | bytes) -> None:
        content = json.dumps(content) if isinstance(content, dict) else content
        kind = self._events.TextMessage if isinstance(content, str) else self._events.BytesMessage
        self._socket.sendall(self._state.send(kind(content)))

    def receive(self) -> Any:
        """Return the next message as a JSON value; None if the server has closed the session."""
        text = ""
        while (event := self._next()) is not None:
            if isinstance(event, self._events.TextMessage):
                text += event.data
                if event.message_finished:
                    return json.loads(text)
            elif isinstance(event, self._events.CloseConnection):
                self.code = event.code
                self._socket.sendall(self._state.send(event.response()))
                return None
        return None

    def ask(self, content: dict[str, Any] | str | bytes) -> Any:
        self.send(content)
        return self.receive()

    def close(self) -> None:
        self._socket.close()


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

    def stream(self, **headers: str) -> Socket:
        """Open a streaming session."""
        return Socket(self.connect(), f"127.0.0.1:{self.port}", self.headers | headers)

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
def run_server(scorer: Scorer, options: ServeOptions = ServeOptions(), token: str | None = None) -> Iterator[Client]:
    """Serve in a thread; at the end, requests in progress are answered and the thread has ended."""
    uvicorn = pytest.importorskip("uvicorn", reason="the extra ninja-asr[serve] is not installed")
    server = uvicorn.Server(configuration(application(scorer, options, token=token), Listener(port=0), options))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=server.run, args=([listener],), name="test-server")
        thread.start()
        try:
            until = time.monotonic() + 60
            while not server.started:
                assert thread.is_alive()
                assert time.monotonic() < until
                time.sleep(0.005)
            yield Client(listener.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join(60)
            assert not thread.is_alive()


def file_of(lattice: Lattice, format: str = "slf") -> bytes:
    """Return the content of a file with a lattice."""
    return write_lattice(lattice, output_format(format), Scales(), 100)
