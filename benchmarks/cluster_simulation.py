"""What 1 to 1,000 workers make of a run in shards: a simulation of their queue, fed with measured times.

    python -m benchmarks.cluster_simulation [DATA] [--output docs/scale.md]

DATA holds ``test/libri/lat.ark.gz`` and ``words.txt.gz``. Measured on this machine are CPU seconds of one thread: of an
hour of speech, of a start, of a shard's records, of joining parts. Not measured are rates of failures and the speeds of
other people's machines: see `RATES`, `Cluster`. Needs simpy.
"""

from __future__ import annotations

import argparse
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import simpy

HERE = Path(__file__).resolve().parent
SHARED = HERE.parents[1] / "shared" / "data" / "english"
# Hours between two failures of a worker. Data centre: 419 in 54 days on 16,384 GPUs (The Llama 3 Herd of Models, 2024,
# section 3.3.4); the others are chosen.
RATES = {"none": math.inf, "data centre": 54 * 24 * 16_384 / 419, "old machines": 500.0, "spot": 5.0}
CALL = 0.0014  # seconds of Ray's driver for each call, measured with Ray 2.60 on two cores
NOTICED = 16.0  # seconds until Ray tells that a node is dead, likewise
FACTOR = 1.5  # as `ninja.pipeline.ray_cluster.SPARE_FACTOR`
HOURS = 50_000.0  # of speech, in most tables
WORKERS = (1, 10, 100, 1_000)


@dataclass(frozen=True, slots=True)
class Measured:
    """Times and sizes of one machine; seconds are of one core."""

    rescore: float  # seconds for an hour of speech
    prune: float  # likewise
    packed: float  # bytes of an hour of speech, gzip
    plain: float  # likewise, unpacked
    lattice: float  # seconds of rescoring a lattice, mean ...
    spread: float  # ... and standard deviation, as a share of it
    start: float  # seconds until the first lattice is rescored: Python, torch, the model
    shard: float  # seconds for a shard's folder, parts and record
    look: float  # seconds to see that a shard is done
    join: float  # bytes a second of ninja gather


@dataclass(frozen=True, slots=True)
class Cluster:
    """Workers and how they go wrong."""

    workers: int
    failure: float = math.inf  # hours between two failures of a worker
    repair: float = 300.0  # seconds until another is there in its place
    slow: float = 0.01  # share of workers that are slower ...
    factor: float = 3.0  # ... by this
    spread: float = 0.1  # of the speed of the others
    spare: bool = True  # the last shards are given to idle workers, too
    link: float = 100e6  # bytes a second of one worker's reading
    store: float = 5e9  # bytes a second of the store, for all


@dataclass(slots=True)
class Outcome:
    """What a run took."""

    seconds: float
    efficiency: float  # work / what all workers, each at its own speed, could have done in that time
    again: float  # share of the work that was done more than once
    attempts: int


def simulate(work: float, size: float, shards: int, cluster: Cluster, measured: Measured, seed: int = 1) -> Outcome:
    """Simulate a run.

    Args:
        work: Seconds of one core.
        size: Bytes that are read.
        shards: Their number.
    """
    draw = np.random.default_rng(seed)
    count = max(1.0, work / measured.lattice / shards)  # lattices of a shard
    seconds = draw.gamma(count / measured.spread**2, measured.spread**2 / count, shards)
    seconds *= work / seconds.sum()
    queue = Queue(seconds, size / shards, cluster, measured, draw)
    for _ in range(cluster.workers):
        queue.environment.process(queue.worker())
    queue.environment.run(queue.all_done)
    total = queue.environment.now
    return Outcome(total, work / (queue.speed * total), max(0.0, queue.begun / work - 1), queue.attempts)


