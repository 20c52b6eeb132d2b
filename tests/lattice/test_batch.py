"""Batches, and operations on batches, whose results equal those for single lattices."""

import contextlib
import gc
import gzip
from dataclasses import astuple
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from strategies import lattices
from strategies_align import (
    BOUNDARY,
    LabelledLattice,
    arbitrary_lattices,
    damaged_lattices,
    labelled_sausages,
    labelled_trees,
)
from strategies_graph import timed_lattices

import ninja
from ninja import _align, _core, graph
from ninja._tables import TableWriter
from ninja.consensus import mbr_decode
from ninja.errors import LatticeError, NinjaError
from ninja.graph.align import WordAligner, WordAlignment
from ninja.graph.determinize_pruned import DeterminizeBounds, determinize_pruned_all
from ninja.lattice import Lattice, Scales
from ninja.lattice.arrays import runs
from ninja.lattice.batch import Batch
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.times import state_times

ARCHIVE = Path(__file__).parents[1] / "data/english/formats/lat.ark.gz"
SCALES = Scales(0.5, 1.25, 0.25)
GOOD = Lattice.from_arrays("a", [0, 1, 1], [1], [1], [0], [0], [np.inf, 0])


def best_lattice(lattice):
    return graph.path_lattice(lattice, graph.best_path(lattice, SCALES))


OPERATIONS = {  # the operation on a batch, and on each lattice
    "connect": (graph.connect,) * 2,
    "prune": (partial(graph.prune, beam=2.0, scales=SCALES),) * 2,
    "to_compact": (graph.to_compact,) * 2,
    "push": (graph.push,) * 2,
    "push costs": (partial(graph.push, strings=False, acoustic_scale=0.5),) * 2,
    "push labels": (partial(graph.push, weights=False),) * 2,
    "push nothing": (partial(graph.push, strings=False, weights=False),) * 2,
    "minimize": (graph.minimize,) * 2,
    "minimize costs": (partial(graph.minimize, acoustic_scale=0.5, delta=0.5, strings=False),) * 2,
    "best_path": (partial(graph.best_path, scales=SCALES), best_lattice),
}


def with_state_times(lattice):
    """Number the states by time, 20 ms apart."""
    return lattice.replace(time=np.arange(lattice.num_states, dtype=np.int32), frame_shift=0.02)


def dead_end(key):
    """Return a lattice whose only final state cannot be reached."""
    return Lattice.from_arrays(key, [0, 1, 1, 1], [1], [1], [0], [0], [np.inf, np.inf, 0])


def per_lattice(function, lattices):
    entries = []
    for lattice in lattices:
        try:
            entries.append((lattice.key, function(lattice)))
        except NinjaError as error:
            entries.append((lattice.key, error))
    return entries


def assert_same_entries(entries, expected):
    assert len(entries) == len(expected)
    for (_, entry), (_, expected_entry) in zip(entries, expected, strict=True):
        if isinstance(expected_entry, NinjaError):
            assert str(entry) == str(expected_entry)
        else:
            assert entry.identical(expected_entry)
            assert (entry.words, entry.frame_shift) == (expected_entry.words, expected_entry.frame_shift)


@given(st.lists(lattices(connected=False), max_size=5), st.integers(0, 5), st.booleans())
def test_batch_operations_agree_with_operations_on_each_lattice(examples, place, timed):
    examples.insert(place, dead_end("dead"))
    if timed:
        examples = [with_state_times(lattice) for lattice in examples]
    for name, (on_batch, on_lattice) in OPERATIONS.items():
        note(name)
        assert_same_entries(list(on_batch(Batch.of(examples)).entries()), per_lattice(on_lattice, examples))


@given(st.lists(lattices(connected=False), max_size=5), st.integers(0, 5), st.integers(2, 4))
def test_arc_maps_of_a_batch_agree_with_each_lattice(examples, place, period):
    examples.insert(place, dead_end("dead"))
    keep = [np.arange(lattice.num_arcs) % period > 0 for lattice in examples]
    for function in (
        lambda lattices, _: graph.connect(lattices, return_arc_map=True),
        lambda lattices, _: graph.prune(lattices, 2.0, SCALES, return_arc_map=True),
        lambda lattices, keep: graph.select_arcs(lattices, keep, return_arc_map=True),
    ):
        batch, arc_map = function(Batch.of(examples), np.concatenate(keep))
        pairs = []
        for lattice, mask in zip(examples, keep, strict=True):
            with contextlib.suppress(LatticeError):
                pairs.append(function(lattice, mask))
        assert arc_map.tolist() == [arc for _, arcs in pairs for arc in arcs.tolist()]
        assert len(batch) == len(pairs) == len(examples) - len(batch.faults)
        assert all(result.identical(expected) for result, (expected, _) in zip(batch, pairs, strict=True))


