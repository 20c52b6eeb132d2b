"""Commands for discriminative training: ``to-post``, ``to-mpe-post``, ``to-smbr-post`` and ``boost-ali``."""

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
from ninja.cli.command import Command
from ninja.cli.kaldi.options import IDS, ali_option, model_option
from ninja.cli.main import current_console
from ninja.cli.options import command, lattice_output, output_file, switch, writes
from ninja.cli.source import reads_lattices, reads_lattices_alone, results, run, scales
from ninja.errors import LatticeError, counted
from ninja.graph.discriminative import FramePosteriors
from ninja.io.inputs import Inputs
from ninja.io.lookup import KeyedTable
from ninja.io.number_tables import NumberWriter, read_integers
from ninja.lattice import Lattice, Scales
from ninja.lattice.times import check_labelled
from ninja.lattice.transition_model import TransitionModel
from ninja.pipeline import Output
from ninja.pipeline.stages import OnLattices

posteriors_output = output_file("Text table for the posteriors, or ark:FILE for a binary table")


def frames_of(lattice: Lattice, scales: Scales) -> FramePosteriors:
    """Compute the posteriors of transition ids at each frame; raise `LatticeError` if there are no transition ids."""
    check_labelled(lattice)
    return graph.frame_posteriors(lattice, scales)


@command
@scales
@writes("--loglikes", "Write the total log-likelihood of each lattice to a table.")
@posteriors_output
@reads_lattices
def to_post(inputs: Inputs, output_file: str, scales: Scales, loglikes: str | None) -> None:
    """Write the posterior of each transition id at each frame of each lattice.

    Each line of a text table contains a key and, for each frame, a bracketed list of transition ids and their
    posteriors.

    \b
    Example:
      ninja to-post lat.ark.gz --acoustic-scale 0.1 -o ark:1.post
    """
    _write_posteriors(partial(frames_of, scales=scales), inputs, output_file, "log-likelihood", loglikes)


def has_references(command: Command) -> Command:
    """Add the options for the transition model, reference alignments and silence phones.

    The command receives the arguments ``inputs``, ``model`` and ``silence_phones``, and a function ``reference_of``,
    which returns the reference alignment of a lattice.
    """

    @model_option
    @ali_option
    @click.option(
        "--silence-phones",
        type=IDS,
        default=(),
        metavar="IDS",
        help="Ids of the silence phones, separated by colons, such as 1:2:3.",
    )
    @reads_lattices_alone
    @functools.wraps(command)
    def collected(inputs: Inputs, ali: str, silence_phones: tuple[int, ...], **values: Any) -> None:
        if not silence_phones:
            current_console().say(
                "no silence phones are specified; use --silence-phones if the model has silence phones"
            )
        references = KeyedTable(read_integers(ali, allow_pipes=inputs.allow_pipes))

        def reference_of(lattice: Lattice) -> npt.NDArray[np.int32]:
            alignment = references.get(lattice.key)
            if alignment is None:
                raise LatticeError(f"{ali} has no alignment for this key", key=lattice.key)
            return alignment

        command(inputs, reference_of=reference_of, silence_phones=silence_phones, **values)

    return collected


Reference = Callable[[Lattice], npt.NDArray[np.int32]]
one_silence_class = switch(
    "--one-silence-class",
    False,
    "Treat all silence phones as one class: any silence phone is correct where the reference has a silence phone.",
)


@command
@scales
@one_silence_class
@posteriors_output
@has_references
def to_mpe_post(inputs: Inputs, output_file: str, **values: Any) -> None:
    """Write MPFE posteriors of transition ids at each frame.

    These posteriors are used for training with the minimum phone frame error criterion. The output format is the same
    as in `ninja to-post`. A posterior is positive if paths through the transition id have more frames with the correct
    phone than the average path, and negative if they have fewer. A lattice without a reference alignment is reported
    and skipped.

    \b
    Example:
      ninja to-mpe-post lat.ark.gz --model final.mdl --ali ark:ali.1.gz --acoustic-scale 0.1 -o ark:1.post
    """
    _write_posteriors(_accuracy("mpfe", **values), inputs, output_file, "accuracy")


@command
@scales
@one_silence_class
@posteriors_output
@has_references
def to_smbr_post(inputs: Inputs, output_file: str, **values: Any) -> None:
    """Write sMBR posteriors of transition ids at each frame.

    These posteriors are used for training with the state-level minimum Bayes risk criterion. They are
    computed and written as in `ninja to-mpe-post`, but from pdf ids instead of phones.

    \b
    Example:
      ninja to-smbr-post lat.ark.gz --model final.mdl --ali ark:ali.1.gz --acoustic-scale 0.1 -o ark:1.post
    """
    _write_posteriors(_accuracy("smbr", **values), inputs, output_file, "accuracy")


def _accuracy(
    criterion: Literal["mpfe", "smbr"], reference_of: Reference, model: TransitionModel, scales: Scales, **values: Any
) -> Callable[[Lattice], FramePosteriors]:
    return lambda lattice: graph.accuracy_posteriors(lattice, reference_of(lattice), model, criterion, scales, **values)


def _write_posteriors(
    function: Callable[[Lattice], FramePosteriors],
    inputs: Inputs,
    output_file: str,
    criterion: str,
    totals_file: str | None = None,
) -> None:
    """Write the posteriors at each frame and print the criterion, averaged over frames.

    Args:
        function: Function that computes the posteriors for a lattice.
        criterion: Name of the criterion in the closing message.
        totals_file: Table to which the total of each lattice is written; None writes no table.
    """
    total, frames = 0.0, 0
    with ExitStack() as stack:
        table = stack.enter_context(NumberWriter(output_file))
        totals = None if totals_file is None else stack.enter_context(NumberWriter(totals_file))
        for key, posteriors in results(OnLattices(function), inputs, to_stdout=output_file == "-"):
            table.posteriors(key, posteriors.begin, posteriors.label, posteriors.posterior)
            if totals is not None:
                totals.number(key, posteriors.total)
            total += posteriors.total
            frames += len(posteriors.begin) - 1
    current_console().close(
        f"{counted(inputs.log.lattices, 'lattice')}, {criterion} per frame {total / max(frames, 1):.6g}"
    )


@command
@click.option("--b", default=0.05, help="Boosting factor, the cost subtracted for each frame with a wrong phone.")
@click.option(
    "--max-silence",
    type=click.FloatRange(0, 1),
    default=0.0,
    help="Errors counted per frame with a wrong silence phone.",
)
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
    """Lower the graph costs of arcs by --b for each frame with a wrong phone.

    The result is used for discriminative training with boosted MMI. As in the paper (Povey et al. 2008), a wrong
    silence phone does not count as an error unless --max-silence is specified. A lattice without a reference alignment
    is reported and skipped.

    \b
    Example:
      ninja boost-ali lat.ark.gz --model final.mdl --ali ark:ali.1.gz --silence-phones 1:2:3 -o boosted.ark.gz
    """

    def boosted(lattice: Lattice) -> Lattice:
        return graph.boost(lattice, reference_of(lattice), model.phone, b, silence_phones, max_silence)

    run(OnLattices(boosted), inputs, destination)
