"""Request errors, and the HTTP status and JSON document that report them (RFC 9457)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ninja.errors import (
    BusyError,
    ClosedError,
    DependencyError,
    FormatError,
    LatticeError,
    ModelError,
    NinjaError,
    OptionError,
    SymbolError,
    VocabularyError,
)

MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 1  # Retry-After of responses to requests that were refused because of the load or a shutdown
TITLES = {
    400: "Malformed request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    408: "The request was not received in time",
    413: "The request is too large",
    422: "The request cannot be processed",
    429: "Too many requests",
    500: "Internal error",
    503: "Not available",
    504: "The time limit was exceeded",
}
_STATUS: tuple[tuple[type[NinjaError], int], ...] = (
    (BusyError, 429),
    (ClosedError, 503),
    (ModelError, 500),
    (DependencyError, 422),  # a format needs a library that is not installed
    (FormatError, 422),
    (LatticeError, 422),
    (SymbolError, 422),
    (VocabularyError, 422),
    (OptionError, 422),
)


@dataclass
class Problem(Exception):
    """An error that becomes the response to a request.

    Args:
        status: HTTP status.
        detail: One line with the problem, the offending value and the remedy.
        key: Key of the lattice.
        headers: Additional headers for the response; Retry-After is added for the status 429 and 503.
    """

    status: int
    detail: str
    key: str | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.status in (429, 503):
            self.headers = self.headers | {"Retry-After": str(RETRY_SECONDS)}

    @property
    def document(self) -> dict[str, Any]:
        """JSON body of the response."""
        document = {"type": "about:blank", "title": TITLES[self.status], "status": self.status, "detail": self.detail}
        return document if self.key is None else document | {"key": self.key}


def problem_of(error: Exception) -> Problem:
    """Convert an error to a problem, with the same message that the command line prints."""
    if isinstance(error, Problem):
        return error
    for kind, status in _STATUS:
        if isinstance(error, kind):
            return Problem(status, str(error), error.key or None)
    if isinstance(error, MemoryError):
        return Problem(503, "out of memory; send the request again later")
    return Problem(500, "the server failed to process the request; the server's log contains the error")
