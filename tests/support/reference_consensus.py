"""Slow implementations of consensus decoding: over all paths, and by the recursion of the paper."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from reference_graph import cost_of, paths, words_of

from ninja.graph import state_times
from ninja.lattice import Lattice

EXTRA = 1.0 + float(np.float32(1e-5))  # cost of an inserted word


def edit_distance(reference: Sequence[int], hypothesis: Sequence[int]) -> int:
    row = list(range(len(hypothesis) + 1))
    for i, word in enumerate(reference, start=1):
        above, row = row, [i]
        for j, hypothesis_word in enumerate(hypothesis, start=1):
            row.append(min(above[j - 1] + (word != hypothesis_word), above[j] + 1, row[j - 1] + 1))
    return row[-1]


def expected_errors(lattice: Lattice, words: Sequence[int], **scales: float) -> float:
    """Return the mean edit distance of a word sequence from all paths, weighted by their probability."""
    all_paths = paths(lattice)
    costs = np.array([cost_of(lattice, path, **scales) for path in all_paths])
    probable = np.exp(costs.min() - costs)
    errors = [edit_distance(words_of(lattice, path), words) for path in all_paths]
    return float(np.dot(probable / probable.sum(), errors))


def log_add(a: float, b: float) -> float:
    """Add with the rounding of Kaldi's LogAdd: if two alignments cost the same, the last bit decides."""
    larger, smaller = max(a, b), min(a, b)
    threshold = math.log(np.finfo(float).eps)
    return (
        larger
        if smaller == -math.inf or smaller - larger < threshold
        else larger + math.log1p(math.exp(smaller - larger))
    )


@dataclass
class Bin:
    gamma: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    begin: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    end: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    forms: dict[int, float] = field(default_factory=lambda: defaultdict(float))  # written form → probability
    marks: dict[int, float] = field(default_factory=lambda: defaultdict(float))  # of arcs without words

    def add(self, word: int, share: float, begin: float, end: float) -> None:
        if share != 0.0:
            self.gamma[word] += share
            self.begin[word] += begin * share
            self.end[word] += end * share

    def ranked(self) -> list[tuple[int, np.float32]]:
        entries = [(word, np.float32(share)) for word, share in self.gamma.items()]
        return sorted(entries, key=lambda pair: (-pair[1], -pair[0]))


@dataclass
class Decoded:
    words: list[int]
    confidences: list[float]
    times: list[list[float]]
    bins: list[list[tuple[int, np.float32]]]
    bin_times: list[list[float]]
    word_times: list[list[tuple[float, float]]]
    risk: float
    forms: list[dict[int, float]]
    marks: list[dict[int, float]]


