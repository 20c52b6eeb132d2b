"""The function `serve`, which runs the application until a signal stops it."""

from __future__ import annotations

import asyncio
import ctypes
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ninja.errors import InputError, OptionError
from ninja.files.stream import text_of
from ninja.libraries import needed_for
from ninja.serve.app import application
from ninja.serve.logs import log, log_to_stderr
from ninja.serve.options import ServeOptions
from ninja.serve.scorer import Scorer

if TYPE_CHECKING:
    import uvicorn

MIN_TOKEN = 16  # characters
KEEP_ALIVE = 10  # seconds that an idle connection stays open
_M_ARENA_MAX = -8  # value of M_ARENA_MAX in glibc's malloc.h


@dataclass(frozen=True, slots=True)
class Listener:
    """The server's address, and the files that contain its token, certificate and key."""

    host: str = "127.0.0.1"
    port: int = 8080  # 0 for any free port
    token_file: str | None = None  # file with the bearer token that clients must send
    tls_certificate: str | None = None  # PEM file; requires `tls_key`
    tls_key: str | None = None  # PEM file with the private key

    def __post_init__(self) -> None:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise OptionError("a TLS certificate and its key belong together; specify both or neither")
        if not self.host:  # a socket with an empty address would listen on all network interfaces
            raise OptionError("host is empty; specify an address, such as 0.0.0.0 for all network interfaces")
        if not 0 <= self.port <= 65535:
            raise OptionError(f"port is {self.port}, but must be from 0 to 65535")

    def token(self) -> str | None:
        """Return the bearer token without leading and trailing whitespace, or None if there is no token file.

        Raises:
            OptionError: The token is too short, or contains whitespace.
            InputError: The file cannot be read.
        """
        if self.token_file is None:
            return None
        token = text_of(self.token_file).strip()
        if len(token) < MIN_TOKEN or token.split() != [token]:
            message = f"the token must have at least {MIN_TOKEN} characters and no whitespace"
            raise OptionError(f"{message}; create one with: openssl rand -hex 32", self.token_file)
        return token


