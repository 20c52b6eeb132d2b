"""Damage real lattices of HTK, Sphinx, SRILM and Moses, and compare what is read with a slow strict reader.

Every input must give a lattice or a typed error, soon and in little memory; where the slow reader of the tests reads
it, too, both must mean the same sentences with the same costs, and what one accepts the other must accept.

    python benchmarks/fuzz_textual.py FORMATS_DIRECTORY --format slf --inputs 100000 --seed 1
"""

from __future__ import annotations

import argparse
import gzip
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import reference_slf as slow

from ninja.errors import NinjaError
from ninja.formats.pfsg import read_pfsg, write_pfsg
from ninja.formats.plf import read_plf
from ninja.formats.slf import SlfWriteOptions, read_slf, write_slf
from ninja.formats.sphinx import read_sphinx
from ninja.lattice import Lattice

MEMORY = 512 << 20  # bytes more than at the begin are an allocation beyond all bounds
PIECES = [
    b"-1", b"0", b"1", b"2", b"999999999", b"2147483647", b"2147483648", b"99999999999999", b"nan", b"inf", b"-inf",
    b"1e400", b"1e-400", b"1e38", b"4e38", b"-0", b".5", b"1.", b"1e", b"0x10", b"'", b'"', b"\\", b"\\101", b"\\8",
    b"#", b".", b"~", b"=", b"\n", b"\t", b" ", b"\0", b"\xff", b"\xc3\xa9", b"S=0", b"E=1", b"W=!NULL", b'W="a b"',
    b"a=1", b"l=-2", b"r=3", b"t=0.5", b"base=10", b"base=0", b"base=1", b"dir=b", b"dir=f", b"start=1", b"end=2",
    b"tscale=2", b"SUBLAT=x", b"L=x", b"I=3", b"J=3", b"N=3", b"L=5", b"<s>", b"NULL", b"End", b"(", b")", b",", b"()",
]  # fmt: skip

SUBLATTICES = b"""VERSION=1.0
SUBLAT=digit
N=4 L=4
I=0 W=!NULL
I=1 W=one r=-0.5
I=2 W=two
I=3 W=!NULL
J=0 S=0 E=1 l=-0.5
J=1 S=0 E=2 l=-1.5
J=2 S=1 E=3
J=3 S=2 E=3 a=-3
.
SUBLAT="two digits"
N=2 L=1
I=0 L=digit
I=1 L=digit
J=0 S=0 E=1 l=-0.25
.
N=4 L=4
I=0 W=<s>
I=1 L="two digits"
I=2 W=or\\075and
I=3 W=</s>
J=0 S=0 E=1 a=-1 l=-2
J=1 S=0 E=2 a=-10
J=2 S=1 E=3
J=3 S=2 E=3 l=-7
"""


def damaged(content: bytes, others: list[bytes], random_: random.Random) -> bytes:
    """Return a file with a few things changed."""
    content_ = bytearray(content)
    for _ in range(random_.choice((1, 1, 1, 2, 3, 6))):
        at = random_.randrange(len(content_) + 1)
        kind = random_.randrange(10)
        if kind == 0:
            del content_[at:]
        elif kind == 1 and at < len(content_):
            content_[at] = random_.randrange(256)
        elif kind == 2 and at < len(content_):
            content_[at] ^= 1 << random_.randrange(8)
        elif kind == 3:
            content_[at:at] = random_.choice(PIECES)
        elif kind == 4:
            del content_[at : at + random_.randrange(1, 12)]
        elif kind == 5:
            lines = bytes(content_).split(b"\n")
            one, two = random_.randrange(len(lines)), random_.randrange(len(lines))
            lines[one], lines[two] = (lines[two], lines[one]) if random_.random() < 0.5 else (lines[one], lines[one])
            content_ = bytearray(b"\n".join(lines))
        elif kind == 6:
            other = random_.choice(others)
            start = random_.randrange(len(other) + 1)
            content_[at:at] = other[start : start + random_.randrange(1, 60)]
        else:  # put something else in the place of a value
            stops = b"= \t\n,()'"
            start = at
            while start > 0 and content_[start - 1] not in stops:
                start -= 1
            stop = at
            while stop < len(content_) and content_[stop] not in stops:
                stop += 1
            content_[start:stop] = random_.choice(PIECES)
    return bytes(content_)