@pytest.mark.parametrize("minimize", [False, True])
@given(st.lists(lattices(), max_size=4), st.booleans(), st.sampled_from([4.0, np.inf]), st.sampled_from([-1, 3]))
def test_batch_determinization_agrees_with_each_lattice(minimize, examples, timed, beam, max_arcs):
    if timed:
        examples = [with_state_times(lattice) for lattice in examples]
    options = {"beam": beam, "acoustic_scale": 0.5, "bounds": DeterminizeBounds(max_arcs=max_arcs)}

    def determinize(lattice):
        reports.append(graph.determinize_pruned(lattice, **options, minimize=minimize))
        return reports[-1][0]

    reports = []
    expected = per_lattice(determinize, examples)
    batch = determinize_pruned_all(Batch.of(examples), **options, minimize=minimize)
    if len(reports) == len(examples) and all(report.complete and not report.retries for _, report in reports):
        assert_same_entries(list(batch.entries()), expected)
    else:
        assert batch is None


def test_batch_determinization_is_refused_if_a_lattice_fails():
    assert determinize_pruned_all(Batch.of([GOOD])).keys == ["a"]
    assert determinize_pruned_all(Batch.of([GOOD, dead_end("b")])) is None


@settings(max_examples=12)
@given(st.one_of(labelled_trees(), labelled_sausages()), damaged_lattices(), arbitrary_lattices())
def test_batch_alignment_agrees_with_each_lattice(
    good: LabelledLattice, broken: LabelledLattice, unusual: LabelledLattice
) -> None:
    aligner = WordAligner(good.model, BOUNDARY, WordAlignment(reorder=good.reorder))
    whole = aligner.all(Batch.of([good.lattice, good.lattice.with_key("again")]))
    assert whole is not None
    assert whole.keys == [good.lattice.key, "again"]
    aligned = aligner(good.lattice).lattice
    assert aligned is not None
    assert all(lattice.identical(aligned.with_key(lattice.key)) for lattice in whole)
    for example in (broken, unusual):
        aligner = WordAligner(example.model, BOUNDARY, WordAlignment(reorder=example.reorder))
        is_fast = False
        with (
            mock.patch.object(_align, "align_generally", side_effect=AssertionError),
            contextlib.suppress(AssertionError, LatticeError),
        ):
            aligner(example.lattice)
            is_fast = True
        assert (aligner.all(Batch.of([example.lattice])) is not None) == is_fast


@given(st.lists(lattices(), max_size=4), st.integers(0, 4))
def test_best_paths_of_a_batch_agree_with_each_lattice(examples, place):
    paths = list(examples)
    examples.insert(place, dead_end("dead"))
    nbest = graph.nbest(Batch.of(examples), 3, SCALES)
    assert [error.key for _, error in nbest.faults] == ["dead"]
    expected = []
    best = graph.best_words(Batch.of(paths), SCALES)
    for number, lattice in enumerate(paths):
        words = best.words[best.begin[number] : best.begin[number + 1]]
        path = graph.best_path(lattice, SCALES)
        assert words.tolist() == path.words.tolist()
        assert best.graph_cost[number] == path.graph_cost
        assert best.acoustic_cost[number] == path.acoustic_cost
        assert best.num_labels[number] == len(path.alignment)
    for lattice in paths:
        for rank, path in enumerate(graph.nbest(lattice, 3, SCALES), start=1):
            expected.append(graph.path_lattice(lattice, path).with_key(f"{lattice.key}-{rank}"))
    assert len(nbest) == len(expected) == len(nbest.keys)
    assert nbest.keys == [lattice.key for lattice in expected]
    assert all(result.identical(lattice) for result, lattice in zip(nbest, expected, strict=True))


