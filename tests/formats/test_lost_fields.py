"""Real lattices without a field, a line or their end are rejected, unless the format cannot detect the loss.

Undetectable losses are listed in ``undetectable_slf`` and ``undetectable_fst``.
"""

from __future__ import annotations

import random
from functools import lru_cache

import numpy as np
import reference_slf as slow
from hypothesis import given
from hypothesis import strategies as st
from strategies_text import needs_files, read_unpacked

from ninja.errors import NinjaError
from ninja.formats.fst_text import FstTextWriteOptions, read_fst_text, write_fst_text
from ninja.formats.slf import read_slf
from ninja.lattice import Lattice, check

SLF = [
    "ami_slf/AMI_ES2011a_H00_FEE041_0003427_0003714.lat.gz",
    "theanolm/lattice.slf",
    "an4_pocketsphinx/an4-cen3-mdms2-b.slf.gz",
]
COSTS = ("a", "l", "r")


def are_equal(first: Lattice, second: Lattice, *, time: bool = True) -> bool:
    names = ("arc_begin", "dst", "graph", "acoustic", "final_graph", "final_acoustic", *(("time",) if time else ()))
    assert first.words is not None
    assert second.words is not None
    spelled = [[lattice.words.word(word) for word in lattice.word.tolist()] for lattice in (first, second)]
    return spelled[0] == spelled[1] and all(
        np.array_equal(getattr(first, name), getattr(second, name)) for name in names
    )


def body(lines: list[bytes]) -> list[int]:
    return [place for place, line in enumerate(lines) if line[:2] in (b"I=", b"J=")]


def undetectable_slf(content: bytes, line: bytes, field: str) -> bool:
    """Return whether an HTK lattice without a field is still valid, but has another meaning.

    * A score of a link without a word, which SRILM omits if it is 1.
    * The word of the first or the last node.
    """
    values = dict(slow.slf_fields(line.decode().rstrip("\n")))
    reference = slow.read_slf(content)
    if "I" in values:
        return field == "W" and int(values["I"]) in (reference.start, reference.end)
    node = int(values["S"] if reference.begins else values["E"])
    return field in COSTS and values.get("W", reference.words.get(node)) in slow.SILENT


@needs_files
@given(st.sampled_from(SLF), st.sampled_from(["field", "line", "cut"]), st.integers(0, 2**32))
def test_real_htk_lattices_with_a_lost_part_are_refused_or_equivalent(name: str, kind: str, seed: int) -> None:
    content, whole = real_slf(name)
    lines = content.splitlines(keepends=True)
    rng = random.Random(seed)
    place = rng.choice(body(lines))
    line, field = lines[place], ""
    if kind == "field":
        fields = line.split()
        removed = fields.pop(rng.randrange(len(fields)))
        field = removed.split(b"=")[0].decode()
        lines[place] = b"\t".join(fields) + b"\n"
    elif kind == "line":
        lines.pop(place)
    damaged = content[: rng.randrange(1, len(content))] if kind == "cut" else b"".join(lines)
    try:
        lattice = read_slf(damaged, "k")
    except NinjaError:
        return
    assert kind == "field", "missing lines and truncated files contradict the counts in the header"
    check(lattice)
    if field == "t":  # one state without a time drops all times, reported as lost
        assert lattice.time is None
    assert are_equal(lattice, whole, time=field != "t") or undetectable_slf(content, line, field), (line, field)


@lru_cache
def real_slf(name: str) -> tuple[bytes, Lattice]:
    content = read_unpacked(name)
    return content, read_slf(content, "k")


def undetectable_fst(lines: list[bytes], place: int, index: int) -> bool:
    """Return whether an FST in text without a field is still valid, but has another meaning.

    A missing line (an arc, a final state or the start) is undetectable, too, if every state that is still entered
    has another line.

    * A weight, because a weight of 1 is omitted.
    * A label before an integer, because the other fields can be a label and a weight, or labels without a weight.
    """
    fields = lines[place].split()
    return index == len(fields) - 1 or fields[-1].isdigit()


@needs_files
@given(
    st.sampled_from(SLF),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["field", "line", "cut"]),
    st.integers(0, 2**32),
)
def test_real_text_fsts_with_a_lost_part_are_refused_or_equivalent(
    name: str, acceptor: bool, spelled: bool, kind: str, seed: int
) -> None:
    content, whole = real_fst(name, acceptor, spelled)
    lines = content.splitlines(keepends=True)
    rng = random.Random(seed)
    place, index = rng.randrange(len(lines)), 0
    damaged = content[: rng.randrange(1, len(content))]
    if kind == "field":
        fields = lines[place].split()
        index = rng.randrange(len(fields))
        damaged = b"".join(
            [*lines[:place], b"\t".join(fields[:index] + fields[index + 1 :]) + b"\n", *lines[place + 1 :]]
        )
    elif kind == "line":
        damaged = b"".join(lines[:place] + lines[place + 1 :])
    try:
        lattice = read_fst_text(damaged, "k")
    except NinjaError:
        return
    check(lattice)
    if kind != "field":
        assert damaged.endswith(b"\n")
        source_states = {line.split()[0] for line in damaged.splitlines()}
        assert {row[1] for row in map(bytes.split, damaged.splitlines()) if len(row) > 2} <= source_states
        return
    equal = lattice.words == whole.words and lattice.identical(whole)
    assert equal or undetectable_fst(lines, place, index), (lines[place], index)


@lru_cache
def real_fst(name: str, acceptor: bool, spelled: bool) -> tuple[bytes, Lattice]:
    lattice = real_slf(name)[1]
    content = write_fst_text(
        lattice, options=FstTextWriteOptions(labels="words" if spelled else "ids", acceptor=acceptor)
    )
    return content, read_fst_text(content, "k")
