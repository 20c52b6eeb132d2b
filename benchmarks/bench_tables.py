"""How fast k2's files, our own files and OpenFst's are read and written: CPU time of all threads of this process.

    python -m benchmarks.bench_tables [ARCHIVE]

ARCHIVE is a Kaldi archive (default: the Korean test-bed's lat.ark.gz), taken $NINJA_BENCH_COPIES times (20) in one
file. Files are in the page cache, and each reading opens and maps its file anew.

"k2: read, from bytes": they are in memory already. "native: read" gives lattices that are checked when one of their
arrays is first asked for, and asks for none; "read, used" asks for one of each; "entries" are checked, as for the
commands, before they are given.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's threads spin while they wait, and would be counted

import random
import sys
import tempfile
import time
from pathlib import Path

from ninja import write
from ninja.formats.fst_text import FstTextWriteOptions, read_fst_text, write_fst_text
from ninja.formats.k2 import read_k2s
from ninja.formats.kaldi.fst_archive import FstArchiveWriteOptions, fst_entry, read_fst_archive
from ninja.formats.native import NativeFile
from ninja.io import read
from ninja.lattice.symbols import SymbolTable

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))
from whole_files import write_k2s

SHARED = Path(os.environ.get("NINJA_SHARED", Path(__file__).parent.parent.parent / "shared"))
COPIES = int(os.environ.get("NINJA_BENCH_COPIES", "20"))


def drain(lattices):
    for _ in lattices:
        pass


def use(lattices):
    for lattice in lattices:
        assert len(lattice.dst)


def write_native(lattices, path):
    with write(path, to="native") as output:
        for lattice in lattices:
            output.write(lattice)


def main():
    path = Path(sys.argv[1] if len(sys.argv) > 1 else SHARED / "data/korean/lat.ark.gz")
    once = [lattice for _, lattice in read(str(path))]
    lattices = [lattice.with_key(f"{lattice.key}-{copy}") for copy in range(COPIES) for lattice in once]
    num_arcs = sum(lattice.num_arcs for lattice in lattices)
    print(f"{path}: {len(lattices)} lattices, {num_arcs} arcs, {sum(len(each.ali) for each in lattices)} labels")
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        k2, plain, native = (Path(folder, name) for name in ("k2.pt", "plain.pt", "native.arrow"))
        keys = [lattice.key for lattice in lattices]
        random.Random(1).shuffle(keys)
        archive = b"".join(map(fst_entry, lattices))
        text = b"".join(fst_entry(one, FstArchiveWriteOptions(text=True)) for one in once)
        words = SymbolTable.from_words(
            [f"w{number}" for number in range(max(int(each.word.max()) for each in once) + 1)]
        )
        named = [write_fst_text(each, words, options=FstTextWriteOptions(labels="words")) for each in once]
        plain.write_bytes(whole := write_k2s(lattices, extras=False))
        runs = {
            "k2: write": lambda: plain.write_bytes(write_k2s(lattices, extras=False)),
            "k2: write, with alignments": lambda: k2.write_bytes(write_k2s(lattices)),
            "k2: read": lambda: drain(read_k2s(plain)),
            "k2: read, from bytes": lambda: drain(read_k2s(whole)),
            "k2: read, with alignments": lambda: drain(read_k2s(k2)),
            "native: write": lambda: write_native(lattices, native),
            "native: read": lambda: drain(NativeFile(native)),
            "native: read, used": lambda: use(NativeFile(native)),
            "native: entries": lambda: drain(NativeFile(native).entries()),
            "native: read, unchecked": lambda: drain(NativeFile(native, check="none")),
            "native: by key": lambda: drain(map(NativeFile(native).__getitem__, keys)),
            "native: by key, used": lambda: use(map(NativeFile(native).__getitem__, keys)),
            "FST archive: write": lambda: b"".join(map(fst_entry, lattices)),
            "FST archive: read": lambda: drain(read_fst_archive(archive)),
            "FST archive: read from text": lambda: drain(read_fst_archive(text)),
            "FST text: read, words": lambda: drain(read_fst_text(each, "utt") for each in named),
        }
        for name, run in runs.items():
            seconds = []
            for _ in range(3):
                begin = time.process_time()
                run()
                seconds.append(time.process_time() - begin)
            arcs = num_arcs // COPIES if "text" in name else num_arcs
            print(f"{name:28}{arcs / sorted(seconds)[1] / 1e6:10.1f} M arcs/s")


if __name__ == "__main__":
    main()
