"""The fields that an output reports as lost are exactly those that are missing after reading it."""

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from lattice_files import write_all
from strategies import lattices
from strategies_text import lattice_of
from whole_files import read_objects

import ninja
from ninja.errors import LatticeError
from ninja.formats.fst_binary import read_fst
from ninja.formats.fst_text import read_fst_text
from ninja.formats.k2 import read_k2s
from ninja.formats.kaldi.fst_archive import read_fst_archive
from ninja.formats.native import NativeFile
from ninja.formats.nbest.espnet import read_espnet_folder
from ninja.formats.nbest.kaldi import joined
from ninja.formats.nbest.nemo import read_nemo
from ninja.formats.nbest.srilm import SrilmOptions, read_srilm
from ninja.formats.pfsg import read_pfsgs
from ninja.formats.plf import PlfOptions, read_plfs
from ninja.formats.slf import SlfOptions, read_slf
from ninja.formats.sphinx import read_sphinx
from ninja.graph import lattice_nbest, nbest_lattice
from ninja.lattice import Lattice
from ninja.lattice.nbest import Hypothesis, NBest, sentence
from ninja.lattice.symbols import SymbolTable

WORDS = SymbolTable.from_words(["<eps>", "a", "b", "c", "d", "e"])
COSTS = {"graph", "acoustic", "final_graph", "final_acoustic"}


def best(lattice):
    """Return the word sequences of all paths, each with its lowest costs in float64."""
    costs = {}
    for hypothesis in lattice_nbest(lattice, 10_000).hypotheses:
        costs.setdefault(hypothesis.words, (hypothesis.graph_cost, hypothesis.acoustic_cost))
    return costs


def read_kaldi(path, _):
    return next(ninja.read(str(path), words=WORDS))[1]


READERS = {
    "slf": lambda path, key: read_slf(path.read_bytes(), "", None, WORDS, SlfOptions(key="utterance")),
    "sphinx": lambda path, key: read_sphinx(path.read_bytes(), key, None, WORDS),
    "pfsg": lambda path, key: next(read_pfsgs(path.read_bytes(), None, WORDS)),
    "plf": lambda path, key: next(read_plfs(path.read_bytes(), None, WORDS, PlfOptions("score"))),
    "openfst": lambda path, key: read_fst(path.read_bytes(), key),
    "fst-text": lambda path, key: read_fst_text(path.read_bytes(), key, None, WORDS),
    "fst-ark": lambda path, key: next(read_fst_archive(path.read_bytes()))[1],
    "k2": lambda path, key: next(read_k2s(path.read_bytes())),
    "native": lambda path, key: next(iter(NativeFile(path.read_bytes()))),
    "binary": read_kaldi,
    "text": read_kaldi,
}
EXTENSIONS = {"slf": ".slf", "sphinx": ".sphinx", "openfst": ".fst", "fst-text": ".att"}


def round_trip(lattice, to, reader=None, **options):
    """Write a lattice to a file that does not contain its key, and read it."""
    form = to.partition(":")[0]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"x{EXTENSIONS.get(form, '')}")
        with ninja.write(str(path), to=to, **options) as output:
            output.write(lattice)
        return (reader or READERS[form])(path, "x"), dict(output.lost)


@st.composite
def whole_lattices(draw):
    """Draw a lattice with any field that a lattice may have."""
    lattice = draw(lattices(max_states=5, kind="any")).with_words(WORDS)
    nonzero = draw(st.sampled_from(["both", "graph", "acoustic", "none", "odd"]))
    zero = np.zeros_like(lattice.graph)
    ends = np.where(lattice.is_final, np.float32(0), np.float32(np.inf))
    if nonzero in ("acoustic", "none"):
        lattice = replace(lattice, graph=zero, final_graph=ends)
    if nonzero in ("graph", "none"):
        lattice = replace(lattice, acoustic=zero, final_acoustic=ends)
    if nonzero == "odd":
        lattice = replace(lattice, graph=np.float32(lattice.graph / 3), acoustic=np.float32(lattice.acoustic * 1.0001))
    labelled = len(lattice.ali) + len(lattice.final_ali) > 0
    if draw(st.booleans()) and not labelled:
        times = sorted(draw(st.lists(st.integers(0, 90), min_size=lattice.num_states, max_size=lattice.num_states)))
        lattice = replace(lattice, time=np.array(times, np.int32), frame_shift=0.01)
    elif draw(st.booleans()):
        lattice = replace(lattice, frame_shift=draw(st.sampled_from([0.01, 0.03])))
    return lattice.with_key(draw(st.sampled_from(["x", "1", "utt"])))


