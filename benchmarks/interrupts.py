"""SIGINT and SIGTERM at random moments: of commands, and of a program that reads, writes and rescores.

    python -m benchmarks.interrupts [--times 200] [--seed 1]

A command must end with the code of its signal, without a traceback, and leave its output whole or none, and no other
file. A program that catches KeyboardInterrupt must be able to go on: the next call gives what it gave before, no
temporary file is left, and a `Rescorer` whose caller was interrupted serves the others.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import ninja

COMMANDS = (
    ("prune", "lat.ark", "--beam=4", "-o", "out.ark"),
    ("determinize-pruned", "lat.ark", "--beam=4", "--jobs=2", "-o", "out.ark"),
    ("convert", "lat.ark", "--words=words.txt", "-o", "out.jsonl"),
    ("nbest", "lat.ark", "--n=20", "-o", "out.ark"),
)
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}


def interrupt_commands(folder: Path, times: int, chance: random.Random) -> Counter[str]:
    """Interrupt commands that work on ``lat.ark`` of a folder; return how often each ended how.

    Raises:
        AssertionError: One broke its promise.
    """
    left = sorted(os.listdir(folder))
    whole: dict[tuple[str, ...], tuple[float, bytes]] = {}
    ends: Counter[str] = Counter()
    for number in range(times):
        command = COMMANDS[number % len(COMMANDS)]
        output = folder / command[-1]
        if command not in whole:
            begin = time.monotonic()
            subprocess.run([sys.executable, "-m", "ninja", *command], cwd=folder, check=True, stderr=subprocess.DEVNULL)
            whole[command] = time.monotonic() - begin, output.read_bytes()
            clear(folder, left)
        seconds, expected = whole[command]
        number_of_signal = chance.choice(list(CODES))
        process = subprocess.Popen([sys.executable, "-m", "ninja", *command], cwd=folder, stderr=subprocess.PIPE)
        time.sleep(chance.uniform(0.0, 1.1 * seconds))
        process.send_signal(number_of_signal)
        said = process.communicate(timeout=60)[1].decode()
        told = f"{' '.join(command)}, {number_of_signal.name}: exit code {process.returncode}, {said!r}"
        started = process.returncode != -number_of_signal  # or the interpreter was still on its way to ours
        if started:
            assert process.returncode in (0, CODES[number_of_signal]), told
            assert "Traceback" not in said, told
        ends["done" if process.returncode == 0 else "interrupted" if started else "before it began"] += 1
        if output.exists():
            assert output.read_bytes() == expected, told
        else:
            assert process.returncode != 0, told
            assert sorted(os.listdir(folder)) == left, (told, sorted(os.listdir(folder)))
        clear(folder, left)
    return ends


def clear(folder: Path, left: list[str]) -> None:
    """Remove what was written."""
    for name in set(os.listdir(folder)) - set(left):
        (folder / name).unlink()


def interrupted(call: Callable[[], object], seconds: float) -> bool:
    """Run a call with a KeyboardInterrupt after so many seconds; tell whether it came before the end."""
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        call()
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        return True
    return False


def interrupt_calls(folder: Path, rescorer: ninja.Rescorer, times: int, chance: random.Random) -> Counter[str]:
    """Interrupt calls of this process, and see that the next one gives what it gave before; return how often.

    Raises:
        AssertionError: It did not.
    """

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    words = ninja.SymbolTable.read(folder / "words.txt")
    lattices = [each for _, each in ninja.read(folder / "lat.ark", words=words)]

    def read() -> object:
        return [(key, each.num_arcs) for key, each in ninja.read(folder / "lat.ark", words=words)]

    def write() -> object:
        with ninja.write(folder / "out.ark") as output:
            for lattice in lattices:
                output.write(lattice)
        return (folder / "out.ark").read_bytes()

    def submit() -> object:
        futures = [rescorer.submit(lattice) for lattice in lattices]
        return [future.result().dst.tolist() for future in futures]

    calls: dict[str, Callable[[], object]] = {"read": read, "write": write, "submit": submit}
    before = signal.signal(signal.SIGALRM, interrupt)
    counts: Counter[str] = Counter()
    names = sorted(os.listdir(folder))
    try:
        expected, seconds = {}, {}
        for name, call in calls.items():
            begin = time.monotonic()
            expected[name] = call()
            seconds[name] = time.monotonic() - begin
            clear(folder, names)
        for number in range(times):
            name = list(calls)[number % len(calls)]
            counts[f"{name} interrupted"] += interrupted(calls[name], chance.uniform(1e-4, 1.1 * seconds[name]))
            rest = set(os.listdir(folder)) - set(names)
            assert rest <= {"out.ark"}, (name, rest)
            clear(folder, names)
            assert calls[name]() == expected[name], f"{name} is not what it was after an interrupt"
            clear(folder, names)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return counts


def main() -> None:
    """Interrupt so many times, and print what was seen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    chance = random.Random(given.seed)
    examples = Path(__file__).resolve().parents[1] / "examples"
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "words.txt").write_bytes((examples / "words.txt").read_bytes())
        with ninja.write(folder / "lat.ark") as output:
            for _, lattice in ninja.read(examples / "lat.ark.gz"):
                if lattice.num_arcs < 2000:
                    output.write(lattice)
        print("commands:", dict(interrupt_commands(folder, given.times, chance)))
        options = ninja.RescoreOptions(lm_weight=0.5, acoustic_scale=0.1, output="best", max_unknown=1.0, max_hyps=1)
        with ninja.Rescorer(ninja.lm.load(), options) as rescorer:
            print("calls:", dict(interrupt_calls(folder, rescorer, given.times, chance)))


if __name__ == "__main__":
    main()
