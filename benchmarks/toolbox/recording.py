"""Write a random lattice of a long recording, and a reference transcript.

    python -m benchmarks.toolbox recording 50000 FOLDER

`join` makes a recording of any length of the lattices of an archive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import ninja
from benchmarks.command import argument, command
from ninja.formats.kaldi.transition_model import read_transition_model
from ninja.graph import best_path, connect, from_arcs, path_lattice
from ninja.graph.transitions import pronunciations
from ninja.lattice import Lattice
from ninja.lattice.arrays import gather, offsets
from ninja.lattice.times import state_times

KEY = "long"
LETTERS = ("<blk>", "|", *"abcdefghijklmnopqrstuvwxyz")  # columns of the matrices


@dataclass(frozen=True, slots=True)
class Size:
    """Size of a recording."""

    num_states: int
    num_arcs: int
    minutes: float

    def __str__(self) -> str:
        return f"{self.num_states:,} states, {self.num_arcs:,} arcs, {self.minutes:.1f} min"


@dataclass(frozen=True, slots=True)
class Arcs:
    """Arcs in any order, with the labels of each."""

    src: np.ndarray
    dst: np.ndarray
    word: np.ndarray
    graph: np.ndarray
    acoustic: np.ndarray
    length: np.ndarray  # of its labels
    ali: np.ndarray


def write_recordings(data: Path, doublings: int, frame_shift: float, folder: Path) -> list[Size]:
    """Write recordings of one utterance, and of ever more up to all, in folders 0, 1, …; return their sizes."""
    lattices = [lattice for _, lattice in ninja.read(data / "lat.ark.gz", words=data / "words.txt.gz")]
    lines = (data / "text").read_text(encoding="utf-8").splitlines()
    references = dict(line.split(maxsplit=1) for line in lines)
    sizes = []
    for number, count in enumerate([1, *(len(lattices) >> halvings for halvings in reversed(range(doublings + 1)))]):
        whole = write_recording(lattices[:count], references, folder / str(number))
        sizes.append(Size(whole.num_states, whole.num_arcs, float(state_times(whole).max()) * frame_shift / 60))
    return sizes


def write_recording(lattices: Sequence[Lattice], references: dict[str, str], folder: Path) -> Lattice:
    """Write a recording of lattices, its best path, table, reference, sentences and phrases; return it."""
    folder.mkdir()
    lattice = join(lattices)
    assert lattice.words is not None
    best = best_path(lattice)
    path = path_lattice(lattice, best)
    for name, archived in ("lat.ark", lattice), ("best.ark", path), ("nbest.ark", path.with_key(f"{KEY}-1")):
        with ninja.write(folder / name) as output:
            output.write(archived)
    sentences = [references[utterance.key] for utterance in lattices]
    spoken = sorted(set(" ".join(sentences).split()))
    word_ids = {0, *lattice.word.tolist(), *(id for word in spoken if (id := lattice.words.id(word)) is not None)}
    texts = {
        "words.txt": [f"{lattice.words.word(word)} {word}" for word in sorted(word_ids)],
        "text": [" ".join([KEY, *sentences])],
        "best": [" ".join([KEY, *map(lattice.words.word, best.words.tolist())])],
        "ids": [" ".join([KEY, *map(str, best.words.tolist())])],
        "sentences": sentences,
        "phrases": spoken[:1000],
    }
    for name, lines in texts.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return lattice


def write_lexicon(folder: Path, model: Path) -> None:
    """Write the words of a recording, word-aligned in ``words.ark``, with their phones for align-words-lexicon."""
    ((_, lattice),) = ninja.read(folder / "words.ark")
    arcs = np.flatnonzero(np.diff(lattice.ali_begin))
    length = np.diff(lattice.ali_begin)[arcs]
    zero = np.zeros(arcs.size, np.float32)
    last = np.where(np.arange(arcs.size + 1) < arcs.size, np.inf, 0).astype(np.float32)
    chain = Lattice.from_arrays(
        KEY,
        np.minimum(np.arange(arcs.size + 2), arcs.size),
        np.arange(1, arcs.size + 1),
        lattice.word[arcs],
        *(zero, zero, last, last),
        ali_begin=offsets(length),
        ali=gather(lattice.ali, lattice.ali_begin[arcs], length)[1],
    )
    words = pronunciations(chain, read_transition_model(model))
    lines = {" ".join(map(str, (word.word, word.word, *word.phones))) for word in words}
    (folder / "lexicon").write_text("".join(f"{line}\n" for line in sorted(lines)), encoding="utf-8")


def write_matrix(folder: Path, minutes: float) -> None:
    """Write logits of letters at 25 frames a second, in which two frames of three are of random words."""
    random = np.random.default_rng(0)
    words = ["".join(random.choice(LETTERS[2:], random.integers(2, 9))) for _ in range(1000)]
    text = "|".join(random.choice(words, int(minutes * 60 * 25 / 3 / 6)))
    logits = random.normal(0, 1, (3 * len(text), len(LETTERS))).astype(np.float32)
    unit = np.array([LETTERS.index(letter) for letter in text])
    for frame, column in (0, unit), (1, unit), (2, np.zeros_like(unit)):
        logits[np.arange(len(unit)) * 3 + frame, column] += 8
    np.save(folder / f"{KEY}.npy", logits)
    (folder / "tokens").write_text("".join(f"{unit} {column}\n" for column, unit in enumerate(LETTERS)))


def join(lattices: Sequence[Lattice]) -> Lattice:
    """Concatenate lattices: the arcs of the next one's start leave the end of the best path."""
    parts = []
    offset = 0  # id of a lattice's start in the recording, if it were kept
    for number, lattice in enumerate(lattices):
        first = int(lattice.arc_begin[1]) if number else 0
        parts.append(_inner_arcs(lattice, first, offset))
        if number + 1 < len(lattices):
            parts.append(_seam(lattice, lattices[number + 1], offset))
            offset += lattice.num_states - 1
    arcs = Arcs(*(np.concatenate([getattr(part, name) for part in parts]) for name in Arcs.__slots__))
    order = np.argsort(arcs.src, kind="stable")
    length = arcs.length[order]
    last = lattices[-1]
    infinite = np.full(offset, np.inf, np.float32)
    whole = Lattice.from_arrays(
        KEY,
        np.searchsorted(arcs.src[order], np.arange(offset + last.num_states + 1)),
        *(column[order] for column in (arcs.dst, arcs.word, arcs.graph, arcs.acoustic)),
        np.concatenate([infinite, last.final_graph]),
        np.concatenate([infinite, last.final_acoustic]),
        ali_begin=offsets(length),
        ali=gather(arcs.ali, offsets(arcs.length)[:-1][order], length)[1],
        final_ali_begin=np.concatenate([np.zeros(offset, np.int64), last.final_ali_begin]),
        final_ali=last.final_ali,
        words=last.words,
    )
    return connect(whole)


