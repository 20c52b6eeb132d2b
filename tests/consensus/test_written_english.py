"""Lattices of written words have the words, confidences and errors of their lexical lattices."""

from __future__ import annotations

import numpy as np
import pytest
from reference_graph import SHARED

from ninja import evaluate, read
from ninja.consensus import Consensus, mbr_decode
from ninja.graph import nbest, oracle, union
from ninja.lattice import Scales
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.text import BASIC, LexicalTable

ENGLISH = SHARED / "data" / "english"
SCALES = Scales(0.1)
NUM_LATTICES = 40
EPSILON = 0


def capital(word: str) -> str:
    """Capitalise a word and add punctuation; written words are unchanged."""
    return word.capitalize() + ",.?"[len(word) % 3] if BASIC(word) == (word,) else word


def shouted(word: str) -> str:
    """Write a word in upper case."""
    return f"“{word.upper()}!”" if BASIC(word) == (word,) else f"({word})"


@pytest.fixture(scope="module")
def tables():
    """Return the lexical table, and the table of both written forms, in which the second form of word n has the id n +
    size."""
    if not ENGLISH.exists():
        # Users have no ../shared; in CI, tests/conftest.py turns this skip into a failure.
        pytest.skip("the English test data are not part of the project")
    words = SymbolTable.read(ENGLISH / "words.txt.gz")
    second = [(shouted(word), number + len(words)) for word, number in words if number]
    first = [(capital(word) if number else word, number) for word, number in words]
    return LexicalTable(words, BASIC), LexicalTable(SymbolTable(first + second), BASIC)


@pytest.fixture(scope="module", params=["libri", "calls", "general"])
def variants(request, tables):
    """Return the key, the lexical lattice, its first written form and the union of both of each lattice."""
    original, written_table = tables
    result = []
    for key, lattice in read(ENGLISH / "test" / request.param / "lat.ark.gz", words=original.words):
        first = lattice.replace(words=written_table.words)
        word = np.where(lattice.word == EPSILON, EPSILON, lattice.word + len(original.words)).astype(np.int32)
        both = union([first, first.replace(word=word)], determinize=False)
        result.append((key, lattice, first, both))
        if len(result) == NUM_LATTICES:
            break
    return request.param, result


def lexical_words(table: LexicalTable, ids: np.ndarray) -> list[str]:
    return table.normalizer.words(table.words.spell(ids))


def spelled(result: Consensus, table: LexicalTable) -> list[str]:
    return (result.symbols or table.words).spell(result.words)


def test_consensus_of_written_words_agrees_with_lexical_words(tables, variants):
    original, written_table = tables
    for key, lattice, *written_lattices in variants[1]:
        expected = mbr_decode(lattice, SCALES, forms=original)
        results = [mbr_decode(written_lattice, SCALES, forms=written_table) for written_lattice in written_lattices]
        for result in results:
            words = BASIC.words(spelled(result, written_table))
            assert words == BASIC.words(spelled(expected, original)), key
            assert result.confidences == pytest.approx(expected.confidences, abs=1e-6), key
            assert np.array_equal(result.bin_begin, expected.bin_begin), key
            assert result.posterior == pytest.approx(expected.posterior, abs=1e-6), key
            assert result.bayes_risk == pytest.approx(expected.bayes_risk, abs=1e-6), key
        # The forms of the union are equally probable: the smaller id, that of the first form, wins.
        assert spelled(results[0], written_table) == spelled(results[1], written_table), key


def test_oracle_errors_of_written_words_agree_with_lexical_words(tables, variants):
    original, written_table = tables
    name, lattices = variants
    references = evaluate.read_text(ENGLISH / "test" / name / "text")
    for key, lattice, *written_lattices in lattices:
        expected = oracle(lattice, original.ids(references[key]), forms=original)
        for written_lattice in written_lattices:
            reference = [shouted(word) for word in references[key]]
            nearest = oracle(written_lattice, written_table.ids(reference), forms=written_table)
            assert (nearest.edits, nearest.num_words) == (expected.edits, expected.num_words), key


def test_nbest_lists_have_the_same_lexical_words(tables, variants):
    original, written_table = tables
    for key, lattice, *written_lattices in variants[1]:
        expected = nbest(lattice, 10, SCALES, forms=original)
        costs = [path.cost(SCALES) for path in expected]
        for written_lattice in written_lattices:
            paths = nbest(written_lattice, 10, SCALES, forms=written_table)
            assert [path.cost(SCALES) for path in paths] == pytest.approx(costs, abs=1e-3), key
            if min(np.diff(costs), default=1.0) > 1e-3:  # the order of equal costs is not defined
                words = [lexical_words(written_table, path.words) for path in paths]
                assert words[:-1] == [lexical_words(original, path.words) for path in expected][:-1], key


def test_oracle_scores_of_written_words_agree_with_lexical_words(tables, variants):
    original, written_table = tables
    name, lattices = variants
    texts = evaluate.read_text(ENGLISH / "test" / name / "text")
    references = {key: texts[key] for key, *_ in lattices}
    shouts = {key: [shouted(word) for word in words] for key, words in references.items()}
    expected = evaluate.oracle_score([variant[1] for variant in lattices], references, original.words, normalizer=BASIC)
    for place in (2, 3):
        rate = evaluate.oracle_score(
            [variant[place] for variant in lattices], shouts, written_table.words, normalizer="basic"
        )
        assert (rate.errors, rate.words) == (expected.errors, expected.words)
