"""Build the fuzzing targets, run each for some seconds, and report coverage; the exit code is 1 after a crash.

python fuzz/run.py [--seconds 30] [--coverage] [TARGET ...]
"""

import argparse
import hashlib
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FUZZ = Path(__file__).resolve().parent
ROOT = FUZZ.parent
BUILD = ROOT / "build" / "fuzz"
EXT = ROOT / "ext"
COMPILER = os.environ.get("FUZZ_CXX", "clang++")
FLAGS = ["-std=c++17", "-O2", "-g", "-fno-math-errno", "-ffp-contract=off", "-fno-omit-frame-pointer"]
INCLUDES = [f"-I{EXT}", f"-I{FUZZ}"]
SANITIZERS = ["-fsanitize=fuzzer,address,undefined,float-cast-overflow", "-fno-sanitize-recover=all"]
COVERAGE = ["-fsanitize=fuzzer", "-fprofile-instr-generate", "-fcoverage-mapping"]
# Targets mostly allocate memory. Freed memory waits in a quarantine of a megabyte, which stays cached. Reports have
# no stacks of allocations, unless a crash is run again without these options.
ASAN = "detect_stack_use_after_return=1:malloc_context_size=1:quarantine_size_mb=1:thread_local_quarantine_size_kb=64"
MOST_SECONDS, MOST_MEGABYTES = 10, 1024  # limits of one input
# Largest inputs in one slice of four, and in the other slices, as short inputs take less time. The latter skip the
# search for leaks.
MOST_BYTES, FEW_BYTES = 4096, 1024
SLICE = 300  # seconds after which the executions of a target are recorded

# Targets that draw lattices and check the results of kernels: they can run on random bytes without a fuzzer.
DRAWN = ("align", "columns", "compose_ngram", "determinize_pruned", "kaldi_write", "mbr", "operations", "oracle")
DRAWN += ("paths", "rows", "search", "slf_write", "spans", "unfold")


def headers(source: Path) -> set[Path]:
    """Return our headers that a source includes, directly or not."""
    included: set[Path] = set()
    waiting = [source]
    while waiting:
        for name in re.findall(r'^#include "(.*)"', waiting.pop().read_text(), re.MULTILINE):
            path = next(folder / name for folder in (EXT, FUZZ) if (folder / name).exists())
            if path not in included:
                included.add(path)
                waiting.append(path)
    return included


def build(target: str, flags: list[str], suffix: str = "") -> Path:
    """Compile a target unless its binary has the same sources and flags."""
    source = FUZZ / "targets" / f"{target}.cpp"
    digest = hashlib.sha256("\0".join([COMPILER, *FLAGS, *flags]).encode())
    for path in sorted({source, *headers(source)}):
        digest.update(path.read_bytes())
    binary = BUILD / "bin" / (target + suffix)
    stamp = binary.with_suffix(".stamp")
    if not (binary.exists() and stamp.exists() and stamp.read_text() == digest.hexdigest()):
        binary.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([COMPILER, *FLAGS, *INCLUDES, *flags, str(source), "-o", str(binary)], check=True)
        stamp.write_text(digest.hexdigest())
    return binary


def is_drawn(target: str) -> bool:
    """Return whether a target draws numbers from its input, rather than reading it as a file."""
    return "(mutate_drawn)" in (FUZZ / "targets" / f"{target}.cpp").read_text()


def build_sanitized(target: str, extra_flags: Sequence[str] = ()) -> Path:
    """Compile a target with the sanitizers and more flags."""
    # Drawn numbers need not match constants of the code, and tracing of comparisons would take a third of the time.
    flags = ["-fno-sanitize-coverage=trace-cmp"] if is_drawn(target) else []
    return build(target, [*SANITIZERS, *flags, *extra_flags])


def kernels(target: str) -> str:
    """Return a digest of the headers of `ext` that a target includes, directly or not."""
    digest = hashlib.sha256()
    for path in sorted(headers(FUZZ / "targets" / f"{target}.cpp")):
        if path.is_relative_to(EXT):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def recorded_executions(target: str, digest: str) -> tuple[int, float]:
    """Return the executions of a target so far, with the kernels of a digest, and their CPU seconds."""
    path = BUILD / "counts" / f"{target}.json"
    record = json.loads(path.read_text()) if path.exists() else {}
    return (record["executions"], record["seconds"]) if record.get("kernels") == digest else (0, 0.0)


