"""The command ``ninja stitch``, which joins overlapping windows of recordings."""

from __future__ import annotations

import click

from ninja.cli.main import current_console
from ninja.cli.options import KNOWN_SHIFT, command, frame_shift_option, lattice_output, reads, section
from ninja.cli.source import reads_lattices_alone, scales
from ninja.errors import LatticeError, OptionError, all_failed
from ninja.graph.windows import Windows
from ninja.graph.windows import stitch as join_recordings
from ninja.io.inputs import Inputs
from ninja.lattice import Scales
from ninja.pipeline import Output
from ninja.pipeline.execution import open_output


@command
@section(
    "Windows",
    reads("--segments", "Recording and times of each window (Kaldi's segments)."),
    click.option("--window", type=click.FloatRange(0, min_open=True), help="Length of the windows in seconds."),
    click.option("--overlap", type=click.FloatRange(0, min_open=True), help="Overlap of the windows in seconds."),
    frame_shift_option(f"Seconds per frame.  {KNOWN_SHIFT}"),
)
@scales
@lattice_output("Output for the lattices of the recordings", resume=False, per_input=False)
@reads_lattices_alone
def stitch(
    inputs: Inputs,
    destination: Output,
    segments: str | None,
    window: float | None,
    overlap: float | None,
    frame_shift: float | None,
    scales: Scales,
) -> None:
    """Join overlapping windows of long recordings into one lattice per recording.

    SOURCE contains lattices, or transcripts with word times, of windows that overlap by several seconds. The windows of
    a recording must be consecutive and in chronological order. The times of windows are read from --segments. Without
    --segments, the key of each window must end in the number of the window (rec-17) if --window and --overlap are
    specified, and otherwise in the times of the window (rec_000030-000065). Two windows are joined where both probably
    contain a word boundary; the scales are used to compute these probabilities.

    \b
    Examples:
      ninja stitch windows.ark.gz --segments segments --acoustic-scale 0.1 -o recordings.ark.gz
      ninja stitch windows.ark.gz --window 30 --overlap 5 --acoustic-scale 0.1 -o talk.srt
    """
    if segments is not None and (window is not None or overlap is not None):
        raise OptionError("--segments cannot be used with --window and --overlap; both set the times of windows")
    if (window is None) != (overlap is None):
        raise OptionError("--window requires --overlap, and --overlap requires --window")
    windows = Windows()
    if segments is not None:
        windows = Windows.from_segments(segments)
    elif window is not None and overlap is not None:
        windows = Windows.regular(window, overlap)
    log = inputs.log
    with open_output(destination, inputs) as archive:
        recordings = join_recordings(inputs.lattices(), windows, scales=scales, frame_shift=frame_shift, log=log)
        for _, lattice in recordings:
            log.lattices += archive.take(lattice)
        if not log.lattices and log.failures:
            raise LatticeError(f"{all_failed(len(log.failures))}; no output is written")
    current_console().close_counting(unit="recording")
