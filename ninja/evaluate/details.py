"""Details of errors: alignments, tables of speakers and counts of words, laid out as by Kaldi's scripts."""

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
    """Align a hypothesis with its reference as Kaldi's align-text does.

    The edits are as few as in ``align``. Of equally short ways to end, a pair of words is taken before a deletion, and
    a deletion before an insertion.

    Source: Kaldi, util/edit-distance-inl.h, LevenshteinAlignment.
    """
    # With the sides exchanged, a deletion is taken before an insertion.
    exchanged = align_at_costs(hypothesis, reference, 1, 1, 1)
    return Alignment(tuple((said, heard) for heard, said in exchanged.pairs))


def aligned_line(key: str, alignment: Alignment, special: str = EPSILON, separator: str = SEPARATOR) -> str:
    """Write an alignment on one line, as Kaldi's align-text does; no word may be the special symbol or separator."""
    cells = _cells(key, alignment, special, separator)
    return f"{key} {f' {separator} '.join(f'{said} {heard}' for said, heard in cells)}".rstrip()


def utterance_lines(key: str, alignment: Alignment, special: str = EPSILON) -> str:
    """Write an alignment on four lines, as ``per_utt`` holds it: reference, hypothesis, operations, their counts.

    Source: Kaldi, egs/wsj/s5/utils/scoring/wer_per_utt_details.pl.
    """
    columns = [
        (said, heard, _operation(pair))
        for pair, (said, heard) in zip(alignment.pairs, _cells(key, alignment, special), strict=True)
    ]
    rows = []
    for row, name in enumerate(("ref ", "hyp ", "op  ")):
        cells = [_centred(column[row], max(map(len, column))) for column in columns]
        rows.append(f"{key} {name} {'  '.join(cells)}\n")
    rate = alignment.rate()
    rows.append(f"{key} #csid {rate.correct} {rate.substitutions} {rate.insertions} {rate.deletions}\n")
    return "".join(rows)


def by_speaker(alignments: Mapping[str, Alignment], speakers: Mapping[str, str]) -> dict[str, ErrorRate]:
    """Count the errors of each speaker, in the order of their names; every utterance needs a speaker."""
    rates: dict[str, ErrorRate] = {}
    for key, alignment in alignments.items():
        if key not in speakers:
            raise FormatError("no speaker is given for this utterance; add it to utt2spk", key=key)
        speaker = speakers[key]
        rates[speaker] = rates.get(speaker, ErrorRate()) + alignment.rate()
    return dict(sorted(rates.items()))


def speaker_table(rates: Mapping[str, ErrorRate]) -> str:
    """Write the errors of each speaker and of all, as counts and as percentages.

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
    """Counts of each word recognised, substituted, deleted or inserted."""

    correct: Counter[str] = field(default_factory=Counter)
    substitutions: Counter[tuple[str, str]] = field(default_factory=Counter)  # (said, heard)
    deletions: Counter[str] = field(default_factory=Counter)
    insertions: Counter[str] = field(default_factory=Counter)

    def table(self, special: str = EPSILON) -> str:
        """Write all counts, ordered by the words of the reference and the hypothesis.

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
            f"{name:<12}  {said:>{width}}    {heard:>{width}}    {count:>{digits}}\n"
            for name, said, heard, count in rows
        )

    def most_often(self, number: int) -> str:
        """Write the substitutions, deletions and insertions most often made; of equals, in the order of the words."""
        pairs = Counter({f"{said} → {heard}": count for (said, heard), count in self.substitutions.items()})
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
        for said, heard in alignment.pairs:
            if said is None:
                assert heard is not None
                counts.insertions[heard] += 1
            elif heard is None:
                counts.deletions[said] += 1
            elif said == heard:
                counts.correct[said] += 1
            else:
                counts.substitutions[said, heard] += 1
    return counts


def _operation(pair: tuple[str | None, str | None]) -> str:
    said, heard = pair
    if heard is None:
        return "D"
    if said is None:
        return "I"
    return "C" if said == heard else "S"


def _cells(key: str, alignment: Alignment, special: str, separator: str | None = None) -> list[tuple[str, str]]:
    """Put the special symbol in place of missing words, and refuse words that look like it."""
    for pair in alignment.pairs:
        for word in pair:
            if word is not None and word in (special, separator):
                raise FormatError(f"the word {word!r} stands for something else in alignments; choose another", key=key)
    return [(special if said is None else said, special if heard is None else heard) for said, heard in alignment.pairs]


def _centred(word: str, width: int) -> str:
    """Centre a word; of an odd number of blanks, the one over goes to the left."""
    right = (width - len(word)) // 2
    return " " * (width - len(word) - right) + word + " " * right
