"""Make the table of docs/results.md: word error rates on the English test-bed, weights chosen on dev only.

    python benchmarks/results.py DATA [--rnnlm model.pt] [--threads 2] [--output docs/results.md]

DATA holds ``words.txt.gz``, and in ``dev/libri`` and ``test/libri`` each ``lat.ark.gz`` and ``text``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Literal

import numpy as np

import ninja
from ninja.evaluate import ErrorRate, oracle_score, read_text, score
from ninja.graph import best_path, nbest
from ninja.lm import LanguageModel, load, sentence_logprobs
from ninja.rescore import RescoreOptions, RescoreReport, WordMap, rescore

LM_WEIGHTS = (0.5, 0.7, 0.8, 0.9, 1.0)
ACOUSTIC_SCALES = (1 / 16, 1 / 14, 1 / 12, 0.1, 0.12)
WORD_PENALTIES = (-0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5)
SEARCH = RescoreOptions(acoustic_scale=1 / 12, word_penalty=1.0)  # while searching; the grid is for the best path
NUM_BEST = 100

Weights = tuple[float, float, float]  # LM weight, acoustic scale, word penalty
Hypotheses = dict[str, list[str]]


@dataclass
class Set:
    """One set of the test-bed, read into memory."""

    lattices: list[tuple[str, ninja.Lattice]]
    text: dict[str, list[str]]
    words: ninja.SymbolTable

    def wer(self, hypotheses: Hypotheses) -> ErrorRate:
        """Score transcripts."""
        return score(self.text, hypotheses)


class FirstPass:
    """The recogniser's own scores."""

    name = "first pass"
    lm_weights: Sequence[float] = (0.0,)

    def hypotheses(self, part: Set, weights: Weights) -> Hypotheses:
        """Transcripts under some weights."""
        return _best(part.lattices, weights, part.words)


class LatticeRescoring:
    """One of the expansion engine's algorithms; its lattices are kept for each LM weight."""

    lm_weights: Sequence[float] = LM_WEIGHTS

    def __init__(self, lm: LanguageModel, algorithm: Literal["arcbeam", "pushforward"]) -> None:
        self.name = algorithm
        self.lm = lm
        self.options = replace(SEARCH, algorithm=algorithm)
        self.kept: dict[tuple[int, float], list[tuple[str, ninja.Lattice]]] = {}
        self.report = RescoreReport()

    def hypotheses(self, part: Set, weights: Weights) -> Hypotheses:
        """Transcripts under some weights."""
        place = (id(part), weights[0])
        if place not in self.kept:
            self.report = RescoreReport()
            options = replace(self.options, lm_weight=weights[0])
            self.kept[place] = list(rescore(part.lattices, self.lm, options, report=self.report))
            print(
                f"  {self.name}, LM weight {weights[0]}: {self.report.seconds:.1f} s, "
                f"{self.report.histories} histories, "
                f"{self.report.expanded_arcs} expanded arcs",
                flush=True,
            )
        return _best(self.kept[place], weights, part.words)


class NBestRescoring:
    """The n best sentences of the first pass, each scored whole by the same language model."""

    name = f"{NUM_BEST}-best"
    lm_weights: Sequence[float] = LM_WEIGHTS

    def __init__(self, lm: LanguageModel) -> None:
        self.lm = lm
        self.kept: dict[int, dict[str, tuple[list[ninja.graph.Path], np.ndarray]]] = {}

    def hypotheses(self, part: Set, weights: Weights) -> Hypotheses:
        """Transcripts under some weights."""
        if id(part) not in self.kept:
            start = time.perf_counter()
            self.kept[id(part)] = self._scored(part)
            print(f"  {self.name}: {time.perf_counter() - start:.1f} s", flush=True)
        lm_weight, scale, penalty = weights
        chosen = {}
        for key, (paths, logprob) in self.kept[id(part)].items():
            old = np.array([path.cost(scale, 1 - lm_weight, penalty) for path in paths])
            chosen[key] = part.words.spell(paths[int(np.argmin(old - lm_weight * logprob))].words)
        return chosen

    def _scored(self, part: Set) -> dict[str, tuple[list[ninja.graph.Path], np.ndarray]]:
        words = WordMap(part.words, self.lm)
        scored = {}
        for key, lattice in part.lattices:
            lm_word, extra = words.of(lattice)
            paths = nbest(lattice, NUM_BEST, SEARCH.acoustic_scale, word_penalty=SEARCH.word_penalty)
            sentences = [[int(w) for w in lm_word[path.arcs] if w >= 0] for path in paths]
            lacking = np.array([extra[path.arcs].sum() for path in paths])
            scored[key] = (paths, sentence_logprobs(self.lm, sentences) - lacking)
        return scored


