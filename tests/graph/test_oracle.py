"""The oracle: its invariants, and the output of ``ninja oracle``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lattice_files import write_all
from reference_openfst import Way, least_edit_distance, ways
from strategies import lattices

import ninja as package
from ninja import _graph
from ninja.errors import FormatError, LatticeError, OptionError
from ninja.evaluate.scoring import number, word_id
from ninja.graph import best_path, from_arcs
from ninja.graph.oracle import Oracle, oracle
from ninja.graph.split import difference, paths_of
from ninja.lattice import Lattice
from ninja.lattice.batch import Batch
from ninja.lattice.symbols import SymbolTable

Ninja = Callable[..., tuple[int, str, str]]
REFERENCES = st.lists(st.sampled_from([1, 2, 3, 4, -1]), max_size=6)
WINDOW = 4  # words
WILDCARDS = st.sets(st.integers(1, 4), max_size=2)
CONNECTED = lattices(max_states=7, max_word=4)
WORDS = SymbolTable([("<eps>", 0), ("<unk>", 1), ("a", 2), ("b", 3), ("c", 4), ("[noise]", 5)])


def muted(lattice: Lattice, wildcards: set[int]) -> Lattice:
    """Write the lattice again with epsilons in place of wildcards."""
    word = [0 if each in wildcards else each for each in lattice.word.tolist()]
    final = {int(state): 0.0 for state in np.flatnonzero(lattice.is_final)}
    return from_arcs(lattice.key, lattice.src, lattice.dst, word, [0.0] * len(word), finals=final)


@settings(max_examples=40)
@given(CONNECTED, REFERENCES, WILDCARDS)
def test_the_oracle_is_the_least_over_all_paths_once_wildcards_are_taken_out(
    lattice: Lattice, reference: list[int], wildcards: set[int]
) -> None:
    found = oracle(lattice, reference, wildcards)
    kept = [word for word in reference if word not in wildcards]
    assert found.edits == least_edit_distance(muted(lattice, wildcards), kept)
    assert found.num_words == len(kept)
    assert found.words.tolist() == [
        word for word in lattice.word[found.arcs].tolist() if word and word not in wildcards
    ]


@given(CONNECTED, REFERENCES)
def test_the_oracle_is_no_worse_than_the_best_path(lattice: Lattice, reference: list[int]) -> None:
    best = best_path(lattice)
    chain = paths_of(lattice, best.words)
    assert oracle(lattice, reference).edits <= oracle(chain, reference).edits


@given(CONNECTED, st.data())
def test_a_reference_that_lies_in_the_lattice_leaves_no_edits(lattice: Lattice, data: st.DataObject) -> None:
    said = data.draw(st.sampled_from([way.words for way in ways(lattice)]))
    found = oracle(lattice, said)
    assert found.edits == 0
    assert tuple(found.words.tolist()) == said


@settings(max_examples=40)
@given(CONNECTED, WILDCARDS, st.data())
def test_paths_of_words_are_all_that_say_them_with_their_costs_and_labels(
    lattice: Lattice, wildcards: set[int], data: st.DataObject
) -> None:
    def heard(way: Way) -> tuple[int, ...]:
        return tuple(word for word in way.words if word not in wildcards)

    words = data.draw(st.sampled_from([heard(way) for way in ways(lattice)]))
    kept = paths_of(lattice, words, wildcards)
    assert Counter(ways(kept)) == Counter(way for way in ways(lattice) if heard(way) == words)
    assert (kept.key, kept.kind, kept.frame_shift) == (lattice.key, lattice.kind, lattice.frame_shift)
    state_used = set(kept.src.tolist()) | set(kept.dst.tolist()) | {0}
    assert state_used == set(range(kept.num_states))


def test_paths_keep_the_times_of_states() -> None:
    lattice = from_arcs("u", [0, 0, 1, 2], [1, 2, 3, 3], [2, 3, 4, 4], [0.0] * 4, finals={3: 0.0}, time=[0, 5, 6, 9])
    assert paths_of(lattice, [3, 4]).time.tolist() == [0, 6, 9]  # type: ignore[union-attr]
    with pytest.raises(LatticeError, match=r"key 'u': no path has these words"):
        paths_of(lattice, [3, 3])


def test_paths_keep_the_order_of_arcs() -> None:
    lattice = from_arcs("u", [0, 0, 0], [1, 1, 1], [2, 0, 2], [1.0, 2.0, 3.0], finals={1: 0.0})
    assert paths_of(lattice, [2]).graph.tolist() == [1.0, 3.0]


@given(st.integers(0, 1 << 30), st.integers(WINDOW, 40))
def test_an_oracle_that_keeps_off_the_band_is_that_of_the_whole_table(seed: int, least_words: int) -> None:
    lattice, said = long_reference(seed)
    every, near = (nearest(lattice, said, *limits) for limits in ((1 << 40, 0), (0, least_words)))
    assert not every[3]
    assert near[3] or sum(near[:3]) == sum(every[:3])


def test_passages_that_only_the_reference_has_are_compared_with_more_words() -> None:
    lattice, said = long_reference(2)
    other = np.full(40, 999, np.int32)
    for reference in ([said[:20], other, said[20:]], [said[:30], said[:30], said[30:]], [said[90:]]):
        whole = np.concatenate(reference)
        every, near = (nearest(lattice, whole, *limits) for limits in ((1 << 40, 0), (0, 8)))
        assert sum(near[:3]) == sum(every[:3])
        assert not near[3]


def test_an_oracle_says_where_its_band_was_too_narrow() -> None:
    lattice, said = long_reference(1)
    half = said[len(said) // 2 :]
    every, wide, narrow = (nearest(lattice, half, *limits) for limits in ((1 << 40, 0), (0, 4), (0, 2, 1)))
    assert sum(narrow[:3]) > sum(every[:3]) == sum(wide[:3])
    assert narrow[3]
    assert not every[3]
    assert not wide[3]


def nearest(lattice: Lattice, reference: npt.NDArray[np.int32], *limits: int) -> list[int]:
    """Return substitutions, insertions and deletions of the nearest path, and whether it touches the band."""
    failed, counts, _ = _graph.oracle(lattice, reference, np.array([0, len(reference)]), *limits)
    assert failed < 0
    return [int(count[0]) for count in counts]


def long_reference(seed: int) -> tuple[Lattice, npt.NDArray[np.int32]]:
    """Return a recording of 200 states, and the words of its best path, some changed and some missing."""
    random = np.random.default_rng(seed)
    states = 200
    src = np.repeat(np.arange(states - 1), 3)
    dst = np.minimum(src + random.integers(1, 4, len(src)), states - 1)
    dst[::3] = src[::3] + 1
    word = random.integers(0, 500, len(src))
    lattice = from_arcs("u", src, dst, word, random.random(len(src)), finals={states - 1: 0})
    said = best_path(lattice).words.copy()
    said[random.random(len(said)) < 0.1] = 999
    return lattice, np.ascontiguousarray(said[random.random(len(said)) > 0.05])


def test_a_comparison_of_many_states_with_many_words_takes_no_table_of_all_pairs() -> None:
    states = 70_000
    long = from_arcs("u", range(states), range(1, states + 1), [2] * states, [0.0] * states, finals={states: 0.0})
    assert oracle(long, [2] * 20_000).insertions == 50_000


@pytest.mark.parametrize("words", [["the"], [1.5], [2**31], 3, [[1]], [None]])
def test_references_of_other_than_word_ids_are_refused(words: object) -> None:
    lattice = from_arcs("k", [0], [1], [1], [0.0], finals={1: 0.0})
    for compare in (oracle, difference, paths_of):
        with pytest.raises(OptionError, match=r"must be a sequence of word ids|contains 2147483648"):
            compare(lattice, words)  # type: ignore[arg-type]


def test_a_batch_with_another_number_of_references_is_refused() -> None:
    batch = Batch.of([from_arcs("k", [0], [1], [1], [0.0], finals={1: 0.0})] * 2)
    with pytest.raises(OptionError, match="the number of references is 1, but the number of lattices is 2"):
        oracle(batch, [[1]])


def test_wildcards_are_any_iterable_of_ids() -> None:
    lattice = from_arcs("k", [0, 1], [1, 2], [1, 2], [0.0, 0.0], finals={2: 0.0})
    for wildcards in ([2], np.array([2]), iter([2])):
        assert oracle(lattice, [1], wildcards).edits == 0  # type: ignore[arg-type]


def test_words_become_ids_through_the_table_or_are_ids() -> None:
    texts = {"u": ["a", "zzz", "b"], "v": ["c"]}
    found = number(texts, WORDS)
    assert found.ids["u"].tolist() == [2, -1, 3]
    assert found.unknown == {"u": ("zzz",)}
    assert found.unknown_in(["u", "v"]) == Counter(["zzz"])
    assert number(texts, WORDS, oov=1).ids["u"].tolist() == [2, 1, 3]
    assert number({"u": ["2", "007"]}, None).ids["u"].tolist() == [2, 7]
    for wrong in ("a", "-3", "2147483648", "²", "9" * 5000):
        with pytest.raises(FormatError, match=r"key 'u': .* is not a word id; specify the symbol table with --words"):
            number({"u": [wrong]}, None)


def test_a_word_for_unknown_ones_is_an_id_or_a_word_of_the_table() -> None:
    assert word_id("17", WORDS) == 17
    assert word_id("<unk>", WORDS) == 1
    for wrong in ("zzz", "<eps>", "0", "-1", "9" * 5000):
        with pytest.raises(
            OptionError, match=r"is neither a word id from 1 to 2147483647 nor a word in the symbol table"
        ):
            word_id(wrong, WORDS)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Write two lattices, one without a reference; a reference without a lattice; and their symbol table."""
    (tmp_path / "words").write_text("".join(f"{word} {each}\n" for word, each in WORDS))
    (tmp_path / "text").write_text("u1 a b zzz\ngone a\n")
    write_all(
        tmp_path / "lat.ark",
        (
            from_arcs(key, [0, 0, 1, 2], [1, 1, 2, 3], [2, 3, 5, 3], [1.0] * 4, finals={3: 0.5}, labels=[[7]] * 4)
            for key in ("u1", "extra")
        ),
    )
    return tmp_path


