"""Slow implementations of alignment: each path is split into words separately, as in Kaldi's source."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from reference_graph import costs_of, paths

from ninja.lattice import Lattice
from ninja.lattice.transition_model import TransitionModel

Unit = tuple[int, tuple[int, ...]]  # word and labels
Kinds = Mapping[int, str]  # of phones


def model_of(topologies: Mapping[int, int], name: str = "small.mdl") -> TransitionModel:
    """Create a model of phones with the given numbers of emitting states: each has a self-loop and a forward
    transition, as in an ordinary HMM."""
    rows = [(0, 0, 0, -1, False, False, 0.0)]
    state = 0
    for phone, length in topologies.items():
        for at in range(length):
            state += 1
            rows.append((phone, at, state, state, False, True, -0.5))
            rows.append((phone, at, state, state, at == length - 1, False, -1.0))
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    kinds = (np.int32, np.int32, np.int32, np.int32, np.bool_, np.bool_, np.float32)
    return TransitionModel(name, *(column.astype(kind) for column, kind in zip(columns, kinds, strict=True)))


@dataclass(slots=True)
class Pending:
    """The labels and words of a path that are not in a unit yet."""

    model: TransitionModel
    reorder: bool = True
    words: list[int] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)
    faulty: bool = False

    def phone(self, at: int) -> int:
        return int(self.model.phone[self.labels[at]])

    def behind_phone(self, at: int) -> int | None:
        """Return the position after the phone that begins at a position; None if its end cannot be determined."""
        while at < len(self.labels) and not self.model.is_final[self.labels[at]]:
            at += 1
        at += 1
        while self.reorder and at < len(self.labels) and self.model.is_self_loop[self.labels[at]]:
            at += 1
        return at if at < len(self.labels) else None

    def check_phone(self, at: int) -> None:
        """Record an error if the phone changes before its last transition."""
        phone = self.phone(at)
        for place in range(at, len(self.labels)):
            if self.phone(place) != phone:
                self.faulty = True
            if self.model.is_final[self.labels[place]]:
                return

    def ends_phone(self) -> bool:
        at = len(self.labels) - 1
        while self.reorder and at > 0 and self.model.is_self_loop[self.labels[at]]:
            at -= 1
        return bool(self.model.is_final[self.labels[at]])

    def give(self, num_labels: int, word: int | None = None) -> Unit:
        """Remove labels, and the first word unless a word is passed; return them as a unit."""
        unit = (self.words.pop(0) if word is None else word, tuple(self.labels[:num_labels]))
        del self.labels[:num_labels]
        return unit

    def word_unit(self, kinds: Kinds) -> Unit | None:
        if not self.labels:
            return None
        first = self.phone(0)
        kind = kinds[first]
        if kind == "nonword":
            self.check_phone(0)
            cut = self.behind_phone(0)
            return None if cut is None else self.give(cut, 0)
        if not self.words or kind not in ("begin", "singleton"):
            return None
        cut = self.behind_phone(0)
        if cut is None:
            return None
        self.faulty |= self.phone(cut - 1) != first
        if kind == "begin":
            while cut < len(self.labels) and kinds[self.phone(cut)] != "end":
                self.faulty |= kinds[self.phone(cut)] != "internal"
                cut += 1
            if cut == len(self.labels):
                return None
            last = self.phone(cut)
            self.check_phone(cut)
            cut = self.behind_phone(cut)
            if cut is None:
                return None
            self.faulty |= self.phone(cut - 1) != last
        return self.give(cut)

    def last_word_unit(self, kinds: Kinds) -> Unit | None:
        """Return the unit that is emitted at the end of a path."""
        if not self.labels:
            self.words.clear()
            self.faulty = True
            return None
        first, last = self.phone(0), self.phone(len(self.labels) - 1)
        if self.words:
            shape = (kinds[first], kinds[last])
            is_single_phone = kinds[first] == "singleton" and first == last
            self.faulty |= not ((is_single_phone or shape == ("begin", "end")) and self.ends_phone())
            return self.give(len(self.labels))
        self.faulty |= kinds[first] != "nonword" or first != last or not self.ends_phone()
        return self.give(len(self.labels), 0)

    def phone_unit(self) -> Unit | None:
        if self.labels:
            self.check_phone(0)
            cut = self.behind_phone(0)
            if cut is not None:
                return self.give(cut, None if self.words else 0)
        return self.give(0) if len(self.words) > 1 else None

    def last_phone_unit(self) -> Unit:
        if self.labels:
            self.faulty |= len({self.phone(at) for at in range(len(self.labels))}) > 1
            self.faulty |= sum(bool(self.model.is_final[label]) for label in self.labels) != 1
        return self.give(len(self.labels), None if self.words else 0)


def pieces(lattice: Lattice, path: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
    """Return word and labels of each arc of a path, then of its final state."""
    for arc in path:
        yield int(lattice.word[arc]), lattice.ali[lattice.ali_begin[arc] : lattice.ali_begin[arc + 1]].tolist()
    end = int(lattice.dst[path[-1]]) if path else 0
    yield 0, lattice.final_ali[lattice.final_ali_begin[end] : lattice.final_ali_begin[end + 1]].tolist()


def units_of_path(
    lattice: Lattice, path: Sequence[int], model: TransitionModel, kinds: Kinds | None, reorder: bool = True
) -> tuple[tuple[Unit, ...], bool]:
    """Split a path into words, or phones without kinds; also return whether Kaldi reports an error."""
    pending = Pending(model, reorder)
    units: list[Unit] = []

    def give_out() -> None:
        while (unit := pending.phone_unit() if kinds is None else pending.word_unit(kinds)) is not None:
            units.append(unit)

    for word, labels in pieces(lattice, path):
        pending.labels += labels
        if word:
            pending.words.append(word)
        give_out()
    while pending.labels or pending.words:
        give_out()
        if pending.labels or pending.words:
            last = pending.last_phone_unit() if kinds is None else pending.last_word_unit(kinds)
            units += [last] if last is not None else []
    return tuple(units), pending.faulty


def aligned_paths(
    lattice: Lattice, model: TransitionModel, kinds: Kinds | None, reorder: bool = True
) -> tuple[dict[tuple[Unit, ...], set[tuple[float, float]]], bool]:
    """Return all paths of a lattice, split, with graph and acoustic costs, and whether any has an error."""
    path_costs: dict[tuple[Unit, ...], set[tuple[float, float]]] = {}
    faulty = False
    for path in paths(lattice):
        units, fault = units_of_path(lattice, path, model, kinds, reorder)
        path_costs.setdefault(units, set()).add(costs_of(lattice, path))
        faulty |= fault
    return path_costs, faulty


def paths_as_units(lattice: Lattice) -> dict[tuple[Unit, ...], set[tuple[float, float]]]:
    """Return the paths of an aligned lattice: each arc a unit, without epsilons."""
    path_costs: dict[tuple[Unit, ...], set[tuple[float, float]]] = {}
    for path in paths(lattice):
        units = tuple((word, tuple(labels)) for word, labels in list(pieces(lattice, path))[:-1] if word or len(labels))
        path_costs.setdefault(units, set()).add(costs_of(lattice, path))
    return path_costs


def segmentations(
    words: Sequence[int], phones: Sequence[Unit], lexicon: Mapping[tuple[int, ...], int]
) -> Iterator[tuple[Unit, ...]]:
    """Return every way to split phones (each with its labels) into entries of a lexicon, with the words in order.

    Args:
        words: Words of the path.
        phones: Phone and labels of each phone of the path.
        lexicon: Output word of each (word, phones...); word 0 is for entries without a word.
    """
    if not words and not phones:
        yield ()
    for length in range(len(phones) + 1):
        labels = tuple(label for _, phone_labels in phones[:length] for label in phone_labels)
        spelled = tuple(phone for phone, _ in phones[:length])
        for word, remaining in [(0, words)] + ([(words[0], words[1:])] if words else []):
            if (word, *spelled) in lexicon and (word or length):
                unit = (lexicon[(word, *spelled)], labels)
                for units in segmentations(remaining, phones[length:], lexicon):
                    yield (unit, *units)


def least_costs(paths: Mapping[tuple[Unit, ...], set[tuple[float, float]]]) -> dict[tuple[int, ...], float]:
    """Return the least total cost of each word sequence."""
    costs: dict[tuple[int, ...], float] = {}
    for units, pairs in paths.items():
        words = tuple(word for word, _ in units)
        costs[words] = min([*map(sum, pairs), costs.get(words, math.inf)])
    return costs