def record(target: str, digest: str, executions: int, seconds: float) -> None:
    """Add to the executions of a target."""
    earlier = recorded_executions(target, digest)
    total = {"kernels": digest, "executions": earlier[0] + executions, "seconds": earlier[1] + seconds}
    (BUILD / "counts").mkdir(exist_ok=True)
    fresh = BUILD / "counts" / f"{target}.new"
    fresh.write_text(json.dumps(total))
    fresh.rename(fresh.with_suffix(".json"))


def run(target: str, digest: str, seconds: float, executions: int) -> tuple[int, bool, str]:
    """Fuzz a target up to a total of executions, if not 0; return new executions, success, and the end of the log."""
    begin, num_executions, passed, log = time.perf_counter(), 0, True, ""
    for number in itertools.count():
        remaining = seconds - (time.perf_counter() - begin)
        missing = executions - recorded_executions(target, digest)[0]
        if not passed or remaining < 1 or (executions and missing < 1):
            break
        most_bytes = FEW_BYTES if number % 4 else MOST_BYTES
        count, cpu, passed, log = run_slice(target, min(remaining, SLICE), missing if executions else 0, most_bytes)
        num_executions += count
        if passed:
            record(target, digest, count, cpu)
    return num_executions, passed, log


def run_slice(target: str, seconds: float, executions: int, most_bytes: int) -> tuple[int, float, bool, str]:
    """Fuzz a target once; return executions, seconds of CPU, whether it passed, and the end of the log."""
    binary, corpus, crashes = BUILD / "bin" / target, BUILD / "corpus" / target, BUILD / "crashes" / target
    seeds, dictionary = BUILD / "seeds" / target, FUZZ / "dictionaries" / f"{target}.dict"
    for folder in (corpus, crashes, seeds, BUILD / "logs"):
        folder.mkdir(parents=True, exist_ok=True)
    command = [str(binary), str(corpus), str(seeds), f"-artifact_prefix={crashes}/", f"-max_total_time={seconds:.0f}",
               f"-timeout={MOST_SECONDS}", f"-rss_limit_mb={MOST_MEGABYTES}", f"-malloc_limit_mb={MOST_MEGABYTES // 4}",
               f"-max_len={most_bytes}", "-print_final_stats=1", "-reload=0"]  # fmt: skip
    command += [f"-dict={dictionary}"] if dictionary.exists() else []
    command += [f"-runs={executions}"] if executions else []
    command += ["-detect_leaks=0"] if most_bytes == FEW_BYTES else []
    if is_drawn(target):  # short inputs are mostly zeros, and no part of one is rare
        command += ["-len_control=0", "-entropic=0"]
    symbolizer = shutil.which("llvm-symbolizer") or ""
    options = {"ASAN_OPTIONS": ASAN, "UBSAN_OPTIONS": "print_stacktrace=1", "ASAN_SYMBOLIZER_PATH": symbolizer,
               "UBSAN_SYMBOLIZER_PATH": symbolizer}  # fmt: skip
    path = BUILD / "logs" / f"{target}.txt"
    with path.open("wb") as log:
        child = subprocess.Popen(command, stderr=log, stdout=subprocess.DEVNULL, env={**os.environ, **options})
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    text = path.read_text(errors="replace")
    counts = re.findall(r"stat::number_of_executed_units:\s*(\d+)", text)
    counts = counts or re.findall(r"^#(\d+)", text, re.MULTILINE)[-1:]  # after a crash
    return int(counts[0]) if counts else 0, usage.ru_utime + usage.ru_stime, child.returncode == 0, text[-6000:]


def draw(target: str, count: int, seed: int) -> str:
    """Run a target on random inputs, without sanitizers; return its output."""
    binary = build(target, ["-O2", str(FUZZ / "drawn.cpp")], ".drawn")
    process = subprocess.run([str(binary), str(count), str(seed)], capture_output=True, text=True)
    return (
        process.stdout.strip()
        if process.returncode == 0
        else f"FAILED, exit code {process.returncode}: {process.stderr[-500:]}"
    )


