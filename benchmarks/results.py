"""Make the table of docs/results.md: every language model with every algorithm on the English test-bed.

    python -m benchmarks.results DATA [--rnnlm-data DIR] [--models DIR] [--threads 2] [--output docs/results.md]

DATA holds ``words.txt.gz``, ``first_pass.arpa.gz``, and in ``dev/libri`` and ``test/libri`` each ``lat.ark.gz`` and
``text``. For each cell dev is rescored once, weights are chosen on what came out (``ninja tune``), and test is rescored
once with these. Cells are kept in a file as they are done: the command goes on where it was stopped, and does a cell
again when its model has changed. Rows whose model does not exist yet are left out, with a message. The ONNX and Caffe2
forms of the LSTM are made here; the two Transformers, from a text of one sentence a line, by

    ninja train train.txt.gz --dev dev.txt.gz --architecture transformer -o build/models/transformer.pt
    python benchmarks/train_hf.py train.txt.gz dev.txt.gz build/models/huggingface
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import ninja
from ninja.errors import NinjaError
from ninja.evaluate import ErrorRate, oracle_score, read_text, score
from ninja.graph import best_path
from ninja.lattice import Scales
from ninja.lm import LanguageModel, Mixture, load
from ninja.lm.convert import convert
from ninja.models import ENGLISH
from ninja.rescoring import RescoreOptions, RescoreReport, rescore
from ninja.tune.weights import tune_weights

HERE = Path(__file__).resolve().parent
START, END = "<!-- results -->\n", "<!-- end -->"

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
    options: tuple[tuple[str, Any], ...] = ()  # what the model needs besides
    any_word: bool = False  # the model spells words in pieces, and is told the lattices'

    def model(self, words: ninja.SymbolTable) -> LanguageModel | Mixture:
        """Load the model; several files are mixed linearly."""
        models = [load(path, words=words if self.any_word else None) for path in self.files]
        if len(models) == 1:
            return models[0]
        return Mixture([(lm, 1 / len(models)) for lm in models], "linear")

    def stamp(self) -> list[list[Any]]:
        """Say which files these are, so that a changed model is noticed."""
        found = [path for each in self.files for path in ([each] if each.is_file() else sorted(each.rglob("*")))]
        return [[path.name, path.stat().st_size, int(path.stat().st_mtime)] for path in found if path.is_file()]


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


def cell(row: Row, column: str, lm: LanguageModel | Mixture, dev: Set, test: Set) -> dict[str, Any]:
    """Tune on dev, rescore test; return what there is to know."""
    options = replace(SEARCH, lm_weight=row.lm_weight, **dict(row.options), **COLUMNS[column])
    began = time.perf_counter()
    tuned = tune_weights(dev.lattices, dev.text, lm, options, num_best=NUM_SENTENCES)
    tuning = time.perf_counter() - began
    weights = tuned.weights
    if isinstance(lm, Mixture):
        mixed = [(model, share) for (model, _), share in zip(lm.models, weights.mixture, strict=True) if share > 0]
        lm = mixed[0][0] if len(mixed) == 1 else replace(lm, models=mixed)
    options = replace(
        options,
        lm_weight=weights.lm_weight,
        acoustic_scale=weights.acoustic_scale,
        word_penalty=weights.word_penalty,
        output="best",
    )
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


class Cells:
    """The cells done so far, in a file."""

    def __init__(self, path: Path, threads: int) -> None:
        self.path = path
        self.threads = threads
        self.done: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.exists() else {}

    def get(self, row: Row, column: str) -> dict[str, Any] | None:
        """Return a cell, if it was made of this model, with as many threads."""
        found = self.done.get(f"{row.name}/{column}")
        fits = found is not None and found["stamp"] == row.stamp() and found["threads"] == self.threads
        return found if fits else None

    def put(self, row: Row, column: str, found: dict[str, Any]) -> None:
        """Keep a cell, now and for the next time."""
        self.done[f"{row.name}/{column}"] = {**found, "threads": self.threads}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        whole = self.path.with_suffix(".part")
        whole.write_text(json.dumps(self.done, indent=1))
        whole.replace(self.path)


def fill(cells: Cells, wanted: list[Row], columns: list[str], sets: Callable[[], tuple[Set, Set]]) -> None:
    """Make the cells that are missing."""
    for row in wanted:
        missing = [column for column in columns if cells.get(row, column) is None]
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
                found = cell(row, column, lm, dev, test)
            except NinjaError as error:
                print(f"{row.name}, {column}: left out, {error}", flush=True)
                continue
            cells.put(row, column, found)
            weights = ", ".join(f"{name} {value}" for name, value in found["weights"].items())
            print(
                f"{row.name}, {column}: WER {found['wer']:.2f} ({found['dev_wer']:.2f} on dev), "
                f"{found['seconds']:.1f} s, {weights} {' '.join(found['edges'])}",
                flush=True,
            )


def table(cells: Cells, wanted: list[Row], columns: list[str]) -> list[str]:
    """Return the table as lines of Markdown."""
    lines = [f"| | {' | '.join(columns)} |", f"|---|{'---|' * len(columns)}"]
    for row in wanted:
        found = [cells.get(row, column) for column in columns]
        if any(found):
            shown = ["" if each is None else f"{each['wer']:.2f} ({each['seconds']:.1f} s)" for each in found]
            lines.append(f"| {row.name} | {' | '.join(shown)} |")
    return lines


def first_pass(dev: Set, test: Set) -> list[str]:
    """Return what there is without rescoring, and what no rescoring goes below."""
    grid = product(ACOUSTIC_SCALES, WORD_PENALTIES)
    scale, penalty = min(grid, key=lambda weights: dev.wer(dev.lattices, *weights).errors)
    oracle = oracle_score((lattice for _, lattice in test.lattices), test.text, test.words)
    return [
        f"First pass: {test.wer(test.lattices, 0.1, 0.0).wer:.2f} at acoustic scale 0.1, "
        f"{test.wer(test.lattices, scale, penalty).wer:.2f} at scale and word penalty chosen on dev ({scale:.3g}, "
        f"{penalty:g}); the nearest paths of the lattices: {oracle.wer:.2f}.",
    ]


def convert_lstm(rnnlm: Path, models: Path) -> None:
    """Write the LSTM in its other forms, where these are missing."""
    for target in (models / "english.onnx", models / "caffe2"):
        if not target.exists():
            models.mkdir(parents=True, exist_ok=True)
            convert(rnnlm, target if target.suffix else f"{target}/")


def main() -> None:
    """Tune on dev, score on test, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--rnnlm", type=Path, default=ENGLISH, help="the LSTM; default: the shipped model")
    parser.add_argument("--rnnlm-data", type=Path, help="Kaldi's RNNLM and bigram; default: DATA/../rnnlm")
    parser.add_argument("--models", type=Path, default=HERE.parent / "build/models", help="models made here")
    parser.add_argument("--cells", type=Path, default=HERE.parent / "build/results.json", help="cells done so far")
    parser.add_argument("--only", nargs="*", help="rows and columns to make; default: all")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=Path, help="also write the table here")
    arguments = parser.parse_args()

    import torch

    torch.set_num_threads(arguments.threads)
    read: list[tuple[Set, Set]] = []

    def sets() -> tuple[Set, Set]:
        if not read:
            words = ninja.SymbolTable.read(arguments.data / "words.txt.gz")
            dev, test = (Set.read(arguments.data / each / "libri", words) for each in ("dev", "test"))
            read.append((dev, test))
        return read[0]

    beside = arguments.rnnlm_data or arguments.data.parent / "rnnlm"
    every = rows(arguments.data, beside, arguments.models, Path(arguments.rnnlm))
    only = arguments.only or []
    if unknown := set(only) - {row.name for row in every} - set(COLUMNS):
        parser.error(f"no row or column is called {', '.join(sorted(unknown))}")
    wanted = [row for row in every if row.name in only] or every
    columns = [column for column in COLUMNS if column in only] or list(COLUMNS)
    convert_lstm(Path(arguments.rnnlm), arguments.models)
    cells = Cells(arguments.cells, arguments.threads)
    fill(cells, wanted, columns, sets)
    lines = [*first_pass(*sets()), "", *table(cells, every, list(COLUMNS))]
    print("\n".join(lines))
    if arguments.output:
        text = arguments.output.read_text(encoding="utf-8")
        before, mark, rest = text.partition(START)
        _, end, after = rest.partition(END)
        if not (mark and end):
            parser.error(f"{arguments.output} has no {START.strip()} … {END} to fill")
        arguments.output.write_text("\n".join([before + mark.strip(), *lines, end + after]), encoding="utf-8")


if __name__ == "__main__":
    main()
