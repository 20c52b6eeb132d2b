"""Run shards in actors of a Ray cluster."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import ActorDiedError, RayError, RayTaskError

from ninja.errors import NinjaError, OptionError, WorkerError, counted, named
from ninja.lattice.batch import num_cores
from ninja.pipeline.plan import Plan, Shard
from ninja.pipeline.record import Record
from ninja.pipeline.shard import Work, run_shard

ATTEMPTS = 3  # maximum number of attempts per shard
STORE = 80_000_000  # bytes of the object store of a new cluster; Ray's minimum is enough for the small objects here
# If no shard is waiting, an idle actor runs a second attempt at a shard that has run for SPARE_AFTER seconds and for
# SPARE_FACTOR times the mean duration; see docs/scale.md.
SPARE_AFTER = 60.0
SPARE_FACTOR = 1.5


class ShardActor:
    """Ray actor that runs shards and loads the models once."""

    def __init__(self, plan: Plan, start: Callable[[], Work]) -> None:
        self._plan = plan
        self._start = start
        self._work: Work | None = None

    def run(self, shard: Shard) -> Record:
        """Run a shard and return its record."""
        if self._work is None:
            self._work = self._start()
        return run_shard(self._plan, shard, self._work)

    @ray.method(max_task_retries=-1)  # type: ignore[untyped-decorator]  # waits until Ray has restarted the actor
    def ready(self) -> None:
        """Return as soon as the actor is running."""


@dataclass(slots=True)
class _Call:
    """A shard that is running on an actor."""

    shard: Shard
    actor: Any
    begin: float  # time.monotonic()


def run_on_ray(
    plan: Plan,
    shards: list[Shard],
    start: Callable[[], Work],
    address: str | None,
    cores: int,
    gpus: float,
    on_record: Callable[[Record], None],
) -> None:
    """Run shards on a Ray cluster; see `ninja.pipeline.cluster.run`."""
    with connected(address):
        options = {"num_cpus": cores, "num_gpus": gpus, "max_restarts": -1}
        count = min(len(shards), num_actors(cores, gpus))
        actors: list[Any] = [ray.remote(ShardActor).options(**options).remote(plan, start) for _ in range(count)]
        try:
            _run_shards(shards, actors, on_record, plan.shards)
        finally:
            for actor in actors:
                ray.kill(actor)


@contextmanager
def connected(address: str | None) -> Iterator[None]:
    """Connect to a Ray cluster in a ``with`` block, unless this process is already connected.

    Args:
        address: ``HOST:PORT``. None connects to the cluster that runs on this machine, or starts a local one.

    Raises:
        OptionError: The cluster cannot be reached.
    """
    if ray.is_initialized():
        yield
        return
    _connect(address)
    try:
        yield
    finally:
        ray.shutdown()


def has_gpus() -> bool:
    """Return whether any node of the cluster has a GPU."""
    return bool(ray.cluster_resources().get("GPU", 0) > 0)


def _connect(address: str | None) -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # otherwise a new cluster sends usage statistics
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    handler = signal.getsignal(signal.SIGTERM)
    try:
        if address is not None:  # test the connection first, because Ray would retry for minutes
            host, _, port = address.rpartition(":")
            socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
        ray.init(address or "auto", **quiet)
    except OSError as error:
        if address is not None:
            raise OptionError(f"cannot connect to a Ray cluster at {address}: {error.strerror or error}") from error
        ray.init("local", num_cpus=num_cores(), include_dashboard=False, object_store_memory=STORE, **quiet)
    except (RuntimeError, ValueError) as error:  # different version of Ray or Python, or an invalid address
        where = "on this machine" if address is None else f"at {address}"
        raise OptionError(f"the Ray cluster {where} cannot be used: {str(error).splitlines()[0]}") from error
    finally:
        if handler is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)  # Ray's handler changes the exit status


def num_actors(cores: int, gpus: float) -> int:
    """Return the number of actors for which the nodes of the cluster have enough resources.

    Args:
        cores: Number of cores per actor.
        gpus: Number of GPUs per actor.

    Raises:
        OptionError: No node has enough cores and GPUs.
    """
    count = 0
    for node in ray.nodes():
        if node["Alive"]:
            resources = node["Resources"]
            capacity = resources.get("CPU", 0) // cores
            count += int(min(capacity, resources.get("GPU", 0) // gpus) if gpus else capacity)
    if not count:
        resources = f"{cores} cores" + (f" and {gpus:g} GPUs" if gpus else "")
        raise OptionError(f"each worker needs {resources}, but no node of the Ray cluster has these resources")
    return count


def _run_shards(shards: list[Shard], actors: list[Any], on_record: Callable[[Record], None], of: int) -> None:
    """Run shards on actors until all are complete or have failed repeatedly.

    Ray's own retries (``max_task_retries``) are not used: they count calls to an actor that is still restarting, and
    they tie a shard to an actor that may no longer fit on any node.

    Args:
        shards: Shards to run.
        actors: Ray actors of class `ShardActor`.
        on_record: Function that is called with the record of each completed shard.
        of: Number of shards of the plan, for messages.
    """
    waiting, idle = deque(shards), deque(actors)
    calls: dict[Any, _Call] = {}
    restarting: dict[Any, Any] = {}  # reference of a `ready` call → actor
    attempts: Counter[Shard] = Counter()
    done: set[Shard] = set()
    failed: dict[Shard, str] = {}
    mean = 0.0  # seconds per shard
    while len(done) + len(failed) < len(shards):
        while idle and (shard := _next(waiting, calls, mean)) is not None:
            actor = idle.popleft()
            calls[actor.run.remote(shard)] = _Call(shard, actor, time.monotonic())
        ready, _ = ray.wait([*calls, *restarting], num_returns=1, timeout=1.0)
        for answer in ready:
            if (call := calls.pop(answer, None)) is None:
                actor = restarting.pop(answer)
                with suppress(RayError):  # the actor could not be restarted
                    ray.get(answer)
                    idle.append(actor)
                continue
            try:
                record = ray.get(answer)
            except RayError as error:
                cause = error.cause if isinstance(error, RayTaskError) else error
                if isinstance(cause, NinjaError) and cause.of_run:
                    raise cause from None
                if isinstance(error, RayTaskError):
                    idle.append(call.actor)
                elif not isinstance(error, ActorDiedError):
                    restarting[call.actor.ready.remote()] = call.actor
                elif not calls and not restarting and not idle:
                    reason = str(error).strip().splitlines()[-1]
                    raise WorkerError(f"no worker could be started on the Ray cluster: {reason}") from error
                attempts[call.shard] += not isinstance(error, ActorDiedError)
                if call.shard in done or any(other.shard == call.shard for other in calls.values()):
                    continue
                if attempts[call.shard] < ATTEMPTS:
                    waiting.append(call.shard)
                else:
                    failed[call.shard] = _reason(cause)
                continue
            idle.append(call.actor)
            if call.shard not in done:
                done.add(call.shard)
                mean += (time.monotonic() - call.begin - mean) / len(done)
                on_record(record)
    if failed:
        reasons = [f"{shard.number}/{shard.of} ({reason})" for shard, reason in failed.items()]
        count = f"{len(failed)} of {counted(of, 'shard')}"
        raise WorkerError(f"{count} failed after {ATTEMPTS} attempts: {named(reasons)}; the others are complete")


def _next(waiting: deque[Shard], calls: dict[Any, _Call], mean: float) -> Shard | None:
    """Return the next shard to run: a waiting shard, or a shard that has run so long that its node may be dead.

    Args:
        waiting: Waiting shards; the returned shard is removed.
        calls: Running shards, keyed by Ray object reference.
        mean: Mean duration of the completed shards in seconds.

    Returns:
        The shard, or None if there is no shard to run.
    """
    if waiting:
        return waiting.popleft()
    patience = max(SPARE_AFTER, SPARE_FACTOR * mean)
    running = Counter(call.shard for call in calls.values())
    late = [call for call in calls.values() if running[call.shard] == 1 and time.monotonic() - call.begin > patience]
    return min(late, key=lambda call: call.begin).shard if late else None


def _reason(error: BaseException) -> str:
    if isinstance(error, NinjaError):
        return str(error)
    if isinstance(error, RayError):
        return "its worker died; it may have run out of memory"
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]
