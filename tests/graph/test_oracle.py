"""Invariants of the oracle, and the output of ``ninja oracle``."""

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


def without_wildcards(lattice: Lattice, wildcards: set[int]) -> Lattice:
    """Replace wildcards by epsilons."""
    word = [0 if label in wildcards else label for label in lattice.word.tolist()]
    final = {int(state): 0.0 for state in np.flatnonzero(lattice.is_final)}
    return from_arcs(lattice.key, lattice.src, lattice.dst, word, [0.0] * len(word), finals=final)


@settings(max_examples=40)
@given(CONNECTED, REFERENCES, WILDCARDS)
def test_oracle_agrees_with_enumeration_without_wildcards(
    lattice: Lattice, reference: list[int], wildcards: set[int]
) -> None:
    nearest_path = oracle(lattice, reference, wildcards)
    scored_words = [word for word in reference if word not in wildcards]
    assert nearest_path.edits == least_edit_distance(without_wildcards(lattice, wildcards), scored_words)
    assert nearest_path.num_words == len(scored_words)
    assert nearest_path.words.tolist() == [
        word for word in lattice.word[nearest_path.arcs].tolist() if word and word not in wildcards
    ]


@given(CONNECTED, REFERENCES)
def test_oracle_has_at_most_the_edits_of_the_best_path(lattice: Lattice, reference: list[int]) -> None:
    best = best_path(lattice)
    chain = paths_of(lattice, best.words)
    assert oracle(lattice, reference).edits <= oracle(chain, reference).edits


@given(CONNECTED, st.data())
def test_oracle_has_no_edits_if_the_lattice_contains_the_reference(lattice: Lattice, data: st.DataObject) -> None:
    words = data.draw(st.sampled_from([way.words for way in ways(lattice)]))
    nearest_path = oracle(lattice, words)
    assert nearest_path.edits == 0
    assert tuple(nearest_path.words.tolist()) == words


@settings(max_examples=40)
@given(CONNECTED, WILDCARDS, st.data())
def test_paths_of_keeps_all_paths_with_the_words_and_their_costs_and_labels(
    lattice: Lattice, wildcards: set[int], data: st.DataObject
) -> None:
    def scored_words(way: Way) -> tuple[int, ...]:
        return tuple(word for word in way.words if word not in wildcards)

    words = data.draw(st.sampled_from([scored_words(way) for way in ways(lattice)]))
    selected = paths_of(lattice, words, wildcards)
    assert Counter(ways(selected)) == Counter(way for way in ways(lattice) if scored_words(way) == words)
    assert (selected.key, selected.kind, selected.frame_shift) == (lattice.key, lattice.kind, lattice.frame_shift)
    states = set(selected.src.tolist()) | set(selected.dst.tolist()) | {0}
    assert states == set(range(selected.num_states))


def test_paths_of_keeps_state_times() -> None:
    lattice = from_arcs("u", [0, 0, 1, 2], [1, 2, 3, 3], [2, 3, 4, 4], [0.0] * 4, finals={3: 0.0}, time=[0, 5, 6, 9])
    assert paths_of(lattice, [3, 4]).time.tolist() == [0, 6, 9]  # type: ignore[union-attr]
    with pytest.raises(LatticeError, match=r"key 'u': no path has these words"):
        paths_of(lattice, [3, 3])


def test_paths_of_keeps_the_order_of_arcs() -> None:
    lattice = from_arcs("u", [0, 0, 0], [1, 1, 1], [2, 0, 2], [1.0, 2.0, 3.0], finals={1: 0.0})
    assert paths_of(lattice, [2]).graph.tolist() == [1.0, 3.0]


@given(st.integers(0, 1 << 30), st.integers(WINDOW, 40))
def test_banded_oracle_away_from_the_band_edge_is_exact(seed: int, least_words: int) -> None:
    lattice, reference = long_reference(seed)
    exact, banded = (nearest(lattice, reference, *limits) for limits in ((1 << 40, 0), (0, least_words)))
    assert not exact[3]
    assert banded[3] or sum(banded[:3]) == sum(exact[:3])


def test_band_widens_for_passages_missing_from_the_lattice() -> None:
    lattice, reference = long_reference(2)
    unrelated = np.full(40, 999, np.int32)
    for parts in (
        [reference[:20], unrelated, reference[20:]],
        [reference[:30], reference[:30], reference[30:]],
        [reference[90:]],
    ):
        longer = np.concatenate(parts)
        exact, banded = (nearest(lattice, longer, *limits) for limits in ((1 << 40, 0), (0, 8)))
        assert sum(banded[:3]) == sum(exact[:3])
        assert not banded[3]


