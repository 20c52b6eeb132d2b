"""Rescoring on a GPU with small and large models, against its matrix rate and a core of Kaldi.

    python -m benchmarks.gpu DATA [--device cuda] [--copies 20] [--only WORD] [--cells FILE] [--quick]

DATA holds ``words.txt.gz`` and ``test/libri/lat.ark.gz``. First the card's own rates are measured: products of matrices
in bfloat16 and float32, and copies in its memory. Then each model rescores the lattices, warmed up, in memory: the
shipped one, and networks of random weights, whose speed is that of trained ones. A history takes two
operations for each weight; their share of the matrix rate shows the gain of batches. Cells are written one by one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

import ninja
from benchmarks.command import argument, command, option, path_option
from benchmarks.tables import Cells
from ninja.lm import LanguageModel, load
from ninja.lm.attention.transformer import TransformerLM
from ninja.lm.protocol import LoadOptions
from ninja.lm.recurrent.lstm import LstmLM
from ninja.models import lstm, transformer
from ninja.rescoring import RescoreOptions, RescoreReport, rescore

KALDI_SECONDS = 8.1  # of one core for the 239 lattices, RNNLM of order 4, beam 6
FRAME = 0.01  # seconds
SIZE = 8192  # of the square matrices
BATCH_ARCS = (1_000, 10_000, 100_000, 1_000_000)
ALONE = 5  # lattices that are rescored one history at a time

Keyed = list[tuple[str, ninja.Lattice]]
Cell = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """A model to measure."""

    make: Callable[[ninja.SymbolTable, LoadOptions], LanguageModel]
    algorithms: tuple[str, ...] = ("arcbeam", "trie", "nbest")


def random_network(module: type, config: type, network: Any, size: int, **shape: int) -> Kind:
    """Return a network of random weights with a vocabulary of some size."""

    def make(words: ninja.SymbolTable, options: LoadOptions) -> LanguageModel:
        table = padded(words, size)
        weights = module(config(len(table), **shape))
        weights.initialise()
        return network(weights.eval(), table, options)

    return Kind(make)


random_lstm = partial(random_network, lstm.LSTMLanguageModel, lstm.Config, LstmLM)
random_transformer = partial(random_network, transformer.TransformerLanguageModel, transformer.Config, TransformerLM)
KINDS = {
    "the shipped LSTM": Kind(lambda words, options: load(device=options.device, max_batch=options.max_batch)),
    "LSTM 2 × 1024, 20k words": random_lstm(20_000, embedding=512, hidden=1024),
    "LSTM 2 × 1024, 200k words": random_lstm(200_000, embedding=512, hidden=1024),
    "Transformer of 124M": random_transformer(50_000, embedding=768, hidden=3072, layers=12, heads=12),
    "Transformer of 1B": random_transformer(50_000, embedding=1792, hidden=7168, layers=24, heads=14),
}
QUICK = {
    "LSTM, small": random_lstm(1_000, embedding=16, hidden=32),
    "Transformer, small": random_transformer(1_000, embedding=16, hidden=32, layers=1, heads=2),
}


def padded(words: ninja.SymbolTable, size: int) -> ninja.SymbolTable:
    """Return the words of a table, and more until there are `size`."""
    table_words = [word for word, _ in words if word not in ("<eps>", "<s>", "</s>", "<unk>")]
    filler_words = (f"word{number}" for number in range(max(0, size - len(table_words) - 3)))
    return ninja.SymbolTable.from_words(["<s>", "</s>", "<unk>", *table_words, *filler_words][: max(size, 3)])


def synchronised_time(device: torch.device) -> float:
    """Wait for the device; return the time."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def rate(device: torch.device, dtype: torch.dtype, size: int) -> float:
    """Return operations a second of products of square matrices."""
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    for _ in range(3):
        a @ b
    begin = synchronised_time(device)
    for _ in range(10):
        a @ b
    return 10 * 2 * size**3 / (synchronised_time(device) - begin)