# A drawn key can equal the number of the lattice, but keys of these formats contain the file name (FILE-1).
MAKES_KEYS = ("plf", "plf:scores=both", "k2:extras=false")


def missing_fields(lattice, result):
    """Return the fields of a lattice that the result, which has the same states, does not have."""
    lost = set()
    labelled = len(lattice.ali) + len(lattice.final_ali) > 0
    if not all(
        np.array_equal(getattr(lattice, name), getattr(result, name)) for name in ("ali", "final_ali", "ali_begin")
    ):
        lost.add("alignments")
    if lattice.time is not None and not np.array_equal(lattice.time, result.time):
        lost.add("times")
    if lattice.kind != result.kind:
        lost.add("raw kind")
    if labelled and "alignments" not in lost and lattice.frame_shift not in (None, 0.01, result.frame_shift):
        lost.add("frame shift")
    if lattice.key != result.key:
        lost.add("key")
    return lost


@given(whole_lattices())
@pytest.mark.parametrize(
    "to", ["slf", "slf:base=10", "slf:base=0", "k2", "k2:extras=false", "native", "binary", "text", "plf"]
)
def test_fields_not_reported_as_lost_are_unchanged_after_write_and_read(to, lattice):
    reader = None
    if to == "plf":
        to, options = "plf:scores=both", PlfOptions("score", acoustic=1)
        reader = lambda path, key: next(read_plfs(path.read_bytes(), None, WORDS, options))  # noqa: E731
    assume(to != "text" or lattice.num_arcs)  # in Kaldi's text, only arcs determine the kind
    back, lost = round_trip(lattice, to, reader)
    same_costs = all(np.array_equal(getattr(lattice, name), getattr(back, name)) for name in COSTS)
    renumbered = {"key"} if to in MAKES_KEYS else set()
    assert {*lost} == missing_fields(lattice, back) | renumbered
    assert np.array_equal(lattice.dst, back.dst)
    assert np.array_equal(lattice.word, back.word)
    assert same_costs or to in ("text", "slf:base=0")
    assert not lost or {*lost.values()} == {1}
    if not lost and same_costs:
        assert replace(lattice, frame_shift=None).identical(replace(back, frame_shift=None))


@settings(max_examples=12)
@given(whole_lattices(), st.sampled_from(["total", "graph", "acoustic"]))
@pytest.mark.parametrize("to", ["openfst", "fst-text", "fst-ark", "fst-ark:text=true", "plf", "openfst:arc_type=log64"])
def test_formats_of_one_cost_report_exactly_the_lost_fields(to, lattice, costs):
    option = "scores" if to == "plf" else "costs"
    back, lost = round_trip(lattice, f"{to}{',' if ':' in to else ':'}{option}={costs}")
    final = lattice.is_final
    graph = lattice.graph.any() or lattice.final_graph[final].any()
    acoustic = lattice.acoustic.any() or lattice.final_acoustic[final].any()
    expected = missing_fields(lattice, back) | ({"key"} if to in MAKES_KEYS else set())
    if acoustic and costs != "graph":  # it is read as graph cost
        expected |= {"separate graph and acoustic costs"}
    if costs == "total":
        expected_costs = lattice.graph.astype(np.float64) + lattice.acoustic
    else:
        is_nonzero = acoustic if costs == "graph" else graph
        expected |= {f"{'acoustic' if costs == 'graph' else 'graph'} costs"} if is_nonzero else set()
        expected_costs = getattr(lattice, costs)
    assert {*lost} == expected
    assert np.array_equal(back.graph, expected_costs.astype(np.float32))
    assert not back.acoustic.any()
    assert np.array_equal(lattice.word, back.word)


@given(whole_lattices())
def test_sphinx_reports_exactly_the_lost_fields(lattice):
    try:
        back, lost = round_trip(lattice, "sphinx")
    except LatticeError as error:
        assume("words on nodes" not in str(error))
        raise
    assert {*lost} - {"graph costs", "frame shift"} == (
        {"alignments"} if len(lattice.ali) + len(lattice.final_ali) else set()
    ) | ({"raw kind"} if lattice.kind == "raw" else set()) | ({"key"} if lattice.key != "x" else set())
    timed = lattice.time is not None or len(lattice.ali) + len(lattice.final_ali) > 0
    assert ("frame shift" in lost) == (timed and lattice.frame_shift == 0.03)
    assert {*best(lattice)} == {*best(back)}
    graph = lattice.graph.any() or lattice.final_graph[lattice.is_final].any()
    assert ("graph costs" in lost) == bool(graph)
    if lattice.time is not None:
        assert {*back.time.tolist()} <= {*lattice.time.tolist(), int(lattice.time[lattice.is_final].max())}


