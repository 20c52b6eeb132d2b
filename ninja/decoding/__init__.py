"""Matrices of CTC models to lattices: prefix beam search, with a lexicon or without."""

from ninja.decoding.lexicon import CtcLexicon, ctc_lexicon, read_ctc_lexicon, spelled_by_letters
from ninja.decoding.search import CtcHypothesis, CtcOptions, ctc_lattice, ctc_nbest, from_ctc, log_probabilities
from ninja.decoding.units import CtcUnits, ctc_units, read_unit_names, sentencepiece_names

__all__ = [
    "CtcHypothesis",
    "CtcLexicon",
    "CtcOptions",
    "CtcUnits",
    "ctc_lattice",
    "ctc_lexicon",
    "ctc_nbest",
    "ctc_units",
    "from_ctc",
    "log_probabilities",
    "read_ctc_lexicon",
    "read_unit_names",
    "sentencepiece_names",
    "spelled_by_letters",
]
