"""Compute a lower bound of the errors in entities: the minimum over all paths of the lattices.

    python -m benchmarks.context bound ../shared/data/english

Words of entities that are all in the vocabulary count, as in ``benchmarks.context tables``. Other words, and the
alignment of the rest of the sentence, cost nothing here, so no method that chooses paths of the lattices has fewer.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt

from benchmarks.command import argument, command, option
from benchmarks.context.bed import PENALTY, SCALE, Bed, transcripts
from ninja.evaluate import Entity, score_entities
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable


def costs(reference: Sequence[str], entities: Collection[Entity], words: SymbolTable) -> tuple[list[int], list[int]]:
    """Return the cost of an error at each reference word, and of an insertion before it: 1 within entities, else 0."""
    at, before = [0] * len(reference), [0] * (len(reference) + 1)
    for entity in entities:
        phrase = entity.text.split()
        size = len(phrase)
        if any(words.id(word) is None for word in phrase):
            continue
        begin = next(i for i in range(len(reference)) if list(reference[i : i + size]) == phrase)
        at[begin : begin + size] = [1] * size
        before[begin + 1 : begin + size] = [1] * (size - 1)
    return at, before


def fewest(lattice: Lattice, reference: npt.NDArray[np.int64], at: Sequence[int], before: Sequence[int]) -> int:
    """Return the least number of errors in entities over all paths and alignments."""
    num = len(reference)
    least = np.full((lattice.num_states, num + 1), num + lattice.num_states, np.int64)
    least[0, 0] = 0
    for state in range(lattice.num_states):
        row = least[state]
        for index in range(num):  # words that are missing
            row[index + 1] = min(row[index + 1], row[index] + at[index])
        for arc in range(int(lattice.arc_begin[state]), int(lattice.arc_begin[state + 1])):
            word = int(lattice.word[arc])
            reached = row.copy()
            if word:
                reached = row + np.array(before)
                instead = row[:-1] + np.where(reference == word, 0, at)
                reached[1:] = np.minimum(reached[1:], instead)
            least[lattice.dst[arc]] = np.minimum(least[lattice.dst[arc]], reached)
    return int(least[lattice.is_final, num].min())


@command
@argument("folder")
@option("--set", "part", default="test", type=click.Choice(["dev", "test"]))
def main(folder: Path, part: str) -> None:
    bed = Bed(folder, part)
    references = bed.references["calls"]
    hypotheses = transcripts(iter(bed.lattices["calls"]), SCALE, PENALTY)
    report = score_entities(references, hypotheses, {}, truth=bed.truth, words=bed.words)
    best_path = report.vocabulary(True).words
    least = 0
    for key, lattice in bed.lattices["calls"]:
        words = references[key]
        at, before = costs(words, bed.truth.get(key, ()), bed.words)
        least += fewest(lattice, np.array(bed.words.ids(words)), at, before)
    print(f"errors in {best_path.words} entity words: {best_path.errors} of the best path")
    print(f"least of all paths: {least} ({least / best_path.errors - 1:+.1%})")
