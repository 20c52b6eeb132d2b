"""Simulated phrase lists; a phrase is a span that contains a rare word, like the phrases that users list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np

from ninja.context.deep.recipe import PointerOptions
from ninja.errors import OptionError

LONGER = 0.25  # fraction of spans that may include neighbouring words
LONGEST = 3  # maximum number of words per span
MOST_TYPES = 30_000  # maximum number of rare words that are used to fill lists


@dataclass(frozen=True, slots=True)
class Span:
    """A phrase in a sentence."""

    begin: int  # index of the first word in the sentence
    phrase: int  # index into `SimulatedText.phrases`
    length: int  # number of words


@dataclass(frozen=True, slots=True)
class SimulatedText:
    """Sentences, the phrases that occur in them, and rare words to add to the phrase lists."""

    sentences: list[list[str]]
    spans: list[list[Span]]  # the phrases in each sentence; they do not overlap
    phrases: list[str]
    count: list[int]  # number of occurrences of each phrase's rare word in the text
    spoken: list[int]  # index of the phrase of each span, with repetitions
    types: list[int]  # indices of phrases that consist of a single rare word


def simulate(
    text: Callable[[], Iterable[list[str]]], options: PointerOptions, rng: np.random.Generator
) -> SimulatedText:
    """Select evenly spaced sentences from a text, and phrases in these sentences.

    Args:
        text: Function that returns the sentences; it is called twice.
        options: Training options.
        rng: Random number generator.

    Raises:
        OptionError: The text has no rare words.
    """
    count = Counter(chain.from_iterable(text()))
    common = {word for word, _ in count.most_common(options.common)}
    rare = sorted(set(count) - common)
    if not rare:
        raise OptionError(
            f"the text has no words except the {options.common} most frequent; use more text, or a smaller value "
            "of common"
        )
    sentences = list(islice(text(), 0, None, max(1, count.total() // options.positions)))
    number: dict[str, int] = {}
    counts: list[int] = []
    spans: list[list[Span]] = []
    for sentence in sentences:
        sentence_spans: list[Span] = []
        free = 0  # first word after the last span
        for position, word in enumerate(sentence):
            if word in common or position < free:
                continue
            begin, end = position, position + 1
            if rng.random() < LONGER:
                begin = int(rng.integers(max(free, position - LONGEST + 1), position + 1))
                end = int(rng.integers(position + 1, min(len(sentence), begin + LONGEST) + 1))
            text_of = " ".join(sentence[begin:end])
            phrase = number.setdefault(text_of, len(number))
            if phrase == len(counts):
                counts.append(count[word])
            sentence_spans.append(Span(begin, phrase, end - begin))
            free = end
        spans.append(sentence_spans)
    spoken = [span.phrase for sentence_spans in spans for span in sentence_spans]
    chosen = rng.permutation(len(rare))[:MOST_TYPES]
    types = []
    for word in (rare[index] for index in chosen.tolist()):
        types.append(number.setdefault(word, len(number)))
        if types[-1] == len(counts):
            counts.append(count[word])
    return SimulatedText(sentences, spans, list(number), counts, spoken, types)