def run(ninja: Ninja, files: Path, *options: object) -> tuple[int, str, str]:
    return ninja("oracle", files / "lat.ark", "--ref", files / "text", "--words", files / "words", *options)


def test_the_command_prints_paths_and_writes_edits_details_and_lattices(ninja: Ninja, files: Path) -> None:
    named = [files / name for name in ("edits", "details", "paths.ark")]
    code, out, err = run(ninja, files, "--edits", named[0], "--details", named[1], "--write-lattices", named[2])
    assert (code, out) == (0, "u1 a [noise] b\n")
    assert named[0].read_text() == "u1 2\n"
    assert named[1].read_text() == (
        "%WER 66.6667 [ 2 / 3, 0 insertions, 0 deletions, 2 sub ]\nFor utterance u1, best cost 2\n"
        "u1 (oracle) a [noise] b\nu1 (reference) a b zzz\n"
    )
    ((key, lattice),) = package.read(named[2])
    assert (key, lattice.word.tolist(), lattice.ali.tolist(), lattice.kind) == ("u1", [2, 5, 3], [7, 7, 7], "compact")
    assert err == (
        "ninja: Overall %WER 66.6667 [ 2 / 3, 0 insertions, 0 deletions, 2 substitutions ]\n"
        "ninja: Scored 1 lattices, 1 not present in ref.\n"
        "ninja: 1 lattice has no reference and was not scored: extra\n"
        "ninja: 1 reference has no lattice: gone\n"
        "ninja: 1 reference word (1 distinct) not in --words cannot match (see --oov): zzz\n"
    )