def test_oracle_reports_a_band_that_is_too_narrow() -> None:
    lattice, reference = long_reference(1)
    half_reference = reference[len(reference) // 2 :]
    exact, wide, narrow = (nearest(lattice, half_reference, *limits) for limits in ((1 << 40, 0), (0, 4), (0, 2, 1)))
    assert sum(narrow[:3]) > sum(exact[:3]) == sum(wide[:3])
    assert narrow[3]
    assert not exact[3]
    assert not wide[3]


def nearest(lattice: Lattice, reference: npt.NDArray[np.int32], *limits: int) -> list[int]:
    """Return substitutions, insertions and deletions of the nearest path, and whether it touches the band."""
    failed, counts, _ = _graph.oracle(lattice, reference, np.array([0, len(reference)]), *limits)
    assert failed < 0
    return [int(count[0]) for count in counts]


def long_reference(seed: int) -> tuple[Lattice, npt.NDArray[np.int32]]:
    """Return a lattice of 200 states, and the words of its best path with substitutions and deletions."""
    random = np.random.default_rng(seed)
    states = 200
    src = np.repeat(np.arange(states - 1), 3)
    dst = np.minimum(src + random.integers(1, 4, len(src)), states - 1)
    dst[::3] = src[::3] + 1
    word = random.integers(0, 500, len(src))
    lattice = from_arcs("u", src, dst, word, random.random(len(src)), finals={states - 1: 0})
    words = best_path(lattice).words.copy()
    words[random.random(len(words)) < 0.1] = 999
    return lattice, np.ascontiguousarray(words[random.random(len(words)) > 0.05])


def test_oracle_of_a_long_lattice_and_reference_allocates_no_full_table() -> None:
    states = 70_000
    chain = from_arcs("u", range(states), range(1, states + 1), [2] * states, [0.0] * states, finals={states: 0.0})
    assert oracle(chain, [2] * 20_000).insertions == 50_000


@pytest.mark.parametrize("words", [["the"], [1.5], [2**31], 3, [[1]], [None]])
def test_references_that_are_not_word_ids_are_refused(words: object) -> None:
    lattice = from_arcs("k", [0], [1], [1], [0.0], finals={1: 0.0})
    for compare in (oracle, difference, paths_of):
        with pytest.raises(OptionError, match=r"must be a sequence of word ids|contains 2147483648"):
            compare(lattice, words)  # type: ignore[arg-type]


def test_a_batch_requires_one_reference_per_lattice() -> None:
    batch = Batch.of([from_arcs("k", [0], [1], [1], [0.0], finals={1: 0.0})] * 2)
    with pytest.raises(OptionError, match="the number of references is 1, but the number of lattices is 2"):
        oracle(batch, [[1]])


def test_wildcards_can_be_any_iterable_of_ids() -> None:
    lattice = from_arcs("k", [0, 1], [1, 2], [1, 2], [0.0, 0.0], finals={2: 0.0})
    for wildcards in ([2], np.array([2]), iter([2])):
        assert oracle(lattice, [1], wildcards).edits == 0  # type: ignore[arg-type]


def test_reference_words_are_mapped_by_the_table_or_are_ids() -> None:
    texts = {"u": ["a", "zzz", "b"], "v": ["c"]}
    numbered = number(texts, WORDS)
    assert numbered.ids["u"].tolist() == [2, -1, 3]
    assert numbered.unknown == {"u": ("zzz",)}
    assert numbered.unknown_in(["u", "v"]) == Counter(["zzz"])
    assert number(texts, WORDS, oov=1).ids["u"].tolist() == [2, 1, 3]
    assert number({"u": ["2", "007"]}, None).ids["u"].tolist() == [2, 7]
    for word in ("a", "-3", "2147483648", "²", "9" * 5000):
        with pytest.raises(FormatError, match=r"key 'u': .* is not a word id; specify the symbol table with --words"):
            number({"u": [word]}, None)


def test_oov_word_is_an_id_or_a_word_of_the_table() -> None:
    assert word_id("17", WORDS) == 17
    assert word_id("<unk>", WORDS) == 1
    for word in ("zzz", "<eps>", "0", "-1", "9" * 5000):
        with pytest.raises(
            OptionError, match=r"is neither a word id from 1 to 2147483647 nor a word in the symbol table"
        ):
            word_id(word, WORDS)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Write two lattices, one without a reference; a reference without a lattice; and the symbol table."""
    (tmp_path / "words").write_text("".join(f"{word} {index}\n" for word, index in WORDS))
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


def test_oracle_command_prints_paths_and_writes_edits_details_and_lattices(ninja: Ninja, files: Path) -> None:
    outputs = [files / name for name in ("edits", "details", "paths.ark")]
    code, out, err = run(ninja, files, "--edits", outputs[0], "--details", outputs[1], "--write-lattices", outputs[2])
    assert (code, out) == (0, "u1 a [noise] b\n")
    assert outputs[0].read_text() == "u1 2\n"
    assert outputs[1].read_text() == (
        "%WER 66.6667 [ 2 / 3, 0 insertions, 0 deletions, 2 sub ]\nFor utterance u1, best cost 2\n"
        "u1 (oracle) a [noise] b\nu1 (reference) a b zzz\n"
    )
    ((key, lattice),) = package.read(outputs[2])
    assert (key, lattice.word.tolist(), lattice.ali.tolist(), lattice.kind) == ("u1", [2, 5, 3], [7, 7, 7], "compact")
    assert err == (
        "ninja: Overall %WER 66.6667 [ 2 / 3, 0 insertions, 0 deletions, 2 substitutions ]\n"
        "ninja: Scored 1 lattices, 1 not present in ref.\n"
        "ninja: 1 lattice has no reference and was not scored: extra\n"
        "ninja: 1 reference has no lattice: gone\n"
        "ninja: 1 reference word (1 distinct) not in --words cannot match (see --oov): zzz\n"
    )


@pytest.mark.parametrize("option", ["symbols", "list"])
def test_wildcards_are_neither_counted_nor_printed(ninja: Ninja, files: Path, option: str) -> None:
    (files / "wild").write_text("[noise]\n<unk>\n")
    options = ("--wildcard-symbols", "5:1") if option == "symbols" else ("--wildcard-symbols-list", files / "wild")
    code, out, err = run(ninja, files, *options, "--oov", "<unk>", "--details", files / "details")
    assert (code, out) == (0, "u1 a b\n")
    assert "Overall %WER 0 [ 0 / 2, 0 insertions, 0 deletions, 0 substitutions ]" in err
    assert "u1 (reference) a b\n" in (files / "details").read_text()
    assert "(1 distinct) not in --words can only match <unk>: zzz" in err


@pytest.mark.parametrize(
    ("text", "code"), [("u1 a\nextra b\n", 0), ("u1 a\n", 1), ("u1 a\nextra b\ngone a\n", 1), ("u1 a\ngone a\n", 1)]
)
def test_strict_fails_if_a_lattice_or_reference_has_no_counterpart(
    ninja: Ninja, files: Path, text: str, code: int
) -> None:
    (files / "text").write_text(text)
    assert run(ninja, files, "--strict")[0] == code
    assert run(ninja, files)[0] == 0


def test_references_without_a_symbol_table_are_ids(ninja: Ninja, files: Path) -> None:
    (files / "ids").write_text("u1 2 5 3\n")
    code, out, err = ninja("oracle", files / "lat.ark", "--ref", files / "ids")
    assert (code, out) == (0, "u1 2 5 3\n")
    assert "Overall %WER 0 [ 0 / 3, " in err
    code, out, err = ninja("oracle", files / "lat.ark", "--ref", files / "text")
    assert (code, out) == (1, "")
    assert "key 'u1': 'a' is not a word id; specify the symbol table with --words" in err


def test_lattices_whose_oracle_touches_the_band_are_noted(
    ninja: Ninja, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = "1 lattice is too long and dense for an exact search; it may have better paths: u1"
    assert note not in run(ninja, files)[2]

    def oracle_touching_band(*arguments: Any, **options: Any) -> list[Oracle]:
        return [replace(path, touches_band=True) for path in oracle(*arguments, **options)]

    monkeypatch.setattr("ninja.cli.oracle.nearest_path", oracle_touching_band)
    assert run(ninja, files)[2].count(note) == 1


def test_oracle_command_continues_after_a_failed_lattice(ninja: Ninja, files: Path) -> None:
    (files / "text").write_text("u1 a <eps>\nextra b\n")
    code, out, err = run(ninja, files)
    assert (code, out) == (1, "extra b [noise] b\n")
    assert "failed: key 'u1': the reference contains word id 0 (epsilon), which is not a word" in err
    assert "references have no lattice" not in err


def test_oracle_command_without_common_keys_is_an_error(ninja: Ninja, files: Path) -> None:
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
def test_oracle_command_refuses_invalid_options(
    ninja: Ninja, files: Path, options: tuple[str, ...], code: int, message: str
) -> None:
    exit_code, _, err = run(ninja, files, *options)
    assert exit_code == code
    assert message in err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a\nzzz\n", "wild:2: the word 'zzz' is not in the symbol table"),
        ("a b\n", "wild:1: expected one word, found 2"),
        ("a\u00a0b\n", "wild:1: the word 'a\\xa0b' is not in the symbol table"),
    ],
)
def test_an_invalid_wildcard_list_is_refused(ninja: Ninja, files: Path, content: str, message: str) -> None:
    (files / "wild").write_text(content)
    code, _, err = run(ninja, files, "--wildcard-symbols-list", files / "wild")
    assert code == 1
    assert message in err
    table = ("--word-symbol-table", files / "words")
    code, out, _ = ninja("oracle", files / "lat.ark", "--ref", files / "text", *table)
    assert (code, out) == (0, "u1 a [noise] b\n")
    code, _, err = ninja("oracle", files / "lat.ark", "--ref", files / "text", "--wildcard-symbols-list", "x")
    assert (code, "--wildcard-symbols-list requires --words" in err) == (2, True)


def test_oracle_with_two_jobs_gives_the_same_output(ninja: Ninja, files: Path) -> None:
    serial = run(ninja, files, "--write-lattices", files / "one.ark")
    parallel = run(ninja, files, "--write-lattices", files / "two.ark", "--jobs", 2)
    assert serial == parallel
    assert (files / "one.ark").read_bytes() == (files / "two.ark").read_bytes()
