"""Functions for workers of the tests, in a separate module, for processes that are spawned."""

import os
import shutil
import signal

import torch.distributed as dist

from ninja.train import loop


def several(trainings, progress, workers):
    """Train several times in one set of processes, which take seconds to start; return the reports of each."""
    reports = []
    for texts, output, options in trainings:
        reports.append(one(*texts, output, options, workers))
    return reports


def one(train_text, dev_text, output, options, workers):
    """Train; keep an intermediate state as ``output.kept``, from which to resume, and the last as ``output.end``."""
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


def die(rank, progress, workers):
    """Kill one worker while the others wait for it."""
    if workers.rank == rank:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()
