"""Reader and writer for SRILM n-best lists in three variants (see nbest-format(5)), with one utterance per file."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from ninja.errors import FormatError, LatticeError
from ninja.formats.content import Content, check_choice, check_encoding
from ninja.formats.format import FIELDS, HEAD, Field, Format, Read, Write, WriteSettings
from ninja.formats.nbest.lattices import list_entries
from ninja.formats.nbest.text_rows import number, rows, split
from ninja.formats.nbest.writing import ListOptions, scaled, spelled
from ninja.formats.slf import SILENCES, SILENT
from ninja.formats.textual import encoded, kept_costs
from ninja.lattice.lattice import checked_shift
from ninja.lattice.nbest import Hypothesis, NBest, check, sentence, with_silence
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.word_ids import used_names

FIRST, SECOND = "NBestList1.0", "NBestList2.0"
BYTELOG = 1024 * math.log(1.0001)  # in nats; a bytelog is a logarithm to base 1.0001, divided by 1024
LOG10 = math.log(10.0)  # in nats
_COMMENT = "##"
_SCORE = rb"[-+]?[\d.]+(?:[eE][-+]?\d+)?"
_LOG = rb"(?:" + _SCORE + rb"|-inf(?:inity)?)"
_SCORES = re.compile(_LOG + rb"\s+" + _LOG + rb"\s+(\d{1,9})(?=\s|\Z)", re.IGNORECASE)
_NUMBER = re.compile(_SCORE)
_PART = re.compile(r"[^\W_]+")
_SIGNED = re.compile(
    rb"\S*[-+.]|\S+\s+\S*[-+.]"
)  # the first or second number has a sign or a decimal point, so it is a score, not a state id
_TOKEN = ("(", "st:", "et:", "g:", "a:", ")")
_STATE = re.compile(r".+-[0-9]")
_IMPOSSIBLE = re.compile(r"-inf(inity)?", re.IGNORECASE)

Variant = Literal["NBestList1.0", "NBestList2.0", "scores"]


@dataclass(frozen=True, slots=True)
class SrilmOptions:
    """Options for reading an SRILM n-best list."""

    frame_shift: float = 0.01  # seconds per frame; times in NBestList2.0 are rounded to frames
    encoding: str = "utf-8"
    silent: frozenset[str] = SILENT  # words that are dropped; their costs are kept

    def __post_init__(self) -> None:
        checked_shift(self.frame_shift)
        check_encoding(self.encoding)


def read_srilm(content: bytes, key: str, path: str | None = None, options: SrilmOptions | None = None) -> NBest:
    """Read the n-best list from a file.

    * ``NBestList1.0``: ``(score) words``; the header is optional. As in SRILM, the combined score of both models, in
      bytelogs, becomes the acoustic cost.
    * ``NBestList2.0``: each word has times and the scores of both models in bytelogs. Phones and states, which begin
      and end within their word, are dropped. The rest of the line's score becomes the acoustic cost of the
      sentence end.
    * No header: ``acoustic graph number-of-words words``, with logarithms to base 10. The word count is only checked
      against an upper limit, because SRILM's language model does not always count pauses, noises and tags, and
      sometimes counts multiwords (``you_know``) as several words. Hypotheses of probability 0 are dropped.

    Scores are log-probabilities (higher is better); costs are negative natural logarithms. Silent words such as ``<s>``
    are dropped, and their costs are added to the next word or to the end. Empty lines and comments (``##``) are
    ignored. A file that contains only a header is read as an empty sentence.

    Raises:
        FormatError: A line is invalid, the last line lacks a newline, or there are no hypotheses.

    Source: SRILM manual, nbest-format(5).
    """
    options = options or SrilmOptions()
    variant, hypotheses = "", []
    for line, row in rows(content, path, options.encoding, comment=_COMMENT, key=key):
        fields = split(row)
        if not fields or fields[0].startswith(_COMMENT):
            continue
        if not variant and fields[0] in (FIRST, SECOND):
            variant = fields[0]
            continue
        variant = variant or (FIRST if fields[0].startswith("(") else "scores")
        if variant == "scores":
            if any(_IMPOSSIBLE.fullmatch(field) for field in fields[:2]):
                continue
            hypothesis = _scores(fields, path, key, line)
        else:
            score = _bytelog(fields[0], path, key, line)
            words = fields[1:]
            if variant == FIRST:
                hypothesis = sentence(words, 0.0, -score * BYTELOG, line)
            else:
                hypothesis = _timed(words, score, options.frame_shift, path, key, line)
        hypotheses.append(_without_silence(hypothesis, options.silent))
    if not hypotheses and variant not in (FIRST, SECOND):
        raise FormatError("there are no hypotheses", path, key=key)
    return with_silence(NBest(key, tuple(hypotheses), options.frame_shift if variant == SECOND else None))


@dataclass(frozen=True, slots=True)
class SrilmWriteOptions(ListOptions):
    """Options for ``write_srilm``."""

    variant: Variant = "scores"  # header of the file; "scores" is the variant without a header

    def __post_init__(self) -> None:
        super(SrilmWriteOptions, self).__post_init__()
        check_choice("variant", self.variant, FIRST, SECOND, "scores")


def write_srilm(
    nbest: NBest,
    words: SymbolTable | None = None,
    options: SrilmWriteOptions = SrilmWriteOptions(),
    encoding: str = "utf-8",
) -> bytes:
    """Encode an n-best list in the format that ``options.variant`` selects; alignments are not written.

    * ``NBestList1.0``: The sum of both costs is rounded to whole bytelogs (about 0.1 nats).
    * ``NBestList2.0``: The costs of each word are rounded to whole bytelogs. Words must have times; a word of duration
      0 takes a frame from the next or a previous word.
    * ``scores``: Both costs of each hypothesis are written with nine significant digits.

    Raises:
        LatticeError: NBestList2.0 is requested for words without times, or a cost is not a number.

    Source: SRILM manual, nbest-format(5).
    """
    variant = options.variant
    check(nbest)
    check_encoding(encoding)
    lines: list[str] = [] if variant == "scores" else [variant]
    for hypothesis in nbest.hypotheses:
        names = spelled(hypothesis, words, nbest.key)
        costs = hypothesis.acoustic_cost, hypothesis.graph_cost
        if variant == "scores":
            scores = [f"{-cost / LOG10 + 0.0:.9g}" for cost in costs]
            lines.append(" ".join([*scores, str(len(names)), *names]))
        elif variant == FIRST:
            lines.append(" ".join([f"({_bytelogs(sum(costs))})", *names]))
        else:
            lines.append(_timed_line(hypothesis, names, nbest))
    return encoded("\n".join(lines) + "\n", encoding, nbest.key)


def _scores(fields: list[str], path: str | None, key: str, line: int) -> Hypothesis:
    """Parse a line of the variant without a header."""
    if len(fields) < 3:
        message = f"expected two scores and the number of words, found {' '.join(fields)[:60]!r}"
        raise FormatError(message, path, key=key, line=line)
    acoustic = number(fields[0], "an acoustic score", path, line, key)
    graph = number(fields[1], "a language model score", path, line, key)
    if not (fields[2].isascii() and fields[2].isdigit()):
        raise FormatError(f"expected the number of words, found {fields[2][:60]!r}", path, key=key, line=line)
    words = fields[3:]
    if len(fields[2]) > 9 or int(fields[2]) > _most_counted(words):
        message = f"the number of words is {fields[2][:20]}, but {len(words)} follow; the line may be truncated"
        raise FormatError(message, path, key=key, line=line)
    return sentence(words, -graph * LOG10, -acoustic * LOG10, line)


def _most_counted(words: Sequence[str]) -> int:
    """Return the largest word count that SRILM could write: each part of a multiword counts as a word."""
    return sum(max(1, len(_PART.findall(word))) for word in words)


def _without_silence(hypothesis: Hypothesis, silent: frozenset[str]) -> Hypothesis:
    """Drop the silent words in a hypothesis, and add their costs to the next word or to the sentence end."""
    if silent.isdisjoint(hypothesis.words):
        return hypothesis
    places = [place for place, word in enumerate(hypothesis.words) if word not in silent]
    bounds = [0, *(place + 1 for place in places), len(hypothesis.graph)]
    graph, acoustic = (
        tuple(math.fsum(cost[begin:end]) for begin, end in pairwise(bounds))
        for cost in (hypothesis.graph, hypothesis.acoustic)
    )
    begin, end = (
        None if times is None else tuple(times[place] for place in places)
        for times in (hypothesis.begin, hypothesis.end)
    )
    words = tuple(str(hypothesis.words[place]) for place in places)
    return replace(hypothesis, words=words, graph=graph, acoustic=acoustic, begin=begin, end=end)


def _bytelog(text: str, path: str | None, key: str, line: int) -> float:
    if len(text) < 3 or text[0] != "(" or text[-1] != ")":
        raise FormatError(f"expected a score in parentheses, found {text[:60]!r}", path, key=key, line=line)
    return number(text[1:-1], "a score in parentheses", path, line, key)


def _timed(fields: list[str], score: float, shift: float, path: str | None, key: str, line: int) -> Hypothesis:
    if len(fields) % 11:
        raise FormatError("expected 11 fields for each word: w ( st: … et: … g: … a: … )", path, key=key, line=line)
    words: list[str] = []
    begins: list[int] = []
    ends: list[int] = []
    graph: list[float] = []
    acoustic: list[float] = []
    until, sum_of_words, is_part = -1.0, 0.0, False
    for index in range(0, len(fields), 11):
        word, *body = fields[index : index + 11]
        if (body[0], *body[1::2]) != _TOKEN:
            raise FormatError(f"expected ( st: … et: … g: … a: … ) after {word!r}", path, key=key, line=line)
        start, stop, lm, am = (number(text, f"a number after {word!r}", path, line, key) for text in body[2::2])
        # The entry may be a phone or a state of the previous word. In Decipher's output, states may end after the word.
        is_part = start <= until or (is_part and _STATE.fullmatch(word) is not None)
        if is_part:
            continue
        first, last = start / shift, stop / shift
        if not 0 <= first <= last < 2**31 - 2:
            raise FormatError(
                f"the times of {word!r} are out of order or range: it begins at {start} s and ends at {stop} s",
                path,
                key=key,
                line=line,
            )
        begin = max(round(first), ends[-1] if ends else 0)
        end = max(
            round(last) + 1, begin
        )  # add a frame, because the end time in the file is the start of the last frame
        words.append(word)
        begins.append(begin)
        ends.append(end)
        graph.append(-lm * BYTELOG)
        acoustic.append(-am * BYTELOG)
        sum_of_words += lm + am
        until = stop
    rest_cost = -(score - sum_of_words) * BYTELOG
    return Hypothesis(
        tuple(words),
        (*graph, 0.0),
        (*acoustic, rest_cost if rest_cost else 0.0),
        tuple(begins),
        tuple(ends),
        line=line,
    )


def _timed_line(hypothesis: Hypothesis, names: list[str], nbest: NBest) -> str:
    if hypothesis.begin is None or hypothesis.end is None:
        if names or hypothesis.labels is not None:
            message = f"the words have no times, which {SECOND} requires; use --to srilm:variant=scores"
            raise LatticeError(message, key=nbest.key)
        return f"({_bytelogs(hypothesis.acoustic_cost + hypothesis.graph_cost)})"
    shift = nbest.frame_shift or SrilmOptions().frame_shift
    digits = max(2, math.ceil(-math.log10(shift)))  # SRILM writes two decimal places, for frames of 0.01 s
    begins, ends = _with_durations(hypothesis.begin, hypothesis.end)
    fields, total = [], 0
    for index, name in enumerate(names):
        begin, end = (f"{frame * shift:.{digits}f}" for frame in (begins[index], ends[index] - 1))
        graph, acoustic = _bytelogs(hypothesis.graph[index]), _bytelogs(hypothesis.acoustic[index])
        total += graph + acoustic
        fields.append(f"{name} ( st: {begin} et: {end} g: {graph} a: {acoustic} )")
    return " ".join([f"({total + _bytelogs(hypothesis.graph[-1] + hypothesis.acoustic[-1])})", *fields])


def _with_durations(begin: Sequence[int], end: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return ``(starts, ends)`` of words in frames, after extending each word to at least one frame without overlaps.

    If two words began at the same time, readers would interpret the second one as a phone. A word of duration 0
    gets a frame from the next word or, if the next word has no frame to spare, from the preceding words.
    """
    begins, ends = list(begin), list(end)
    until = 0
    for index in range(len(begins)):
        begins[index] = max(begins[index], until)
        until = ends[index] = max(ends[index], begins[index] + 1)
    until = max((*end, len(end)), default=0)
    for index in reversed(range(len(begins))):
        if ends[index] <= until:
            break
        ends[index] = until
        until = begins[index] = min(begins[index], until - 1)
    return begins, ends


def _bytelogs(cost: float) -> int:
    return round(-cost / BYTELOG)


def _read(content: Content, options: SrilmOptions) -> list[NBest]:
    return [read_srilm(content.whole(), content.key, content.name, options)]


def begins_srilm(head: bytes) -> bool:
    """Return whether a file begins with an SRILM header, or a line with two scores, a word count and words."""
    rows = _rows(head[: 1 << 12])
    return bool(rows) and (rows[0].startswith((FIRST.encode(), SECOND.encode())) or _is_list(rows[:1]))


def all_srilm(head: bytes) -> bool:
    """Return whether a file begins with an SRILM header or contains only hypotheses; other numeric tables do not."""
    rows = _rows(head[: head.rfind(b"\n") + 1] if len(head) == HEAD else head)
    return rows[0].startswith((FIRST.encode(), SECOND.encode())) or _is_list(rows)


def _rows(head: bytes) -> list[bytes]:
    return [row for line in head.split(b"\n") if (row := line.strip()) and not row.startswith(_COMMENT.encode())]


def _is_list(rows: list[bytes]) -> bool:
    return _SIGNED.match(rows[0]) is not None and all(map(_is_hypothesis, rows))


def _is_hypothesis(row: bytes) -> bool:
    match = _SCORES.match(row)
    if match is None:
        return False
    words = row[match.end() :].split()
    return int(match[1]) <= len(words) or not all(map(_NUMBER.fullmatch, words))


def _encode(nbest: NBest, settings: WriteSettings) -> bytes:
    joined = scaled(nbest, settings.options) if settings.options.variant == FIRST else nbest
    return write_srilm(joined, settings.words, settings.options, settings.encoding)


def _stored_fields(keeps: frozenset[Field], options: SrilmWriteOptions) -> frozenset[Field]:
    if options.variant == FIRST:
        return kept_costs(keeps - {"apart"}, acoustic_scale=options.acoustic_scale)
    return keeps | {"times", "word costs"} if options.variant == SECOND else keeps


def _also_lost(nbest: NBest, settings: WriteSettings) -> list[str]:
    """Return messages about lost data: silence words, times of words of zero duration, and final graph costs."""
    lost = [] if SILENT.isdisjoint(used_names(nbest, settings.words)) else [SILENCES]
    if settings.options.variant == SECOND:
        for hypothesis in nbest.hypotheses:
            times = [*(hypothesis.begin or ())], [*(hypothesis.end or ())]
            if FIELDS["times"] not in lost and _with_durations(*times) != times:
                lost.append(FIELDS["times"])
            if FIELDS["apart"] not in lost and hypothesis.graph[-1]:
                lost.append(FIELDS["apart"])
    return lost


FORMAT = Format(
    name="srilm",
    about="SRILM n-best list, one per file",
    holds="nbest",
    extensions=(".nbest",),
    mark=begins_srilm,
    in_folder=all_srilm,
    read=Read(list_entries(_read), SrilmOptions),
    keeps=frozenset({"graph", "acoustic", "apart", "unscaled", "names"}),
    write=Write(_encode, options=SrilmWriteOptions, files="each", keeps=_stored_fields, also_lost=_also_lost),
)
