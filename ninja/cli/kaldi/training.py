"""``ninja to-post``, ``to-mpe-post``, ``to-smbr-post`` and ``boost-ali``: for discriminative training."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any, Literal

import click
import numpy as np
import numpy.typing as npt

from ninja import graph
from ninja.cli.console import current_console
from ninja.cli.kaldi.options import IDS, ali_option, model_option
from ninja.cli.options import Command, command, lattice_output, output_file, switch, writes
from ninja.cli.run import results, run
from ninja.cli.scales import scales
from ninja.cli.source import reads_lattices, reads_lattices_alone
from ninja.errors import LatticeError
from ninja.graph.discriminative import FramePosteriors
from ninja.io.inputs import Inputs
from ninja.io.keyed_table import KeyedTable
from ninja.io.number_tables import NumberWriter, read_integers
from ninja.lattice import Lattice, Scales
from ninja.lattice.times import check_labelled
from ninja.lattice.transition_model import TransitionModel
from ninja.pipeline import Output
from ninja.pipeline.stages import OnLattices

posteriors_output = output_file("Table for the posteriors, text, or binary as ark:FILE")


def frames_of(lattice: Lattice, scales: Scales) -> FramePosteriors:
    """Compute the posteriors of each frame."""
    check_labelled(lattice)
    return graph.frame_posteriors(lattice, scales)


@command
@scales
@writes("--loglikes", "Write the log-likelihood of all paths of each lattice here.")
@posteriors_output
@reads_lattices
def to_post(inputs: Inputs, output_file: str, scales: Scales, loglikes: str | None) -> None:
    """Write the posterior of each transition id at each frame of lattices.

    A line is a key, and for each frame in brackets its transition ids and their posteriors.

    \b
    Example:
      ninja to-post lat.ark.gz --acoustic-scale 0.1 -o ark:1.post
    """
    _write_posteriors(partial(frames_of, scales=scales), inputs, output_file, "log-likelihood", loglikes)


def has_references(command: Command) -> Command:
    """Give a command the alignment of a lattice's reference, as ``reference_of``, and the phones of silences."""

    @model_option
    @ali_option
    @click.option("--silence-phones", type=IDS, default=(), metavar="IDS", help="Phone ids, as in 1:2:3.")
    @reads_lattices_alone
    @functools.wraps(command)
    def collected(inputs: Inputs, ali: str, silence_phones: tuple[int, ...], **given: Any) -> None:
        if not silence_phones:
            current_console().say("there are no --silence-phones; make sure that this is meant")
        references = KeyedTable(read_integers(ali, allow_pipes=inputs.allow_pipes))

        def reference_of(lattice: Lattice) -> npt.NDArray[np.int32]:
            alignment = references.get(lattice.key)
            if alignment is None:
                raise LatticeError(f"{ali} lacks its alignment", key=lattice.key)
            return alignment

        command(inputs, reference_of=reference_of, silence_phones=silence_phones, **given)

    return collected


Reference = Callable[[Lattice], npt.NDArray[np.int32]]
one_silence_class = switch("--one-silence-class", False, "Count silences as right where the reference has any.")


@command
@scales
@one_silence_class
@posteriors_output
@has_references
def to_mpe_post(inputs: Inputs, output_file: str, **given: Any) -> None:
    """Write MPFE posteriors of transition ids at each frame.

    For training by minimum phone frame error. A line is as ninja to-post's; posteriors have either sign: how much
    better or worse than all paths those are that take a transition id, by the frames whose phone is the reference's.
    A lattice without an alignment is reported and left out.

    \b
    Example:
      ninja to-mpe-post lat.ark.gz --model final.mdl --ali ark:ali.1.gz --acoustic-scale 0.1 -o ark:1.post
    """
    _write_posteriors(_accuracy("mpfe", **given), inputs, output_file, "accuracy")


@command
@scales
@one_silence_class
@posteriors_output
@has_references
def to_smbr_post(inputs: Inputs, output_file: str, **given: Any) -> None:
    """Write sMBR posteriors of transition ids at each frame.

    For training by state-level minimum Bayes risk. As ninja to-mpe-post, by the frames whose density is the
    reference's.

    \b
    Example:
      ninja to-smbr-post lat.ark.gz --model final.mdl --ali ark:ali.1.gz --acoustic-scale 0.1 -o ark:1.post
    """
    _write_posteriors(_accuracy("smbr", **given), inputs, output_file, "accuracy")


def _accuracy(
    criterion: Literal["mpfe", "smbr"], reference_of: Reference, model: TransitionModel, scales: Scales, **given: Any
) -> Callable[[Lattice], FramePosteriors]:
    return lambda lattice: graph.accuracy_posteriors(lattice, reference_of(lattice), model, criterion, scales, **given)


def _write_posteriors(
    function: Callable[[Lattice], FramePosteriors],
    inputs: Inputs,
    output_file: str,
    what: str,
    totals_file: str | None = None,
) -> None:
    """Write the posteriors of each frame, and report their average total per frame."""
    total, frames = 0.0, 0
    with ExitStack() as stack:
        table = stack.enter_context(NumberWriter(output_file))
        totals = None if totals_file is None else stack.enter_context(NumberWriter(totals_file))
        for key, found in results(OnLattices(function), inputs, to_stdout=output_file == "-"):
            table.posteriors(key, found.begin, found.label, found.posterior)
            if totals is not None:
                totals.number(key, found.total)
            total += found.total
            frames += len(found.begin) - 1
    current_console().close(f"{inputs.log.lattices} lattices, {what} of a frame {total / max(frames, 1):.6g}")


@command
@click.option("--b", default=0.05, help="Boosting factor; more favours errors more.")
@click.option("--max-silence", type=click.FloatRange(0, 1), default=0.0, help="Error of a wrong silence.")
@lattice_output()
@has_references
def boost_ali(
    inputs: Inputs,
    destination: Output,
    model: TransitionModel,
    reference_of: Reference,
    b: float,
    max_silence: float,
    silence_phones: tuple[int, ...],
) -> None:
    """Lower the graph costs of arcs by their wrong phone frames.

    For discriminative training (boosted MMI). A wrong silence phone counts as no error, as in the paper, unless
    --max-silence says otherwise. A lattice without an alignment is reported and left out.

    \b
    Example:
      ninja boost-ali lat.ark.gz --model final.mdl --ali ark:ali.1.gz --silence-phones 1:2:3 -o boosted.ark.gz
    """

    def boosted(lattice: Lattice) -> Lattice:
        return graph.boost(lattice, reference_of(lattice), model.phone, b, silence_phones, max_silence)

    run(OnLattices(boosted), inputs, destination)
