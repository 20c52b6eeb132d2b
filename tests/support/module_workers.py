"""Functions that run in new processes, and how to start processes that need not import torch."""

import multiprocessing
import os
import runpy
import signal
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from toy_training import toy

from ninja.train import loop
from ninja.train.parallel import BlockMomentum, PairwiseAveraging

STEPS, SAVE_STEPS = 16, 3  # number of steps, and steps between two states


def forking_context():
    """Return a context in which processes are forked from one that has imported torch.

    That process has not yet called torch, so that new processes may still set the variables that torch reads once.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch._dynamo", __name__])  # torch imports it for its optimisers
    return context


def start(size, work, *arguments, daemon=True):
    """Start ``work(rank, size, *arguments)`` in forked processes.

    Only processes that are not daemons may start child processes.
    """
    context = forking_context()
    processes = [context.Process(target=work, args=(rank, size, *arguments), daemon=daemon) for rank in range(size)]
    for process in processes:
        process.start()
    return processes


def join(processes):
    """Wait for processes; return their exit codes."""
    for process in processes:
        process.join(120)
    return [process.exitcode for process in processes]


def call(rank, size, environment, function, *arguments):
    """Set environment variables, and call a function."""
    os.environ.update(environment)
    function(*arguments)


def train_with_each_method(rank, size, texts, folder, methods):
    """Train a toy model with each method; write the names of the remaining threads of process groups to a file."""
    for method in methods:
        loop.train(*texts, f"{folder}/{method}.pt", toy(parallel=method, epochs=1))
    names = [(task / "comm").read_text() for task in Path("/proc/self/task").iterdir()]
    Path(folder, "threads").write_text("".join(name for name in names if "gloo" in name))


def run_script(rank, size, path, output):
    """Run a script that starts processes; write its output to a file."""
    with open(output, "w") as sys.stdout:
        runpy.run_path(path, run_name="__main__")


def group(rank, size, url):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=url, rank=rank, world_size=size)


def make(rank):
    """Return a network with dropout and batch normalisation, and an optimiser; the seed is the rank of the worker."""
    torch.manual_seed(rank)
    module = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1))
    return module, torch.optim.AdamW(module.parameters(), lr=0.01)


def train_blocks(rank, size, url, folder, killed):
    """Train by block momentum from the last state that all workers have; worker 5 is killed at a step, if given."""
    group(rank, size, url)
    module, optimizer = make(rank)
    model = BlockMomentum(module, optimizer, block_steps=5, block_optimizer="keep")
    states = [{int(path.stem) for path in Path(folder).glob(f"*.{worker}")} for worker in range(size)]
    first_step = max(set.intersection(*states), default=0)
    if first_step:
        state = torch.load(f"{folder}/{first_step}.{rank}", weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    for step in range(first_step, STEPS):
        if step == killed and rank == 5:
            last_save = step // SAVE_STEPS * SAVE_STEPS
            while len(list(Path(folder).glob(f"{last_save}.[0-9]"))) < size:  # the other workers may be slower
                time.sleep(0.005)
            os.kill(os.getpid(), signal.SIGKILL)
        inputs = torch.from_numpy(np.random.default_rng((rank, step)).normal(size=(4, 6))).float()
        optimizer.zero_grad()
        (model(inputs) - inputs.sum(1, keepdim=True)).square().mean().backward()
        optimizer.step()
        if (step + 1) % SAVE_STEPS == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(state, f"{folder}/{step + 1}.{rank}.part")
            os.rename(f"{folder}/{step + 1}.{rank}.part", f"{folder}/{step + 1}.{rank}")
    model.synchronize()
    with model.result():
        torch.save({"first": first_step, "weights": module.state_dict()}, f"{folder}/end{rank}")
    dist.destroy_process_group()


def train_pairs(rank, size, url, folder):
    """Train by pairwise averaging, with updates that do not depend on the weights; workers make 4, 5, … steps."""
    group(rank, size, url)
    module = torch.nn.Linear(3, 1, bias=False, dtype=torch.float64)
    module.register_buffer("seen", torch.zeros(1, dtype=torch.float64))
    module.register_buffer("table", torch.full((2,), rank, dtype=torch.int16))
    torch.nn.init.constant_(module.weight, rank)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.125)
    dist.new_group([0])  # an unrelated group, so that the first worker is in more groups than the others
    model = PairwiseAveraging(module, optimizer)
    begin = module.weight.detach().clone()
    (Path(folder) / f"begin{rank}").touch()
    while len(list(Path(folder).glob("begin*"))) < size:  # the first update of another worker changes the weights
        time.sleep(0.005)
    for _ in range(4 + rank):
        module.weight.grad = torch.full((1, 3), float(rank + 1), dtype=torch.float64)
        module.seen = module.seen + 1.0  # a new tensor, as many modules assign
        optimizer.step()
        time.sleep(0.001)
    state = model.state_dict()
    model.synchronize()
    with model.result():
        result = {"weight": module.weight.detach().clone(), "seen": module.seen.clone()}
    vector = model.shared.read()[0]
    assert torch.equal(torch.cat([module.weight.detach().flatten(), module.seen]), vector)  # loaded again
    model.load_state_dict(state)
    assert torch.equal(model.shared.read()[0], state["_extra_state"]["shared"])
    assert torch.equal(torch.cat([module.weight.detach().flatten(), module.seen]), model.shared.read()[0])
    exchanges = model.shared.exchanges
    model.close()
    torch.save(
        {"begin": begin, "table": module.table, "exchanges": exchanges, "vector": vector, **result},
        f"{folder}/pairs{rank}",
    )
    dist.destroy_process_group()
