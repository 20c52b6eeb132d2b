"""Damage files of k2, of OpenFst, of our own and of matrices and read them: sound lattices or typed errors, soon.

Where a format has checksums, what comes back must be what was written.

    python benchmarks/fuzz_tables.py ARCHIVE --format k2 --inputs 100000 --seed 1

ARCHIVE is a Kaldi archive; its smallest lattices are what is damaged.
"""

from __future__ import annotations

import argparse
import io
import random
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from ninja.errors import NinjaError
from ninja.formats.fst_binary import read_fst, write_fst
from ninja.formats.fst_text import FstTextWriteOptions, read_fst_text, write_fst_text
from ninja.formats.kaldi.fst_archive import FstArchiveWriteOptions, fst_entry, read_fst_archive
from ninja.io import read
from ninja.lattice import Lattice, check
from ninja.lattice.symbols import SymbolTable

MEMORY = 6 << 30  # bytes, torch's libraries included
SECONDS = 20  # an input may take
NUMBERS = [0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x7F800000, 0x7FC00000]
Reader = Callable[[bytes], Iterable[object]]


def k2(lattices: list[Lattice]) -> tuple[list[bytes], Reader]:
    from whole_files import write_k2, write_k2s

    from ninja.formats.k2 import read_k2s

    return [write_k2s(lattices), write_k2s(lattices, extras=False), write_k2(lattices[0])], read_k2s


def native(lattices: list[Lattice]) -> tuple[list[bytes], Reader]:
    from whole_files import write_natives

    from ninja.formats.native import NativeFile

    words = SymbolTable.from_words([f"word{number}" for number in range(40)])
    named = [
        replace(one, word=one.word % np.int32(40), time=np.arange(one.num_states, dtype=np.int32)) for one in lattices
    ]

    def entries(content: bytes) -> list[object]:
        file = NativeFile(content)
        found: list[object] = [one for _, one in file.entries()]
        if file.words is not None:
            len(file.words)
        return found

    return [write_natives(lattices), write_natives(named, words)], entries


def unread(lattices: list[Lattice]) -> tuple[list[bytes], Reader]:
    """Our own files, whose lattices are checked when they are used."""
    from ninja.formats.native import NativeFile

    def used(content: bytes) -> Iterator[object]:
        for lattice in NativeFile(content):
            try:
                yield lattice.with_key(lattice.key)
            except NinjaError as error:
                yield error

    return native(lattices)[0], used


def matrices(lattices: list[Lattice]) -> tuple[list[bytes], Reader]:
    import torch

    from ninja.ctc.matrices import matrices_in
    from ninja.files.stream import Stream

    matrix = lattices[0].graph[: lattices[0].num_arcs // 2 * 2].reshape(-1, 2)

    def made(save: Callable[[io.BytesIO], None]) -> bytes:
        stream = io.BytesIO()
        save(stream)
        return stream.getvalue()

    tensor = torch.tensor(matrix)
    contents = [
        made(lambda stream: np.savez(stream, utt=matrix, other=matrix.astype(np.float64))),
        made(lambda stream: torch.save(tensor, stream)),
        made(lambda stream: torch.save({"utt": tensor.bfloat16(), "other": tensor.double().T}, stream)),
    ]
    return contents, lambda content: [one for _, one in matrices_in(Stream(io.BytesIO(content), "matrices"), "utt")]


def openfst(lattices: list[Lattice]) -> tuple[list[bytes], Reader]:
    import pywrapfst

    images = [write_fst(lattices[0], arc_type) for arc_type in ("standard", "log", "log64")]
    machines = [pywrapfst.VectorFst.read_from_string(image) for image in images]
    images += [pywrapfst.convert(machine, "const").write_to_string() for machine in machines]
    return images, lambda content: [read_fst(content, "utt")]


def text(lattices: list[Lattice]) -> tuple[list[bytes], Reader]:
    words = SymbolTable.from_words(["<eps>", *(f"word{number}" for number in range(39))])
    small = replace(lattices[2], word=lattices[2].word % np.int32(40))
    contents = [write_fst_text(lattices[0]), write_fst_text(lattices[1], options=FstTextWriteOptions(acceptor=True))]
    contents.append(write_fst_text(small, words, options=FstTextWriteOptions(labels="words")))
    return contents, lambda content: [read_fst_text(content, "utt")]


def archive(lattices: list[Lattice]) -> tuple[list[bytes], Reader]:
    binary, spelled = (
        b"".join(map(fst_entry, lattices)),
        b"".join(fst_entry(one, FstArchiveWriteOptions(text=True)) for one in lattices),
    )
    return [binary, spelled, spelled + binary], lambda content: [one for _, one in read_fst_archive(content)]


def damaged(content: bytes, chance: random.Random) -> bytes:
    """Return the bytes with a few changed, moved, left out or put in."""
    changed = bytearray(content)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 6))):
        at, kind = chance.randrange(len(changed)), chance.randrange(6)
        if kind == 0:
            changed[at] = chance.randrange(256)
        elif kind == 1:
            changed[at] ^= 1 << chance.randrange(8)
        elif kind == 2:
            del changed[at : at + chance.randrange(1, 17)]
        elif kind == 3 and chance.random() < 0.3:
            del changed[at:]
        elif kind == 3:
            changed[at:at] = changed[at : at + chance.randrange(1, 40)]
        elif kind == 4:
            at -= at % 4
            changed[at : at + 4] = chance.choice(NUMBERS).to_bytes(4, "little")
        else:
            other, size = chance.randrange(len(changed)), chance.choice((4, 8, 16))
            changed[at - at % 4 : at - at % 4 + size] = changed[other - other % 4 : other - other % 4 + size]
        changed = changed or bytearray(1)
    return bytes(changed)


def same(one: object, other: object) -> bool:
    """Tell whether two lattices, but for their keys, or two matrices are equal bit for bit."""
    if isinstance(one, Lattice) and isinstance(other, Lattice):
        return one.frame_shift == other.frame_shift and one.identical(other.with_key(one.key))
    return isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and np.array_equal(one, other)


def main() -> None:
    formats = {"k2": k2, "native": native, "unread": unread, "matrices": matrices}
    formats |= {"openfst": openfst, "text": text, "archive": archive}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("archive")
    parser.add_argument("--format", choices=sorted(formats), required=True)
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    lattices = [one for _, one in read(chosen.archive) if isinstance(one, Lattice) and one.num_arcs >= 3]
    contents, reader = formats[chosen.format](sorted(lattices, key=lambda one: one.num_arcs)[:3])
    summed = chosen.format in ("k2", "native", "unread", "matrices")
    written = [found for content in contents for found in reader(content)] if summed else []
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    chance = random.Random(chosen.seed)
    begin, sound, refused = time.time(), 0, 0
    for _ in range(chosen.inputs):
        content = damaged(chance.choice(contents), chance)
        signal.alarm(SECONDS)  # kills: nothing may hang
        try:
            for found in reader(content):
                if isinstance(found, NinjaError):
                    refused += 1
                    continue
                sound += 1
                if isinstance(found, Lattice):
                    check(found)
                assert not summed or any(same(found, one) for one in written), found
        except NinjaError:
            refused += 1
        signal.alarm(0)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{chosen.format}: {chosen.inputs} inputs, {sound} sound lattices, {refused} typed errors, "
        f"{time.time() - begin:.0f} s, largest memory {memory:.0f} MB"
    )


if __name__ == "__main__":
    main()
