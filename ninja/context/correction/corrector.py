"""``Corrector``, which replaces words in transcripts with phrases that sound similar."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from ninja.context.augmentation.pronounced_list import Unpronounced, count_phrases
from ninja.context.correction.compiled import Alphabet, CompiledList, compile_list
from ninja.context.correction.decision import Decision, Doubles
from ninja.context.correction.evidence import Surprise, evidence
from ninja.context.correction.search import Match, matches
from ninja.context.entities.lists import PhraseList
from ninja.context.entities.written import ends_sentence, in_place_of, is_capitalised, kept_genitive
from ninja.lattice.text import BASIC, Form, Normalizer

COMMON = 11.0  # words with a lower unigram cost, in nats, are common; a common word alone is not treated as a phrase
Kind = Literal["sound", "spelling"]


@dataclass(frozen=True, slots=True)
class Change:
    """A change to a transcript: a phrase that replaces some of the words."""

    begin: int  # index of the first replaced word
    end: int  # index of the last replaced word plus 1
    before: tuple[str, ...]  # the replaced words
    after: tuple[str, ...]  # the words that replace them
    phrase: str  # as written in its list
    cls: str  # class of the phrase, "" for no class
    kind: Kind  # "sound" if the phrase sounds like the words, "spelling" if only the spelling differs
    distance: float  # distance per phone of the phrase; 0 for spellings
    probability: float  # probability that the change is right; 1 for spellings


class Candidates(NamedTuple):
    """Candidate corrections of words that sound like phrases, and the features of these candidates."""

    matches: list[Match]
    features: Doubles  # [candidates, features]
    spans: list[tuple[int, int]]  # index of the first lexical word, and index of the last plus 1
    log_prior: Doubles  # [candidates]


class Transcript(NamedTuple):
    """The written words of a transcript and their lexical words."""

    written: tuple[str, ...]
    lexical: list[str]
    word: list[int]  # index of the written word of each lexical word
    confidences: list[float] | None  # confidence of each lexical word

    def is_boundary(self, place: int) -> bool:
        """Return whether an index into the lexical words marks a boundary between written words."""
        return place in (0, len(self.word)) or self.word[place] != self.word[place - 1]

    def written_span(self, begin: int, end: int) -> tuple[int, int]:
        """Return the range of the written words that contain a range of lexical words."""
        return self.word[begin], self.word[end - 1] + 1


class Corrector:
    """Corrector that replaces words in transcripts with similar-sounding phrases from lists.

    Args:
        decision: Model of the probability that a candidate correction is right.
        surprise: Word costs under an n-gram model.
        sounds: Phones and their confusion costs. If None, letters are compared.
        threshold: Minimum probability of a correction, in [0, 1].  [default: the threshold of `decision`]
        normalizer: Normalizer that returns the lexical forms by which words are compared.
    """

    def __init__(
        self,
        decision: Decision,
        surprise: Surprise,
        sounds: Alphabet | None,
        threshold: float | None = None,
        normalizer: Normalizer = BASIC,
    ) -> None:
        self.decision = decision
        self._threshold = threshold
        self.normalizer = normalizer
        self._surprise = surprise
        self.sounds = sounds
        self._lists: WeakKeyDictionary[PhraseList, CompiledList] = WeakKeyDictionary()

    def changes(
        self, words: Sequence[str], lists: Sequence[PhraseList], confidences: Sequence[float] | None = None
    ) -> list[Change]:
        """Return the corrections of a transcript, in order; no two corrections replace the same word.

        Args:
            words: Written words.
            lists: Phrase lists.
            confidences: Confidence of each word in [0, 1].  [default: unknown]
        """
        transcript = self.transcript(words, confidences)
        threshold = self.threshold(has_confidences=confidences is not None)
        compiled = [self.compiled(phrases) for phrases in lists]
        present = self._present(transcript, compiled)
        changes = self._spellings(transcript, compiled, present)
        spans = [(change.begin, change.end) for change in changes]
        candidates = self._candidates(transcript, compiled, present)
        for number, probability in self._ranked(candidates):
            if probability < threshold or not probability:
                break
            match = candidates.matches[number]
            begin, end = transcript.written_span(match.begin, match.end)
            if all(end <= first or begin >= last for first, last in spans):
                spans.append((begin, end))
                source = compiled[match.list_number]
                changes.append(_change(transcript, match, source, begin, end, probability))
        changes = [change for change in changes if change.after != change.before]
        return sorted(changes, key=lambda change: change.begin)

    def threshold(self, *, has_confidences: bool) -> float:
        """Return the minimum probability of a correction."""
        if self._threshold is not None:
            return self._threshold
        return self.decision.confident_threshold if has_confidences else self.decision.threshold

    def transcript(self, words: Sequence[str], confidences: Sequence[float] | None = None) -> Transcript:
        """Create a transcript from written words and determine the lexical words."""
        forms = self.normalizer.forms(words)
        index = [number for number, form in enumerate(forms) for _ in form]
        lexical = [word for form in forms for word in form]
        return Transcript(
            tuple(words), lexical, index, None if confidences is None else [confidences[number] for number in index]
        )

    def compiled(self, phrases: PhraseList) -> CompiledList:
        """Return the compiled form of a phrase list, from the cache if possible."""
        if phrases not in self._lists:
            self._lists[phrases] = compile_list(phrases, self.sounds, self.normalizer)
        return self._lists[phrases]

    def phrases_in(self, words: Sequence[str], lists: Sequence[PhraseList]) -> list[Form]:
        """Return the lexical forms of the phrases that occur in a sequence of words, except single common words."""
        transcript = self.transcript(words)
        return [tuple(transcript.lexical[begin:end]) for begin, end in self.phrase_spans(transcript, lists)]

    def phrase_spans(self, transcript: Transcript, lists: Sequence[PhraseList]) -> list[tuple[int, int]]:
        """Return the spans of lexical words that match phrases, except single common words."""
        return self._present(transcript, [self.compiled(phrases) for phrases in lists])

    def listed(self, words: Sequence[str], lists: Sequence[PhraseList]) -> tuple[str, str]:
        """Return the written text and the class of the phrase with the given lexical words."""
        parts = [self.compiled(phrases) for phrases in lists]
        part, text = next((part, text) for part in parts for text in part.forms.get(tuple(words), ()))
        return text, part.phrases[text][0]

    def rarity(self, word: str) -> float:
        """Return the cost of a lexical word without context, in nats."""
        return self._surprise.word(word)

    @property
    def left_out_so_far(self) -> tuple[Unpronounced, ...]:
        """Phrases that cannot be compared with words, with the reasons, for the lists compiled so far."""
        return tuple(phrase for part in self._lists.values() for phrase in part.left_out)

    def candidates(self, transcript: Transcript, lists: Sequence[PhraseList]) -> Candidates:
        """Return the candidate corrections of words that sound like phrases."""
        compiled = [self.compiled(phrases) for phrases in lists]
        return self._candidates(transcript, compiled, self._present(transcript, compiled))

    def _candidates(
        self, transcript: Transcript, compiled: Sequence[CompiledList], present: Sequence[tuple[int, int]]
    ) -> Candidates:
        words = transcript.lexical
        similar = [
            match
            for match in matches(words, [part.strings for part in compiled])
            if transcript.is_boundary(match.begin)
            and transcript.is_boundary(match.end)
            and match.variant.text != " ".join(words[match.begin : match.end])
            and all(match.end <= begin or match.begin >= end for begin, end in present)
        ]
        num_phrases = count_phrases(part.forms for part in compiled)
        features = evidence(words, transcript.confidences, similar, num_phrases, self._surprise)
        prior = [
            math.log(compiled[match.list_number].phrases[" ".join(match.variant.written)][1].weight)
            for match in similar
        ]
        return Candidates(similar, features, [(match.begin, match.end) for match in similar], np.array(prior))

    def _present(self, transcript: Transcript, compiled: Sequence[CompiledList]) -> list[tuple[int, int]]:
        """Return the spans of lexical words that already match phrases, except single common words."""
        words = transcript.lexical
        longest = max((part.longest for part in compiled), default=0)
        return [
            (begin, end)
            for begin in range(len(words))
            for end in range(begin + 1, min(begin + longest, len(words)) + 1)
            if any(tuple(words[begin:end]) in part.forms for part in compiled)
            and not (end == begin + 1 and self._surprise.word(words[begin]) < COMMON)
            and transcript.is_boundary(begin)
            and transcript.is_boundary(end)
        ]

    def _ranked(self, candidates: Candidates) -> list[tuple[int, float]]:
        """Return the indices and the probabilities of the candidates, the most probable candidate first."""
        if not candidates.matches:
            return []
        probability = self.decision.probabilities(candidates.features, candidates.spans, candidates.log_prior)
        order = np.argsort(-probability, kind="stable")
        return list(zip(order.tolist(), probability[order].tolist(), strict=True))

    def _spellings(
        self, transcript: Transcript, compiled: Sequence[CompiledList], present: Sequence[tuple[int, int]]
    ) -> list[Change]:
        """Return changes to phrases that occur in the transcript but are spelled differently in their lists.

        The spelling is not changed if the phrase is spelled differently in several lists or classes, if its list
        contains no capitals, or if all words of the phrase are common, such as "may" and "will".
        """
        changes: list[Change] = []
        end_of_last = 0
        for begin, end in sorted(present, key=lambda span: (span[0], -span[1])):
            form = tuple(transcript.lexical[begin:end])
            first, last = transcript.written_span(begin, end)
            spellings = [(part, text) for part in compiled for text in part.forms.get(form, ())]
            part, text = spellings[0]
            is_known = all(self._surprise.word(word) < COMMON for word in form)
            if first < end_of_last or len({text for _, text in spellings}) > 1 or not part.is_cased or is_known:
                continue
            before = transcript.written[first:last]
            after = _written(transcript, text.split(), first, last, is_cased=True)
            end_of_last = last
            if after != before:
                changes.append(Change(first, last, before, after, text, part.phrases[text][0], "spelling", 0.0, 1.0))
        return changes


def apply_changes(words: Sequence[str], changes: Sequence[Change]) -> list[str]:
    """Apply changes, which must be sorted by position, to the words of a transcript."""
    corrected: list[str] = []
    at = 0
    for change in changes:
        corrected += [*words[at : change.begin], *change.after]
        at = change.end
    return [*corrected, *words[at:]]


def _change(
    transcript: Transcript, match: Match, source: CompiledList, begin: int, end: int, probability: float
) -> Change:
    text = " ".join(match.variant.written)
    before = transcript.written[begin:end]
    genitive = kept_genitive(before, match.variant.recognised or match.variant.text, match.distance)
    after = _written(transcript, match.variant.written, begin, end, is_cased=source.is_cased, genitive=genitive)
    relative = match.distance / match.length
    return Change(begin, end, before, after, text, source.phrases[text][0], "sound", relative, probability)


def _written(
    transcript: Transcript, phrase: Sequence[str], begin: int, end: int, *, is_cased: bool, genitive: str = ""
) -> tuple[str, ...]:
    """Return the words of a phrase with the punctuation and the initial capital of the words that it replaces.

    A phrase from a list without capitals is capitalised if all the replaced words are capitalised. If a
    transcript of several words is entirely in capitals, the phrase is also written in capitals.
    """
    words = transcript.written
    before = [word for word in words[:begin] if any(map(str.isalnum, word))]
    begins_sentence = not before or ends_sentence(before[-1])
    replaced = words[begin:end]
    phrase = list(phrase)
    if len(words) > 1 and " ".join(words).isupper():
        phrase = [word.upper() for word in phrase]
    elif not is_cased and all(map(is_capitalised, replaced)) and (not begins_sentence or len(replaced) > 1):
        phrase = [word[:1].upper() + word[1:] for word in phrase]
    begins_sentence |= not is_cased
    return in_place_of(phrase, replaced[0], replaced[-1], begins_sentence=begins_sentence, genitive=genitive)
