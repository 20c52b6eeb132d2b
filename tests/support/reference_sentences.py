"""Slow implementations of the algorithms of ``ninja.rescoring.sentences``, from their descriptions.

Results are given path by path: each function returns the paths of its output with their graph costs.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from fake_lm import FakeLM
from reference_rescore import paths

from ninja.lattice import Lattice
from ninja.rescoring.algorithms import RescoreOptions
from ninja.rescoring.sentences import Unfolded

Arcs = tuple[int, ...]


@dataclass
class Costs:
    """Costs of arcs: those of the first pass, and those of a language model after a history."""

    lattice: Lattice
    lm: FakeLM
    options: RescoreOptions

    def first_pass(self, arc: int) -> float:
        options, lattice = self.options, self.lattice
        penalty = options.word_penalty if lattice.word[arc] else 0.0
        return options.acoustic_scale * float(lattice.acoustic[arc]) + float(lattice.graph[arc]) + penalty

    def first_pass_end(self, state: int) -> float:
        if not self.lattice.is_final[state]:
            return math.inf
        scaled = self.options.acoustic_scale * float(self.lattice.final_acoustic[state])
        return scaled + float(self.lattice.final_graph[state])

    def first_pass_path(self, end: int, arcs: Arcs) -> float:
        return sum(map(self.first_pass, arcs)) + self.first_pass_end(end)

    def lm_word(self, arc: int) -> int | None:
        if self.lattice.word[arc] == 0:
            return None
        assert self.lattice.words is not None
        word = self.lm.vocabulary.id(self.lattice.words.word(int(self.lattice.word[arc])))
        return self.lm.unk if word is None else word

    def lm_words(self, arcs: Arcs) -> tuple[int, ...]:
        return tuple(word for arc in arcs if (word := self.lm_word(arc)) is not None)

    def new(self, arc: int, history: tuple[int, ...]) -> float:
        """Return the new graph cost of an arc after the given words, which are ids of the model."""
        weight, word = self.options.lm_weight, self.lm_word(arc)
        old_share = (1 - weight) * float(self.lattice.graph[arc])
        if word is None:
            return old_share
        assert self.lattice.words is not None
        unknown = self.lm.vocabulary.id(self.lattice.words.word(int(self.lattice.word[arc]))) is None
        penalty = (self.options.unk_penalty or 0.0) if unknown else 0.0
        return old_share + weight * (penalty - self.lm.score(history, word))

    def new_end(self, state: int, history: tuple[int, ...]) -> float:
        weight = self.options.lm_weight
        return (1 - weight) * float(self.lattice.final_graph[state]) - weight * self.lm.score(history, self.lm.eos)

    def new_path(self, end: int, arcs: Arcs) -> float:
        """Return the graph cost of a path scored as a sentence."""
        graph = [self.new(arc, self.lm_words(arcs[:place])) for place, arc in enumerate(arcs)]
        return sum(graph) + self.new_end(end, self.lm_words(arcs))


def nbest(costs: Costs) -> list[tuple[float, tuple[int, Arcs]]]:
    """Return the first-pass cost and best path of each of the n best word sequences."""
    best: dict[tuple[int, ...], tuple[float, tuple[int, Arcs]]] = {}
    for end, arcs in paths(costs.lattice):
        words = tuple(int(w) for arc in arcs if (w := costs.lattice.word[arc]))
        candidate = (costs.first_pass_path(end, arcs), (end, arcs))
        best[words] = min(best.get(words, (math.inf, candidate[1])), candidate)
    return sorted(best.values())[: costs.options.num_best]


@dataclass
class CopiedLattice:
    """A lattice of copied states: arcs (copy, original arc, copy), and the original state of each copy."""

    of: list[int] = field(default_factory=list)
    arcs: list[tuple[int, int, int]] = field(default_factory=list)

    def paths(self, lattice: Lattice) -> Iterator[tuple[int, ...]]:
        """Yield complete paths as numbers of arcs of this lattice, then its last copy."""
        out = defaultdict(list)
        for number, (src, _, _) in enumerate(self.arcs):
            out[src].append(number)

        def onward(copy: int, prefix: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
            if lattice.is_final[self.of[copy]]:
                yield (*prefix, copy)
            for number in out[copy]:
                yield from onward(self.arcs[number][2], (*prefix, number))

        yield from onward(0, ())


def expand_by_posterior(costs: Costs, min_posterior: float) -> CopiedLattice:
    """Copy states as in Li et al. 2021: a separate copy above the threshold, a shared one below it.

    The probability of a copy and of its completions is summed over enumerated paths.
    """
    lattice = costs.lattice
    onward = [0.0] * lattice.num_states  # probability mass from each state to final states
    for state in range(lattice.num_states - 1, -1, -1):
        onward[state] = math.exp(-costs.first_pass_end(state)) + sum(
            math.exp(-costs.first_pass(arc)) * onward[lattice.dst[arc]]
            for arc in range(lattice.arc_begin[state], lattice.arc_begin[state + 1])
        )
    copied = CopiedLattice()
    mass: list[float] = []
    shared: dict[int, int] = {}

    def copy_of(state: int) -> int:
        copied.of.append(state)
        mass.append(0.0)
        return len(mass) - 1

    mass[copy_of(0)] = 1.0
    for state in range(lattice.num_states):
        for copy in [c for c in range(len(mass)) if copied.of[c] == state]:
            for arc in range(lattice.arc_begin[state], lattice.arc_begin[state + 1]):
                dst = int(lattice.dst[arc])
                target_mass = mass[copy] * math.exp(-costs.first_pass(arc))
                if target_mass * onward[dst] / onward[0] > min_posterior:
                    target = copy_of(dst)
                else:
                    target = shared[dst] if dst in shared else copy_of(dst)
                    shared[dst] = target
                mass[target] += target_mass
                copied.arcs.append((copy, arc, target))
    return copied


def cover_paths(copied: CopiedLattice, costs: Costs) -> list[tuple[float, tuple[int, ...]]]:
    """Return the cover, sorted by first-pass cost: for each arc, and each final copy, the best path through it."""
    all_paths = []
    for path in copied.paths(costs.lattice):
        arcs = tuple(copied.arcs[number][1] for number in path[:-1])
        all_paths.append((costs.first_pass_path(copied.of[path[-1]], arcs), path))
    all_paths.sort()
    best: dict[object, tuple[float, tuple[int, ...]]] = {}
    for cost, path in all_paths:
        for place in (*path[:-1], ("end", path[-1])):
            best.setdefault(place, (cost, path))
    return sorted(set(best.values()))


def cover(copied: CopiedLattice, costs: Costs) -> tuple[dict[int, float], dict[int, float]]:
    """Return the new graph cost of each arc and each final copy: that of the first path of the cover that contains
    it."""
    arc_cost: dict[int, float] = {}
    end_cost: dict[int, float] = {}
    for _, path in cover_paths(copied, costs):
        arcs = tuple(copied.arcs[number][1] for number in path[:-1])
        for place, number in enumerate(path[:-1]):
            arc_cost.setdefault(number, costs.new(arcs[place], costs.lm_words(arcs[:place])))
        end_cost.setdefault(path[-1], costs.new_end(copied.of[path[-1]], costs.lm_words(arcs)))
    return arc_cost, end_cost


def best_prefixes(costs: Costs, beam: float) -> list[tuple[float, tuple[int, ...]]]:
    """Return the best path cost of each word prefix (model ids, with </s>) of the paths within the beam, sorted."""
    prospect: dict[tuple[int, ...], float] = defaultdict(lambda: math.inf)
    for end, arcs in paths(costs.lattice):
        cost = costs.first_pass_path(end, arcs)
        words = (*costs.lm_words(arcs), costs.lm.eos)
        for length in range(1, len(words) + 1):
            prospect[words[:length]] = min(prospect[words[:length]], cost)
    best = min(prospect.values())
    return sorted((cost, words) for words, cost in prospect.items() if cost <= best + beam + 1e-6)


def merged_prefixes(
    costs: Costs, prefixes: list[tuple[float, tuple[int, ...]]], beam: float, merge_order: int
) -> list[tuple[int, ...]]:
    """Omit, after the first complete sentence, prefixes whose states and last words better prefixes have reached."""
    survivors: list[tuple[int, ...]] = []
    prefixes_at, _ = reachable_prefixes(costs, {words for _, words in prefixes}, beam, after_words=True)
    expanded: set[tuple[int, tuple[int, ...]]] = set()
    complete = False
    for _, words in sorted(prefixes, key=lambda pair: (pair[0], len(pair[1]))):
        if len(words) > 1 and words[:-1] not in survivors:
            continue
        if words[-1] != costs.lm.eos:
            ends = {
                (state, (costs.lm.bos, *words)[-merge_order:])
                for state, state_prefixes in prefixes_at.items()
                if words in state_prefixes
            }
            if ends <= expanded and complete:
                continue
            expanded |= ends
        complete |= words[-1] == costs.lm.eos
        survivors.append(words)
    return survivors


def spell_nodes(unfolded: Unfolded) -> list[tuple[int, ...]]:
    """Spell the words from the root to each node of an unfolding's trie."""
    spelled: list[tuple[int, ...]] = []
    for parent, word in zip(unfolded.parent, unfolded.word, strict=True):
        spelled.append((*(spelled[parent] if parent >= 0 else ()), int(word)))
    return spelled


