"""Calls of the pipeline with the threads and the progress line of the running command."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

from ninja import pipeline
from ninja.cli.console import current_console
from ninja.io.inputs import Inputs
from ninja.lattice import Kind
from ninja.lattice.batch import Batch
from ninja.pipeline import OnBatches, Output, Summary, TextOutput
from ninja.pipeline.execution import Progress, Stage
from ninja.pipeline.stages import Pairs

if TYPE_CHECKING:
    from ninja.cli.progress_bar import ProgressBar

Result = TypeVar("Result")


def write(
    stage: Stage[Any], inputs: Inputs, output: Output | TextOutput, *, kind: Kind | None = None, **how: Any
) -> Summary:
    """Write a stage's results, lattices as a kind; see ``ninja.pipeline.run``."""
    console = current_console()
    if kind is not None:
        output = replace(cast(Output, output), kind=kind)
    with console.progress("lattices", to_stdout=output.is_stdout) as bar:
        return pipeline.run(inputs, stage, output, jobs=console.jobs, progress=_shown(bar), **how)


def _shown(bar: ProgressBar | None) -> Progress | None:
    """Return the function that shows a pipeline's progress."""
    return None if bar is None else lambda key, count, share: bar.step(key, count, share=share)


def run(stage: Stage[Any], inputs: Inputs, output: Output, **how: Any) -> NoReturn:
    """Write a stage's lattices, report their number, and end the command."""
    write(stage, inputs, output, **how)
    current_console().close_counting()


def run_lines(function: Callable[[Batch], Sequence[str]], inputs: Inputs, output_file: str) -> None:
    """Write the lines that a function makes of each lattice of a batch to a text file."""
    write(OnBatches(function), inputs, TextOutput(output_file))


def results(
    stage: Stage[Result], inputs: Inputs | Pairs, *, to_stdout: bool = False, **how: Any
) -> Iterator[tuple[str, Result]]:
    """Yield a stage's result for each lattice, showing progress on a terminal; see ``ninja.pipeline.stream``.

    Args:
        to_stdout: The results are printed on stdout.
    """
    console = current_console()
    with console.progress("lattices", to_stdout=to_stdout) as bar:
        yield from pipeline.stream(
            inputs,
            stage,
            jobs=console.jobs,
            log=None if isinstance(inputs, Inputs) else console.log,
            progress=_shown(bar),
            **({"may_be_empty": False} | how),
        )
