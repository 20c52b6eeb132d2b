"""Simple readers of real lattice files and their best paths, independent of our readers."""

import ast
import math
import re
from collections import defaultdict
from dataclasses import dataclass, field

NO_WORDS = {"!NULL", "!SENT_START", "!SENT_END", "!ENTER", "!EXIT", "<s>", "</s>", "<eps>", "*EPS*", "NULL"}


@dataclass
class FileLattice:
    """A lattice as in its file: words on nodes, on links, or both."""

    start: int
    end: int
    num_nodes: int
    links: list = field(default_factory=list)  # (from, to, word or None, graph cost, acoustic cost)
    words: dict = field(default_factory=dict)  # node -> word
    frames: dict = field(default_factory=dict)  # node -> frame


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
            header.update(dict(fields))
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
    entered, left = {arc[1] for arc in arcs}, {arc[0] for arc in arcs}
    starts = [node for node in nodes if node not in entered]
    ends = [node for node in nodes if node not in left]
    made = FileLattice(int(header.get("start", starts[0])), int(header.get("end", ends[0])), size, arcs)
    made.words = {node: spoken_word(values["W"]) for node, values in nodes.items() if spoken_word(values.get("W"))}
    made.frames = {node: round(float(values["t"]) * 100) for node, values in nodes.items() if "t" in values}
    return made


def spoken_word(word):
    return None if word is None or word in NO_WORDS else word.removeprefix("\\")


def sphinx(content):
    """Read a Sphinx lattice."""
    rows = [line.split() for line in content.decode().split("\n")]
    value = {row[0]: int(row[1]) for row in rows if row and row[0] in ("Nodes", "Initial", "Final")}
    unit = next(math.log(float(row[2])) for row in rows if row[:2] == ["#", "-logbase"])
    names = [row and row[0] for row in rows]
    first, edges, end = names.index("Nodes") + 1, names.index("Edges") + 1, names.index("End")
    made = FileLattice(value["Initial"], value["Final"], value["Nodes"])
    for number, word, frame, *_ in rows[first : first + value["Nodes"]]:
        made.frames[int(number)] = int(frame)
        if word[0] not in "[<+":
            made.words[int(number)] = re.sub(r"\(\d+\)$", "", word)
    made.links = [(int(src), int(dst), None, 0.0, -unit * int(score)) for src, dst, score in rows[edges:end]]
    return made


def plf(line):
    """Read a line of Moses' format as a Python expression."""
    columns = ast.literal_eval(line.decode().strip() or "()")
    made = FileLattice(0, len(columns), len(columns) + 1)
    for state, column in enumerate(columns):
        made.links += [(state, state + distance, spoken_word(word), -score, 0.0) for word, score, distance in column]
    return made


def order(made):
    """Return the nodes that the start reaches, in topological order."""
    leaving = defaultdict(list)
    for link in made.links:
        leaving[link[0]].append(link)
    reached, stack = {made.start}, [made.start]
    missing = defaultdict(int)
    while stack:
        for link in leaving[stack.pop()]:
            missing[link[1]] += 1
            if link[1] not in reached:
                reached.add(link[1])
                stack.append(link[1])
    sorted_, ready = [], [made.start]
    while ready:
        sorted_.append(ready.pop())
        for link in leaving[sorted_[-1]]:
            missing[link[1]] -= 1
            if missing[link[1]] == 0:
                ready.append(link[1])
    assert len(sorted_) == len(reached), "a cycle"
    return sorted_, leaving


def best(made, acoustic_scale=1.0, lm_scale=1.0):
    """Return the least cost of all paths, and the words of the first path that has it."""
    sorted_, leaving = order(made)
    found = {made.start: (0.0, None, None)}
    for node in sorted_:
        for src, dst, word, graph, acoustic in leaving[node]:
            cost = found[src][0] + acoustic_scale * acoustic + lm_scale * graph
            if dst not in found or cost < found[dst][0]:
                found[dst] = (cost, src, word)
    words, node = [], made.end
    while node is not None:
        words += [made.words[node]] if node in made.words else []
        _, before, word = found[node]
        words += [word] if word is not None else []
        node = before
    return found[made.end][0], words[::-1]


def accepts(made, sentence):
    """Return whether some path has these words."""
    sorted_, leaving = order(made)

    def on(places, word):
        return places if word is None else {at + 1 for at in places if sentence[at : at + 1] == [word]}

    place = {made.start: on({0}, made.words.get(made.start))}
    for node in sorted_:
        if not place.get(node):
            continue
        for _, dst, word, _, _ in leaving[node]:
            place.setdefault(dst, set()).update(on(on(place[node], word), made.words.get(dst)))
    return len(sentence) in place.get(made.end, ())


def cost_of(made, sentence, acoustic_scale=1.0, lm_scale=1.0):
    """Return the least cost of a path with these words; infinite if there is none."""
    sorted_, leaving = order(made)

    def on(costs, word):
        if word is None:
            return costs
        return {at + 1: cost for at, cost in costs.items() if sentence[at : at + 1] == [word]}

    found = {made.start: on({0: 0.0}, made.words.get(made.start))}
    for node in sorted_:
        for _, dst, word, graph, acoustic in leaving[node]:
            there = found.setdefault(dst, {})
            for at, cost in on(on(found[node], word), made.words.get(dst)).items():
                there[at] = min(there.get(at, math.inf), cost + acoustic_scale * acoustic + lm_scale * graph)
    return found.get(made.end, {}).get(len(sentence), math.inf)
