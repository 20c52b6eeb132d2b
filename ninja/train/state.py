"""Saving the state of a training run, and restoring it after an interruption."""

from __future__ import annotations

import hashlib
import os
from dataclasses import asdict, dataclass
from typing import Any

from ninja.errors import ModelError, OptionError
from ninja.lm import checkpoint
from ninja.lm.checkpoint import read_saved
from ninja.train.parallel.sharing import SingleWorker
from ninja.train.parallel.workers import Workers


@dataclass(slots=True)
class Counters:
    """Counters of training progress, which are equal on all workers after they synchronize."""

    taken: int = 0  # number of batches that all workers together have taken
    step: int = 0  # number of steps per worker
    minutes: float = 0.0
    best_step: int = 0
    best_perplexity: float = float("inf")
    worse_checks: int = 0


def save(path: str, counters: Counters, sharing: SingleWorker, signature: dict[str, Any]) -> None:
    """Write the state of a training run on worker 0; must be called on all workers when they synchronize.

    Args:
        path: File to write.
        counters: Progress.
        sharing: Method that combines the updates of workers; it provides the network and the optimiser.
        signature: Texts and options, which must be the same when training is resumed.
    """
    shared = sharing.state()
    if sharing.workers.rank == 0:
        content = {
            "signature": signature,
            "counters": asdict(counters),
            "module": sharing.learner.module.state_dict(),
            "optimizer": sharing.learner.optimizer.state_dict(),
            "sharing": shared,
        }
        checkpoint.write_atomically(content, path)


def exists(path: str, workers: Workers) -> bool:
    """Return whether a file exists on the machine of worker 0; must be called on all workers."""
    return bool(workers.agree(float(os.path.exists(path))))


def restore(path: str, counters: Counters, sharing: SingleWorker, signature: dict[str, Any]) -> None:
    """Restore the state of a training run from a file on the machine of worker 0; must be called on all workers.

    For the arguments, see `save`.

    Raises:
        OptionError: The file does not exist, or was saved with other texts or options.
        ModelError: The file is damaged.
    """
    if not exists(path, sharing.workers):
        raise OptionError("there is no training state to resume; omit --resume to start from the beginning", path)
    try:
        content = read_saved(path, sharing.workers.share_file(path))
        changed = [name for name, value in signature.items() if content["signature"].get(name) != value]
        if changed:
            was, now = content["signature"].get(changed[0]), signature[changed[0]]
            message = f"{changed[0]} was {was} and is now {now}; resume with the same texts and options"
            raise OptionError(message, path)
        sharing.learner.module.load_state_dict(content["module"])
        sharing.learner.optimizer.load_state_dict(content["optimizer"])
        sharing.restore(content["sharing"])
        for name, value in content["counters"].items():
            setattr(counters, name, value)
    except OptionError:
        raise
    except Exception as error:  # torch raises a dozen types of errors for damaged files
        raise ModelError(
            f"not a training state, or damaged ({error}); omit --resume to start from the beginning", path
        ) from error


def check_alike(signature: dict[str, Any], workers: Workers) -> None:
    """Raise an `OptionError` on all workers if a worker's texts or options differ from worker 0's."""
    digest = int.from_bytes(hashlib.sha256(repr(sorted(signature.items())).encode()).digest()[:6], "big")
    differs = workers.agree(float(digest)) != digest
    if workers.total(float(differs))[0]:
        which = "this worker was" if differs else "some workers were"
        message = f"{which} not started with the texts and options of worker 0"
        raise OptionError(f"{message}; use the same texts and options for all workers")