@pytest.mark.parametrize("option", ["symbols", "list"])
def test_wildcards_are_no_errors_and_are_not_printed(ninja: Ninja, files: Path, option: str) -> None:
    (files / "wild").write_text("[noise]\n<unk>\n")
    given = ("--wildcard-symbols", "5:1") if option == "symbols" else ("--wildcard-symbols-list", files / "wild")
    code, out, err = run(ninja, files, *given, "--oov", "<unk>", "--details", files / "details")
    assert (code, out) == (0, "u1 a b\n")
    assert "Overall %WER 0 [ 0 / 2, 0 insertions, 0 deletions, 0 substitutions ]" in err
    assert "u1 (reference) a b\n" in (files / "details").read_text()
    assert "(1 distinct) not in --words can only match <unk>: zzz" in err


@pytest.mark.parametrize(
    ("text", "code"), [("u1 a\nextra b\n", 0), ("u1 a\n", 1), ("u1 a\nextra b\ngone a\n", 1), ("u1 a\ngone a\n", 1)]
)
def test_strict_fails_where_something_has_no_partner(ninja: Ninja, files: Path, text: str, code: int) -> None:
    (files / "text").write_text(text)
    assert run(ninja, files, "--strict")[0] == code
    assert run(ninja, files)[0] == 0


