"""An hour of a `ninja.Rescorer` with callers, and of one behind a folder that is watched: memory and descriptors.

    python -m benchmarks.stress soak [--seconds 3600] [--rate 3] [--picture docs/pictures/soak.svg]

Two processes, each with the shipped model on one thread. Threads submit lattices to the first at random times; the
second rescores each file that appears in a folder, and writes the result into another. One input in a hundred is bad:
NaN costs, unknown words or a cycle, and damaged, truncated or empty files. Good inputs must give the same words as at
the start, bad ones a NinjaError or, for damaged files, another result. At the end both receive SIGTERM, finish the
lattices in flight and the current file, and exit; waiting files stay where they are.

After the first tenth of the time memory must stay within 2% of its median, and there must be no more descriptors at
the end than at the beginning: otherwise the exit code is 1.
"""

from __future__ import annotations

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

import click
import numpy as np

from benchmarks.command import EXAMPLES, PATH, command, option, picture
from benchmarks.tables import svg
from ninja.lattice.lattice import frozen

MOST_ARCS = 700  # of the lattices: small ones, many of them
BAD = 0.01
WITHIN = 0.02  # of the median
SECONDS_TO_END = 300.0  # they may share the machine
CALLERS = 4
AT_THE_END = 20  # files that are put at once


def lattices():
    """Return the small example lattices, and the symbol table."""
    import ninja

    words = ninja.SymbolTable.read(EXAMPLES / "words.txt")
    every = ninja.read(EXAMPLES / "lat.ark.gz", words=words)
    return [lattice for _, lattice in every if lattice.num_arcs < MOST_ARCS], words


def rescorer():
    """Return a Rescorer with the shipped model, on one thread."""
    import torch

    import ninja

    torch.set_num_threads(1)
    options = ninja.RescoreOptions(lm_weight=0.5, acoustic_scale=0.1, output="best", max_unknown=1.0)
    return ninja.Rescorer(ninja.lm.load(), options)


def warm_up(service, examples):
    """Rescore all lattices at once, then random numbers of them.

    Afterwards buffers have their final size, and oneDNN has compiled its code for the sizes of batches.
    """
    random = np.random.default_rng(7)
    for count in [len(examples)] * 3 + (1 + random.geometric(0.3, size=150)).tolist():
        sample = random.choice(len(examples), size=min(count, len(examples)), replace=False)
        for future in [service.submit(examples[place]) for place in sample]:
            future.result()


def spoil(lattice, random):
    """Return an invalid lattice."""
    kind = random.integers(3)
    if kind == 0:
        return lattice.with_costs(np.full_like(lattice.graph, np.nan))
    if kind == 1:
        return lattice.replace(word=frozen(np.full_like(lattice.word, 2**31 - 1)))
    return lattice.replace(dst=frozen(np.zeros_like(lattice.dst)))


def words_of(lattice):
    """Return the words of a lattice's best path, as one string."""
    import ninja

    return " ".join(lattice.words.spell(ninja.graph.best_path(lattice).words))


def serve_callers(rate: float, stop: threading.Event) -> Counter[str]:
    """Submit lattices from several threads until stopped; return the number of each outcome."""
    import ninja

    examples, _ = lattices()
    counts: Counter[str] = Counter()
    lock = threading.Lock()
    with rescorer() as service:
        expected = [words_of(service.submit(lattice).result()) for lattice in examples]
        warm_up(service, examples)

        def call(number: int) -> None:
            random = np.random.default_rng(number)
            while not stop.wait(random.exponential(CALLERS / rate)):
                place = int(random.integers(len(examples)))
                is_bad = random.random() < BAD
                future = service.submit(spoil(examples[place], random) if is_bad else examples[place])
                try:
                    outcome = "done" if words_of(future.result()) == expected[place] else "other words"
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
    """Rescore the files that appear in a folder, the oldest first, until stopped; return the number of each outcome."""
    import ninja

    examples, words = lattices()
    counts: Counter[str] = Counter()
    with rescorer() as service:
        expected = {lattice.key: words_of(service.submit(lattice).result()) for lattice in examples}
        warm_up(service, examples)
        print("ready", flush=True)
        while not stop.is_set():
            names = sorted(os.listdir(folder / "in"))
            for name in names:
                if stop.is_set():  # the waiting files may take longer than the sender of the signal waits
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


