"""The server's ASGI application."""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ninja.context.correction.stage import CorrectedUtterance
from ninja.context.entities.lists import PhraseList
from ninja.lattice import Lattice
from ninja.lattice.batch import num_cores
from ninja.lattice.lattice import ListLattice, as_list_of
from ninja.libraries import needed_for
from ninja.rescoring.utterances import Submission
from ninja.serve.answers import answer
from ninja.serve.corrections import Transcript, change_records, read_transcript, write_transcript
from ninja.serve.lattices import check_arcs, output_format, read_lattice, unpacked, write_lattice
from ninja.serve.logs import log, logged_problem
from ninja.serve.metrics import Metrics
from ninja.serve.openapi import document, reference_page
from ninja.serve.options import ServeOptions
from ninja.serve.page import POLICY, page
from ninja.serve.problems import MEDIA_TYPE, Problem
from ninja.serve.requests import (
    RescoreRequest,
    check_phrases,
    correction_from_json,
    correction_from_query,
    from_json,
    from_query,
)
from ninja.serve.scorer import Scorer
from ninja.serve.stream import PATH as STREAM_PATH
from ninja.serve.stream import Streams

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

Result = TypeVar("Result")
OPEN_PATHS = ("/", "/docs", "/healthz", "/readyz", "/openapi.json")  # paths that require no token
NOSNIFF = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
COMPLETE = "X-Ninja-Complete"  # response header that tells whether the search was complete


def application(scorer: Scorer, options: ServeOptions = ServeOptions(), *, token: str | None = None) -> Starlette:
    """Return an ASGI application that rescores lattices and corrects transcripts; it closes the scorer on shutdown.

    Args:
        scorer: The models and phrase lists.
        options: Limits.
        token: Bearer token that clients must send.  [default: no token is required]

    Raises:
        DependencyError: A library of the extra ``serve`` is not installed.
    """
    with needed_for("a server"):
        from starlette.applications import Starlette
        from starlette.exceptions import HTTPException
        from starlette.routing import BaseRoute, Route, WebSocketRoute

    api = _Api(scorer, options, token)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        api.streams.stopping.set()
        await asyncio.to_thread(api.close)

    async def refuse(request: Request, error: Exception) -> Response:
        status = getattr(error, "status_code", 404)
        details = {
            404: "there is no such path; see /docs",
            405: f"{request.method} is not allowed on this path; see /docs",
        }
        detail = details.get(status, str(error))
        headers = dict(getattr(error, "headers", None) or {})  # for example, Allow with the allowed methods
        return api.problem_response(Problem(status if status in details else 400, detail, headers=headers))

    routes: list[BaseRoute] = [
        Route(path, api.endpoint(path, handler), methods=[method])
        for method, path, handler in (
            ("POST", "/v1/rescore", api.rescore),
            ("POST", "/v1/correct", api.correct),
            ("GET", "/healthz", api.health),
            ("GET", "/readyz", api.ready),
            ("GET", "/metrics", api.metrics_page),
            ("GET", "/openapi.json", api.openapi),
            ("GET", "/docs", api.docs),
            ("GET", "/", api.index),
        )
    ]
    routes.append(WebSocketRoute(STREAM_PATH, api.streams.endpoint))
    app = Starlette(routes=routes, exception_handlers={HTTPException: refuse}, lifespan=lifespan)
    app.router.redirect_slashes = False  # behind an HTTPS proxy, a redirect would lead to an http URL
    app.state.stopping = api.streams.stopping
    return app


class _Advice(NamedTuple):
    """Advice for error messages about the limits on one type of request."""

    too_large: str
    not_done: str
    too_slow: str


_OF_LATTICES = _Advice("prune the lattice first", "the lattice was not rescored", "prune it, or set deadline_ms")
_OF_TRANSCRIPTS = _Advice("divide the transcript", "the transcript was not corrected", "divide it")


class _Disconnected(Exception):
    """The client closed the connection before the response was sent."""


