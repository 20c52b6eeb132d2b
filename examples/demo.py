"""Rescore lattices of real speech with the shipped model; print word error rates before and after.

``make demo`` runs it; it may be run from any folder.
"""

import time
from pathlib import Path

import ninja

DATA = Path(__file__).parent / "librispeech"
# Weights were chosen on lattices of other speakers; see docs/results.md.
FIRST_PASS_PENALTY = 0.0
OPTIONS = ninja.RescoreOptions(lm_weight=0.7, acoustic_scale=0.1, word_penalty=0.5)


def transcripts(lattices, word_penalty):
    """Return the words of each lattice's best path, by key."""
    best = {}
    for key, lattice in lattices:
        path = ninja.graph.best_path(lattice, ninja.Scales(OPTIONS.acoustic_scale, word_penalty=word_penalty))
        best[key] = lattice.words.spell(path.words)
    return best


def main():
    """Print word error rates before and after, and the words of a few utterances."""
    words = ninja.SymbolTable.read(DATA / "words.txt")
    references = ninja.evaluate.read_text(DATA / "text")

    def lattices():
        return ninja.read(DATA / "lat.ark.gz", words=words)

    before = transcripts(lattices(), FIRST_PASS_PENALTY)
    lm = ninja.lm.load()
    report = ninja.RescoreReport()
    begin = time.perf_counter()
    after = transcripts(ninja.rescore(lattices(), lm, OPTIONS, report=report), OPTIONS.word_penalty)
    seconds = time.perf_counter() - begin

    changed_keys = [key for key in references if before[key] != after[key]]
    for key in changed_keys[:3]:
        print(f"{key}\n  spoken  {' '.join(references[key])}")
        print(f"  before  {' '.join(before[key])}\n  after   {' '.join(after[key])}\n")
    oracle = ninja.evaluate.oracle_score((lattice for _, lattice in lattices()), references, words)
    print(
        f"{report.lattices} lattices, {report.arcs} arcs, rescored in {seconds:.1f} s with {report.histories} histories"
    )
    print(f"word error rate before     {ninja.evaluate.score(references, before).wer:5.2f}%")
    print(f"word error rate after      {ninja.evaluate.score(references, after).wer:5.2f}%")
    print(f"best path in the lattices  {oracle.wer:5.2f}%")
    print(
        "The recordings are MP3 files of LibriSpeech dev-clean: do not compare these figures with those of LibriSpeech."
    )


if __name__ == "__main__":
    main()