@settings(max_examples=12)
@given(whole_lattices())
@pytest.mark.parametrize("form", ["sphinx", "pfsg"])
def test_lattices_read_from_sphinx_or_pfsg_are_rewritten_without_loss(form, lattice):
    try:
        node_lattice, _ = round_trip(lattice.with_key("x"), form)
        back, lost = round_trip(node_lattice, form)
    except LatticeError as error:
        assume("words on nodes" not in str(error))
        raise
    assert lost == {}
    assert node_lattice.identical(back)


@settings(max_examples=12)
@given(whole_lattices())
def test_pfsg_reports_exactly_the_lost_fields(lattice):
    try:
        back, lost = round_trip(lattice, "pfsg")
    except LatticeError as error:
        assume("words on nodes" not in str(error))
        raise
    final = lattice.is_final
    acoustic = bool(lattice.acoustic.any() or lattice.final_acoustic[final].any())
    assert {*lost} == {
        name
        for name, is_lost in [
            ("alignments", len(lattice.ali) + len(lattice.final_ali) > 0),
            ("times", lattice.time is not None),
            ("raw kind", lattice.kind == "raw"),
            ("separate graph and acoustic costs", acoustic),  # it is read as graph cost
        ]
        if is_lost
    }
    assert back.key == lattice.key


def lists(labels=True):
    """Draw lists of hypotheses with any field that they may have."""
    cost = st.sampled_from([0.0, 0.0, 1.5, -2.25, 1 / 3, 1e3 + 1 / 7])

    @st.composite
    def nbest_lists(draw):
        timed, labelled = draw(st.booleans()), labels and draw(st.booleans())
        hypotheses = []
        for _ in range(draw(st.integers(1, 3))):
            words = tuple(draw(st.lists(st.sampled_from("abcde"), min_size=1, max_size=3)))
            count = len(words)
            graph, acoustic = (tuple(draw(cost) for _ in range(count + 1)) for _ in range(2))
            moments = sorted(draw(st.lists(st.integers(0, 50), min_size=2 * count, max_size=2 * count, unique=True)))
            begin, end = (tuple(moments[::2]), tuple(moments[1::2])) if timed else (None, None)
            alignment = tuple((7,) * draw(st.integers(0, 2)) for _ in range(count + 1)) if labelled else None
            hypotheses.append(Hypothesis(words, graph, acoustic, begin, end, alignment))
        return NBest(draw(st.sampled_from(["x", "1", "utt"])), tuple(hypotheses), 0.01 if timed else None)

    return nbest_lists()


LIST_READERS = {
    "json": lambda path: read_objects(path.read_bytes())[0],
    "srilm": lambda path: read_srilm(path.read_bytes(), path.stem, None, SrilmOptions()),
    "nemo": lambda path: next(iter(read_nemo(path.read_bytes(), ["1"]))),
    "espnet": lambda path: read_espnet_folder(path)[0],
    "nbest-kaldi": lambda path: next(joined(lattice for _, lattice in ninja.read(str(path)))),
}


@given(lists())
@pytest.mark.parametrize("to", ["json", "srilm", "srilm:variant=NBestList1.0", "nemo", "espnet", "nbest-kaldi"])
def test_fields_of_lists_not_reported_as_lost_are_unchanged(to, nbest):
    form = to.partition(":")[0]
    back, lost = list_round_trip(nbest, to)
    expected = set()
    pairs = list(zip(nbest.hypotheses, back.hypotheses, strict=True))
    if any(any(hypothesis.labels or ()) and hypothesis.labels != result.labels for hypothesis, result in pairs):
        expected.add("alignments")
    labels_back = form == "nbest-kaldi" and all(any(hypothesis.labels or ()) for hypothesis, _ in pairs)
    if any(hypothesis.begin != result.begin for hypothesis, result in pairs) and not labels_back:
        expected.add("times")
    if form != "nbest-kaldi" and any(
        any(hypothesis.graph[:-1]) or any(hypothesis.acoustic[:-1]) for hypothesis, _ in pairs
    ):
        expected.add("word costs")
    score_pairs = [(hypothesis.graph_cost, hypothesis.acoustic_cost) for hypothesis, _ in pairs]
    single_score = form in ("nemo", "espnet") or "NBest" in to
    if single_score and any(graph for graph, _ in score_pairs):  # they are read as acoustic costs
        expected.add("separate graph and acoustic costs")
    if nbest.key != back.key or form == "nemo":  # NeMo has keys only in the manifest
        expected.add("key")
    totals = [
        (sum(pair), result.graph_cost + result.acoustic_cost)
        for pair, (_, result) in zip(score_pairs, pairs, strict=True)
    ]
    assert {*lost} == expected
    if "NBest" not in to:
        assert all(total == pytest.approx(written_total, rel=1e-6) for total, written_total in totals)
    if not single_score:
        for pair, (_, result) in zip(score_pairs, pairs, strict=True):
            assert (result.graph_cost, result.acoustic_cost) == pytest.approx(pair, rel=1e-6)


