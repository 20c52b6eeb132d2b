"""Functions that start workers as processes on this machine, or join workers that torchrun has started."""

from __future__ import annotations

import contextlib
import gc
import logging
import multiprocessing
import os
import re
import signal
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.nn  # must precede the first group, because default arguments capture the current group
from torch.multiprocessing.spawn import ProcessException, ProcessExitedException, start_processes

from ninja.errors import NinjaError, OptionError, WorkerError
from ninja.train.parallel.workers import TIMEOUT, LostContact, Workers

HOST = "127.0.0.1"
_NETWORK_ERROR = re.compile("gloo|nccl|connection", re.IGNORECASE)
GRACE = 2.0  # seconds that a worker waits after losing contact, so that the failed worker is reported first
POLL_SECONDS = 0.05
# Hides warnings about processes that torch has terminated.
logging.getLogger("torch.multiprocessing.spawn").setLevel(logging.ERROR)


def started_by_torchrun() -> bool:
    """Return whether torchrun or a compatible launcher has started this process."""
    return {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"} <= os.environ.keys()


def torchrun_size() -> int:
    """Return the number of workers that torchrun has started on all machines."""
    return int(os.environ["WORLD_SIZE"])


def restarted() -> bool:
    """Return whether torchrun has restarted the workers after one of them died."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


@contextlib.contextmanager
def torchrun_group(device: str) -> Iterator[Workers]:
    """Form a group with the other workers that torchrun has started."""
    local = int(os.environ["LOCAL_RANK"]), int(os.environ.get("LOCAL_WORLD_SIZE", os.environ["WORLD_SIZE"]))
    store, rank, size = next(dist.rendezvous("env://"))
    with _group(Workers(rank, size, *local, _store_of_restart(store, rank, size)), device) as workers:
        yield workers


def _store_of_restart(store: dist.Store, rank: int, size: int) -> dist.Store:
    """Return a store that does not contain the keys of workers that have ended.

    When a worker dies, torchrun restarts all workers with the same store, which still contains the addresses of the old
    workers. Restart counts cannot distinguish old from new workers, because each machine's agent has a separate count.
    Therefore every new worker draws a random name, and worker 0 sends its name to the other new workers.
    """
    token = uuid.uuid4().hex
    if rank:
        store.set(f"ninja/here/{rank}", token)
        name = store.get(f"ninja/answer/{token}").decode()
        store.set(f"ninja/{name}/{rank}", "joined")
        return dist.PrefixStore(f"ninja/{name}", store)
    missing = list(range(1, size))
    while missing:
        for worker in missing:
            if store.check([f"ninja/here/{worker}"]):
                store.set(f"ninja/answer/{store.get(f'ninja/here/{worker}').decode()}", token)
        time.sleep(0.02)
        missing = [worker for worker in missing if not store.check([f"ninja/{token}/{worker}"])]
    return dist.PrefixStore(f"ninja/{token}", store)


@contextlib.contextmanager
def single_group(device: str) -> Iterator[Workers]:
    """Form a process group that contains only this process, for a ``with`` block."""
    try:
        with _group(Workers(store=dist.HashStore()), device) as workers:
            yield workers
    finally:
        if dist.is_initialized():  # the group still exists after a failure; no thread waits for other workers
            _end_group()


@contextlib.contextmanager
def _group(workers: Workers, device: str) -> Iterator[Workers]:
    backend = "gloo" if torch.device(device).type == "cpu" else "cpu:gloo,cuda:nccl"
    try:
        store, rank, size = workers.store, workers.rank, workers.size
        dist.init_process_group(backend, timeout=TIMEOUT, store=store, rank=rank, world_size=size)
        yield workers
    except RuntimeError as error:
        # Gloo has no error types for closed connections and timeouts.
        is_network = isinstance(error, dist.DistError) or _NETWORK_ERROR.search(str(error))
        if isinstance(error, NinjaError) or not is_network:
            raise
        reason = str(error).splitlines()[0][-200:]
        message = f"worker {workers.rank} lost contact with another worker ({reason}); see the error of that worker"
        raise LostContact(message) from error
    _end_group()  # skipped after a failure, because threads may still wait for other workers


def _end_group() -> None:
    """Destroy the process group and its threads, because these threads could abort the process at exit."""
    gc.collect()  # reference cycles, such as an optimiser and its hooks, may contain the group
    dist.destroy_process_group()


def run(work: Callable[..., Any], arguments: tuple[Any, ...], size: int, device: str, progress: Any) -> Any:
    """Run a function in new processes on this machine and return the result of the first process.

    The processes are started and monitored by `torch.multiprocessing.start_processes`. The agent of torchrun, which
    uses the same function, would replace typed errors with exit codes and could not forward progress reports.

    Args:
        work: Called as ``work(*arguments, progress, workers)``; must be a function at module level.
        arguments: Arguments of the function.
        size: Number of processes.
        device: Torch device.
        progress: Called in this process with each report of the first worker, or None.

    Raises:
        WorkerError: A worker was killed, or ended with an error that is not a `NinjaError`.
        NinjaError: The error raised by the worker that failed first.
    """
    store = dist.TCPStore(HOST, 0, None, is_master=True, wait_for_workers=False)
    messages = multiprocessing.get_context("spawn").SimpleQueue()
    shared = work, arguments, size, store.port, device, progress is not None, messages
    workers = start_processes(_worker, shared, size, join=False, daemon=True, start_method="spawn")
    results: list[Any] = []
    errors: dict[int, NinjaError] = {}

    def receive() -> None:
        while not messages.empty():
            rank, kind, content = messages.get()
            if kind == "report":
                progress(content)
            elif kind == "result":
                results.append(content)
            else:
                errors[rank] = content

    try:
        ended = False
        while not ended:
            ended = workers.join(POLL_SECONDS)
            receive()
    except ProcessException as error:
        receive()
        if error.error_index in errors:
            raise errors[error.error_index] from None
        raise _worker_error(error) from error
    finally:
        for process in workers.processes:
            process.kill()
            process.join()
    return results[0]


def _worker(
    rank: int,
    work: Callable[..., Any],
    arguments: tuple[Any, ...],
    size: int,
    port: int,
    device: str,
    reports: bool,
    messages: multiprocessing.SimpleQueue[tuple[int, str, Any]],
) -> None:
    """Run `work` in a worker process; this is the entry point of the process."""
    # SIGINT, sent on Ctrl-C and by torch if the parent dies, must end the process without waiting for Python code.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    torch.set_num_threads(max(1, torch.get_num_threads() // size))
    report = (lambda progress: messages.put((rank, "report", progress))) if reports else None
    try:
        store = dist.TCPStore(HOST, port, None, is_master=False)
        with _group(Workers(rank, size, rank, size, store), device) as workers:
            result = work(*arguments, report, workers)
        if rank == 0:
            messages.put((rank, "result", result))
        sys.stdout.flush()
        os._exit(0)  # torch's threads could abort a process that exits normally
    except NinjaError as error:
        messages.put((rank, "error", error))
        if isinstance(error, LostContact):
            time.sleep(GRACE)  # the worker that failed should end first, so that its error is reported
        os._exit(1)  # otherwise, threads that wait for other workers would keep the process alive


def _worker_error(error: ProcessException) -> WorkerError:
    """Return the error for a worker that ended without reporting an error."""
    name = ""
    if isinstance(error, ProcessExitedException):
        name = f"{error.signal_name}, " if error.signal_name else ""
        code = error.exit_code
        reason = f"was killed by signal {-code}" if code < 0 else f"exited with code {code}"
    else:
        reason = f"failed: {str(error).strip().splitlines()[-1]}"
    worker = f"worker {error.error_index} ({name}process {error.error_pid})"
    return WorkerError(f"{worker} {reason}, so all workers were stopped; resume training from the saved state (resume)")


def worker_device(device: str, workers: Workers) -> str:
    """Return the device for this worker: a separate GPU if several workers use "cuda", else `device`."""
    if workers.size == 1 or device != "cuda":
        return device
    if workers.machine_rank >= torch.cuda.device_count():
        message = (
            f"this machine has {workers.machine_size} workers, but torch detects {torch.cuda.device_count()} GPUs on it"
        )
        raise OptionError(f"{message}; start one worker per GPU, or use --device cpu")
    return f"cuda:{workers.machine_rank}"
