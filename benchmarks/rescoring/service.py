"""`ninja.Rescorer` under load: throughput of many callers against `ninja.rescore`, latency against load.

    python -m benchmarks.rescoring service ARCHIVE... [--threads 1] [--rounds 3] [--output docs/howto/live.md]

``words.txt.gz`` is next to the first archive or two folders above. Three measurements, all with the shipped model and
default options:

1. `ninja.rescore` over all lattices, and CALLERS threads that submit them one at a time, by turns. On a machine
   with other work only the CPU seconds are meaningful.
2. The same callers with 1% of malformed lattices among them.
3. Lattices that arrive at random (a Poisson process) at a share of the throughput of 1 on one core:
   the latency of each.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

import numpy as np

import ninja
from benchmarks.command import argument, command, option, output
from benchmarks.measure import set_torch_threads
from benchmarks.tables import head, put, row, show
from ninja.lattice import Lattice
from ninja.rescoring import RescoreOptions

CALLERS = 64
LOADS = (0.1, 0.25, 0.5, 0.75, 0.9)
MALFORMED = 100  # one of so many
OPTIONS = RescoreOptions(max_unknown=1.0)  # any lattice may be the first
Item = TypeVar("Item")


def timed(call: Callable[[], int]) -> tuple[float, float, int]:
    """Return wall and CPU seconds of a call, and its result."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = call()
    return time.perf_counter() - wall, time.process_time() - cpu, result


def offline(lattices: list[Lattice], lm: ninja.lm.LanguageModel) -> int:
    """Rescore all lattices in one run; return their number."""
    return sum(1 for _ in ninja.rescore([(lattice.key, lattice) for lattice in lattices], lm, OPTIONS))


