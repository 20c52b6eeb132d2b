"""Simulation of a run in shards on 1 to 1,000 workers, fed with measured times.

    python -m benchmarks.cluster [DATA] [--output docs/scale.md]

DATA holds ``test/libri/lat.ark.gz`` and ``words.txt.gz``. CPU seconds of one thread are measured on this machine: for
an hour of speech, start-up, the records of a shard, and joining parts. Failure rates and speeds of other machines are
assumed: see `RATES`, `Cluster`. Needs simpy.
"""

from __future__ import annotations

import math
import os
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

from benchmarks.command import ENGLISH, argument, command, output
from benchmarks.measure import ninja as ninja_command
from benchmarks.measure import run as run_command
from benchmarks.tables import head, put, row

# Hours between two failures of a worker. Data centre: 419 in 54 days on 16,384 GPUs (The Llama 3 Herd of Models, 2024,
# section 3.3.4); the others are chosen.
RATES = {"none": math.inf, "data centre": 54 * 24 * 16_384 / 419, "old machines": 500.0, "spot": 5.0}
CALL = 0.0014  # seconds of Ray's driver for each call, measured with Ray 2.60 on two cores
NOTICED = 16.0  # seconds until Ray reports that a node is dead, likewise
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
    """Workers and their failures."""

    workers: int
    failure: float = math.inf  # hours between two failures of a worker
    repair: float = 300.0  # seconds until it is replaced
    slow: float = 0.01  # share of workers that are slower ...
    factor: float = 3.0  # ... by this
    spread: float = 0.1  # relative deviation of the speed of the other machines
    spare: bool = True  # idle workers repeat the last shards
    link: float = 100e6  # bytes a second of one worker's reading
    store: float = 5e9  # bytes a second of the store, for all


@dataclass(slots=True)
class Outcome:
    """Time and work of a run."""

    seconds: float
    efficiency: float  # work / total capacity of the workers in this time, at their individual speeds
    repeated: float  # share of the work that was done more than once
    attempts: int


