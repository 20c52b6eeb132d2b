"""Damage files of k2, of OpenFst and of our own and read them: each must give sound lattices or typed errors, soon.

    python benchmarks/fuzz_tables.py ARCHIVE --format k2 --inputs 100000 --seed 1

ARCHIVE is a Kaldi archive; its smallest lattices are what is damaged.
"""

from __future__ import annotations

import argparse
import random
import resource
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from ninja.errors import NinjaError
from ninja.formats import read
from ninja.formats.fst_archive import read_fst_archive, write_fst_archive
from ninja.formats.fst_text import read_fst_text, write_fst_text
from ninja.formats.openfst import read_fst, write_fst
from ninja.lattice import Lattice, check
from ninja.symbols import SymbolTable

MEMORY = 6 << 30  # bytes, torch's libraries included
SECONDS = 20  # an input may take
NUMBERS = [0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x7F800000, 0x7FC00000]
Reader = Callable[[bytes], Iterable[object]]


def k2(lattices: list[Lattice]) -> tuple[list[bytes], Reader]:
    from ninja.formats.k2 import read_k2s, write_k2, write_k2s

    return [write_k2s(lattices), write_k2s(lattices, extras=False), write_k2(lattices[0])], read_k2s


def native(lattices: list[Lattice]) -> tuple[list[bytes], Reader]:
    from ninja.formats.native import NativeFile
    from ninja.formats.native_writer import write_natives

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


def openfst(lattices: list[Lattice]) -> tuple[list[bytes], Reader]:
    import pywrapfst

    images = [write_fst(lattices[0], arc_type) for arc_type in ("standard", "log", "log64")]
    machines = [pywrapfst.VectorFst.read_from_string(image) for image in images]
    images += [pywrapfst.convert(machine, "const").write_to_string() for machine in machines]
    return images, lambda content: [read_fst(content, "utt")]


def text(lattices: list[Lattice]) -> tuple[list[bytes], Reader]:
    contents = [write_fst_text(lattices[0]), write_fst_text(lattices[1], acceptor=True)]
    return contents, lambda content: [read_fst_text(content, "utt")]


def archive(lattices: list[Lattice]) -> tuple[list[bytes], Reader]:
    binary, spelled = write_fst_archive(lattices), write_fst_archive(lattices, text=True)
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


def main() -> None:
    formats = {"k2": k2, "native": native, "openfst": openfst, "text": text, "archive": archive}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("archive")
    parser.add_argument("--format", choices=sorted(formats), required=True)
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    lattices = [one for _, one in read(chosen.archive) if isinstance(one, Lattice) and one.num_arcs >= 3]
    contents, reader = formats[chosen.format](sorted(lattices, key=lambda one: one.num_arcs)[:3])
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    chance = random.Random(chosen.seed)
    begin, sound, refused = time.time(), 0, 0
    for _ in range(chosen.inputs):
        content = damaged(chance.choice(contents), chance)
        signal.alarm(SECONDS)  # kills: nothing may hang
        try:
            for found in reader(content):
                if isinstance(found, Lattice):
                    check(found)
                    sound += 1
                else:
                    assert isinstance(found, NinjaError), found
                    refused += 1
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