def common_suffix(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    """Return the length of the common suffix of two histories."""
    length = 0
    while length < min(len(a), len(b)) and a[-1 - length] == b[-1 - length]:
        length += 1
    return length


def trie_path(costs: Costs, trie: list[tuple[int, ...]], beam: float, end: int, arcs: Arcs) -> float | None:
    """Return the graph cost of a path scored along a trie; None if the trie lacks a score of the path.

    Args:
        costs: The lattice, the model, the options.
        trie: Prefixes with </s>, in the order of their best path costs.
        beam: Beam for the arcs of paths, and for the prefixes that lead to a state.
        end: Final state of the path.
        arcs: The path.
    """
    eos = costs.lm.eos
    at, alive = reachable_prefixes(costs, set(trie), beam)
    history: tuple[int, ...] = ()
    graph = 0.0
    for arc in arcs:
        if arc not in alive:
            return None
        word = costs.lm_word(arc)
        if word is None:
            graph += costs.new(arc, ())
            continue
        if (*history, word) in trie:
            history = (*history, word)
        else:
            candidates = [p for p in trie if p[-1] == word and p in at[int(costs.lattice.dst[arc])]]
            if not candidates:
                return None
            history = max(candidates, key=lambda p: common_suffix(history, p[:-1]))  # the first of equals
        graph += costs.new(arc, history[:-1])
    if (*history, eos) not in trie:
        candidates = [p for p in trie if p[-1] == eos and p[:-1] in at[end]]
        if not candidates:
            return None
        history = max(candidates, key=lambda p: common_suffix(history, p[:-1]))[:-1]
    return graph + costs.new_end(end, history)


def reachable_prefixes(
    costs: Costs, trie: set[tuple[int, ...]], beam: float, *, after_words: bool = False
) -> tuple[dict[int, set[tuple[int, ...]]], set[int]]:
    """Return the prefixes that lead to each state within the beam, after arcs with words if requested, and the arcs."""
    all_paths = [(costs.first_pass_path(end, arcs), arcs) for end, arcs in paths(costs.lattice)]
    best = min(all_paths)[0]
    at: dict[int, set[tuple[int, ...]]] = defaultdict(set)
    alive: set[int] = set()
    for cost, arcs in all_paths:
        if cost > best + beam + 1e-6:
            continue
        alive.update(arcs)
        for length in range(1, len(arcs) + 1):
            prefix = costs.lm_words(arcs[:length])
            if prefix in trie and not (after_words and costs.lm_word(arcs[length - 1]) is None):
                at[int(costs.lattice.dst[arcs[length - 1]])].add(prefix)
    return at, alive
