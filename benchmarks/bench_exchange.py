"""How fast the formats of other toolkits are read by ``ninja.read``: CPU time of this process, all threads.

    python -m benchmarks.bench_exchange [SHARED]

SHARED (default: beside the project) holds data/formats/an4_pocketsphinx and data/korean/lat.ark.gz, which is taken
COPIES times. Files lie in /dev/shm, unpacked but where it says gzip; writing them is not counted. The best of REPEATS
runs is told.
"""

import gzip
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's threads spin while they wait, and would be counted

import shutil
import sys
import tempfile
import time
from pathlib import Path

import ninja

COPIES = int(os.environ.get("NINJA_BENCH_COPIES", "20"))
REPEATS = int(os.environ.get("NINJA_BENCH_REPEATS", "5"))


def measured(work):
    """Return the least CPU seconds of some runs, and what the work returns."""
    best = float("inf")
    for _ in range(REPEATS):
        begin = time.process_time()
        result = work()
        best = min(best, time.process_time() - begin)
    return best, result


def arcs_of(source, **how):
    """Read lattices to the end, and count their arcs."""
    return sum(lattice.num_arcs for _, lattice in ninja.read(source, **how))


def unpacked(path):
    """Unpack a file with the library that we use, and nothing else."""
    from isal import isal_zlib

    unpacker = isal_zlib.decompressobj(wbits=31)
    size = 0
    with open(path, "rb", buffering=0) as file:
        while piece := file.read(1 << 17):
            while piece:
                size += len(unpacker.decompress(piece, 1 << 19))
                piece = unpacker.unconsumed_tail
    return size


def main():
    shared = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent.parent / "shared")
    print(f"{'':46s} {'CPU s':>8s} {'M arcs/s':>9s}")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        place = Path(folder)
        (place / "slf").mkdir()
        for path in sorted((shared / "data/formats/an4_pocketsphinx").glob("*.slf.gz")):
            (place / "slf" / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
        archive = gzip.decompress((shared / "data/korean/lat.ark.gz").read_bytes())
        with open(place / "lat.ark", "wb") as file:
            for _ in range(COPIES):
                file.write(archive)
        with open(place / "lat.ark", "rb") as file, gzip.open(place / "lat.ark.gz", "wb", 6) as packed:
            shutil.copyfileobj(file, packed)
        for name in ("lat.pt", "lat.arrow"):
            with ninja.write(place / name) as output:
                for _, lattice in ninja.read(place / "lat.ark"):
                    output.write(lattice)
        rows = {
            "HTK SLF, a folder": lambda: arcs_of(place / "slf"),
            "k2, mapped": lambda: arcs_of(place / "lat.pt", read_ahead=False),
            "Ninja's own, mapped": lambda: arcs_of(place / "lat.arrow", read_ahead=False),
            "Kaldi archive": lambda: arcs_of(place / "lat.ark"),
            "Kaldi archive, gzip": lambda: arcs_of(place / "lat.ark.gz"),
        }
        for name, work in rows.items():
            seconds, arcs = measured(work)
            print(f"{name:46s} {seconds:8.3f} {arcs / seconds / 1e6:9.1f}", flush=True)
        seconds, size = measured(lambda: unpacked(place / "lat.ark.gz"))
        print(f"{'unpacking that gzip file with isal alone':46s} {seconds:8.3f} {size / seconds / 1e6:7.0f} MB/s")


if __name__ == "__main__":
    main()