def test_without_a_table_references_are_ids(ninja: Ninja, files: Path) -> None:
    (files / "ids").write_text("u1 2 5 3\n")
    code, out, err = ninja("oracle", files / "lat.ark", "--ref", files / "ids")
    assert (code, out) == (0, "u1 2 5 3\n")
    assert "Overall %WER 0 [ 0 / 3, " in err
    code, out, err = ninja("oracle", files / "lat.ark", "--ref", files / "text")
    assert (code, out) == (1, "")
    assert "key 'u1': 'a' is not a word id; specify the symbol table with --words" in err


def test_lattices_compared_with_too_few_words_are_noted(
    ninja: Ninja, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = "1 lattice is too long and dense for an exact search; it may have better paths: u1"
    assert note not in run(ninja, files)[2]

    def touching(*given: Any, **named: Any) -> list[Oracle]:
        return [replace(path, touches_band=True) for path in oracle(*given, **named)]

    monkeypatch.setattr("ninja.cli.oracle.nearest_path", touching)
    assert run(ninja, files)[2].count(note) == 1


def test_a_lattice_that_fails_does_not_cost_the_others(ninja: Ninja, files: Path) -> None:
    (files / "text").write_text("u1 a <eps>\nextra b\n")
    code, out, err = run(ninja, files)
    assert (code, out) == (1, "extra b [noise] b\n")
    assert "failed: key 'u1': the reference contains word id 0 (epsilon), which is not a word" in err
    assert "references have no lattice" not in err


def test_nothing_in_common_is_an_error(ninja: Ninja, files: Path) -> None:
    (files / "text").write_text("other a\n")
    code, out, err = run(ninja, files, "-o", files / "paths")
    assert (code, out) == (1, "")
    assert "text: no lattice has a reference; check that the keys match" in err
    assert not (files / "paths").exists()


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--word-symbol-table", "w"), 2, "--word-symbol-table is an alias of --words"),
        (("--wildcard-symbols", "1", "--wildcard-symbols-list", "w"), 2, "cannot be used with"),
        (("--wildcard-symbols", "1:x"), 2, "--wildcard-symbols is '1:x', but must be ids separated by colons"),
        (("--oov", "zzz"), 2, "'zzz' is neither a word id"),
    ],
)
def test_wrong_options_are_refused(
    ninja: Ninja, files: Path, options: tuple[str, ...], code: int, message: str
) -> None:
    found = run(ninja, files, *options)
    assert found[0] == code
    assert message in found[2]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a\nzzz\n", "wild:2: the word 'zzz' is not in the symbol table"),
        ("a b\n", "wild:1: expected one word, found 2"),
    ],
)
def test_a_wrong_list_of_wildcards_is_refused(ninja: Ninja, files: Path, content: str, message: str) -> None:
    (files / "wild").write_text(content)
    code, _, err = run(ninja, files, "--wildcard-symbols-list", files / "wild")
    assert code == 1
    assert message in err
    table = ("--word-symbol-table", files / "words")
    code, out, _ = ninja("oracle", files / "lat.ark", "--ref", files / "text", *table)
    assert (code, out) == (0, "u1 a [noise] b\n")
    code, _, err = ninja("oracle", files / "lat.ark", "--ref", files / "text", "--wildcard-symbols-list", "x")
    assert (code, "--wildcard-symbols-list requires --words" in err) == (2, True)


def test_workers_find_the_same_paths(ninja: Ninja, files: Path) -> None:
    alone = run(ninja, files, "--write-lattices", files / "one.ark")
    shared = run(ninja, files, "--write-lattices", files / "two.ark", "--jobs", 2)
    assert alone == shared
    assert (files / "one.ark").read_bytes() == (files / "two.ark").read_bytes()
