"""Start workers: processes of this machine, or those that torchrun has started on many."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import re
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

import torch
import torch.distributed as dist

from ninja.errors import NinjaError, OptionError, WorkerError
from ninja.train.parallel.workers import LostContact, Workers

HOST = "127.0.0.1"
_OF_NETWORK = re.compile("gloo|nccl|connection", re.IGNORECASE)
PATIENCE = timedelta(days=1)  # of workers that wait for a slow one; one that is gone is noticed at once
GRACE = 2.0  # seconds in which the first cause of a failure shows, and in which processes may end by themselves


def started_by_torchrun() -> bool:
    """Tell whether this process is one of several that torchrun, or a program like it, has started."""
    return {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"} <= os.environ.keys()


def num_of_torchrun() -> int:
    """Return the number of workers that torchrun has started on all machines."""
    return int(os.environ["WORLD_SIZE"])


def restarted() -> bool:
    """Tell whether torchrun has started the workers again after one of them died."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


@contextlib.contextmanager
def of_torchrun(device: str) -> Iterator[Workers]:
    """Meet the other workers that torchrun has started."""
    local = int(os.environ["LOCAL_RANK"]), int(os.environ.get("LOCAL_WORLD_SIZE", os.environ["WORLD_SIZE"]))
    store, rank, size = next(dist.rendezvous("env://"))
    with _group(Workers(rank, size, *local, _of_this_start(store, rank, size)), device) as workers:
        yield workers


def _of_this_start(store: dist.Store, rank: int, size: int) -> dist.Store:
    """Return a store without the keys of workers that have ended.

    After a death torchrun starts all workers again with the same store, where the addresses of the dead still stand.
    Numbers of restarts do not help, for agents of several machines count their own. So worker 0 makes up a name, and
    gives it to those that show by a name of theirs that they are new.
    """
    own = uuid.uuid4().hex
    if rank:
        store.set(f"ninja/here/{rank}", own)
        name = store.get(f"ninja/answer/{own}").decode()
        store.set(f"ninja/{name}/{rank}", "joined")
        return dist.PrefixStore(f"ninja/{name}", store)
    missing = list(range(1, size))
    while missing:
        for each in missing:
            if store.check([f"ninja/here/{each}"]):
                store.set(f"ninja/answer/{store.get(f'ninja/here/{each}').decode()}", own)
        time.sleep(0.02)
        missing = [each for each in missing if not store.check([f"ninja/{own}/{each}"])]
    return dist.PrefixStore(f"ninja/{own}", store)


@contextlib.contextmanager
def one(device: str) -> Iterator[Workers]:
    """Make a group of this process alone."""
    with _group(Workers(store=dist.HashStore()), device) as workers:
        yield workers


@contextlib.contextmanager
def _group(workers: Workers, device: str) -> Iterator[Workers]:
    backend = "gloo" if torch.device(device).type == "cpu" else "cpu:gloo,cuda:nccl"
    try:
        store, rank, size = workers.store, workers.rank, workers.size
        dist.init_process_group(backend, timeout=PATIENCE, store=store, rank=rank, world_size=size)
        yield workers
    except RuntimeError as error:
        # Gloo's for closed connections and timeouts have no type of their own.
        if isinstance(error, NinjaError) or not (isinstance(error, dist.DistError) or _OF_NETWORK.search(str(error))):
            raise
        reason = str(error).splitlines()[0][-200:]
        message = f"worker {workers.rank} lost contact with another worker ({reason}); see which one ended first"
        raise LostContact(message) from error
    dist.destroy_process_group()  # after a failure there may be threads that still wait for others


