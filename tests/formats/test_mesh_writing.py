"""Lattices as word meshes: those from meshes are written back unchanged, others with the posteriors of their paths."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_graph import archive
from reference_mesh import slow_columns

import ninja as package
from ninja import consensus
from ninja.consensus import confusion_network, mbr_decode
from ninja.errors import FormatError, LatticeError, OptionError, SymbolError
from ninja.formats.mesh import Mesh, MeshOptions, read_mesh_lattices, write_mesh
from ninja.graph import from_arcs
from ninja.lattice import Lattice, Scales
from ninja.lattice.symbols import SymbolTable

PATHS = "paths and their costs"
TABLE = SymbolTable([("<eps>", 0), ("the", 5), ("cat", 6), ("hat", 7)])
OURS = """name utt1
numaligns 4
posterior 1
align 0 the 0.6 a 0.3 *DELETE* 0.1
info 0 the 0.1 0.2 0 0 : :
info 0 a 0.1 0.2 0 0 : :
align 1 *DELETE* 1
align 2 *DELETE* 0.75 cat 0.15
posterior 2 0.9
info 2 cat 0.3 0.25 0 0 : :
align 3 sat 0.3333333 sad 0.3333333 set 0.3333334
info 3 sat 0.55 0 0 0 : :
info 3 sad 0.55 0 0 0 : :
info 3 set 0.55 0 0 0 : :
"""


def read(text, **options):
    (lattice,) = read_mesh_lattices(text.encode(), "k", "m", None, MeshOptions(**options))
    return lattice


def lattice_mesh(lattice, acoustic_scale=1.0, lm_scale=1.0, **options):
    """Return the mesh of a lattice as text."""
    return write_mesh(consensus.lattice_mesh(lattice, Scales(acoustic_scale, lm_scale), **options)[0])


def is_whole(lattice, acoustic_scale=1.0, lm_scale=1.0):
    """Return whether the positions of a lattice represent its paths and costs completely."""
    return consensus.lattice_mesh(lattice, Scales(acoustic_scale, lm_scale))[1]


def lost_fields(lattice, path, **options):
    """Return the fields of a lattice that a writer reports as lost."""
    with package.write(path, **options) as output:
        output.write(lattice)
    return {*output.lost}


def columns(text):
    """Return the words of each position with their posteriors, in order, with times."""
    mesh = Mesh("m", 1)
    for number, row in enumerate(text.splitlines(), start=1):
        mesh.add(row, number)
    return mesh.bins()


def are_equal(first, second):
    """Return whether two lattices agree bit for bit, with words compared by name."""
    names = [field.name for field in fields(Lattice) if field.name not in ("words", "time")]
    return all(np.array_equal(getattr(first, name), getattr(second, name)) for name in names) and (
        np.array_equal(first.time, second.time) and first.words.spell(first.word) == second.words.spell(second.word)
    )


def row(*positions, **options):
    """Return a lattice of consecutive positions, each a list of (word, graph cost, acoustic cost)."""
    src = [place for place, arcs in enumerate(positions) for _ in arcs]
    word, graph, acoustic = zip(*(arc for arcs in positions for arc in arcs), strict=True)
    dst = [place + 1 for place in src]
    return from_arcs("row", src, dst, word, graph, acoustic, finals={len(positions): 0.0}, **options)


def test_a_mesh_is_written_back_byte_for_byte():
    lattice = read(OURS, least=0.0)
    assert lattice_mesh(lattice) == OURS
    assert is_whole(lattice)


@pytest.mark.parametrize("scale", [0.0, 0.1, 7.0])
def test_the_acoustic_scale_does_not_change_a_mesh(scale):
    assert lattice_mesh(read(OURS), scale) == OURS


def test_posteriors_are_normalised_and_shortened():
    text = "name u\nnumaligns 1\nposterior 2\nalign 0 a 1.20 b 0.6000 *DELETE* 2e-1\n"
    assert lattice_mesh(read(text)) == "name u\nnumaligns 1\nposterior 1\nalign 0 a 0.6 b 0.3 *DELETE* 0.1\n"


@st.composite
def meshes(draw):
    """Draw a mesh in SRILM's form, with posteriors that add up to at most 1, and whether it has times."""
    word = st.none() | st.text("abcXYZ가é-_'<>", min_size=1, max_size=3).filter(lambda name: name != "<eps>")
    size = draw(st.integers(1, 6))
    timed = draw(st.booleans())
    time = sorted(draw(st.lists(st.integers(0, 5000), min_size=size + 1, max_size=size + 1)))
    digits = draw(st.sampled_from([4, 6, 9]))
    lines = ["name u", f"numaligns {size}", "posterior 1"]
    for place in range(size):
        words = draw(st.lists(word, min_size=1, max_size=5, unique=True))
        share = [draw(st.floats(1e-3, 1)) for _ in words]
        total = draw(st.just(1.0) | st.floats(0.52, 1))
        spelled = [name or "*DELETE*" for name in words]
        pairs = [f"{name} {part * total / sum(share):.{digits}g}" for name, part in zip(spelled, share, strict=True)]
        lines.append(" ".join([f"align {place}", *pairs]))
        if timed:
            start, duration = time[place] / 100, (time[place + 1] - time[place]) / 100
            lines += [f"info {place} {name} {start:g} {duration:.4g} 0 0 : :" for name in spelled]
    return "\n".join(lines) + "\n", np.array(time) if timed else None


