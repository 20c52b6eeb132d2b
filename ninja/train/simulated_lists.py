"""Simulated lists of phrases: spans of a text's sentences that hold a rare word, as users would list them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np

from ninja.context.deep.recipe import PointerOptions
from ninja.errors import OptionError

LONGER = 0.25  # share of spans of more than the rare word
LONGEST = 3  # words of a span
MOST_TYPES = 30_000  # rare words absent from the sentence, to fill lists with


@dataclass(frozen=True, slots=True)
class Span:
    """A phrase in a sentence."""

    begin: int  # word of the sentence
    phrase: int  # in `SimulatedText.phrases`
    length: int


@dataclass(frozen=True, slots=True)
class SimulatedText:
    """Sentences with the phrases in them, and phrases to fill lists with."""

    sentences: list[list[str]]
    spans: list[list[Span]]  # of each sentence, apart from each other
    phrases: list[str]
    count: list[int]  # how often the text has each phrase's rarest word
    said: list[int]  # the phrase of each span, as often as there are spans
    types: list[int]  # phrases that are rare words, each once


def simulate(
    text: Callable[[], Iterable[list[str]]], options: PointerOptions, rng: np.random.Generator
) -> SimulatedText:
    """Choose sentences of a text, which is read twice, spread evenly, and phrases in them.

    Raises:
        OptionError: No word is rare.
    """
    count = Counter(chain.from_iterable(text()))
    common = {word for word, _ in count.most_common(options.common)}
    rare = sorted(set(count) - common)
    if not rare:
        raise OptionError(f"no word beyond the {options.common} commonest; provide more text, or reduce `common`")
    sentences = list(islice(text(), 0, None, max(1, count.total() // options.positions)))
    number: dict[str, int] = {}
    counts: list[int] = []
    spans: list[list[Span]] = []
    for sentence in sentences:
        found: list[Span] = []
        free = 0  # first word that no span has
        for place, word in enumerate(sentence):
            if word in common or place < free:
                continue
            begin, end = place, place + 1
            if rng.random() < LONGER:
                begin = int(rng.integers(max(free, place - LONGEST + 1), place + 1))
                end = int(rng.integers(place + 1, min(len(sentence), begin + LONGEST) + 1))
            text_of = " ".join(sentence[begin:end])
            phrase = number.setdefault(text_of, len(number))
            if phrase == len(counts):
                counts.append(count[word])
            found.append(Span(begin, phrase, end - begin))
            free = end
        spans.append(found)
    said = [span.phrase for found in spans for span in found]
    chosen = rng.permutation(len(rare))[:MOST_TYPES]
    types = []
    for each in chosen.tolist():
        types.append(number.setdefault(rare[each], len(number)))
        if types[-1] == len(counts):
            counts.append(count[rare[each]])
    return SimulatedText(sentences, spans, list(number), counts, said, types)
