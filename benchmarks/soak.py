"""An hour of a `ninja.Rescorer` with callers, and of one behind a folder that is watched: memory and descriptors.

    python -m benchmarks.soak [--seconds 3600] [--rate 3] [--picture docs/pictures/soak.svg]

Two processes, each with the shipped model on one thread. To one, threads submit lattices at random times; the other
rescores every file that is put into a folder, and writes the result into another. One input in a hundred is bad: NaN
costs, unknown words or a cycle, and damaged, cut or empty files. Good ones must give the words that they gave at first,
bad ones an error of Ninja's or, of damaged files, another result. At the end both get a SIGTERM, finish the lattices
and the file at hand, and end; files that still wait stay where they are.

Counted from the tenth part of the time on, the size of memory must stay within 2 % of its median, and there must be no
more descriptors at the end than at the begin: otherwise the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
MOST_ARCS = 700  # of the lattices: small ones, many of them
BAD = 0.01
WITHIN = 0.02  # of the median
SECONDS_TO_END = 300.0  # they may share the machine
CALLERS = 4
AT_THE_END = 20  # files put at once


def lattices():
    """Return the example lattices that are small, and the symbol table of all."""
    import ninja

    words = ninja.SymbolTable.read(EXAMPLES / "words.txt")
    return [each for _, each in ninja.read(EXAMPLES / "lat.ark.gz", words=words) if each.num_arcs < MOST_ARCS], words


def rescorer():
    """Return a Rescorer with the shipped model, on one thread."""
    import torch

    import ninja

    torch.set_num_threads(1)
    options = ninja.RescoreOptions(lm_weight=0.5, acoustic_scale=0.1, output="best", max_unknown=1.0)
    return ninja.Rescorer(ninja.lm.load(), options)


def warm_up(service, given):
    """Rescore all at once, then some at once, as many as chance has it.

    What grows with the lattices in flight has grown then, and oneDNN has its code for the sizes of batches.
    """
    random = np.random.default_rng(7)
    for count in [len(given)] * 3 + [1 + int(each) for each in random.geometric(0.3, size=150)]:
        chosen = random.choice(len(given), size=min(count, len(given)), replace=False)
        for future in [service.submit(given[at]) for at in chosen]:
            future.result()


def spoiled(lattice, random):
    """Return a lattice that no Rescorer can take."""
    how = random.integers(3)
    if how == 0:
        return lattice.with_costs(np.full_like(lattice.graph, np.nan))
    if how == 1:
        return lattice.replace(word=frozen(np.full_like(lattice.word, 2**31 - 1)))
    return lattice.replace(dst=frozen(np.zeros_like(lattice.dst)))


def frozen(array):
    """Return an array that is read-only from now on."""
    array.flags.writeable = False
    return array


def words_of(lattice):
    """Return the words of a lattice's best path, as a key of their own."""
    import ninja

    return " ".join(lattice.words.spell(ninja.graph.best_path(lattice).words))


def serve_callers(rate: float, stop: threading.Event) -> Counter[str]:
    """Submit lattices from several threads until told to stop; return how many of each outcome."""
    import ninja

    given, _ = lattices()
    counts: Counter[str] = Counter()
    lock = threading.Lock()
    with rescorer() as service:
        expected = [words_of(service.submit(each).result()) for each in given]
        warm_up(service, given)

        def call(number: int) -> None:
            random = np.random.default_rng(number)
            while not stop.wait(random.exponential(CALLERS / rate)):
                at = int(random.integers(len(given)))
                is_bad = random.random() < BAD
                future = service.submit(spoiled(given[at], random) if is_bad else given[at])
                try:
                    outcome = "done" if words_of(future.result()) == expected[at] else "other words"
                    outcome = "bad and not refused" if is_bad else outcome
                except ninja.NinjaError:
                    outcome = "refused" if is_bad else "good and refused"
                except Exception as error:
                    outcome = f"{type(error).__name__}: {error}"
                with lock:
                    counts[outcome] += 1

        threads = [threading.Thread(target=call, args=(number,)) for number in range(CALLERS)]
        for thread in threads:
            thread.start()
        print("ready", flush=True)
        for thread in threads:
            thread.join()
    return counts


