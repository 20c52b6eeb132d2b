"""Slow and strict readers of text lattices, from the descriptions of their formats, to check ext/formats/.

A file becomes a ``Graph``, words where the file has them. ``fingerprint`` sums over all its paths a value of the
words, their order and both costs, without moving words about as the kernels do; a lattice has one, too.
"""

import ast
import math
import re
import zlib
from dataclasses import dataclass, field

import numpy as np

BLANKS = " \t\r\v\f"
SILENT = {"!NULL", "<eps>", "!ENTER", "!EXIT", "!SENT_START", "!SENT_END", "<s>", "</s>"}
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
LARGEST = 2**31 - 1


class RuleError(Exception):
    """The file violates a rule."""


@dataclass
class Graph:
    start: int = 0
    end: int = 0
    begins: bool = False  # words begin at nodes
    words: dict = field(default_factory=dict)  # node -> word
    costs: dict = field(default_factory=dict)  # node -> (graph, acoustic)
    times: dict = field(default_factory=dict)  # node -> frame
    links: list = field(default_factory=list)  # (from, to, word or None, graph, acoustic)
    scored: dict = field(default_factory=dict)  # node -> names of its scores
    nodes: int = 0


def require(condition, message):
    if not condition:
        raise RuleError(message)


def number(text):
    require(NUMBER.fullmatch(text), f"no number: {text}")
    value = float(text)
    require(
        math.isfinite(value) and (value or not re.search(r"[1-9]", re.split("[eE]", text)[0])), "too large or small"
    )
    return value


def integer(text, limit):
    require(
        re.fullmatch(r"-?\d{1,11}", text) and 0 <= int(text) < min(limit, LARGEST + 1),
        f"no integer below {limit}: {text}",
    )
    return int(text)


def unescaped(raw):
    if len(raw) > 1 and raw[0] in "'\"" and raw[-1] == raw[0]:
        raw = raw[1:-1]
    letters, at, after_srilm = [], 0, False
    while at < len(raw):
        if raw[at] != "\\":
            letters.append(raw[at])
            at, after_srilm = at + 1, False
            continue
        require(at + 1 < len(raw), "no escape")
        # SRILM: a zero, then the digits of a byte that is no ASCII, or of that byte as a signed number of 32 bits.
        srilm = re.match("0(0*(?:177|[23][0-7]{2})|0*37777777[67][0-7]{2})(?![0-7])", raw[at + 1 : at + 13])
        octal = re.match("[0-3][0-7][0-7]", raw[at + 1 :])
        if srilm and len(srilm[0]) >= 4:
            letters.append(chr(int(srilm[1], 8) & 255))
            at, after_srilm = at + 1 + len(srilm[0]), True
        elif octal and not (after_srilm and octal[0][0] != "0"):
            letters.append(chr(int(octal[0], 8)))
            at, after_srilm = at + 4, False
        else:
            letters.append(raw[at + 1])
            at, after_srilm = at + 2, False
    return "".join(letters)


def slf_fields(line, *, empty=False):
    """Split a line into (name, value unchanged), values with their quotes; whether values may be `empty`."""
    at, found = 0, []
    while True:
        while at < len(line) and line[at] in BLANKS:
            at += 1
        if at == len(line) or line[at] == "#":
            return found
        if line[at] == ".":
            require(not found and not line[at + 1 :].strip(BLANKS), "a '.' not alone")
            found.append((".", ""))
            return found
        name = re.match(r"[A-Za-z0-9_]*", line[at:])[0]
        at += len(name)
        require(name and line[at : at + 1] == "=", "no NAME=VALUE")
        rest = line[at + 1 :]
        quoted = re.match(
            r"""(?:"(?:[^"\\]|\\.|"(?![ \t\r\v\f]|$))*?"|'(?:[^'\\]|\\.|'(?![ \t\r\v\f]|$))*?')(?=[ \t\r\v\f]|$)""",
            rest,
            re.S,
        )
        value = quoted[0] if quoted else re.match(r"(?:\\.|[^ \t\r\v\f])*", rest, re.S)[0]
        require(quoted or not re.search(r"(?:^|[^\\])(?:\\\\)*\\\t", value), "a backslash before a tab")
        require(value or empty, "no value")
        found.append((name, value))
        at += 1 + len(value)


