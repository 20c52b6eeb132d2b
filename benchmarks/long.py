"""Commands on recordings of growing length: CPU seconds and memory against size, and how fast they grow.

    python -m benchmarks.long ../shared/data/korean [--output docs/long.md] [--picture docs/pictures/long.svg]

A recording is made of the lattices of an archive, one after the other in one lattice. Every command runs on one core,
with start-up, reading and writing. Growth is the exponent of the time between the two longest recordings, less what the
command takes for a single utterance: 1 is linear, 2 the square.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from benchmarks import page
from benchmarks.recordings import KEY, Size, write_lexicon, write_matrix, write_recordings

NAMED = ("best", "mbr-decode", "oracle", "align-words", "rescore", "score")  # in the picture
MODEL = "--model=DATA/trans.mdl"
WITHOUT_WORDS = ("linear-to-nbest", "align-text", "compute-wer", "compute-wer-bootci", "ctc-decode")
WITHOUT_OUTPUT = ("equivalent", "info", "score", "compute-wer", "compute-wer-bootci")
# Their arguments. LAT is the recording, in FILES with what is made of it; DATA is the folder of the data.
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


def run(arguments: Sequence[str], limit: float | None = None) -> tuple[float, float] | None:
    """Run ``ninja`` in a process of its own; return CPU seconds and largest size in MB, None beyond the limit."""
    command = [sys.executable, "-m", "ninja", *arguments]
    prefix = [] if limit is None else ["prlimit", f"--cpu={limit:.0f}"]
    # An installed command has its modules' bytecode; here the first of several runs leaves it.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen([*prefix, *command], stdout=subprocess.DEVNULL, stderr=said, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode == -signal.SIGXCPU:
            return None
        if process.returncode != 0:
            said.seek(0)
            print(f"ninja {' '.join(arguments)}: {said.read().decode()[-800:]}", file=sys.stderr)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def prepare(folder: Path, data: Path) -> None:
    """Make what commands take beside a recording, by commands."""
    run(["train", "ngram", f"{folder}/sentences", "--order=2", "-o", f"{folder}/lm.arpa"])
    run(["best-path", f"{folder}/lat.ark", "-o", os.devnull, f"--alignments={folder}/ali"])
    for source, aligned in ("lat.ark", "words.ark"), ("best.ark", "aligned.ark"):
        models = [f"--model={data}/trans.mdl", f"--word-boundary={data}/word_boundary.int"]
        run(["align-words", f"{folder}/{source}", *models, "-o", f"{folder}/{aligned}"])


def arguments_of(command: str, data: Path, folder: Path) -> list[str]:
    """Return what to type for a command on the recording in a folder."""
    given = COMMANDS[command].replace("LAT", "FILES/lat.ark").replace("FILES", str(folder)).replace("DATA", str(data))
    words = [] if command in WITHOUT_WORDS else ["--words", str(folder / "words.txt")]
    ending = {"slf": ".slf", "openfst": ".fst", "split": ".JOB"}.get(command.rpartition(" ")[2], "")
    output = [] if command in WITHOUT_OUTPUT else ["-o", str(folder / f"out{ending}")]
    return [*command.split(), *given.split(), *words, *output]


def row(name: str, runs: Sequence[tuple[float, float] | None], sizes: Sequence[Size], limit: float) -> str:
    """Return a line of the table: what a command took on an utterance and on ever longer recordings."""
    start, *seconds = seconds_of(runs)
    shown = " | ".join(f"> {limit:.0f}" if each == math.inf else f"{each:.2f}" for each in seconds)
    last, before = seconds[-1] - start, seconds[-2] - start
    growth = "–"
    if before > 0.1 and last < math.inf:
        growth = f"{math.log(last / before) / math.log(sizes[-1].minutes / sizes[-2].minutes):.1f}"
    megabytes = "" if runs[-1] is None else f"{runs[-1][1]:.0f}"
    return f"| {name} | {start:.2f} | {shown} | {growth} | {megabytes} |"


def seconds_of(runs: Sequence[tuple[float, float] | None]) -> list[float]:
    """Return the CPU seconds of runs, infinite where one was ended."""
    return [math.inf if each is None else each[0] for each in runs]


def draw(measured: dict[str, Sequence[tuple[float, float] | None]], sizes: Sequence[Size], path: Path) -> None:
    """Draw seconds against minutes of speech, some commands by name and the others grey."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "long"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.5))
    minutes = [size.minutes for size in sizes]
    for name, runs in measured.items():
        style = {"label": name, "marker": "o"} if name in NAMED else {"color": "0.8", "linewidth": 0.8, "zorder": 0}
        axes.plot(minutes[1:], seconds_of(runs)[1:], **style)
    axes.set_xlabel("minutes of speech in one lattice")
    axes.set_ylabel("CPU seconds of the whole command")
    axes.set_ylim(bottom=0)
    axes.legend()
    figure.savefig(path, metadata={"Date": None}, bbox_inches="tight")


def main() -> None:
    """Print a line for each command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of lat.ark.gz, text, words.txt.gz, trans.mdl, …")
    parser.add_argument("--frame-shift", type=float, default=0.03, help="seconds of a label")
    parser.add_argument("--doublings", type=int, default=2, help="recordings besides the longest, each half the next")
    parser.add_argument("--limit", type=float, default=120.0, help="CPU seconds after which a command is ended")
    parser.add_argument("--only", nargs="+", default=list(COMMANDS))
    parser.add_argument("--picture", type=Path, help="file for a picture of it")
    parser.add_argument("--output", type=Path, help="page that the table takes its place in")
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # commands inherit it
    with tempfile.TemporaryDirectory(dir="/dev/shm") as scratch:
        # Made in another process: the size of this one would count as that of the commands it starts.
        with ProcessPoolExecutor(1, get_context("spawn")) as other:
            asked = options.data, options.doublings, options.frame_shift, Path(scratch)
            sizes = other.submit(write_recordings, *asked).result()
            folders = [Path(scratch) / str(at) for at in range(len(sizes))]
            for folder, size in zip(folders, sizes, strict=True):
                prepare(folder, options.data)
                other.submit(write_lexicon, folder, options.data / "trans.mdl").result()
                other.submit(write_matrix, folder, size.minutes).result()
        lines = [f"| command | {' | '.join(map(str, sizes))} | growth | MB |", "|---" * (len(sizes) + 3) + "|"]
        print("\n".join(lines), flush=True)
        measured = {}
        for name in options.only:
            measured[name] = [run(arguments_of(name, options.data, folder), options.limit) for folder in folders]
            lines.append(row(name, measured[name], sizes, options.limit))
            print(lines[-1], flush=True)
    if options.picture is not None:
        draw(measured, sizes, options.picture)
    if options.output is not None:
        page.put(options.output, "long", lines)


if __name__ == "__main__":
    main()
