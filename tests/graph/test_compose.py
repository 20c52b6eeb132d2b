"""Composition, interpolation, difference and n-gram expansion, compared with enumerated paths."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from linear_time import assert_linear
from reference_algebra import PHI, all_ways, composed_paths, machines, round_costs, transductions
from reference_openfst import Way, ways
from strategies import lattices

from ninja import _core
from ninja.errors import FormatError, InputError, LatticeError, OptionError
from ninja.formats.fst_image import parse_transducer, read_transducer
from ninja.graph import compose, connect, difference, equivalent, expand_ngram, from_arcs, interp, scale, to_fst
from ninja.lattice import Lattice, check
from ninja.lattice.fst import Fst

SMALL = lattices(max_states=5, max_arcs=2, max_word=2)
RAW = from_arcs("a", [0], [1], [1], [0.5], finals={1: 0.0}, labels=[[4]], kind="raw")


def have_common_words(a: Lattice, b: Lattice) -> bool:
    return bool({way.words for way in ways(a)} & {way.words for way in ways(b)})


def test_arcs_of_an_fst_are_sorted_once() -> None:
    arrays = [np.array([0, 2, 2]), *(np.array(column, np.int32) for column in ([1, 1], [7, 5], [1, 2]))]
    fst = Fst(*arrays, cost=np.array([0.5, 0.0]), final_cost=np.array([np.inf, 0.0]))
    machine = fst.sorted_by_input()
    assert (machine.ilabel.tolist(), machine.olabel.tolist(), machine.cost.tolist()) == ([5, 7], [2, 1], [0.0, 0.5])
    assert fst.sorted_by_input() is machine is machine.sorted_by_input()


@given(SMALL, SMALL, st.sampled_from([0.0, 0.25, 0.5, 1.0]))
def test_interpolation_combines_each_pair_of_paths_with_equal_words_once(a: Lattice, b: Lattice, alpha: float) -> None:
    if not have_common_words(a, b):
        with pytest.raises(LatticeError, match="no path remains: the operands have no word sequence in common"):
            interp(a, b, alpha)
        return
    interpolated = interp(a, b, alpha)
    check(interpolated)
    assert connect(interpolated) is interpolated
    assert interpolated.kind == a.kind
    assert all_ways(interpolated) == composed_paths(a, b, alpha, 1.0 - alpha)


@given(SMALL, SMALL)
def test_composition_of_lattices_adds_their_costs(a: Lattice, b: Lattice) -> None:
    if have_common_words(a, b):
        assert all_ways(compose(a, b)) == composed_paths(a, b, 1.0, 1.0)


@given(SMALL, st.sampled_from([0.25, 0.5]), st.sampled_from([0.5, 2.0]), st.sampled_from([0.5, 4.0]))
def test_scaling_by_the_inverse_and_interpolating_restore_the_lattice(
    lattice: Lattice, alpha: float, graph_scale: float, acoustic_scale: float
) -> None:
    scaled = scale(lattice, graph_scale, acoustic_scale)
    assert equivalent(scale(scaled, 1 / graph_scale, 1 / acoustic_scale), lattice, costs="both")
    # Weight alpha undoes the division of the costs by alpha; the other operand has no costs.
    free = scale(lattice, 0.0, 0.0)
    assert equivalent(interp(scale(lattice, 1 / alpha, 1 / alpha), free, alpha), lattice)


@settings(max_examples=40)
@given(SMALL, machines(), st.sampled_from([None, PHI]))
def test_composition_with_an_fst_agrees_with_enumeration(lattice: Lattice, machine: Fst, phi: int | None) -> None:
    expected = Counter(
        round_costs(Way(words, way.graph + cost, way.acoustic, way.alignment))
        for way in ways(lattice)
        for words, cost in transductions(machine, way.words, -1 if phi is None else phi)
    )
    if not expected:
        with pytest.raises(LatticeError, match="no path remains"):
            compose(lattice, machine, phi)
        return
    composition = compose(lattice, machine, phi)
    check(composition)
    assert connect(composition) is composition
    assert all_ways(composition) == expected


def test_composition_with_an_fst_does_not_depend_on_the_order_of_its_arcs() -> None:
    lattice = from_arcs("a", [0, 0], [1, 1], [1, 2], [0.0, 0.0], finals={1: 0.0})
    grammar = to_fst(from_arcs("g", [0, 0, 0], [1, 1, 1], [3, 2, 1], [3.0, 2.0, 1.0], finals={1: 0.0}), lm_scale=1.0)
    assert grammar.ilabel.tolist() == [3, 2, 1]
    assert compose(lattice, grammar).graph.tolist() == [1.0, 2.0]


def image(rows: list[tuple[int, int, int, int, float]], finals: list[float]) -> bytes:
    """Return an OpenFst file of arcs (source, destination, input, output, cost), ordered by source."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * 5
    return _core.write_image(
        "standard",
        np.searchsorted(np.array(columns[0], np.int64), np.arange(len(finals) + 1)).astype(np.int64),
        *(np.array(column, np.int32) for column in columns[1:4]),
        np.array(columns[4], np.float64),
        np.array(finals, np.float64),
    )


