"""Slow reading and writing of Kaldi tables in plain Python, to check the kernels in ``ext/formats/kaldi_*.hpp``."""

import math
import re
import struct

import numpy as np

from ninja.lattice import Lattice

ARC_TYPES = {  # name: (compact, format of a cost)
    "lattice4": (False, "f"),
    "lattice8": (False, "d"),
    "compactlattice44": (True, "f"),
    "compactlattice84": (True, "d"),
}
NOT_FINAL = (math.inf, math.inf, [])


class Bytes:
    """A position in a buffer; reading advances it."""

    def __init__(self, content, at=0):
        self.content = content
        self.at = at

    def take(self, form):
        values = struct.unpack_from("<" + form, self.content, self.at)
        self.at += struct.calcsize("<" + form)
        return values if len(values) != 1 else values[0]

    def string(self):
        return bytes(self.take(f"{self.take('i')}s"))


def read_table(content):
    """Yield the lattices of an archive's bytes; the archive must be valid."""
    at = 0
    while at < len(content):
        key, at = re.match(rb"(\S+)[ \t]?", content[at:]).group(1), content.index(b" ", at) + 1
        if content[at : at + 1] == b"\xd6":
            place = Bytes(content, at)
            start, finals, arcs, compact = read_binary(place)
            at = place.at
        else:
            end = content.index(b"\n\n", at)
            start, finals, arcs, compact = read_text(content[at:end].decode())
            at = end + 2
        yield assemble(key.decode(), start, finals, arcs, compact)


def read_binary(place):
    """Return start, finals [(graph, acoustic, labels)], arcs [[(dst, word, graph, acoustic, labels)]], compact."""
    assert place.take("i") == 2125659606
    assert place.string() == b"vector"
    compact, cost = ARC_TYPES[place.string().decode()]
    version, flags, _, start, num_states, _ = place.take("iiQqqq")
    assert (version, flags) == (2, 0)
    finals, arcs = [], []
    for _ in range(num_states):
        graph, acoustic = place.take(2 * cost)
        finals.append((graph, acoustic, labels(place) if compact else []))
        leaving = []
        for _ in range(place.take("q")):
            ilabel, word = place.take("ii")
            graph, acoustic = place.take(2 * cost)
            ali = labels(place) if compact else [ilabel] * (ilabel != 0)
            leaving.append((place.take("i"), word, graph, acoustic, ali))
        arcs.append(leaving)
    return start, finals, arcs, compact


def labels(place):
    count = place.take("i")
    place.at += 4 * count
    return np.frombuffer(place.content, "<i4", count, place.at - 4 * count).tolist()


def read_text(text):
    lines = [line.split() for line in text.splitlines() if line.strip()]
    compact = not any(len(line) == 5 or (len(line) == 4 and "," not in line[3]) for line in lines) and not any(
        len(line) == 2 and line[1].count(",") == 1 for line in lines
    )
    finals, arcs = {}, {}
    for line in lines:
        if len(line) <= 2:
            finals[int(line[0])] = weight(line[1] if len(line) == 2 else "0,0,")
        elif compact:
            costs = weight(line[3] if len(line) == 4 else "0,0,")
            arcs.setdefault(int(line[0]), []).append((int(line[1]), int(line[2]), *costs))
        else:
            graph, acoustic, _ = weight(line[4] if len(line) == 5 else "0,0")
            ali = [int(line[2])] * (line[2] != "0")
            arcs.setdefault(int(line[0]), []).append((int(line[1]), int(line[3]), graph, acoustic, ali))
    size = 1 + max([*finals, *arcs, *(arc[0] for leaving in arcs.values() for arc in leaving)])
    states = range(size)
    return int(lines[0][0]), [finals.get(s, NOT_FINAL) for s in states], [arcs.get(s, []) for s in states], compact


def weight(text):
    graph, acoustic, ali = (text + ",").split(",")[:3]
    number = {"Infinity": math.inf}
    return (
        number.get(graph) if graph in number else float(graph),
        number.get(acoustic) if acoustic in number else float(acoustic),
        [int(label) for label in ali.split("_") if label],
    )