class _Api:
    """The endpoints, and the state that they share."""

    def __init__(self, scorer: Scorer, options: ServeOptions, token: str | None) -> None:
        self._scorer = scorer
        self._options = options
        self._token = None if token is None else token.encode()
        self._metrics = Metrics(scorer)
        self._threads = ThreadPoolExecutor(max(2, num_cores()), "ninja-requests")
        self._correction_thread = ThreadPoolExecutor(1, "ninja-corrections")
        self._num_requests = 0
        self.streams = Streams(scorer, options, self._metrics, self._threads, self._check_token)
        self._document = document(options, sorted(scorer.lists), has_token=token is not None)

    def close(self) -> None:
        """Finish the lattices in progress and stop the threads."""
        self._scorer.close(self._options.max_seconds)
        for threads in (self._threads, self._correction_thread):
            threads.shutdown(wait=False, cancel_futures=True)

    def endpoint(
        self, path: str, handler: Callable[[Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Wrap a handler: check the token, convert errors to responses, log requests, and count them."""

        async def handled(request: Request) -> Response:
            start = time.perf_counter()
            request.state.fields = fields = {"method": request.method, "path": path}
            try:
                if path not in OPEN_PATHS:
                    self._check_token(request.headers)
                response = await handler(request)
            except Exception as error:  # every request must be answered, even after an unexpected error
                response = self._failed(error, fields)
            seconds = time.perf_counter() - start
            self._metrics.requests.labels(path, response.status_code).inc()
            self._metrics.seconds.labels(path).observe(seconds)
            if path.startswith("/v1/"):
                log("request", {**fields, "status": response.status_code, "seconds": round(seconds, 6)})
            return response

        return handled

    def problem_response(self, problem: Problem) -> Response:
        """Return the response for a problem."""
        from starlette.responses import Response

        headers = NOSNIFF | problem.headers
        return Response(json.dumps(problem.document), problem.status, headers=headers, media_type=MEDIA_TYPE)

    async def rescore(self, request: Request) -> Response:
        """Rescore the lattice in a request, and return the response."""
        return await self._limited(request, self._rescored, _OF_LATTICES)

    async def correct(self, request: Request) -> Response:
        """Correct the transcript in a request, and return the response."""
        return await self._limited(request, self._corrected, _OF_TRANSCRIPTS)

    async def _limited(
        self, request: Request, handler: Callable[[Request, bytes], Awaitable[Response]], advice: _Advice
    ) -> Response:
        """Read the body and call the handler; enforce the limit on concurrent requests and the time limit."""
        if self._num_requests >= self._options.max_requests:
            message = f"{self._num_requests} requests are in progress; send the request again later"
            raise Problem(429, message)
        self._num_requests += 1
        self._metrics.in_progress.inc()
        try:
            start = time.monotonic()
            try:
                body = await asyncio.wait_for(self._body(request, advice.too_large), self._options.max_seconds)
            except asyncio.TimeoutError:
                raise Problem(408, f"the body was not received within {self._options.max_seconds:g} s") from None
            seconds = start + self._options.max_seconds - time.monotonic()
            try:
                return await asyncio.wait_for(handler(request, body), max(seconds, 0.001))
            except asyncio.TimeoutError:
                message = f"{advice.not_done} within {self._options.max_seconds:g} s; {advice.too_slow}"
                raise Problem(504, message) from None
        finally:
            self._num_requests -= 1
            self._metrics.in_progress.dec()

    async def health(self, request: Request) -> Response:
        """Respond that the process is running."""
        return self._text("ok\n")

    async def ready(self, request: Request) -> Response:
        """Report whether the server accepts lattices."""
        if self._scorer.is_closed:
            raise Problem(503, "the server is stopping")
        return self._text("ready\n")

    async def metrics_page(self, request: Request) -> Response:
        """Return the server's metrics in the Prometheus format."""
        from starlette.responses import Response

        content, media_type = self._metrics.exposition()
        return Response(content, headers=NOSNIFF | {"Content-Type": media_type})

    async def openapi(self, request: Request) -> Response:
        """Return the OpenAPI document of the endpoints."""
        return self._json(self._document)

    async def docs(self, request: Request) -> Response:
        """Return the page that documents the endpoints."""
        return self._html(reference_page(self._document))

    async def index(self, request: Request) -> Response:
        """Return the page for rescoring lattices manually in the browser."""
        return self._html(page(sorted(self._scorer.lists)))

    async def _body(self, request: Request, advice: str) -> bytes:
        """Read the body of a request; reject a body that is too large without receiving all of it."""
        most = self._options.max_body
        too_large = Problem(413, f"the body has more than {most} bytes; {advice}")
        length = request.headers.get("content-length", "0")
        if length.isascii() and length.isdigit() and int(length[:20]) > most:
            raise too_large
        pieces, size = [], 0
        async for piece in request.stream():
            size += len(piece)
            if size > most:
                raise too_large
            pieces.append(piece)
        request.state.fields["bytes"] = size
        return b"".join(pieces)

    async def _rescored(self, request: Request, body: bytes) -> Response:
        received = time.monotonic()
        query = request.query_params.multi_items()
        job, future = await self._in_thread(self._submit, body, query, received, is_json=_is_json(request))
        request.state.fields["key"] = job.lattice.key
        request.state.fields["arcs"] = job.lattice.num_arcs
        rescored = await self._unless_closed(request, asyncio.wrap_future(future))
        if not future.is_complete:
            self._metrics.incomplete.inc()
        content, media_type = await self._in_thread(job.content, rescored, complete=future.is_complete)
        from starlette.responses import Response

        complete = {COMPLETE: str(future.is_complete).lower()}
        return Response(content, headers=NOSNIFF | complete | {"Content-Type": media_type})

    def _submit(
        self, body: bytes, query: list[tuple[str, str]], received: float, *, is_json: bool
    ) -> tuple[_Job, Submission]:
        """Parse a rescoring request, and submit its lattice; must be called in a worker thread."""
        options, scorer = self._options, self._scorer
        _refuse_query(query, is_json=is_json)
        request = from_json(body) if is_json else from_query(body, query)
        check_phrases(request.entities, options.max_phrases)
        if request.to is not None:
            output_format(request.to)  # reject an unknown format before the lattice is rescored
        content = unpacked(request.body, options.max_body, _OF_LATTICES.too_large)
        lattice = read_lattice(content, request.format, request.key, scorer.vocabularies)
        check_arcs(lattice, options.max_lattice_arcs)
        phrases = scorer.phrases(lattice.key, request.lists, request.entities)
        if time.monotonic() > received + options.max_seconds:
            raise Problem(504, "the time limit has passed")  # the client has already received a 504 response
        deadline = None
        if request.deadline_ms is not None:
            deadline = max(1e-6, received + request.deadline_ms / 1000 - time.monotonic())
        return _Job(scorer, request, lattice), scorer.submit(lattice, phrases, deadline)

    async def _corrected(self, request: Request, body: bytes) -> Response:
        until = time.monotonic() + self._options.max_seconds
        query = request.query_params.multi_items()
        job, lists = await self._in_thread(self._transcript, body, query, is_json=_is_json(request))
        request.state.fields["arcs"] = job.transcript.num_arcs
        corrected = asyncio.ensure_future(self._corrected_utterances(job.transcript, lists, until))
        results = await self._unless_closed(request, corrected)
        utterances = [utterance for _, utterance in results]
        self._metrics.corrections.inc(sum(len(utterance.changes) for utterance in utterances))
        return self._json(await self._in_thread(job.document, [lattice for lattice, _ in results], utterances))

    def _transcript(
        self, body: bytes, query: list[tuple[str, str]], *, is_json: bool
    ) -> tuple[_Correction, tuple[PhraseList, ...]]:
        """Parse a correction request; must be called in a worker thread."""
        options = self._options
        _refuse_query(query, is_json=is_json)
        request = correction_from_json(body) if is_json else correction_from_query(body, query)
        check_phrases(request.entities, options.max_phrases)
        lists = self._scorer.corrections.phrases(request.lists, request.entities)
        content = unpacked(request.body, options.max_body, _OF_TRANSCRIPTS.too_large)
        transcript = read_transcript(content, request.format)
        if transcript.num_arcs > options.max_lattice_arcs:
            most = options.max_lattice_arcs
            message = f"the transcript has {transcript.num_arcs} words, but at most {most} are allowed; divide it"
            raise Problem(413, message)
        return _Correction(transcript, is_value=request.is_value), lists

    async def _corrected_utterances(
        self, transcript: Transcript, lists: tuple[PhraseList, ...], until: float
    ) -> list[tuple[ListLattice, CorrectedUtterance]]:
        """Correct utterances one by one, so that utterances of other requests can be corrected in between."""
        loop, correct = asyncio.get_running_loop(), self._scorer.corrections.correct
        return [
            await loop.run_in_executor(self._correction_thread, correct, lattice, lists, until)
            for lattice in transcript.lattices
        ]

    async def _unless_closed(self, request: Request, result: asyncio.Future[Result]) -> Result:
        """Wait for a result; cancel it if the client closes the connection."""
        closed = asyncio.ensure_future(request.receive())
        try:
            futures: set[asyncio.Future[Any]] = {result, closed}
            await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
            if not result.done():
                raise _Disconnected
            return result.result()
        finally:
            result.cancel()
            closed.cancel()
            with suppress(asyncio.CancelledError):
                await closed

    async def _in_thread(self, function: Callable[..., Result], *arguments: Any, **named: Any) -> Result:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: function(*arguments, **named))

    def _check_token(self, headers: Mapping[str, str]) -> None:
        if self._token is None:
            return
        scheme, _, token = headers.get("authorization", "").partition(" ")
        content = token.strip().encode("latin-1")  # the original bytes of the header
        if scheme.lower() != "bearer" or not hmac.compare_digest(content, self._token):
            message = "the header 'Authorization: Bearer TOKEN' is missing, or its token is wrong"
            raise Problem(401, message, headers={"WWW-Authenticate": "Bearer"})

    def _failed(self, error: Exception, fields: dict[str, Any]) -> Response:
        """Return the response for an error, and log the error if the client did not cause it."""
        from starlette.requests import ClientDisconnect

        if isinstance(error, _Disconnected | ClientDisconnect):
            fields["disconnected"] = True
            return self._text("", 499)
        return self.problem_response(logged_problem(error, fields))

    def _text(self, content: str, status: int = 200) -> Response:
        from starlette.responses import PlainTextResponse

        return PlainTextResponse(content, status, headers=NOSNIFF)

    def _json(self, content: dict[str, Any]) -> Response:
        from starlette.responses import Response

        return Response(json_bytes(content), headers=NOSNIFF, media_type="application/json")

    def _html(self, content: str) -> Response:
        from starlette.responses import HTMLResponse

        headers = NOSNIFF | {"Content-Security-Policy": POLICY, "Referrer-Policy": "no-referrer"}
        return HTMLResponse(content, headers=headers)


def _is_json(request: Request) -> bool:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"


def _refuse_query(query: list[tuple[str, str]], *, is_json: bool) -> None:
    if is_json and query:
        raise Problem(
            400,
            f"the query parameter {query[0][0]!r:.80} is not allowed with a JSON body; use a field of the JSON object",
        )


@dataclass(frozen=True, slots=True)
class _Correction:
    """A transcript that is being corrected."""

    transcript: Transcript
    is_value: bool  # whether the response contains the document as a JSON value, not as text

    def document(self, lattices: list[ListLattice], utterances: list[CorrectedUtterance]) -> dict[str, Any]:
        """Return the JSON document of the response; must be called in a worker thread."""
        text = write_transcript(replace(self.transcript, lattices=tuple(lattices))).decode("utf-8", "surrogateescape")
        return {"transcript": _value(text) if self.is_value else text, "changes": change_records(utterances)}


@dataclass(frozen=True, slots=True)
class _Job:
    """A lattice in progress, with its request."""

    scorer: Scorer
    request: RescoreRequest
    lattice: Lattice

    def content(self, rescored: Lattice, *, complete: bool) -> tuple[bytes, str]:
        """Return ``(body, media type)`` of the response; must be called in a worker thread."""
        scales, request = self.scorer.options_for(self.lattice).scales, self.request
        if request.to is None:
            return json_bytes(answer(rescored, scales, request.n, complete=complete)), "application/json"
        format = output_format(request.to)
        if "ids" in format.keeps and "names" not in format.keeps:
            self.scorer.vocabularies.refuse_new_words(rescored)
        return write_lattice(as_list_of(self.lattice, rescored), format, scales, request.n), "application/octet-stream"


def _value(text: str) -> Any:
    """Parse a JSON document, or parse JSON lines into a list of documents."""
    try:
        return json.loads(text)
    except ValueError:
        return [json.loads(line) for line in text.split("\n") if line]


def json_bytes(content: dict[str, Any]) -> bytes:
    """Encode a document as JSON; invalid Unicode in text is escaped."""
    try:
        return json.dumps(content, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        return json.dumps(content, allow_nan=False).encode()