def test_failure_arcs_match_only_words_without_an_arc() -> None:
    # State 0 has word 1 at cost 5. Words after its failure arc (cost 1) cost 1: cheaper, but not allowed for word 1.
    machine = parse_transducer(
        image([(0, 1, 1, 1, 5.0), (0, 1, PHI, 0, 1.0), (1, 1, 1, 1, 1.0), (1, 1, 2, 2, 1.0)], [math.inf, 0.0])
    )
    lattice = from_arcs("k", [0, 0], [1, 1], [1, 2], [0.0, 0.0], finals={1: 0.0})
    composition = compose(lattice, machine, PHI)
    assert {way.words: way.graph for way in ways(composition)} == {(1,): 5.0, (2,): 2.0}


def test_a_cycle_of_failure_arcs_terminates() -> None:
    machine = parse_transducer(image([(0, 1, PHI, 0, 1.0), (1, 0, PHI, 0, 1.0)], [math.inf, math.inf]))
    with pytest.raises(LatticeError, match="no path remains"):
        compose(RAW, machine, PHI)


def test_a_cycle_of_input_epsilons_is_refused_with_its_state() -> None:
    machine = parse_transducer(image([(0, 1, 0, 7, 1.0), (1, 0, 0, 7, 1.0)], [0.0, 0.0]), "loop.fst")
    with pytest.raises(
        LatticeError, match=r"key 'a': state [01] of the FST loop.fst lies on a cycle of input epsilons"
    ):
        compose(RAW, machine)


def test_composition_beyond_max_arcs_is_refused() -> None:
    count = 50
    lattice = from_arcs("wide", [0] * count, [1] * count, [1] * count, [0.0] * count, finals={1: 0.0})
    with pytest.raises(LatticeError, match="key 'wide': the composition has more than 100 arcs; prune"):
        compose(lattice, lattice, max_arcs=100)
    machine = parse_transducer(image([(0, 1, 1, 1, 0.0)] * count, [math.inf, 0.0]))
    with pytest.raises(LatticeError, match="the composition has more than 100 arcs"):
        compose(lattice, machine, max_arcs=100)


def test_compose_stops_at_max_arcs_in_linear_time() -> None:
    def make(count: int) -> Callable[[], None]:
        lattice = from_arcs("wide", [0] * count, [1] * count, [1] * count, [0.0] * count, finals={1: 0.0})

        def run() -> None:
            with pytest.raises(LatticeError, match="more than 100 arcs"):
                compose(lattice, lattice, max_arcs=100)

        return run

    assert_linear(make, 1000)


def test_costs_beyond_single_precision_are_refused() -> None:
    machine = parse_transducer(image([(0, 1, 1, 1, 3e38)], [math.inf, 0.0]))
    lattice = from_arcs("k", [0], [1], [1], [3e38], finals={1: 0.0})
    with pytest.raises(LatticeError, match="composed costs exceed the range of float32"):
        compose(lattice, machine)


def test_invalid_fst_files_are_refused_with_their_path(tmp_path: Path) -> None:
    good = image([(0, 1, 1, 1, 0.5)], [math.inf, 0.0])
    path = tmp_path / "g.fst"
    for content, error, message in [
        (b"no fst at all", FormatError, "not an OpenFst file: the magic number is wrong"),
        (good[:-3], FormatError, "the image ends within a state"),
        (good + b"xy", FormatError, "2 bytes follow the end of the FST"),
        (image([(0, 0, 1, 1, math.nan)], [0.0]), LatticeError, "arc 0 of state 0 has the weight nan"),
    ]:
        path.write_bytes(content)
        with pytest.raises(error, match=message) as excinfo:
            read_transducer(path)
        assert excinfo.value.path == str(path)
    path.write_bytes(good)
    assert read_transducer(path).ilabel.tolist() == [1]
    with pytest.raises(InputError, match="cannot be read"):
        read_transducer(tmp_path / "none.fst")


@given(machines(), st.data())
def test_damaged_fsts_raise_typed_errors_or_are_read(machine: Fst, data: st.DataObject) -> None:
    content = bytearray(
        _core.write_image(
            "standard", machine.arc_begin, machine.dst, machine.ilabel, machine.olabel, machine.cost, machine.final_cost
        )
    )
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    del content[data.draw(st.integers(1, len(content))) :]
    try:
        parsed = parse_transducer(bytes(content))
        compose(RAW, parsed, max_arcs=1000)
    except (FormatError, LatticeError):
        pass


@given(SMALL, st.data())
def test_difference_removes_exactly_the_paths_of_the_transcript(lattice: Lattice, data: st.DataObject) -> None:
    sequences = sorted({way.words for way in ways(lattice)})
    transcript = data.draw(st.sampled_from([*sequences, (), (1, 2, 1, 2, 1, 2, 1, 2), (-1,)]))
    expected = Counter({way: count for way, count in all_ways(lattice).items() if way.words != transcript})
    if not expected:
        with pytest.raises(LatticeError, match="no path remains: all paths have the words of the transcript"):
            difference(lattice, transcript)
        return
    remainder = difference(lattice, transcript)
    check(remainder)
    assert all_ways(remainder) == expected