@given(meshes())
def test_meshes_are_equivalent_after_read_and_write(example):
    text, time = example
    lattice = read(text)
    assert np.array_equal(lattice.time, time)
    back = lattice_mesh(lattice)
    assert is_whole(lattice)
    assert are_equal(read(back), lattice)
    assert lattice_mesh(read(back)) == back
    for before, after in zip(columns(text), columns(back), strict=True):
        assert [word for word, *_ in after] == [word for word, *_ in before]
        assert [share for _, share, *_ in after] == pytest.approx([share for _, share, *_ in before], abs=1e-6)


@st.composite
def rows(draw):
    """Draw a lattice of consecutive positions, which may contain a word several times, and scales."""
    cost = st.floats(-8, 8, width=32)
    arcs = st.lists(st.tuples(st.sampled_from([0, 5, 6, 7]), cost, cost), min_size=1, max_size=4)
    lattice = row(*draw(st.lists(arcs, min_size=1, max_size=4)), words=TABLE)
    scale = st.sampled_from([0.0, 0.1, 1.0, 2.0])
    return lattice, {"acoustic_scale": draw(scale), "lm_scale": draw(scale)}


@given(rows())
def test_posteriors_of_positions_agree_with_a_slow_computation(example):
    lattice, scales = example
    text = lattice_mesh(lattice, **scales)
    expected = slow_columns(lattice, **scales)
    whole = is_whole(lattice, **scales)  # whether its graph costs can be posteriors
    for entries, column in zip(columns(text), expected, strict=True):
        assert whole or sum(share for _, share, *_ in entries) == pytest.approx(1.0, abs=1e-6)
        shares = {TABLE.word(word): share for word, share in column.items()}
        mass = sum(share for _, share, *_ in entries) if whole else 1.0
        assert {word or "<eps>": share / mass for word, share, *_ in entries} == pytest.approx(shares, abs=1e-6)
        assert whole or sorted(entries, key=lambda entry: -entry[1]) == entries


def test_posteriors_of_equal_words_are_summed_and_sorted():
    lattice = row([(5, 1.0, 2.0), (6, 0.0, 2.0), (5, 1.0, 2.0), (0, 1.0, 2.0)], [(7, 4.0, 4.0)], words=TABLE)
    text = lattice_mesh(lattice)
    first = math.e + 3
    assert columns(text) == [
        [
            ("cat", pytest.approx(math.e / first), None, None),
            ("the", pytest.approx(2 / first), None, None),
            (None, pytest.approx(1 / first), None, None),
        ],
        [("hat", 1.0, None, None)],
    ]
    assert not is_whole(lattice)


