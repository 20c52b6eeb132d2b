"""Slow implementation of the contextual grammar: every reading of a sentence is scored separately."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st
from reference_ngram import SlowNgram, Words, models

Weights = Mapping[str, Mapping[Words, float]]  # class -> phrase -> weight


@dataclass(frozen=True)
class SlowContext:
    """A class model, a general model, phrases and boosts; scores as `ninja.context.Tracker` defines them."""

    phrases: Weights
    class_lm: SlowNgram | None = None
    old_lm: SlowNgram | None = None
    keyword_boost: float = 0.0
    class_boost: float = 0.0
    class_weight: float = 0.5
    unk_penalty: float = 0.0
    lm_scale: float = 1.0

    def score(self, sentence: Sequence[str]) -> float:
        """Return the best reading, minus the score of the old model, minus the cost of unwanted phrases."""
        words = tuple(sentence)
        scores = [score for score, _ in self.readings(words)]
        best = max(scores, default=-math.inf)
        old = 0.0
        if self.old_lm is not None:
            old = sum(self._ask(self.old_lm, words[:i], w) for i, w in enumerate((*words, "</s>")))
        return best - self.lm_scale * old + self._unwanted(words)

    def readings(self, words: Words) -> Iterator[tuple[float, tuple[tuple[int, int, str], ...]]]:
        """Yield the score and the phrases of each reading of the sentence."""
        return self._from(words, 0, (), 0.0, ())

    def _from(self, words, place, history, score, phrase_spans):
        if place == len(words):
            yield score + self._plain(history, words, place, "</s>"), phrase_spans
            return
        word = words[place]
        yield from self._from(
            words, place + 1, (*history, word), score + self._plain(history, words, place, word), phrase_spans
        )
        for cls, phrases in self.phrases.items():
            for phrase, weight in phrases.items():
                end = place + len(phrase)
                if weight < 0 or words[place:end] != phrase:
                    continue
                gain = self.keyword_boost * weight * len(phrase)
                if self.class_lm is not None and (cls,) in self.class_lm.ngrams:
                    entry = self._ask(self.class_lm, history, cls)
                    if self.old_lm is not None:
                        entry += math.log(self.class_weight)
                    gain += self._scale * entry + self.class_boost
                    after = (*history, cls)
                else:
                    for inner in range(place, end):
                        gain += self._plain((*history, *words[place:inner]), words, inner, words[inner])
                    after = (*history, *phrase)
                yield from self._from(words, end, after, score + gain, (*phrase_spans, (place, end, cls)))

    def _plain(self, history, words, place, word):
        """Return the score of a word outside all phrases."""
        if self.class_lm is None:
            return 0.0
        score = self._ask(self.class_lm, history, word)
        if self.old_lm is not None:
            old = self._ask(self.old_lm, words[:place], word)
            score = math.log(self.class_weight * math.exp(score) + (1 - self.class_weight) * math.exp(old))
        return self._scale * score

    @property
    def _scale(self):
        return self.lm_scale * (self.class_weight if self.old_lm is None else 1.0)

    def _ask(self, model, history, word):
        def model_word(word):
            return word if (word,) in model.ngrams else "<unk>"

        score = model.score(("<s>", *(model_word(context_word) for context_word in history)), model_word(word))
        return score - (self.unk_penalty if model_word(word) != word else 0.0)

    def _unwanted(self, words):
        return sum(
            self.keyword_boost * weight * len(phrase)
            for phrases in self.phrases.values()
            for phrase, weight in phrases.items()
            for place in range(len(words))
            if weight < 0 and words[place : place + len(phrase)] == phrase
        )


def with_class(model: SlowNgram) -> SlowNgram:
    """Return a drawn model, one word of which is a class."""
    return SlowNgram(
        model.order,
        {tuple("@c" if word == "ç" else word for word in ngram): value for ngram, value in model.ngrams.items()},
    )


WORDS = ("a", "b", "c")
class_models = models().filter(lambda model: ("ç",) in model.ngrams).map(with_class)
open_models = class_models.map(lambda model: SlowNgram(model.order, {("<unk>",): (-2.0, 0.0), **model.ngrams}))
old_models = models().filter(lambda model: ("<unk>",) in model.ngrams)


@st.composite
def phrase_weights(draw: st.DrawFn, negative: bool = True) -> dict[str, dict[Words, float]]:
    """Draw a few short phrases, some prefixes of others, in classes that the models contain or lack."""
    weight = st.sampled_from([0.0, 0.5, 1.0, 2.0, *([-1.0, -0.5] if negative else [])])
    phrase = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(tuple)
    classes = draw(st.lists(st.sampled_from(["@c", "@other", ""]), unique=True, max_size=3))
    return {cls: draw(st.dictionaries(phrase, weight, max_size=4)) for cls in classes}