def memory_rate(device: torch.device, size: int) -> float:
    """Return bytes a second that a copy reads and writes."""
    source = torch.empty(size * size * 16, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    target.copy_(source)
    begin = synchronised_time(device)
    for _ in range(10):
        target.copy_(source)
    return 10 * 2 * source.numel() / (synchronised_time(device) - begin)


def operations(lm: LanguageModel) -> float:
    """Return the operations of a history: two for each weight; embeddings count where scores are normalised."""
    assert lm.num_parameters is not None
    embeddings = len(lm.vocabulary) * (lm.state_size or 0)
    return 2.0 * (lm.num_parameters - (0 if lm.normalized else embeddings))


def run(lm: LanguageModel, lattices: Keyed, options: RescoreOptions, device: torch.device) -> dict[str, float]:
    """Rescore, warmed up; return figures."""
    for _ in rescore(lattices[: max(1, len(lattices) // 20)], lm, options):
        pass
    report = RescoreReport()
    begin = synchronised_time(device)
    for _ in rescore(lattices, lm, options, report=report):
        pass
    seconds = synchronised_time(device) - begin
    return {
        "utterances": report.lattices / seconds,
        "audio": report.frames * FRAME / 3600 / seconds,
        "histories": report.histories / seconds,
        "operations": report.histories * operations(lm) / seconds,
        "in_lm": report.lm_seconds / seconds,
        "calls": report.calls,
    }


def busy(lm: LanguageModel, lattices: Keyed, options: RescoreOptions, device: torch.device) -> tuple[float, str]:
    """Return the share of time in which the device computes, and a table of the slowest kernels."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities[1:] if device.type == "cuda" else activities[:1]) as profile:
        begin = synchronised_time(device)
        for _ in rescore(lattices, lm, options):
            pass
        seconds = synchronised_time(device) - begin
    time_attribute = "self_device_time_total" if device.type == "cuda" else "self_cpu_time_total"
    averages = profile.key_averages()
    total = sum(getattr(kernel, time_attribute) for kernel in averages)
    return total / 1e6 / seconds, averages.table(sort_by=time_attribute, row_limit=12)


def measured(kinds: dict[str, Kind], data: Path, device: torch.device, copies: int, is_quick: bool) -> Iterator[Cell]:
    """Yield figures as they are measured."""
    size = 256 if is_quick else SIZE
    yield {
        "name": "the card",
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU",
        "bfloat16": rate(device, torch.bfloat16, size),
        "float32": rate(device, torch.float32, size),
        "memory": memory_rate(device, size),
    }
    words = ninja.SymbolTable.read(data / "words.txt.gz")
    once = list(ninja.read(data / "test/libri/lat.ark.gz", words=words))[: 3 if is_quick else None]
    lattices = [(f"{key}-{copy}", lattice) for copy in range(copies) for key, lattice in once]
    for name, kind in kinds.items():
        lm = kind.make(words, LoadOptions(str(device)))
        for algorithm in kind.algorithms:
            options = RescoreOptions(algorithm=algorithm, max_unknown=1.0)
            figures = run(lm, lattices, options, device)
            figures["kaldi"] = KALDI_SECONDS / len(once) * figures["utterances"]  # as many cores of Kaldi are as fast
            yield {"name": f"{name}, {algorithm}", **figures}
        options = RescoreOptions(algorithm=kind.algorithms[0], max_unknown=1.0)
        share, table = busy(lm, once, options, device)
        yield {"name": f"{name}, profile", "busy": share, "kernels": table}
        for arcs in BATCH_ARCS:
            figures = run(lm, lattices, replace(options, batch_arcs=arcs), device)
            yield {"name": f"{name}, --batch-arcs {arcs}", **figures}
        lm = kind.make(words, LoadOptions(str(device), max_batch=1))
        figures = run(lm, once[:ALONE], replace(options, batch_arcs=1), device)
        yield {"name": f"{name}, one history at a time", **figures}
        del lm
        if device.type == "cuda":
            torch.cuda.empty_cache()


@command
@argument("data")
@option("--device", default="cuda")
@option("--copies", default=20, help="How many times the lattices are rescored.")
@option("--only", multiple=True, help="Part of the name of a model; may be repeated.")
@path_option("--cells", default=Path("build/gpu.jsonl"))
@option("--quick", "is_quick", is_flag=True, help="Small networks and three lattices, as a trial.")
def main(data: Path, device: str, copies: int, only: tuple[str, ...], cells: Path, is_quick: bool) -> None:
    kinds = QUICK if is_quick else KINDS
    selected = {name: kind for name, kind in kinds.items() if not only or any(part in name for part in only)}
    stored = Cells(cells)
    for cell in measured(selected, data, torch.device(device), copies, is_quick):
        stored.add(**cell)
        fields = (f"{key} {value:.4g}" if isinstance(value, float) else f"{value}" for key, value in cell.items())
        print("  ".join(fields), flush=True)


if __name__ == "__main__":
    main()