def _best(lattices: list[tuple[str, ninja.Lattice]], weights: Weights, words: ninja.SymbolTable) -> Hypotheses:
    _, scale, penalty = weights
    return {
        key: words.spell(best_path(lattice, acoustic_scale=scale, word_penalty=penalty).words)
        for key, lattice in lattices
    }


def _choose(part: Set, hypotheses: Callable[[Set, Weights], Hypotheses], lm_weights: Sequence[float]) -> Weights:
    """Return the weights with the lowest word error rate; the first of equals."""
    grid = product(lm_weights, ACOUSTIC_SCALES, WORD_PENALTIES)
    return min(grid, key=lambda weights: part.wer(hypotheses(part, weights)).wer)


def main() -> None:
    """Tune on dev, score on test, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--rnnlm", help="checkpoint; default: the shipped model")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=Path, help="also write the table here")
    arguments = parser.parse_args()

    import torch

    torch.set_num_threads(arguments.threads)
    lm = load(arguments.rnnlm)
    words = ninja.SymbolTable.read(arguments.data / "words.txt.gz")
    dev, test = (
        Set(list(ninja.read(folder / "lat.ark.gz", words=words)), read_text(folder / "text"), words)
        for folder in (arguments.data / "dev/libri", arguments.data / "test/libri")
    )
    plain = FirstPass().hypotheses(test, (0.0, 0.1, 0.0))
    rows = [("first pass, as it is", (0.0, 0.1, 0.0), None, test.wer(plain))]
    for system in (
        FirstPass(),
        NBestRescoring(lm),
        LatticeRescoring(lm, "pushforward"),
        LatticeRescoring(lm, "arcbeam"),
    ):
        weights = _choose(dev, system.hypotheses, system.lm_weights)
        tuned = dev.wer(system.hypotheses(dev, weights))
        rows.append((system.name, weights, tuned, test.wer(system.hypotheses(test, weights))))
        print(f"{system.name}: {weights} dev {tuned.wer:.2f} test {rows[-1][3].wer:.2f}", flush=True)
    oracle = oracle_score((lattice for _, lattice in test.lattices), test.text, words)

    lines = [
        "| system | LM weight | acoustic scale | word penalty | dev WER % | test WER % |",
        "|---|---|---|---|---|---|",
    ]
    for name, (lm_weight, scale, penalty), tuned, rate in rows:
        shown = "" if tuned is None else f"{tuned.wer:.2f}"
        lines.append(f"| {name} | {lm_weight:g} | {scale:.3g} | {penalty:g} | {shown} | {rate.wer:.2f} |")
    lines.append(f"| oracle | | | | | {oracle.wer:.2f} |")
    print("\n".join(lines))
    if arguments.output:
        text = arguments.output.read_text(encoding="utf-8")
        before, mark, rest = text.partition("<!-- results -->\n")
        _, end, after = rest.partition("<!-- end -->")
        if not (mark and end):
            parser.error(f"{arguments.output} has no <!-- results --> … <!-- end --> to fill")
        arguments.output.write_text("\n".join([before + mark.strip(), *lines, end + after]), encoding="utf-8")


if __name__ == "__main__":
    main()
