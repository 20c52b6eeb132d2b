"""How fast CTC matrices become lattices: CPU time of this process for each utterance of 1000 frames and 30 letters.

    python -m benchmarks.bench_ctc [--beam 100]

Matrices are random, from flat to peaky; most are harder than those of a trained model, because at each frame many
letters are likely. "With lattice" is everything from the matrix on. For the matrix of a real model, give
--logits FILE.json and --units "abc…", in which the blank comes last.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's threads spin while they wait, and would be counted

import argparse
import json
import statistics
import string
import time

import numpy as np

from ninja.decoding import CtcOptions, ctc_lattice, ctc_nbest, log_probabilities
from ninja.decoding.lexicon import ctc_lexicon, spelled_by_letters
from ninja.decoding.units import ctc_units

REPEATS = int(os.environ.get("NINJA_BENCH_REPEATS", "9"))


def milliseconds(work):
    times = []
    for _ in range(REPEATS):
        begin = time.process_time()
        work()
        times.append(1e3 * (time.process_time() - begin))
    return statistics.median(times)


def measured(name, logprob, units, options, lexicon=None):
    search = milliseconds(lambda: ctc_nbest(logprob, units, lexicon, options))
    whole = milliseconds(lambda: ctc_lattice(logprob, units, "utt", lexicon, options))
    print(f"{name:36s} {logprob.shape[0]:5d} x {logprob.shape[1]:3d}  {search:6.1f} ms  with lattice {whole:6.1f} ms")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--beam", type=int, default=100)
    parser.add_argument("--logits")
    parser.add_argument("--units", default=" " + string.ascii_lowercase + "'")
    given = parser.parse_args()
    options = CtcOptions(beam=given.beam)
    rng = np.random.default_rng(0)
    letters = ctc_units([" ", *string.ascii_lowercase, "'", "-", ""], -1, boundary=" ")
    drawn = {f"spread {spread}": rng.normal(size=(1000, 30)) * spread for spread in (0.1, 0.5, 1.0, 3.0, 6.0)}
    said = np.where(rng.random(1000) < 0.7, 29, rng.integers(0, 29, 1000))  # mostly blanks, as models are trained to be
    drawn["spread 1.0, one unit 8 above"] = drawn["spread 1.0"] + 8.0 * np.eye(30)[said]
    for name, values in drawn.items():
        measured(name, log_probabilities(values, "logit"), letters, options)
    words = {"".join(rng.choice(list(string.ascii_lowercase), rng.integers(2, 9))) for _ in range(20_000)}
    lexicon = ctc_lexicon(spelled_by_letters(sorted(words)), letters)
    measured(
        "spread 1.0, 20,000 words allowed", log_probabilities(drawn["spread 1.0"], "logit"), letters, options, lexicon
    )
    if given.logits:
        with open(given.logits) as file:
            logprob = log_probabilities(json.load(file), "logit")
        measured("the given matrix", logprob, ctc_units([*given.units, ""], -1, boundary=" "), options)


if __name__ == "__main__":
    main()
