"""Server logs on stderr, with one JSON object per line."""

from __future__ import annotations

import datetime
import json
import logging
import sys
from typing import Any

from ninja.serve.problems import Problem, problem_of

LOGGER = logging.getLogger("ninja.serve")


class JsonLines(logging.Formatter):
    """Formatter that writes log records as JSON objects with ``time``, ``level``, ``message`` and event fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a log record as one line of JSON."""
        time = datetime.datetime.fromtimestamp(record.created, datetime.timezone.utc)
        entry: dict[str, Any] = {
            "time": time.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=True)


def log_to_stderr() -> None:
    """Write the server's logs, and uvicorn's logs above level info, to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for logger, level in ((LOGGER, logging.INFO), (logging.getLogger("uvicorn"), logging.WARNING)):
        logger.handlers = [handler]
        logger.setLevel(level)
        logger.propagate = False


def logged_problem(error: Exception, fields: dict[str, Any]) -> Problem:
    """Return the problem for an error, add it to the log fields, and log the error if the client did not cause it."""
    problem = problem_of(error)
    fields["problem"] = problem.detail[:500]
    if problem.status == 500:
        LOGGER.error("error", exc_info=error, extra={"fields": fields})
    return problem


def log(message: str, fields: dict[str, Any] | None = None) -> None:
    """Log an event at level info, with additional fields for its JSON object."""
    LOGGER.info(message, extra={"fields": fields or {}})
