"""Alignment of lattices to words or phones: each new arc is one word, silence or phone with exactly its labels."""

from ninja.graph.align.lexicon import LexiconAligner, LexiconAlignment, align_words_lexicon
from ninja.graph.align.phones import PhoneAligner, PhoneAlignment, align_phones
from ninja.graph.align.result import Aligned
from ninja.graph.align.times import WordTime, word_times
from ninja.graph.align.words import WordAligner, WordAlignment, align_words

__all__ = [
    "Aligned",
    "LexiconAligner",
    "LexiconAlignment",
    "PhoneAligner",
    "PhoneAlignment",
    "WordAligner",
    "WordAlignment",
    "WordTime",
    "align_phones",
    "align_words",
    "align_words_lexicon",
    "word_times",
]