@given(lattices(max_states=6, max_word=3), st.integers(1, 4))
def test_expansion_keeps_all_paths_and_gives_each_state_one_history(lattice: Lattice, n: int) -> None:
    expanded = expand_ngram(lattice, n)
    check(expanded)
    assert all_ways(expanded) == all_ways(lattice)
    histories_at: dict[int, set[tuple[int, ...]]] = {0: {()}}
    for arc, src in enumerate(expanded.src.tolist()):
        word = int(expanded.word[arc])
        for history in histories_at[src]:
            next_history = (*history, word)[max(0, len(history) + 2 - n) :] if word else history
            histories_at.setdefault(int(expanded.dst[arc]), set()).add(next_history if n > 1 else ())
    assert all(len(histories) == 1 for histories in histories_at.values())


@given(lattices(max_states=6, max_word=3))
def test_expansion_creates_one_state_per_state_and_history(lattice: Lattice) -> None:
    assert expand_ngram(lattice, 1).num_states == lattice.num_states
    pairs = {(0, ())}
    for state in range(lattice.num_states):
        for history in [history for pair_state, history in pairs if pair_state == state]:
            for arc in range(lattice.arc_begin[state], lattice.arc_begin[state + 1]):
                word = int(lattice.word[arc])
                pairs.add((int(lattice.dst[arc]), (*history, word)[-2:] if word else history))
    assert expand_ngram(lattice, 3).num_states == len(pairs)


def test_expansion_and_difference_beyond_max_arcs_are_refused() -> None:
    length = 30
    src, dst = np.repeat(np.arange(length), 2), np.repeat(np.arange(1, length + 1), 2)
    lattice = from_arcs("k", src, dst, np.tile([1, 2], length), np.zeros(2 * length), finals={length: 0.0})
    with pytest.raises(LatticeError, match="key 'k': the expansion to 9-grams has more than 1000 arcs; prune"):
        expand_ngram(lattice, 9, max_arcs=1000)
    with pytest.raises(LatticeError, match="key 'k': the difference has more than 60 arcs; prune"):
        difference(lattice, [1, 2], max_arcs=60)


def test_expansion_of_a_lattice_without_a_path_is_refused() -> None:
    inf = math.inf
    arcs = [0, 1, 1, 1], [1], [1], [0.0], [0.0]
    lattice = Lattice.from_arrays("a", *arcs, [inf, inf, 0.0], [inf, inf, 0.0])  # the final state is unreachable
    with pytest.raises(LatticeError, match="key 'a': no path leads from the start to a final state"):
        expand_ngram(lattice)


def test_options_out_of_range_are_refused() -> None:
    with pytest.raises(OptionError, match=r"alpha is 1.5, but must be from 0 to 1"):
        interp(RAW, RAW, 1.5)
    with pytest.raises(OptionError, match="phi_label is only valid for FSTs; a lattice has no failure arcs"):
        compose(RAW, RAW, 3)
    with pytest.raises(OptionError, match="phi_label is 0, but must be 1 or more"):
        compose(RAW, parse_transducer(image([(0, 0, 1, 1, 0.0)], [0.0])), 0)
    with pytest.raises(OptionError, match="n is 0, but must be 1 or more"):
        expand_ngram(RAW, 0)


def test_composition_with_a_grammar_fst_agrees_with_its_language_model(tmp_path: Path) -> None:
    from ninja.lattice.symbols import SymbolTable
    from ninja.lm.ngram.compose import compose_ngram
    from ninja.lm.ngram.model import read_grammar

    words = SymbolTable([("<eps>", 0), ("a", 1), ("b", 2), ("#0", PHI), ("<s>", 10), ("</s>", 11)])
    # Bigrams of a and b: the history of state 0 (also the start) is empty, of state 1 is a, and of state 2 is b.
    rows = [
        (0, 1, 1, 1, 1.5), (0, 2, 2, 2, 2.5), (1, 0, PHI, 0, 0.25), (1, 2, 2, 2, 0.5), (2, 0, PHI, 0, 0.75),
        (2, 2, 2, 2, 3.0),
    ]  # fmt: skip
    path = tmp_path / "G.fst"
    path.write_bytes(image(rows, [1.25, math.inf, 0.125]))
    lattice = from_arcs(
        "k", [0, 0, 1, 1, 2], [1, 1, 2, 2, 3], [1, 2, 1, 2, 2], [1.0, 2.0, 3.0, 4.0, 5.0], finals={2: 0.5, 3: 0.25}
    ).with_words(words)
    composition = compose(lattice, read_transducer(path), PHI)
    assert all_ways(composition) == all_ways(compose_ngram(lattice, read_grammar(str(path), words)))
