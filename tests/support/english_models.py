"""Language models of the English test bed, which take seconds to load and are shared by the tests of a process."""

from functools import cache

from reference_graph import SHARED

from ninja.lm import LanguageModel, load


@cache
def first_pass_trigram() -> LanguageModel:
    """Return the trigram of the first pass."""
    return load(SHARED / "data" / "english" / "first_pass.arpa.gz")
