"""``ninja to-post``, ``to-mpe-post`` and ``to-smbr-post``: posteriors of transition ids at each frame."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any, Literal

import click

from ninja import graph
from ninja.cli.kaldi.options import ali_option, model_option, silence_phones_option
from ninja.cli.options import command, output_file, switch, two_scales
from ninja.cli.places import check_places
from ninja.cli.run import results
from ninja.cli.source import Source, reads_lattices, reads_lattices_alone
from ninja.errors import LatticeError
from ninja.formats.kaldi.transition_model import read_transition_model
from ninja.graph import frame_posteriors
from ninja.graph.frame_posteriors import FramePosteriors
from ninja.io.along import Along
from ninja.io.number_tables import NumberWriter, read_integers
from ninja.lattice import Lattice, Scales
from ninja.lattice.times import check_labelled
from ninja.parallel.pipeline import Each

posteriors_output = output_file("Table for the posteriors, text, or binary as ark:FILE")


def frames_of(lattice: Lattice, scales: Scales) -> FramePosteriors:
    """Compute the posteriors of each frame."""
    check_labelled(lattice)
    return frame_posteriors(lattice, scales)


@command
@two_scales
@click.option("--loglikes", metavar="FILE", help="Write the log-likelihood of all paths of each lattice here.")
@posteriors_output
@reads_lattices
def to_post(source: Source, output_file: str, scales: Scales, loglikes: str | None) -> None:
    """Write the posterior of each transition id at each frame of lattices.

    A line is a key, and for each frame in brackets its transition ids and their posteriors.

    \b
    Example:
      ninja to-post lat.ark.gz --acoustic-scale 0.1 -o ark:1.post
    """
    check_places([output_file, loglikes], [], source)
    stage = Each(partial(frames_of, scales=scales))
    total, frames = 0.0, 0
    with ExitStack() as stack:
        table = stack.enter_context(NumberWriter(output_file))
        likes = None if loglikes is None else stack.enter_context(NumberWriter(loglikes))
        for key, found in results(stage, source, to_stdout=output_file == "-"):
            table.posteriors(key, found.begin, found.label, found.posterior)
            if likes is not None:
                likes.number(key, found.total)
            total += found.total
            frames += len(found.begin) - 1
    source.console.close(
        f"{source.console.log.lattices} lattices, log-likelihood of a frame {total / max(frames, 1):.6g}"
    )


def accuracy_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add what both commands for expected accuracies take."""
    for decorate in (
        reads_lattices_alone,
        posteriors_output,
        silence_phones_option,
        switch("--one-silence-class", False, "Silences count as right where the reference has any, else never."),
        two_scales,
        ali_option,
        model_option,
    ):
        function = decorate(function)
    return function


@command
@accuracy_options
def to_mpe_post(source: Source, **given: Any) -> None:
    """Write MPFE posteriors of transition ids at each frame.

    A line is as ninja to-post's; posteriors have either sign: how much better or worse than all paths those are that
    take a transition id, by the frames whose phone is the reference's. A lattice without an alignment is reported and
    left out.

    \b
    Example:
      ninja to-mpe-post lat.ark.gz --model final.mdl --ali ark:ali.1.gz --acoustic-scale 0.1 -o ark:1.post
    """
    _accuracies(source, "mpfe", **given)


@command
@accuracy_options
def to_smbr_post(source: Source, **given: Any) -> None:
    """Write sMBR posteriors of transition ids at each frame.

    As ninja to-mpe-post, by the frames whose density is the reference's.

    \b
    Example:
      ninja to-smbr-post lat.ark.gz --model final.mdl --ali ark:ali.1.gz --acoustic-scale 0.1 -o ark:1.post
    """
    _accuracies(source, "smbr", **given)


def _accuracies(
    source: Source,
    criterion: Literal["mpfe", "smbr"],
    output_file: str,
    model: str,
    ali: str,
    scales: Scales,
    one_silence_class: bool,
    silence_phones: tuple[int, ...],
) -> None:
    if not silence_phones:
        source.console.say("there are no --silence-phones; make sure that this is meant")
    check_places([output_file], [model, ali], source)
    transitions = read_transition_model(model)
    references = Along(read_integers(ali, allow_pipes=source.allow_pipes))

    def accuracy(lattice: Lattice) -> FramePosteriors:
        alignment = references.get(lattice.key)
        if alignment is None:
            raise LatticeError(f"{ali} lacks its alignment", key=lattice.key)
        return graph.accuracy_posteriors(
            lattice,
            alignment,
            transitions,
            criterion,
            scales,
            silence_phones,
            one_silence_class=one_silence_class,
        )

    total, frames = 0.0, 0
    with NumberWriter(output_file) as table:
        for key, found in results(Each(accuracy), source, to_stdout=output_file == "-"):
            table.posteriors(key, found.begin, found.label, found.posterior)
            total += found.total
            frames += len(found.begin) - 1
    source.console.close(f"{source.console.log.lattices} lattices, accuracy of a frame {total / max(frames, 1):.6g}")
