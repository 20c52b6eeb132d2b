"""CPU time of rescoring Kaldi's English lattices with Kaldi's RNNLM, against Kaldi's own pruned composition.

    python -m benchmarks.bench_pruned [SHARED] [--copies 10] [--batch-arcs 200000] [--repeat 3]

The first pass's trigram is taken out and half of the RNNLM put in. CPU seconds are those of the whole process with one
torch thread, from opening the archive to closing the one that is written, the least of some repeats; the models are
loaded before. Kaldi's, on the same lattices, stand in SHARED/golden/english/README.md. Copies of the archive have other
keys, but the same words: as soon as two copies of a lattice are in flight together they share histories, so "of
each lattice" is the figure to believe where it says that none were shared.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import ninja
from ninja.evaluate import read_text, score
from ninja.graph import best_path
from ninja.lattice import Scales
from ninja.lm import LanguageModel, load
from ninja.rescoring import RescoreOptions, RescoreReport, rescore

SHARED = Path(__file__).resolve().parents[2] / "shared"
RUNS = {  # options, and Kaldi's CPU seconds for 239 lattices with what they are compared to
    "pruned, order 3": (RescoreOptions(algorithm="pruned", max_ngram_order=3), 5.3),
    "pruned, order 4": (RescoreOptions(algorithm="pruned", max_ngram_order=4), 8.1),
    "pruned, order 4, beam 8": (RescoreOptions(algorithm="pruned", max_ngram_order=4, beam=8.0), 19.2),
    "arcbeam, beam 3": (RescoreOptions(beam=3.0, max_hyps=1, merge_order=0), 8.1),
    "arcbeam, beam 6": (RescoreOptions(beam=6.0, merge_order=0), 8.1),
    "arcbeam, defaults": (RescoreOptions(), 8.1),
}


def run(
    source: Path, words: ninja.SymbolTable, lm: LanguageModel, old_lm: LanguageModel, options: RescoreOptions
) -> tuple[float, RescoreReport]:
    """Rescore a file into a file; return CPU seconds and what was done."""
    report = RescoreReport()
    start = time.process_time()
    with tempfile.NamedTemporaryFile(suffix=".ark") as target, ninja.write(target.name) as output:
        for key, lattice in rescore(ninja.read(source, words=words), lm, options, old_lm=old_lm, report=report):
            output.write(lattice, key=key)
    return time.process_time() - start, report


def word_error_rate(archive: Path, words: ninja.SymbolTable, lm: LanguageModel, old_lm: LanguageModel,
                    options: RescoreOptions, text: Path) -> float:  # fmt: skip
    """Return the percentage at LM weight 12 and word penalty 1, both chosen on dev."""
    best = {
        key: best_path(lattice, Scales(1 / 12, word_penalty=1.0))
        for key, lattice in rescore(ninja.read(archive, words=words), lm, options, old_lm=old_lm)
    }
    return score(read_text(text), {key: words.spell(path.words) for key, path in best.items()}).wer


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shared", nargs="?", type=Path, default=SHARED)
    parser.add_argument("--copies", type=int, default=10, help="of the archive, one after the other")
    parser.add_argument("--batch-arcs", type=int, default=RescoreOptions().batch_arcs)
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()

    import torch

    torch.set_num_threads(1)
    english = arguments.shared / "data/english"
    archive = english / "test/libri/lat.ark.gz"
    words = ninja.SymbolTable.read(english / "words.txt.gz")
    lm, old_lm = load(arguments.shared / "data/rnnlm/feat_english"), load(english / "first_pass.arpa.gz")
    with tempfile.TemporaryDirectory() as folder:
        copies = Path(folder) / "copies.ark"
        with ninja.write(copies) as output:
            for copy in range(arguments.copies):
                for key, lattice in ninja.read(archive):
                    output.write(lattice, key=f"{key}-{copy}")
        for name, (chosen, kaldi) in RUNS.items():
            options = replace(chosen, batch_arcs=arguments.batch_arcs)
            alone = run(archive, words, lm, old_lm, options)[1]
            seconds, report = min(
                (run(copies, words, lm, old_lm, options) for _ in range(arguments.repeat)), key=lambda each: each[0]
            )
            each = seconds / arguments.copies
            shared = 1 - report.histories / (arguments.copies * alone.histories)
            wer = word_error_rate(archive, words, lm, old_lm, options, english / "test/libri/text")
            print(
                f"{name:24} {each:6.3f} s of CPU for 239 lattices, {kaldi / each:5.1f} times as fast as Kaldi "
                f"({kaldi} s)  WER {wer:.2f}\n{'':24} {report.histories / report.lattices:.0f} LM steps "
                f"({shared:.0%} shared between copies), {report.scores / report.lattices:.0f} scores, "
                f"{report.expanded_arcs / report.lattices:.0f} arcs expanded of each lattice; "
                f"{report.histories / report.calls:.0f} LM steps a call",
                flush=True,
            )


if __name__ == "__main__":
    main()
