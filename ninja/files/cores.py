"""Cores of the machine."""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager

from ninja.errors import ThreadError

_QUOTAS = ("/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us")  # of control groups, version 2 and 1
_PERIOD = "/sys/fs/cgroup/cpu/cpu.cfs_period_us"


def num_cores() -> int:
    """Return how many cores this process may use: by its affinity, and by the limit of its control group (cgroup).

    Source: Linux, Documentation/admin-guide/cgroup-v2.rst, cpu.max; Documentation/scheduler/sched-bwc.rst.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _quota()
    return cores if quota is None else max(1, min(cores, math.ceil(quota)))


_NO_THREAD = ("can't start new thread", os.strerror(errno.EAGAIN))  # Python's words, and the kernels'


@contextmanager
def starting_threads() -> Iterator[None]:
    """Turn the failure to start a thread in a ``with`` block into a ``ThreadError``."""
    try:
        yield
    except RuntimeError as error:
        if not any(reason in str(error) for reason in _NO_THREAD):
            raise
        advice = "use fewer --jobs (jobs=), or raise the limit of processes (ulimit -u) or of the control group"
        raise ThreadError(f"no thread can be started: the system has no more for this process; {advice}") from error


def _quota() -> float | None:
    """Return how many cores the control group may use; None: it has no limit."""
    for path in _QUOTAS:
        try:
            with open(path) as file:
                fields = file.read().split()
            if len(fields) == 1:
                with open(_PERIOD) as file:
                    fields += file.read().split()
            quota, period = (float(field) for field in fields)  # "max" is no number
        except (OSError, ValueError):
            continue
        return quota / period if quota > 0 and period > 0 else None
    return None
