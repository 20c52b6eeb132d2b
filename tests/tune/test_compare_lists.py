"""Comparison of corrections by two phrase lists on a development set."""

from types import SimpleNamespace

import pytest

from ninja.errors import LatticeError, Log, OptionError
from ninja.lattice.text import BASIC
from ninja.tune.correction import compare_lists


class Corrections:
    """A stage with fixed words and no changes; other keys raise an error."""

    def __init__(self, texts: dict[str, str]) -> None:
        self.texts = texts

    def load(self, _: Log) -> SimpleNamespace:
        return SimpleNamespace(normalizer=BASIC)

    def best_changes(self, key: str) -> SimpleNamespace:
        if key not in self.texts:
            raise LatticeError("no path", key=key)
        return SimpleNamespace(words=self.texts[key].split(), changes=())


def test_compare_lists_continues_after_a_failed_lattice() -> None:
    before, after = Corrections({"a": "x y", "b": "z"}), Corrections({"a": "x w"})
    failures: list[Exception] = []
    references = {"a": ["x", "w"], "b": ["z"]}
    comparison = compare_lists(
        [(key, key) for key in ("b", "a", "other")], references, before, after, Log(on_error=failures.append)
    )
    assert [error.key for error in failures] == ["b"]
    assert (comparison.before.errors, comparison.after.errors, comparison.num_utterances) == (1, 0, 1)
    with pytest.raises(OptionError, match="no processed utterance of the development set has a reference"):
        compare_lists([("other", "other")], references, before, after)
