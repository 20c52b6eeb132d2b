"""Worker processes and the thread that manages them are gone when a stream ends, however it ends."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from ninja.errors import WorkerError
from ninja.lattice import Lattice
from ninja.parallel.pipeline import Each, stream


def lattices(number):
    for index in range(number):
        key = f"utt{index}"
        yield key, Lattice.from_arrays(key, [0, 1, 1], [1], [1], [index], [0], [np.inf, 0])


def arcs(lattice):
    return lattice.num_arcs


def dies(lattice):
    raise SystemExit(9)


@pytest.mark.parametrize("how", ["read to its end", "left early", "a worker died"])
def test_no_thread_outlives_a_stream(how):
    # One that does is woken by Python at its end through a pipe that it may be closing: "Bad file descriptor".
    before = set(threading.enumerate())
    found = stream(lattices(8), Each(dies if how == "a worker died" else arcs), jobs=2, batch_arcs=2)
    if how == "a worker died":
        with pytest.raises((WorkerError, SystemExit)):
            next(found)
    elif how == "left early":
        next(found)
        found.close()
    else:
        assert len(list(found)) == 8
    assert not set(threading.enumerate()) - before  # others may have ended meanwhile


def much(lattice):
    return bytes(1 << 24)  # more than a pipe holds


@pytest.mark.parametrize("attempt", range(4))
def test_workers_that_are_ended_within_an_answer_hold_nobody_up(attempt):
    before = set(threading.enumerate())
    found = stream(lattices(64), Each(much), jobs=2, batch_arcs=1)
    next(found)
    found.close()
    assert not set(threading.enumerate()) - before