POSTERIORS = row([(5, -math.log(0.6), 0.0), (6, -math.log(0.3), 0.0)], words=TABLE)


@pytest.mark.parametrize(
    ("lattice", "lm_scale", "first"),
    [
        (POSTERIORS, 1.0, "the 0.6 cat 0.3\nposterior 0 0.9"),
        (POSTERIORS, 2.0, "the 0.8 cat 0.2"),
        (POSTERIORS.with_costs(POSTERIORS.graph, np.array([1, 1], np.float32)), 1.0, "the 0.66666667 cat 0.33333333"),
        (POSTERIORS.with_costs(POSTERIORS.graph + np.float32(1.0)), 1.0, "the 0.66666667 cat 0.33333333"),
        (POSTERIORS.with_costs(POSTERIORS.graph - np.float32(1.0)), 1.0, "the 0.66666667 cat 0.33333333"),
        (replace(POSTERIORS, final_graph=np.array([np.inf, 1], np.float32)), 1.0, "the 0.66666667 cat 0.33333333"),
        (replace(POSTERIORS, word=np.array([5, 5], np.int32)), 1.0, "the 1"),
    ],
)
def test_graph_costs_are_posteriors_only_if_they_are_valid(lattice, lm_scale, first):
    text = lattice_mesh(lattice, 1.0, lm_scale)
    assert text == f"name row\nnumaligns 1\nposterior 1\nalign 0 {first}\n"
    assert is_whole(lattice, 1.0, lm_scale) == ("posterior" in first)


def test_a_word_with_zero_probability_is_written():
    lattice = row([(5, 0.0, 0.0), (6, 2000.0, 0.0)], [(7, 5.0, 0.0)], words=TABLE)
    assert "align 0 the 1 cat 0\n" in lattice_mesh(lattice)


def test_other_lattices_are_aligned_and_empty_bins_dropped():
    lattice = from_arcs(
        "u", [0, 0, 1, 1], [1, 2, 2, 2], [5, 6, 6, 7], [0.0, 1.0, 0.5, 1.5], finals={2: 0.0}, words=TABLE
    )
    network = confusion_network(mbr_decode(lattice, Scales(0.5)), words=TABLE)
    text = lattice_mesh(lattice, 0.5)
    non_empty = [
        network.bin(place)
        for place in range(network.num_bins)
        if any(word is not None for word, *_ in network.bin(place))
    ]
    assert network.num_bins == 5
    assert len(non_empty) == 2
    assert [[entry[:2] for entry in column] for column in columns(text)] == [
        [(word, pytest.approx(share)) for word, share, *_ in entries] for entries in non_empty
    ]
    assert not is_whole(lattice)


def test_meshes_of_real_lattices_agree_with_networks_without_empty_bins():
    for lattice in archive(Path(__file__).parents[1] / "data" / "english" / "graph" / "lat.ark.gz").values():
        text = lattice_mesh(lattice, 0.1)
        whole = write_mesh(confusion_network(mbr_decode(lattice, Scales(0.1))))
        assert [row.split(" ", 2)[2] for row in text.splitlines() if row.startswith(("align", "info"))] == [
            row.split(" ", 2)[2]
            for row in whole.splitlines()
            if row.startswith(("align", "info")) and row.split(" ", 2)[2] != "*DELETE* 1"
        ]
        assert is_whole(read(text))


def test_paths_that_end_early_are_aligned():
    lattice = from_arcs("u", [0, 1], [1, 2], [5, 6], [0.0, 0.0], finals={1: 0.0, 2: 0.0}, words=TABLE)
    assert columns(lattice_mesh(lattice))[1] == [("cat", 0.5, None, None), (None, 0.5, None, None)]


def test_states_on_no_path_have_no_effect():
    lattice = Lattice.from_arrays(
        "row",
        [0, 3, 3, 4, 4],
        [1, 2, 2, 3],
        [5, 6, 7, 7],
        [9.0, -math.log(0.75), -math.log(0.25), 0.0],
        [3.0, 0, 0, 0],
        [math.inf] * 3 + [0.0],
        words=TABLE,
    )
    assert lattice_mesh(lattice) == "name row\nnumaligns 2\nposterior 1\nalign 0 cat 0.75 hat 0.25\nalign 1 hat 1\n"


