"""Unicode normalisation of words (NFC), which makes equivalent encodings of accented letters equal."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from unicodedata import is_normalized, normalize

from ninja.errors import NinjaWarning
from ninja.lattice.symbols import SymbolTable


def composed(sentences: Sequence[Sequence[str]]) -> list[list[str]]:
    """Normalise the words in sentences to NFC; warn if any word changes."""
    if is_normalized("NFC", "\n".join(chain.from_iterable(sentences))):  # no letter composes with a newline
        return [list(words) for words in sentences]
    num_changed = 0
    results = []
    for words in sentences:
        changed = composed_words(words)
        num_changed += sum(word != old for word, old in zip(changed, words, strict=True))
        results.append(changed)
    if num_changed:
        number = "1 word is" if num_changed == 1 else f"{num_changed} words are"
        message = f"{number} not in Unicode's composed form (NFC); words are compared in that form"
        warnings.warn(message, NinjaWarning, stacklevel=3)
    return results


def composed_words(words: Iterable[str]) -> list[str]:
    """Normalise words to NFC."""
    return [word if word.isascii() else normalize("NFC", word) for word in words]


def reference_ids(words: SymbolTable, reference: Sequence[str]) -> list[int]:
    """Look up each reference word as written, then in NFC, then in NFD; return the ids, -1 for unknown words."""
    ids = words.ids(reference)
    for form in ("NFC", "NFD"):
        if -1 in ids:
            equivalent = words.ids([normalize(form, word) for word in reference])
            ids = [other if number < 0 else number for number, other in zip(ids, equivalent, strict=True)]
    return ids


def composed_texts(texts: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Normalise the words in the transcript of each utterance to NFC; warn if any word changes."""
    return dict(zip(texts, composed(list(texts.values())), strict=True))