def list_round_trip(nbest, to):
    form = to.partition(":")[0]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.nbest" if form == "srilm" else "x")
        with ninja.write(str(path), to=to, words=WORDS if form == "nbest-kaldi" else None) as output:
            output.write(nbest)
        back = LIST_READERS[form](path)
    if form == "nbest-kaldi":
        back = replace(
            back,
            hypotheses=tuple(
                replace(hypothesis, words=tuple(WORDS.spell(hypothesis.words))) for hypothesis in back.hypotheses
            ),
        )
    return back, dict(output.lost)


@given(lists(labels=False).filter(lambda nbest: nbest.frame_shift is not None))
def test_nbestlist2_keeps_times_and_costs_of_words(nbest):
    back, lost = list_round_trip(nbest, "srilm:variant=NBestList2.0")
    pairs = list(zip(nbest.hypotheses, back.hypotheses, strict=True))
    assert {*lost} - {"key"} == (
        {"separate graph and acoustic costs"} if any(hypothesis.graph[-1] for hypothesis, _ in pairs) else set()
    )
    assert ("key" in lost) == (nbest.key != "x")
    assert all(
        (hypothesis.words, hypothesis.begin, hypothesis.end) == (result.words, result.begin, result.end)
        for hypothesis, result in pairs
    )


def test_nbestlist2_reports_a_lost_frame_shift():
    nbest = NBest("x", (Hypothesis(("a",), (0.0, 0.0), (0.0, 0.0), (11,), (28,)),), 0.001)
    assert list_round_trip(nbest, "srilm:variant=NBestList2.0")[1] == {"frame shift": 1}


def test_nbestlist2_gives_words_of_zero_duration_a_frame_and_reports_it():
    nbest = NBest("x", (Hypothesis(("a", "b"), (0.0,) * 3, (0.0,) * 3, (5, 5), (5, 9)),), 0.01)
    back, lost = list_round_trip(nbest, "srilm:variant=NBestList2.0")
    assert (back.hypotheses[0].begin, back.hypotheses[0].end) == ((5, 6), (6, 9))
    assert lost == {"times": 1}


LABELLED = Lattice.from_arrays(
    "k", [0, 1, 1], [1], [1], [1 / 3], [2 / 3], [np.inf, 0.5], ali_begin=[0, 1], ali=[7], kind="raw", words=WORDS
)
TIMED = lattice_of([(0, 1, 1, 1.5, 2.0)], {1: (0.0, 0.25)}, times=[0, 9]).with_words(WORDS)
LIST = NBest("k", (Hypothesis(("a",), (1.0, 0.0), (2.0, 1 / 3), (0,), (9,), ((7,), ())),) * 2, 0.01)


def contents(path):
    """Return the contents of a file or folder."""
    if path.is_dir():
        return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}
    return path.read_bytes()


