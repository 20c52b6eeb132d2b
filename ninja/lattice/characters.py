"""Apostrophes, non-word labels and plain letters, for normalizers and for comparing spellings."""

from __future__ import annotations

import re
import unicodedata

APOSTROPHES = str.maketrans(dict.fromkeys("\u2018\u2019\u201b\u02bc\uff07\u2032`\u00b4", "'"))
LABEL = re.compile(r"<[^<>\s]*>|\[[^\[\]\s]*\]|![A-Z_]+|#[0-9]+")  # as in <unk>, [noise], !SIL, #0


def plain_letters(text: str) -> str:
    """Return the letters, digits and apostrophes of a text, in lower case and without accents.

    Hangul syllables are decomposed into jamo.
    """
    if text.isascii():
        return "".join(letter for letter in text.lower() if letter.isalnum() or letter == "'")
    decomposed = unicodedata.normalize("NFKD", text.lower())
    return "".join(letter for letter in decomposed if letter.isalnum() or letter == "'")
