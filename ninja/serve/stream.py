"""The class `Streams`: sessions on the endpoint ``WS /v1/stream``."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import numpy as np

from ninja.decoding.ctc_stream import CtcStream
from ninja.errors import ModelError
from ninja.lattice import Lattice
from ninja.rescoring.algorithms import RescoreOptions
from ninja.rescoring.session import Partial, Session
from ninja.serve.answers import answer
from ninja.serve.lattices import check_arcs, read_lattice, unpacked
from ninja.serve.logs import log, logged_problem
from ninja.serve.metrics import Metrics
from ninja.serve.options import ServeOptions
from ninja.serve.problems import Problem
from ninja.serve.requests import check_phrases
from ninja.serve.scorer import Phrases, Scorer
from ninja.serve.updates import StreamRequest, Update, stream_request, update_of

if TYPE_CHECKING:
    from starlette.websockets import WebSocket

Result = TypeVar("Result")
PATH = "/v1/stream"
ADVICE = "prune the lattice first"
# WebSocket close codes; see RFC 6455 and its registry.
DONE, MALFORMED, BROKEN, RESTART, LATER = 1000, 1008, 1011, 1012, 1013
CODES = {429: LATER, 503: LATER, 500: BROKEN}


class Streams:
    """Endpoint for streaming sessions, ``WS /v1/stream``.

    A session is a connection on which a client sends a growing lattice, or the frames of a CTC model, and receives
    rescored words.

    Args:
        scorer: Scorer for the lattices.
        options: The server's limits.
        metrics: Counters for sessions and updates.
        threads: Threads in which messages are parsed.
        check: Function that raises a `Problem` if the headers of a request do not contain the token.
    """

    def __init__(
        self,
        scorer: Scorer,
        options: ServeOptions,
        metrics: Metrics,
        threads: ThreadPoolExecutor,
        check: Callable[[Mapping[str, str]], None],
    ) -> None:
        self._scorer = scorer
        self._options = options
        self._metrics = metrics
        self._threads = threads
        self._check = check
        self._num_sessions = 0
        self.stopping = asyncio.Event()  # set when the server stops: sessions are closed after their current update

    async def endpoint(self, socket: WebSocket) -> None:
        """Serve a session until the final answer, an error or the end of the connection."""
        from starlette.responses import Response

        try:
            self._admit(socket.headers)
        except Problem as problem:
            self._metrics.requests.labels(PATH, problem.status).inc()
            content = json.dumps(problem.document)
            await socket.send_denial_response(Response(content, problem.status, headers=problem.headers))
            return
        self._num_sessions += 1
        self._metrics.sessions.inc()
        fields: dict[str, Any] = {"path": PATH}
        start = time.perf_counter()
        try:
            await socket.accept()
            status = await self._served(socket, fields)
        finally:
            self._num_sessions -= 1
            self._metrics.sessions.dec()
        seconds = round(time.perf_counter() - start, 6)
        self._metrics.requests.labels(PATH, status).inc()
        log("session", {**fields, "status": status, "seconds": seconds})

    def _admit(self, headers: Mapping[str, str]) -> None:
        """Raise a `Problem` if a session must not be opened."""
        self._check(headers)
        origin = headers.get("origin")
        if origin is not None and _host(origin) != headers.get("host"):
            raise Problem(403, "pages of other sites cannot open sessions")
        if self.stopping.is_set() or self._scorer.is_closed:
            raise Problem(503, "the server is stopping")
        if self._num_sessions >= self._options.max_sessions:
            message = f"{self._num_sessions} sessions are open; try again later"
            raise Problem(429, message)

    async def _served(self, socket: WebSocket, fields: dict[str, Any]) -> int:
        """Serve a session; return an HTTP status that describes how the session ended."""
        from starlette.websockets import WebSocketDisconnect

        try:
            code = await self._answer_updates(socket, fields)
            await socket.close(code)
        except WebSocketDisconnect:
            fields["disconnected"] = True
            return 499
        except Exception as error:  # an unexpected error must end only this session
            problem = logged_problem(error, fields)
            try:
                await socket.send_text(json.dumps(problem.document))
                await socket.close(CODES.get(problem.status, MALFORMED))
            except (RuntimeError, WebSocketDisconnect):  # the connection is closed
                fields["disconnected"] = True
            return problem.status
        return 200

    async def _answer_updates(self, socket: WebSocket, fields: dict[str, Any]) -> int:
        """Answer the updates in a session; return the WebSocket code for closing the session."""
        message = await self._message(socket)
        if message is None:
            return RESTART
        stream = await self._in_thread(self._opened, message)
        fields["key"], fields["updates"] = stream.request.key, 0
        while (message := await self._message(socket)) is not None:
            content = await self._in_time(stream.update(message, self._in_thread))
            self._metrics.updates.inc()
            fields["updates"] += 1
            await socket.send_text(content)
            if stream.is_final:
                return DONE
        return RESTART

    async def _message(self, socket: WebSocket) -> str | bytes | None:
        """Wait for a message and return it; return None if the server stops.

        Raises:
            Problem: No message arrived in time.
            WebSocketDisconnect: The client has closed the connection.
        """
        from starlette.websockets import WebSocketDisconnect

        receiving = asyncio.ensure_future(socket.receive())
        stopping = asyncio.ensure_future(self.stopping.wait())
        futures: set[asyncio.Future[Any]] = {receiving, stopping}
        try:
            await asyncio.wait(futures, timeout=self._options.max_idle, return_when=asyncio.FIRST_COMPLETED)
            if receiving.done():
                event = receiving.result()
                if event["type"] == "websocket.disconnect":
                    raise WebSocketDisconnect(event.get("code", BROKEN))
                text: str | None = event.get("text")
                return event["bytes"] if text is None else text
            if stopping.done():
                return None
            raise Problem(408, f"no message was received within {self._options.max_idle:g} s")
        finally:
            for future in futures:
                future.cancel()

    def _opened(self, message: str | bytes) -> _Stream:
        """Create the session that the first message describes; must be called in a worker thread."""
        content = message if isinstance(message, bytes) else message.encode("utf-8", "surrogatepass")
        request = stream_request(content)
        check_phrases(request.entities, self._options.max_phrases)
        phrases = self._scorer.phrases(request.key, request.lists, request.entities)
        return _Stream(self._scorer, self._options, request, phrases)

    async def _in_time(self, work: Awaitable[Result]) -> Result:
        try:
            return await asyncio.wait_for(work, self._options.max_seconds)
        except asyncio.TimeoutError:
            message = f"the update was not rescored within {self._options.max_seconds:g} s"
            raise Problem(504, f"{message}; send a smaller lattice, or fewer frames per update") from None

    async def _in_thread(self, function: Callable[..., Result], *arguments: Any) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)


def _host(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:  # a malformed address
        return None


class _Stream:
    """The state of a session."""

    def __init__(self, scorer: Scorer, options: ServeOptions, request: StreamRequest, phrases: Phrases) -> None:
        self.request = request
        self.is_final = False
        self._scorer = scorer
        self._limits = options
        self._phrases = phrases
        self._session: tuple[RescoreOptions, Session] | None = None  # the options for the lattices, and the session
        self._lattice: Lattice | None = None  # lattice of the last update
        self._num_bytes = 0  # total size of the frames received so far, in bytes
        self._frames: CtcStream | None = None
        if request.units is not None:
            words = scorer.vocabularies.current().words
            assert words is not None
            self._frames = CtcStream(request.key, request.units, words=words, frame_shift=request.frame_shift)

    async def update(self, message: str | bytes, in_thread: Callable[..., Awaitable[Any]]) -> str:
        """Rescore the lattice or the frames in an update, and return the answer as JSON."""
        session, lattice, final = await in_thread(self._parsed, message)
        future = await in_thread(session.submit, lattice)
        rescored = await asyncio.wrap_future(future)
        content: str = await in_thread(lambda: self._content(session, rescored, final=final))
        self.is_final = final
        return content

    def _parsed(self, message: str | bytes) -> tuple[Session, Lattice, bool]:
        """Parse an update into ``(session, lattice, whether it is final)``; must be called in a worker thread."""
        update = update_of(message, self.request)
        lattice = self._lattice_of(update)
        check_arcs(lattice, self._limits.max_lattice_arcs)
        self._lattice = lattice
        options = self._scorer.options_for(lattice)
        if self._session is None or self._session[0] != options:
            session = self._scorer.session(options, self._phrases, self.request.options)
            self._session = options, session
        return self._session[1], lattice, update.final

    def _lattice_of(self, update: Update) -> Lattice:
        if update.frames is not None:
            assert self._frames is not None
            self._num_bytes += update.frames.nbytes
            if self._num_bytes > self._limits.max_body:
                raise Problem(
                    413, f"the session's frames have more than {self._limits.max_body} bytes; use shorter sessions"
                )
            try:
                return self._frames.add(update.frames, final=update.final)
            except ModelError as error:  # invalid frames are a fault of the client's model, not an internal error
                raise Problem(422, str(error), self.request.key) from error
        if update.body is not None:
            format = update.format or self.request.format
            content = unpacked(update.body, self._limits.max_body, ADVICE)
            return read_lattice(content, format, self.request.key, self._scorer.vocabularies)
        if self._frames is not None and self._frames.num_frames:
            return self._frames.add(np.zeros((0, self._frames.num_units)), final=True)
        if self._lattice is None:
            raise Problem(400, "the session has no lattice yet; send one before or together with final: true")
        return self._lattice

    def _content(self, session: Session, rescored: Lattice, *, final: bool) -> str:
        """Return the answer to an update; must be called in a worker thread."""
        partial = session.observe(rescored, final=final)
        return json.dumps(self._document(partial, final=final), allow_nan=False)

    def _document(self, partial: Partial, *, final: bool) -> dict[str, Any]:
        document: dict[str, Any] = {
            "stable": list(partial.stable),
            "tail": list(partial.tail),
            "num_changed": partial.num_changed,
            "final": final,
        }
        if final:
            assert self._session is not None
            scales = self._session[0].scales
            document["result"] = answer(partial.lattice, scales, self.request.n, complete=True)
        return document
