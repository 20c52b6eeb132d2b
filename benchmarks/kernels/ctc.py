"""Speed of CTC decoding: CPU time of an utterance of 1000 frames and 30 letters.

    python -m benchmarks.kernels ctc [--beam 100]

Matrices are random, from flat to peaky; most are harder than those of a trained model, because at each frame many
letters are likely. "With lattice" includes the search.
"""

from __future__ import annotations

import string
from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks.command import command, option
from benchmarks.measure import cpu_seconds
from benchmarks.tables import head, row, show
from ninja.decoding import CtcOptions, ctc_lattice, ctc_nbest, log_probabilities
from ninja.decoding.lexicon import ctc_lexicon, spelled_by_letters
from ninja.decoding.units import ctc_units

REPEATS = 9


def rows(options: CtcOptions) -> Iterator[str]:
    """Measure; yield the rows of the table."""
    rng = np.random.default_rng(0)
    units = ctc_units([" ", *string.ascii_lowercase, "'", "-", ""], -1, boundary=" ")
    matrices = {f"spread {spread}": rng.normal(size=(1000, 30)) * spread for spread in (0.1, 0.5, 1.0, 3.0, 6.0)}
    letters = np.where(rng.random(1000) < 0.7, 29, rng.integers(0, 29, 1000))  # mostly blanks, as in trained models
    matrices["spread 1.0, one unit 8 above"] = matrices["spread 1.0"] + 8.0 * np.eye(30)[letters]
    words = {"".join(rng.choice(list(string.ascii_lowercase), rng.integers(2, 9))) for _ in range(20_000)}
    lexicon = ctc_lexicon(spelled_by_letters(sorted(words)), units)
    cases = [(name, matrix, None) for name, matrix in matrices.items()]
    cases.append(("spread 1.0, 20,000 words allowed", matrices["spread 1.0"], lexicon))
    yield from head("matrix", "search, ms", "with lattice, ms")
    for name, matrix, allowed in cases:
        logprob = log_probabilities(matrix, "logit")
        search = cpu_seconds(partial(ctc_nbest, logprob, units, allowed, options), REPEATS)
        whole = cpu_seconds(partial(ctc_lattice, logprob, units, "utt", allowed, options), REPEATS)
        yield row(name, f"{1000 * search:.1f}", f"{1000 * whole:.1f}")


@command
@option("--beam", default=CtcOptions().beam)
def main(beam: int) -> None:
    show(rows(CtcOptions(beam=beam)))
