"""Speed of rescoring: the search alone, and the speed-up by batches with a real network.

    python -m benchmarks.rescoring engine [DATA] [--lattices 20] [--threads 1] [--output docs/results.md]

DATA holds ``words.txt.gz`` and ``test/libri/lat.ark.gz``; without it the example archive is rescored. Times are CPU
seconds of the whole process, all threads; the gain of batches is of wall time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

import ninja
from benchmarks.command import ENGLISH, EXAMPLES, argument, command, option, output, path_option
from benchmarks.measure import set_torch_threads
from benchmarks.tables import head, put, row, show
from ninja.lm import LanguageModel
from ninja.rescoring import RescoreOptions, RescoreReport, rescore

Keyed = list[tuple[str, ninja.Lattice]]
MULTIPLIER, INCREMENT = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1B54A32D192ED03)


def mix(value: np.ndarray) -> np.ndarray:
    """Hash 64-bit integers reversibly (the finaliser of SplitMix64)."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


class HashLM(LanguageModel):
    """A model of negligible cost: log-probabilities in [-9, -5) are hashes of history and word.

    A slot is the hash of its history, so nothing is stored and equal histories have equal slots.
    """

    def __init__(self, vocabulary: ninja.SymbolTable) -> None:
        self.vocabulary = vocabulary
        self.bos, self.eos, self.unk = (vocabulary.id(word) for word in ("<s>", "</s>", "<unk>"))

    def start(self, count: int) -> np.ndarray:
        return np.zeros(count, np.int64)

    def advance(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        return (self._hash(slots, words) >> np.uint64(1)).astype(np.int64)  # 63 bits: slots are not negative

    def logprob(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        return (mix(self._hash(slots, words)) >> np.uint64(40)).astype(np.float32) * np.float32(4 / 2**24) - 9

    def release(self, slots: np.ndarray) -> None:
        """Do nothing, as slots use no memory."""

    def _hash(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        return mix(slots.astype(np.uint64) * MULTIPLIER + words.astype(np.uint64) + INCREMENT)


class PlainTorch(LanguageModel):
    """An LSTM checkpoint computed one history at a time: the textbook's step and a full log-softmax."""

    def __init__(self, model: str) -> None:
        from ninja.lm import checkpoint

        stored = checkpoint.read(model)
        self.module = stored.module
        self.layers = [self.module.layer(number) for number in range(self.module.config.layers)]
        self.vocabulary = ninja.SymbolTable.from_words(stored.words)
        self.bos, self.eos, self.unk = (self.vocabulary.id(word) for word in ("<s>", "</s>", "<unk>"))
        self.unk_words = stored.card.get("unk_words")
        self.states: list[Any] = []  # of each slot: output and cells of each layer, log-probability of every word

    def start(self, count: int) -> np.ndarray:
        return np.array([self._step(None, self.bos) for _ in range(count)])

    def advance(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        return np.array([self._step(self.states[slot][0], int(word)) for slot, word in zip(slots, words, strict=True)])

    def logprob(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        pairs = zip(slots, words, strict=True)
        return np.array([self.states[slot][1][int(word)] for slot, word in pairs], np.float32)

    def release(self, slots: np.ndarray) -> None:
        for slot in slots:
            self.states[slot] = None

    def _step(self, state: Any, word: int) -> int:
        import torch

        with torch.inference_mode():
            value = self.module.embedding.weight[word]  # [embedding]
            new_state = []
            for number, (weight, bias, projection) in enumerate(self.layers):
                output, cells = state[number] if state else (torch.zeros(size) for size in projection.shape)
                gates = torch.addmv(bias, weight, torch.cat((value, output)))  # [4 * cells]
                enter, keep, content, leave = gates.chunk(4)
                cells = keep.sigmoid() * cells + enter.sigmoid() * content.tanh()
                value = projection @ (leave.sigmoid() * cells.tanh())
                new_state.append((value, cells))
            self.states.append((new_state, self.module.logits(value).log_softmax(-1).numpy()))
        return len(self.states) - 1


def run(lattices: Keyed, lm: LanguageModel, options: RescoreOptions) -> tuple[RescoreReport, float, float]:
    """Rescore, and return the report with CPU and wall seconds."""
    report = RescoreReport()
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in rescore(lattices, lm, options, report=report):
        pass
    return report, time.process_time() - cpu, time.perf_counter() - wall


def bookkeeping(lattices: Keyed, words: ninja.SymbolTable) -> Iterator[str]:
    """Yield expanded arcs per second with a language model of negligible cost."""
    table_words = [word for word, _ in words if word not in ("<eps>", "<s>", "</s>", "<unk>")]
    lm = HashLM(ninja.SymbolTable.from_words(["<s>", "</s>", "<unk>", *table_words]))
    for algorithm in ("arcbeam", "pushforward"):
        runs = (run(lattices, lm, RescoreOptions(algorithm=algorithm)) for _ in range(3))
        report, cpu, _ = min(runs, key=lambda measured: measured[1])
        name = f"search alone (a model of negligible cost), {algorithm}"
        yield row(name, f"{report.expanded_arcs / cpu / 1e6:.2f} M expanded arcs/s of CPU time")


def batching(lattices: Keyed, model: str, num_single: int) -> Iterator[str]:
    """Yield the gain of large batches over one history at a time: the same engine, model, options and lattices."""
    from ninja.lm.load import load

    single = RescoreOptions(batch_arcs=1)  # one lattice in flight in each half
    runs = {
        "all in flight": (load(model), RescoreOptions(), lattices),
        "the same, fewer lattices": (load(model), RescoreOptions(), lattices[:num_single]),
        "one at a time, Ninja's step": (load(model, max_batch=1), single, lattices[:num_single]),
        "one at a time, plain torch": (PlainTorch(model), single, lattices[:num_single]),
    }
    batched = 0.0
    for name, (lm, options, subset) in runs.items():
        run(subset[:1], lm, options)  # warm up
        report, cpu, wall = run(subset, lm, options)
        speed = report.arcs / wall
        batched = batched or speed
        gain = "" if speed == batched else f": batching is {batched / speed:.1f}× as fast"
        rates = f"{speed:,.0f} arcs/s, {report.histories / wall:,.0f} histories/s, {cpu / wall:.1f} cores"
        yield row(f"shipped model, {name}", rates + gain)


@command
@argument("data", default=ENGLISH)
@option("--lattices", default=100, help="Lattices that the network rescores in batches.")
@option("--single", default=8, help="Number of these that are also rescored one history at a time.")
@option("--threads", default=2)
@path_option("--rnnlm", help="Language model; by default the shipped LSTM.")
@output
def main(data: Path, lattices: int, single: int, threads: int, rnnlm: Path | None, output: Path | None) -> None:
    from ninja.models import ENGLISH as SHIPPED

    set_torch_threads(threads)
    table, archive = data / "words.txt.gz", data / "test/libri/lat.ark.gz"
    if not data.is_dir():
        table, archive = EXAMPLES / "words.txt", EXAMPLES / "lat.ark.gz"
    words = ninja.SymbolTable.read(table)
    keyed = list(ninja.read(archive, words=words))
    parts = bookkeeping(keyed, words), batching(keyed[:lattices], str(rnnlm or SHIPPED), single)
    put(output, "engine", show(chain(head(f"{threads} threads", ""), *parts)))
