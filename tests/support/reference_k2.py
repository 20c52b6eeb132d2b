"""k2's own checks of a dictionary, in plain Python, after k2/python/k2/fsa.py and k2/csrc/fsa_utils.cu."""

import struct

from ninja.lattice import Lattice

FORBIDDEN = {"_tensor_attr", "_non_tensor_attr", "_cache", "_properties", "properties", "scores"}


def fsas(dictionary):
    """Return [(num_states, [(src, dst, label, score, {attribute: value})])], or fail like k2."""
    import torch

    assert type(dictionary) is dict
    assert not FORBIDDEN & set(dictionary)  # Fsa.__setattr__
    tensor = dictionary["arcs"]
    assert tensor.dtype == torch.int32
    if tensor.dim() == 2:
        assert tensor.shape[1] == 4
        rows = tensor.tolist()
        final = [dst for _, dst, label, _ in rows if label == -1]
        states = final[0] + 1 if final else max(max(row[:2]) for row in rows) + 2
        begins, state_begins = [0, len(rows)], [0, states]
    else:
        assert tensor.dim() == 1
        numbers = tensor.tolist()
        count, zero = numbers[:2]
        assert zero == 0
        state_begins, begins = numbers[2 : count + 3], numbers[count + 3 : 2 * count + 4]
        flat = numbers[2 * count + 4 :]
        assert len(flat) == 4 * begins[-1]
        rows = [flat[4 * arc : 4 * arc + 4] for arc in range(begins[-1])]
    columns = {}
    for name, value in dictionary.items():
        if name == "arcs":
            continue
        if isinstance(value, torch.Tensor):
            assert value.shape[0] == len(rows), name
            columns[name] = value.tolist()
            assert name != "aux_labels" or value.dtype == torch.int32
    result = []
    for number in range(len(begins) - 1):
        states = state_begins[number + 1] - state_begins[number]
        arcs, before = [], 0
        for arc in range(begins[number], begins[number + 1]):
            src, dst, label, bits = rows[arc]
            assert before <= src < states - 1
            assert 0 <= dst < states
            assert (label == -1) == (dst == states - 1)
            before = src
            score = struct.unpack("<f", struct.pack("<i", bits))[0]
            arcs.append((src, dst, label, score, {name: values[arc] for name, values in columns.items()}))
        result.append((states, arcs))
    return result


def paths(fsa, words):
    """Yield (words, score, lm score) of every path of an FSA; `words` returns those of an arc."""
    states, arcs = fsa

    def walk(state, spelled, score, lm):
        if state == states - 1:
            yield spelled, score, lm
        for arc in arcs:
            if arc[0] == state:
                arc_words = tuple(word for word in words(arc) if word not in (0, -1))
                yield from walk(arc[1], spelled + arc_words, score + arc[3], lm + arc[4].get("lm_scores", 0.0))

    yield from walk(0, (), 0.0, 0.0)


def equals_with_total_costs(lattice: Lattice, actual: Lattice) -> bool:
    """Return whether the graph costs of a lattice that was read are the total costs of the original."""
    import numpy as np

    total = (lattice.graph.astype(np.float64) + lattice.acoustic).astype(np.float32)
    final = (lattice.final_graph.astype(np.float64) + lattice.final_acoustic).astype(np.float32)
    return (
        actual.key == lattice.key
        and all(np.array_equal(getattr(actual, name), getattr(lattice, name)) for name in ("arc_begin", "dst", "word"))
        and np.array_equal(actual.graph, total)
        and np.array_equal(actual.final_graph, final)
        and not actual.acoustic.any()
    )
