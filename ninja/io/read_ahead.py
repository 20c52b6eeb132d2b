"""Read batches ahead of the caller in a thread."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from queue import SimpleQueue

from ninja.errors import InputError
from ninja.files.threads import starting_threads
from ninja.lattice.batch import Batch

CREDITS = 32  # how far to read ahead, in units of
CREDIT_BYTES = 1 << 20


def read_ahead(batches: Iterator[Batch]) -> Iterator[Batch]:
    """Yield batches that a thread reads ahead, at most ``CREDITS * CREDIT_BYTES`` bytes of file (or one batch).

    The thread ends with the batches, with the first exception (which is raised here), or soon after the generator is
    closed.

    Raises:
        InputError: This process was forked meanwhile: the thread stayed behind.
    """
    process = os.getpid()
    ready: SimpleQueue[Batch | BaseException | None] = SimpleQueue()
    credits: SimpleQueue[bool] = SimpleQueue()  # one for each unit that may be read; False: stop
    for _ in range(CREDITS):
        credits.put(True)

    def run() -> None:
        end: BaseException | None = None
        try:
            for batch in batches:
                for _ in range(_cost(batch)):
                    if not credits.get():
                        return
                ready.put(batch)
        except BaseException as error:  # it is the caller's to see, whatever it is
            end = error
        finally:
            batches.close()  # type: ignore[attr-defined]
            ready.put(end)

    thread = threading.Thread(target=run, name="ninja-read-ahead", daemon=True)
    with starting_threads():
        thread.start()
    try:
        while isinstance(batch := ready.get(), Batch):
            yield batch
            if os.getpid() != process:
                raise InputError("these files were opened before this process was forked; open them again")
            for _ in range(_cost(batch)):
                credits.put(True)
        if batch is not None:
            raise batch
    finally:
        for _ in range(CREDITS):
            credits.put(False)


def _cost(batch: Batch) -> int:
    return min(CREDITS, 1 + batch.size // CREDIT_BYTES)
