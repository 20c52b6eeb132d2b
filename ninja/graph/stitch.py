"""Joining of lattices from overlapping windows of a recording."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ninja.errors import LatticeError, OptionError, counted
from ninja.graph.connect import connect
from ninja.graph.posteriors import forward_backward, posteriors
from ninja.lattice import Lattice, Scales
from ninja.lattice.arrays import gather, offsets
from ninja.lattice.lattice import checked_shift
from ninja.lattice.times import is_timed, num_frames, state_times
from ninja.lattice.word_ids import check_one_table

TOLERANCE = 0.03  # seconds by which word boundaries of two windows may differ at a seam; shorter than any word
Ids = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Seam:
    """The frame at which the joined lattice changes from one window to the next."""

    frame: int  # frame of the seam, counted from the start of the first window
    probability: float  # probability that both windows have a word boundary at this frame


@dataclass(frozen=True, slots=True)
class Stitched:
    """The lattice for a whole recording, and its seams."""

    lattice: Lattice
    seams: list[Seam]


class _Part:
    """A window, with state times in frames from the start of the recording."""

    def __init__(self, window: Lattice, offset: int, scales: Scales) -> None:
        if window.num_arcs and not is_timed(window):
            raise LatticeError(
                "the lattice has neither alignments nor times, which are required to join windows", key=window.key
            )
        self.lattice = lattice = connect(window)
        self.time = state_times(lattice).astype(np.int64) + offset  # [num_states]
        self.begin, self.end = offset, offset + num_frames(lattice)
        paths = forward_backward(lattice, scales)
        self.before, self.after = paths.alpha, paths.beta
        self.src = lattice.src.astype(np.int64)
        self.posterior = posteriors(lattice, scales)  # [num_arcs]

    def boundary_probability(self, first: int, last: int, before: int, after: int) -> Doubles:
        """Return, for each frame t in a range, the probability that the true path has a state close to t.

        A state is close to t if its frame is in the range from ``t - before`` to ``t + after``, inclusive.

        Args:
            first: First frame of the range.
            last: Last frame of the range, plus 1.
            before: Maximum number of frames from the state to t if the state precedes t.
            after: Maximum number of frames from t to the state if the state follows t.

        Returns:
            Probabilities, float64 [last − first].
        """
        change = np.zeros(last - first + 1)
        begin = np.clip(self.time[self.src] + before + 1 - first, 0, last - first)
        end = np.clip(self.time[self.lattice.dst] - after - first, 0, last - first)
        crosses = begin < end
        np.add.at(change, begin[crosses], self.posterior[crosses])
        np.add.at(change, end[crosses], -self.posterior[crosses])
        return np.clip(1.0 - np.cumsum(change)[:-1], 0.0, 1.0)

    def states(self, first: int, last: int) -> Ids:
        """Return the states whose frames are in the range from `first` to `last`, inclusive."""
        return np.flatnonzero((self.time >= first) & (self.time <= last))

    def labels_after(self, state: int, count: int) -> list[int] | None:
        """Return the next `count` labels on the most probable path from a state, or None if the path is shorter."""
        lattice, labels = self.lattice, list[int]()
        while len(labels) < count:
            begin, end = lattice.arc_begin[state], lattice.arc_begin[state + 1]
            if begin == end:
                return None
            arc = int(begin) + int(self.posterior[begin:end].argmax())
            labels += lattice.ali[lattice.ali_begin[arc] : lattice.ali_begin[arc + 1]].tolist()
            state = int(lattice.dst[arc])
        return labels[:count]

    def labels_before(self, state: int, count: int) -> list[int] | None:
        """Return the last `count` labels on the most probable path to a state, or None if the path is shorter."""
        lattice, labels = self.lattice, list[int]()
        while len(labels) < count:
            arcs = np.flatnonzero(lattice.dst == state)
            if not arcs.size:
                return None
            arc = int(arcs[self.posterior[arcs].argmax()])
            labels = lattice.ali[lattice.ali_begin[arc] : lattice.ali_begin[arc + 1]].tolist() + labels
            state = int(self.src[arc])
        return labels[len(labels) - count :]


class _Joined:
    """The arcs and states of a joined lattice, added window by window."""

    def __init__(self, has_labels: bool) -> None:
        self._has_labels = has_labels
        self.num_states = 0
        self._columns: list[tuple[npt.NDArray[np.generic], ...]] = []  # arguments of `_add`, except `pool`
        self._labels: list[npt.NDArray[np.int32]] = []
        self._num_labels = 0
        self.time: list[Ids] = []

    def add_states(self, time: Ids) -> Ids:
        """Add one state for each frame in `time`, and return the numbers of the new states."""
        self.time.append(time)
        self.num_states += time.size
        return np.arange(self.num_states - time.size, self.num_states)

    def add_arcs(self, lattice: Lattice, arcs: Ids, src: npt.NDArray[np.integer], dst: npt.NDArray[np.integer]) -> None:
        """Add copies of arcs of a window; `src` and `dst` are the states of the copies in the joined lattice."""
        begin, end = lattice.ali_begin[arcs], lattice.ali_begin[arcs + 1]
        self._add(
            src, dst, lattice.word[arcs], lattice.graph[arcs], lattice.acoustic[arcs], begin, end - begin, lattice.ali
        )

    def add_links(
        self, src: Sequence[int], dst: Sequence[int], graph: Sequence[float], labels: list[list[int]]
    ) -> None:
        """Add epsilon arcs with the given graph costs and labels, and acoustic costs of 0."""
        zeros = np.zeros(len(src))
        size = np.array([len(some) for some in labels], np.int64)
        pool = np.array([label for some in labels for label in some], np.int32)
        self._add(np.array(src), np.array(dst), zeros, np.array(graph), zeros, np.cumsum(size) - size, size, pool)

    def _add(
        self,
        src: npt.NDArray[np.integer],
        dst: npt.NDArray[np.integer],
        word: npt.NDArray[np.generic],
        graph: npt.NDArray[np.generic],
        acoustic: npt.NDArray[np.generic],
        label: Ids,
        num_labels: Ids,
        pool: npt.NDArray[np.int32],
    ) -> None:
        self._columns.append((src, dst, word, graph, acoustic, label + self._num_labels, num_labels))
        self._labels.append(pool)
        self._num_labels += pool.size

    def lattice(self, key: str, model: Lattice, last: _Part, final: Ids, frame_shift: float) -> Lattice:
        """Return the joined lattice.

        Args:
            key: Key of the recording.
            model: Window that provides the symbol table and the kind of the result.
            last: The last window, whose final states end the recording.
            final: New number of each state in the last window; −1 for states that are not used.
            frame_shift: Seconds per frame.
        """
        src, dst, word, graph, acoustic, label, size = (
            np.concatenate(column) for column in zip(*self._columns, strict=True)
        )
        order = np.argsort(src, kind="stable")
        size, label = size[order].astype(np.int64), label[order].astype(np.int64)
        used = np.flatnonzero(final >= 0)
        costs = np.full((2, self.num_states), np.inf)
        costs[:, final[used]] = last.lattice.final_graph[used], last.lattice.final_acoustic[used]
        final_size = np.zeros(self.num_states, np.int64)
        final_size[final[used]] = np.diff(last.lattice.final_ali_begin)[used]
        ends = [
            last.lattice.final_ali[last.lattice.final_ali_begin[s] : last.lattice.final_ali_begin[s + 1]] for s in used
        ]
        labelled = {
            "ali_begin": offsets(size),
            "ali": gather(np.concatenate(self._labels), label, size)[1],
            "final_ali_begin": offsets(final_size),
            "final_ali": np.concatenate([np.empty(0, np.int32), *ends]),
        }
        return Lattice.from_arrays(
            key,
            np.searchsorted(src[order], np.arange(self.num_states + 1)),
            dst[order],
            word[order],
            graph[order],
            acoustic[order],
            *costs,
            kind=model.kind,
            frame_shift=frame_shift,
            words=model.words,
            **(labelled if self._has_labels else {"time": np.concatenate(self.time)}),
        )


def join_windows(
    windows: Sequence[Lattice], begins: Sequence[float], key: str, frame_shift: float, scales: Scales = Scales()
) -> Stitched:
    """Join the lattices from overlapping windows of a recording.

    Consecutive windows are joined at a seam: a frame at which both windows probably have a word boundary, far from
    the ends of the windows. The paths of the first window up to the seam continue with the paths of the second window
    from the seam on. The posterior of a path is the product of its posteriors in the windows, computed with `scales`.

    Args:
        windows: Lattices with alignments or times, in chronological order.
        begins: Start of each window in the recording, in seconds; times of the result are counted from the first start.
        key: Key of the result.
        frame_shift: Seconds per frame, > 0.
        scales: Scales applied to the costs to compute posteriors.

    Raises:
        LatticeError: A window has no times or no complete path, only some windows have alignments, windows do not
            overlap or are not in order, or two windows have no word boundary in common.
        SymbolError: The windows have different symbol tables.
        OptionError: There are no windows, the numbers of windows and start times differ, or the frame shift or the LM
            scale is not above 0.
    """
    if not windows or len(windows) != len(begins):
        raise OptionError(
            f"expected one start time per window, found {counted(len(begins), 'start time')} for "
            f"{counted(len(windows), 'window')}"
        )
    checked_shift(frame_shift)
    if not all(abs(begin - begins[0]) / frame_shift < 2**31 for begin in begins):  # also false for NaN
        message = "the start times of the windows must be finite, and less than 2^31 frames from the first start"
        raise LatticeError(message, key=key)
    if not scales.lm > 0:
        raise OptionError(f"lm_scale is {scales.lm:g}, but must be above 0 to join windows")
    check_one_table(windows)
    parts = [
        _Part(window, round((begin - begins[0]) / frame_shift), scales)
        for window, begin in zip(windows, begins, strict=True)
    ]
    tolerance = max(1, round(TOLERANCE / frame_shift))  # frames between the word boundaries of two windows at a seam
    before, after = tolerance // 2, tolerance - tolerance // 2  # in the first and second window
    seams: list[Seam] = []
    for first, second in pairwise(parts):
        earliest = seams[-1].frame + tolerance + 1 if seams else first.begin + 1
        earliest = max(earliest, second.begin + 1)
        seams.append(_seam(first, second, earliest, before, after, frame_shift, key))
    if any(part.lattice.has_labels != parts[0].lattice.has_labels for part in parts):
        raise LatticeError(
            "some windows have alignments and others do not; remove the alignments (ninja rmali)", key=key
        )
    joined = _Joined(parts[0].lattice.has_labels)
    hub: int | None = None  # state at the seam before the current window
    for number, part in enumerate(parts):
        entry = (seams[number - 1].frame, seams[number - 1].frame + after) if number else None
        end = (seams[number].frame - before, seams[number].frame) if number < len(seams) else None
        hub, state = _add_part(joined, part, hub, entry, end, scales.lm)
    try:
        lattice = connect(joined.lattice(key, windows[0], parts[-1], state, frame_shift))
    except LatticeError as error:
        raise LatticeError(
            "a window has no path with word boundaries at both seams with its neighbours",
            key=key,
        ) from error
    return Stitched(lattice, seams)


def _seam(first: _Part, second: _Part, earliest: int, before: int, after: int, frame_shift: float, key: str) -> Seam:
    """Find the frame at which to change from one window to the next.

    This is the frame with the largest probability that both windows have a word boundary there, multiplied by a weight
    that falls from 1 in the middle of the overlap to 0.1 at its ends.

    Args:
        first: The first window.
        second: The second window.
        earliest: First frame to consider.
        before: Maximum number of frames from a word boundary in the first window to the seam.
        after: Maximum number of frames from the seam to a word boundary in the second window.
        frame_shift: Seconds per frame, for messages.
        key: Key of the recording, for messages.

    Raises:
        LatticeError: The windows do not overlap or are not in order, or have no word boundary in common.
    """
    latest = min(first.end, second.end)  # exclusive
    where = (
        f"{first.lattice.key} ({first.begin * frame_shift:.2f} to {first.end * frame_shift:.2f} s) and "
        f"{second.lattice.key} ({second.begin * frame_shift:.2f} to {second.end * frame_shift:.2f} s)"
    )
    if second.begin < first.begin or earliest >= latest:
        raise LatticeError(f"the windows {where} do not overlap, or are not in chronological order", key=key)
    both = first.boundary_probability(earliest, latest, before, 0) * second.boundary_probability(
        earliest, latest, 0, after
    )
    frame = np.arange(earliest, latest)
    middle = (second.begin + first.end) / 2
    weight = 1.0 - 0.9 * np.minimum(np.abs(frame - middle) / max((first.end - second.begin) / 2, 1.0), 1.0)
    best = int((both * weight).argmax())
    if both[best] <= 0.0:
        raise LatticeError(f"the windows {where} have no word boundary in common", key=key)
    return Seam(earliest + best, float(both[best]))


def _add_part(
    joined: _Joined,
    part: _Part,
    hub: int | None,
    entry: tuple[int, int] | None,
    end: tuple[int, int] | None,
    lm: float,
) -> tuple[int | None, Ids]:
    """Add the part of a window between its seams; states and arcs on no path through both seams are dropped later.

    Args:
        joined: The result.
        part: The window.
        hub: State at the seam before the window.
        entry: First and last frame at which paths enter the window; None at the start of the recording.
        end: First and last frame at which paths leave the window; None at the end of the recording.
        lm: Scale of graph costs.

    Returns:
        The state at the seam after the window, and the new number of each state in the window (−1 if not used).
    """
    lattice, time = part.lattice, part.time
    used = np.arange(lattice.num_states) if end is None else np.flatnonzero(time <= end[1])
    number = np.full(lattice.num_states, -1, np.int64)
    number[used] = joined.add_states(time[used])
    arcs = np.flatnonzero((number[part.src] >= 0) & (number[lattice.dst] >= 0))
    joined.add_arcs(lattice, arcs, number[part.src[arcs]], number[lattice.dst[arcs]])
    if entry is not None:
        assert hub is not None
        states, labels = _with_labels(part, part.states(*entry), entry[0])
        costs = (part.before[states] - part.before[_best(part, states)]) / lm
        joined.add_links([hub] * states.size, number[states].tolist(), costs.tolist(), labels)
    if end is None:
        return None, number
    (new_hub,) = joined.add_states(np.array([end[1]])).tolist()
    states, labels = _with_labels(part, part.states(*end), end[1])
    costs = (part.after[states] - part.after[_best(part, states)]) / lm
    joined.add_links(number[states].tolist(), [new_hub] * states.size, costs.tolist(), labels)
    return new_hub, number


def _with_labels(part: _Part, states: Ids, frame: int) -> tuple[Ids, list[list[int]]]:
    """Return ``(states, labels on the most probable path between each state and the seam)``.

    States whose path has too few labels to reach the seam are omitted. In a window without alignments, all states are
    returned, without labels.

    Args:
        part: The window.
        states: States near the seam.
        frame: Frame of the seam.

    Raises:
        LatticeError: No state remains.
    """
    if not part.lattice.has_labels:
        return states, [[] for _ in states]
    gaps = [int(part.time[state]) - frame for state in states]
    labels = [
        part.labels_before(int(state), gap) if gap > 0 else part.labels_after(int(state), -gap)
        for state, gap in zip(states, gaps, strict=True)
    ]
    labelled = [place for place, piece in enumerate(labels) if piece is not None]
    if not labelled:
        raise LatticeError(
            "a window has too few alignment labels at a seam; remove the alignments (ninja rmali)", key=part.lattice.key
        )
    return states[labelled], [labels[place] or [] for place in labelled]


def _best(part: _Part, states: Ids) -> int:
    """Return the state in `states` with the largest posterior."""
    return int(states[(part.before[states] + part.after[states]).argmin()])