def read_slf(
    content, graph_fields=("l", "r", "language"), acoustic_fields=("a", "acoustic"), frame_shift=0.01, begins=None
):
    lines = content.decode("latin-1").split("\n")
    require(lines[-1].strip(BLANKS)[:1] in ("", "#"), "the last line has no newline")
    comment = lines[0].lstrip(BLANKS)
    made_by_sphinx = comment.startswith("#") and "by PocketSphinx" in comment
    base, tscale, direction = 1.0, 1.0, None
    graphs, at = {}, 0
    while True:
        size, name, start, end, base_seen = {}, None, None, None, False
        while True:
            if {"N", "L"} <= set(size) and re.match(r"[ \t\r\v\f]*([IJ][=~]|\.|#|$)", "".join(lines[at : at + 1])):
                if at >= len(lines) or re.match(r"[ \t\r\v\f]*[IJ.]", lines[at]):
                    break
                at += 1
                continue
            require(at < len(lines), "no size")
            fields = slf_fields(lines[at], empty=True)
            at += 1
            for key, raw in fields:
                if key in ("N", "NODES", "L", "LINKS"):
                    require(key[:1] not in size, "two sizes")
                    size[key[:1]] = integer(raw, LARGEST)
                    require(size[key[0]] <= len(content) // (4 if key[0] == "N" else 11), "too large")
                elif key in ("I", "J", "."):
                    raise RuleError("the body begins early")
                elif key == "base":
                    require(not base_seen, "two bases")
                    base_seen, base = True, number(raw)
                    require(base == 0 or base >= 1, "no base")
                elif key == "tscale":
                    tscale = number(raw)
                    require(tscale > 0, "no scale")
                elif key == "start":
                    require(start is None, "two starts")
                    start = integer(raw, LARGEST)
                elif key == "end":
                    require(end is None, "two ends")
                    end = integer(raw, LARGEST)
                elif key == "dir":
                    direction = unescaped(raw)
                    require(direction in ("f", "b"), "no direction")
                elif key in ("SUBLAT", "S"):
                    require(name is None or name == "", "two names")
                    name = unescaped(raw)
                    require(name and name not in graphs, "no name, or known")
                else:
                    unescaped(raw)
        require(size["N"] > 0, "empty")
        for node in (start, end):
            require(node is None or node < size["N"], "no such node")
        result = Graph(nodes=size["N"])
        result.begins = direction == "b" if direction else made_by_sphinx
        if begins is not None:
            result.begins = begins
        known, links, subs, stopped = set(), {}, {}, False
        while at < len(lines):
            fields = slf_fields(lines[at])
            at += 1
            if not fields:
                continue
            require(not stopped, "more behind the end")
            (kind, which), rest = fields[0], fields[1:]
            if kind == ".":
                stopped = True
                if name:
                    break
                continue
            if kind == "I":
                node = integer(which, size["N"])
                require(node not in known, "twice")
                known.add(node)
                read_node(
                    node, rest, result, subs, graphs, (base, tscale, frame_shift), (graph_fields, acoustic_fields)
                )
            elif kind == "J":
                link = integer(which, size["L"])
                require(link not in links, "twice")
                links[link] = read_link(rest, size["N"], base, (graph_fields, acoustic_fields))
            else:
                raise RuleError("neither node nor link")
        require(not name or stopped, "cut short")
        require(len(links) == size["L"] and len(known) in (0, size["N"]), "too few")
        require(known or size["N"] <= 2 * size["L"] + 1, "nodes out of nowhere")
        result.links = [links[link][0] for link in range(size["L"])]
        for (src, dst, *_), seen in links.values():
            require(not seen & result.scored.get(src if result.begins else dst, set()), "scores on link and node")
        if result.times and len(result.times) < size["N"]:
            result.times = {}
        into, out = {link[1] for link in result.links}, {link[0] for link in result.links}
        firsts = [start] if start is not None else [node for node in range(size["N"]) if node not in into]
        lasts = [end] if end is not None else [node for node in range(size["N"]) if node not in out]
        require(len(firsts) == 1 and len(lasts) == 1, "which nodes are first and last?")
        result.start, result.end = firsts[0], lasts[0]
        demand_whole(result, links.values(), subs)
        leave_out_impossible(result, bool(name or subs))
        result = with_subs(result, subs, graphs, len(content))
        if not name:
            return result
        graphs[name] = result


def demand_whole(result, links, subs):
    """Check that all links have the same fields, and that none leads past the ends."""
    on_links = any(word is not None for (_, _, word, *_), _ in links)
    worded = on_links or result.words or subs
    node_of = {link[:2]: link[0 if result.begins else 1] for link, _ in links}
    scores = set().union(*(seen | result.scored.get(node_of[link[:2]], set()) for link, seen in links))
    for (src, dst, word, *_), seen in links:
        require(src != result.end and dst != result.start, "past the ends")
        node = node_of[src, dst]
        word = result.words.get(node) if word is None else word
        if worded and word is None and node not in subs:
            require(not on_links and node in (result.start, result.end), "no word")
        if node in subs or (word is None and not worded) or (word is not None and word not in SILENT):
            require(scores <= seen | result.scored.get(node, set()), "a score is missing")


def leave_out_impossible(result, in_parts):
    """Remove links of probability 0, and links with the word of such a node."""
    nodes = {node for node, cost in result.costs.items() if math.inf in cost}
    require((result.end if result.begins else result.start) not in nodes, "an edge of probability 0")
    dropped = [link for link in result.links if math.inf in link[3:] or link[0 if result.begins else 1] in nodes]
    require(not in_parts or not (dropped or nodes), "probability 0 in files with sub-lattices")
    result.links = [link for link in result.links if link not in dropped]
    for node in nodes:
        result.costs[node] = [0.0, 0.0]


def read_node(node, fields, result, subs, graphs, scales, costs):
    base, tscale, frame_shift = scales
    seen = set()
    sums = [0.0, 0.0]
    for name, raw in fields:
        if name in ("t", "time"):
            require(node not in result.times, "two times")
            frame = number(raw) * tscale / frame_shift
            result.times[node] = round(frame)
            require(0 <= result.times[node] <= LARGEST, "no frame")
        elif name in ("W", "WORD", "L", "SUBLAT"):
            require(node not in result.words and node not in subs, "two words")
            if name[0] == "W":
                result.words[node] = decoded(unescaped(raw))
            else:
                require(unescaped(raw) in graphs, "no such sub-lattice")
                subs[node] = unescaped(raw)
        else:
            add_cost(name, raw, base, costs, seen, sums)
    if seen:
        result.costs[node] = sums
        result.scored[node] = seen


def read_link(fields, num_nodes, base, costs):
    found, seen, sums = {}, set(), [0.0, 0.0]
    for name, raw in fields:
        if name in ("S", "START", "E", "END"):
            require(name[0] not in found, "two of them")
            found[name[0]] = integer(raw, num_nodes)
        elif name in ("W", "WORD"):
            require("W" not in found, "two words")
            found["W"] = decoded(unescaped(raw))
        else:
            add_cost(name, raw, base, costs, seen, sums)
    require("S" in found and "E" in found, "no ends")
    return (found["S"], found["E"], found.get("W"), *sums), seen


def add_cost(name, raw, base, costs, seen, sums):
    for which, names in enumerate(costs):
        if name in names:
            short = name[0] if name in ("acoustic", "language") else name
            require(short not in seen, "twice")
            seen.add(short)
            if raw in ("-inf", "-Inf", "-infinity", "-Infinity") and base > 0:
                sums[which] = math.inf
                continue
            value = number(raw)
            require(base > 0 or value >= 0, "no probability")
            if base == 0 and value == 0:
                sums[which] = math.inf
                continue
            sums[which] -= math.log(value) if base == 0 else value * (1 if base == 1 else math.log(base))
            require(abs(sums[which]) < 3.4e38 or sums[which] == math.inf, "beyond float32")


def decoded(text):
    return text.encode("latin-1").decode("utf-8")


def with_subs(result, subs, graphs, most):
    """Replace nodes by their sub-lattices, with nodes named by pairs."""
    if not subs:
        return result
    whole = Graph((result.start, 0), (result.end, 0), result.begins)
    entry = {node: (node, 0) for node in range(result.nodes)}
    leave = dict(entry)
    for node in range(result.nodes):
        if node not in subs:
            whole.words.update({(node, 0): result.words[node]} if node in result.words else {})
            whole.costs.update({(node, 0): result.costs[node]} if node in result.costs else {})
            continue
        inner = graphs[subs[node]]
        inside = lambda each: (node, 1, each)  # noqa: B023, E731 - used within this turn
        whole.words.update({inside(each): word for each, word in inner.words.items()})
        whole.costs.update({inside(each): list(cost) for each, cost in inner.costs.items()})
        whole.links += [(inside(link[0]), inside(link[1]), *link[2:]) for link in inner.links]
        entry[node], leave[node] = inside(inner.start), inside(inner.end)
        if node in result.costs:
            edge = leave[node] if result.begins else entry[node]
            had = whole.costs.get(edge, [0.0, 0.0])
            whole.costs[edge] = [had[0] + result.costs[node][0], had[1] + result.costs[node][1]]
    whole.links += [(leave[link[0]], entry[link[1]], *link[2:]) for link in result.links]
    whole.start, whole.end = entry[result.start], leave[result.end]
    whole.nodes = result.nodes - len(subs) + sum(graphs[sub].nodes for sub in subs.values())
    require(whole.nodes + len(whole.links) <= most, "grows out of bounds")
    return whole


def read_sphinx(content):
    lines = content.decode("latin-1").split("\n")
    (base,) = {number(line.split()[2]) for line in lines if line.lstrip(BLANKS).startswith("# -logbase ")}
    rows = iter([row for line in lines if (row := re.findall(r"[^ \t\r\v\f]+", line)) and not row[0].startswith("#")])
    take = lambda name: (row := next(rows))[0] == name and int(row[1])  # noqa: E731 - a cursor
    take("Frames")
    result = Graph(begins=True, nodes=take("Nodes"))
    for _ in range(result.nodes):
        row = next(rows)
        if not re.fullmatch(r"\[.*\]|\+\+.*\+\+|<sil>|<s>|</s>", word := without_number(row[1])):
            result.words[int(row[0])] = decoded(word)
        result.times[int(row[0])] = int(row[2])
    result.start, result.end = take("Initial"), take("Final")
    for _ in range(take("BestSegAscr")):
        next(rows)
    assert next(rows)[0] == "Edges"
    for row in rows:
        if row[0] == "End":
            return result
        result.links.append((int(row[0]), int(row[1]), None, 0.0, -int(row[2]) * math.log(base)))
    raise RuleError("no End")


def without_number(word):
    found = re.fullmatch(r"(.+)\((\d{1,11})\)", word)
    return found[1] if found and 0 < int(found[2]) <= LARGEST else word


def read_pfsg(content):
    tokens = iter(re.findall(r"[^ \t\r\v\f\n]+", content.decode("latin-1")))
    take = lambda name: next(tokens) == name or require(False, f"no {name}")  # noqa: E731 - a cursor
    take("name")
    next(tokens)
    take("nodes")
    result = Graph(nodes=int(next(tokens)))
    result.words = {node: word for node in range(result.nodes) if (word := decoded(next(tokens))) != "NULL"}
    take("initial")
    result.start = int(next(tokens))
    take("final")
    result.end = int(next(tokens))
    take("transitions")
    for _ in range(int(next(tokens))):
        result.links.append((int(next(tokens)), int(next(tokens)), None, -float(next(tokens)) / 10000.5, 0.0))
    return result


def read_plf(content):
    # A comma after a single item, where Joshua leaves it out.
    tokens = re.findall(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[(),]|[^'"(),\s]+""", content.decode())
    pairs = zip(["", *tokens], tokens, strict=False)
    text = " ".join("," + token if before == token == ")" else token for before, token in pairs)
    columns = ast.literal_eval(text or "()")
    result = Graph(end=len(columns), nodes=len(columns) + 1)
    for state, column in enumerate(columns):
        for word, score, *_, distance in column:
            result.links.append((state, state + distance, "!NULL" if word == "*EPS*" else word, -score, 0.0))
    scores, first = [-link[3] for link in result.links], [-link[3] for link in result.links if link[0] == 0]
    if max(scores, default=0) > 0.001:  # then they must be probabilities, and look like some
        require(all(0 < score <= 1 for score in scores), "neither logarithms nor probabilities")
        require(abs(sum(first) - 1) < 0.01 or set(scores) == {1}, "do not look like probabilities")
        result.links = [(*link[:3], -math.log(-link[3]), 0.0) for link in result.links]
    return result


def matrix(word):
    if word is None or word in SILENT:
        return np.eye(2)
    seed = zlib.crc32(word.encode())
    return np.array(
        [[1 + (seed & 255) / 256, (seed >> 8 & 255) / 256], [(seed >> 16 & 255) / 256, 1 + (seed >> 24) / 256]]
    )


def weight(graph, acoustic):
    return math.exp(max(-300.0, min(300.0, -0.0013 * graph - 0.00037 * acoustic)))


def fingerprint(result):
    """Return the sum over all paths of the product of their words and costs, [2, 2]; None if there is a cycle."""
    values = {result.start: node_factor(result, result.start)}
    waiting, leaving = {}, {}
    reachable, stack = {result.start}, [result.start]
    for link in result.links:
        leaving.setdefault(link[0], []).append(link)
    while stack:
        for link in leaving.get(stack.pop(), ()):
            waiting[link[1]] = waiting.get(link[1], 0) + 1
            if link[1] not in reachable:
                reachable.add(link[1])
                stack.append(link[1])
    ready = [result.start] if not waiting.get(result.start) else []
    done = 0
    while ready:
        node = ready.pop()
        done += 1
        for _, to, word, graph, acoustic in leaving.get(node, ()):
            side = result.words.get(node if result.begins else to)
            if word is not None and side is not None and side not in SILENT:
                require(side == word, "two words")
                word = None
            step = values[node] @ matrix(word) * weight(graph, acoustic) @ node_factor(result, to)
            values[to] = values.get(to, 0) + step
            waiting[to] -= 1
            if waiting[to] == 0:
                ready.append(to)
    if done < len(reachable):
        return None
    require(result.end in values, "no path")
    return values[result.end]


def node_factor(result, node):
    return matrix(result.words.get(node)) * weight(*result.costs.get(node, (0.0, 0.0)))


def lattice_fingerprint(lattice):
    """Return the same sum for a lattice; words must be named by its table."""
    values = np.zeros((lattice.num_states, 2, 2))
    values[0] = np.eye(2)
    total = np.zeros((2, 2))
    names = {number: name for name, number in lattice.words}
    arcs = zip(*(getattr(lattice, name).tolist() for name in ("src", "dst", "word", "graph", "acoustic")), strict=True)
    for src, dst, word, graph, acoustic in arcs:
        values[dst] += values[src] @ matrix(names[word] if word else None) * weight(graph, acoustic)
    for state in np.flatnonzero(lattice.is_final):
        total += values[state] * weight(lattice.final_graph[state], lattice.final_acoustic[state])
    return total
