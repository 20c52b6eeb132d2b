"""All text formats of lattices: each is detected by its first bytes, and can be converted to the others."""

from __future__ import annotations

import random
from contextlib import suppress

import numpy as np
import pytest
import reference_slf as slow
from hypothesis import given
from hypothesis import strategies as st
from strategies_text import PFSG, PLF, SMALL, SPHINX, SUBLATTICES, any_lattices, with_one_cost

from ninja.errors import NinjaError
from ninja.formats.format import by_name
from ninja.formats.pfsg import read_pfsg, write_pfsg
from ninja.formats.plf import PlfOptions, PlfWriteOptions, read_plf, write_plf
from ninja.formats.slf import read_slf, write_slf
from ninja.formats.sphinx import read_sphinx, write_sphinx
from ninja.lattice import check

MARKS = {name: by_name(name, "read").mark for name in ("slf", "sphinx", "pfsg", "plf")}


def detected_formats(content):
    return [name for name, is_format in MARKS.items() if is_format(content)]


@pytest.mark.parametrize("content", [SMALL, SUBLATTICES, b"# made by x\n\n N=1 L=0\n", b"base=10\n"])
def test_htk_lattices_are_detected_by_any_field_of_a_header(content):
    assert detected_formats(content) == ["slf"]


@given(any_lattices())
def test_lattices_are_equivalent_after_conversion_to_all_text_formats(lattice):
    slf = read_slf(write_slf(lattice), "k", words=lattice.words)
    assert slf.identical(lattice)
    plf = read_plf(
        write_plf(slf, options=PlfWriteOptions(scores="both")),
        "k",
        words=lattice.words,
        options=PlfOptions("score", graph=0, acoustic=1),
    )
    assert plf.identical(lattice)
    pfsg = read_pfsg(write_pfsg(plf), "k", words=lattice.words)
    expected = slow.lattice_fingerprint(with_one_cost(lattice))
    np.testing.assert_allclose(slow.lattice_fingerprint(pfsg), expected, rtol=1e-5)
    contents = [write_slf(lattice), write_sphinx(lattice), write_pfsg(lattice)]
    assert [detected_formats(content) for content in contents] == [["slf"], ["sphinx"], ["pfsg"]]
    assert detected_formats(write_plf(lattice)) == ["plf"]


PIECES = [b"", b"-1", b"999999999", b"nan", b"\n", b" ", b"\xff"]
SMALL_FILES = {
    "sphinx": (SPHINX, read_sphinx, slow.read_sphinx, [b"7"]),
    "pfsg": (PFSG, read_pfsg, slow.read_pfsg, [b"2"]),
    "plf": (PLF, read_plf, slow.read_plf, [b"2", b"()", b"'"]),
}


@pytest.mark.parametrize("name", SMALL_FILES)
@given(st.integers(0, 2**32))
def test_damaged_files_are_refused_or_agree_with_the_slow_reader(name, seed):
    content, read, read_slowly, pieces = SMALL_FILES[name]
    rng = random.Random(seed)
    damaged = bytearray(content)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(damaged))
        damaged[at : at + rng.randrange(3)] = rng.choice([*PIECES, *pieces])
    try:
        lattice = read(bytes(damaged), "k")
    except NinjaError:
        return
    check(lattice)
    with suppress(SyntaxError):  # Python's parser rejects numbers such as 01
        reference = slow.fingerprint(read_slowly(bytes(damaged)))
        np.testing.assert_allclose(slow.lattice_fingerprint(lattice), reference, rtol=1e-4)