@pytest.mark.parametrize(
    ("to", "item", "lost"),
    [
        ("binary", TIMED, "times"),
        ("binary", replace(LABELLED, frame_shift=0.03), "frame shift"),
        ("text", LABELLED, None),
        ("slf", LABELLED, "alignments, raw kind"),
        ("slf:base=0", TIMED, None),
        ("slf:base=0", TIMED.with_costs(np.array([10.1], np.float32)), None),
        ("slf:base=0", TIMED.with_costs(np.array([1.2345e-12], np.float32)), None),
        (
            "slf",
            TIMED.with_words(SymbolTable.from_words(["<eps>", "<s>"])),
            "words that readers interpret as silence (<s> or !ENTER)",
        ),
        (
            "sphinx",
            replace(LABELLED, frame_shift=0.03),
            "alignments, frame shift, raw kind, graph costs",
        ),
        (
            "sphinx",
            TIMED.with_words(SymbolTable.from_words(["<eps>", "to(2)"])),
            "graph costs, words that readers interpret as fillers or pronunciations ([NOISE] or to(2))",
        ),
        (
            "sphinx",
            TIMED.with_words(SymbolTable.from_words(["<eps>", "to(02)"])),
            "graph costs, words that readers interpret as fillers or pronunciations ([NOISE] or to(2))",
        ),
        ("pfsg", LABELLED, "alignments, raw kind, separate graph and acoustic costs"),
        ("pfsg:costs=graph", TIMED, "times, acoustic costs"),
        (
            "pfsg:costs=graph",
            TIMED.with_words(SymbolTable.from_words(["<eps>", "</s>"])),
            "times, acoustic costs, words that readers interpret as silence (<s> or </s>)",
        ),
        ("plf", TIMED, "times, separate graph and acoustic costs, key"),
        ("plf:scores=both", TIMED, "times, key"),
        ("mesh", TIMED, "paths and their costs"),
        ("openfst", TIMED, "times, separate graph and acoustic costs"),
        (
            "openfst:costs=acoustic",
            TIMED,
            "times, graph costs, separate graph and acoustic costs",
        ),
        ("openfst:acoustic_scale=0", TIMED, "times, acoustic costs"),
        ("fst-text", TIMED, "times, separate graph and acoustic costs"),
        (
            "fst-text:labels=words",
            TIMED.with_words(SymbolTable.from_words(["<eps>", "12"])),
            "times, separate graph and acoustic costs, word names (numbers are read as ids)",
        ),
        ("fst-ark", LABELLED, "alignments, raw kind, separate graph and acoustic costs"),
        ("k2", LABELLED, None),
        ("k2:extras=false", LABELLED, "alignments, raw kind, key"),
        ("native", LABELLED, None),
        ("json", LIST, "alignments, word costs"),
        ("json:n=1", LABELLED, "alignments, word costs"),
        ("srilm:n=0", LIST, "alignments, times, word costs"),
        (
            "nemo",
            LIST,
            "alignments, times, word costs, separate graph and acoustic costs, key",
        ),
        ("espnet", LIST, "alignments, times, word costs, separate graph and acoustic costs"),
        ("nbest-kaldi", LIST, None),
        ("nbest-kaldi", NBest("k", (replace(LIST.hypotheses[0], labels=None),), 0.01), "times"),
    ],
)
def test_lossy_refuse_writes_no_file_that_loses_fields(to, item, lost, tmp_path):
    form = to.partition(":")[0]
    words = WORDS if form == "nbest-kaldi" else None
    with ninja.write(str(tmp_path / "x"), to=to, lossy="refuse", words=words) as output:
        if lost is None:
            output.write(item)
            assert not output.lost
            return
        with pytest.raises(LatticeError) as caught:
            output.write(item)
        message = f"key 'k': {form} cannot store: {lost}; use lossy='allow' (--lossy allow) to drop these fields"
        assert str(caught.value) == message
        assert not output.lost
    with ninja.write(str(tmp_path / "z"), to=to, words=words):
        pass
    assert contents(tmp_path / "x") == contents(tmp_path / "z")
    with ninja.write(str(tmp_path / "y"), to=to, words=words) as output:
        output.write(item)
    assert output.lost == dict.fromkeys(lost.split(", "), 1)


def test_losses_are_counted_by_lattice(tmp_path):
    with ninja.write(str(tmp_path / "x.fst.txt")) as output:
        output.write(TIMED)
    assert output.lost == {"times": 1, "separate graph and acoustic costs": 1, "key": 1}
    with ninja.write(str(tmp_path / "x"), to="binary") as output:
        for number in range(3):
            output.write(TIMED, key=f"k{number}")
        output.write(nbest_lattice(NBest("l", (sentence(["a"], 1.0),)), WORDS))
    assert output.lost == {"times": 3}


def test_a_lattice_without_alignments_loses_nothing_as_slf(tmp_path):
    lattice = lattice_of([(0, 1, 1, 1 / 3, 2 / 3), (0, 1, 2, 1.5, 2.0)], {1: (0.25, 0.0)}, times=[0, 30])
    write_all(str(tmp_path / "x.slf"), [lattice], lossy="refuse")
    back = read_slf((tmp_path / "x.slf").read_bytes(), "", None, lattice.words, SlfOptions(key="utterance"))
    assert back.identical(replace(lattice, frame_shift=0.01))
