"""Apply a stage to lattices, and yield the results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from ninja.errors import Log, OptionError
from ninja.io.earlier_attempt import Done
from ninja.io.inputs import Inputs
from ninja.lattice.batch import pairs
from ninja.pipeline.execution import Progress, Read, Result, RunLoop, Stage, check_stage, reading
from ninja.pipeline.stages import Pairs


def stream(
    inputs: Inputs | Pairs,
    stage: Stage[Result],
    *,
    jobs: int | None = None,
    read: Read | None = None,
    log: Log | None = None,
    done: Collection[str] = (),
    progress: Progress | None = None,
    may_be_empty: bool | None = None,
) -> Iterator[tuple[str, Result]]:
    """Apply a stage to lattices and yield ``(key, result)`` for each lattice in input order.

    Args:
        inputs: `Inputs`, or ``(key, lattice)`` pairs, which are read lazily.
        stage: See `run`.
        jobs: See `run`.
        read: See `run`.
        log: Log to use with pairs; failures and notes are added to it while results are read. Not allowed with
            `Inputs`, which have a log.
        done: Keys of lattices to skip; a key that occurs n times here skips n lattices.
        progress: See `run`.
        may_be_empty: See `run`; None also allows runs in which all lattices have errors.

    Raises:
        OptionError: `jobs` is below 1, `stage` is not a stage, or `log` is specified for `Inputs`.
        NinjaError: A lattice failed and the log has no ``on_error``.
    """
    if isinstance(inputs, Inputs):
        if log is not None and log is not inputs.log:
            raise OptionError("the argument log is allowed only with (key, lattice) pairs; use Inputs(..., log=log)")
    else:
        lattices = pairs(inputs)
        inputs, read = Inputs((), log=Log() if log is None else log), lambda _: lattices
    check_stage(stage)
    return _stream(inputs, stage, RunLoop(jobs, read, None, progress, may_be_empty), Done(Counter(done), {}))


def _stream(inputs: Inputs, stage: Stage[Result], loop: RunLoop, done: Done) -> Iterator[tuple[str, Result]]:
    with reading(stage, inputs.log, loop.read) as loop.read:
        yield from loop.results(inputs, stage, done)
