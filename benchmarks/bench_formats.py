"""How fast Kaldi archives are read and written: CPU time of all threads of this process.

    python -m benchmarks.bench_formats [ARCHIVE]

ARCHIVE (or $NINJA_BENCH_ARCHIVE) is unpacked and concatenated so that start-up does not count; without it the Korean
test-bed's lat.ark.gz is taken, or, where that is not at hand, the three lattices of the tests. Kaldi's own figures are
CPU seconds on the Korean archive, on an idle machine of the same kind.
"""

import gzip
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's threads spin while they wait, and would be counted

import resource
import sys
import tempfile
import time
from pathlib import Path

from ninja.graph import prune
from ninja.io import read, write

SHARED = Path(os.environ.get("NINJA_SHARED", Path(__file__).parent.parent.parent / "shared"))
COPIES = int(os.environ.get("NINJA_BENCH_COPIES", "20"))
KALDI = {  # CPU s per copy
    "read": 0.20,
    "binary to binary": 0.20,
    "read, prune, write": 0.27,
    "binary to text": 0.48,
    "gzip to binary": 0.59,
}


def count(source):
    return sum(lattice.dst.shape[0] for _, lattice in read(source))


def copy(source, target):
    num_arcs = 0
    with write(target) as output:
        for _, lattice in read(source):
            output.write(lattice)
            num_arcs += lattice.dst.shape[0]
    return num_arcs


def prune_archive(source, target):
    num_arcs = 0
    with write(target) as output:
        for _, lattice in read(source):
            output.write(prune(lattice, beam=10.0))
            num_arcs += lattice.dst.shape[0]
    return num_arcs


def main():
    default = SHARED / "data/korean/lat.ark.gz"
    path = Path(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("NINJA_BENCH_ARCHIVE", default))
    path = path if path.exists() else Path(__file__).parent.parent / "tests/data/english/formats/lat.ark.gz"
    content = path.read_bytes()
    content = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    content *= max(1, 10_000_000 // len(content))
    packed = gzip.compress(content, 6)
    with tempfile.TemporaryDirectory() as folder:
        names = {kind: os.path.join(folder, f"lat.{kind}") for kind in ("ark", "ark.gz", "txt")}
        with open(names["ark"], "wb") as archive, open(names["ark.gz"], "wb") as archive_gz:
            for _ in range(COPIES):
                archive.write(content)
                archive_gz.write(packed)
        copy(names["ark"], names["txt"])
        runs = {
            "read": lambda: count(names["ark"]),
            "read from text": lambda: count(names["txt"]),
            "read from gzip": lambda: count(names["ark.gz"]),
            "binary to binary": lambda: copy(names["ark"], "/dev/null"),
            "read, prune, write": lambda: prune_archive(names["ark"], "/dev/null"),
            "binary to text": lambda: copy(names["ark"], "ark,t:/dev/null"),
            "text to binary": lambda: copy(names["txt"], "/dev/null"),
            "gzip to binary": lambda: copy(names["ark.gz"], "/dev/null"),
            "binary to gzip": lambda: copy(names["ark"], os.path.join(folder, "out.gz")),
        }
        print(f"{path}: {COPIES} copies of {len(content) / 1e6:.1f} MB; median of 3")
        print(f"{'':19}{'M arcs/s':>10}{'CPU s/copy':>12}{'Kaldi':>8}{'ratio':>7}")
        for name, run in runs.items():
            seconds = []
            for _ in range(3):
                begin = time.process_time()
                num_arcs = run()
                seconds.append(time.process_time() - begin)
            taken = sorted(seconds)[1]
            kaldi = KALDI.get(name) if path == default else None
            against = f"{kaldi:8.2f}{kaldi * COPIES / taken:6.1f}x" if kaldi else ""
            print(f"{name:19}{num_arcs / taken / 1e6:10.1f}{taken / COPIES:12.4f}{against}")
    print(f"largest memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
