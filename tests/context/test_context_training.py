"""Training of the contextual model: tables of docs/context.md and training commands."""

import pytest
from stored_pages import check_page

pytest.importorskip("torch")

from benchmarks.command import ENGLISH
from benchmarks.context import training


def test_documented_tables_match_the_stored_measurements(tmp_path):
    check_page(training.main, "context.md", training.STORED, tmp_path)


# The data are not part of the project; in CI, tests/conftest.py turns this skip into a failure.
@pytest.mark.skipif(not ENGLISH.is_dir(), reason="needs the English test-bed")
def test_training_commands_replace_classes_by_names():
    sentences = training.commands(ENGLISH, 30_000)
    patterns = [line.split() for line in (ENGLISH / "class_train.txt").read_text().splitlines()]
    assert len(sentences) == 2 * len(patterns)
    first, second = sentences[: len(patterns)], sentences[len(patterns) :]
    for pattern, *spelt in zip(patterns, first, second, strict=True):
        has_class = any(word.startswith("@") for word in pattern)
        assert [words == pattern for words in spelt] == [not has_class] * 2
        assert not any(word.startswith("@") for words in spelt for word in words)
    assert first != second
