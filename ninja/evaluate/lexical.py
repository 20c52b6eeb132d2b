"""Transcripts by the lexical forms of their words."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import chain

from ninja.errors import FormatError
from ninja.lattice.text import LexicalForms, Normalizer, make_normalizer

Text = Sequence[str]
NormalizerName = str | os.PathLike[str] | Normalizer


def lexical_texts(texts: Mapping[str, Text], normalizer: NormalizerName) -> dict[str, Text]:
    """Return the lexical words of transcripts by key.

    Args:
        texts: Written words by utterance id.
        normalizer: As for ``ninja.lattice.text.make_normalizer``; with ``none``, the words are returned as they are.

    Raises:
        NinjaError: As for ``make_normalizer``.
    """
    normalizer = make_normalizer(normalizer)
    if normalizer.is_identity:
        return dict(texts)
    return {key: normalizer.words(words) for key, words in texts.items()}


def lexical_references(references: Mapping[str, Text], normalizer: NormalizerName) -> dict[str, Text]:
    """Return the lexical words of references.

    Raises:
        FormatError: The references have words, but no lexical word.
        NinjaError: As for ``lexical_texts``.
    """
    normalizer = make_normalizer(normalizer)
    lexical = lexical_texts(references, normalizer)
    if any(references.values()) and not any(lexical.values()):
        example = next(word for words in references.values() for word in words)
        message = f"no word of the references, such as {example!r}, has a lexical form by normalizer {normalizer.name}"
        raise FormatError(f"{message}; there is nothing to score; choose another normalizer")
    return lexical


def choose_normalizer(
    forms: LexicalForms, references: Mapping[str, Text], hypotheses: Mapping[str, Text]
) -> Normalizer:
    """Return the normalizer for references and hypotheses; with ``auto``, written text on one side suffices."""
    forms.normalizer_of(list(chain.from_iterable(references.values())))
    return forms.normalizer_of(list(chain.from_iterable(hypotheses.values())))
