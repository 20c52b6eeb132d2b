"""Public names of the package, read by `lazy_loader`, type checkers and editors."""

from .beam_search import BeamOptions as BeamOptions, beam_search as beam_search
from .ctc import ctc_lattice as ctc_lattice, ctc_nbest as ctc_nbest, from_ctc as from_ctc
from .ctc_options import CtcOptions as CtcOptions
from .ctc_prefix import CtcPrefixes as CtcPrefixes
from .ctc_stream import CtcStream as CtcStream
from .emissions import log_probabilities as log_probabilities
from .hypothesis import Hypothesis as Hypothesis
from .lexicon import (
    CtcLexicon as CtcLexicon,
    ctc_lexicon as ctc_lexicon,
    read_ctc_lexicon as read_ctc_lexicon,
    spelled_by_letters as spelled_by_letters,
)
from .pointer_tracker import PointerTracker as PointerTracker
from .spelled_tracker import SpelledTracker as SpelledTracker
from .spelling import Spelling as Spelling
from .units import (
    CtcUnits as CtcUnits,
    ctc_units as ctc_units,
    read_unit_names as read_unit_names,
    sentencepiece_names as sentencepiece_names,
)