def test_the_empty_sentence_has_no_positions():
    text = "name e\nnumaligns 0\nposterior 1\n"
    assert lattice_mesh(read(text)) == text


@pytest.mark.parametrize(
    ("time", "infos"),
    [
        ([0, 10, 30, 30], ["1 the 0.1 0.2"]),  # without an info line, the first position would have no duration
        ([10, 10, 30, 30], ["1 the 0.1 0.2"]),
        ([10, 10, 30, 50], ["1 the 0.1 0.2"]),
    ],
)
def test_positions_without_words_have_times_only_if_required(time, infos):
    lattice = row([(0, 0.0, 0.0)], [(5, 0.0, 0.0)], [(0, 0.0, 0.0)], time=time, words=TABLE)
    text = lattice_mesh(lattice)
    info_rows = [
        row.removeprefix("info ").removesuffix(" 0 0 : :") for row in text.splitlines() if row.startswith("info")
    ]
    assert [info for info in info_rows if "*DELETE*" not in info] == infos
    assert len(info_rows) == (1 if time == [10, 10, 30, 30] else 3)
    assert read(text).time.tolist() == time


def test_positions_without_any_words_have_times():
    lattice = row([(0, 0.0, 0.0)], [(0, 0.0, 0.0)], time=[3, 7, 7], words=TABLE)
    assert read(lattice_mesh(lattice)).time.tolist() == [3, 7, 7]


def test_an_epsilon_among_words_has_no_times():
    lattice = row([(5, 1.0, 0.0), (0, 0.5, 0.0)], [(0, 0.0, 0.0)], time=[0, 10, 30], words=TABLE)
    info_rows = [row for row in lattice_mesh(lattice).splitlines() if row.startswith("info")]
    assert info_rows == ["info 0 the 0 0.1 0 0 : :", "info 1 *DELETE* 0.1 0.2 0 0 : :"]


def test_the_frame_shift_of_the_lattice_overrides_the_option():
    lattice = row([(5, 0.0, 0.0)], time=[1, 3], words=TABLE)
    assert "info 0 the 0.01 0.02 0 0 : :\n" in lattice_mesh(lattice)
    assert "info 0 the 0.04 0.08 0 0 : :\n" in lattice_mesh(lattice, frame_shift=0.04)
    assert "info 0 the 0.03 0.06 0 0 : :\n" in lattice_mesh(replace(lattice, frame_shift=0.03), frame_shift=0.04)


@pytest.mark.parametrize(
    ("lattice", "lost"),
    [
        (row([(5, 0.0, 0.0)], labels=[[1] * 9], words=TABLE), ("alignments",)),
        (replace(row([(5, 0.0, 0.0)], labels=[[1]], words=TABLE), kind="raw"), ("alignments", "raw kind")),
        (replace(row([(5, 0.0, 0.0)], time=[1, 3], words=TABLE), frame_shift=0.03), ("frame shift",)),
        (Lattice.from_arrays("e", [0, 0], [], [], [], [], [0.0], time=[0]), ("times",)),
        (row([(5, 0.0, 1.0)], words=TABLE), (PATHS,)),
        (row([(5, 0.0, 0.0), (5, 9.0, 0.0)], words=TABLE), (PATHS,)),
    ],
)
def test_fields_that_a_mesh_cannot_store_are_reported(lattice, lost, tmp_path):
    assert lost_fields(lattice, tmp_path / f"{lattice.key}.mesh") == {*lost}


def test_times_are_computed_from_labels():
    lattice = row([(5, 0.0, 0.0)], [(6, 0.0, 0.0)], labels=[[1] * 12, [2] * 30], words=TABLE)
    assert [row for row in lattice_mesh(lattice).splitlines() if row.startswith("info")] == [
        "info 0 the 0 0.12 0 0 : :",
        "info 1 cat 0.12 0.3 0 0 : :",
    ]


