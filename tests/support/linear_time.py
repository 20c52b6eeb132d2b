"""Check that time grows linearly with the input, not quadratically."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

RATIO = 8.0  # largest ratio of the times for inputs of sizes 4n and n: 4 if linear, 16 if quadratic
FAST = 0.04  # processor seconds below which times are not compared
LONG = 2.0  # seconds above which inputs are not enlarged and are measured at most twice
ATTEMPTS = 4


def seconds(run: Callable[[], object], times: int) -> float:
    """Return the least processor time of several runs."""
    durations = []
    gc.disable()
    try:
        for _ in range(times):
            begin = time.process_time()
            run()
            durations.append(time.process_time() - begin)
    finally:
        gc.enable()
    return min(durations)


def assert_linear(
    make: Callable[[int], Callable[[], object]], size: int, name: str = "", *, largest: int | None = None
) -> None:
    """Assert that four times the input takes less than RATIO times as long.

    A slow input is measured again, and so are larger inputs: caches cause steps, and other programs use the processor;
    only quadratic time is too long at every size.

    Args:
        make: Returns the function to time for an input size.
        size: Size of the smaller of the first two inputs.
        largest: Largest possible input size.
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