def serve_folder(folder: Path, stop: threading.Event) -> Counter[str]:
    """Rescore the files that come into a folder, the oldest first, until told to stop; return how many."""
    import ninja

    given, words = lattices()
    counts: Counter[str] = Counter()
    with rescorer() as service:
        expected = {each.key: words_of(service.submit(each).result()) for each in given}
        warm_up(service, given)
        print("ready", flush=True)
        while not stop.is_set():
            names = sorted(os.listdir(folder / "in"))
            for name in names:
                if stop.is_set():  # to read all that waits may take longer than the sender of the signal waits
                    break
                is_bad = name.endswith(".bad.ark")
                try:
                    with ninja.write(folder / "out" / name) as output:
                        for _, lattice in ninja.read(folder / "in" / name, words=words):
                            rescored = service.submit(lattice).result()
                            if not is_bad and words_of(rescored) != expected[lattice.key]:
                                counts["other words"] += 1
                            output.write(rescored)
                    counts["damage not noticed" if is_bad else "done"] += 1
                except ninja.NinjaError:
                    counts["refused" if is_bad else "good and refused"] += 1
                except Exception as error:
                    counts[f"{type(error).__name__}: {error}"] += 1
                os.unlink(folder / "in" / name)
            if not names:
                time.sleep(0.1)  # not `stop.wait`, whose lock the signal's handler needs in this very thread
    return counts


def serve(what: str, rate: float, folder: Path) -> None:
    """Be one of the two processes: serve until SIGTERM, then print what was done."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
    counts = serve_callers(rate, stop) if what == "callers" else serve_folder(folder, stop)
    print(json.dumps(counts), flush=True)


def feed(folder: Path, rate: float, until: float) -> int:
    """Put files into the watched folder at random times, and take results away; return how many were put."""
    import ninja

    given, _ = lattices()
    whole = []
    for number, lattice in enumerate(given):
        with ninja.write(folder / f"{number}.ark") as output:
            output.write(lattice)
        whole.append((folder / f"{number}.ark").read_bytes())
    random = np.random.default_rng(99)
    put = left = 0
    while (rest := until - time.monotonic()) > 0 or left < AT_THE_END:
        left += rest <= 0  # SIGTERM is to find the other at work
        time.sleep(max(0.0, min(random.exponential(1 / rate), rest)))
        content = bytearray(whole[random.integers(len(whole))])
        is_bad = random.random() < BAD
        if is_bad:
            how = random.integers(3)
            if how == 0:
                content = content[: random.integers(len(content))]
            elif how == 1:
                content = bytearray()
            else:
                for at in random.integers(len(content), size=20):
                    content[at] = random.integers(256)
        name = f"{put:08}{'.bad' if is_bad else ''}.ark"
        (folder / name).write_bytes(content)
        os.rename(folder / name, folder / "in" / name)
        put += 1
        for done in (folder / "out").glob("*.ark"):  # whole, or not under this name
            if not done.name.endswith(".bad.ark"):
                assert sum(1 for _ in ninja.read(done)) == 1, done
            done.unlink()
    return put


def measured(process: int) -> tuple[float, int, int]:
    """Return the anonymous memory of a process in MB, its descriptors, and its threads."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
    return (
        int(status["RssAnon"].split()[0]) / 1024,
        len(os.listdir(f"/proc/{process}/fd")),
        int(status["Threads"]),
    )


