"""SIGINT and SIGTERM at random moments: of commands, and of a program that reads, writes and rescores.

    python -m benchmarks.stress interrupts [--times 200] [--seed 1]

A command must end with the code of its signal, without a traceback, leave its complete output or none, and no other
file. A program that catches KeyboardInterrupt must be able to continue: the next call has the same result as before, no
temporary file is left, and a `Rescorer` whose caller was interrupted serves the others.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import ninja
from benchmarks.command import EXAMPLES, command, option
from benchmarks.measure import ninja as ninja_command

COMMANDS = (
    ("prune", "lat.ark", "--beam=4", "-o", "out.ark"),
    ("determinize-pruned", "lat.ark", "--beam=4", "--jobs=2", "-o", "out.ark"),
    ("convert", "lat.ark", "--words=words.txt", "-o", "out.jsonl"),
    ("nbest", "lat.ark", "--n=20", "-o", "out.ark"),
)
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}


def interrupt_commands(folder: Path, times: int, chance: random.Random) -> Counter[str]:
    """Interrupt commands that read ``lat.ark`` of a folder; return the number of each outcome.

    Raises:
        AssertionError: A command left another output or file, a traceback or another exit code.
    """
    inputs = sorted(os.listdir(folder))
    whole: dict[tuple[str, ...], tuple[float, bytes]] = {}
    ends: Counter[str] = Counter()
    for number in range(times):
        arguments = COMMANDS[number % len(COMMANDS)]
        output = folder / arguments[-1]
        if arguments not in whole:
            begin = time.monotonic()
            subprocess.run(ninja_command(*arguments), cwd=folder, check=True, stderr=subprocess.DEVNULL)
            whole[arguments] = time.monotonic() - begin, output.read_bytes()
            clear(folder, inputs)
        seconds, expected = whole[arguments]
        number_of_signal = chance.choice(list(CODES))
        process = subprocess.Popen(ninja_command(*arguments), cwd=folder, stderr=subprocess.PIPE)
        time.sleep(chance.uniform(0.0, 1.1 * seconds))
        process.send_signal(number_of_signal)
        errors = process.communicate(timeout=60)[1].decode()
        place = f"{' '.join(arguments)}, {number_of_signal.name}: exit code {process.returncode}, {errors!r}"
        started = process.returncode != -number_of_signal  # otherwise the interpreter had not reached our code
        if started:
            assert process.returncode in (0, CODES[number_of_signal]), place
            assert "Traceback" not in errors, place
        ends["done" if process.returncode == 0 else "interrupted" if started else "before it began"] += 1
        if output.exists():
            assert output.read_bytes() == expected, place
        else:
            assert process.returncode != 0, place
            assert sorted(os.listdir(folder)) == inputs, (place, sorted(os.listdir(folder)))
        clear(folder, inputs)
    return ends


def clear(folder: Path, inputs: list[str]) -> None:
    """Remove the files that are no inputs."""
    for name in set(os.listdir(folder)) - set(inputs):
        (folder / name).unlink()


def interrupted(call: Callable[[], object], seconds: float) -> bool:
    """Run a call with a KeyboardInterrupt after some seconds; return whether it came before the end."""
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        call()
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        return True
    return False


def interrupt_calls(folder: Path, rescorer: ninja.Rescorer, times: int, chance: random.Random) -> Counter[str]:
    """Interrupt calls of this process and compare the next one with that before; return the number of interrupts.

    Raises:
        AssertionError: The next call had another result, or a file was left.
    """

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    words = ninja.SymbolTable.read(folder / "words.txt")
    lattices = [lattice for _, lattice in ninja.read(folder / "lat.ark", words=words)]

    def read_archive() -> object:
        return [(key, lattice.num_arcs) for key, lattice in ninja.read(folder / "lat.ark", words=words)]

    def write_archive() -> object:
        with ninja.write(folder / "out.ark") as output:
            for lattice in lattices:
                output.write(lattice)
        return (folder / "out.ark").read_bytes()

    def submit() -> object:
        futures = [rescorer.submit(lattice) for lattice in lattices]
        return [future.result().dst.tolist() for future in futures]

    calls: dict[str, Callable[[], object]] = {"read": read_archive, "write": write_archive, "submit": submit}
    handler = signal.signal(signal.SIGALRM, interrupt)
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
            new_files = set(os.listdir(folder)) - set(names)
            assert new_files <= {"out.ark"}, (name, new_files)
            clear(folder, names)
            assert calls[name]() == expected[name], f"{name} has another result after an interrupt"
            clear(folder, names)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
    return counts


@command
@option("--times", default=200)
@option("--seed", default=1)
def main(times: int, seed: int) -> None:
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "words.txt").write_bytes((EXAMPLES / "words.txt").read_bytes())
        with ninja.write(folder / "lat.ark") as output:
            for _, lattice in ninja.read(EXAMPLES / "lat.ark.gz"):
                if lattice.num_arcs < 2000:
                    output.write(lattice)
        print("commands:", dict(interrupt_commands(folder, times, chance)))
        options = ninja.RescoreOptions(lm_weight=0.5, acoustic_scale=0.1, output="best", max_unknown=1.0, max_hyps=1)
        with ninja.Rescorer(ninja.lm.load(), options) as rescorer:
            print("calls:", dict(interrupt_calls(folder, rescorer, times, chance)))