class Queue:
    """Shards that are handed to idle workers, as `ninja.pipeline.ray_cluster` hands them."""

    def __init__(
        self, seconds: Any, size: float, cluster: Cluster, measured: Measured, draw: np.random.Generator
    ) -> None:
        self.environment = simpy.Environment()
        self.all_done = self.environment.event()
        self.begun = 0.0  # seconds of work at full speed, also of attempts that came to nothing
        self.attempts = 0
        self.speed = 0.0  # of all workers; 1: one that is neither slow nor fast
        self._seconds, self._size, self._cluster, self._measured, self._draw = seconds, size, cluster, measured, draw
        self._waiting = deque(range(len(seconds)))
        self._running: dict[int, list[float]] = {}  # when the attempts at a shard began
        self._done = np.zeros(len(seconds), bool)
        self._left = len(seconds)
        self._took, self._num_done = 0.0, 0
        self._driver = simpy.Resource(self.environment)
        self._store = simpy.Resource(self.environment, max(1, round(cluster.store / cluster.link)))

    def worker(self) -> Iterator[Any]:
        """Do shards until there are none."""
        environment, draw, cluster = self.environment, self._draw, self._cluster
        first = True
        while True:  # one turn for each machine that takes this place
            slowness = cluster.factor if draw.random() < cluster.slow else math.exp(draw.normal(0, cluster.spread))
            if first:
                self.speed += 1 / slowness
                first = False
            lives = draw.exponential(3600 * cluster.failure) if cluster.failure < math.inf else math.inf
            end = environment.now + lives
            yield environment.timeout(self._measured.start * slowness)
            while environment.now < end:
                shard = self._next()
                if shard is None:
                    yield environment.timeout(5.0)
                    continue
                with self._driver.request() as turn:
                    yield turn
                    yield environment.timeout(CALL)
                with self._store.request() as turn:
                    yield turn
                    yield environment.timeout(self._size / cluster.link)
                yield from self._attempt(shard, slowness, end)
            yield environment.timeout(cluster.repair)

    def _next(self) -> int | None:
        """Return a shard; behind the last one, one that takes long."""
        now = self.environment.now
        while self._waiting:
            shard = self._waiting.popleft()
            if not self._done[shard]:
                self._running.setdefault(shard, []).append(now)
                return shard
        if not self._cluster.spare or not self._running:
            return None
        patience = max(60.0, FACTOR * self._took / max(1, self._num_done))
        shard, begins = min(self._running.items(), key=lambda item: (len(item[1]), item[1][0]))
        if len(begins) > 1 or now - begins[0] <= patience:
            return None
        begins.append(now)
        return shard

    def _attempt(self, shard: int, slowness: float, end: float) -> Iterator[Any]:
        environment = self.environment
        seconds = (self._seconds[shard] + self._measured.shard) * slowness
        self.attempts += 1
        if environment.now + seconds > end:
            self.begun += max(0.0, end - environment.now) / slowness
            yield environment.timeout(max(0.0, end - environment.now))
            environment.process(self._notice(shard))
            return
        yield environment.timeout(seconds)
        self.begun += self._seconds[shard]
        if not self._done[shard]:
            self._done[shard] = True
            self._took += seconds
            self._num_done += 1
            self._running.pop(shard, None)
            self._left -= 1
            if not self._left:
                self.all_done.succeed()

    def _notice(self, shard: int) -> Iterator[Any]:
        yield self.environment.timeout(NOTICED)
        if not self._done[shard]:
            begins = self._running.get(shard, [])
            if begins:
                begins.pop(0)
            if not begins:
                self._running.pop(shard, None)
                self._waiting.appendleft(shard)


