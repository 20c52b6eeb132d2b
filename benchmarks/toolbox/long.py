"""Measure commands on recordings of increasing length: CPU seconds and memory against size, and their growth.

    python -m benchmarks.toolbox long ../shared/data/korean [--output docs/long.md] [--picture docs/pictures/long.svg]

A recording is one lattice, the concatenation of the lattices of an archive. DATA holds lat.ark.gz, text, words.txt.gz
and trans.mdl. Each command runs on one core, with start-up, reading and writing. Growth is the exponent of the time
between the two longest recordings, less the time for a single utterance: 1 is linear, 2 quadratic.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from benchmarks.command import argument, command, option, output, picture
from benchmarks.measure import Usage, ninja, run, scratch_folder, use_one_core
from benchmarks.tables import head, put, row, show, svg
from benchmarks.toolbox.recording import KEY, Size, write_lexicon, write_matrix, write_recordings

NAMED = ("best", "mbr-decode", "oracle", "align-words", "rescore", "score")  # in the picture
MODEL = "--model=DATA/trans.mdl"
WITHOUT_WORDS = ("linear-to-nbest", "align-text", "compute-wer", "compute-wer-bootci", "ctc-decode")
WITHOUT_OUTPUT = ("equivalent", "info", "score", "compute-wer", "compute-wer-bootci")
# Arguments of each command. LAT is the recording in the folder FILES; DATA is the folder of the archive.
COMMANDS = {
    "copy": "LAT",
    "info": "LAT",
    "convert --to slf": "LAT",
    "convert --to openfst": "LAT",
    "to-fst": "LAT",
    "prune": "LAT --beam=4",
    "scale": "LAT --acoustic-scale=0.5",
    "add-penalty": "LAT --word-ins-penalty=0.5",
    "best": "LAT",
    "best-path": "LAT",
    "1best": "LAT",
    "nbest": "LAT --n=100",
    "to-nbest": "LAT --n=100",
    "confidence": "LAT",
    "mbr-decode": "LAT",
    "to-ctm-conf": "LAT",
    "oracle": "LAT --ref=FILES/text",
    "score": "FILES/text LAT",
    "posteriors": "LAT",
    "arc-post": "LAT",
    "depth": "LAT",
    "depth-per-frame": "LAT",
    "to-post": "LAT",
    "to-mpe-post": f"LAT {MODEL} --ali=FILES/ali",
    "to-smbr-post": f"LAT {MODEL} --ali=FILES/ali",
    "boost-ali": f"LAT {MODEL} --ali=FILES/ali",
    "limit-depth": "LAT --max-arcs-per-frame=5",
    "determinize-pruned": "LAT --beam=4",
    "determinize-phone-pruned": f"LAT {MODEL} --beam=4",
    "determinize": "LAT --max-mem=0",
    "minimize": "LAT",
    "push": "LAT",
    "reverse": "LAT",
    "topsort": "LAT",
    "project": "LAT",
    "rmali": "LAT",
    "add-trans-probs": f"LAT {MODEL}",
    "expand-ngram": "LAT --n=2",
    "align-words": f"LAT {MODEL} --word-boundary=DATA/word_boundary.int",
    "align-words-lexicon": f"LAT {MODEL} --lexicon=FILES/lexicon",
    "align-phones": f"LAT {MODEL}",
    "to-phone-lattice": f"LAT {MODEL}",
    "split": "LAT --nj=1",
    "merge": "LAT",
    "union": "LAT LAT",
    "combine": "LAT LAT",
    "interp": "LAT LAT",
    "equivalent": "LAT LAT",
    "difference": "LAT --ref=FILES/best",
    "compose": "LAT ark:FILES/best.ark",
    "lmrescore": "LAT --lm=FILES/lm.arpa --oov-score=-10",
    "rescore": "LAT --rnnlm=FILES/lm.arpa --oov-score=-10 --max-unknown=1",
    "context": "LAT --entities=FILES/phrases",
    "copy-backoff": "LAT LAT",
    "tune": "LAT --ref=FILES/text --rnnlm=FILES/lm.arpa --oov-score=-10 --max-unknown=1",
    "nbest-to-lattice": "FILES/nbest.ark",
    "nbest-to-linear": "FILES/best.ark",
    "nbest-to-ctm": "FILES/best.ark",
    "nbest-to-prons": f"FILES/aligned.ark {MODEL}",
    "linear-to-nbest": "FILES/ali --transcriptions=FILES/ids",
    "string-to-lattice": "FILES/best",
    "align-text": "FILES/text FILES/best",
    "compute-wer": "FILES/text FILES/best",
    "compute-wer-bootci": "FILES/text FILES/best",
    "ctc-decode": f"FILES/{KEY}.npy --tokens=FILES/tokens --scale=logit",
    "report": "LAT LAT --ref=FILES/text",
    "show": "LAT",
}


def run_limited(arguments: Sequence[str], limit: float) -> Usage | None:
    """Run ``ninja``; return None if it used more CPU seconds than the limit. Failures are printed."""
    try:
        return run(["prlimit", f"--cpu={limit:.0f}", *ninja(*arguments)])
    except subprocess.CalledProcessError as error:
        if error.returncode != -signal.SIGXCPU:
            print(f"ninja {' '.join(arguments)}: {error.stderr}", file=sys.stderr)
        return None


def prepare(folder: Path, data: Path) -> None:
    """Write the other inputs of commands on the recording in a folder."""
    run(ninja("train", "ngram", folder / "sentences", "--order=2", "-o", folder / "lm.arpa"))
    run(ninja("best-path", folder / "lat.ark", "-o", os.devnull, f"--alignments={folder}/ali"))
    for source, aligned in ("lat.ark", "words.ark"), ("best.ark", "aligned.ark"):
        models = [f"--model={data}/trans.mdl", f"--word-boundary={data}/word_boundary.int"]
        run(ninja("align-words", folder / source, *models, "-o", folder / aligned))


def arguments_of(command: str, data: Path, folder: Path) -> list[str]:
    """Return the command line of a command on the recording in a folder."""
    inputs = COMMANDS[command].replace("LAT", "FILES/lat.ark").replace("FILES", str(folder)).replace("DATA", str(data))
    words = [] if command in WITHOUT_WORDS else ["--words", str(folder / "words.txt")]
    ending = {"slf": ".slf", "openfst": ".fst", "split": ".JOB"}.get(command.rpartition(" ")[2], "")
    output = [] if command in WITHOUT_OUTPUT else ["-o", str(folder / f"out{ending}")]
    return [*command.split(), *inputs.split(), *words, *output]


def seconds_of(runs: Sequence[Usage | None]) -> list[float]:
    """Return the CPU seconds of runs, infinite where one was ended."""
    return [math.inf if usage is None else usage.cpu for usage in runs]


def measured_row(name: str, runs: Sequence[Usage | None], sizes: Sequence[Size], limit: float) -> str:
    """Return a row of the table: the times on an utterance and on ever longer recordings."""
    start, *seconds = seconds_of(runs)
    cells = (f"> {limit:.0f}" if second == math.inf else f"{second:.2f}" for second in seconds)
    last, before = seconds[-1] - start, seconds[-2] - start
    growth = "–"
    if before > 0.1 and last < math.inf:
        growth = f"{math.log(last / before) / math.log(sizes[-1].minutes / sizes[-2].minutes):.1f}"
    return row(name, f"{start:.2f}", *cells, growth, "" if runs[-1] is None else f"{runs[-1].megabytes:.0f}")


def draw(runs_of: dict[str, list[Usage | None]], sizes: Sequence[Size], path: Path) -> None:
    """Draw seconds against minutes of speech, with labels for some commands; the others are grey."""
    with svg(path, figsize=(7, 4.5)) as axes:
        minutes = [size.minutes for size in sizes]
        for name, runs in runs_of.items():
            style = {"label": name, "marker": "o"} if name in NAMED else {"color": "0.8", "linewidth": 0.8, "zorder": 0}
            axes.plot(minutes[1:], seconds_of(runs)[1:], **style)
        axes.set_xlabel("minutes of speech in one lattice")
        axes.set_ylabel("CPU seconds of the whole command")
        axes.set_ylim(bottom=0)
        axes.legend()


@command
@argument("data")
@option("--frame-shift", default=0.03, help="Seconds of a label.")
@option("--doublings", default=2, help="Recordings besides the longest, each half the next.")
@option("--limit", default=120.0, help="CPU seconds after which a command is ended.")
@option("--only", multiple=True, help="Command to measure; may be repeated.")
@picture
@output
def main(data: Path, frame_shift: float, doublings: int, limit: float, only: tuple[str, ...],
         picture: Path | None, output: Path | None) -> None:  # fmt: skip
    use_one_core()
    runs_of: dict[str, list[Usage | None]] = {}
    with scratch_folder() as scratch:
        # Written by another process: the size of this one would count as that of the commands that it starts.
        with ProcessPoolExecutor(1, get_context("spawn")) as executor:
            sizes = executor.submit(write_recordings, data, doublings, frame_shift, Path(scratch)).result()
            folders = [Path(scratch) / str(at) for at in range(len(sizes))]
            for folder, size in zip(folders, sizes, strict=True):
                prepare(folder, data)
                executor.submit(write_lexicon, folder, data / "trans.mdl").result()
                executor.submit(write_matrix, folder, size.minutes).result()

        def table() -> Iterator[str]:
            yield from head("command", *sizes, "growth", "MB")
            for name in only or COMMANDS:
                runs_of[name] = [run_limited(arguments_of(name, data, folder), limit) for folder in folders]
                yield measured_row(name, runs_of[name], sizes, limit)

        lines = show(table())
    if picture is not None:
        draw(runs_of, sizes, picture)
    put(output, "long", lines)
