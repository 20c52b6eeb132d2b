"""Word meshes as lattices: costs are posteriors, times need agreeing words, an invalid mesh affects no other."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_graph import archive

from ninja.consensus import ConfusionNetwork, confusion_network, mbr_decode
from ninja.errors import FormatError, LatticeError, NinjaError, OptionError, SymbolError
from ninja.formats.mesh import FORMAT, MeshOptions, read_mesh_lattices, write_mesh
from ninja.graph import best_path
from ninja.lattice import Scales, check
from ninja.lattice.symbols import SymbolTable

# All keywords of SRILM's wlat-format(5).
SRILM = b"""name utt1
numaligns 3
posterior 2
align 0 the 1.5 *DELETE* 0.5
reference 0 the
hyps 0 the 0 1
info 0 the 0.12 0.3 -250.5 -2.1 dh:ax 3:4
align 1 cat 1.2 hat 0.8
posterior 1 2
transposterior 1 1.9
time 1 0.3
align 2 *DELETE* 2
"""
TIMED = b"""name t
numaligns 4
posterior 1
align 0 *DELETE* 1
align 1 a 0.5 b 0.5
info 1 a 0.1 0.2 0 0 : :
info 1 b 0.1 0.2 0 0 : :
align 2 *DELETE* 1
align 3 c 1
info 3 c 0.5 0.25 0 0 : :
"""


def read(content, key="file", words=None, **options):
    return list(read_mesh_lattices(content, key, "m", words, MeshOptions(**options)))


def arcs(lattice):
    """Return the arcs of a sausage as (position, word, posterior)."""
    words = [None if word == 0 else lattice.words.word(word) for word in lattice.word.tolist()]
    posteriors = np.exp(-lattice.graph.astype(np.float64)).tolist()
    assert (lattice.dst == lattice.src + 1).all()
    return list(zip(lattice.src.tolist(), words, posteriors, strict=True))


def test_a_mesh_of_srilm_becomes_a_lattice_of_consecutive_positions():
    (lattice,) = read(SRILM)
    check(lattice)
    assert (lattice.key, lattice.num_states, lattice.time) == ("utt1", 4, None)
    assert arcs(lattice) == [
        (0, "the", pytest.approx(0.75)),
        (0, None, pytest.approx(0.25)),
        (1, "cat", pytest.approx(0.6)),
        (1, "hat", pytest.approx(0.4)),
        (2, None, 1.0),
    ]
    assert lattice.acoustic.tolist() == [0.0] * 5
    assert lattice.final_graph.tolist() == [math.inf] * 3 + [0.0]


def test_states_have_the_times_on_which_the_words_agree():
    (lattice,) = read(TIMED)
    assert lattice.time.tolist() == [
        10,
        10,
        30,
        50,
        75,
    ]  # the first position has no times; it is at the begin of the next word
    assert lattice.frame_shift == 0.01
    assert read(TIMED, frame_shift=0.05)[0].time.tolist() == [2, 2, 6, 10, 15]


@pytest.mark.parametrize(
    "line",
    [
        b"info 1 b 0.1 0.3 0 0 : :",
        b"info 1 b -0.1 0.4 0 0 : :",
        b"info 1 b 1e300 0.4 0 0 : :",
        b"info 1 b inf 0.4 0 0 : :",
        b"",
    ],
)
def test_times_on_which_words_do_not_agree_are_dropped(line):
    (lattice,) = read(TIMED.replace(b"info 1 b 0.1 0.2 0 0 : :", line))
    assert (lattice.time, lattice.frame_shift) == (None, None)


def test_times_that_run_backwards_are_dropped():
    (lattice,) = read(TIMED.replace(b"info 3 c 0.5 0.25", b"info 3 c 0.2 0.25"))
    assert lattice.time is None


def test_words_with_a_posterior_of_0_are_dropped():
    content = b"numaligns 1\nalign 0 a 0.9 b 0 c 0.05 d 0.05\n"
    (lattice,) = read(content)
    assert [word for _, word, _ in arcs(lattice)] == ["a", "c", "d"]
    (lattice,) = read(content, least=0.1)
    assert [word for _, word, _ in arcs(lattice)] == ["a"]


def test_a_mesh_without_positions_becomes_the_empty_sentence():
    (lattice,) = read(b"name e\nnumaligns 0\nposterior 1\n")
    assert (lattice.num_states, lattice.num_arcs, lattice.final_graph.tolist()) == (1, 0, [0.0])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"numaligns 1\nalign 0\n", r"^m:2, key 'file': position 0 has no entry \(a word or \*DELETE\*\)"),
        (b"numaligns 2\nalign 0\nalign 1\n", r"position 0 has no entry \(a word or \*DELETE\*\)"),
        (b"numaligns 1\nalign 0 a 0 b 0\n", "position 0 has no entry with a posterior above 0"),
    ],
)
def test_a_position_without_words_raises_lattice_error(content, message):
    (error,) = read(content)
    assert isinstance(error, LatticeError)
    with pytest.raises(LatticeError, match=message):
        raise error


def test_an_invalid_mesh_affects_no_other():
    content = (
        b"name a\nnumaligns 1\nalign 0 x 1\n"
        b"name b\nnumaligns 1\nalign 0 x one\n"
        b"name c\nnumaligns many\nalign 0 x 1\n"
        b"name d\nnumaligns 1\nalign 0 \xff 1\n"
        b"name e\nnumaligns 2\nalign 0 x 1\n"
        b"numaligns 1\nalign 0 x 1\n"
    )
    entries = read(content)
    assert [entry.key for entry in entries] == ["a", "b", "c", "d", "e", "file-1"]
    faults = [str(entry) if isinstance(entry, NinjaError) else None for entry in entries]
    assert faults == [
        None,
        "m:6, key 'b': the posterior of 'x' is 'one', but must be a number",
        "m:8, key 'c': numaligns is 'many', but must be a number of positions",
        "m:12, key 'd': not UTF-8 (invalid start byte); specify the encoding or convert the file with iconv",
        "m:15, key 'e': position 1 of 2 has no align line",
        None,
    ]


@pytest.mark.parametrize("posterior", [b"-0.5", b"1_0", b"\xd9\xa1", b"nan", b"inf", b"0x1"])
def test_invalid_posteriors_are_refused(posterior):
    (error,) = read(b"numaligns 1\nalign 0 a " + posterior + b"\n")
    assert isinstance(error, FormatError)
    assert error.line == 2


def test_several_meshes_without_names_are_numbered():
    mesh = b"numaligns 1\nalign 0 x 1\n"
    assert [entry.key for entry in read(mesh)] == ["file"]
    assert [entry.key for entry in read(mesh + b"name n\n" + mesh + mesh)] == ["file-1", "n", "file-2"]


def test_words_are_looked_up_and_epsilon_has_two_spellings():
    table = SymbolTable([("<eps>", 0), ("a", 7), ("b", 8)])
    content = b"numaligns 2\nalign 0 b 0.5 <eps> 0.5\nalign 1 *DELETE* 0.5 a 0.5\n"
    (lattice,) = read(content, words=table)
    assert lattice.words is table
    assert lattice.word.tolist() == [8, 0, 0, 7]
    (error,) = read(content.replace(b" a ", b" c "), words=table)
    assert isinstance(error, SymbolError)
    assert str(error) == "m:3, key 'file': word 'c' is not in the symbol table; check that it is the right table"


def test_the_encoding_option_sets_the_encoding():
    content = "numaligns 1\nalign 0 Straße 1\n".encode("latin-1")
    (lattice,) = read(content, encoding="latin-1")
    assert lattice.words.spell(lattice.word) == ["Straße"]
    (error,) = read(content)
    assert "not UTF-8" in str(error)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"least": -0.1}, "least is -0.1, but must be 0 or more"),
        ({"least": 1.0}, "least is 1.0, but must be 0 or more"),
        ({"least": math.nan}, "least is nan"),
        ({"frame_shift": 0.0}, "frame_shift is 0.0, but must be from 1e-6 to 1e6 seconds"),
        ({"encoding": "utf-16"}, "the encoding 'utf-16' is not a superset of ASCII"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(OptionError, match=message):
        MeshOptions(**options)


@pytest.mark.parametrize(
    ("head", "is_mesh"),
    [
        (SRILM, True),
        (b"numaligns 3", True),
        (b"\n name x \r\n numaligns 3\r\nalign", True),
        (b"name x\nnodes 3 a b c\n", False),
        (b"name x nodes 3\n", False),
        (b"numaligns three\n", False),
        (b"numaligns 3 4\n", False),
        (b"version 2\nname x\n", False),  # a posterior lattice of SRILM, which is not a mesh
        (b"", False),
    ],
)
def test_a_mesh_is_detected_by_its_first_lines(head, is_mesh):
    assert bool(FORMAT.mark(head)) is is_mesh


names = st.text("abcXYZ가é-_'<>", min_size=1, max_size=6)


@st.composite
def networks(draw):
    bins = []
    for _ in range(draw(st.integers(1, 4))):
        bin_words = draw(st.lists(st.none() | names, min_size=1, max_size=4, unique=True))
        bins.append([(word, draw(st.floats(0.0078125, 1, width=32)), None, None) for word in bin_words])
    return ConfusionNetwork.from_bins(draw(names), bins)


@given(st.lists(networks(), min_size=1, max_size=3))
def test_lattices_read_from_meshes_keep_the_posteriors(drawn_networks):
    results = read("".join(map(write_mesh, drawn_networks)).encode())
    for lattice, network in zip(results, drawn_networks, strict=True):
        check(lattice)
        entries = [(place, *entry[:2]) for place in range(network.num_bins) for entry in network.bin(place)]
        assert lattice.key == network.key
        expected = [(place, None if word == "<eps>" else word, pytest.approx(share)) for place, word, share in entries]
        assert arcs(lattice) == expected


def test_the_best_path_of_a_real_mesh_is_the_decoded_sentence():
    for lattice in archive(Path(__file__).parents[1] / "data" / "english" / "graph" / "lat.ark.gz").values():
        consensus = mbr_decode(lattice, Scales(0.1))
        (mesh,) = read(write_mesh(confusion_network(consensus)).encode())
        best = [mesh.words.word(word) for word in best_path(mesh).words if word]
        assert best == [str(word) for word in consensus.words if word]