def run(work: Callable[..., Any], arguments: tuple[Any, ...], size: int, device: str, progress: Any) -> Any:
    """Run a function in new processes of this machine, and return what it returns in the first.

    Args:
        work: Called as ``work(*arguments, progress, workers)``; a function of a module.
        progress: Called here with each report of the first worker; None: they are not made.

    Raises:
        WorkerError: A worker was killed.
        NinjaError: What a worker raised; where several did, the cause and not its consequences.
    """
    store = dist.TCPStore(HOST, 0, None, is_master=True, wait_for_workers=False)
    spawn = multiprocessing.get_context("spawn")
    processes: list[SpawnProcess] = []
    pipes: list[Connection] = []
    try:
        for rank in range(size):
            here, there = spawn.Pipe(duplex=False)
            place = rank, size, store.port
            given = (work, arguments, place, device, progress is not None, there)
            process = spawn.Process(target=_work, args=given, name=f"worker {rank}", daemon=True)
            process.start()
            there.close()
            processes.append(process)
            pipes.append(here)
        return _followed(processes, pipes, progress)
    finally:
        for process in processes:
            process.terminate()
        ending = time.monotonic() + GRACE
        for process in processes:
            process.join(max(0.0, ending - time.monotonic()))
            if process.exitcode is None:
                process.kill()
                process.join()


def _work(
    work: Callable[..., Any],
    arguments: tuple[Any, ...],
    place: tuple[int, int, int],
    device: str,
    reports: bool,
    pipe: Connection,
) -> None:
    """Be a worker: the whole life of a process that `run` starts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent, which has it too, ends its workers
    threading.Thread(target=_end_with_parent, daemon=True).start()
    rank, size, port = place
    torch.set_num_threads(max(1, torch.get_num_threads() // size))
    try:
        store = dist.TCPStore(HOST, port, None, is_master=False)
        with _group(Workers(rank, size, rank, size, store), device) as workers:
            result = work(*arguments, (lambda report: pipe.send(("report", report))) if reports else None, workers)
        pipe.send(("result", result))
    except NinjaError as error:
        with contextlib.suppress(OSError):
            pipe.send(("error", error))
        sys.stdout.flush()
        os._exit(1)  # threads that wait for other workers would hold the process


def _end_with_parent() -> None:
    """End this process when the one that started it is gone, however that ended."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _followed(processes: list[SpawnProcess], pipes: list[Connection], progress: Any) -> Any:
    """Pass on reports until all workers have ended; raise the cause if one has failed."""
    results: dict[int, Any] = {}
    errors: dict[int, NinjaError] = {}
    open_pipes = dict(enumerate(pipes))
    running = {process.sentinel: rank for rank, process in enumerate(processes)}
    failed_at: float | None = None
    while running or open_pipes:
        left = None if failed_at is None else failed_at + GRACE - time.monotonic()
        if left is not None and left <= 0:
            break
        ready = wait([*running, *open_pipes.values()], left)
        for rank, pipe in list(open_pipes.items()):
            if pipe in ready:
                try:
                    kind, content = pipe.recv()
                except EOFError:
                    del open_pipes[rank]
                    continue
                if kind == "report":
                    progress(content)
                elif kind == "result":
                    results[rank] = content
                else:
                    errors[rank] = content
        for sentinel in set(running) & set(ready):
            rank = running.pop(sentinel)
            processes[rank].join()
            if processes[rank].exitcode and failed_at is None:
                failed_at = time.monotonic()
    if failed_at is not None:
        raise _cause(processes, errors)
    return results[0]


def _cause(processes: list[SpawnProcess], errors: dict[int, NinjaError]) -> NinjaError:
    """Return what ended a training: a worker that was killed or failed, before those that missed it."""
    for rank, process in enumerate(processes):
        code = process.exitcode
        if code is not None and code != 0 and rank not in errors:
            how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
            named = f"{signal.Signals(-code).name}, " if code < 0 else ""
            return WorkerError(
                f"worker {rank} ({named}process {process.pid}) {how}, and the others with it; "
                "go on from the saved state with resume"
            )
    return min(errors.items(), key=lambda item: (isinstance(item[1], LostContact), item[0]))[1]


def share_of_device(device: str, workers: Workers) -> str:
    """Return this worker's device: where cuda is asked for, one for each worker of a machine."""
    if workers.size == 1 or device != "cuda":
        return device
    if workers.machine_rank >= torch.cuda.device_count():
        message = f"{workers.machine_size} workers, but torch sees {torch.cuda.device_count()} GPUs on this machine"
        raise OptionError(f"{message}; start as many workers as there are GPUs, or use --device cpu")
    return f"cuda:{workers.machine_rank}"
