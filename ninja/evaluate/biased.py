"""Biased and unbiased word error rates: on the rare words a biasing list holds, and on all others; and such lists."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ninja.errors import FormatError
from ninja.evaluate.error_rate import Alignment, Counts, ErrorRate, Pair, align_at_costs, count_errors
from ninja.evaluate.records import RecordError, parse_json, read_records
from ninja.evaluate.scoring import Mode, count_absent, scored_keys

_INSERTION, _DELETION, _SUBSTITUTION = 3, 3, 4  # the benchmark's costs

_FIELDS = ("utt", "text", "rare", "bias")
_COLUMNS = "an utterance id, its text, the JSON list of its rare words and the JSON biasing list, parted by tabs"


@dataclass(frozen=True, slots=True)
class BiasingList:
    """The biasing list of one utterance."""

    rare: frozenset[str]  # rare words of the reference: errors on these, and only these, are biased errors
    bias: tuple[str, ...] = ()  # the whole list, with words that are not said; no score depends on it
    text: tuple[str, ...] | None = None  # words said, where the file holds them


@dataclass(frozen=True, slots=True)
class BiasedRate(Counts):
    """Word errors on rare words and on the others; add them up, or use ``sum(rates, BiasedRate())``.

    Each part counts all sentences, and as wrong those with an error of its own kind.
    """

    overall: ErrorRate = field(default_factory=ErrorRate)
    unbiased: ErrorRate = field(default_factory=ErrorRate)  # on words that are not in the utterance's rare list
    biased: ErrorRate = field(default_factory=ErrorRate)  # on words that are; insertions of such words

    def __str__(self) -> str:
        """Return the three lines the benchmark's own scorer prints."""
        parts = {"WER": self.overall, "U-WER": self.unbiased, "B-WER": self.biased}
        return "\n".join(
            f"{name}: error_rate={rate.wer}, ref_words={rate.words}, subs={rate.substitutions}, "
            f"ins={rate.insertions}, dels={rate.deletions}"
            for name, rate in parts.items()
        )


def score_biased(
    references: Mapping[str, Sequence[str]],
    hypotheses: Mapping[str, Sequence[str]],
    lists: Mapping[str, BiasingList],
    mode: Mode = "strict",
) -> BiasedRate:
    """Count word errors over a test set, apart on the rare words of each utterance and on the others.

    Arguments and errors are those of ``score``, with the biasing list of each reference, which must have one.

    Source: Le et al. 2021, "Contextualized Streaming End-to-End Speech Recognition with Trie-Based Deep Biasing and
        Shallow Fusion"; its benchmark's score.py for the alignment and the rules of counting.
    """
    keys = scored_keys(references, hypotheses, mode)
    if unlisted := [key for key in keys if key not in lists]:
        raise FormatError(
            f"{len(unlisted)} of {len(keys)} references have no biasing list; an utterance without rare words needs "
            "an empty one",
            key=unlisted[0],
        )
    parts = (_rate(align(references[key], hypotheses.get(key, ())), lists[key].rare) for key in keys)
    absent = count_absent(references, hypotheses)
    return sum(parts, BiasedRate(absent, absent, absent))


def align(reference: Sequence[str], hypothesis: Sequence[str]) -> Alignment:
    """Align a hypothesis with its reference at the benchmark's costs: substitution 4, insertion and deletion 3.

    So two substitutions are dearer than an insertion and a deletion around a word that fits. Ties count, too.
    """
    return align_at_costs(reference, hypothesis, _INSERTION, _DELETION, _SUBSTITUTION)


def _rate(alignment: Alignment, rare: frozenset[str]) -> BiasedRate:
    unbiased: list[Pair] = []
    biased: list[Pair] = []
    for said, heard in alignment.pairs:
        (biased if (heard if said is None else said) in rare else unbiased).append((said, heard))
    return BiasedRate(alignment.rate(), count_errors(unbiased), count_errors(biased))


def read_biasing(path: str | os.PathLike[str]) -> dict[str, BiasingList]:
    """Read the biasing lists of a test set, by utterance id; ``.gz`` is unpacked.

    Two forms, told apart by the first character. The benchmark's table has a line for each utterance: its id, its
    text, the rare words in the text as a JSON list, the biasing list as another (which may be left out), parted by
    tabs. JSON lines hold the same as ``{"utt": …, "rare": […], "bias": […], "text": …}``, the last two optional.

    Raises:
        FormatError: A line does not hold these, a word is none, an id occurs twice, or the file is empty or damaged.

    Source: facebookresearch/fbai-speech, is21_deep_bias, README.
    """
    return read_records(path, lambda text: _object if text.lstrip().startswith("{") else _columns)


def _columns(row: str) -> tuple[str, BiasingList]:
    fields = row.split("\t")
    if len(fields) not in (3, 4) or not fields[0]:
        raise RecordError(f"expected {_COLUMNS}; found {row[:60]!r}")
    found: dict[str, object] = {"utt": fields[0], "text": fields[1]}
    found |= {name: parse_json(content) for name, content in zip(("rare", "bias"), fields[2:], strict=False)}
    return _checked(found)


def _object(row: str) -> tuple[str, BiasingList]:
    found = parse_json(row)
    if not isinstance(found, dict):
        raise RecordError(f"expected a JSON object with {', '.join(_FIELDS)}; found {row[:60]!r}")
    if unknown := [name for name in found if name not in _FIELDS]:
        raise RecordError(f"unknown key {unknown[0]!r}; known are {', '.join(_FIELDS)}")
    return _checked(found)


def _checked(found: Mapping[str, object]) -> tuple[str, BiasingList]:
    for name, what in (("utt", "the utterance id"), ("rare", "the rare words said")):
        if name not in found:
            raise RecordError(f"{name!r} is missing; give {what}")
    key, text = found["utt"], found.get("text")
    if not isinstance(key, str) or not key:
        raise RecordError(f"the utterance id is {key!r}, but must be a string that is not empty")
    if text is not None and not isinstance(text, str):
        raise RecordError(f"the text of {key!r} is {text!r}, but must be a string")
    rare, bias = (_words(found.get(name, []), name) for name in ("rare", "bias"))
    return key, BiasingList(frozenset(rare), tuple(bias), None if text is None else tuple(text.split()))


def _words(found: object, name: str) -> list[str]:
    if not isinstance(found, list):
        raise RecordError(f"{name!r} is no list, but {str(found)[:60]!r}")
    for word in found:
        # Errors are counted word by word: one with a blank in it would never be found.
        if not isinstance(word, str) or word.split() != [word]:
            raise RecordError(f"{name!r} holds {word!r}, which is not one word; give the words of phrases one by one")
    return found
