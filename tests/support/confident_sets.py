"""Lattices whose posteriors are overconfident in a known way, with references."""

from __future__ import annotations

import numpy as np

from ninja.graph import from_arcs
from ninja.lattice.symbols import SymbolTable

SLOTS = 6  # words of an utterance
TRUTH = 0.4  # factor of the log-odds of the posterior that gives those of being correct
WORDS = SymbolTable.from_words(["<eps>", *(f"w{number}" for number in range(2 * SLOTS))])


def slots(key, graph, acoustic, words=WORDS):
    """Return a lattice with two words in each slot, at costs [slots, 2]; each word has three frames."""
    count = len(graph)
    src = np.repeat(np.arange(count), 2)
    ids = np.arange(1, 2 * count + 1)
    labels = [(1, 2, 2)] * (2 * count)
    lattice = from_arcs(key, src, src + 1, ids, np.ravel(graph), np.ravel(acoustic), finals={count: 0.0}, labels=labels)
    return lattice.replace(words=words)


def overconfident(num_utterances, seed=0):
    """Return lattices, whose first words win with various margins, and references in which they are often wrong."""
    generator = np.random.default_rng(seed)
    lattices, references = {}, {}
    for number in range(num_utterances):
        key = f"utt{number:03}"
        margin = generator.gamma(1.5, 2.0, SLOTS)
        share = generator.random(SLOTS)
        graph, acoustic = (np.stack((np.zeros(SLOTS), margin * part), 1) for part in (share, 1.0 - share))
        lattices[key] = slots(key, graph, acoustic)
        is_correct = generator.random(SLOTS) < 1.0 / (1.0 + np.exp(-TRUTH * margin))
        references[key] = [f"w{2 * slot}" if right else "other" for slot, right in enumerate(is_correct)]
    return lattices, references