def test_raw_lattices_are_converted_to_compact_first():
    lattice = from_arcs(
        "r", [0, 1, 2], [1, 2, 3], [5, 0, 6], [0.0] * 3, finals={3: 0.0}, labels=[[1], [1], [2]], words=TABLE
    )
    text = lattice_mesh(replace(lattice, kind="raw"))
    assert [row for row in text.splitlines() if row.startswith("align")] == ["align 0 the 1", "align 1 cat 1"]


def test_word_ids_are_written_if_there_is_no_symbol_table():
    assert "align 0 5 1\n" in lattice_mesh(row([(5, 0.0, 0.0)]))


def test_words_can_contain_unicode_spaces():
    text = "name u\nnumaligns 1\nposterior 1\nalign 0 a\u00a0b 0.6 \u2028c 0.4\n"
    assert lattice_mesh(read(text)) == text


def test_write_converts_a_lattice_to_a_mesh_and_reports_losses(tmp_path):
    assert lost_fields(read(OURS), tmp_path / "utt1.mesh", lossy="refuse") == set()
    assert (tmp_path / "utt1.mesh").read_text() == OURS
    assert lost_fields(row([(5, 0.0, 1.0)], words=TABLE), tmp_path / "b.mesh") == {PATHS}
    with pytest.raises(LatticeError, match="mesh cannot store: paths and their costs"):
        lost_fields(row([(5, 0.0, 1.0)], words=TABLE), tmp_path / "c.mesh", lossy="refuse")


@pytest.mark.parametrize(
    ("lattice", "message"),
    [
        (
            row([(1, 0.0, 0.0)], words=SymbolTable.from_words(["<eps>", "two words"])),
            "cannot contain the word 'two words'",
        ),
        (row([(1, 0.0, 0.0)], words=SymbolTable.from_words(["<eps>", "*DELETE*"])), "cannot contain the word"),
        (row([(9, 0.0, 0.0)], words=TABLE), "word id 9 is not in the symbol table"),
        (row([(5, 0.0, 0.0)], words=TABLE).with_key("row 1"), "the key 'row 1' is empty or contains whitespace"),
    ],
)
def test_words_and_keys_that_a_mesh_cannot_store_are_refused(lattice, message, tmp_path):
    with pytest.raises((LatticeError, SymbolError), match=message) as caught:
        lost_fields(lattice, tmp_path / "a.mesh")
    assert caught.value.key == lattice.key


def test_lattices_without_paths_and_invalid_numbers_are_refused():
    with pytest.raises(LatticeError, match="no path leads from the start to a final state"):
        lattice_mesh(Lattice.from_arrays("n", [0, 0, 0], [], [], [], [], [math.inf, 0.0]))
    with pytest.raises(OptionError, match=r"frame_shift is 0\.0, but must be from"):
        lattice_mesh(POSTERIORS, frame_shift=0.0)
    with pytest.raises(OptionError, match="acoustic_scale is nan"):
        lattice_mesh(POSTERIORS, math.nan)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("posterior 1 1", "position 1 does not exist, because numaligns is 1"),
        ("posterior x 1", "expected a position number, found 'x'"),
        ("posterior 0 nan", "the posterior of a position is 'nan', but must be a finite number"),
    ],
)
def test_damaged_posteriors_of_positions_are_refused(line, message):
    (error,) = read_mesh_lattices(f"numaligns 1\nalign 0 a 1\n{line}\n".encode(), "k", "m")
    assert isinstance(error, FormatError)
    assert message in str(error)


def test_convert_leaves_meshes_unchanged(ninja, tmp_path):
    (tmp_path / "a.mesh").write_text(OURS)
    code, out, _ = ninja("convert", tmp_path / "a.mesh", "--lossy", "refuse", "--to", "mesh", "-o", "-")
    assert (code, out) == (0, OURS)
    code, out, _ = ninja("convert", tmp_path / "a.mesh", "--to", "mesh:lm_scale=2", "-o", "-")
    assert code == 0
    assert "\nalign 2 *DELETE* 0.96153846 cat 0.03846154\n" in out