@given(st.lists(timed_lattices(), max_size=4), st.sampled_from([0.0, 0.1, 0.5]), st.booleans())
def test_probable_arcs_of_a_batch_agree_with_each_lattice(examples, least, timed):
    if timed:
        examples = [lattice.replace(time=np.arange(lattice.num_states, dtype=np.int32)) for lattice in examples]
    probable = graph.probable_arcs(Batch.of(examples), least, SCALES, labels=True)
    rows = list(
        zip(
            probable.start,
            probable.frames,
            probable.posterior,
            probable.word,
            runs(probable.label, probable.label_begin),
            strict=True,
        )
    )
    for lattice, (first, last) in zip(examples, pairwise(probable.begin), strict=True):
        time, posterior = state_times(lattice), graph.posteriors(lattice, SCALES)
        arcs = np.flatnonzero(posterior >= least)
        assert len(arcs) == last - first
        for arc, (start, frames, probability, word, label) in zip(arcs, rows[first:last], strict=True):
            assert (start, start + frames) == (time[lattice.src[arc]], time[lattice.dst[arc]])
            assert (probability, word) == (posterior[arc], lattice.word[arc])
            assert label.tolist() == lattice.ali[lattice.ali_begin[arc] : lattice.ali_begin[arc + 1]].tolist()


REFERENCE = st.lists(st.sampled_from([1, 2, 3, -1]), max_size=6)


@given(st.lists(st.tuples(timed_lattices(), REFERENCE), max_size=4), st.sampled_from([(), (2,)]), st.booleans())
def test_oracle_and_mbr_of_a_batch_agree_with_each_lattice(pairs, wildcards, use_hypotheses):
    examples, references = [lattice for lattice, _ in pairs], [words for _, words in pairs]
    batch = Batch.of(examples)
    paths = graph.oracle(batch, references, wildcards)
    assert list(map(fields_of, paths)) == [fields_of(graph.oracle(*pair, wildcards)) for pair in pairs]
    hypotheses = [[max(word, 0) for word in words] for words in references] if use_hypotheses else None
    networks = mbr_decode(batch, SCALES, decode_mbr=not use_hypotheses, hypothesis=hypotheses)
    for lattice, hypothesis, network in zip(examples, hypotheses or [None] * len(examples), networks, strict=True):
        expected = mbr_decode(lattice, SCALES, decode_mbr=not use_hypotheses, hypothesis=hypothesis)
        assert fields_of(network) == fields_of(expected)


def fields_of(result):
    return [value.tolist() if isinstance(value, np.ndarray) else value for value in astuple(result)]


@pytest.mark.parametrize(
    "function",
    [
        graph.best_words,
        partial(graph.probable_arcs, least=0.5),
        mbr_decode,
        lambda batch: graph.oracle(batch, [[1]] * len(batch)),
    ],
)
def test_errors_in_a_batch_name_the_lattice(function):
    function(Batch.of([GOOD]))
    with pytest.raises(LatticeError, match=r"key 'b': no path leads from the start to a final state"):
        function(Batch.of([GOOD, dead_end("b"), dead_end("c")]))


def test_an_epsilon_in_a_reference_of_a_batch_is_refused_with_its_key():
    with pytest.raises(LatticeError, match=r"key 'b': the reference contains word id 0"):
        graph.oracle(Batch.of([GOOD, GOOD.with_key("b"), GOOD]), [[], [1, 0], [0]])


def test_a_batch_of_different_symbol_tables_has_no_common_table():
    first, second = (GOOD.with_words(SymbolTable.from_words(["<eps>", name])) for name in "xy")
    assert Batch.of([first, first]).table is first.words
    assert graph.prune(Batch.of([first]), 1.0).table is first.words
    assert Batch.of([GOOD]).table is None
    with pytest.raises(LatticeError, match="different symbol tables"):
        _ = Batch.of([first, second]).table


def test_faults_keep_their_positions_after_an_operation():
    parallel = Lattice.from_arrays(
        "long", [0, 2, 2], [1, 1], [1, 2], [0, 0], [0, 0], [np.inf, 0], ali_begin=[0, 1, 2], ali=[1, 2]
    )
    batch = Batch.of([dead_end("a"), parallel, dead_end("b"), parallel.with_key("c"), dead_end("d")])
    pushed = graph.push(batch)
    assert [error.key for _, error in pushed.faults] == ["a", "b", "d"]
    assert [place for place, _ in pushed.faults] == [0, 1, 2]
    assert pushed.keys == ["long", "c"]


def test_batches_of_an_archive_contain_its_lattices():
    batches = list(ninja.read(ARCHIVE, batches=True))
    lattices = dict(ninja.read(ARCHIVE))
    assert [key for batch in batches for key in batch.keys] == list(lattices)
    assert sum(batch.num_arcs for batch in batches) == sum(lattice.num_arcs for lattice in lattices.values())
    assert sum(map(len, batches)) == len(lattices)
    for batch in batches:
        assert all(lattice.identical(lattices[lattice.key]) for lattice in batch)