def sources(directory: Path, form: str) -> list[bytes]:
    """Return real files (of a few kilobytes, so that many can be read) of a format."""

    def unpacked(pattern: str, most: int) -> list[bytes]:
        found = [gzip.decompress(path.read_bytes()) for path in sorted(directory.glob(pattern))]
        return [content for content in found if len(content) <= most]

    if form == "slf":
        theanolm = (directory / "theanolm/lattice.slf").read_bytes()
        real = [*unpacked("ami_slf/*.lat.gz", 9999), theanolm, *unpacked("an4_pocketsphinx/*.slf.gz", 9999)]
        rewritten = [
            write_slf(read_slf(content, "k"), options=SlfWriteOptions(base=base))
            for content in real[:2]
            for base in (10, 0)
            if base
        ]
        return [*real, *rewritten, SUBLATTICES, SUBLATTICES]
    sphinx = unpacked("an4_pocketsphinx/*.lat.gz", 9999)
    if form == "sphinx":
        return sphinx
    if form == "pfsg":
        return [write_pfsg(read_sphinx(content, "k")) for content in sphinx]
    lines = [line for content in unpacked("plf_fisher_callhome/*.plf.gz", 1 << 30) for line in content.split(b"\n")]
    return [line for line in lines if 40 < len(line) < 1500][:400]


def largest(lattice: Lattice) -> float:
    """Return the largest cost of an arc."""
    return max(float(np.abs(cost).max(initial=0)) for cost in (lattice.graph, lattice.acoustic))


def verdicts(form: str, content: bytes) -> tuple[str, str]:
    """Return what the reader and its slow twin say: an error's name, or nothing."""
    readers: dict[str, tuple[Callable[..., Lattice], Callable[..., slow.Graph]]] = {
        "slf": (read_slf, slow.read_slf),
        "sphinx": (read_sphinx, slow.read_sphinx),
        "pfsg": (read_pfsg, slow.read_pfsg),
        "plf": (read_plf, slow.read_plf),
    }
    read, read_slowly = readers[form]
    ours = twin = ""
    lattice = total = None
    try:
        lattice = read(content, "k")
    except NinjaError as error:
        ours = type(error).__name__ + ": " + str(error)
    if ours and form != "slf":
        return ours, ours  # their slow twins are for sound files only
    try:
        total = slow.fingerprint(read_slowly(content))
        if total is None:
            twin = "a cycle"
    except SyntaxError:
        return ours, ours  # PLF is not all of Python: 01 is a number
    except (slow.Refused, UnicodeDecodeError) as error:
        twin = f"{type(error).__name__}: {error}"
    if (
        lattice is not None and total is not None and largest(lattice) < 1e5
    ):  # beyond, the sums of the twin are too coarse
        found = slow.lattice_fingerprint(lattice)
        if not np.allclose(found, total, rtol=1e-4, atol=0, equal_nan=True):
            raise AssertionError(f"another lattice: {found} and {total}")
    return ours, twin


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--format", choices=["slf", "sphinx", "pfsg", "plf"], default="slf")
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    random_ = random.Random(chosen.seed)
    files = sources(chosen.directory, chosen.format)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    seen: Counter[str] = Counter()
    slowest = 0.0
    np.seterr(all="ignore")
    for number in range(chosen.inputs):
        content = damaged(random_.choice(files), files, random_)
        begin = time.process_time()
        try:
            ours, twin = verdicts(chosen.format, content)
        except Exception as error:
            Path(f"fuzz_{chosen.format}_{chosen.seed}_{number}.bin").write_bytes(content)
            print(f"input {number}: {type(error).__name__}: {error}")
            seen["FAILED"] += 1
            continue
        slowest = max(slowest, time.process_time() - begin)
        if bool(ours) != bool(twin):
            Path(f"fuzz_{chosen.format}_{chosen.seed}_{number}.bin").write_bytes(content)
            print(f"input {number}: {ours or 'read'} / {twin or 'read'}")
            seen["DISAGREED"] += 1
        seen[ours.split(":")[0] or "read"] += 1
    print(f"{chosen.format}: {chosen.inputs} inputs, {dict(seen)}, slowest {slowest * 1000:.0f} ms")


if __name__ == "__main__":
    main()