class SlowConsensus:
    """Figures 4 to 6 of Xu et al. 2011, state by state and position by position."""

    def __init__(
        self, lattice: Lattice, acoustic_scale: float, lm_scale: float, word_penalty: float, form: Sequence[int] = ()
    ) -> None:
        single = np.float32
        time = state_times(lattice)
        self.time = [*time.tolist(), 0]  # the last entry is for an added final state
        last = lattice.num_states - 1
        free = float(lm_scale * lattice.final_graph[last]) == float(acoustic_scale * lattice.final_acoustic[last]) == 0
        ends = lattice.final_ali_begin[last + 1] == lattice.final_ali_begin[last]
        # Kaldi adds a final state unless there is exactly one without costs and labels.
        self.end = last if lattice.is_final.sum() == 1 and free and ends else lattice.num_states
        self.links: list[tuple[int, int, int, float]] = []  # source, destination, word, log-likelihood
        forms = []
        for state in range(lattice.num_states):
            for arc in range(lattice.arc_begin[state], lattice.arc_begin[state + 1]):
                graph = single(single(lm_scale) * lattice.graph[arc])
                graph = single(graph + single(word_penalty)) if lattice.word[arc] else graph
                cost = single(graph + single(single(acoustic_scale) * lattice.acoustic[arc]))
                self.links.append((state, int(lattice.dst[arc]), int(lattice.word[arc]), -float(cost)))
                forms.append(int(form[arc]) if len(form) else 0)
            if lattice.is_final[state] and self.end > last:
                graph = single(single(lm_scale) * lattice.final_graph[state])
                cost = single(graph + single(single(acoustic_scale) * lattice.final_acoustic[state]))
                self.links.append((state, self.end, 0, -float(cost)))
                forms.append(0)
                length = int(lattice.final_ali_begin[state + 1] - lattice.final_ali_begin[state])
                self.time[self.end] = max(self.time[self.end], self.time[state] + length)
        self.form = forms
        self.alpha = [0.0] + [-math.inf] * self.end
        for src, dst, _, loglike in self.links:
            self.alpha[dst] = log_add(self.alpha[dst], self.alpha[src] + loglike)

    def best_words(self) -> list[int]:
        best: dict[int, tuple[float, list[int]]] = {0: (0.0, [])}
        for src, dst, word, loglike in self.links:
            if src in best:
                cost = float(np.float32(best[src][0] - loglike))
                if dst not in best or cost < best[dst][0]:
                    best[dst] = cost, best[src][1] + [word] * (word != 0)
        return best[self.end][1]

    def prob(self, src: int, dst: int, loglike: float) -> float:
        return 0.0 if self.alpha[src] == -math.inf else math.exp(self.alpha[src] + loglike - self.alpha[dst])

    def along(self, row: list[float], word: int, places: list[int]) -> tuple[list[float], list[str]]:
        """Return the edit distance between a link's end and each prefix of the positions, and the last edit."""
        insertion_cost = 0.0 if word == 0 else EXTRA
        distances, steps = [row[0] + insertion_cost], ["insertion"]
        for q, place in enumerate(places, start=1):
            moves = [
                (row[q - 1] + (word != place), "match"),
                (row[q] + insertion_cost, "insertion"),
                (distances[q - 1] + (place != 0), "deletion"),
            ]
            value, step = min(moves, key=lambda way: way[0])  # the first of equal moves
            distances.append(value)
            steps.append(step)
        return distances, steps

    def statistics(self, places: list[int]) -> tuple[list[Bin], float]:
        count = len(places)
        distance = [[0.0] * (count + 1) for _ in range(self.end + 1)]
        for q, place in enumerate(places, start=1):
            distance[0][q] = distance[0][q - 1] + (place != 0)
        for (
            src,
            dst,
            word,
            loglike,
        ) in self.links:  # sorted by source: the distances of a source are complete when they are used
            distances, _ = self.along(distance[src], word, places)
            for q in range(count + 1):
                distance[dst][q] += self.prob(src, dst, loglike) * distances[q]
        share = [[0.0] * (count + 1) for _ in range(self.end + 1)]
        share[self.end][count] = 1.0
        bins = [Bin() for _ in places]
        for state in range(self.end, 0, -1):
            for (src, dst, word, loglike), form in zip(self.links, self.form, strict=True):
                if dst != state:
                    continue
                _, steps = self.along(distance[src], word, places)
                mass = [self.prob(src, dst, loglike) * value for value in share[state]]
                for q in range(count, 0, -1):
                    if form and word == 0 and steps[q] != "deletion":
                        bins[2 * (q // 2)].marks[form] += mass[q]
                    if form and word and steps[q] == "match":
                        bins[q - 1].forms[form] += mass[q]
                    if steps[q] == "match":
                        share[src][q - 1] += mass[q]
                        bins[q - 1].add(word, mass[q], self.time[src], self.time[state])
                    elif steps[q] == "insertion":
                        share[src][q] += mass[q]
                    else:
                        mass[q - 1] += mass[q]
                        bins[q - 1].add(0, mass[q], self.time[state], self.time[state])
                if form and word == 0:
                    bins[0].marks[form] += mass[0]
                share[src][0] += mass[0]
        for q in range(count, 0, -1):
            share[0][q - 1] += share[0][q]
            bins[q - 1].add(0, share[0][q], self.time[0], self.time[0])
        return bins, distance[self.end][count]

    def decode(self, words: list[int], search: bool) -> Decoded:
        while True:
            places = [0] + [label for word in words for label in (word, 0)]
            bins, risk = self.statistics(places)
            ranked = [slot.ranked() for slot in bins]
            better = [order[0][0] for order in ranked] if search else places
            gains = [dict(order).get(place, 0) != order[0][1] for place, order in zip(places, ranked, strict=True)]
            words = [word for word in better if word != 0]
            if not search or not any(gains):
                break
        times = [[sum(slot.begin.values()), sum(slot.end.values())] for slot in bins]
        for earlier, later in pairwise(times):
            if np.float32(earlier[1]) > np.float32(later[0]):
                earlier[1] = later[0] = 0.5 * (earlier[1] + later[0])
        word_times = [
            [(slot.begin[word] / slot.gamma[word], slot.end[word] / slot.gamma[word]) for word, _ in order]
            for slot, order in zip(bins, ranked, strict=True)
        ]
        spans: list[list[float]] = []
        for q, word in enumerate(better):
            if word != 0:
                ranked_words = [entry for entry, _ in ranked[q]]
                spans.append(list(word_times[q][ranked_words.index(word) if word in ranked_words else 0]))
                split_overlap(spans)
        confidences = [float(dict(ranked[q]).get(word, 0.0)) for q, word in enumerate(better) if word != 0]
        forms, marks = [dict(slot.forms) for slot in bins], [dict(slot.marks) for slot in bins]
        return Decoded(words, confidences, spans, ranked, times, word_times, risk, forms, marks)


def split_overlap(spans: list[list[float]]) -> None:
    """If the last word begins before the previous one ends, divide their time in proportion to their durations."""
    if len(spans) < 2 or np.float32(spans[-2][1]) <= np.float32(spans[-1][0]):
        return
    (begin, end), (next_begin, next_end) = spans[-2:]
    begin_bound = max(spans[-3][1] if len(spans) > 2 else 0.0, min(begin, next_begin))
    end_bound = max(end, next_end)
    share = (end - begin) / (end - begin + next_end - next_begin) if end > begin else 0.0
    middle = begin_bound + (end_bound - begin_bound) * share
    spans[-2:] = [[begin_bound, middle], [middle, end_bound]]


def slow_decode(
    lattice: Lattice,
    acoustic_scale: float = 1.0,
    lm_scale: float = 1.0,
    word_penalty: float = 0.0,
    *,
    decode_mbr: bool = True,
    hypothesis: list[int] | None = None,
    form: Sequence[int] = (),
) -> Decoded:
    """Decode a lattice; `form` is the written form of each arc."""
    slow = SlowConsensus(lattice, acoustic_scale, lm_scale, word_penalty, form)
    return slow.decode(slow.best_words() if hypothesis is None else hypothesis, decode_mbr)