def serve(
    scorer: Scorer,
    listener: Listener = Listener(),
    options: ServeOptions = ServeOptions(),
    *,
    on_start: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve requests until SIGTERM or SIGINT; then finish the requests in progress, and return.

    Args:
        scorer: The models; the scorer is closed at the end.
        listener: Address, token file and TLS files.
        options: Limits.
        on_start: Called with the URL of the server once it accepts connections.

    Raises:
        InputError: The server cannot listen on the address, or the token file or a TLS file cannot be read.
        OptionError: The token is too short, or contains whitespace.
        DependencyError: A library of the extra ``serve`` is not installed.
    """
    with needed_for("a server"):
        import uvicorn

    app = application(scorer, options, token=listener.token())
    log_to_stderr()
    config = configuration(app, listener, options)
    try:
        config.load()
    except OSError as error:  # a TLS file cannot be read
        raise InputError(f"cannot be used for TLS: {error}", listener.tls_certificate) from error

    class Server(uvicorn.Server):
        """Server that stops on a signal and returns, without raising the signal again."""

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            with _stopped_by_signals(self):
                yield

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                on_start(address)

    with _bound(listener) as bound:
        scheme = "http" if listener.tls_certificate is None else "https"
        host = f"[{listener.host}]" if ":" in listener.host else listener.host
        address = f"{scheme}://{host}:{bound.getsockname()[1]}"
        asyncio.run(Server(config).serve([bound]))
    log("stopped")


def share_arena() -> None:
    """Make all threads of this process allocate memory from one arena; call this before the first thread starts.

    By default, glibc creates separate arenas for threads that allocate memory at the same time, and memory freed in one
    arena is not reused in others. The memory use of a server under load therefore grows. Other C libraries are not
    affected.

    Source: mallopt(3), ``M_ARENA_MAX``.
    """
    with suppress(AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def configuration(app: Any, listener: Listener, options: ServeOptions) -> uvicorn.Config:
    """Return the uvicorn settings for an application."""
    import uvicorn

    return uvicorn.Config(
        app,
        host=listener.host,
        port=listener.port,
        log_config=None,
        access_log=False,
        http=_protocol(options.max_seconds),
        ws=_stream_protocol(options.max_seconds),
        ws_max_size=options.max_body,
        ws_per_message_deflate=False,  # a compressed message could expand to far more than the limit
        lifespan="on",
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=int(options.max_seconds) + 1,
        ssl_certfile=listener.tls_certificate,
        ssl_keyfile=listener.tls_key,
    )


@contextmanager
def _bound(listener: Listener) -> Iterator[socket.socket]:
    """Bind the address before the server starts, so that a failure raises an error; uvicorn would only log it."""
    family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
    with socket.socket(family) as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((listener.host, listener.port))
        except (OSError, TypeError) as error:  # TypeError: the name of the host cannot be encoded
            address, reason = f"{listener.host}:{listener.port}", getattr(error, "strerror", None) or error
            raise InputError(f"cannot listen on {address}: {reason}; choose another --host or --port") from error
        yield bound


@contextmanager
def _stopped_by_signals(server: uvicorn.Server) -> Iterator[None]:
    """Stop the server on SIGTERM and SIGINT; a second SIGINT stops it immediately."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: Any) -> None:
        server.force_exit = server.should_exit and number == signal.SIGINT
        server.should_exit = True

    handlers = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


class _ReadLimit(asyncio.Protocol):
    """Mixin for uvicorn protocols that closes the connection if the client does not read the answers in time."""

    transport: asyncio.Transport
    loop: asyncio.AbstractEventLoop
    seconds: float  # time limit for the client to read an answer
    _read_timer: asyncio.TimerHandle | None = None

    def pause_writing(self) -> None:
        super().pause_writing()
        self._read_timer = self.loop.call_later(self.seconds, self._close_unread)

    def resume_writing(self) -> None:
        self._stop_read_timer()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_read_timer()
        super().connection_lost(exc)

    def _stop_read_timer(self) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()

    def _close_unread(self) -> None:
        log("closed a connection whose client did not read the answer")
        self.transport.abort()  # `close` would wait until the client has read all data


def _protocol(limit: float) -> type[asyncio.Protocol]:
    """Return uvicorn's HTTP protocol with a time limit, in seconds, for each request head and for each response."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Protocol(_ReadLimit, H11Protocol):
        """HTTP/1.1 with time limits for receiving the head of each request, and for sending the response."""

        seconds = limit

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._limit_head()

        def connection_lost(self, exc: Exception | None) -> None:
            self._timer.cancel()  # a pending timer would keep the connection and its last request in memory
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.cycle is not None and not self.cycle.response_complete:  # the head of a request is complete
                self._timer.cancel()
            elif self._timer.cancelled() and self.transport.get_protocol() is self:  # not upgraded to a WebSocket
                self._limit_head()

        def _limit_head(self) -> None:
            self._timer = self.loop.call_later(limit, self._close_without_request)

        def _close_without_request(self) -> None:
            if not self.transport.is_closing():
                log("closed a connection without a request")
                self.transport.close()

        def handle_websocket_upgrade(self, event: Any) -> None:
            self._timer.cancel()
            super().handle_websocket_upgrade(event)

    return Protocol


def _stream_protocol(limit: float) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol for WebSockets, changed to let sessions finish their current update at shutdown.

    Args:
        limit: Seconds within which a client must read an answer.
    """
    with needed_for("a server"):
        from uvicorn.protocols.websockets.wsproto_impl import WSProtocol

    class StreamProtocol(_ReadLimit, WSProtocol):
        """WebSocket that the application, not uvicorn, closes when the server stops."""

        seconds = limit

        def shutdown(self) -> None:
            if self.handshake_complete and not self.close_sent:
                self.config.app.state.stopping.set()  # type: ignore[union-attr]
            else:
                super().shutdown()

    return StreamProtocol
