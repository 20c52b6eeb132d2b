"""Make the table of docs/results.md: every language model with every algorithm on the English test-bed.

    python -m benchmarks.results models DATA [--rnnlm-data DIR] [--models DIR] [--threads 2] [--output docs/results.md]

DATA holds ``words.txt.gz``, ``first_pass.arpa.gz``, and in ``dev/libri`` and ``test/libri`` each ``lat.ark.gz`` and
``text``. For each cell dev is rescored once, weights are chosen on the result (``ninja tune``), and test is rescored
once with these. Cells are kept in a file: an interrupted run continues, and a cell is computed again when its model has
changed. Rows whose model does not exist yet are left out, with a message. The ONNX and Caffe2
forms of the LSTM are made here; the two Transformers, from a text of one sentence a line, by

    ninja train train.txt.gz --dev dev.txt.gz --architecture transformer -o build/models/transformer.pt
    python -m benchmarks.training huggingface train.txt.gz dev.txt.gz build/models/huggingface
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import click

import ninja
from benchmarks.command import ROOT, argument, command, option, output, path_option
from benchmarks.measure import set_torch_threads
from benchmarks.tables import Cells, head, put
from benchmarks.tables import row as table_row
from ninja.errors import NinjaError
from ninja.evaluate import ErrorRate, oracle_score, read_text, score
from ninja.graph import best_path
from ninja.lattice import Scales
from ninja.lm import LanguageModel, Mixture, load
from ninja.lm.convert import convert
from ninja.models import ENGLISH
from ninja.rescoring import RescoreOptions, RescoreReport, rescore
from ninja.tune.expected import Weights
from ninja.tune.weights import tune_weights

ACOUSTIC_SCALES = (1 / 16, 1 / 14, 1 / 12, 0.1, 0.12)  # of the first pass alone
WORD_PENALTIES = (-0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5)
SEARCH = RescoreOptions(acoustic_scale=1 / 12, word_penalty=0.5, max_unknown=1.0)  # to start tuning with
NUM_SENTENCES = 200

COLUMNS: dict[str, dict[str, Any]] = {
    "arcbeam": {"algorithm": "arcbeam"},
    "pushforward": {"algorithm": "pushforward"},
    "pruned": {"algorithm": "pruned", "max_ngram_order": 4},
    "nbest-100": {"algorithm": "nbest", "num_best": 100},
    "cover": {"algorithm": "cover"},
    "trie": {"algorithm": "trie"},
}


@dataclass(frozen=True)
class Row:
    """A language model, by its files."""

    name: str
    files: tuple[Path, ...]
    lm_weight: float  # to start tuning with
    options: tuple[tuple[str, Any], ...] = ()  # other options of the model
    any_word: bool = False  # the model spells words in pieces, and needs the words of the lattices

    def model(self, words: ninja.SymbolTable | None) -> LanguageModel | Mixture:
        """Load the model; several files are mixed linearly."""
        models = [load(path, words=words if self.any_word else None) for path in self.files]
        if len(models) == 1:
            return models[0]
        return Mixture([(lm, 1 / len(models)) for lm in models], "linear")

    def stamp(self) -> list[list[Any]]:
        """Identify the files, so that a changed model is noticed."""
        paths = [path for file in self.files for path in ([file] if file.is_file() else sorted(file.rglob("*")))]
        return [[path.name, path.stat().st_size, int(path.stat().st_mtime)] for path in paths if path.is_file()]


def rows(data: Path, rnnlm_data: Path, models: Path, rnnlm: Path) -> list[Row]:
    """Return all rows of the table; their files may be missing."""
    case = (("map_words", ("case", "unk")),)
    return [
        Row("LSTM, shipped", (rnnlm,), 0.8),
        Row("Kaldi RNNLM", (rnnlm_data / "feat_english",), 0.5),
        Row("bigram", (rnnlm_data / "ngram/lm_bg.arpa.gz",), 0.4, case),
        Row("tiny Transformer", (models / "transformer.pt",), 0.6),
        Row("Hugging Face", (models / "huggingface",), 0.6, any_word=True),
        Row("ONNX", (models / "english.onnx",), 0.8),
        Row("Caffe2", (models / "caffe2",), 0.8),
        Row("LSTM + trigram", (rnnlm, data / "first_pass.arpa.gz"), 0.8),
    ]


@dataclass
class Set:
    """One set of the test-bed, read into memory."""

    lattices: list[tuple[str, ninja.Lattice]]
    text: dict[str, list[str]]
    words: ninja.SymbolTable

    @classmethod
    def read(cls, folder: Path, words: ninja.SymbolTable) -> Set:
        """Read a folder."""
        return cls(list(ninja.read(folder / "lat.ark.gz", words=words)), read_text(folder / "text"), words)

    def wer(self, lattices: Iterable[tuple[str, ninja.Lattice]], scale: float, penalty: float) -> ErrorRate:
        """Score the best paths."""
        return score(
            self.text,
            {
                key: self.words.spell(best_path(lattice, Scales(acoustic=scale, word_penalty=penalty)).words)
                for key, lattice in lattices
            },
        )


def with_weights(options: RescoreOptions, weights: Weights) -> RescoreOptions:
    """Return the options with tuned weights."""
    return replace(
        options,
        lm_weight=weights.lm_weight,
        acoustic_scale=weights.acoustic_scale,
        word_penalty=weights.word_penalty,
    )


def cell(row: Row, column: str, lm: LanguageModel | Mixture, dev: Set, test: Set) -> dict[str, Any]:
    """Tune on dev and rescore test; return error rates, times and weights."""
    options = replace(SEARCH, lm_weight=row.lm_weight, **dict(row.options), **COLUMNS[column])
    began = time.perf_counter()
    tuned = tune_weights(dev.lattices, dev.text, lm, options, num_best=NUM_SENTENCES)
    tuning = time.perf_counter() - began
    weights = tuned.weights
    if isinstance(lm, Mixture):
        mixed = [(model, share) for (model, _), share in zip(lm.models, weights.mixture, strict=True) if share > 0]
        lm = mixed[0][0] if len(mixed) == 1 else replace(lm, models=mixed)
    options = replace(with_weights(options, weights), output="best")
    report = RescoreReport()
    cpu = time.process_time()
    results = list(rescore(test.lattices, lm, options, report=report))
    return {
        "wer": test.wer(results, weights.acoustic_scale, weights.word_penalty).wer,
        "dev_wer": tuned.wer,
        "seconds": report.seconds,
        "cpu_seconds": time.process_time() - cpu,
        "tuning_seconds": tuning,
        "histories": report.histories,
        "weights": asdict(weights),
        "edges": tuned.edges,
        "stamp": row.stamp(),
    }


def stored_cell(cells: Cells, row: Row, column: str, threads: int) -> dict[str, Any] | None:
    """Return a cell if it was computed with the present model and as many threads."""
    cached = cells.get(f"{row.name}/{column}")
    return cached if cached and (cached["stamp"], cached["threads"]) == (row.stamp(), threads) else None


def fill(
    cells: Cells, table_rows: list[Row], columns: list[str], threads: int, sets: Callable[[], tuple[Set, Set]]
) -> None:
    """Compute the missing cells."""
    for row in table_rows:
        missing = [column for column in columns if stored_cell(cells, row, column, threads) is None]
        if not missing:
            continue
        if lacking := [str(path) for path in row.files if not path.exists()]:
            print(f"{row.name}: left out, there is no {' and no '.join(lacking)}", flush=True)
            continue
        dev, test = sets()
        try:
            lm = row.model(test.words)
        except NinjaError as error:
            print(f"{row.name}: left out, {error}", flush=True)
            continue
        for column in missing:
            try:
                figures = cell(row, column, lm, dev, test)
            except NinjaError as error:
                print(f"{row.name}, {column}: left out, {error}", flush=True)
                continue
            cells.add(f"{row.name}/{column}", threads=threads, **figures)
            weights = ", ".join(f"{name} {value}" for name, value in figures["weights"].items())
            print(
                f"{row.name}, {column}: WER {figures['wer']:.2f} ({figures['dev_wer']:.2f} on dev), "
                f"{figures['seconds']:.1f} s, {weights} {' '.join(figures['edges'])}",
                flush=True,
            )


def table(cells: Cells, table_rows: list[Row], threads: int) -> list[str]:
    """Return the table as lines of Markdown."""
    lines = head("", *COLUMNS)
    for row in table_rows:
        computed = [stored_cell(cells, row, column, threads) for column in COLUMNS]
        if any(computed):
            texts = (f"{cell['wer']:.2f} ({cell['seconds']:.1f} s)" if cell else "" for cell in computed)
            lines.append(table_row(row.name, *texts))
    return lines


def first_pass(dev: Set, test: Set) -> list[str]:
    """Return the error rate without rescoring, and the least that rescoring can reach."""
    grid = product(ACOUSTIC_SCALES, WORD_PENALTIES)
    scale, penalty = min(grid, key=lambda weights: dev.wer(dev.lattices, *weights).errors)
    oracle = oracle_score((lattice for _, lattice in test.lattices), test.text, test.words)
    return [
        f"First pass: {test.wer(test.lattices, 0.1, 0.0).wer:.2f} at acoustic scale 0.1, "
        f"{test.wer(test.lattices, scale, penalty).wer:.2f} at the scale and word penalty chosen on dev ({scale:.3g}, "
        f"{penalty:g}); oracle: {oracle.wer:.2f}.",
    ]


def convert_lstm(rnnlm: Path, models: Path) -> None:
    """Write the LSTM in its other forms, where these are missing."""
    for target in (models / "english.onnx", models / "caffe2"):
        if not target.exists():
            models.mkdir(parents=True, exist_ok=True)
            convert(rnnlm, target if target.suffix else f"{target}/")


@command
@argument("data")
@path_option("--rnnlm", default=ENGLISH, help="The LSTM; by default the shipped model.")
@path_option("--rnnlm-data", help="Folder of Kaldi's RNNLM and bigram; by default DATA/../rnnlm.")
@path_option("--models", default=ROOT / "build/models", help="Folder of the models that are made here.")
@path_option("--cells", default=ROOT / "build/results.jsonl", help="File that keeps the cells.")
@option("--only", multiple=True, help="Row or column to compute; may be repeated.")
@option("--threads", default=2)
@output
def main(data: Path, rnnlm: Path, rnnlm_data: Path | None, models: Path, cells: Path, only: tuple[str, ...],
         threads: int, output: Path | None) -> None:  # fmt: skip
    set_torch_threads(threads)

    @cache
    def sets() -> tuple[Set, Set]:
        words = ninja.SymbolTable.read(data / "words.txt.gz")
        return Set.read(data / "dev/libri", words), Set.read(data / "test/libri", words)

    all_rows = rows(data, rnnlm_data or data.parent / "rnnlm", models, rnnlm)
    if unknown := set(only) - {row.name for row in all_rows} - set(COLUMNS):
        raise click.BadParameter(f"no row or column is called {', '.join(sorted(unknown))}")
    table_rows = [row for row in all_rows if row.name in only] or all_rows
    columns = [column for column in COLUMNS if column in only] or list(COLUMNS)
    convert_lstm(rnnlm, models)
    results = Cells(cells)
    fill(results, table_rows, columns, threads, sets)
    lines = [*first_pass(*sets()), "", *table(results, all_rows, threads)]
    print("\n".join(lines))
    put(output, "results", lines)


if __name__ == "__main__":
    main()
