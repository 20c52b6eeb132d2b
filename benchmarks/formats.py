"""CPU time of reading and writing lattices, of all threads of this process, compared with Kaldi's programs.

    python -m benchmarks.formats [ARCHIVE] [--only slf]

ARCHIVE is by default the Korean test-bed's, or else the example. It is unpacked and repeated, so that start-up is
negligible; files are in memory. Each row is the median of three alternating runs.
"""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from benchmarks.command import EXAMPLES, KOREAN, argument, command, option, output
from benchmarks.measure import by_turns, repeat_archive, scratch_folder
from benchmarks.tables import head, put, row, show
from ninja.formats.k2 import read_k2s
from ninja.formats.native import NativeFile
from ninja.graph import prune
from ninja.io import read, write
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable

DEFAULT = KOREAN / "lat.ark.gz"
KALDI = {  # CPU s for a copy of the Korean archive, on an idle machine of the same kind
    "Kaldi: read": ("lattice-copy", 0.20),
    "Kaldi: read, write": ("lattice-copy", 0.20),
    "Kaldi: read, prune, write": ("lattice-prune", 0.27),
    "Kaldi: read, write text": ("lattice-copy to text", 0.48),
    "Kaldi: read gzip, write": ("lattice-copy from gunzip", 0.59),
}

FORMATS = {
    "slf": "SLF",
    "sphinx": "Sphinx",
    "fst-text": "OpenFst text",
    "fst-ark": "OpenFst archive",
    "k2": "k2",
    "native": "Ninja's own",
}


def drain(lattices: Iterable[object]) -> None:
    for _ in lattices:
        pass


def copy(source: Path, target: str | Path, change: Callable[[Lattice], Lattice] = lambda lattice: lattice) -> None:
    with write(target) as output:
        for _, lattice in read(source):
            output.write(change(lattice))


def unpack(path: Path) -> None:
    """Unpack a file with isal only: a lower bound for reading gzip."""
    from isal import isal_zlib

    unpacker = isal_zlib.decompressobj(wbits=31)
    with path.open("rb", buffering=0) as file:
        while piece := file.read(1 << 17):
            while piece:
                unpacker.decompress(piece, 1 << 19)
                piece = unpacker.unconsumed_tail


def calls(archive: Path, copies: int, folder: Path) -> tuple[dict[str, Callable[[], object]], int]:
    """Write the files; return the calls by name, and the number of arcs of each."""
    plain = repeat_archive(archive, copies, folder / "lat.ark")
    packed = folder / "lat.ark.gz"
    with gzip.open(packed, "wb", 6) as file:
        file.write(plain.read_bytes())
    text = folder / "lat.txt"
    copy(plain, text)
    null = Path("/dev/null")
    table: dict[str, Callable[[], object]] = {
        "Kaldi: read": lambda: drain(read(plain)),
        "Kaldi: read text": lambda: drain(read(text)),
        "Kaldi: read gzip": lambda: drain(read(packed)),
        "Kaldi: read, write": lambda: copy(plain, null),
        "Kaldi: read, prune, write": lambda: copy(plain, null, lambda lattice: prune(lattice, beam=10.0)),
        "Kaldi: read, write text": lambda: copy(plain, f"ark,t:{null}"),
        "Kaldi: read text, write": lambda: copy(text, null),
        "Kaldi: read gzip, write": lambda: copy(packed, null),
        "Kaldi: read, write gzip": lambda: copy(plain, folder / "out.gz"),
        "gzip: unpack alone": lambda: unpack(packed),
    }
    lattices = [lattice.with_key(f"{lattice.key}-{at}") for at, (_, lattice) in enumerate(read(plain))]
    max_word = max(int(lattice.word.max()) for lattice in lattices)
    words = SymbolTable.from_words([f"w{word}" for word in range(1 + max_word)])
    keys = [lattice.key for lattice in lattices]
    random.Random(1).shuffle(keys)
    for kind, name in FORMATS.items():
        path = folder / ("native.arrow" if kind == "native" else f"{kind}.pt" if kind == "k2" else kind)
        rows = lattices[: len(lattices) // copies] if kind in ("slf", "sphinx", "fst-text") else lattices

        def save(path: Path = path, kind: str = kind, rows: list[Lattice] = rows) -> None:
            with write(path, to=kind, words=words) as output:
                for lattice in rows:
                    output.write(lattice)

        save()
        table[f"{name}: write"] = save
        table[f"{name}: read"] = lambda path=path, kind=kind: drain(read(path, format=kind, words=words))
    native = folder / "native.arrow"
    table |= {
        "k2: read, mapped": lambda: drain(read_k2s(folder / "k2.pt")),
        "Ninja's own: read, mapped, unchecked": lambda: drain(NativeFile(native, check="none")),
        "Ninja's own: read by key": lambda: drain(map(NativeFile(native).__getitem__, keys)),
    }
    return table, sum(lattice.num_arcs for lattice in lattices)


def rows(archive: Path, copies: int, only: str) -> Iterator[str]:
    """Measure; yield the rows of the table."""
    yield from head(f"{archive.name}, {copies} copies", "M arcs/s", "CPU s a copy", "Kaldi", "")
    with scratch_folder() as folder:
        table, num_arcs = calls(archive, copies, Path(folder))
        for name, seconds in by_turns({name: call for name, call in table.items() if only in name}, 3).items():
            share = 1 if name.startswith(("SLF", "Sphinx", "OpenFst text")) else copies
            median = sorted(seconds)[1]
            program, kaldi = KALDI.get(name, ("", 0.0)) if archive == DEFAULT else ("", 0.0)
            against = (f"`{program}` {kaldi:.2f}", f"{kaldi * share / median:.1f}×") if program else ("", "")
            yield row(name, f"{num_arcs * share / copies / median / 1e6:.1f}", f"{median / share:.4f}", *against)


@command
@argument("archive", default=DEFAULT if DEFAULT.exists() else EXAMPLES / "lat.ark.gz")
@option("--copies", default=20, help="Copies of the archive in one file.")
@option("--only", default="", help="Measure rows with this in their name.")
@output
def main(archive: Path, copies: int, only: str, output: Path | None) -> None:
    lines = show(rows(archive, copies, only))
    put(output, "formats", [*lines[:2], *(line for line in lines[2:] if "×" in line)])  # those of Kaldi's programs


if __name__ == "__main__":
    main()