def serve(name: str, rate: float, folder: Path) -> None:
    """Entry point of the two processes: serve until SIGTERM, then print the outcomes."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
    counts = serve_callers(rate, stop) if name == "callers" else serve_folder(folder, stop)
    print(json.dumps(counts), flush=True)


def feed(folder: Path, rate: float, until: float) -> int:
    """Put files into the watched folder at random times, and remove results; return the number of files."""
    import ninja

    examples, _ = lattices()
    whole = []
    for number, lattice in enumerate(examples):
        with ninja.write(folder / f"{number}.ark") as output:
            output.write(lattice)
        whole.append((folder / f"{number}.ark").read_bytes())
    random = np.random.default_rng(99)
    num_files = late = 0
    while (remaining := until - time.monotonic()) > 0 or late < AT_THE_END:
        late += remaining <= 0  # so that the other process is busy when it receives SIGTERM
        time.sleep(max(0.0, min(random.exponential(1 / rate), remaining)))
        content = bytearray(whole[random.integers(len(whole))])
        is_bad = random.random() < BAD
        if is_bad:
            kind = random.integers(3)
            if kind == 0:
                content = content[: random.integers(len(content))]
            elif kind == 1:
                content = bytearray()
            else:
                for place in random.integers(len(content), size=20):
                    content[place] = random.integers(256)
        name = f"{num_files:08}{'.bad' if is_bad else ''}.ark"
        (folder / name).write_bytes(content)
        os.rename(folder / name, folder / "in" / name)
        num_files += 1
        for result in (folder / "out").glob("*.ark"):  # a file of this name is complete
            if not result.name.endswith(".bad.ark"):
                assert sum(1 for _ in ninja.read(result)) == 1, result
            result.unlink()
    return num_files


def measure(process: int) -> tuple[float, int, int]:
    """Return the anonymous memory of a process in MB, its descriptors and its threads."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
    return (
        int(status["RssAnon"].split()[0]) / 1024,
        len(os.listdir(f"/proc/{process}/fd")),
        int(status["Threads"]),
    )


def draw(samples: dict[str, list[tuple[float, float, int, int]]], path: Path) -> None:
    """Draw memory and descriptors of both processes against minutes."""
    with svg(path, nrows=2, ncols=1, figsize=(7, 5), sharex=True, height_ratios=(2, 1)) as (memory, files):
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


def judge(name: str, rows: Sequence[tuple[float, float, int, int]]) -> bool:
    """Print the course of memory and descriptors; return whether both stayed within their bounds."""
    late = [row for row in rows if row[0] >= rows[-1][0] / 10]
    middle = statistics.median(row[1] for row in late)
    smallest, largest = min(row[1] for row in late), max(row[1] for row in late)
    tenth = max(1, len(late) // 10)
    before, after = (statistics.median(row[1] for row in part) for part in (late[:tenth], late[-tenth:]))
    files = [max(row[2] for row in part) for part in (late[:tenth], late[-tenth:])]
    print(
        f"{name}: memory {middle:.1f} MB, {smallest / middle - 1:+.2%} to {largest / middle - 1:+.2%}; its last tenth "
        f"{after / before - 1:+.2%} of its first; descriptors {files[0]} to {files[1]}; threads at most "
        f"{max(row[3] for row in late)}"
    )
    return largest <= (1 + WITHIN) * middle and smallest >= (1 - WITHIN) * middle and files[1] <= files[0]


@command
@option("--seconds", default=3600.0)
@option("--rate", default=3.0, help="Lattices, and files, a second.")
@option("--serve", "server", type=click.Choice(["callers", "folder"]), hidden=True)
@option("--folder", type=PATH, hidden=True)
@picture
def main(seconds: float, rate: float, server: str | None, folder: Path | None, picture: Path | None) -> None:
    if server is not None:
        serve(server, rate, folder)
        return
    folder = Path(tempfile.mkdtemp(prefix="soak"))
    for name in ("in", "out"):
        (folder / name).mkdir()
    processes, samples, files = {}, {}, []
    for name in ("callers", "folder"):
        line = [sys.executable, "-m", "benchmarks.stress", "soak", "--serve", name, f"--rate={rate}"]
        processes[name] = subprocess.Popen([*line, f"--folder={folder}"], stdout=subprocess.PIPE, text=True)
        samples[name] = []
    for process in processes.values():
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    begin = time.monotonic()
    feeder = threading.Thread(target=lambda: files.append(feed(folder, rate, begin + seconds)))
    feeder.start()
    while feeder.is_alive():
        feeder.join(seconds / 720)
        for name, process in processes.items():
            if process.poll() is None:
                samples[name].append((time.monotonic() - begin, *measure(process.pid)))
    passed = len(files) == 1
    for name, process in processes.items():
        passed &= process.poll() is None
        process.send_signal(signal.SIGTERM)
        signalled = time.monotonic()
        try:
            counts = json.loads(process.communicate(timeout=SECONDS_TO_END)[0] or "{}")
        except subprocess.TimeoutExpired:
            process.kill()
            counts = {"not terminated by SIGTERM": 1}
        took = time.monotonic() - signalled
        print(f"{name}: {counts}; ended {took:.1f} s after SIGTERM, exit code {process.returncode}")
        passed &= set(counts) <= {"done", "refused", "damage not noticed"} and process.returncode == 0
        passed &= judge(name, samples[name])
        if name == "folder":
            waiting = len(list((folder / "in").iterdir()))
            print(f"{sum(files)} files were put, of which {waiting} are waiting")
            passed &= sum(counts.values()) + waiting == sum(files)
            passed &= all(file.suffix == ".ark" for file in (folder / "out").iterdir())  # no partial output
    if picture is not None:
        draw(samples, picture)
    shutil.rmtree(folder)
    sys.exit(not passed)
