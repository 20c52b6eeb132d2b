"""Functions of workers in spawned processes, which need a separate module."""

import dataclasses
import os
import shutil
import signal
import time

import torch.distributed as dist

from ninja.train import loop
from ninja.train.parallel import methods
from ninja.train.parallel.gossip import Gossip

LEAD = 1


class PacedGossip(Gossip):
    """ADPSGD in which no worker takes more than `LEAD` batches more than another.

    A toy training has a dozen steps of a few milliseconds. A worker that the operating system suspends for this time
    would take no batch, and its initial weights would enter the mean.
    """

    def assignments(self, first, last):
        """Take batches, and wait for slower workers after each."""
        nodes, steps = range(self.workers.size // self.node_size), 0
        for assignment in super().assignments(first, last):
            yield assignment
            self._store.set(f"{first}: step {steps} of {self.node}", "done")
            steps += 1
            if steps > LEAD:
                step_keys = [f"{first}: step {steps - 1 - LEAD} of {node}" for node in nodes]
                while not self._store.check(step_keys):  # `wait` would block other threads that use the store
                    time.sleep(1e-3)
        for step in range(steps, last - first):  # no batch remains, so other workers need not wait
            self._store.set(f"{first}: step {step} of {self.node}", "done")


def train_and_resume(trainings, progress, workers):
    """Train by each method, then again from an intermediate state; return the reports of both.

    All trainings share a set of processes, which take seconds to start. A training with a group of only some of the
    workers must be the last one, as torch names later groups differently on workers with other numbers of groups. The
    last states are stored as ``output.whole``, and those of the resumed trainings as ``output.end``.
    """
    methods.Gossip = PacedGossip
    reports, resumed = [], []
    for texts, output, options in trainings:
        reports.append(train_once(*texts, output, options, workers))
        if workers.rank == 0:
            os.rename(f"{output}.end", f"{output}.whole")
        resumed.append(train_once(*texts, output, dataclasses.replace(options, resume=True), workers))
    return reports, resumed


def train_once(train_text, dev_text, output, options, workers):
    """Train; store an intermediate state for resuming as ``output.kept``, and the last state as ``output.end``."""
    reports = []

    def progress(report):
        reports.append(report)
        if report.perplexity is not None:
            shutil.copy(f"{output}.state", f"{output}.end")
            if report.step < 0.8 * report.num_steps and not options.resume:
                shutil.copy(f"{output}.state", f"{output}.kept")

    if options.resume and workers.rank == 0:
        shutil.copy(f"{output}.kept", f"{output}.state")
    loop._train(train_text, dev_text, output, options, progress, workers)
    return reports


def kill_worker(rank, progress, workers):
    """Kill one worker while the others wait for it."""
    if workers.rank == rank:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()
