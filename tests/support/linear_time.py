"""Check that time grows linearly with the input, not quadratically."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

RATIO = 8.0  # of the times for four times the input and for the input: linear is 4, quadratic 16
FAST = 0.04  # seconds of the processor in which nothing is compared
LONG = 2.0  # seconds beyond which no larger input is tried, and none more than twice
ATTEMPTS = 4


def seconds(run: Callable[[], object], times: int) -> float:
    """Return the least processor time of several runs."""
    found = []
    gc.disable()
    try:
        for _ in range(times):
            begin = time.process_time()
            run()
            found.append(time.process_time() - begin)
    finally:
        gc.enable()
    return min(found)


def assert_linear(
    make: Callable[[int], Callable[[], object]], size: int, name: str = "", *, largest: int | None = None
) -> None:
    """Assert that four times the input takes less than RATIO times as long.

    An input that takes longer is measured again, and so are larger ones: caches make steps, and other programs take the
    processor away; only time that grows with the square is too long at each size.

    Args:
        make: Returns, for a size, a function to be timed.
        size: Of the smaller one of the first two inputs.
        largest: The largest input that can be made.
    """
    for attempt in range(ATTEMPTS):
        long = seconds(make(4 * size), 1 + attempt)
        if long < FAST:
            return
        short = seconds(make(size), 2)
        if long < RATIO * short:
            return
        if long > LONG and attempt:
            break
        if long < LONG and (largest is None or 8 * size <= largest):
            size *= 2
    raise AssertionError(f"{name}: four times the input takes {long / short:.1f} times as long")
