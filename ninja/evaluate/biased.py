"""Word error rates on rare words from biasing lists and on all other words, and a reader for biasing lists."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ninja.errors import FormatError, counted
from ninja.evaluate.error_rate import Alignment, Counts, ErrorRate, Pair, align_at_costs, count_errors
from ninja.evaluate.lexical import NormalizerName, lexical_references, lexical_texts
from ninja.evaluate.records import RecordError, parse_json, read_records
from ninja.evaluate.scoring import Mode, count_absent, scored_keys
from ninja.lattice.text import NONE, make_normalizer

_INSERTION, _DELETION, _SUBSTITUTION = 3, 3, 4  # the benchmark's costs

_FIELDS = ("utt", "text", "rare", "bias")
_COLUMNS = (
    "an utterance id, its text, the JSON list of its rare words and optionally the JSON biasing list, separated by tabs"
)


@dataclass(frozen=True, slots=True)
class BiasingList:
    """The biasing list of one utterance."""

    rare: frozenset[str]  # rare words of the reference; errors on these words are biased errors
    bias: tuple[str, ...] = ()  # the complete biasing list; it does not affect scores
    text: tuple[str, ...] | None = None  # reference, if the file contains it


@dataclass(frozen=True, slots=True)
class BiasedRate(Counts):
    """Word errors on all, rare and other words. Rates can be added, as in ``sum(rates, BiasedRate())``.

    Each of the three rates counts all sentences. The sentence errors of a rate are the sentences in which it counts
    at least one word error.
    """

    overall: ErrorRate = field(default_factory=ErrorRate)
    unbiased: ErrorRate = field(default_factory=ErrorRate)  # on words that are not in the rare list
    biased: ErrorRate = field(default_factory=ErrorRate)  # on words in the rare list, including their insertions

    def __str__(self) -> str:
        """Format the rates as three lines in the format of score.py from the LibriSpeech biasing benchmark."""
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
    *,
    normalizer: NormalizerName = NONE,
) -> BiasedRate:
    """Count word errors over a test set, separately for the rare words of each utterance and for other words.

    The arguments and exceptions are the same as for ``score``; in addition, each reference must have a biasing list.
    If a rare word consists of several lexical words, all of them count as rare.

    Source: Le et al. 2021, "Contextualized Streaming End-to-End Speech Recognition with Trie-Based Deep Biasing and
        Shallow Fusion"; score.py from the benchmark of this paper, for the alignment and the counts.
    """
    keys = scored_keys(references, hypotheses, mode)
    if unlisted := [key for key in keys if key not in lists]:
        raise FormatError(
            f"no biasing list for {len(unlisted)} of {counted(len(keys), 'reference')}; add an empty list for "
            "utterances without rare words",
            key=unlisted[0],
        )
    normalizer = make_normalizer(normalizer)
    references = lexical_references(references, normalizer)
    hypotheses = lexical_texts(hypotheses, normalizer)
    rare = lexical_texts({key: sorted(lists[key].rare) for key in keys}, normalizer)
    parts = (_rate(align(references[key], hypotheses.get(key, ())), frozenset(rare[key])) for key in keys)
    absent = count_absent(references, hypotheses)
    return sum(parts, BiasedRate(absent, absent, absent))


def align(reference: Sequence[str], hypothesis: Sequence[str]) -> Alignment:
    """Align a hypothesis with its reference; a substitution costs 4, an insertion 3 and a deletion 3.

    The biasing benchmark uses these costs. An insertion and a deletion around a correct word are cheaper than two
    substitutions.
    """
    return align_at_costs(reference, hypothesis, _INSERTION, _DELETION, _SUBSTITUTION)


def _rate(alignment: Alignment, rare: frozenset[str]) -> BiasedRate:
    unbiased: list[Pair] = []
    biased: list[Pair] = []
    for reference, hypothesis in alignment.pairs:
        word = hypothesis if reference is None else reference
        (biased if word in rare else unbiased).append((reference, hypothesis))
    return BiasedRate(alignment.rate(), count_errors(unbiased), count_errors(biased))


def read_biasing(path: str | os.PathLike[str]) -> dict[str, BiasingList]:
    """Read the biasing lists for a test set, keyed by utterance id; gzip files are decompressed.

    If the file starts with ``{``, each line is a JSON object ``{"utt": …, "rare": […], "bias": […], "text": …}``, in
    which the last two fields are optional. Otherwise the file is a table in the format of the biasing benchmark: each
    line contains, separated by tabs, an utterance id, its text, the JSON list of the rare words in the text, and
    optionally the JSON biasing list.

    Raises:
        FormatError: A line is invalid, an id occurs twice, or the file is empty or damaged.

    Source: facebookresearch/fbai-speech, is21_deep_bias, README.
    """
    return read_records(path, lambda text: _object if text.lstrip().startswith("{") else _columns)


def _columns(row: str) -> tuple[str, BiasingList]:
    fields = row.split("\t")
    if len(fields) not in (3, 4) or not fields[0]:
        raise RecordError(f"expected {_COLUMNS}; found {row[:60]!r}")
    record: dict[str, object] = {"utt": fields[0], "text": fields[1]}
    record |= {name: parse_json(content) for name, content in zip(("rare", "bias"), fields[2:], strict=False)}
    return _checked(record)


def _object(row: str) -> tuple[str, BiasingList]:
    record = parse_json(row)
    if not isinstance(record, dict):
        raise RecordError(f"expected a JSON object with {', '.join(_FIELDS)}; found {row[:60]!r}")
    if unknown := [name for name in record if name not in _FIELDS]:
        raise RecordError(f"unknown key {unknown[0]!r}; valid keys are {', '.join(_FIELDS)}")
    return _checked(record)


def _checked(record: Mapping[str, object]) -> tuple[str, BiasingList]:
    for name, description in (("utt", "the utterance id"), ("rare", "the rare words of the reference")):
        if name not in record:
            raise RecordError(f"{name!r} is missing; specify {description}")
    key, text = record["utt"], record.get("text")
    if not isinstance(key, str) or not key:
        raise RecordError(f"the utterance id is {key!r}, but must be a non-empty string")
    if text is not None and not isinstance(text, str):
        raise RecordError(f"the text of {key!r} is {text!r}, but must be a string")
    rare, bias = (_words(record.get(name, []), name) for name in ("rare", "bias"))
    return key, BiasingList(frozenset(rare), tuple(bias), None if text is None else tuple(text.split()))


def _words(words: object, name: str) -> list[str]:
    if not isinstance(words, list):
        raise RecordError(f"{name!r} is {words!r:.60}, but must be a list of words")
    for word in words:
        # Errors are counted by word, so a phrase would never match.
        if not isinstance(word, str) or word.split() != [word]:
            raise RecordError(
                f"{name!r} contains {word!r}, which is not a single word; list the words of phrases separately"
            )
    return words
