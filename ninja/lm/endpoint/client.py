"""HTTP client that sends JSON requests to a completions endpoint over a few connections and retries failed requests.

The client uses `http.client` from the standard library, so it adds no dependency. It follows no redirects and uses no
proxies, so it contacts only the host in the URL.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from urllib.parse import urlsplit

from ninja.errors import ModelError, OptionError, counted
from ninja.lm.endpoint.options import KEY_VARIABLE, EndpointOptions

FIRST_PAUSE, LONGEST_PAUSE = 0.25, 30.0  # seconds before a request is repeated; the pause doubles with each failure
MAX_ANSWER = 256 * 2**20  # bytes
REPEATED = frozenset({408, 425, 429, 500, 502, 503, 504})  # HTTP status codes after which a request is repeated
_FAILURES = (OSError, http.client.HTTPException)  # OSError includes timeouts, refused connections and TLS errors

Answer = TypeVar("Answer")


class EndpointError(ModelError):
    """Raised if a server returns no usable scores, or if a limit is reached."""

    of_run = True


class _Unusable(Exception):
    """Raised if a response is unusable but a repeated request may succeed."""


class Client:
    """Client that sends JSON requests to a server and enforces a run's limits on requests, tokens and time."""

    def __init__(self, url: str, options: EndpointOptions) -> None:
        """Store the server's address and the options, without connecting to the server.

        Raises:
            OptionError: The URL is not an HTTP URL with a host and a valid port; the URL contains a user name, a query
                or a fragment; or the key contains invalid characters.
        """
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise OptionError(f"{url}: {error}") from error
        if (
            parts.scheme not in ("http", "https")
            or not parts.hostname
            or parts.username
            or parts.query
            or parts.fragment
        ):
            raise OptionError(
                f"{parts.scheme}://{parts.hostname or ''}{parts.path} is not the URL of a server: specify "
                f"http(s)://HOST:PORT/PATH without user name, query or fragment; the key is read from {KEY_VARIABLE}"
            )
        self.url = url
        self.path = parts.path
        self._host, self._port, self._is_secure = parts.hostname, port, parts.scheme == "https"
        self._options = options
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if key := os.environ.get(KEY_VARIABLE, "").strip():
            if not (key.isascii() and key.isprintable()):  # http.client would show the key in its error
                raise OptionError(
                    f"{KEY_VARIABLE} contains characters that are invalid in HTTP headers; set it to the key only"
                )
            self._headers["Authorization"] = f"Bearer {key}"
        self._local = threading.local()  # a connection per thread
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(options.connections, "endpoint")
        self._seconds = 0.0  # total duration of completed calls to `map`; overlapping calls count once
        self._num_calls = 0  # calls to `map` in progress
        self._started = 0.0  # start of the first call in progress, by `time.monotonic`
        self.num_requests = 0
        self.num_tokens = 0

    def map(self, jobs: Sequence[Callable[[], Answer]]) -> list[Answer]:
        """Call functions in parallel on several connections and return the results in order; raise the first error."""
        with self._lock:
            self._started = self._started if self._num_calls else time.monotonic()
            self._num_calls += 1
        futures = [self._pool.submit(job) for job in jobs]
        try:
            return [future.result() for future in futures]
        finally:
            for future in futures:
                future.cancel()
            with self._lock:
                self._num_calls -= 1
                if not self._num_calls:
                    self._seconds += time.monotonic() - self._started

    def send(
        self, path: str, body: dict[str, Any] | None, read: Callable[[Any], Answer], num_tokens: int = 0
    ) -> Answer:
        """Send a request; if it fails, retry it after increasingly long pauses.

        Args:
            path: Path of the URL.
            body: JSON to send; None for GET.
            read: Function that converts the JSON response; raises ValueError, KeyError, TypeError or IndexError if the
                response is not as expected.
            num_tokens: Number of tokens in the request.

        Raises:
            EndpointError: All attempts failed, the request was refused, or a limit was reached.
        """
        problem = ""
        for attempt in range(self._options.retries + 1):
            if attempt:
                pause = min(FIRST_PAUSE * 2 ** (attempt - 1), LONGEST_PAUSE) * random.uniform(0.5, 1.0)
                self._check_time(pause)
                time.sleep(pause)
            self._count(num_tokens)
            try:
                return read(self._json(path, body))
            except EndpointError:
                raise
            except _Unusable as error:
                problem = str(error)
            except _FAILURES as error:
                self._close()
                problem = str(error) or type(error).__name__
                if isinstance(error, TimeoutError):
                    problem = f"no response within {self._options.timeout:g} seconds"
            except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
                problem = f"unexpected response ({type(error).__name__}: {error})"
        times = counted(self._options.retries + 1, "attempt")
        advice = "check the server, and set endpoint_cache to store scores for later runs"
        raise self.error(f"{problem}; gave up after {times}: {advice}", path)

    def error(self, problem: str, path: str = "") -> EndpointError:
        """Create an error whose message begins with the problem and contains the URL of the request."""
        return EndpointError(problem[:500], self.url if not path else self._at(path))

    def _at(self, path: str) -> str:
        port = "" if self._port is None else f":{self._port}"
        return f"{'https' if self._is_secure else 'http'}://{self._host}{port}{path}"

    def _count(self, num_tokens: int) -> None:
        """Add a request of `num_tokens` tokens to the totals; if they would exceed a limit, raise an error instead."""
        options = self._options
        with self._lock:
            self._check_time(0.0)
            for name, used, more in (
                ("max_requests", self.num_requests, 1),
                ("max_tokens", self.num_tokens, num_tokens),
            ):
                if used + more > getattr(options, name):
                    unit = counted(used, name.removeprefix("max_")[:-1])
                    raise self.error(
                        f"after {unit}, the next request would exceed the limit endpoint_{name} of "
                        f"{getattr(options, name)}; raise the limit, and set endpoint_cache to store scores for later "
                        "runs"
                    )
            self.num_requests += 1
            self.num_tokens += num_tokens

    def _check_time(self, pause: float) -> None:
        waited = self._seconds + (time.monotonic() - self._started if self._num_calls else 0.0)
        if waited + pause > self._options.max_seconds:
            raise self.error(
                f"the limit endpoint_max_seconds of {self._options.max_seconds:g} is reached; raise the limit, and "
                "set endpoint_cache to store scores for later runs"
            )

    def _json(self, path: str, body: dict[str, Any] | None) -> Any:
        connection = self._connection()
        content = None if body is None else json.dumps(body).encode()
        connection.request("GET" if body is None else "POST", path, content, self._headers)
        response = connection.getresponse()
        until = time.monotonic() + self._options.timeout
        answer = bytearray()
        while len(answer) <= MAX_ANSWER and (part := response.read1(1 << 16)):
            answer += part
            if time.monotonic() > until:
                raise TimeoutError
        response.close()  # so that the connection can be used again
        if len(answer) > MAX_ANSWER:
            self._close()
            raise self.error(
                f"the response has more than {MAX_ANSWER} bytes; send fewer texts per request (endpoint_batch)", path
            )
        if response.status in REPEATED:
            self._close()
            raise _Unusable(f"status {response.status}{_message(answer)}")
        if response.status != 200:
            raise self.error(f"status {response.status} {response.reason}{_message(answer)}", path)
        try:
            return json.loads(answer)
        except (ValueError, RecursionError) as error:
            self._close()
            raise _Unusable(f"the response is not JSON ({error})") from error

    def _connection(self) -> http.client.HTTPConnection:
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            timeout = self._options.timeout
            if self._is_secure:
                context = ssl.create_default_context()
                connection = http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=context)
            else:
                connection = http.client.HTTPConnection(self._host, self._port, timeout=timeout)
            self._local.connection = connection
        return connection

    def _close(self) -> None:
        """Close this thread's connection, because the rest of a response could still arrive on it."""
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None


def _message(answer: bytes | bytearray) -> str:
    """Return ": " and the message of an error response; "" if the response contains no message.

    The message is the first 200 bytes of the body if the body is not JSON.
    """
    try:
        document = json.loads(answer)
        error = document.get("error", document)
        text = error if isinstance(error, str) else error.get("message") or error.get("detail") or ""
    except (ValueError, AttributeError, RecursionError):
        text = answer[:200].decode("utf-8", "replace")
    return f": {str(text)[:200]}" if text else ""
