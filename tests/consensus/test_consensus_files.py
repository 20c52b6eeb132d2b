"""CTM, word meshes and JSON: layouts of Kaldi and SRILM, exact round trips, and rejection of damaged files."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_graph import SHARED, archive
from whole_files import network_of_json, read_meshes

from ninja.consensus import (
    ConfusionNetwork,
    confusion_network,
    consensus_ctm,
    mbr_decode,
    path_ctm,
)
from ninja.errors import FormatError, LatticeError, OptionError, SymbolError
from ninja.formats.mesh import read_mesh_lattices, write_mesh
from ninja.formats.network_json import write_network
from ninja.graph import best_path, from_arcs, path_lattice
from ninja.lattice import Lattice, Scales
from ninja.lattice.symbols import SymbolTable

KOREAN = SHARED / "golden" / "korean"
TABLE = SymbolTable([("<eps>", 0), ("the", 5), ("cat", 6), ("hat", 7)])

# All keywords of SRILM's wlat-format(5).
SRILM = """name utt1
numaligns 3
posterior 2
align 0 the 1.5 *DELETE* 0.5
reference 0 the
hyps 0 the 0 1
info 0 the 0.12 0.3 -250.5 -2.1 dh:ax 3:4
align 1 cat 1.2 hat 0.8
posterior 1 2
transposterior 1 1.9
align 2 *DELETE* 2
"""


def spoken() -> Lattice:
    return from_arcs(
        "utt-1",
        [0, 1, 1],
        [1, 2, 2],
        [5, 6, 7],
        [0.0, 0.5, 1.5],
        finals={2: 0.0},
        labels=[[1] * 12, [2] * 30, [3] * 30],
    )


words = st.text("abcXYZ가é-_'<>", min_size=1, max_size=6)
single = st.floats(0, 1, width=32)
seconds = st.none() | st.floats(0, 1000, width=32)


@st.composite
def networks(draw: st.DrawFn) -> ConfusionNetwork:
    """Draw a network with distinct words per bin, with or without times."""

    def times() -> tuple[float | None, float | None]:
        start = draw(seconds)
        return start, None if start is None else draw(st.floats(0, 100, width=32))

    bins = []
    for _ in range(draw(st.integers(0, 4))):
        bin_words = draw(st.lists(st.none() | words, max_size=4, unique=True))
        bins.append([(word, draw(single), *times()) for word in bin_words])
    return ConfusionNetwork.from_bins(draw(words), bins)


@given(st.lists(networks(), min_size=1, max_size=3))
def test_meshes_are_unchanged_after_write_and_read(
    tmp_path_factory: pytest.TempPathFactory, drawn_networks: list
) -> None:
    path = tmp_path_factory.getbasetemp() / "some.mesh"
    path.write_text("".join(write_mesh(network) for network in drawn_networks))
    for result, network in zip(read_meshes(path), drawn_networks, strict=True):
        assert result.identical(network), (result.bin(0), network.bin(0))


@given(st.lists(networks(), min_size=1, max_size=3))
def test_json_contains_the_whole_network(drawn_networks: list) -> None:
    for network in drawn_networks:
        assert network_of_json(write_network(network)).identical(network)


def test_networks_of_real_lattices_are_unchanged_after_write_and_read(tmp_path: Path) -> None:
    lattices = archive(Path(__file__).parents[1] / "data" / "english" / "graph" / "lat.ark.gz").values()
    written_networks = [confusion_network(mbr_decode(lattice, Scales(0.1))) for lattice in lattices]
    (tmp_path / "a.mesh.gz").write_bytes(gzip.compress("".join(map(write_mesh, written_networks)).encode()))
    for read in (read_meshes(tmp_path / "a.mesh.gz"), map(network_of_json, map(write_network, written_networks))):
        assert [result.identical(network) for result, network in zip(read, written_networks, strict=True)] == [
            True
        ] * len(written_networks)


def test_a_mesh_has_the_layout_of_srilm() -> None:
    network = confusion_network(mbr_decode(spoken()), 0.03, TABLE)
    assert write_mesh(network) == (
        "name utt-1\nnumaligns 5\nposterior 1\n"
        "align 0 *DELETE* 1\n"
        "align 1 the 1\ninfo 1 the 0 0.36 0 0 : :\n"
        "align 2 *DELETE* 1\n"
        "align 3 cat 0.7310586 hat 0.26894143\n"
        "info 3 cat 0.36 0.9 0 0 : :\ninfo 3 hat 0.36 0.9 0 0 : :\n"
        "align 4 *DELETE* 1\n"
    )


def test_a_network_without_a_table_has_ids_as_words() -> None:
    network = confusion_network(mbr_decode(spoken()))
    assert network.words == (None, "5", None, "6", "7", None)
    assert network.bin(3)[0] == ("6", pytest.approx(0.7310586), pytest.approx(0.12), pytest.approx(0.3))
    assert repr(network) == "ConfusionNetwork('utt-1', 5 bins, 6 entries)"


def test_meshes_of_srilm_are_normalised(tmp_path: Path) -> None:
    (tmp_path / "u.mesh").write_text(SRILM)
    (network,) = read_meshes(tmp_path / "u.mesh")
    assert network.key == "utt1"
    assert [network.bin(place) for place in range(network.num_bins)] == [
        [("the", 0.75, pytest.approx(0.12), pytest.approx(0.3)), (None, 0.25, None, None)],
        [("cat", pytest.approx(0.6), None, None), ("hat", pytest.approx(0.4), None, None)],
        [(None, 1.0, None, None)],
    ]


@pytest.mark.parametrize("times", ["0.1 inf", "inf 0.1", "-inf inf"])
def test_times_that_are_not_finite_are_ignored(tmp_path: Path, times: str) -> None:
    (tmp_path / "u.mesh").write_text(f"numaligns 1\nposterior 1\nalign 0 a 1\ninfo 0 a {times} 0 0 : :\n")
    (network,) = read_meshes(tmp_path / "u.mesh")
    assert network.bin(0) == [("a", 1.0, None, None)]


def test_a_mesh_without_a_name_has_the_name_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "utt7.mesh").write_text("numaligns 1\nposterior 1\nalign 0 a 1\nnumaligns 0\nposterior 1\n")
    assert [network.key for network in read_meshes(tmp_path / "utt7.mesh")] == ["utt7", "utt7"]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("hello world\n", 1, "expected a line of a word mesh, found 'hello world'"),
        ("numaligns -1\n", 1, "numaligns is '-1', but must be a number of positions"),
        ("name a\n", 1, "the mesh has no numaligns line"),
        ("numaligns 99999999\nposterior 1\n", 2, "position 0 of 99999999 has no align line"),
        ("numaligns 1\nalign 1 a 1\n", 2, "position 1 does not exist, because numaligns is 1"),
        ("align 0 a 1\n", 1, "expected numaligns before the first position"),
        ("numaligns 1\nalign x a 1\n", 2, "expected a position number, found 'x'"),
        ("numaligns 1\nalign 0 a\n", 2, "expected a line of a word mesh, found 'align 0 a'"),
        ("numaligns 1\nalign 0 a 1\nalign 0 b 1\n", 3, "position 0 has two align lines"),
        ("numaligns 1\nalign 0 a 1 a 1\n", 2, "'a' occurs twice at position 0"),
        ("numaligns 1\nalign 0 a b\n", 2, "the posterior of 'a' is 'b', but must be a number"),
        ("numaligns 1\nalign 0 a nan\n", 2, "the posterior of 'a' is 'nan', but must be a finite number"),
        ("numaligns 1\nposterior 0\nalign 0 a 1\n", 2, "the total posterior is 0, but must be above 0"),
        (
            "numaligns 1\nalign 0 a 1\ninfo 0 b 0 1 0 0 : :\n",
            3,
            "the info line describes 'b', which is not at position 0",
        ),
    ],
)
def test_damaged_meshes_are_refused_with_a_line_number(text: str, line: int, message: str) -> None:
    (error,) = read_mesh_lattices(text.encode(), "bad", "bad.mesh")
    assert isinstance(error, FormatError)
    assert (error.message, error.path, error.line) == (message, "bad.mesh", line)


@pytest.mark.parametrize("word", ["*DELETE*", "two words", ""])
def test_words_that_a_mesh_cannot_store_are_refused(word: str) -> None:
    network = ConfusionNetwork.from_bins("a", [[(word, 1.0, None, None)]])
    with pytest.raises(SymbolError, match=r"a word mesh cannot contain the word .*; write JSON instead"):
        write_mesh(network)


def test_infinite_posteriors_are_not_written_as_json() -> None:
    with pytest.raises(LatticeError, match="a posterior or time is not finite"):
        write_network(ConfusionNetwork.from_bins("a", [[("b", np.inf, None, None)]]))


def test_ctm_lines_are_in_seconds_with_words_or_ids() -> None:
    result = mbr_decode(spoken())
    assert consensus_ctm(result) == "utt-1 1 0.00 0.12 5 1.00\nutt-1 1 0.12 0.30 6 0.73\n"
    assert consensus_ctm(result, 0.03, TABLE) == "utt-1 1 0.00 0.36 the 1.00\nutt-1 1 0.36 0.90 cat 0.73\n"


def test_ctm_of_a_path_omits_epsilons() -> None:
    lattice = from_arcs(
        "50%", [0, 1, 2], [1, 2, 3], [5, 0, 6], [0.0] * 3, finals={3: 0.0}, labels=[[1] * 3, [2] * 4, [3] * 5]
    )
    assert path_ctm(lattice) == "50% 1 0.00 0.03 5\n50% 1 0.07 0.05 6\n"
    assert path_ctm(lattice, 0.03, 3, TABLE) == "50% 1 0.000 0.090 the\n50% 1 0.210 0.150 cat\n"
    assert consensus_ctm(mbr_decode(lattice)).startswith("50% 1 0.00 0.03 5 1.00\n")


def test_ctm_uses_state_times() -> None:
    lattice = from_arcs("t", [0, 1], [1, 2], [5, 6], [0.0] * 2, finals={2: 0.0}, time=[2, 10, 25])
    assert path_ctm(lattice) == "t 1 0.02 0.08 5\nt 1 0.10 0.15 6\n"
    assert consensus_ctm(mbr_decode(lattice)) == "t 1 0.02 0.08 5 1.00\nt 1 0.10 0.15 6 1.00\n"


def test_a_lattice_without_words_has_no_ctm_lines() -> None:
    silent = from_arcs("s", [0], [1], [0], [0.0], finals={1: 0.0}, labels=[[1]])
    assert path_ctm(silent) == ""
    assert consensus_ctm(mbr_decode(silent)) == ""


def test_ctm_of_a_lattice_without_times_is_refused() -> None:
    lattice = from_arcs("u", [0], [1], [5], [0.0], finals={1: 0.0})
    for make in (lambda: path_ctm(lattice), lambda: consensus_ctm(mbr_decode(lattice))):
        with pytest.raises(LatticeError, match=r"neither labels nor times.*use a lattice with alignments") as caught:
            make()
        assert caught.value.key == "u"


@pytest.mark.parametrize(
    "lattice",
    [
        spoken(),
        from_arcs("e", [0, 1], [1, 2], [5, 6], [0.0] * 2, finals={1: 0.0, 2: 0.0}),
        Lattice.from_arrays("o", [0, 1, 2, 2], [2, 2], [5, 6], [0.0] * 2, [0.0] * 2, [np.inf, np.inf, 0.0]),
    ],
)
def test_lattices_of_several_paths_are_refused(lattice: Lattice) -> None:
    with pytest.raises(LatticeError, match=r"not a single path; write its best path first \(ninja 1best\)"):
        path_ctm(lattice)


@pytest.mark.parametrize("frame_shift", [0.0, -0.01, float("nan"), float("inf"), 1e-60, 1e308])
def test_invalid_frame_shifts_are_refused(frame_shift: float) -> None:
    result = mbr_decode(spoken())
    for make in (consensus_ctm, confusion_network):
        with pytest.raises(OptionError, match=r"frame_shift is .*, but must be from 1e-6 to 1e6 seconds"):
            make(result, frame_shift)
    with pytest.raises(OptionError, match=r"frame_shift is .*, but must be from 1e-6 to 1e6 seconds"):
        path_ctm(path_lattice(spoken(), best_path(spoken())), frame_shift)


@pytest.mark.parametrize("precision", [-1, 101])
def test_invalid_precisions_are_refused(precision: int) -> None:
    with pytest.raises(OptionError, match=r"precision is .*, but must be from 0 to 100"):
        path_ctm(path_lattice(spoken(), best_path(spoken())), precision=precision)


def test_a_word_id_outside_the_table_is_refused() -> None:
    lattice = from_arcs("x", [0], [1], [99], [0.0], finals={1: 0.0}, labels=[[1]])
    for make in (
        lambda: path_ctm(lattice, words=TABLE),
        lambda: consensus_ctm(mbr_decode(lattice), words=TABLE),
        lambda: confusion_network(mbr_decode(lattice), words=TABLE),
    ):
        with pytest.raises(SymbolError, match="word id 99 is not in the symbol table"):
            make()


def golden(name: str) -> tuple[list[Lattice], str]:
    lattices = archive(KOREAN / ("align_words.ark.gz" if name.endswith("aligned") else "lat.ark.gz"))
    return list(lattices.values()), gzip.decompress((KOREAN / f"{name}.gz").read_bytes()).decode()


@pytest.mark.parametrize("name", ["ctm_conf", "ctm_conf_map", "ctm_conf_aligned"])
def test_ctm_lines_agree_with_lattice_to_ctm_conf(name: str) -> None:
    lattices, expected = golden(name)
    shift = 0.03 if name == "ctm_conf_aligned" else 0.01
    ctm_lines = [consensus_ctm(mbr_decode(lattice, decode_mbr=name != "ctm_conf_map"), shift) for lattice in lattices]
    assert "".join(ctm_lines) == expected


def test_ctm_lines_of_best_paths_agree_with_nbest_to_ctm() -> None:
    lattices, expected = golden("ctm_best_aligned")
    assert "".join([path_ctm(path_lattice(lattice, best_path(lattice)), 0.03) for lattice in lattices]) == expected
