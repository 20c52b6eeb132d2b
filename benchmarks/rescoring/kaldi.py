"""CPU time of rescoring Kaldi's English lattices with Kaldi's RNNLM, against Kaldi's own pruned composition.

    python -m benchmarks.rescoring kaldi [SHARED] [--copies 10] [--rounds 3] [--output docs/results.md]

The scores of the first pass's trigram are subtracted and half of the RNNLM's added. CPU seconds are those of the whole
process with one torch thread, from opening the archive to closing the output, the least of some rounds; the models
are loaded before. Kaldi's, on the same lattices, are in SHARED/golden/english/README.md. Copies of the archive have
other keys, but the same words: two copies of a lattice in flight share histories, so compare where none were shared.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path

import ninja
from benchmarks.command import SHARED, argument, command, option, output
from benchmarks.measure import set_torch_threads
from benchmarks.tables import head, put, row
from ninja.evaluate import read_text, score
from ninja.graph import best_path
from ninja.lattice import Scales
from ninja.lm import LanguageModel, load
from ninja.rescoring import RescoreOptions, RescoreReport, rescore

RUNS = {  # options, and Kaldi's CPU seconds for 239 lattices; arcbeam is compared with its order 4, beam 6
    "pruned, order 3, beam 6": (RescoreOptions(algorithm="pruned", max_ngram_order=3), 5.3),
    "pruned, order 4, beam 6": (RescoreOptions(algorithm="pruned", max_ngram_order=4), 8.1),
    "pruned, order 4, beam 8": (RescoreOptions(algorithm="pruned", max_ngram_order=4, beam=8.0), 19.2),
    "arcbeam, beam 3, one hypothesis, full histories": (RescoreOptions(beam=3.0, max_hyps=1, merge_order=0), 8.1),
    "arcbeam, beam 6, full histories": (RescoreOptions(beam=6.0, merge_order=0), 8.1),
}
SCALES = Scales(1 / 12, word_penalty=1.0)  # LM weight 12 and word penalty 1, both chosen on dev


def run(
    source: Path, words: ninja.SymbolTable, lm: LanguageModel, old_lm: LanguageModel, options: RescoreOptions
) -> tuple[float, RescoreReport, dict[str, list[str]]]:
    """Rescore a file into a file; return CPU seconds, the report and the words of the best paths."""
    report = RescoreReport()
    with tempfile.NamedTemporaryFile(suffix=".ark") as target:
        start = time.process_time()
        with ninja.write(target.name) as output:
            for key, lattice in rescore(ninja.read(source, words=words), lm, options, old_lm=old_lm, report=report):
                output.write(lattice, key=key)
        seconds = time.process_time() - start
        lattices = ninja.read(target.name, words=words)
        return seconds, report, {key: words.spell(best_path(lattice, SCALES).words) for key, lattice in lattices}


@command
@argument("shared", default=SHARED)
@option("--copies", default=10, help="Copies of the archive, one after the other.")
@option("--batch-arcs", default=RescoreOptions().batch_arcs)
@option("--rounds", default=3)
@output
def main(shared: Path, copies: int, batch_arcs: int, rounds: int, output: Path | None) -> None:
    set_torch_threads()
    english = shared / "data/english"
    archive, text = english / "test/libri/lat.ark.gz", read_text(english / "test/libri/text")
    words = ninja.SymbolTable.read(english / "words.txt.gz")
    lm, old_lm = load(shared / "data/rnnlm/feat_english"), load(english / "first_pass.arpa.gz")
    columns = ("CPU s", "Kaldi, CPU s", "speed-up", "WER %")
    details = ("LM steps", "shared by copies", "scores", "arcs", "LM steps a call")
    lines = head("239 lattices", *columns)
    print(*head("239 lattices; steps, scores and arcs of each", *columns, *details), sep="\n")
    with tempfile.TemporaryDirectory() as folder:
        repeated = Path(folder) / "copies.ark"
        with ninja.write(repeated) as writer:
            for copy in range(copies):
                for key, lattice in ninja.read(archive):
                    writer.write(lattice, key=f"{key}-{copy}")
        for name, (run_options, kaldi) in RUNS.items():
            options = replace(run_options, batch_arcs=batch_arcs)
            _, once, hypotheses = run(archive, words, lm, old_lm, options)
            runs = (run(repeated, words, lm, old_lm, options)[:2] for _ in range(rounds))
            total, report = min(runs, key=lambda measured: measured[0])
            seconds, shared_steps = total / copies, 1 - report.histories / (copies * once.histories)
            cells = (f"{seconds:.3f}", kaldi, f"{kaldi / seconds:.1f}×", f"{score(text, hypotheses).wer:.2f}")
            means = (count / report.lattices for count in (report.histories, report.scores, report.expanded_arcs))
            steps, scores, arcs = (f"{mean:.0f}" for mean in means)
            per_call = f"{report.histories / report.calls:.0f}"
            print(row(name, *cells, steps, f"{shared_steps:.0%}", scores, arcs, per_call), flush=True)
            lines.append(row(name, *cells))
    put(output, "kaldi", lines)
