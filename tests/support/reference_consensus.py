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

EXTRA = 1.0 + float(np.float32(1e-5))  # a word left over


def edit_distance(one: Sequence[int], other: Sequence[int]) -> int:
    row = list(range(len(other) + 1))
    for i, word in enumerate(one, start=1):
        before, row = row, [i]
        for j, there in enumerate(other, start=1):
            row.append(min(before[j - 1] + (word != there), before[j] + 1, row[j - 1] + 1))
    return row[-1]


def expected_errors(lattice: Lattice, words: Sequence[int], **scales: float) -> float:
    """Return the mean edit distance of a word sequence from all paths, weighted by their probability."""
    all_paths = paths(lattice)
    costs = np.array([cost_of(lattice, path, **scales) for path in all_paths])
    probable = np.exp(costs.min() - costs)
    errors = [edit_distance(words_of(lattice, path), words) for path in all_paths]
    return float(np.dot(probable / probable.sum(), errors))


def log_add(one: float, other: float) -> float:
    """Add with the rounding of Kaldi's LogAdd: if two alignments cost the same, the last bit decides."""
    most, least = max(one, other), min(one, other)
    small = math.log(np.finfo(float).eps)
    return most if least == -math.inf or least - most < small else most + math.log1p(math.exp(least - most))


@dataclass
class Bin:
    gamma: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    begin: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    end: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    forms: dict[int, float] = field(default_factory=lambda: defaultdict(float))  # written form → probability
    marks: dict[int, float] = field(default_factory=lambda: defaultdict(float))  # those without words

    def add(self, word: int, share: float, begin: float, end: float) -> None:
        if share != 0.0:
            self.gamma[word] += share
            self.begin[word] += begin * share
            self.end[word] += end * share

    def ranked(self) -> list[tuple[int, np.float32]]:
        found = [(word, np.float32(share)) for word, share in self.gamma.items()]
        return sorted(found, key=lambda pair: (-pair[1], -pair[0]))


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
        self.time = [*time.tolist(), 0]  # the last where there are several ends
        last = lattice.num_states - 1
        free = float(lm_scale * lattice.final_graph[last]) == float(acoustic_scale * lattice.final_acoustic[last]) == 0
        ends = lattice.final_ali_begin[last + 1] == lattice.final_ali_begin[last]
        # Kaldi adds a state for the end where there is not one already.
        self.end = last if lattice.is_final.sum() == 1 and free and ends else lattice.num_states
        self.links: list[tuple[int, int, int, float]] = []  # from, to, word, log-likelihood
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
        """Return the distance of a link's end from each prefix of the positions, and the last step."""
        left_over = 0.0 if word == 0 else EXTRA
        found, steps = [row[0] + left_over], ["left over"]
        for q, place in enumerate(places, start=1):
            ways = [
                (row[q - 1] + (word != place), "pair"),
                (row[q] + left_over, "left over"),
                (found[q - 1] + (place != 0), "missing"),
            ]
            value, step = min(ways, key=lambda way: way[0])  # the first of equal ones
            found.append(value)
            steps.append(step)
        return found, steps

    def statistics(self, places: list[int]) -> tuple[list[Bin], float]:
        count = len(places)
        distance = [[0.0] * (count + 1) for _ in range(self.end + 1)]
        for q, place in enumerate(places, start=1):
            distance[0][q] = distance[0][q - 1] + (place != 0)
        for src, dst, word, loglike in self.links:  # by source, so what leaves a state is known by then
            found, _ = self.along(distance[src], word, places)
            for q in range(count + 1):
                distance[dst][q] += self.prob(src, dst, loglike) * found[q]
        share = [[0.0] * (count + 1) for _ in range(self.end + 1)]
        share[self.end][count] = 1.0
        bins = [Bin() for _ in places]
        for state in range(self.end, 0, -1):
            for (src, dst, word, loglike), form in zip(self.links, self.form, strict=True):
                if dst != state:
                    continue
                _, steps = self.along(distance[src], word, places)
                here = [self.prob(src, dst, loglike) * each for each in share[state]]
                for q in range(count, 0, -1):
                    if form and word == 0 and steps[q] != "missing":
                        bins[2 * (q // 2)].marks[form] += here[q]
                    if form and word and steps[q] == "pair":
                        bins[q - 1].forms[form] += here[q]
                    if steps[q] == "pair":
                        share[src][q - 1] += here[q]
                        bins[q - 1].add(word, here[q], self.time[src], self.time[state])
                    elif steps[q] == "left over":
                        share[src][q] += here[q]
                    else:
                        here[q - 1] += here[q]
                        bins[q - 1].add(0, here[q], self.time[state], self.time[state])
                if form and word == 0:
                    bins[0].marks[form] += here[0]
                share[src][0] += here[0]
        for q in range(count, 0, -1):
            share[0][q - 1] += share[0][q]
            bins[q - 1].add(0, share[0][q], self.time[0], self.time[0])
        return bins, distance[self.end][count]

    def decode(self, words: list[int], search: bool) -> Decoded:
        while True:
            places = [0] + [each for word in words for each in (word, 0)]
            bins, risk = self.statistics(places)
            ranked = [each.ranked() for each in bins]
            better = [each[0][0] for each in ranked] if search else places
            gains = [dict(each).get(place, 0) != each[0][1] for place, each in zip(places, ranked, strict=True)]
            words = [word for word in better if word != 0]
            if not search or not any(gains):
                break
        times = [[sum(each.begin.values()), sum(each.end.values())] for each in bins]
        for earlier, later in pairwise(times):
            if np.float32(earlier[1]) > np.float32(later[0]):
                earlier[1] = later[0] = 0.5 * (earlier[1] + later[0])
        word_times = [
            [(each.begin[word] / each.gamma[word], each.end[word] / each.gamma[word]) for word, _ in order]
            for each, order in zip(bins, ranked, strict=True)
        ]
        spans: list[list[float]] = []
        for q, word in enumerate(better):
            if word != 0:
                known = [entry for entry, _ in ranked[q]]
                spans.append(list(word_times[q][known.index(word) if word in known else 0]))
                split_overlap(spans)
        confidences = [float(dict(ranked[q]).get(word, 0.0)) for q, word in enumerate(better) if word != 0]
        forms, marks = [dict(each.forms) for each in bins], [dict(each.marks) for each in bins]
        return Decoded(words, confidences, spans, ranked, times, word_times, risk, forms, marks)


def split_overlap(spans: list[list[float]]) -> None:
    """If the last word begins before the previous one ends, divide their time in proportion to their durations."""
    if len(spans) < 2 or np.float32(spans[-2][1]) <= np.float32(spans[-1][0]):
        return
    (begin, end), (next_begin, next_end) = spans[-2:]
    left = max(spans[-3][1] if len(spans) > 2 else 0.0, min(begin, next_begin))
    right = max(end, next_end)
    share = (end - begin) / (end - begin + next_end - next_begin) if end > begin else 0.0
    middle = left + (right - left) * share
    spans[-2:] = [[left, middle], [middle, right]]


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
