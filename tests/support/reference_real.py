"""Simple readers of real lattice files and their best paths, independent of our readers."""

import ast
import math
import re
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property

NO_WORDS = {"!NULL", "!SENT_START", "!SENT_END", "!ENTER", "!EXIT", "<s>", "</s>", "<eps>", "*EPS*", "NULL"}


@dataclass
class FileLattice:
    """A lattice as in its file: words on nodes, on links, or both."""

    start: int
    end: int
    num_nodes: int
    links: list = field(default_factory=list)  # (source, destination, word or None, graph cost, acoustic cost)
    words: dict = field(default_factory=dict)  # node -> word
    frames: dict = field(default_factory=dict)  # node -> frame

    @cached_property
    def order(self):
        """The nodes that the start reaches, in topological order, and the links that leave each node."""
        leaving = defaultdict(list)
        for link in self.links:
            leaving[link[0]].append(link)
        reached, stack = {self.start}, [self.start]
        missing = defaultdict(int)
        while stack:
            for link in leaving[stack.pop()]:
                missing[link[1]] += 1
                if link[1] not in reached:
                    reached.add(link[1])
                    stack.append(link[1])
        nodes, ready = [], [self.start]
        while ready:
            nodes.append(ready.pop())
            for link in leaving[nodes[-1]]:
                missing[link[1]] -= 1
                if missing[link[1]] == 0:
                    ready.append(link[1])
        assert len(nodes) == len(reached), "a cycle"
        return nodes, leaving


def slf(content, graph=("l", "r"), base=1.0):
    """Read an HTK file whose words are not quoted."""
    header, nodes, links = {}, {}, {}
    for line in content.decode().split("\n"):
        if line.startswith("#") or not line.strip():
            continue
        fields = [part.split("=", 1) for part in (re.sub('"[^"]*"', "quoted", line) if '"' in line else line).split()]
        if fields[0][0] in ("I", "J"):
            (nodes if fields[0][0] == "I" else links)[int(fields[0][1])] = dict(fields[1:])
        else:
            header.update(fields)
    size, number = int(header.get("N", header.get("NODES", 0))), int(header.get("L", header.get("LINKS", 0)))
    assert (sorted(nodes), sorted(links)) == (list(range(size)), list(range(number)))
    unit = math.log(float(header.get("base", base))) if float(header.get("base", base)) != 1 else 1.0
    arcs = [
        (
            int(link["S"]),
            int(link["E"]),
            spoken_word(link.get("W")),
            -unit * sum(float(link.get(name, 0)) for name in graph),
            -unit * float(link.get("a", 0)),
        )
        for _, link in sorted(links.items())
    ]
    targets, sources = {arc[1] for arc in arcs}, {arc[0] for arc in arcs}
    starts = [node for node in nodes if node not in targets]
    ends = [node for node in nodes if node not in sources]
    lattice = FileLattice(int(header.get("start", starts[0])), int(header.get("end", ends[0])), size, arcs)
    lattice.words = {node: spoken_word(values["W"]) for node, values in nodes.items() if spoken_word(values.get("W"))}
    lattice.frames = {node: round(float(values["t"]) * 100) for node, values in nodes.items() if "t" in values}
    return lattice


def spoken_word(word):
    return None if word is None or word in NO_WORDS else word.removeprefix("\\")


def sphinx(content):
    """Read a Sphinx lattice."""
    rows = [line.split() for line in content.decode().split("\n")]
    value = {row[0]: int(row[1]) for row in rows if row and row[0] in ("Nodes", "Initial", "Final")}
    unit = next(math.log(float(row[2])) for row in rows if row[:2] == ["#", "-logbase"])
    names = [row and row[0] for row in rows]
    first, edges, end = names.index("Nodes") + 1, names.index("Edges") + 1, names.index("End")
    lattice = FileLattice(value["Initial"], value["Final"], value["Nodes"])
    for number, word, frame, *_ in rows[first : first + value["Nodes"]]:
        lattice.frames[int(number)] = int(frame)
        if word[0] not in "[<+":
            lattice.words[int(number)] = re.sub(r"\(\d+\)$", "", word)
    lattice.links = [(int(src), int(dst), None, 0.0, -unit * int(score)) for src, dst, score in rows[edges:end]]
    return lattice


def plf(line):
    """Read a line of Moses' format as a Python expression."""
    columns = ast.literal_eval(line.decode().strip() or "()")
    lattice = FileLattice(0, len(columns), len(columns) + 1)
    for state, column in enumerate(columns):
        lattice.links += [(state, state + distance, spoken_word(word), -score, 0.0) for word, score, distance in column]
    return lattice


def best(lattice, acoustic_scale=1.0, lm_scale=1.0):
    """Return the least cost of all paths, and the words of the first path that has it."""
    nodes, leaving = lattice.order
    best_cost = {lattice.start: (0.0, None, None)}
    for node in nodes:
        for src, dst, word, graph, acoustic in leaving[node]:
            cost = best_cost[src][0] + acoustic_scale * acoustic + lm_scale * graph
            if dst not in best_cost or cost < best_cost[dst][0]:
                best_cost[dst] = (cost, src, word)
    words, node = [], lattice.end
    while node is not None:
        words += [lattice.words[node]] if node in lattice.words else []
        _, before, word = best_cost[node]
        words += [word] if word is not None else []
        node = before
    return best_cost[lattice.end][0], words[::-1]


def accepts(lattice, sentence):
    """Return whether some path has these words."""
    return math.isfinite(cost_of(lattice, sentence))


def cost_of(lattice, sentence, acoustic_scale=1.0, lm_scale=1.0):
    """Return the least cost of a path with these words; infinite if there is none."""
    nodes, leaving = lattice.order

    def advance(costs, word):
        if word is None:
            return costs
        return {at + 1: cost for at, cost in costs.items() if sentence[at : at + 1] == [word]}

    costs_at = {lattice.start: advance({0: 0.0}, lattice.words.get(lattice.start))}
    for node in nodes:
        for _, dst, word, graph, acoustic in leaving[node]:
            target = costs_at.setdefault(dst, {})
            for at, cost in advance(advance(costs_at[node], word), lattice.words.get(dst)).items():
                target[at] = min(target.get(at, math.inf), cost + acoustic_scale * acoustic + lm_scale * graph)
    return costs_at.get(lattice.end, {}).get(len(sentence), math.inf)
