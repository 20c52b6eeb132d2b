"""Transition models in Kaldi's formats."""

from __future__ import annotations

import struct

import numpy as np

# Two topologies, with two emitting states and with one; each state is a list of (destination, probability).
TOPOLOGIES = [
    ([1, 3], [[(0, 0.5), (1, 0.5)], [(1, 0.75), (2, 0.25)], []]),
    ([2], [[(0, 0.5), (1, 0.5)], []]),
]
TUPLES = [(1, 0, 4, 5), (1, 1, 0, 1), (2, 0, 2, 3), (3, 0, 4, 5), (3, 1, 6, 7)]
LOG_PROBS = [0.0, *np.log([0.5, 0.5, 0.75, 0.25, 0.5, 0.5, 0.5, 0.5, 0.75, 0.25]).astype(np.float32).tolist()]


def as_text(chain: bool) -> bytes:
    """Write the model as Kaldi does; chain models have separate densities for self-loops."""
    lines = ["<TransitionModel> ", "<Topology> "]
    for phones, states in TOPOLOGIES:
        lines += ["<TopologyEntry> ", "<ForPhones> ", " ".join(map(str, phones)) + " ", "</ForPhones> "]
        for number, transitions in enumerate(states):
            pdf = f"<ForwardPdfClass> {2 * number} <SelfLoopPdfClass> {2 * number + 1} " if chain else "<PdfClass> 0 "
            moves = "".join(f"<Transition> {to} {probability} " for to, probability in transitions)
            lines.append(f"<State> {number} {pdf if transitions else ''}{moves}</State> ")
        lines.append("</TopologyEntry> ")
    name = "Tuples" if chain else "Triples"
    lines += ["</Topology> ", f"<{name}> {len(TUPLES)} "]
    lines += [" ".join(map(str, row if chain else row[:3])) + " " for row in TUPLES]
    lines += [f"</{name}> ", "<LogProbs> ", f" [ {' '.join(map(str, LOG_PROBS))} ]", "</LogProbs> "]
    return "\n".join([*lines, "</TransitionModel> ", ""]).encode()


def as_binary(chain: bool) -> bytes:
    def integer(value: int) -> bytes:
        return b"\4" + struct.pack("<i", value)

    def vector(values: list[int]) -> bytes:
        return b"\4" + struct.pack(f"<i{len(values)}i", len(values), *values)

    content = b"\0B<TransitionModel> <Topology> " + vector([1, 2, 3]) + vector([-1, 0, 1, 0])
    content += (integer(-1) if chain else b"") + integer(len(TOPOLOGIES))
    for _, states in TOPOLOGIES:
        content += integer(len(states))
        for number, transitions in enumerate(states):
            content += integer(2 * number if transitions else -1)
            content += integer(2 * number + 1 if transitions else -1) if chain else b""
            content += integer(len(transitions))
            for to, probability in transitions:
                content += integer(to) + b"\4" + struct.pack("<f", probability)
    name = b"Tuples" if chain else b"Triples"
    content += b"</Topology> <" + name + b"> " + integer(len(TUPLES))
    content += b"".join(integer(value) for row in TUPLES for value in row[: 4 if chain else 3])
    content += b"</" + name + b"> <LogProbs> FV " + integer(len(LOG_PROBS))
    return content + struct.pack(f"<{len(LOG_PROBS)}f", *LOG_PROBS) + b"</LogProbs> </TransitionModel> "
