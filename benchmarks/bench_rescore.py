"""Speed of rescoring: the engine's own bookkeeping, and what batching gains with a real network.

    python -m benchmarks.bench_rescore [DATA] [--lattices 20] [--threads 1]

DATA holds ``words.txt.gz`` and ``test/libri/lat.ark.gz``; without it the repository's example archive is taken.
Times are CPU seconds of the whole process, all threads, but for the batching gain, which is of wall time.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Literal

import ninja
from ninja.lm import LanguageModel
from ninja.lm.dummy import HashLM
from ninja.rescore import RescoreOptions, RescoreReport, rescore

HERE = Path(__file__).resolve().parent
SHARED = HERE.parents[1] / "shared" / "data" / "english"
EXAMPLES = HERE.parent / "examples"
ALGORITHMS: tuple[Literal["arcbeam", "pushforward"], ...] = ("arcbeam", "pushforward")

Keyed = list[tuple[str, ninja.Lattice]]


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


def batching(lattices: Keyed, model: str | None) -> None:
    """Print what large batches gain over one history a step: the same engine, options and lattices."""
    from ninja.lm.load import load

    seconds = {}
    one_at_a_time = RescoreOptions(batch_arcs=1)
    for name, options, max_batch in (("batched", RescoreOptions(), None), ("one by one", one_at_a_time, 1)):
        lm = load(model, max_batch=max_batch)
        run(lattices[:1], lm, options)  # warm up
        report, cpu, wall = run(lattices, lm, options)
        seconds[name] = wall
        print(
            f"shipped model, {name:10} {report.histories / wall:8.0f} histories/s  {report.arcs / wall:8.0f} arcs/s  "
            f"{wall:.2f} s  {cpu:.2f} CPU s  {report.lm_seconds / wall:.0%} in the network"
        )
    print(f"batching gains {seconds['one by one'] / seconds['batched']:.1f} times")


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", type=Path, default=SHARED if SHARED.exists() else None)
    parser.add_argument("--lattices", type=int, default=20, help="how many the network rescores")
    parser.add_argument("--threads", type=int, default=1)
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
    batching(lattices[: arguments.lattices], arguments.rnnlm)


if __name__ == "__main__":
    main()
