"""Plant faults in headers and check that the targets find each within a minute, from seeds alone; 1 if one is missed.

python3 fuzz/planted.py [--seconds 60] [TARGET ...]
"""

import argparse
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import run

# For each target: headers, a guard that occurs once in each, and its replacement.
PLANTED = {
    "kaldi": [("formats/kaldi_read.hpp", "if (lack(at, kArc + 4 * arc->num_labels))", "if (lack(at, kArc))")],
    "slf": [("formats/slf_scan.hpp", "stop < end_ && *stop != '\\n'; ++stop", "*stop != '\\n'; ++stop")],
    "const_arpa": [("lm/const_arpa.hpp", "-(what / 2) >= num_overflow_", "false")],
    "fst_image": [("core/fst_image.hpp", "if (length < 0 || length > left())", "if (length < 0)")],
    "tables": [
        ("core/pair_map.hpp", "find(cell.key).place = cell.place", "find(cell.key)"),
        ("core/pair_map.hpp", "(first_[state] < 0 ?", "(first_[state] <= 0 ?"),
        ("core/trie.hpp", "parent[other] < 0 ? below", "parent[other] <= 0 ? below"),
        ("search/history.hpp", "if (((next - home) & mask) >= ((next - hole) & mask))", "if (next > home)"),
        ("search/history.hpp", "if (entry.slot == kNoSlot) --entries_[parent].waiting;", ""),
        ("search/wave.hpp", "if (entry.epoch == epoch_) find(entry.key) = entry;", ""),
        ("align/align_places.hpp", "has_words(others_[item], word, num_words)", "true"),
        ("align/align_places.hpp", "known.labels.length == labels.length &&", ""),
    ],
}


def plant(header: str, guard: str, without: str, folder: Path) -> None:
    """Write a header without one of its guards into a folder."""
    text = (run.EXT / header).read_text()
    assert text.count(guard) == 1, f"{header} does not have {guard!r} once"
    (folder / header).parent.mkdir(parents=True, exist_ok=True)
    (folder / header).write_text(text.replace(guard, without))


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", nargs="*", help="targets; all those with faults by default")
    parser.add_argument("--seconds", type=float, default=60, help="for each fault (default: 60)")
    options = parser.parse_args()
    missed = False
    run.BUILD = run.BUILD / "planted"  # without the earlier corpus
    for target in options.target or PLANTED:
        for header, guard, without in PLANTED[target]:
            shutil.rmtree(run.BUILD, ignore_errors=True)
            plant(header, guard, without, run.BUILD / "ext")
            run.build_sanitized(target, ["-iquote", str(run.BUILD / "ext")])
            subprocess.run([sys.executable, str(run.FUZZ / "seeds.py"), str(run.BUILD / "seeds")], check=True)
            begin = time.perf_counter()
            executions, _, passed, _ = run.run_slice(target, options.seconds, 0, run.MOST_BYTES)
            took = time.perf_counter() - begin
            missed |= passed
            log = (run.BUILD / "logs" / f"{target}.txt").read_text(errors="replace")
            error = re.search(r"AddressSanitizer: [\w-]+|runtime error: .*|broken promise: .*", log)
            result = f"found in {took:.1f} s, {executions} inputs: {error and error[0]}"
            print(f"{target:12} {header:28} {'MISSED' if passed else result}", flush=True)
    return missed


if __name__ == "__main__":
    sys.exit(main())