def random_recording(num_states: int, arcs_per_state: int = 10, seed: int = 0) -> tuple[Lattice, list[int]]:
    """Draw a lattice with a spoken word for each three to seven states and competitors of higher costs.

    Words are distributed as in text. One spoken word in 20 is not in the lattice; one word of the lattice in 33 is not
    in the reference.

    Returns:
        The lattice, and the ids of the reference.
    """
    random = np.random.default_rng(seed)
    word_at = np.cumsum(random.integers(3, 8, num_states))
    word_at = np.concatenate([[0], word_at[word_at < num_states - 1], [num_states - 1]])
    spoken = np.minimum(random.zipf(1.3, len(word_at) - 1), 20_000)
    src = np.repeat(np.arange(num_states - 1), arcs_per_state)
    dst = np.minimum(src + random.integers(1, 10, len(src)), num_states - 1)
    dst[::arcs_per_state] = src[::arcs_per_state] + 1
    word = np.minimum(random.zipf(1.3, len(src)), 20_000)
    word[random.random(len(src)) < 0.1] = 0
    cost = 2.0 * (dst - src) + random.exponential(3.0, len(src))
    for begins, ends in ((0, 0), (0, -1), (0, 1), (-1, 0), (1, 0), (-1, -1), (1, 1)):  # spoken words, near their time
        first, last = np.clip(word_at[:-1] + begins, 0, None), np.clip(word_at[1:] + ends, None, num_states - 1)
        fits = (first < last) & (first < num_states - 1)
        arc = first[fits] * arcs_per_state + random.integers(1, arcs_per_state, fits.sum())
        dst[arc], word[arc] = last[fits], spoken[fits]
        shifted = abs(begins) + abs(ends)
        cost[arc] = 0.6 * (last - first)[fits] + random.exponential(2.0, fits.sum()) + shifted
    reference = np.where(random.random(len(spoken)) < 0.05, 20_001, spoken)[random.random(len(spoken)) < 0.97]
    finals, zero = {num_states - 1: (0.0, 0.0)}, np.zeros(len(src))
    return from_arcs(KEY, src, dst, word, zero, cost, finals=finals, time=7 * np.arange(num_states)), reference.tolist()


def _inner_arcs(lattice: Lattice, first: int, offset: int) -> Arcs:
    """Return the arcs of a lattice from `first` on."""
    columns = lattice.src + offset, lattice.dst + offset, lattice.word, lattice.graph, lattice.acoustic
    src, dst, word, graph, acoustic = (column[first:] for column in columns)
    length = np.diff(lattice.ali_begin)[first:]
    return Arcs(src, dst, word, graph, acoustic, length, lattice.ali[lattice.ali_begin[first] :])


def _seam(before: Lattice, lattice: Lattice, offset: int) -> Arcs:
    """Return arcs from the end of the best path of one lattice to the destinations of the next lattice's first arcs."""
    first_state = offset + before.num_states - 1
    end = int(before.dst[best_path(before).arcs[-1]])
    leaving = before.word[before.arc_begin[end] : before.arc_begin[end + 1]]
    arc = np.flatnonzero(
        ~np.isin(lattice.word[: lattice.arc_begin[1]], leaving)
    )  # so that deterministic lattices remain so
    ending = before.final_ali[before.final_ali_begin[end] : before.final_ali_begin[end + 1]]
    labels = [
        np.concatenate([ending, lattice.ali[lattice.ali_begin[index] : lattice.ali_begin[index + 1]]]) for index in arc
    ]
    return Arcs(
        np.full(arc.size, offset + end),
        first_state + lattice.dst[arc],
        lattice.word[arc],
        before.final_graph[end] + lattice.graph[arc],
        before.final_acoustic[end] + lattice.acoustic[arc],
        np.array([len(part) for part in labels], np.int64),
        np.concatenate(labels),
    )


@command
@argument("states", type=int)
@argument("folder")
def main(states: int, folder: Path) -> None:
    lattice, words = random_recording(states)
    folder.mkdir(exist_ok=True)
    with ninja.write(folder / "lat.ark") as archive:
        archive.write(lattice)
    (folder / "text").write_text(" ".join([KEY, *map(str, words)]) + "\n", encoding="utf-8")
