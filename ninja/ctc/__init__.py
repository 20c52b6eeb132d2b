"""Matrices of CTC models to lattices: prefix beam search, with a lexicon or without."""

from typing import TYPE_CHECKING, Any

from ninja.ctc.lexicon import CtcLexicon, ctc_lexicon, read_ctc_lexicon, spelled_by_letters
from ninja.ctc.search import CtcHypothesis, CtcOptions, ctc_lattice, ctc_nbest, log_probabilities
from ninja.ctc.units import CtcUnits, ctc_units, read_unit_names, sentencepiece_names

if TYPE_CHECKING:
    from ninja.ctc.context import ctc_prefix_beam_search

__all__ = [
    "CtcHypothesis",
    "CtcLexicon",
    "CtcOptions",
    "CtcUnits",
    "ctc_lattice",
    "ctc_lexicon",
    "ctc_nbest",
    "ctc_prefix_beam_search",
    "ctc_units",
    "log_probabilities",
    "read_ctc_lexicon",
    "read_unit_names",
    "sentencepiece_names",
    "spelled_by_letters",
]


def __getattr__(name: str) -> Any:
    """Import the search with context, and all that context needs, when it is asked for."""
    if name == "ctc_prefix_beam_search":
        from ninja.ctc.context import ctc_prefix_beam_search

        return ctc_prefix_beam_search
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
