"""Speed of rescoring: the engine's own bookkeeping, and what batching gains with a real network.

    python -m benchmarks.bench_rescore [DATA] [--lattices 20] [--threads 1]

DATA holds ``words.txt.gz`` and ``test/libri/lat.ark.gz``; without it the repository's example archive is taken.
Times are CPU seconds of the whole process, all threads, but for the batching gain, which is of wall time.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any, Literal

import numpy as np

import ninja
from ninja.lm import LanguageModel
from ninja.rescoring import RescoreOptions, RescoreReport, rescore

HERE = Path(__file__).resolve().parent
SHARED = HERE.parents[1] / "shared" / "data" / "english"
EXAMPLES = HERE.parent / "examples"
ALGORITHMS: tuple[Literal["arcbeam", "pushforward"], ...] = ("arcbeam", "pushforward")

Keyed = list[tuple[str, ninja.Lattice]]

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_INCREMENT = np.uint64(0xD1B54A32D192ED03)


def _mix(value: np.ndarray) -> np.ndarray:
    """Spread each of some 64-bit integers over all 64 bits, reversibly (the finaliser of SplitMix64)."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


class HashLM(LanguageModel):
    """Scores that look random, depend on the whole history, and are the same in every run; not normalised.

    A slot *is* the hash of its history, so nothing is stored and equal histories have equal slots.
    """

    def __init__(
        self, vocabulary: ninja.SymbolTable, seed: int = 0, lowest: float = -12.0, highest: float = -0.1
    ) -> None:
        """Make a model whose log-probabilities lie evenly in ``[lowest, highest)``."""
        self.vocabulary = vocabulary
        self.bos = vocabulary.id("<s>")
        self.unk = vocabulary.id("<unk>")
        self.eos = vocabulary.ids(["</s>"])[0]
        self._root = int(_mix(np.array([seed], np.uint64) + _INCREMENT)[0] >> np.uint64(1))
        self._lowest, self._width = lowest, highest - lowest

    def start(self, count: int) -> np.ndarray:
        """See `LanguageModel.start`."""
        return np.full(count, self._root, np.int64)

    def advance(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """See `LanguageModel.advance`."""
        return (self._pair(slots, words) >> np.uint64(1)).astype(np.int64)  # 63 bits: slots are not negative

    def logprob(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """See `LanguageModel.logprob`."""
        fraction = _mix(self._pair(slots, words) + _INCREMENT) >> np.uint64(40)  # 24 bits, exact in float32
        return (self._lowest + fraction.astype(np.float32) * (self._width / 2**24)).astype(np.float32)

    def release(self, slots: np.ndarray) -> None:
        """See `LanguageModel.release`; there is nothing to free."""

    def _pair(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        return _mix(slots.astype(np.uint64) * _MULTIPLIER + words.astype(np.uint64) + _INCREMENT)


def run(lattices: Keyed, lm: LanguageModel, options: RescoreOptions) -> tuple[RescoreReport, float, float]:
    """Rescore, and return the report with CPU and wall seconds."""
    report = RescoreReport()
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in rescore(lattices, lm, options, report=report):
        pass
    return report, time.process_time() - cpu, time.perf_counter() - wall


def bookkeeping(lattices: Keyed, words: ninja.SymbolTable) -> None:
    """Print expanded arcs a second with a language model that costs next to nothing."""
    known = [word for word, _ in words if word not in ("<eps>", "<s>", "</s>", "<unk>")]
    lm = HashLM(ninja.SymbolTable.from_words(["<s>", "</s>", "<unk>", *known]), lowest=-9.0, highest=-5.0)
    for algorithm in ALGORITHMS:
        report, cpu, _ = min(
            (run(lattices, lm, RescoreOptions(algorithm=algorithm)) for _ in range(3)), key=lambda r: r[1]
        )
        print(f"bookkeeping, {algorithm:12} {report.expanded_arcs / cpu / 1e6:6.2f} M expanded arcs/s  {cpu:.3f} CPU s")


class PlainTorch(LanguageModel):
    """A checkpoint run as plain PyTorch runs it, one history at a time: ``nn.LSTM`` steps and a full log-softmax."""

    def __init__(self, model: str | None) -> None:
        from ninja.lm import checkpoint
        from ninja.models import ENGLISH

        stored = checkpoint.read(model or ENGLISH)
        self.module = stored.module
        self.vocabulary = ninja.SymbolTable.from_words(stored.words)
        self.bos, self.eos, self.unk = (self.vocabulary.id(word) for word in ("<s>", "</s>", "<unk>"))
        self.unk_words = stored.card.get("unk_words")
        self.states: list[Any] = []  # of each slot: LSTM state, log-probability of every word

    def start(self, count: int) -> np.ndarray:
        """See `LanguageModel.start`."""
        return np.array([self._read(None, self.bos) for _ in range(count)])

    def advance(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """See `LanguageModel.advance`."""
        return np.array([self._read(self.states[slot][0], int(word)) for slot, word in zip(slots, words, strict=True)])

    def logprob(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        """See `LanguageModel.logprob`."""
        pairs = zip(slots, words, strict=True)
        return np.array([self.states[slot][1][int(word)] for slot, word in pairs], np.float32)

    def release(self, slots: np.ndarray) -> None:
        """See `LanguageModel.release`."""
        for slot in slots:
            self.states[slot] = None

    def _read(self, state: Any, word: int) -> int:
        import torch

        with torch.inference_mode():
            output, state = self.module.lstm(self.module.embedding(torch.tensor([[word]])), state)  # [1, 1, embedding]
            self.states.append((state, self.module.logits(output[0, 0]).log_softmax(-1).numpy()))
        return len(self.states) - 1


def batching(lattices: Keyed, model: str | None, num_alone: int) -> None:
    """Print what large batches gain over one history at a time: the same engine, model, options and lattices."""
    from ninja.lm.load import load

    alone = RescoreOptions(batch_arcs=1)  # one lattice in flight in each half
    runs = {
        "all in flight": (load(model), RescoreOptions(), lattices),
        "the same, fewer lattices": (load(model), RescoreOptions(), lattices[:num_alone]),
        "one at a time, own step": (load(model, max_batch=1), alone, lattices[:num_alone]),
        "one at a time, plain torch": (PlainTorch(model), alone, lattices[:num_alone]),
    }
    speed = {}
    for name, (lm, options, some) in runs.items():
        run(some[:1], lm, options)  # warm up
        report, cpu, wall = run(some, lm, options)
        speed[name] = report.arcs / wall
        print(
            f"shipped model, {name:26} {report.arcs / wall:8.0f} arcs/s  {report.histories / wall:8.0f} histories/s  "
            f"{wall:6.2f} s  {cpu:6.2f} CPU s  {report.lm_seconds / wall:.0%} in the network"
        )
    batched = speed.pop("all in flight")
    for name, slow in speed.items():
        print(f"all in flight is {batched / slow:.1f} times as fast as {name}")


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", type=Path, default=SHARED if SHARED.exists() else None)
    parser.add_argument("--lattices", type=int, default=100, help="how many the network rescores in batches")
    parser.add_argument("--alone", type=int, default=8, help="how many of them also one history at a time")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rnnlm")
    arguments = parser.parse_args()

    import torch

    torch.set_num_threads(arguments.threads)
    if arguments.data is None:
        words, archive = ninja.SymbolTable.read(EXAMPLES / "words.txt"), EXAMPLES / "lat.ark.gz"
    else:
        words = ninja.SymbolTable.read(arguments.data / "words.txt.gz")
        archive = arguments.data / "test/libri/lat.ark.gz"
    lattices = list(ninja.read(archive, words=words))
    bookkeeping(lattices, words)
    batching(lattices[: arguments.lattices], arguments.rnnlm, arguments.alone)


if __name__ == "__main__":
    main()
