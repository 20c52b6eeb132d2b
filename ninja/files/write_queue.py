"""Writing of bytes in a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Queue
from typing import TYPE_CHECKING

from ninja.files.threads import starting_threads

if TYPE_CHECKING:
    from ninja.files.output import Bytes

LARGEST = 3  # contents that wait, in addition to the one that is being written


class WriteQueue:
    """Writes bytes to an output in a thread, in the order of the calls of `put`.

    After an error nothing more is written; the error is raised by the next call of `put`, or by `wait`. The thread
    starts with the first content, and ends in `wait` and `stop`; it may start again.

    Args:
        file: The output. Others may use it only after `wait` or `stop`, until the next call of `put`.
    """

    def __init__(self, file: Bytes) -> None:
        self._file = file
        self._contents: Queue[tuple[memoryview, Callable[[], None]] | None] = Queue(LARGEST)
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def put(self, content: memoryview, release: Callable[[], None]) -> None:
        """Add bytes to be written; wait while `LARGEST` other contents wait.

        Args:
            content: The bytes, which must not change until they are released.
            release: Called in the thread when the bytes are written, or are not written because of an earlier error.
        """
        if self._error is not None:
            raise self._error
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="ninja-write", daemon=True)
            with starting_threads():
                thread.start()
            self._thread = thread
        self._contents.put((content, release))

    def wait(self) -> None:
        """Wait until all bytes are written."""
        self.stop()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Wait until all bytes are written; errors are not raised."""
        if self._thread is not None:
            self._contents.put(None)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while (entry := self._contents.get()) is not None:
            content, release = entry
            try:
                try:
                    if self._error is None:
                        self._file.write(content)
                finally:
                    content.release()
                    release()
            except BaseException as error:  # raised in the caller's thread
                self._error = error
