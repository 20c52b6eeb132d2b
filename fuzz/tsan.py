"""Run the kernels on 1, 2 and 7 threads under ThreadSanitizer, then with races that are planted; 1 if one is missed.

python3 fuzz/tsan.py [--seconds 20] [--seed 1]
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from planted import plant
from run import BUILD, COMPILER, FLAGS, FUZZ, INCLUDES

THREADS = (1, 2, 7)
# Headers in which a race is planted, with the text and its replacement. A report must name the header.
PLANTED = {
    "graph/prune.hpp": ("static thread_local PruneWorkspace", "static PruneWorkspace"),
    "formats/read_ahead.hpp": ("std::lock_guard<std::mutex> lock(mutex_);\n      end_", "end_"),
}


def build(name: str, *folders: Path) -> Path:
    """Compile the driver; headers in these folders replace ours."""
    binary = BUILD / "bin" / name
    binary.parent.mkdir(parents=True, exist_ok=True)
    includes = [f"-I{folder}" for folder in folders]
    command = [COMPILER, *includes, *INCLUDES, *FLAGS, "-fsanitize=thread", "-pthread", str(FUZZ / "threads.cpp")]
    subprocess.run([*command, "-o", str(binary)], check=True)
    return binary


def run(binary: Path, threads: int, seconds: float, seed: int) -> tuple[str, str, int]:
    """Return the output, the reports, and the exit code."""
    environment = {**os.environ, "TSAN_OPTIONS": "second_deadlock_stack=1"}
    command = [str(binary), str(threads), str(seconds), str(seed)]
    process = subprocess.run(command, capture_output=True, text=True, errors="replace", env=environment)
    return process.stdout.strip(), process.stderr, process.returncode


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20, help="for each number of threads (default: 20)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    failed = False
    binary = build("threads")
    for threads in THREADS:
        output, reports, code = run(binary, threads, options.seconds, options.seed)
        failed |= code != 0
        print(f"{output or 'ended early'}, {reports.count('WARNING: ThreadSanitizer')} reports", flush=True)
        if code != 0:
            print(reports[-8000:], file=sys.stderr)
    folder = BUILD / "races"
    for header, (guard, without) in PLANTED.items():
        plant(header, guard, without, folder)
    _, reports, _ = run(build("threads.planted", folder), THREADS[-1], 5, options.seed)
    races = [report for report in reports.split("==================") if "WARNING: ThreadSanitizer" in report]
    for name in PLANTED:
        count = sum(name in report for report in races)
        failed |= not count
        print(f"race planted in {name}: {f'found, {count} reports' if count else 'MISSED'}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
