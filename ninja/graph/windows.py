"""Recordings recognised in overlapping windows: window times, and joining of the lattices."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ninja.errors import LatticeError, Log, NinjaError, OptionError, check_range, counted
from ninja.formats.kaldi.tables import read_segments
from ninja.graph.stitch import join_windows
from ninja.lattice import Lattice, Scales
from ninja.lattice.batch import Keyed, pairs
from ninja.lattice.times import num_frames

FRAME_SHIFT = 0.01  # seconds per frame of lattices without a frame shift
LIKELY = 0.5  # seams with a smaller probability are reported
UNITS = (1.0, 0.01, 0.001)  # possible units of the numbers in keys, in seconds
MAX_DIGITS = 12  # maximum number of digits of a window number
UNIT_TOLERANCE = 0.1  # relative tolerance between the length of a window and the numbers in its key
_TIMES = re.compile(r"(.+?)[_.-](\d{1,12})-(\d{1,12})")


@dataclass(frozen=True, slots=True)
class Windows:
    """A rule that determines the recording and the start time of a window.

    With a segments file, the key of a window is a key in this file. With a `step`, the key ends in the number of the
    window, as in ``rec-17``. Otherwise, the key ends in the times of the window, as in ``rec_000030-000065``, in
    seconds, hundredths or thousandths of a second, whichever fits the length of the lattice.
    """

    segments: Mapping[str, tuple[str, float, float]] | None = None  # key → recording, start and end in seconds
    step: float | None = None  # seconds between the starts of consecutive windows
    path: str | None = None  # file of the segments, for messages

    @classmethod
    def from_segments(cls, path: str | os.PathLike[str]) -> Windows:
        """Read a Kaldi ``segments`` file.

        Raises:
            FormatError: A line is not a segment, or a key occurs twice.
        """
        return cls(read_segments(path), path=os.fspath(path))

    @classmethod
    def regular(cls, window: float, overlap: float) -> Windows:
        """Create a rule for numbered windows of equal length.

        Args:
            window: Length of a window in seconds, > 0.
            overlap: Overlap of consecutive windows in seconds, > 0 and less than `window`.

        Raises:
            OptionError: A value is out of range.
        """
        check_range("window", window, above=0, finite=True)
        check_range("overlap", overlap, above=0, finite=True)
        if overlap >= window:
            raise OptionError(f"overlap is {overlap:g}, but must be less than window, {window:g}")
        return cls(step=window - overlap)

    def of(self, key: str, seconds: float) -> tuple[str, float]:
        """Return ``(recording, start in seconds)`` for a window; with a `step`, window 0 starts at 0.

        Args:
            key: Key of the window.
            seconds: Length of the window's lattice.

        Raises:
            LatticeError: The window is missing from the segments file, or its key contains no times or no number.
        """
        if self.segments is not None:
            if key not in self.segments:
                raise LatticeError(f"{self.path or 'the segments file'} has no segment for this window", key=key)
            return self.segments[key][:2]
        if self.step is not None:
            stem = key.rstrip("0123456789")
            number, recording = key[len(stem) :], re.sub("[_.-]$", "", stem)
            if not (number and recording) or len(number) > MAX_DIGITS:
                raise LatticeError("the key does not end in the number of the window, such as -17", key=key)
            return recording, self.step * int(number)
        match = _TIMES.fullmatch(key)
        if match is None:
            raise LatticeError(
                "the key does not end in a time range such as _000030-000065; specify a segments file, or a window and "
                "an overlap",
                key=key,
            )
        begin, length = int(match[2]), int(match[3]) - int(match[2])
        unit = min(UNITS, key=lambda unit: abs(length * unit - seconds))
        if abs(length * unit - seconds) > UNIT_TOLERANCE * max(seconds, 1.0):
            raise LatticeError(
                f"the window lasts {seconds:.2f} s, but the times in its key differ by {length}, which does not "
                "match in seconds, hundredths or thousandths of a second; specify a segments file",
                key=key,
            )
        return match[1], begin * unit


def stitch(
    lattices: Iterable[Keyed],
    windows: Windows | None = None,
    *,
    scales: Scales = Scales(),
    frame_shift: float | None = None,
    log: Log | None = None,
) -> Iterator[Keyed]:
    """Join lattices from overlapping windows into one lattice per recording; see `ninja.graph.stitch.join_windows`.

    Args:
        lattices: ``(key, lattice)`` pairs; the windows of a recording are consecutive and in chronological order.
        windows: Rule that determines the recording and the start time of a window.  [default: the times in the key]
        scales: Scales applied to the costs to compute posteriors.
        frame_shift: Seconds per frame.  [default: the lattices' frame shift, else 0.01]
        log: Log for notes about uncertain seams. If its ``on_error`` is set, failures are added to the log; otherwise
            the first failure is raised.

    Returns:
        An iterator over ``(recording, lattice)`` pairs in the order in which the recordings begin in `lattices`. Each
        recording is joined when the iterator reaches it.

    Raises:
        LatticeError: A recording cannot be joined.
        SymbolError: The windows of a recording have different symbol tables.
    """
    windows, log = windows or Windows(), log or Log()
    recording: _Recording | None = None
    names: set[str] = set()
    failed: list[str] = []  # keys of failed windows since the last window whose recording is known
    for key, lattice in pairs(lattices):
        shift = frame_shift or lattice.frame_shift or FRAME_SHIFT
        try:
            name, begin = windows.of(key, num_frames(lattice) * shift)
            if recording is None or name != recording.name:
                if name in names:
                    raise LatticeError(f"the windows of {name} are not consecutive; sort the lattices", key=key)
                if recording is not None:
                    yield from recording.joined(scales, log, windows)
                recording = _Recording(name, shift)
                recording.failed = any(_may_be_window(window_name, name) for window_name in failed)
                names.add(name)
            failed.clear()
            recording.add(lattice, begin, shift, log)
        except NinjaError as error:
            failed.append(key)
            if recording is not None and _may_be_window(key, recording.name):
                recording.failed = True
            log.fail(error, key)
    if recording is not None:
        yield from recording.joined(scales, log, windows)


def _may_be_window(key: str, recording: str) -> bool:
    """Return whether a failed window can belong to a recording, based on its key."""
    return key.startswith(recording) and not key[len(recording) : len(recording) + 1].isalnum()


class _Recording:
    """The windows of a recording that have been read so far, collected to be joined."""

    def __init__(self, name: str, frame_shift: float) -> None:
        self.name = name
        self.failed = False
        self._frame_shift = frame_shift
        self._windows: list[Lattice] = []
        self._begins: list[float] = []

    def add(self, window: Lattice, begin: float, frame_shift: float, log: Log) -> None:
        """Add the next window of the recording; report an error if its frame shift differs from the first window's."""
        if frame_shift != self._frame_shift:
            self.failed = True
            message = (
                f"the frame shift is {frame_shift:g} s, but the previous window has a frame shift of "
                f"{self._frame_shift:g} s"
            )
            log.fail(LatticeError(message, key=window.key))
        self._windows.append(window)
        self._begins.append(begin)

    def joined(self, scales: Scales, log: Log, windows: Windows) -> Iterator[Keyed]:
        """Yield ``(recording, joined lattice)``, or report an error if the windows cannot be joined."""
        if self.failed:
            error = LatticeError("a window of this recording failed, so the windows cannot be joined", key=self.name)
            log.fail(error, self.name)
            return
        try:
            result = join_windows(self._windows, self._begins, self.name, self._frame_shift, scales)
        except NinjaError as error:
            log.fail(error, self.name)
            return
        if self._begins[0] > 0 and windows.step is None:
            log.note(f"{self.name}: times are counted from {self._begins[0]:.2f} s, where the first window begins")
        unsure = [seam for seam in result.seams if seam.probability < LIKELY]
        if unsure:
            places = ", ".join(f"{seam.frame * self._frame_shift:.2f} s" for seam in unsure[:5])
            log.note(
                f"{self.name}: at {len(unsure)} of {counted(len(result.seams), 'seam')}, the windows probably have no "
                f"word boundary in common ({places}{', …' if len(unsure) > 5 else ''})"
            )
        yield self.name, result.lattice
