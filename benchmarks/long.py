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

from benchmarks.recordings import Size, write_recordings

MARKS = "<!-- long: begin -->", "<!-- long: end -->"
MODEL = "--model=DATA/trans.mdl"
# Arguments behind the recording. DATA is the folder of the data; FILES has what is made of each recording.
COMMANDS = {
    "copy": "",
    "info": "",
    "convert --to slf": "",
    "convert --to openfst": "",
    "to-fst": "",
    "prune": "--beam=4",
    "scale": "--acoustic-scale=0.5",
    "add-penalty": "--word-ins-penalty=0.5",
    "best": "",
    "best-path": "",
    "1best": "",
    "nbest": "--n=100",
    "to-nbest": "--n=100",
    "confidence": "",
    "mbr-decode": "",
    "to-ctm-conf": "",
    "oracle": "--ref=FILES/text",
    "score": "",
    "posteriors": "",
    "arc-post": "",
    "depth": "",
    "depth-per-frame": "",
    "to-post": "",
    "to-mpe-post": f"{MODEL} --ali=FILES/ali",
    "to-smbr-post": f"{MODEL} --ali=FILES/ali",
    "boost-ali": f"{MODEL} --ali=FILES/ali",
    "limit-depth": "--max-arcs-per-frame=5",
    "determinize-pruned": "--beam=4",
    "determinize-phone-pruned": f"{MODEL} --beam=4",
    "determinize": "--max-mem=0",
    "minimize": "",
    "push": "",
    "reverse": "",
    "topsort": "",
    "project": "",
    "rmali": "",
    "add-trans-probs": f"{MODEL}",
    "expand-ngram": "--n=2",
    "align-words": f"{MODEL} --word-boundary=DATA/word_boundary.int",
    "align-phones": f"{MODEL}",
    "to-phone-lattice": f"{MODEL}",
    "union": "FILES/lat.ark",
    "combine": "FILES/lat.ark",
    "interp": "FILES/lat.ark",
    "equivalent": "FILES/lat.ark",
    "difference": "--ref=FILES/best",
    "compose": "ark:FILES/best.ark",
    "lmrescore": "--lm=FILES/lm.arpa --oov-score=-10",
    "rescore": "--rnnlm=FILES/lm.arpa --oov-score=-10 --max-unknown=1",
    "context": "--entities=FILES/phrases",
    "show": "",
}


def run(arguments: Sequence[str], limit: float | None = None) -> tuple[float, float] | None:
    """Run ``ninja`` in a process of its own; return CPU seconds and largest size in MB, None beyond the limit."""
    command = [sys.executable, "-m", "ninja", *arguments]
    prefix = [] if limit is None else ["prlimit", f"--cpu={limit:.0f}"]
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen([*prefix, *command], stdout=subprocess.DEVNULL, stderr=said)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode == -signal.SIGXCPU:
            return None
        if process.returncode != 0:
            said.seek(0)
            print(f"ninja {' '.join(arguments)}: {said.read().decode()[-800:]}", file=sys.stderr)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def arguments_of(command: str, data: Path, folder: Path) -> list[str]:
    """Return what to type for a command on the recording in a folder."""
    behind = COMMANDS[command].replace("DATA", str(data)).replace("FILES", str(folder)).split()
    before = [str(folder / "text")] if command == "score" else []
    words = ["--words", str(folder / "words.txt")]
    ending = {"slf": ".slf", "openfst": ".fst"}.get(command.rpartition(" ")[2], "")
    output = [] if command in ("equivalent", "info", "score") else ["-o", str(folder / f"out{ending}")]
    return [*command.split(), *before, str(folder / "lat.ark"), *behind, *words, *output]


def line(name: str, data: Path, sizes: Sequence[Size], folders: Sequence[Path], limit: float) -> str:
    """Measure a command; return its line of the table."""
    runs = [run(arguments_of(name, data, folder), limit) for folder in folders]
    start, *seconds = [math.inf if each is None else each[0] for each in runs]
    shown = " | ".join(f"> {limit:.0f}" if each == math.inf else f"{each:.2f}" for each in seconds)
    last, before = seconds[-1] - start, seconds[-2] - start
    growth = "–"
    if before > 0.04 and last < math.inf:
        growth = f"{math.log(last / before) / math.log(sizes[-1].minutes / sizes[-2].minutes):.1f}"
    megabytes = "" if runs[-1] is None else f"{runs[-1][1]:.0f}"
    return f"| {name} | {start:.2f} | {shown} | {growth} | {megabytes} |"


def main() -> None:
    """Print a line for each command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of lat.ark.gz, text, words.txt.gz, trans.mdl, …")
    parser.add_argument("--frame-shift", type=float, default=0.03, help="seconds of a label")
    parser.add_argument("--doublings", type=int, default=4, help="recordings besides the longest, each half the next")
    parser.add_argument("--limit", type=float, default=120.0, help="CPU seconds after which a command is ended")
    parser.add_argument("--only", nargs="+", default=list(COMMANDS))
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
        for folder in folders:
            run(["train", "ngram", str(folder / "sentences"), "--order=2", "-o", str(folder / "lm.arpa")])
            run(["best-path", str(folder / "lat.ark"), "-o", os.devnull, f"--alignments={folder / 'ali'}"])
        lines = [f"| command | {' | '.join(map(str, sizes))} | growth | MB |", "|---" * (len(sizes) + 3) + "|"]
        print("\n".join(lines), flush=True)
        for name in options.only:
            lines.append(line(name, options.data, sizes, folders, options.limit))
            print(lines[-1], flush=True)
    if options.output is not None:
        before, begin, rest = options.output.read_text(encoding="utf-8").partition(MARKS[0])
        _, end, after = rest.partition(MARKS[1])
        if not (begin and end):
            sys.exit(f"{options.output} has no marks {MARKS[0]} and {MARKS[1]}")
        options.output.write_text("\n".join([before + begin, "", *lines, "", end + after]), encoding="utf-8")


if __name__ == "__main__":
    main()