def merge(target: str) -> None:
    """Reduce a corpus to inputs that each cover something new."""
    corpus, reduced = BUILD / "corpus" / target, BUILD / "smaller" / target
    shutil.rmtree(reduced, ignore_errors=True)
    reduced.mkdir(parents=True)
    binary = BUILD / "bin" / target
    seeds = BUILD / "seeds" / target
    process = subprocess.run([str(binary), "-merge=1", str(reduced), str(seeds), str(corpus)], capture_output=True)
    if process.returncode == 0:
        shutil.rmtree(corpus)
        reduced.rename(corpus)


def coverage(targets: list[str]) -> list[tuple[str, float, float]]:
    """Return the headers that targets cover, and the percentages of branches and lines that their corpora reach."""
    profiles, binaries, names = [], [], set()
    for target in targets:
        source = (FUZZ / "targets" / f"{target}.cpp").read_text()
        names.update(" ".join(re.findall(r"^// Covers: (.*)$", source, re.MULTILINE)).split())
        binaries.append(build(target, COVERAGE, ".coverage"))
        profiles.append(BUILD / f"{target}.profraw")
        folders = [str(BUILD / name / target) for name in ("corpus", "seeds")]
        subprocess.run([str(binaries[-1]), "-runs=0", *folders], check=True, capture_output=True,
                       env={**os.environ, "LLVM_PROFILE_FILE": str(profiles[-1])})  # fmt: skip
    profile = BUILD / "all.profdata"
    subprocess.run(["llvm-profdata", "merge", "-sparse", *map(str, profiles), "-o", str(profile)], check=True)
    object_options = [part for binary in binaries[1:] for part in ("-object", str(binary))]
    command = ["llvm-cov", "export", "-summary-only", f"-instr-profile={profile}", str(binaries[0]), *object_options]
    process = subprocess.run([*command, *(str(EXT / name) for name in sorted(names))], check=True, capture_output=True)
    files = json.loads(process.stdout)["data"][0]["files"]
    parts = [(file["filename"], file["summary"]) for file in files]
    return [(name.split("/ext/")[-1], part["branches"]["percent"], part["lines"]["percent"]) for name, part in parts]


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", nargs="*", help="targets; all by default")
    parser.add_argument("--seconds", type=float, default=30, help="for each target (default: 30)")
    parser.add_argument("--runs", type=int, default=0, help="total executions of each target, over calls; 0: no limit")
    parser.add_argument(
        "--drawn", type=int, default=0, help="instead of fuzzing, run each target of DRAWN on this many random inputs"
    )
    parser.add_argument("--seed", type=int, default=1, help="of --drawn")
    parser.add_argument("--jobs", type=int, default=1, help="targets at once (default: 1)")
    parser.add_argument("--coverage", action="store_true", help="report the coverage of each header by the corpora")
    parser.add_argument(
        "--merge", action="store_true", help="reduce the corpora to inputs that each cover something new"
    )
    options = parser.parse_args()
    if options.drawn:
        outputs = {target: draw(target, options.drawn, options.seed) for target in options.target or DRAWN}
        print("\n".join(f"{target:20} {output}" for target, output in outputs.items()))
        return any("FAILED" in output for output in outputs.values())
    targets = options.target or sorted(path.stem for path in (FUZZ / "targets").glob("*.cpp"))
    subprocess.run([sys.executable, str(FUZZ / "seeds.py"), str(BUILD / "seeds")], check=True)
    failed = []

    def work(target: str) -> None:
        digest = kernels(target)
        build_sanitized(target)
        begin = time.perf_counter()
        executions, passed, log = run(target, digest, options.seconds, options.runs)
        if options.merge:
            merge(target)
        seconds = time.perf_counter() - begin
        num_inputs = len(list((BUILD / "corpus" / target).iterdir()))
        total, cpu = recorded_executions(target, digest)
        print(f"{target:20} {executions:>10} executions {seconds:7.1f} s {num_inputs:6} inputs, {total:>9} in all,"
              f" {total / max(cpu, 1e-9):6.0f} a second of CPU {'' if passed else 'FAILED'}", flush=True)  # fmt: skip
        if not passed:
            failed.append(target)
            print(log, file=sys.stderr, flush=True)

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(work, targets))
    if options.coverage and not failed:
        print("\ncoverage of the headers by all these targets")
        for name, branches, lines in coverage(targets):
            print(f"    {name:40} {branches:6.1f}% of branches {lines:6.1f}% of lines")
    if failed:
        print(f"failed: {', '.join(failed)}; inputs are in {BUILD / 'crashes'}", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
