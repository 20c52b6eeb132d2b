"""Alignments, errors by speaker, and errors by word, in the formats that Kaldi's scoring scripts use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ninja.errors import FormatError
from ninja.evaluate.error_rate import Alignment, ErrorRate, align_at_costs

EPSILON = "<eps>"
SEPARATOR = ";"
_WIDEST_WORD = 16
_SPEAKER_WIDTH = 15
_COUNTS = ("#SENT", "#WORD", "Corr", "Sub", "Ins", "Del", "Err", "S.Err")


def align_text(reference: Sequence[str], hypothesis: Sequence[str]) -> Alignment:
    """Align a hypothesis with its reference in the same way as Kaldi's align-text.

    The number of edits is the same as for ``align``. Ties are broken from the last word to the first: pairs
    of words are preferred to deletions, and deletions to insertions.

    Source: Kaldi, util/edit-distance-inl.h, LevenshteinAlignment.
    """
    # Exchanging the texts breaks ties in favour of deletions.
    exchanged = align_at_costs(hypothesis, reference, 1, 1, 1)
    return Alignment(tuple((second, first) for first, second in exchanged.pairs))


def aligned_line(key: str, alignment: Alignment, special: str = EPSILON, separator: str = SEPARATOR) -> str:
    """Format an alignment on one line, in the format of Kaldi's align-text.

    Raises:
        FormatError: A word equals `special` or `separator`.
    """
    cells = _cells(key, alignment, special, separator)
    return f"{key} {f' {separator} '.join(map(' '.join, cells))}".rstrip()


def utterance_lines(key: str, alignment: Alignment, special: str = EPSILON) -> str:
    """Format an alignment on four lines, as in Kaldi's ``per_utt``: reference, hypothesis, operations and counts.

    Raises:
        FormatError: A word equals `special`.

    Source: Kaldi, egs/wsj/s5/utils/scoring/wer_per_utt_details.pl.
    """
    cells = _cells(key, alignment, special)
    columns = [(*cell, _operation(pair)) for pair, cell in zip(alignment.pairs, cells, strict=True)]
    rows = []
    for row, name in enumerate(("ref ", "hyp ", "op  ")):
        texts = [_centred(column[row], max(map(len, column))) for column in columns]
        rows.append(f"{key} {name} {'  '.join(texts)}\n")
    rate = alignment.rate()
    rows.append(f"{key} #csid {rate.correct} {rate.substitutions} {rate.insertions} {rate.deletions}\n")
    return "".join(rows)


def by_speaker(alignments: Mapping[str, Alignment], speakers: Mapping[str, str]) -> dict[str, ErrorRate]:
    """Count the errors of each speaker; speakers are sorted by name.

    Raises:
        FormatError: An utterance has no speaker.
    """
    rates: dict[str, ErrorRate] = {}
    for key, alignment in alignments.items():
        if key not in speakers:
            raise FormatError("this utterance has no speaker; add it to utt2spk", key=key)
        speaker = speakers[key]
        rates[speaker] = rates.get(speaker, ErrorRate()) + alignment.rate()
    return dict(sorted(rates.items()))


def speaker_table(rates: Mapping[str, ErrorRate]) -> str:
    """Format the errors of each speaker, and of all speakers together, as counts and percentages.

    Source: Kaldi, egs/wsj/s5/utils/scoring/wer_per_spk_details.pl.
    """
    width = max([_SPEAKER_WIDTH, *map(len, rates)])
    rows = [f"{'SPEAKER':<{width}} id  {' '.join(f'{name:>10}' for name in _COUNTS)}"]
    for speaker, rate in [*rates.items(), ("SUM", sum(rates.values(), ErrorRate()))]:
        counts = [rate.correct, rate.substitutions, rate.insertions, rate.deletions, rate.errors]
        sizes = f"{rate.sentences:>10} {rate.words:>10}"
        raw = " ".join(f"{count:>10}" for count in [*counts, rate.sentence_errors])
        rows.append(f"{speaker:<{width}} raw {sizes} {raw}")
        if rate.words:
            shares = [100 * count / rate.words for count in counts]
            percent = " ".join(f"{share:>10.2f}" for share in [*shares, rate.ser])
            rows.append(f"{speaker:<{width}} sys {sizes} {percent}")
    return "\n".join(rows)


@dataclass(frozen=True, slots=True)
class Operations:
    """Counts of correct, substituted, deleted and inserted words."""

    correct: Counter[str] = field(default_factory=Counter)
    substitutions: Counter[tuple[str, str]] = field(default_factory=Counter)  # (reference, hypothesis)
    deletions: Counter[str] = field(default_factory=Counter)
    insertions: Counter[str] = field(default_factory=Counter)

    def table(self, special: str = EPSILON) -> str:
        """Format all counts, sorted by reference word, then by hypothesis word.

        Source: Kaldi, egs/wsj/s5/utils/scoring/wer_ops_details.pl.
        """
        rows = [("correct", word, word, count) for word, count in self.correct.items()]
        rows += [("insertion", special, word, count) for word, count in self.insertions.items()]
        rows += [("deletion", word, special, count) for word, count in self.deletions.items()]
        rows += [("substitution", *words, count) for words, count in self.substitutions.items()]
        rows.sort(key=lambda row: row[1:3])
        width = min(_WIDEST_WORD, max((len(word) for _, *words, _ in rows for word in words), default=0))
        digits = max((len(str(count)) for *_, count in rows), default=0)
        return "".join(
            f"{name:<12}  {reference:>{width}}    {hypothesis:>{width}}    {count:>{digits}}\n"
            for name, reference, hypothesis, count in rows
        )

    def most_often(self, number: int) -> str:
        """Format the `number` most frequent substitutions, deletions and insertions; ties are sorted by word."""
        pairs = Counter({" → ".join(pair): count for pair, count in self.substitutions.items()})
        parts = []
        for name, counts in (("substitutions", pairs), ("deletions", self.deletions), ("insertions", self.insertions)):
            rows = [f"{counts.total()} {name}, {len(counts)} different"]
            ranked = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))[:number]
            rows += [f"{count:>7}  {words}" for words, count in ranked]
            parts.append("\n".join(rows))
        return "\n".join(parts)


def count_operations(alignments: Mapping[str, Alignment]) -> Operations:
    """Count correct words, substitutions, deletions and insertions over a test set."""
    counts = Operations()
    for alignment in alignments.values():
        for reference, hypothesis in alignment.pairs:
            if reference is None:
                assert hypothesis is not None
                counts.insertions[hypothesis] += 1
            elif hypothesis is None:
                counts.deletions[reference] += 1
            elif reference == hypothesis:
                counts.correct[reference] += 1
            else:
                counts.substitutions[reference, hypothesis] += 1
    return counts


def _operation(pair: tuple[str | None, str | None]) -> str:
    reference, hypothesis = pair
    if hypothesis is None:
        return "D"
    if reference is None:
        return "I"
    return "C" if reference == hypothesis else "S"


def _cells(key: str, alignment: Alignment, special: str, separator: str | None = None) -> list[tuple[str, str]]:
    """Replace missing words with `special`; raise FormatError if a word equals `special` or `separator`."""
    for pair in alignment.pairs:
        for word in pair:
            if word is not None and word in (special, separator):
                raise FormatError(
                    f"the word {word!r} is used as a special symbol in alignments; choose another symbol", key=key
                )
    return [(first or special, second or special) for first, second in alignment.pairs]


def _centred(word: str, width: int) -> str:
    """Centre a word; if the number of spaces is odd, the extra space is on the left."""
    right = (width - len(word)) // 2
    return " " * (width - len(word) - right) + word + " " * right