def assemble(key, start, finals, arcs, compact):
    """Sort the states if necessary, the start first, and create a lattice."""
    order = list(range(len(finals)))
    if start != 0 or any(arc[0] <= state for state in order for arc in arcs[state]):
        finished = []

        def visit(state, path):
            assert state not in path, "a cycle"
            if state not in finished:
                for arc in arcs[state]:
                    visit(arc[0], path | {state})
                finished.append(state)

        visit(start, frozenset())
        order = finished[::-1]
    place = {state: number for number, state in enumerate(order)}
    flat = [arc for state in order for arc in arcs[state]]
    pools = [arc[4] for arc in flat]
    final_pools = [finals[state][2] for state in order]
    return Lattice.from_arrays(
        key,
        np.cumsum([0, *(len(arcs[state]) for state in order)]),
        [place[arc[0]] for arc in flat],
        [arc[1] for arc in flat],
        np.array([arc[2] for arc in flat], np.float32),
        np.array([arc[3] for arc in flat], np.float32),
        np.array([finals[state][0] for state in order], np.float32),
        np.array([finals[state][1] for state in order], np.float32),
        ali_begin=np.cumsum([0, *map(len, pools)]),
        ali=[label for pool in pools for label in pool],
        final_ali_begin=np.cumsum([0, *map(len, final_pools)]),
        final_ali=[label for pool in final_pools for label in pool],
        kind="compact" if compact else "raw",
    )


def unpack(lattice):
    """Return finals and arcs as ``read_binary`` does."""
    finals, arcs = [], []
    for state in range(lattice.num_states):
        pool = lattice.final_ali[lattice.final_ali_begin[state] : lattice.final_ali_begin[state + 1]].tolist()
        finals.append((lattice.final_graph[state].item(), lattice.final_acoustic[state].item(), pool))
        leaving = []
        for arc in range(lattice.arc_begin[state], lattice.arc_begin[state + 1]):
            pool = lattice.ali[lattice.ali_begin[arc] : lattice.ali_begin[arc + 1]].tolist()
            leaving.append(
                (
                    lattice.dst[arc].item(),
                    lattice.word[arc].item(),
                    lattice.graph[arc].item(),
                    lattice.acoustic[arc].item(),
                    pool,
                )
            )
        arcs.append(leaving)
    return finals, arcs


def write_binary(key, start, finals, arcs, arc_type):
    """Return an archive entry's bytes."""
    compact, cost = ARC_TYPES[arc_type]

    def pool(ali):
        return struct.pack(f"<i{len(ali)}i", len(ali), *ali) if compact else b""

    out = key.encode() + b" " + struct.pack("<ii6si", 2125659606, 6, b"vector", len(arc_type)) + arc_type.encode()
    out += struct.pack("<iiQqqq", 2, 0, 3, start, len(finals), sum(map(len, arcs)))
    for (graph, acoustic, ali), leaving in zip(finals, arcs, strict=True):
        out += struct.pack("<2" + cost, graph, acoustic) + pool(ali) + struct.pack("<q", len(leaving))
        for dst, word, graph, acoustic, ali in leaving:
            ilabel = word if compact else (ali[0] if ali else 0)
            out += struct.pack("<ii2" + cost, ilabel, word, graph, acoustic) + pool(ali) + struct.pack("<i", dst)
    return out


def write_text(lattice):
    """Return an archive entry's text."""
    finals, arcs = unpack(lattice)
    compact = lattice.kind == "compact"

    def cost(value):
        return "Infinity" if value == math.inf else f"{value:.6g}"

    def weight_fields(graph, acoustic, ali):
        if graph == 0 and acoustic == 0 and not ali:
            return ""
        return f"\t{cost(graph)},{cost(acoustic)}" + ("," + "_".join(map(str, ali)) if compact else "")

    lines = [f"{lattice.key} "]
    for state, (final, leaving) in enumerate(zip(finals, arcs, strict=True)):
        for dst, word, graph, acoustic, ali in leaving:
            if compact:
                lines.append(f"{state}\t{dst}\t{word}{weight_fields(graph, acoustic, ali)}")
            else:
                lines.append(f"{state}\t{dst}\t{ali[0] if ali else 0}\t{word}{weight_fields(graph, acoustic, [])}")
        if final[0] < math.inf or not leaving:
            lines.append(f"{state}{weight_fields(*final)}")
    return "\n".join(lines) + "\n\n"
