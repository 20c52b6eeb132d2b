"""How fast HTK's lattices are read and written: CPU time of this process.

    python -m benchmarks.bench_slf [DIRECTORY]

DIRECTORY (default: the AN4 lattices beside the project) holds ``*.slf.gz``. Unpacking is not counted; each lattice is
read REPEATS times, first with words on nodes as PocketSphinx writes them, then as this package writes them, on links.
"""

import gzip
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's threads spin while they wait, and would be counted

import sys
import time
from pathlib import Path

from ninja.formats.slf import read_slf, write_slf
from ninja.formats.sphinx import read_sphinx, write_sphinx

SHARED = Path(os.environ.get("NINJA_SHARED", Path(__file__).parent.parent.parent / "shared"))
REPEATS = int(os.environ.get("NINJA_BENCH_REPEATS", "10"))


def measured(name, work, items, num_links, size):
    begin = time.process_time()
    for _ in range(REPEATS):
        for item in items:
            work(item)
    seconds = (time.process_time() - begin) / REPEATS
    print(f"{name:34s} {num_links / seconds / 1e6:6.2f} M links/s  {size / seconds / 1e6:7.1f} MB/s")


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else SHARED / "data/formats/an4_pocketsphinx"
    contents = [gzip.decompress(path.read_bytes()) for path in sorted(folder.glob("*.slf.gz"))]
    lattices = [read_slf(content, "k") for content in contents]
    num_links = sum(lattice.num_arcs for lattice in lattices)
    written = [write_slf(lattice) for lattice in lattices]
    sphinx = [write_sphinx(lattice) for lattice in lattices]
    size = sum(map(len, contents))
    print(f"{len(contents)} lattices, {num_links} links, {size} bytes")
    measured("read, words on nodes", lambda content: read_slf(content, "k"), contents, num_links, size)
    size = sum(map(len, written))
    measured("read, words on links", lambda content: read_slf(content, "k"), written, num_links, size)
    measured("write", write_slf, lattices, num_links, size)
    size = sum(map(len, sphinx))
    measured("read Sphinx", lambda content: read_sphinx(content, "k"), sphinx, num_links, size)
    measured("write Sphinx", write_sphinx, lattices, num_links, size)


if __name__ == "__main__":
    main()
