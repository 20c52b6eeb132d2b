"""Slow and strict readers of text lattices, from the descriptions of their formats, to check ext/formats/.

A file is read as a ``Graph`` with words on nodes or links, as in the file. ``fingerprint`` sums a value of the words,
their order and both costs over all paths, without moving words as the kernels do; lattices have a fingerprint, too.
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
    links: list = field(default_factory=list)  # (source, destination, word or None, graph, acoustic)
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


def unescape(raw):
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
    """Split a line into (name, raw value) pairs, values with their quotes; `empty` allows empty values."""
    at, fields = 0, []
    while True:
        while at < len(line) and line[at] in BLANKS:
            at += 1
        if at == len(line) or line[at] == "#":
            return fields
        if line[at] == ".":
            require(not fields and not line[at + 1 :].strip(BLANKS), "a '.' with other fields")
            fields.append((".", ""))
            return fields
        name = re.match(r"[A-Za-z0-9_]*", line[at:])[0]
        at += len(name)
        require(name and line[at : at + 1] == "=", "no NAME=VALUE")
        text = line[at + 1 :]
        quoted = re.match(
            r"""(?:"(?:[^"\\]|\\.|"(?![ \t\r\v\f]|$))*?"|'(?:[^'\\]|\\.|'(?![ \t\r\v\f]|$))*?')(?=[ \t\r\v\f]|$)""",
            text,
            re.S,
        )
        value = quoted[0] if quoted else re.match(r"(?:\\.|[^ \t\r\v\f])*", text, re.S)[0]
        require(quoted or not re.search(r"(?:^|[^\\])(?:\\\\)*\\\t", value), "a backslash before a tab")
        require(value or empty, "no value")
        fields.append((name, value))
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
                    raise RuleError("the body begins before the sizes")
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
                    direction = unescape(raw)
                    require(direction in ("f", "b"), "no direction")
                elif key in ("SUBLAT", "S"):
                    require(name is None or name == "", "two names")
                    name = unescape(raw)
                    require(name and name not in graphs, "an empty or repeated name")
                else:
                    unescape(raw)
        require(size["N"] > 0, "empty")
        for node in (start, end):
            require(node is None or node < size["N"], "no such node")
        result = Graph(nodes=size["N"])
        result.begins = direction == "b" if direction else made_by_sphinx
        if begins is not None:
            result.begins = begins
        node_ids, links, subs, ended = set(), {}, {}, False
        while at < len(lines):
            fields = slf_fields(lines[at])
            at += 1
            if not fields:
                continue
            require(not ended, "lines after the end")
            (kind, number_text), body_fields = fields[0], fields[1:]
            if kind == ".":
                ended = True
                if name:
                    break
                continue
            if kind == "I":
                node = integer(number_text, size["N"])
                require(node not in node_ids, "twice")
                node_ids.add(node)
                read_node(
                    node,
                    body_fields,
                    result,
                    subs,
                    graphs,
                    (base, tscale, frame_shift),
                    (graph_fields, acoustic_fields),
                )
            elif kind == "J":
                link = integer(number_text, size["L"])
                require(link not in links, "twice")
                links[link] = read_link(body_fields, size["N"], base, (graph_fields, acoustic_fields))
            else:
                raise RuleError("neither node nor link")
        require(not name or ended, "truncated")
        require(len(links) == size["L"] and len(node_ids) in (0, size["N"]), "too few")
        require(node_ids or size["N"] <= 2 * size["L"] + 1, "more nodes than links can connect")
        result.links = [links[link][0] for link in range(size["L"])]
        for (src, dst, *_), scores in links.values():
            require(not scores & result.scored.get(src if result.begins else dst, set()), "scores on link and node")
        if result.times and len(result.times) < size["N"]:
            result.times = {}
        targets, sources = {link[1] for link in result.links}, {link[0] for link in result.links}
        firsts = [start] if start is not None else [node for node in range(size["N"]) if node not in targets]
        lasts = [end] if end is not None else [node for node in range(size["N"]) if node not in sources]
        require(len(firsts) == 1 and len(lasts) == 1, "the initial or final node is ambiguous")
        result.start, result.end = firsts[0], lasts[0]
        check_fields(result, links.values(), subs)
        remove_impossible(result, bool(name or subs))
        result = with_subs(result, subs, graphs, len(content))
        if not name:
            return result
        graphs[name] = result


def check_fields(result, links, subs):
    """Check that all links have the same fields, and that none leaves the final or enters the initial node."""
    on_links = any(word is not None for (_, _, word, *_), _ in links)
    worded = on_links or result.words or subs
    node_of = {link[:2]: link[0 if result.begins else 1] for link, _ in links}
    scores = set().union(*(link_scores | result.scored.get(node_of[link[:2]], set()) for link, link_scores in links))
    for (src, dst, word, *_), link_scores in links:
        require(src != result.end and dst != result.start, "a link before the initial or after the final node")
        node = node_of[src, dst]
        word = result.words.get(node) if word is None else word
        if worded and word is None and node not in subs:
            require(not on_links and node in (result.start, result.end), "no word")
        if node in subs or (word is None and not worded) or (word is not None and word not in SILENT):
            require(scores <= link_scores | result.scored.get(node, set()), "a score is missing")


def remove_impossible(result, in_parts):
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
    node_scores = set()
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
                result.words[node] = decode(unescape(raw))
            else:
                require(unescape(raw) in graphs, "no such sub-lattice")
                subs[node] = unescape(raw)
        else:
            add_cost(name, raw, base, costs, node_scores, sums)
    if node_scores:
        result.costs[node] = sums
        result.scored[node] = node_scores


def read_link(fields, num_nodes, base, costs):
    values, link_scores, sums = {}, set(), [0.0, 0.0]
    for name, raw in fields:
        if name in ("S", "START", "E", "END"):
            require(name[0] not in values, "a repeated start or end")
            values[name[0]] = integer(raw, num_nodes)
        elif name in ("W", "WORD"):
            require("W" not in values, "two words")
            values["W"] = decode(unescape(raw))
        else:
            add_cost(name, raw, base, costs, link_scores, sums)
    require("S" in values and "E" in values, "no ends")
    return (values["S"], values["E"], values.get("W"), *sums), link_scores


def add_cost(name, raw, base, costs, names_read, sums):
    for column, names in enumerate(costs):
        if name in names:
            short = name[0] if name in ("acoustic", "language") else name
            require(short not in names_read, "twice")
            names_read.add(short)
            if raw in ("-inf", "-Inf", "-infinity", "-Infinity") and base > 0:
                sums[column] = math.inf
                continue
            value = number(raw)
            require(base > 0 or value >= 0, "no probability")
            if base == 0 and value == 0:
                sums[column] = math.inf
                continue
            sums[column] -= math.log(value) if base == 0 else value * (1 if base == 1 else math.log(base))
            require(abs(sums[column]) < 3.4e38 or sums[column] == math.inf, "beyond float32")


def decode(text):
    return text.encode("latin-1").decode("utf-8")


def with_subs(result, subs, graphs, limit):
    """Replace nodes by their sub-lattices, with nodes named by pairs."""
    if not subs:
        return result
    expanded = Graph((result.start, 0), (result.end, 0), result.begins)
    entry = {node: (node, 0) for node in range(result.nodes)}
    leave = dict(entry)
    for node in range(result.nodes):
        if node not in subs:
            expanded.words.update({(node, 0): result.words[node]} if node in result.words else {})
            expanded.costs.update({(node, 0): result.costs[node]} if node in result.costs else {})
            continue
        inner = graphs[subs[node]]
        inside = lambda inner_node: (node, 1, inner_node)  # noqa: B023, E731 - used within this iteration
        expanded.words.update({inside(inner_node): word for inner_node, word in inner.words.items()})
        expanded.costs.update({inside(inner_node): list(cost) for inner_node, cost in inner.costs.items()})
        expanded.links += [(inside(link[0]), inside(link[1]), *link[2:]) for link in inner.links]
        entry[node], leave[node] = inside(inner.start), inside(inner.end)
        if node in result.costs:
            edge = leave[node] if result.begins else entry[node]
            cost_before = expanded.costs.get(edge, [0.0, 0.0])
            expanded.costs[edge] = [cost_before[0] + result.costs[node][0], cost_before[1] + result.costs[node][1]]
    expanded.links += [(leave[link[0]], entry[link[1]], *link[2:]) for link in result.links]
    expanded.start, expanded.end = entry[result.start], leave[result.end]
    expanded.nodes = result.nodes - len(subs) + sum(graphs[sub].nodes for sub in subs.values())
    require(expanded.nodes + len(expanded.links) <= limit, "the expanded lattice is too large")
    return expanded


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
            result.words[int(row[0])] = decode(word)
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
    match = re.fullmatch(r"(.+)\((\d{1,11})\)", word)
    return match[1] if match and 0 < int(match[2]) <= LARGEST else word


def read_pfsg(content):
    tokens = iter(re.findall(r"[^ \t\r\v\f\n]+", content.decode("latin-1")))
    take = lambda name: next(tokens) == name or require(False, f"no {name}")  # noqa: E731 - a cursor
    take("name")
    next(tokens)
    take("nodes")
    result = Graph(nodes=int(next(tokens)))
    result.words = {node: word for node in range(result.nodes) if (word := decode(next(tokens))) != "NULL"}
    take("initial")
    result.start = int(next(tokens))
    take("final")
    result.end = int(next(tokens))
    take("transitions")
    for _ in range(int(next(tokens))):
        result.links.append((int(next(tokens)), int(next(tokens)), None, -float(next(tokens)) / 10000.5, 0.0))
    return result


def read_plf(content):
    # Add the comma after a single item, which Joshua omits.
    tokens = re.findall(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[(),]|[^'"(),\s]+""", content.decode())
    pairs = zip(["", *tokens], tokens, strict=False)
    text = " ".join("," + token if before == token == ")" else token for before, token in pairs)
    columns = ast.literal_eval(text or "()")
    result = Graph(end=len(columns), nodes=len(columns) + 1)
    for state, column in enumerate(columns):
        for word, score, *_, distance in column:
            result.links.append((state, state + distance, "!NULL" if word == "*EPS*" else word, -score, 0.0))
    scores, first = [-link[3] for link in result.links], [-link[3] for link in result.links if link[0] == 0]
    if max(scores, default=0) > 0.001:  # scores above 0 must be valid probabilities
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
    num_sorted = 0
    while ready:
        node = ready.pop()
        num_sorted += 1
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
    if num_sorted < len(reachable):
        return None
    require(result.end in values, "no path")
    return values[result.end]


def node_factor(result, node):
    return matrix(result.words.get(node)) * weight(*result.costs.get(node, (0.0, 0.0)))


def lattice_fingerprint(lattice):
    """Return the fingerprint of a lattice, whose symbol table must contain its words."""
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