def test_a_lattice_outlives_its_batch():
    batch = next(ninja.read(ARCHIVE, batches=True))
    pruned = graph.prune(batch, 1.0)
    expected = graph.prune(batch[0], 1.0)
    lattice = pruned[0]
    del batch, pruned
    gc.collect()
    assert lattice.identical(expected)
    with pytest.raises(ValueError, match="read-only"):
        lattice.graph[0] = 1


def test_unchanged_lattices_are_the_same_objects():
    assert graph.prune(Batch.of([GOOD]), 1.0)[0] is GOOD


def test_faults_and_lattices_keep_their_order():
    error = LatticeError("no", key="x")
    entries = [("x", error), ("a", GOOD), ("d", dead_end("d")), ("x", error), ("b", GOOD.with_key("b")), ("x", error)]
    batch = Batch.of_entries(entries)
    assert [key for key, _ in batch.entries()] == ["x", "a", "d", "x", "b", "x"]
    pruned = graph.prune(batch, 1.0)
    assert [(key, isinstance(entry, NinjaError)) for key, entry in pruned.entries()] == [
        ("x", True), ("a", False), ("d", True), ("x", True), ("b", False), ("x", True)
    ]  # fmt: skip
    assert len(pruned.without_faults().faults) == 0


def test_conversion_to_compact_lattices_keeps_faults():
    raw = Lattice.from_arrays("a", [0, 1, 1], [1], [1], [0], [0], [np.inf, 0], kind="raw")
    batch = Batch.of_entries([("x", LatticeError("no", key="x")), ("a", raw)], size=9, position=5)
    compact = graph.to_compact(batch)
    assert [key for key, _ in compact.entries()] == ["x", "a"]
    assert (compact.size, compact.position) == (9, 5)


def test_reading_batches_continues_after_damage(tmp_path):
    content = gzip.decompress(ARCHIVE.read_bytes())
    (tmp_path / "a.ark").write_bytes(content[: len(content) // 2])
    failures = []
    batches = list(ninja.read(tmp_path / "a.ark", batches=True, on_error=failures.append))
    assert len(failures) == 1
    keys = [key for key, _ in ninja.read(tmp_path / "a.ark", on_error=[].append)]
    assert [key for batch in batches for key in batch.keys] == keys != []
    all_batches = ninja.read(tmp_path / "a.ark", batches=True)
    keys_before_error = []
    with pytest.raises(NinjaError):
        keys_before_error.extend(key for batch in all_batches for key in batch.keys)
    assert keys_before_error == keys


@given(st.lists(lattices(), max_size=4))
def test_append_all_writes_the_same_bytes_as_appending_each_lattice(examples):
    for text, compact in product((False, True), (None, True, False)):
        writer, single_writer = TableWriter(text=text), TableWriter(text=text)
        begins = writer.append_all(Batch.of(examples).items, compact)
        kinds = [(lattice.kind == "compact") if compact is None else compact for lattice in examples]
        offsets = [
            single_writer.append(lattice, lattice.key.encode(), kind)
            for lattice, kind in zip(examples, kinds, strict=True)
        ]
        assert bytes(writer.view()) == bytes(single_writer.view())
        assert begins.tolist() == offsets


def test_inconsistent_arrays_are_refused():
    short_offsets = np.zeros(1, np.int64)
    short_offsets.setflags(write=False)
    for misfit in (GOOD.replace(ali_begin=short_offsets), Batch.of([GOOD.replace(ali_begin=short_offsets)])):
        for function in (partial(graph.prune, beam=1.0), graph.connect, graph.push, graph.best_path, mbr_decode):
            with pytest.raises(LatticeError, match="do not fit together"):
                function(misfit)


def test_threads_share_the_items_of_a_batch(monkeypatch):
    batch = Batch.of([graph.from_arcs("k", [0], [1], [1], [0.0], finals={1: 0.0})])
    gather = _core.gathered
    items_of_other_thread = []

    def gather_after_another_thread(origins):
        monkeypatch.setattr(_core, "gathered", gather)
        items_of_other_thread.append(batch.items)
        return gather(origins)

    monkeypatch.setattr(_core, "gathered", gather_after_another_thread)
    assert batch.items is items_of_other_thread[0]
    assert batch.items is items_of_other_thread[0]