def simulate(work: float, size: float, shards: int, cluster: Cluster, measured: Measured, seed: int = 1) -> Outcome:
    """Simulate a run.

    Args:
        work: Seconds of one core.
        size: Bytes that are read.
        shards: Number of shards.
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
    return Outcome(total, work / (queue.speed * total), max(0.0, queue.started_work / work - 1), queue.attempts)


class Queue:
    """Assign shards to idle workers, as `ninja.pipeline.ray_cluster` does."""

    def __init__(
        self, seconds: Any, size: float, cluster: Cluster, measured: Measured, draw: np.random.Generator
    ) -> None:
        self.environment = simpy.Environment()
        self.all_done = self.environment.event()
        self.started_work = 0.0  # seconds of work at full speed, failed attempts included
        self.attempts = 0
        self.speed = 0.0  # of all workers, in average workers
        self._seconds, self._size, self._cluster, self._measured, self._draw = seconds, size, cluster, measured, draw
        self._waiting = deque(range(len(seconds)))
        self._running: dict[int, list[float]] = {}  # beginnings of the attempts at a shard
        self._finished = np.zeros(len(seconds), bool)
        self._remaining = len(seconds)
        self._took, self._num_done = 0.0, 0
        self._driver = simpy.Resource(self.environment)
        self._store = simpy.Resource(self.environment, max(1, round(cluster.store / cluster.link)))

    def worker(self) -> Iterator[Any]:
        """Process shards until all are done."""
        environment, draw, cluster = self.environment, self._draw, self._cluster
        first = True
        while True:  # one iteration for each machine, because failed ones are replaced
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
        """Return the next shard; after the last one, one whose attempt takes long."""
        now = self.environment.now
        while self._waiting:
            shard = self._waiting.popleft()
            if not self._finished[shard]:
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
            self.started_work += max(0.0, end - environment.now) / slowness
            yield environment.timeout(max(0.0, end - environment.now))
            environment.process(self._notice(shard))
            return
        yield environment.timeout(seconds)
        self.started_work += self._seconds[shard]
        if not self._finished[shard]:
            self._finished[shard] = True
            self._took += seconds
            self._num_done += 1
            self._running.pop(shard, None)
            self._remaining -= 1
            if not self._remaining:
                self.all_done.succeed()

    def _notice(self, shard: int) -> Iterator[Any]:
        yield self.environment.timeout(NOTICED)
        if not self._finished[shard]:
            begins = self._running.get(shard, [])
            if begins:
                begins.pop(0)
            if not begins:
                self._running.pop(shard, None)
                self._waiting.appendleft(shard)


def measure(data: Path, folder: Path) -> Measured:
    """Measure the times of this machine."""
    import ninja
    from ninja.pipeline.join import join_shards
    from ninja.pipeline.plan import PartOutput, Plan, Shard, units
    from ninja.pipeline.shard import Outcome as ShardOutcome
    from ninja.pipeline.shard import missing, run_shard

    archive = data / "test" / "libri" / "lat.ark.gz"
    words = ninja.SymbolTable.read(data / "words.txt.gz")
    lattices = list(ninja.read(archive, words=words))
    single_path, plain_path = (str(folder / name) for name in ("one.ark", "plain.ark"))
    for path, part in ((single_path, lattices[:1]), (plain_path, lattices)):
        with ninja.write(path) as output:
            for _, lattice in part:
                output.write(lattice)
    arcs = np.array([lattice.num_arcs for _, lattice in lattices], float)
    hours = sum(_seconds_of(lattice) for _, lattice in lattices) / 3600
    rescore = ["rescore", "--words", str(data / "words.txt.gz"), "-o", str(folder / "out.ark")]
    start = _run([*rescore, single_path])
    rescored = _run([*rescore, plain_path]) - start
    pruned = _run(["prune", plain_path, plain_path, plain_path, plain_path, plain_path, "-o", str(folder / "out.ark")])
    pruned = (pruned - _run(["prune", single_path, "-o", str(folder / "out.ark")])) / 5
    parts, states = units(plain_path)
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
        tuple(parts),
    )
    part = np.random.default_rng(0).bytes(Path(plain_path).stat().st_size // shards)

    def work(shard: Any) -> ShardOutcome:
        Path(shard.outputs["output_file"]).write_bytes(part)
        return ShardOutcome(1)

    begin = time.process_time()
    for number in range(1, shards + 1):
        run_shard(plan, Shard(number, shards), work)
    seconds = (time.process_time() - begin) / shards
    begin = time.process_time()
    missing(plan)
    check_seconds = (time.process_time() - begin) / shards
    begin = time.process_time()
    join_shards(target)
    join = shards * len(part) / (time.process_time() - begin)
    return Measured(
        rescored / hours,
        pruned / hours,
        archive.stat().st_size / hours,
        Path(plain_path).stat().st_size / hours,
        rescored / len(lattices),
        float(arcs.std() / arcs.mean()),
        start,
        seconds,
        check_seconds,
        join,
    )


def _seconds_of(lattice: Any) -> float:
    from ninja.lattice.times import state_times

    return float(state_times(lattice).max()) * (lattice.frame_shift or 0.01)


def _run(arguments: list[str]) -> float:
    """Return the CPU seconds of a command of one thread."""
    os.environ["OMP_NUM_THREADS"] = "1"
    return run_command(ninja_command(*arguments)).cpu


SHARD = 60  # seconds of a core
SIZES = (10, 60, 300, 1200)


def _time(seconds: float) -> str:
    for unit, name in ((86400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= unit:
            return f"{seconds / unit:.1f} {name}"
    return f"{seconds:.1f} s"


def report(measured: Measured) -> list[str]:
    """Return the tables of docs/scale.md."""
    work, size = measured.rescore * HOURS, measured.packed * HOURS

    def run(seconds: float, cluster: Cluster) -> Outcome:
        return simulate(work, size, max(1, round(work / seconds)), cluster, measured)

    packed, plain = f"{measured.packed / 1e6:.1f}", f"{measured.plain / 1e6:.0f}"
    lines = [
        *head("measurement (CPU time of one core)", ""),
        row("lattices of an hour of speech, gzipped / uncompressed", f"{packed} / {plain} MB"),
        row("rescoring an hour of speech", f"{measured.rescore:.0f} s"),
        row("pruning an hour of speech", f"{measured.prune:.2f} s"),
        row("starting a worker, until its first lattice is rescored", f"{measured.start:.1f} s"),
        row("writing the folder, parts and record of a shard", f"{1000 * measured.shard:.0f} ms"),
        row("checking that a shard is done", f"{1000 * measured.look:.2f} ms"),
        row("`ninja gather`", f"{measured.join / 1e6:.0f} MB/s"),
        "",
        f"**Number of workers.** {HOURS:,.0f} hours of speech, which take {work / 3600:,.0f} core hours, "
        f"in shards of {SHARD} s:",
        "",
        *head("workers", "wall time", "efficiency", "without slow machines", "without second attempts",
              "one shard per worker"),
    ]  # fmt: skip
    for workers in WORKERS:
        cluster = Cluster(workers, RATES["data centre"])
        no_spares = replace(cluster, spare=False)
        outcomes = [run(SHARD, machines) for machines in (cluster, replace(cluster, slow=0), no_spares)]
        outcomes.append(simulate(work, size, workers, no_spares, measured))
        shares = (f"{outcome.efficiency:.0%}" for outcome in outcomes)
        lines.append(row(f"{workers:,}", _time(outcomes[0].seconds), *shares))
    lines += [
        "",
        "**Size of shards.** Efficiency of the same run on 1,000 workers (and the share of work that was done twice):",
        "",
        *head("a worker fails every", *(f"{seconds} s" for seconds in SIZES)),
    ]
    for name, rate in RATES.items():
        outcomes = [run(seconds, Cluster(1_000, rate)) for seconds in SIZES]
        cells = (f"{outcome.efficiency:.0%} ({outcome.repeated:.1%})" for outcome in outcomes)
        lines.append(row(name if rate == math.inf else f"{rate:,.0f} h ({name})", *cells))
    times = 1e6 / HOURS
    shards = round(times * work / 600)
    large = simulate(times * work, times * size, shards, Cluster(1_000, RATES["old machines"]), measured)
    seconds = measured.rescore * 1e6 / shards, measured.prune * 1e6 / shards
    calls = (1e3 / seconds[0], 1e3 / seconds[1])
    read = (1_000 * measured.packed / measured.rescore, 1_000 * measured.plain / measured.prune)
    looks = _time(shards * measured.look)
    joins = [_time(1e6 * size / measured.join) for size in (measured.packed, measured.plain)]
    return [
        *lines,
        "",
        f"**A million hours** on 1,000 workers that fail every {RATES['old machines']:.0f} h, in {shards:,} shards of",
        f"10 minutes: {_time(large.seconds)}, efficiency {large.efficiency:.1%}, "
        f"{large.attempts - shards:,} additional attempts.",
        "",
        "Load on shared resources, also for pruning the same lattices, uncompressed, in shards of the same size:",
        "",
        *head("", "capacity", "rescoring", "pruning"),
        row("reading the store (assumed)", "5 GB/s", f"{read[0] / 1e9:.2g} GB/s", f"{read[1] / 1e9:,.0f} GB/s"),
        row("calls of Ray's driver per second", f"{1 / CALL:.0f}", f"{calls[0]:.1f}", f"{calls[1]:,.0f}"),
        row("checking the shards at the start", f"{1 / measured.look:,.0f} shards per second", looks, looks),
        row("`ninja gather` into one file", f"{measured.join / 1e6:.0f} MB/s", *joins),
    ]


@command
@argument("data", default=ENGLISH)
@output
def main(data: Path, output: Path | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        measured = measure(data, Path(folder))
    print(measured, file=sys.stderr)
    lines = report(measured)
    print("\n".join(lines))
    put(output, "simulation", lines)


if __name__ == "__main__":
    main()