def by_callers(lattices: list[Lattice], lm: ninja.lm.LanguageModel) -> int:
    """Submit lattices from threads, one at a time; return the number that did not fail."""
    queue, lock = iter(lattices), threading.Lock()
    results: list[Lattice] = []

    def call() -> None:
        while True:
            with lock:
                lattice = next(queue, None)
            if lattice is None:
                return
            try:
                results.append(rescorer.submit(lattice).result())
            except ninja.NinjaError:
                continue

    with ninja.Rescorer(lm, OPTIONS) as rescorer:
        callers = [threading.Thread(target=call) for _ in range(CALLERS)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
    return len(results)


def throughput(lattices: list[Lattice], lm: ninja.lm.LanguageModel, rounds: int) -> float:
    """Print lattices a second of both ways and with malformed lattices; return the rate of `rescore` per CPU second."""
    broken = [lattice.with_costs(np.full_like(lattice.graph, np.nan)) for lattice in lattices[::MALFORMED]]
    mixed = [
        lattice
        for index, sound in enumerate(lattices)
        for lattice in (sound, *broken[index // MALFORMED : index % MALFORMED == 0])
    ]
    calls: dict[str, Callable[[], int]] = {
        "ninja.rescore": lambda: offline(lattices, lm),
        f"{CALLERS} callers": lambda: by_callers(lattices, lm),
        f"{CALLERS} callers, and {len(broken)} malformed lattices more": lambda: by_callers(mixed, lm),
    }
    best: dict[str, tuple[float, float]] = {name: (np.inf, np.inf) for name in calls}
    offline(lattices[:5], lm)  # to warm up
    for _ in range(rounds):
        for name, call in calls.items():
            wall, cpu, num_rescored = timed(call)
            assert num_rescored == len(lattices), f"{name}: {num_rescored} of {len(lattices)}"
            best[name] = min(best[name][0], wall), min(best[name][1], cpu)
    first = best["ninja.rescore"]
    for name, (wall, cpu) in best.items():
        print(
            f"{name:45} {len(lattices) / wall:6.1f} lattices/s wall ({first[0] / wall:.2f} of the first), "
            f"{cpu:6.2f} CPU s ({first[1] / cpu:.2f})"
        )
    return len(lattices) / first[1]


def latencies(lattices: list[Lattice], lm: ninja.lm.LanguageModel, rate: float) -> np.ndarray:
    """Submit lattices at random times, at a rate of so many a second; return the latency of each in seconds.

    Time is the CPU time of the process without this thread, and idle time between two lattices is skipped: other work
    on the machine does not count, and the latencies are those of one core.
    """
    this_thread = time.pthread_getcpuclockid(threading.get_ident())
    seconds: list[float] = []
    with ninja.Rescorer(lm, OPTIONS, max_latency=0.0) as rescorer:
        arriving = arrivals(lattices, rate, lambda: time.process_time() - time.clock_gettime(this_thread), seconds)
        for lattice, finish in arriving:

            def on_result(future: Future[Lattice], finish: Callable[[], None] = finish) -> None:
                assert future.result().num_arcs
                finish()

            rescorer.submit(lattice).add_done_callback(on_result)
    assert len(seconds) == len(lattices), "some lattices failed"
    return np.array(seconds)


def arrivals(
    items: Sequence[Item], rate: float, cpu: Callable[[], float], seconds: list[float]
) -> Iterator[tuple[Item, Callable[[], None]]]:
    """Yield each item at a random time (a Poisson process), with a function that appends its latency to `seconds`.

    Args:
        items: The items, which are yielded in a random order.
        rate: Items a second.
        cpu: Returns the CPU time in seconds; idle time between two items is skipped.
        seconds: Latencies of the items that have finished.
    """
    random = np.random.default_rng(1)
    skipped = 0.0

    def now() -> float:
        return cpu() + skipped

    due = now()
    for count, place in enumerate(random.permutation(len(items))):
        due += random.exponential(1 / rate)
        while now() < due:
            if len(seconds) == count:  # all earlier items have finished
                skipped += max(0.0, due - now())
            else:
                time.sleep(0.001)

        def finish(due: float = due) -> None:
            seconds.append(now() - due)

        yield items[place], finish


def latency_table(latencies: Callable[[float], np.ndarray], max_rate: float) -> Iterator[str]:
    """Yield the rows of a table: load, lattices a second, median and 99th percentile of the latency.

    Args:
        latencies: Returns the latencies in seconds at a number of lattices a second.
        max_rate: Lattices a second at a load of 1.
    """
    yield from head("load", "lattices a second", "p50, ms", "p99, ms")
    for load in LOADS:
        seconds = latencies(load * max_rate)
        median, worst = (f"{1000 * np.percentile(seconds, share):.0f}" for share in (50, 99))
        yield row(f"{load:.0%}", f"{load * max_rate:.1f}", median, worst)


def words_file(paths: Sequence[Path]) -> Path:
    """Return the symbol table of archives, which is next to the first archive or two folders above."""
    tables = (paths[0].parent / "words.txt.gz", paths[0].parents[2] / "words.txt.gz")
    return next(table for table in tables if table.is_file())


def read(paths: Sequence[Path]) -> list[Lattice]:
    """Return the lattices of archives, with one symbol table, so that the model is bound to it once."""
    words = ninja.SymbolTable.read(words_file(paths))
    return [lattice for path in paths for _, lattice in ninja.read(path, words=words)]


@command
@argument("archives", nargs=-1, required=True)
@option("--threads", default=1, help="Threads of the network.")
@option("--rounds", default=3, help="Rounds of the throughput; the fastest counts.")
@option("--only-throughput", is_flag=True)
@output
def main(archives: tuple[Path, ...], threads: int, rounds: int, only_throughput: bool, output: Path | None) -> None:
    set_torch_threads(threads)
    lattices = read(archives)
    print(f"{len(lattices)} lattices, {sum(lattice.num_arcs for lattice in lattices)} arcs")
    lm = ninja.lm.load()
    max_rate = throughput(lattices, lm, rounds)
    if not only_throughput:
        put(output, "latency", show(latency_table(lambda rate: latencies(lattices, lm, rate), max_rate)))
