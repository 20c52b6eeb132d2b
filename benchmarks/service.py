"""`ninja.Rescorer` under load: throughput of many callers against `ninja.rescore`, latency against load.

    python -m benchmarks.service DATA... [--threads 1] [--repeats 3] [--output docs/howto/live.md]

Each DATA is an archive; ``words.txt.gz`` lies beside the first or two folders above. Three measurements, all with the
shipped model at the options' defaults:

1. `ninja.rescore` over all lattices, and CALLERS threads that submit them one at a time, in alternation. On a machine
   with other work only the CPU seconds say something.
2. The same callers with 1 % of malformed lattices among them.
3. Lattices that come at random (a Poisson process) at a share of the throughput of 1 on one core: how long each takes.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path

import numpy as np

import ninja
from ninja.lattice import Lattice
from ninja.rescoring import RescoreOptions

START, END = "<!-- latency, by benchmarks/service.py -->\n", "<!-- end of latency -->"
CALLERS = 64
LOADS = (0.1, 0.25, 0.5, 0.75, 0.9)
MALFORMED = 100  # one of so many
OPTIONS = RescoreOptions(max_unknown=1.0)  # any lattice may be the first


def timed(call: Callable[[], int]) -> tuple[float, float, int]:
    """Return wall and CPU seconds of a call, and what it returns."""
    wall, cpu = time.perf_counter(), time.process_time()
    found = call()
    return time.perf_counter() - wall, time.process_time() - cpu, found


def offline(lattices: list[Lattice], lm: ninja.lm.LanguageModel) -> int:
    """Rescore all in one run; return how many."""
    return sum(1 for _ in ninja.rescore([(each.key, each) for each in lattices], lm, OPTIONS))


def by_callers(lattices: list[Lattice], lm: ninja.lm.LanguageModel) -> int:
    """Let threads submit lattices one at a time; return how many did not fail."""
    rest, lock = iter(lattices), threading.Lock()
    done: list[Lattice] = []

    def call() -> None:
        while True:
            with lock:
                lattice = next(rest, None)
            if lattice is None:
                return
            try:
                done.append(rescorer.submit(lattice).result())
            except ninja.NinjaError:
                continue

    with ninja.Rescorer(lm, OPTIONS) as rescorer:
        callers = [threading.Thread(target=call) for _ in range(CALLERS)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
    return len(done)


def throughput(lattices: list[Lattice], lm: ninja.lm.LanguageModel, repeats: int) -> float:
    """Print lattices a second of both ways and with malformed lattices; return those of `rescore` in a CPU second."""
    broken = [each.with_costs(np.full_like(each.graph, np.nan)) for each in lattices[::MALFORMED]]
    ways: dict[str, Callable[[], int]] = {
        "ninja.rescore": lambda: offline(lattices, lm),
        f"{CALLERS} callers": lambda: by_callers(lattices, lm),
        f"{CALLERS} callers, and {len(broken)} malformed lattices more": lambda: by_callers(
            [each for at, one in enumerate(lattices) for each in (one, *broken[at // MALFORMED : at % MALFORMED == 0])],
            lm,
        ),
    }
    best: dict[str, tuple[float, float]] = {name: (np.inf, np.inf) for name in ways}
    offline(lattices[:5], lm)  # to warm up
    for _ in range(repeats):
        for name, way in ways.items():
            wall, cpu, done = timed(way)
            assert done == len(lattices), f"{name}: {done} of {len(lattices)}"
            best[name] = min(best[name][0], wall), min(best[name][1], cpu)
    first = best["ninja.rescore"]
    for name, (wall, cpu) in best.items():
        print(
            f"{name:45} {len(lattices) / wall:6.1f} lattices/s wall ({first[0] / wall:.2f} of the first), "
            f"{cpu:6.2f} CPU s ({first[1] / cpu:.2f})"
        )
    return len(lattices) / first[1]


def latencies(lattices: list[Lattice], lm: ninja.lm.LanguageModel, rate: float) -> np.ndarray:
    """Return the seconds that each of some lattices takes which come at random, so many a second.

    Time is that of the CPU, but for this thread's, and what lies between two lattices while nothing is in flight is
    skipped: so other work on the machine does not count, and the figures are those of one core of its own.
    """
    random = np.random.default_rng(1)
    found: list[float] = []
    skipped = 0.0

    own = time.pthread_getcpuclockid(threading.get_ident())

    def now() -> float:
        return time.process_time() - time.clock_gettime(own) + skipped

    with ninja.Rescorer(lm, OPTIONS, max_latency=0.0) as rescorer:
        due = now()
        for count, at in enumerate(random.permutation(len(lattices))):
            due += random.exponential(1 / rate)
            while now() < due:
                if len(found) == count:
                    skipped += max(0.0, due - now())
                else:
                    time.sleep(0.001)

            def done(future: Future[Lattice], due: float = due) -> None:
                assert future.result().num_arcs
                found.append(now() - due)

            rescorer.submit(lattices[at]).add_done_callback(done)
    assert len(found) == len(lattices), "some lattices failed"
    return np.array(found)


def latency_table(lattices: list[Lattice], lm: ninja.lm.LanguageModel, most: float) -> Iterator[str]:
    """Yield the rows of a table: load, lattices a second, median and 99th percentile of the latency."""
    yield "| load | lattices a second | p50, ms | p99, ms |"
    yield "|---|---|---|---|"
    for load in LOADS:
        seconds = latencies(lattices, lm, load * most)
        middle, worst = (1000 * np.percentile(seconds, share) for share in (50, 99))
        yield f"| {load:.0%} | {load * most:.1f} | {middle:.0f} | {worst:.0f} |"


def read(paths: list[Path]) -> list[Lattice]:
    """Return the lattices of archives, with one symbol table: the model is bound anew to each other one."""
    places = [paths[0].parent / "words.txt.gz", paths[0].parents[2] / "words.txt.gz"]
    words = ninja.SymbolTable.read(next(place for place in places if place.is_file()))
    return [lattice for path in paths for _, lattice in ninja.read(path, words=words)]


def main() -> None:
    """Measure, print, and put the table into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+", type=Path, metavar="DATA")
    parser.add_argument("--threads", type=int, default=1, help="of the network")
    parser.add_argument("--repeats", type=int, default=3, help="of the throughput; the fastest counts")
    parser.add_argument("--output", type=Path, help="page whose table is replaced")
    parser.add_argument("--only-throughput", action="store_true")
    given = parser.parse_args()
    import torch

    torch.set_num_threads(given.threads)
    lattices = read(given.data)
    arcs = sum(lattice.num_arcs for lattice in lattices)
    print(f"{len(lattices)} lattices, {arcs} arcs")
    lm = ninja.lm.load()
    most = throughput(lattices, lm, given.repeats)
    if given.only_throughput:
        return
    rows = []
    for row in latency_table(lattices, lm, most):
        print(row, flush=True)
        rows.append(row)
    if given.output is not None:
        before, _, rest = given.output.read_text().partition(START)
        _, _, after = rest.partition(END)
        given.output.write_text(before + START + "\n".join(["", *rows, "", END]) + after)


if __name__ == "__main__":
    main()
