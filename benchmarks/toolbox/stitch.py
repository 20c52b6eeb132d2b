"""Cut long recordings into overlapping windows, join them again, and compare word error rates with the uncut lattices.

    python -m benchmarks.toolbox stitch ../shared/data/english/test/libri ../shared/data/english/words.txt.gz

DATA holds lat.ark.gz with alignments, and text. A recording of at least --minutes is the concatenation of its lattices.
A window has the arcs that overlap with it; those that cross its ends are cut in proportion to their frames, so that
windows begin and end with parts of words.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

import ninja
from benchmarks.command import argument, command, option, output
from benchmarks.tables import head, put, row, show
from benchmarks.toolbox.recording import join
from ninja.evaluate import align
from ninja.graph import best_path, connect
from ninja.graph.stitch import join_windows
from ninja.lattice import Lattice, Scales
from ninja.lattice.arrays import gather, offsets
from ninja.lattice.times import num_frames, state_times


def cut_window(lattice: Lattice, first: int, last: int) -> Lattice:
    """Return the arcs of a lattice with labels between two frames; arcs that cross them are cut."""
    time, src, dst = state_times(lattice), lattice.src, lattice.dst
    begin, end = time[src], time[dst]
    arcs = np.flatnonzero((begin < last) & (end > first) | (begin == end) & (begin >= first) & (end <= last))
    begin, end = begin[arcs], end[arcs]
    share = (np.minimum(end, last) - np.maximum(begin, first)) / np.maximum(end - begin, 1)
    share[end == begin] = 1.0
    start, stop = lattice.num_states, lattice.num_states + 1  # new states before and after all others
    enters, leaves = np.where(begin < first, start, src[arcs]), np.where(end > last, stop, dst[arcs])
    label = lattice.ali_begin[arcs] + np.maximum(first - begin, 0)
    length = np.minimum(end, last) - np.maximum(begin, first)
    # States at the ends are joined to the new states without labels.
    at_begin, at_end = np.flatnonzero(time == first), np.flatnonzero((time == last) & ~lattice.is_final)
    zeros = np.zeros(at_begin.size + at_end.size, np.int64)
    word, graph, acoustic, length, label = (
        np.concatenate([column, zeros])
        for column in (lattice.word[arcs], lattice.graph[arcs], lattice.acoustic[arcs] * share, length, label)
    )
    leave = np.concatenate([enters, np.full(at_begin.size, start), at_end])
    enter = np.concatenate([leaves, at_begin, np.full(at_end.size, stop)])
    number = np.concatenate([np.arange(1, start + 1), [0, start + 1]])
    order = np.argsort(number[leave], kind="stable")
    size = number.size
    return connect(
        Lattice.from_arrays(
            f"{lattice.key}-{first}",
            np.searchsorted(number[leave][order], np.arange(size + 1)),
            number[enter][order],
            *(column[order] for column in (word, graph, acoustic)),
            np.concatenate([[np.inf], lattice.final_graph, [0.0]]),
            np.concatenate([[np.inf], lattice.final_acoustic, [0.0]]),
            final_ali_begin=np.concatenate([[0], lattice.final_ali_begin, lattice.final_ali_begin[-1:]]),
            final_ali=lattice.final_ali,
            ali_begin=offsets(length[order]),
            ali=gather(lattice.ali, label[order], length[order])[1],
            words=lattice.words,
        )
    )


def recordings(lattices: list[Lattice], num_frames_each: int) -> Iterator[list[Lattice]]:
    """Divide lattices into groups with at least a number of frames; the last group may be shorter."""
    group: list[Lattice] = []
    for lattice in lattices:
        group.append(lattice)
        if sum(map(num_frames, group)) >= num_frames_each:
            yield group
            group = []
    if group:
        yield group


@command
@argument("data")
@argument("words")
@option("--window", default=30.0, help="Length of the windows in seconds.")
@option("--overlap", default=5.0, help="Overlap of the windows in seconds.")
@option("--minutes", default=10.0, help="Least length of a recording in minutes.")
@option("--frame-shift", default=0.01, help="Seconds per label.")
@option("--acoustic-scale", default=0.1, help="Acoustic scale of posteriors and best paths.")
@option("--word-penalty", default=0.0, help="Cost per word of best paths.")
@output
def main(data: Path, words: Path, window: float, overlap: float, minutes: float, frame_shift: float,
         acoustic_scale: float, word_penalty: float, output: Path | None) -> None:  # fmt: skip
    scales = Scales(acoustic_scale, word_penalty=word_penalty)
    lattices = [lattice for _, lattice in ninja.read(data / "lat.ark.gz", words=words)]
    texts = dict(line.split(maxsplit=1) for line in (data / "text").read_text(encoding="utf-8").splitlines())
    width, step = round(window / frame_shift), round((window - overlap) / frame_shift)
    errors, total, seams, windows, ends = {"uncut": 0, "stitched": 0, "cut and concatenated": 0}, 0, [], 0, 0
    for group in recordings(lattices, round(minutes * 60 / frame_shift)):
        whole = join(group)
        length = num_frames(whole)
        begins = [first for first in range(0, max(length - round(overlap / frame_shift), 1), step)]
        parts = [cut_window(whole, first, min(first + width, length)) for first in begins]
        result = join_windows(parts, [first * frame_shift for first in begins], whole.key, frame_shift, scales)
        assert num_frames(result.lattice) == length
        reference = " ".join(texts[lattice.key] for lattice in group).split()
        plain = [best_path(part, scales).words for part in parts]
        hypotheses = {
            "uncut": best_path(whole, scales).words,
            "stitched": best_path(result.lattice, scales).words,
            "cut and concatenated": np.concatenate(plain),
        }
        for name, ids in hypotheses.items():
            assert whole.words is not None
            errors[name] += align(reference, [whole.words.word(word) for word in ids.tolist()]).rate().errors
        total += len(reference)
        seams += [seam.probability for seam in result.seams]
        windows += len(parts)
        borders = set(np.cumsum([num_frames(lattice) for lattice in group]).tolist())
        ends += sum(any(abs(seam.frame - border) <= 2 for border in borders) for seam in result.seams)

    def table() -> Iterator[str]:
        yield from head("words of", "WER %", "errors", "words")
        for name, count in errors.items():
            yield row(name, f"{100 * count / total:.2f}", str(count), str(total))

    lines = show(table())
    print(
        f"{windows} windows, {len(seams)} seams, {ends} of them within 2 frames of an end of an utterance; mean "
        f"probability of a word boundary in both windows {np.mean(seams):.3f}, least {min(seams):.3f}"
    )
    put(output, "stitch", lines)