def draw(samples: dict[str, list[tuple[float, float, int, int]]], path: Path) -> None:
    """Draw memory and descriptors of both processes against minutes."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "soak"
    from matplotlib import pyplot

    figure, (memory, files) = pyplot.subplots(2, 1, figsize=(7, 5), sharex=True, height_ratios=(2, 1))
    for name, rows in samples.items():
        minutes = [row[0] / 60 for row in rows]
        memory.plot(minutes, [row[1] for row in rows], label=name, linewidth=1)
        files.plot(minutes, [row[2] for row in rows], label=name, linewidth=1)
    memory.set_ylabel("anonymous memory, MB")
    files.set_ylabel("descriptors")
    files.set_xlabel("minutes")
    for axes in (memory, files):
        axes.set_ylim(bottom=0)
    memory.legend(loc="lower right")
    figure.savefig(path, metadata={"Date": None}, bbox_inches="tight")


def judge(name: str, rows: Sequence[tuple[float, float, int, int]]) -> bool:
    """Print how memory and descriptors went, and return whether both stayed."""
    late = [row for row in rows if row[0] >= rows[-1][0] / 10]
    middle = statistics.median(row[1] for row in late)
    least, most = min(row[1] for row in late), max(row[1] for row in late)
    tenth = max(1, len(late) // 10)
    before, after = (statistics.median(row[1] for row in part) for part in (late[:tenth], late[-tenth:]))
    files = [max(row[2] for row in part) for part in (late[:tenth], late[-tenth:])]
    print(
        f"{name}: memory {middle:.1f} MB, {least / middle - 1:+.2%} to {most / middle - 1:+.2%}; its last tenth "
        f"{after / before - 1:+.2%} of its first; descriptors {files[0]} to {files[1]}; threads at most "
        f"{max(row[3] for row in late)}"
    )
    return most <= (1 + WITHIN) * middle and least >= (1 - WITHIN) * middle and files[1] <= files[0]


def main() -> int:
    """Start both processes, feed and measure them, and end them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--rate", type=float, default=3.0, help="lattices, and files, a second")
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--serve", choices=("callers", "folder"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve, given.rate, given.folder)
        return 0
    folder = Path(tempfile.mkdtemp(prefix="soak"))
    for name in ("in", "out"):
        (folder / name).mkdir()
    processes, samples, answers = {}, {}, []
    for what in ("callers", "folder"):
        command = [sys.executable, "-m", "benchmarks.soak", "--serve", what, f"--rate={given.rate}"]
        processes[what] = subprocess.Popen([*command, f"--folder={folder}"], stdout=subprocess.PIPE, text=True)
        samples[what] = []
    for process in processes.values():
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    begin = time.monotonic()
    feeder = threading.Thread(target=lambda: answers.append(feed(folder, given.rate, begin + given.seconds)))
    feeder.start()
    while feeder.is_alive():
        feeder.join(given.seconds / 720)
        for what, process in processes.items():
            if process.poll() is None:
                samples[what].append((time.monotonic() - begin, *measured(process.pid)))
    held = len(answers) == 1
    for what, process in processes.items():
        held &= process.poll() is None
        process.send_signal(signal.SIGTERM)
        told = time.monotonic()
        try:
            counts = json.loads(process.communicate(timeout=SECONDS_TO_END)[0] or "{}")
        except subprocess.TimeoutExpired:
            process.kill()
            counts = {"not ended by SIGTERM": 1}
        print(f"{what}: {counts}; ended {time.monotonic() - told:.1f} s after SIGTERM, exit code {process.returncode}")
        held &= set(counts) <= {"done", "refused", "damage not noticed"} and process.returncode == 0
        held &= judge(what, samples[what])
        if what == "folder":
            waiting = len(list((folder / "in").iterdir()))
            print(f"files put: {sum(answers)}, of which {waiting} still wait")
            held &= sum(counts.values()) + waiting == sum(answers)
            held &= not any(each.suffix != ".ark" for each in (folder / "out").iterdir())  # none in part
    if given.picture is not None:
        draw(samples, given.picture)
    shutil.rmtree(folder)
    return not held


if __name__ == "__main__":
    sys.exit(main())
