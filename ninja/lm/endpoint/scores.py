"""`ScoreCache`, a file that stores scores so that a repeated run does not request them again."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from ninja.errors import ModelError

Item = TypeVar("Item")
AT_ONCE = 500  # keys per query; SQLite allows at most 999


class ScoreCache:
    """SQLite file that caches a model's scores and tokenized texts; several processes can share the file."""

    def __init__(self, path: str | None, model: str) -> None:
        """Open or create a file.

        Args:
            path: Path of the file; if None, nothing is stored.
            model: Identifier of the model; scores from other models are not used.

        Raises:
            ModelError: The file is not a cache, or cannot be written.
        """
        self._path = path
        self._model = hashlib.blake2b(model.encode(), digest_size=16).digest()
        self._lock = threading.Lock()
        if path is None:
            return
        with self._errors():
            self._file = sqlite3.connect(path, timeout=60.0, check_same_thread=False)
            with self._file:
                self._file.execute("CREATE TABLE IF NOT EXISTS score (key BLOB PRIMARY KEY, value REAL) WITHOUT ROWID")
                self._file.execute("CREATE TABLE IF NOT EXISTS token (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID")

    def scores(self, sequences: Sequence[tuple[int, ...]]) -> dict[tuple[int, ...], float]:
        """Return the scores of token sequences; sequences that are not in the cache are omitted."""
        values = self._values("score", {self._key(np.array(text, np.int32).tobytes()): text for text in sequences})
        return {text: float(value) for text, value in values.items() if isinstance(value, float) and value <= 0.01}

    def put_scores(self, scores: Mapping[tuple[int, ...], float]) -> None:
        """Store the scores of token sequences; infinite scores are not stored."""
        rows = ((self._key(np.array(text, np.int32).tobytes()), value) for text, value in scores.items())
        self._put("score", [row for row in rows if row[1] > -np.inf])

    def tokens(self, texts: Sequence[str]) -> dict[str, list[int]]:
        """Return the token ids of texts; texts that are not in the cache are omitted."""
        values = self._values("token", {self._key(text.encode()): text for text in texts})
        return {text: np.frombuffer(value, np.int32).tolist() for text, value in values.items()}

    def put_tokens(self, tokens: Mapping[str, list[int]]) -> None:
        """Store the token ids of texts."""
        rows = [(self._key(text.encode()), np.array(ids, np.int32).tobytes()) for text, ids in tokens.items()]
        self._put("token", rows)

    def _key(self, content: bytes) -> bytes:
        return hashlib.blake2b(content, digest_size=16, key=self._model).digest()

    def _values(self, table: str, items: Mapping[bytes, Item]) -> dict[Item, Any]:
        if self._path is None:
            return {}
        keys = [*items]
        values: dict[Item, Any] = {}
        with self._errors():
            for first in range(0, len(keys), AT_ONCE):
                some = keys[first : first + AT_ONCE]
                query = f"SELECT key, value FROM {table} WHERE key IN ({','.join('?' * len(some))})"
                values.update((items[key], value) for key, value in self._file.execute(query, some))
        return values

    def _put(self, table: str, rows: Sequence[tuple[bytes, object]]) -> None:
        if self._path is None or not rows:
            return
        with self._errors(), self._file:
            self._file.executemany(f"INSERT OR REPLACE INTO {table} VALUES (?, ?)", rows)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        with self._lock:
            try:
                yield
            except (sqlite3.Error, ValueError, TypeError) as error:
                raise ModelError(
                    f"this file is not a score cache or cannot be written ({error}); set endpoint_cache to another "
                    "file",
                    self._path,
                ) from error
