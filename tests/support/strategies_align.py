"""Random small models and lattices of words, for the tests of alignment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st
from reference_word_align import model_of
from strategies import costs, lattices

from ninja.graph import from_arcs
from ninja.lattice import Lattice
from ninja.lattice.transition_model import TransitionModel
from ninja.lattice.word_phones import KINDS, WordBoundary

PHONES = {1: "nonword", 2: "nonword", 3: "begin", 4: "end", 5: "internal", 6: "singleton", 7: "begin", 8: "end"}
BOUNDARY = WordBoundary("small_boundary.int", {phone: KINDS[kind] for phone, kind in PHONES.items()})
SPELLINGS = {1: (6,), 2: (3, 4), 3: (3, 5, 4), 4: (7, 8), 5: (3, 5, 5, 8), 6: (3, 4)}  # two words sound alike


@dataclass(frozen=True, slots=True)
class LabelledLattice:
    """A model, and a lattice created with it."""

    model: TransitionModel
    lattice: Lattice
    reorder: bool


@st.composite
def models(draw: st.DrawFn) -> TransitionModel:
    """Draw a model of the phones, of one to three states each."""
    return model_of({phone: draw(st.integers(1, 3)) for phone in PHONES})


def phone_labels(draw: st.DrawFn, model: TransitionModel, phone: int, reorder: bool) -> list[int]:
    """Draw transition ids of a phone from its begin to its end."""
    labels: list[int] = []
    ids = np.flatnonzero(model.phone == phone)
    for loop, leave in zip(ids[::2].tolist(), ids[1::2].tolist(), strict=True):
        loops = [loop] * draw(st.integers(0, 2))
        labels += [leave, *loops] if reorder else [*loops, leave]
    return labels


def word_labels(draw: st.DrawFn, model: TransitionModel, word: int, reorder: bool) -> list[int]:
    """Draw transition ids of a word, with or without a silence before it."""
    silence = draw(st.sampled_from([0, 0, 1, 2]))
    phones = ((silence,) if silence else ()) + SPELLINGS[word]
    return [label for phone in phones for label in phone_labels(draw, model, phone, reorder)]


def common_length(lists: Sequence[list[int]]) -> int:
    """Return the length of the common prefix of some lists."""
    length = 0
    while all(len(labels) > length and labels[length] == lists[0][length] for labels in lists):
        length += 1
    return length


@st.composite
def labelled_trees(draw: st.DrawFn, max_words: int = 7) -> LabelledLattice:
    """Draw a deterministic lattice without epsilons whose labels are before or after their words."""
    model, reorder = draw(models()), draw(st.booleans())
    parents, words = [0], [0]  # parent of each node, and the word of the arc into it
    for _ in range(draw(st.integers(1, max_words))):
        parent = draw(st.integers(0, len(parents) - 1))
        sibling_words = {words[node] for node in range(1, len(parents)) if parents[node] == parent}
        if free := sorted(set(SPELLINGS) - sibling_words):
            parents.append(parent)
            words.append(draw(st.sampled_from(free)))
    nodes = range(1, len(parents))
    labels = [[], *(word_labels(draw, model, words[node], reorder) for node in nodes)]
    is_final = [draw(st.booleans()) or node not in parents[1:] for node in range(len(parents))]
    ending = [phone_labels(draw, model, 1, reorder) if final and draw(st.booleans()) else [] for final in is_final]

    for node in nodes:  # parents first: move the last labels of an arc to all its successors
        moved = draw(st.integers(0, len(labels[node])))
        tail = labels[node][len(labels[node]) - moved :]
        del labels[node][len(labels[node]) - moved :]
        for child in nodes:
            if parents[child] == node:
                labels[child] = tail + labels[child]
        ending[node] = tail + ending[node] if is_final[node] else []
    for node in reversed(nodes):  # in the other direction: move the common prefix of all successors
        following = [labels[child] for child in nodes if parents[child] == node] + [ending[node]] * is_final[node]
        common = common_length(following)
        moved = draw(st.integers(0, common)) if draw(st.booleans()) else 0
        labels[node] = labels[node] + following[0][:moved]
        for tail_labels in following:
            del tail_labels[:moved]
    lattice = from_arcs(
        "tree",
        parents[1:],
        list(nodes),
        words[1:],
        *(draw(st.lists(costs(), min_size=len(nodes), max_size=len(nodes))) for _ in range(2)),
        finals={node: (draw(costs()), draw(costs())) for node in range(len(parents)) if is_final[node]},
        labels=labels[1:],
        final_labels={node: ending[node] for node in range(len(parents)) if is_final[node]},
    )
    return LabelledLattice(model, lattice, reorder)


@st.composite
def labelled_sausages(draw: st.DrawFn, max_length: int = 4) -> LabelledLattice:
    """Draw a deterministic lattice with branching and joining paths: all words of a position end with the same
    phone."""
    model, reorder = draw(models()), draw(st.booleans())
    ends = {4: [2, 3, 6], 8: [4, 5], 6: [1]}
    src, word, labels, tail = [], [], [], []
    length = draw(st.integers(1, max_length))
    for place in range(length):
        last = draw(st.sampled_from(sorted(ends)))
        spoken = phone_labels(draw, model, last, reorder)
        moved = draw(st.integers(0, len(spoken)))
        for word_id in sorted(draw(st.sets(st.sampled_from(ends[last]), min_size=1))):
            before = [label for phone in SPELLINGS[word_id][:-1] for label in phone_labels(draw, model, phone, reorder)]
            silence = phone_labels(draw, model, 1, reorder) if draw(st.booleans()) else []
            src.append(place)
            word.append(word_id)
            labels.append(tail + silence + before + spoken[: len(spoken) - moved])
        tail = spoken[len(spoken) - moved :]
    size = len(src)
    lattice = from_arcs(
        "row",
        src,
        [place + 1 for place in src],
        word,
        *(draw(st.lists(costs(), min_size=size, max_size=size)) for _ in range(2)),
        finals={length: (draw(costs()), draw(costs()))},
        labels=labels,
        final_labels={length: tail},
    )
    return LabelledLattice(model, lattice, reorder)


@st.composite
def damaged_lattices(draw: st.DrawFn) -> LabelledLattice:
    """Draw a lattice in which some labels are changed, or the end is missing."""
    spoken: LabelledLattice = draw(st.one_of(labelled_trees(), labelled_sausages()))
    lattice = spoken.lattice
    pool, num_ids = lattice.ali.copy(), spoken.model.num_transition_ids
    for _ in range(draw(st.integers(0, 3)) if pool.size else 0):
        pool[draw(st.integers(0, pool.size - 1))] = draw(st.integers(1, num_ids))
    final_begin, final_pool = lattice.final_ali_begin, lattice.final_ali
    if draw(st.booleans()):
        final_begin, final_pool = np.zeros_like(final_begin), final_pool[:0]
    if not pool.size and not final_pool.size:
        return spoken
    return replace(spoken, lattice=replace(lattice, ali=pool, final_ali=final_pool, final_ali_begin=final_begin))


@st.composite
def arbitrary_lattices(draw: st.DrawFn) -> LabelledLattice:
    """Draw any lattice with labels of a model: epsilons, repeated words, invalid sequences."""
    model = draw(models())
    lattice: Lattice = draw(lattices(max_states=5, max_arcs=2))

    def wrap_ids(labels: np.ndarray) -> np.ndarray:
        return ((labels - 1) % model.num_transition_ids + 1).astype(np.int32)

    if not lattice.ali.size and not lattice.final_ali.size:
        return draw(labelled_sausages())
    lattice = replace(lattice, ali=wrap_ids(lattice.ali), final_ali=wrap_ids(lattice.final_ali))
    return LabelledLattice(model, lattice, draw(st.booleans()))


def integer_lines(entries: Sequence[tuple[int, ...]]) -> str:
    """Write lines of integers."""
    return "".join(" ".join(map(str, entry)) + "\n" for entry in entries)


def linear_lattice(*arcs: tuple[int, list[int]], final: list[int] | None = None) -> Lattice:
    """Return a lattice of one path from the word and the labels of each arc."""
    size = len(arcs)
    return from_arcs(
        "utt",
        range(size),
        range(1, size + 1),
        [word for word, _ in arcs],
        [1.0] * size,
        [0.5] * size,
        finals={size: (0.25, 0.125)},
        labels=[labels for _, labels in arcs],
        final_labels={size: final or []},
        frame_shift=0.03,
    )


def homophone_lattice(size: int) -> Lattice:
    """Return repeated pairs of homophones: states cannot be shared, as all labels are on the final state."""
    src = [state for state in range(size) for _ in range(2)]
    labels: list[list[int]] = [[] for _ in src]
    final = {size: [12] * size}
    dst = [state + 1 for state in src]
    graph, finals = range(2 * size), {size: 0.0}
    return from_arcs("grows", src, dst, [1, 2] * size, graph, finals=finals, labels=labels, final_labels=final)
