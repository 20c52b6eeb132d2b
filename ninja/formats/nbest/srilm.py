"""N-best lists of SRILM, in its three formats (nbest-format(5)): one utterance a file."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ninja.errors import FormatError, LatticeError, OptionError
from ninja.formats.content import Content, Entry
from ninja.formats.format import FIELDS, HEAD, Field, Format, Read, Write, WriteSettings
from ninja.formats.nbest.lattices import list_entries
from ninja.formats.nbest.text_rows import number, rows, split
from ninja.formats.nbest.writing import ListOptions, scaled, spelled
from ninja.formats.slf import SILENCES, SILENT
from ninja.formats.textual import check_encoding, checked_shift, encoded, kept_costs
from ninja.lattice.nbest import Hypothesis, NBest, check, sentence, with_silence
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.word_ids import used_names

FIRST, SECOND = "NBestList1.0", "NBestList2.0"
BYTELOG = 1024 * math.log(1.0001)  # nats; a bytelog is a logarithm to base 1.0001, divided by 1024
LOG10 = math.log(10.0)  # nats
_COMMENT = "##"
_SCORE = rb"[-+]?[\d.]+(?:[eE][-+]?\d+)?"
_LOG = rb"(?:" + _SCORE + rb"|-inf(?:inity)?)"
_SCORES = re.compile(_LOG + rb"\s+" + _LOG + rb"\s+(\d{1,9})(?=\s|\Z)", re.IGNORECASE)
_NUMBER = re.compile(_SCORE)
_PART = re.compile(r"[^\W_]+")
_SIGNED = re.compile(rb"\S*[-+.]|\S+\s+\S*[-+.]")  # one of the first two numbers is no id of a state
_TOKEN = ("(", "st:", "et:", "g:", "a:", ")")
_STATE = re.compile(r".+-[0-9]")
_IMPOSSIBLE = re.compile(r"-inf(inity)?", re.IGNORECASE)

Variant = Literal["NBestList1.0", "NBestList2.0", "scores"]


@dataclass(frozen=True, slots=True)
class SrilmOptions:
    """Options of reading such a list."""

    frame_shift: float = 0.01  # seconds; times of NBestList2.0 are rounded to frames
    encoding: str = "utf-8"
    silent: frozenset[str] = SILENT  # words that are left out

    def __post_init__(self) -> None:
        checked_shift(self.frame_shift)
        check_encoding(self.encoding)


def read_srilm(content: bytes, key: str, path: str | None = None, options: SrilmOptions | None = None) -> NBest:
    """Read a list.

    * ``NBestList1.0``: ``(score) words``; the header may be missing. The score, in bytelogs, is of both models; it
      becomes the acoustic cost, as in SRILM.
    * ``NBestList2.0``: each word has times and bytelogs of both models. Phones and states below words, whose times lie
      within their word's, are left out. What the score of the line has beyond its words' is acoustic cost of the end.
    * No header: ``acoustic graph number-of-words words``, logarithms to base 10. The number is not read, as it is what
      SRILM's language model counted: pauses, noises and tags may count for none, multiwords (``you_know``) for several.
      Hypotheses of probability 0 are left out.

    Scores are log-probabilities, more is better; costs are their negatives as natural logarithms. Silent words such as
    ``<s>`` are left out; what they cost is added to the next word's cost, or to that of the end. Empty lines and
    comments (``##``) are passed over. A header alone is an empty sentence.

    Raises:
        FormatError: A line is none of the format's, the last one does not end, or there is none.

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
            each = _scores(fields, path, key, line)
        else:
            score = _bytelog(fields[0], path, key, line)
            words = fields[1:]
            if variant == FIRST:
                each = sentence(words, 0.0, -score * BYTELOG, line)
            else:
                each = _timed(words, score, options.frame_shift, path, key, line)
        hypotheses.append(_spoken(each, options.silent))
    if not hypotheses and variant not in (FIRST, SECOND):
        raise FormatError("there are no hypotheses", path, key=key)
    return with_silence(NBest(key, tuple(hypotheses), options.frame_shift if variant == SECOND else None))


@dataclass(frozen=True, slots=True)
class SrilmWriteOptions(ListOptions):
    """Options of ``write_srilm``."""

    variant: Variant = "scores"  # the header, or "scores" for the format without

    def __post_init__(self) -> None:
        super(SrilmWriteOptions, self).__post_init__()
        if self.variant not in (FIRST, SECOND, "scores"):
            raise OptionError(f"variant is {self.variant!r}, but must be {FIRST}, {SECOND} or scores")


def write_srilm(
    nbest: NBest,
    words: SymbolTable | None = None,
    options: SrilmWriteOptions = SrilmWriteOptions(),
    encoding: str = "utf-8",
) -> bytes:
    """Return a list as the bytes of a file.

    "NBestList1.0" rounds the sum of both costs to whole bytelogs (0.1 nats); "NBestList2.0" does so with each word's,
    and needs times; a word that lasts for no time gets a frame of its neighbour's. "scores" keeps both costs of a
    sentence, to nine digits. Labels stay behind.

    Raises:
        LatticeError: NBestList2.0 without times, or a cost that is no number.

    Source: SRILM manual, nbest-format(5).
    """
    variant = options.variant
    check(nbest)
    check_encoding(encoding)
    lines: list[str] = [] if variant == "scores" else [variant]
    for each in nbest.hypotheses:
        names = spelled(each, words, nbest.key)
        if variant == "scores":
            scores = [_digits(-cost / LOG10) for cost in (each.acoustic_cost, each.graph_cost)]
            lines.append(" ".join([*scores, str(len(names)), *names]))
        elif variant == FIRST:
            lines.append(" ".join([f"({_whole(each.acoustic_cost + each.graph_cost)})", *names]))
        else:
            lines.append(_timed_line(each, names, nbest))
    return encoded("\n".join(lines) + "\n", encoding, nbest.key)


def _scores(fields: list[str], path: str | None, key: str, line: int) -> Hypothesis:
    """Return a hypothesis of a line without words' scores."""
    if len(fields) < 3:
        raise FormatError("expected two scores and the number of words", path, key=key, line=line)
    acoustic = number(fields[0], "an acoustic score", path, line, key)
    graph = number(fields[1], "a language model score", path, line, key)
    if not (fields[2].isascii() and fields[2].isdigit()):
        raise FormatError(f"expected the number of words, found {fields[2][:60]!r}", path, key=key, line=line)
    words = fields[3:]
    if len(fields[2]) > 9 or int(fields[2]) > _most_counted(words):
        message = f"{fields[2][:20]} words are announced, but {len(words)} follow; the line may be cut short"
        raise FormatError(message, path, key=key, line=line)
    return sentence(words, -graph * LOG10, -acoustic * LOG10, line)


def _most_counted(words: Sequence[str]) -> int:
    """Return how many words SRILM may count: of multiwords each part, be they joined by _, by - or otherwise."""
    return sum(max(1, len(_PART.findall(word))) for word in words)


def _spoken(each: Hypothesis, silent: frozenset[str]) -> Hypothesis:
    """Return a hypothesis without its silent words."""
    if silent.isdisjoint(each.words):
        return each
    kept = [place for place, word in enumerate(each.words) if word not in silent]
    ends = [place + 1 for place in kept]
    last = ends[-1] if ends else 0
    graph, acoustic = (
        (*(math.fsum(cost[begin:end]) for begin, end in zip([0, *ends], ends, strict=False)), math.fsum(cost[last:]))
        for cost in (each.graph, each.acoustic)
    )
    return replace(
        each,
        words=tuple(str(each.words[place]) for place in kept),
        graph=graph,
        acoustic=acoustic,
        begin=None if each.begin is None else tuple(each.begin[place] for place in kept),
        end=None if each.end is None else tuple(each.end[place] for place in kept),
    )


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
    until, said, below = -1.0, 0.0, False
    for place in range(0, len(fields), 11):
        word, *rest = fields[place : place + 11]
        if (rest[0], *rest[1::2]) != _TOKEN:
            raise FormatError(f"expected ( st: … et: … g: … a: … ) after {word!r}", path, key=key, line=line)
        start, stop, lm, am = (number(each, f"a number after {word!r}", path, line, key) for each in rest[2::2])
        # A phone or a state of the word before; Decipher lets states outlast their words.
        below = start <= until or (below and _STATE.fullmatch(word) is not None)
        if below:
            continue
        first, last = start / shift, stop / shift
        if not 0 <= first <= last < 2**31 - 2:
            raise FormatError(f"{word!r} begins at {start} s and ends at {stop} s", path, key=key, line=line)
        begin = max(round(first), ends[-1] if ends else 0)
        end = max(round(last) + 1, begin)  # its end is when its last frame begins
        words.append(word)
        begins.append(begin)
        ends.append(end)
        graph.append(-lm * BYTELOG)
        acoustic.append(-am * BYTELOG)
        said += lm + am
        until = stop
    rest_cost = -(score - said) * BYTELOG
    return Hypothesis(
        tuple(words),
        (*graph, 0.0),
        (*acoustic, rest_cost if rest_cost else 0.0),
        tuple(begins),
        tuple(ends),
        line=line,
    )


def _timed_line(each: Hypothesis, names: list[str], nbest: NBest) -> str:
    if each.begin is None or each.end is None:
        if names or each.labels is not None:
            raise LatticeError(f"its words have no times, which {SECOND} needs", key=nbest.key)
        return f"({_whole(each.acoustic_cost + each.graph_cost)})"
    shift = nbest.frame_shift or SrilmOptions().frame_shift
    digits = max(2, math.ceil(-math.log10(shift)))  # SRILM writes two, which tell frames of 0.01 s apart
    begins, ends = _lasting(each.begin, each.end)
    fields, said = [], 0
    for place, name in enumerate(names):
        begin, end = (f"{frame * shift:.{digits}f}" for frame in (begins[place], ends[place] - 1))
        graph, acoustic = _whole(each.graph[place]), _whole(each.acoustic[place])
        said += graph + acoustic
        fields.append(f"{name} ( st: {begin} et: {end} g: {graph} a: {acoustic} )")
    return " ".join([f"({said + _whole(each.graph[-1] + each.acoustic[-1])})", *fields])


def _lasting(begin: Sequence[int], end: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the begins and ends of words that last a frame at least, each after the one before it.

    A word that began with the one before it would be taken for a phone of that one. One that lasts for no time gets its
    frame from the next word, or, where there is none to give, from those before it.
    """
    begins, ends = list(begin), list(end)
    until = 0
    for place in range(len(begins)):
        begins[place] = max(begins[place], until)
        until = ends[place] = max(ends[place], begins[place] + 1)
    until = max((*end, len(end)), default=0)
    for place in reversed(range(len(begins))):
        if ends[place] <= until:
            break
        ends[place] = until
        until = begins[place] = min(begins[place], until - 1)
    return begins, ends


def _whole(cost: float) -> int:
    return round(-cost / BYTELOG)


def _digits(score: float) -> str:
    return f"{score + 0.0:.9g}"


def _entries(content: Content, words: SymbolTable | None, options: SrilmOptions) -> Iterator[Entry]:
    return list_entries([read_srilm(content.whole(), content.key, content.name, options)], content, words)


def begins_srilm(head: bytes) -> bool:
    """Tell whether a file begins with a header, or a line of two scores, a number of words, and words."""
    rows = _rows(head[: 1 << 12])
    return bool(rows) and (rows[0].startswith((FIRST.encode(), SECOND.encode())) or _is_list(rows[:1]))


def all_srilm(head: bytes) -> bool:
    """Tell whether it has a header, or all lines are hypotheses, as not all lines of other tables of numbers are."""
    rows = _rows(head[: head.rfind(b"\n") + 1] if len(head) == HEAD else head)
    return rows[0].startswith((FIRST.encode(), SECOND.encode())) or _is_list(rows)


def _rows(head: bytes) -> list[bytes]:
    return [row for line in head.split(b"\n") if (row := line.strip()) and not row.startswith(_COMMENT.encode())]


def _is_list(rows: list[bytes]) -> bool:
    return _SIGNED.match(rows[0]) is not None and all(map(_is_hypothesis, rows))


def _is_hypothesis(row: bytes) -> bool:
    found = _SCORES.match(row)
    if found is None:
        return False
    words = row[found.end() :].split()
    return int(found[1]) <= len(words) or not all(map(_NUMBER.fullmatch, words))


def _encode(nbest: NBest, settings: WriteSettings) -> bytes:
    joined = scaled(nbest, settings.options) if settings.options.variant == FIRST else nbest
    return write_srilm(joined, settings.words, settings.options, settings.encoding)


def _kept(keeps: frozenset[Field], options: SrilmWriteOptions) -> frozenset[Field]:
    if options.variant == FIRST:
        return kept_costs(keeps - {"apart"}, acoustic_scale=options.acoustic_scale)
    return keeps | {"times", "word costs"} if options.variant == SECOND else keeps


def _also_lost(nbest: NBest, settings: WriteSettings) -> list[str]:
    """Return the loss of silent words, of times of words that last no frame, and of graph costs of ends."""
    lost = [] if SILENT.isdisjoint(used_names(nbest, settings.words)) else [SILENCES]
    if settings.options.variant == SECOND:
        for each in nbest.hypotheses:
            times = [*(each.begin or ())], [*(each.end or ())]
            if FIELDS["times"] not in lost and _lasting(*times) != times:
                lost.append(FIELDS["times"])
            if FIELDS["apart"] not in lost and each.graph[-1]:
                lost.append(FIELDS["apart"])
    return lost


FORMAT = Format(
    name="srilm",
    about="n-best list of SRILM, one a file",
    holds="nbest",
    extensions=(".nbest",),
    mark=begins_srilm,
    in_folder=all_srilm,
    read=Read(_entries, SrilmOptions),
    keeps=frozenset({"graph", "acoustic", "apart", "unscaled", "names"}),
    write=Write(_encode, options=SrilmWriteOptions, files="each", keeps=_kept, also_lost=_also_lost),
)
