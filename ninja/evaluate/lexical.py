"""Conversion of transcripts to lexical words."""

from __future__ import annotations

import numbers
import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from ninja.errors import FormatError, OptionError
from ninja.evaluate.normal_form import composed_texts
from ninja.lattice.text import LexicalForms, Normalizer, make_normalizer

Text = Sequence[str]
NormalizerName = str | os.PathLike[str] | Normalizer


def check_texts(texts: Mapping[str, object]) -> None:
    """Raise OptionError unless `texts` maps utterance ids to sequences of words; only the first words are checked."""
    if not isinstance(texts, Mapping):
        name = type(texts).__name__
        raise OptionError(f"the texts are a {name}, but must be a mapping, such as {{'utt1': ['hello', 'world']}}")
    for key, text in texts.items():
        if isinstance(text, str):
            raise OptionError(f"the text of {key!r} is a string; pass a list of words, such as text.split()")
        first = next(iter(text), "") if isinstance(text, Iterable) else text
        if first is None or isinstance(first, numbers.Number):
            raise OptionError(f"the text of {key!r} contains {first!r}, but must be a list of words (str)")


def lexical_texts(texts: Mapping[str, Text], normalizer: NormalizerName) -> dict[str, list[str]]:
    """Convert transcripts to lexical words in Unicode's composed form (NFC); warn if NFC changes a word.

    Args:
        texts: Written words by utterance id.
        normalizer: Name of a normalizer (see ``ninja.lattice.text.make_normalizer``); ``none`` leaves words unchanged.

    Raises:
        NinjaError: See ``make_normalizer``.
    """
    normalizer = make_normalizer(normalizer)
    if normalizer.is_identity:
        return composed_texts(texts)
    return composed_texts({key: normalizer.words(words) for key, words in texts.items()})


def lexical_references(references: Mapping[str, Text], normalizer: NormalizerName) -> dict[str, list[str]]:
    """Convert references to lexical words.

    Raises:
        FormatError: The references contain words, but none of these words has a lexical form.
        NinjaError: See ``lexical_texts``.
    """
    normalizer = make_normalizer(normalizer)
    lexical = lexical_texts(references, normalizer)
    if any(map(len, references.values())) and not any(lexical.values()):
        example = next(word for words in references.values() for word in words)
        message = f"the normalizer {normalizer.name} removes every word in the references, for example {example!r}"
        raise FormatError(f"{message}, so there is nothing to score; choose another normalizer")
    return lexical


def choose_normalizer(
    forms: LexicalForms, references: Mapping[str, Text], hypotheses: Mapping[str, Text]
) -> Normalizer:
    """Return the normalizer for a test set; ``auto`` selects ``basic`` if references or hypotheses are written text."""
    forms.normalizer_of(list(chain.from_iterable(references.values())))
    return forms.normalizer_of(list(chain.from_iterable(hypotheses.values())))
