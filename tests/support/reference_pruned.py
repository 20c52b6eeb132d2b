"""Slow implementation of ``ext/search/pruned_search.hpp``: pruned composition one arc at a time, as in Kaldi.

Scores are computed one by one, and states are looked up in dictionaries. Numbers that are floats in Kaldi are rounded
to floats, since rounding decides the order in which arcs are expanded.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field

import numpy as np
from fake_lm import FakeLM

from ninja.lattice import Lattice
from ninja.rescoring.algorithms import RescoreOptions

FINAL = -1  # replaces the arc of a final cost


def single(value: float) -> float:
    """Round to float32."""
    return float(np.float32(value))


@dataclass
class State:
    """A composed state; the names are those of Kaldi."""

    lat_state: int
    lm_state: tuple[int, ...]
    forward_cost: float
    delta_backward_cost: float
    depth: int
    backward_cost: float = math.inf
    prev: int = -1
    sorted_arc_index: int = 0
    final_graph: float = math.inf
    arcs: list[tuple[int, int, float]] = field(default_factory=list)  # next state, lattice arc, graph cost


class Composition:
    """Compose one lattice with a language model."""

    def __init__(self, lattice: Lattice, lm: FakeLM, options: RescoreOptions) -> None:
        self.lattice = lattice
        self.lm = lm
        self.options = options
        self.beam = options.search_beam
        self.representative = {(-1,): ()}  # LM state -> the first history that reached it; -1 is <s>
        self.lat_backward = np.full(lattice.num_states, math.inf)
        self.sorted_arcs: list[list[tuple[float, int]]] = [[] for _ in range(lattice.num_states)]
        self.rank_arcs()
        self.states = [State(0, (-1,), 0.0, 0.0, 0)]
        self.pair_to_state = {(0, (-1,)): 0}
        self.queue = [(0.0, 0)]
        self.num_arcs = 0
        self.depth_penalty = -1000.0
        self.output_best = math.inf
        self.cutoff = math.inf

    def acoustic(self, cost: float) -> float:
        return single(single(self.options.acoustic_scale) * float(cost))

    def cost(self, arc: int, graph: float) -> float:
        penalty = self.options.word_penalty if self.lattice.word[arc] else 0.0
        return graph + self.acoustic(self.lattice.acoustic[arc]) + penalty

    def final_cost(self, lat_state: int, graph: float) -> float:
        return graph + self.acoustic(self.lattice.final_acoustic[lat_state])

    def rank_arcs(self) -> None:
        lattice = self.lattice
        for state in reversed(range(lattice.num_states)):
            costs = []
            if lattice.is_final[state]:
                costs.append((single(self.final_cost(state, float(lattice.final_graph[state]))), FINAL))
            for arc in range(lattice.arc_begin[state], lattice.arc_begin[state + 1]):
                ahead = self.lat_backward[lattice.dst[arc]]
                if math.isfinite(ahead):
                    costs.append((single(ahead + self.cost(arc, float(lattice.graph[arc]))), arc))
            if costs:
                best = min(costs)[0]
                self.lat_backward[state] = best
                self.sorted_arcs[state] = sorted((single(cost - best), arc) for cost, arc in sorted(costs))

    def expected(self, state: State) -> float:
        arcs = self.sorted_arcs[state.lat_state]
        if state.sorted_arc_index == len(arcs):
            return math.inf
        lat_backward, best = float(self.lat_backward[state.lat_state]), float(self.lat_backward[0])
        delta = arcs[state.sorted_arc_index][0]
        return single(state.forward_cost + lat_backward + state.delta_backward_cost + delta - best)

    def push(self, number: int) -> None:
        key = self.expected(self.states[number])
        if key < self.cutoff:
            heapq.heappush(self.queue, (key, number))

    def recompute(self) -> None:
        order = sorted(range(len(self.states)), key=lambda number: (self.states[number].lat_state, number))
        for state in self.states[1:]:
            state.forward_cost = math.inf
        for number in order:
            state = self.states[number]
            for target, arc, graph in state.arcs:
                cost = state.forward_cost + self.cost(arc, graph)
                if cost < self.states[target].forward_cost:
                    self.states[target].forward_cost = cost
                    self.states[target].prev = number
                    self.states[target].depth = state.depth + 1
        for number in reversed(order):
            state = self.states[number]
            ends = [self.final_cost(state.lat_state, state.final_graph)] if math.isfinite(state.final_graph) else []
            onward = [self.cost(arc, graph) + self.states[target].backward_cost for target, arc, graph in state.arcs]
            state.backward_cost = min([*ends, *onward], default=math.inf)
        self.output_best = self.states[0].backward_cost
        self.cutoff = single(self.output_best - float(self.lat_backward[0]) + self.beam)
        self.queue = []
        for number in order:
            state = self.states[number]
            if math.isfinite(state.backward_cost):
                state.delta_backward_cost = single(state.backward_cost - float(self.lat_backward[state.lat_state]))
            elif number == 0:
                state.delta_backward_cost = 0.0
            else:
                previous = self.states[state.prev].delta_backward_cost
                state.delta_backward_cost = single(previous + self.depth_penalty)
            self.push(number)

    def score(self, history: tuple[int, ...], arc: int) -> tuple[float, int | None]:
        """Return the cost under the new model, and the word of the model; None for an epsilon arc."""
        word = int(self.lattice.word[arc])
        if word == 0:
            return 0.0, None
        assert self.lattice.words is not None
        number = self.lm.vocabulary.id(self.lattice.words.word(word))
        lm_word = self.lm.unk if number is None else number
        assert lm_word is not None
        penalty = float(np.float32(self.options.unk_penalty or 0.0)) if number is None else 0.0
        return -self.lm.score(history, lm_word) + penalty, lm_word

    def new_graph(self, old: float, surprise: float) -> float:
        weight = self.options.lm_weight
        return single((1.0 - weight) * float(old) + weight * surprise)

    def process(self, number: int) -> None:
        state = self.states[number]
        _, arc = self.sorted_arcs[state.lat_state][state.sorted_arc_index]
        state.sorted_arc_index += 1
        self.push(number)
        history = self.representative[state.lm_state]
        if arc == FINAL:
            graph = self.new_graph(self.lattice.final_graph[state.lat_state], -self.lm.score(history, self.lm.eos))
            state.final_graph = graph
            if self.depth_penalty:
                self.depth_penalty = 0.0
                self.recompute()
            return
        surprise, word = self.score(history, arc)
        graph = self.new_graph(self.lattice.graph[arc], surprise)
        lm_state = state.lm_state
        if word is not None:
            lm_state = (*lm_state, word)
            if self.options.max_ngram_order:
                lm_state = lm_state[-(self.options.max_ngram_order - 1) :]
            self.representative.setdefault(lm_state, (*history, word))
        pair = (int(self.lattice.dst[arc]), lm_state)
        if pair not in self.pair_to_state:
            self.pair_to_state[pair] = len(self.states)
            depth = state.depth + 1
            delta = single(state.delta_backward_cost + depth * self.depth_penalty)
            self.states.append(State(*pair, state.forward_cost + self.cost(arc, graph), delta, depth))
            self.push(self.pair_to_state[pair])
        state.arcs.append((self.pair_to_state[pair], arc, graph))
        self.num_arcs += 1

    def limit(self) -> int:
        if self.num_arcs == 0:
            return 100
        limit = max(int(self.num_arcs * self.options.growth_ratio), self.num_arcs + 1)
        return limit if math.isinf(self.output_best) else min(limit, self.options.max_arcs)

    def compose(self) -> list[tuple[int, float, list[tuple[int, int, float]]]]:
        """Return (lattice state, final graph cost, arcs) of each connected state, in topological order."""
        while math.isinf(self.output_best) or self.num_arcs < self.options.max_arcs:
            self.recompute()
            limit = self.limit()
            while self.num_arcs < limit and self.queue:
                self.process(heapq.heappop(self.queue)[1])
            if not self.queue:
                break
        self.recompute()
        useful = [number for number, state in enumerate(self.states) if math.isfinite(state.backward_cost)]
        useful.sort(key=lambda number: (self.states[number].lat_state, number))
        place = {number: i for i, number in enumerate(useful)}
        return [
            (
                self.states[number].lat_state,
                self.states[number].final_graph,
                sorted((place[to], arc, graph) for to, arc, graph in self.states[number].arcs if to in place),
            )
            for number in useful
        ]