def measure(data: Path, folder: Path) -> Measured:
    """Take the times of this machine."""
    import ninja
    from ninja.pipeline.gather import gather
    from ninja.pipeline.plan import PartOutput, Plan, Shard, units
    from ninja.pipeline.shard import Outcome as Did
    from ninja.pipeline.shard import missing, run_shard

    archive = data / "test" / "libri" / "lat.ark.gz"
    words = ninja.SymbolTable.read(data / "words.txt.gz")
    lattices = list(ninja.read(archive, words=words))
    one, plain = (str(folder / name) for name in ("one.ark", "plain.ark"))
    for path, kept in ((one, lattices[:1]), (plain, lattices)):
        with ninja.write(path) as output:
            for _, lattice in kept:
                output.write(lattice)
    arcs = np.array([lattice.num_arcs for _, lattice in lattices], float)
    hours = sum(_seconds_of(lattice) for _, lattice in lattices) / 3600
    rescore = ["rescore", "--words", str(data / "words.txt.gz"), "-o", str(folder / "out.ark")]
    start = _run([*rescore, one])
    rescored = _run([*rescore, plain]) - start
    pruned = _run(["prune", plain, plain, plain, plain, plain, "-o", str(folder / "out.ark")])
    pruned = (pruned - _run(["prune", one, "-o", str(folder / "out.ark")])) / 5
    found, states = units(plain)
    target = str(folder / "joined.ark")
    shards = 200
    plan = Plan(
        f"{target}.shards",
        shards,
        "copy",
        {},
        "0",
        (PartOutput("output_file", target, "lattices"),),
        tuple(states),
        tuple(found),
    )
    part = np.random.default_rng(0).bytes(Path(plain).stat().st_size // shards)

    def work(part_of: Any) -> Did:
        Path(part_of.outputs["output_file"]).write_bytes(part)
        return Did(1)

    begin = time.process_time()
    for number in range(1, shards + 1):
        run_shard(plan, Shard(number, shards), work)
    each = (time.process_time() - begin) / shards
    begin = time.process_time()
    missing(plan)
    look = (time.process_time() - begin) / shards
    begin = time.process_time()
    gather(target)
    join = shards * len(part) / (time.process_time() - begin)
    return Measured(
        rescored / hours,
        pruned / hours,
        archive.stat().st_size / hours,
        Path(plain).stat().st_size / hours,
        rescored / len(lattices),
        float(arcs.std() / arcs.mean()),
        start,
        each,
        look,
        join,
    )


def _seconds_of(lattice: Any) -> float:
    from ninja.lattice.times import state_times

    return float(state_times(lattice).max()) * (lattice.frame_shift or 0.01)


def _run(arguments: list[str]) -> float:
    """Return the CPU seconds of a command of one thread."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {"OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"}
    subprocess.run(
        [sys.executable, "-m", "ninja", *arguments], check=True, capture_output=True, env=environment, cwd=HERE.parent
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def report(measured: Measured) -> str:
    """Return the tables of docs/scale.md."""
    work, size = measured.rescore * HOURS, measured.packed * HOURS

    def run(seconds: float, cluster: Cluster) -> Outcome:
        return simulate(work, size, max(1, round(work / seconds)), cluster, measured)

    facts = (
        ("an hour of speech, lattices packed / plain", f"{measured.packed / 1e6:.1f} / {measured.plain / 1e6:.0f} MB"),
        ("rescoring it", f"{measured.rescore:.0f} s"),
        ("pruning it", f"{measured.prune:.2f} s"),
        ("start of a worker, until a lattice is rescored", f"{measured.start:.1f} s"),
        ("folder, parts and record of a shard", f"{1000 * measured.shard:.0f} ms"),
        ("seeing that a shard is done", f"{1000 * measured.look:.2f} ms"),
        ("`ninja gather`", f"{measured.join / 1e6:.0f} MB/s"),
    )
    lines = ["| measured, CPU time of one core | |", "|---|---|", *(f"| {what} | {value} |" for what, value in facts)]
    lines += [
        "",
        f"**Workers.** {HOURS:,.0f} hours of speech, {work / 3600:,.0f} hours of a core, in shards of {SHARD} s:",
        "",
        "| workers | wall time | efficiency | without slow machines | without second attempts | one shard a worker |",
        "|---|---|---|---|---|---|",
    ]
    for workers in WORKERS:
        cluster = Cluster(workers, RATES["data centre"])
        alone = replace(cluster, spare=False)
        found = [run(SHARD, each) for each in (cluster, replace(cluster, slow=0), alone)]
        found.append(simulate(work, size, workers, alone, measured))
        shares = " | ".join(f"{each.efficiency:.0%}" for each in found)
        lines.append(f"| {workers:,} | {_time(found[0].seconds)} | {shares} |")
    lines += [
        "",
        "**Size of a shard.** The same on 1,000 workers: efficiency (and the share of the work that was done twice):",
        "",
        "| a worker fails every | " + " | ".join(f"{each} s" for each in SIZES) + " |",
        "|---" * (1 + len(SIZES)) + "|",
    ]
    for name, rate in RATES.items():
        found = [run(seconds, Cluster(1_000, rate)) for seconds in SIZES]
        cells = " | ".join(f"{each.efficiency:.0%} ({each.again:.1%})" for each in found)
        lines.append(f"| {name if rate == math.inf else f'{rate:,.0f} h ({name})'} | {cells} |")
    shards = round(1e6 / HOURS * work / 600)
    large = simulate(1e6 / HOURS * work, 1e6 / HOURS * size, shards, Cluster(1_000, RATES["old machines"]), measured)
    lines += [
        "",
        f"**A million hours** on 1,000 workers that fail every {RATES['old machines']:.0f} h, in {shards:,} shards of",
        f"10 minutes: {_time(large.seconds)}, efficiency {large.efficiency:.1%}, "
        f"{large.attempts - shards:,} attempts more.",
        "",
        "What it asks of what is shared, and pruning the same lattices, plain, in shards as large in bytes:",
        "",
        "| | it can | rescoring asks | pruning asks |",
        "|---|---|---|---|",
    ]
    seconds = measured.rescore * 1e6 / shards, measured.prune * 1e6 / shards
    asks = (1e3 / seconds[0], 1e3 / seconds[1])
    read = [
        1_000 * each / cost for each, cost in ((measured.packed, measured.rescore), (measured.plain, measured.prune))
    ]
    looks = _time(shards * measured.look)
    joins = [_time(1e6 * each / measured.join) for each in (measured.packed, measured.plain)]
    lines += [
        f"| store, 5 GB/s (assumed): reading | 5 GB/s | {read[0] / 1e9:.2g} GB/s | {read[1] / 1e9:,.0f} GB/s |",
        f"| Ray's driver: calls | {1 / CALL:.0f} a second | {asks[0]:.1f} a second | {asks[1]:,.0f} a second |",
        f"| a start: seeing what is done | {1 / measured.look:,.0f} shards a second | {looks} | {looks} |",
        f"| `ninja gather` into one file | {measured.join / 1e6:.0f} MB/s | {joins[0]} | {joins[1]} |",
    ]
    return "\n".join(lines)


SHARD = 60  # seconds of a core
SIZES = (10, 60, 300, 1200)


def _time(seconds: float) -> str:
    for unit, name in ((86400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= unit:
            return f"{seconds / unit:.1f} {name}"
    return f"{seconds:.1f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", type=Path, default=SHARED)
    parser.add_argument("--output", type=Path, help="page in which the tables stand between marks")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measured = measure(options.data, Path(folder))
    print(measured, file=sys.stderr)
    text = report(measured)
    print(text)
    if options.output is not None:
        page = options.output.read_text()
        begin, end = page.index(BEGIN) + len(BEGIN), page.index(END)
        options.output.write_text(f"{page[:begin]}\n{text}\n{page[end:]}")


BEGIN, END = "<!-- simulation -->", "<!-- end -->"

if __name__ == "__main__":
    main()
