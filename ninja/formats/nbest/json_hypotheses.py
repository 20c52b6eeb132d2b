"""The hypotheses of one JSON object, and the names of its fields."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from ninja.errors import FormatError, OptionError
from ninja.formats.nbest.nemo import ScoreAs, check_score_as, costs
from ninja.formats.nbest.text_rows import split
from ninja.formats.textual import check_encoding, checked_shift
from ninja.lattice.nbest import Hypothesis, sentence

Costs = tuple[float, float]  # graph and acoustic
NAME = re.compile(r"[\w.-]{1,40}")  # of a field, as messages spell it
SCORE, AM_SCORE, LM_SCORE = "score", "am_score", "lm_score"


@dataclass(frozen=True, slots=True)
class ObjectFields:
    """Names of the fields, and the meaning of their scores.

    Scores whose names are joined by ``+`` are added up. Who names the score of all models gets that one, even where
    there are ``am_score`` and ``lm_score``, unless one of these is named as well.
    """

    key: str | None = "key"  # utterance id; None: objects are numbered, "3" or "2-3" where lists lie within a list
    nbest: str | None = "nbest"  # list of hypotheses; None: each object is a hypothesis itself, the only one
    text: str = "text"  # the sentence, or a list of its words
    score: str | None = SCORE  # of all models together
    am_score: str | None = AM_SCORE  # of the acoustic model
    lm_score: str | None = LM_SCORE  # of the language model
    words: str = "words"  # objects with these three fields; where there are any, the text is not read
    word: str = "word"
    start: str = "start"
    end: str = "end"
    meaning: Literal["logprob", "cost"] = "logprob"  # more is better, or less
    base: float = math.e  # of the logarithms
    score_as: ScoreAs = "acoustic"  # which cost the score of all models becomes
    missing_score: float | None = None  # score of hypotheses without one; None: these are refused
    skip: bool = False  # leave out objects whose list is empty or missing, such as the turns of a system
    group: bool = False  # objects of one key that follow each other make one list, such as lines of a hypothesis each
    join: bool = False  # what stands in an object are no hypotheses, but pieces of one, such as Whisper's segments
    frame_shift: float = 0.01  # seconds; times are rounded to frames
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        check_encoding(self.encoding)
        checked_shift(self.frame_shift)
        check_score_as(self.score_as)
        if self.meaning not in ("logprob", "cost"):
            raise OptionError(f"meaning is {self.meaning!r}, but must be logprob or cost")
        if not 1 < self.base < math.inf:
            raise OptionError(f"base is {self.base}, but logarithms need one greater than 1")
        if self.group and self.key is None:
            raise OptionError("objects are grouped by their keys; name the field of the key")

    @property
    def scores(self) -> list[str]:
        """Every field that has a score."""
        return [name for names in (self.score, self.am_score, self.lm_score) for name in parts(names)]

    @property
    def models_apart(self) -> bool:
        """True if the scores of each model count; not where the user names only that of all."""
        return self.score in (None, SCORE) or (self.am_score, self.lm_score) != (AM_SCORE, LM_SCORE)


def parts(names: str | None) -> list[str]:
    """Return the fields that are added up."""
    return [] if names is None else names.split("+")


class ObjectPlace(NamedTuple):
    """Place of an object, for errors."""

    path: str | None
    key: str
    line: int | None

    def error(self, message: str) -> FormatError:
        """Return the error with that message."""
        return FormatError(message, self.path, key=self.key, line=self.line)


@dataclass(frozen=True, slots=True)
class Spoken:
    """The words of a hypothesis, or of a piece of one."""

    words: list[str]
    begin: list[int] | None = None  # frames
    end: list[int] | None = None

    def hypothesis(self, found: Costs, line: int | None) -> Hypothesis:
        """Return it with costs."""
        graph, acoustic = found
        if self.begin is None or self.end is None:
            return sentence(self.words, graph, acoustic, line)
        none = (0.0,) * len(self.words)
        times = tuple(self.begin), tuple(self.end)
        return Hypothesis(tuple(self.words), (*none, graph), (*none, acoustic), *times, line=line)


def listed_of(entry: dict[str, Any], fields: ObjectFields, where: ObjectPlace) -> Any:
    """Return the list of an object, joined with scores in separate lists beside it."""
    if fields.nbest is None:
        return [entry]
    listed = entry.get(fields.nbest)
    if not isinstance(listed, list) or any(isinstance(each, dict) for each in listed):
        return listed
    beside = [name for name in fields.scores if isinstance(entry.get(name), list)]
    for name in beside:
        if len(entry[name]) != len(listed):
            message = f"there are {len(listed)} hypotheses as {fields.nbest!r}, but {len(entry[name])} values as "
            raise where.error(f"{message}{name!r}")
    if not beside:
        return listed
    return [{fields.text: each, **{name: entry[name][place] for name in beside}} for place, each in enumerate(listed)]


def hypotheses_of(listed: Iterable[Any], fields: ObjectFields, where: ObjectPlace) -> list[Hypothesis]:
    """Return the hypotheses of a list."""
    found = []
    for each in listed:
        entry = {fields.text: each} if isinstance(each, str) or _is_words(each) else each
        if not isinstance(entry, dict):
            raise where.error(f"expected a hypothesis, found {shown(entry)}")
        scored = _costs(entry, fields, where)
        if scored is None and not (fields.join and fields.missing_score is None):
            scored = _missing(entry, fields, where)
        found.append((_spoken(entry, fields, where), scored))
    if fields.join:
        return [_joined(found, where)]
    return [spoken.hypothesis(scored or (0.0, 0.0), where.line) for spoken, scored in found]


def text_of(entry: dict[str, Any], name: str, where: ObjectPlace) -> str:
    """Return a field that must be a string (a number is one, too, where it is a key)."""
    value = entry.get(name)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1e18:
        value = str(value)
    try:
        if not isinstance(value, str):
            raise ValueError
        value.encode()
    except ValueError as error:
        raise where.error(f"expected text as {name!r}, found {shown(value)}") from error
    return value


def _is_words(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _joined(found: list[tuple[Spoken, Costs | None]], where: ObjectPlace) -> Hypothesis:
    """Make one hypothesis of pieces that follow each other: their costs are added up, if any has one."""
    scored = [each for _, each in found if each is not None]
    if scored and len(scored) < len(found):
        raise where.error(f"{len(found) - len(scored)} of {len(found)} pieces to be joined have no score, others have")
    both = (_total((graph for graph, _ in scored), where), _total((acoustic for _, acoustic in scored), where))
    words = [word for spoken, _ in found for word in spoken.words]
    timed = [spoken for spoken, _ in found if spoken.begin is not None]
    if not timed or any(spoken.words and spoken.begin is None for spoken, _ in found):
        return Spoken(words).hypothesis(both, where.line)
    begins: list[int] = []
    ends: list[int] = []
    for spoken in timed:
        for begin, end in zip(spoken.begin or (), spoken.end or (), strict=True):
            begins.append(max(begin, ends[-1] if ends else 0))
            ends.append(max(end, begins[-1]))
    return Spoken(words, begins, ends).hypothesis(both, where.line)


def _missing(entry: dict[str, Any], fields: ObjectFields, where: ObjectPlace) -> Costs:
    """Return the costs of a hypothesis without scores."""
    if fields.missing_score is None:
        names = repr(fields.score)
        if fields.models_apart:
            names = f"neither {names} nor {fields.am_score!r} and {fields.lm_score!r}"
        else:
            names = f"no {names}"
        seen = ", ".join(repr(str(name)[:20]) for name in list(entry)[:8])
        advice = f"name the field of its score (--from json:score={_likely_score(entry)})"
        advice += ", or say what a missing one is (--from json:missing_score=0)"
        raise where.error(f"a hypothesis has {names}, but {seen}; {advice}")
    sign = 1.0 if fields.meaning == "cost" else -1.0
    return costs(sign * fields.missing_score * math.log(fields.base) + 0.0, fields.score_as)


def _likely_score(entry: dict[str, Any]) -> str:
    """Return the name of a field with a number, at best one that is called after a score."""
    numbers = [
        name
        for name, value in entry.items()
        if isinstance(value, int | float) and name not in (AM_SCORE, LM_SCORE) and NAME.fullmatch(name)
    ]
    return max(numbers, key=lambda name: "score" in name or "prob" in name, default="FIELD")


def _costs(entry: dict[str, Any], fields: ObjectFields, where: ObjectPlace) -> Costs | None:
    """Return the costs of a hypothesis; None: it has no score."""
    both = _sum(entry, fields.score, fields, where)
    if not fields.models_apart:
        return None if both is None else costs(both, fields.score_as)
    acoustic, graph = (_sum(entry, names, fields, where) for names in (fields.am_score, fields.lm_score))
    if acoustic is None and graph is None:
        return None if both is None else costs(both, fields.score_as)
    if (acoustic is None and fields.am_score is not None) or (graph is None and fields.lm_score is not None):
        missing = fields.am_score if acoustic is None else fields.lm_score
        message = f"a hypothesis has one model's score, but no {missing!r}"
        raise where.error(f"{message}; name the one that counts (score=…), or that there is none (none)")
    return graph or 0.0, acoustic or 0.0


def _sum(entry: dict[str, Any], names: str | None, fields: ObjectFields, where: ObjectPlace) -> float | None:
    """Return the sum of the scores of some names as a cost; None: there is none of them."""
    if names is None or "+" not in names:
        value = None if names is None else entry.get(names)
        return None if names is None or value is None else _cost(names, value, fields, where)
    found = [(name, entry.get(name)) for name in parts(names)]
    if all(value is None for _, value in found):
        return None
    return _total((_cost(name, value, fields, where) for name, value in found), where)


def _total(costs: Iterable[float], where: ObjectPlace) -> float:
    total = sum(costs, start=0.0)  # math.fsum has no infinity for sums that are too large
    if not math.isfinite(total):
        raise where.error("the scores add up to more than any number is")
    return total


def _cost(name: str, value: object, fields: ObjectFields, where: ObjectPlace) -> float:
    try:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError
        score = float(value) * math.log(fields.base)
        if not math.isfinite(score):
            raise ValueError
    except (ValueError, OverflowError) as error:
        raise where.error(f"expected a number as {name!r}, found {shown(value)}") from error
    return (score if fields.meaning == "cost" else -score) + 0.0


def _spoken(entry: dict[str, Any], fields: ObjectFields, where: ObjectPlace) -> Spoken:
    """Return the words of a hypothesis, with times if each of its words has them.

    An empty list of words says nothing where there is a text. A word of several parts shares its time among them.
    """
    entries = entry.get(fields.words)
    if entries is None or (entries == [] and entry.get(fields.text) is not None):
        return Spoken(_words(entry, fields.text, where))
    if entries and _is_words(entries):
        return Spoken(_words(entry, fields.words, where))
    if not isinstance(entries, list):
        raise where.error(f"expected a list as {fields.words!r}, found {shown(entries)}")
    names: list[str] = []
    times: list[tuple[float, float] | None] = []
    for word_entry in entries:
        if not isinstance(word_entry, dict):
            raise where.error(f"expected a word, found {shown(word_entry)}")
        parts = split(text_of(word_entry, fields.word, where))
        names += parts
        times += _times(word_entry, len(parts), fields, where)
    known = [time for time in times if time is not None]
    if len(known) < len(times):
        return Spoken(names)
    begins: list[int] = []
    ends: list[int] = []
    for start, end in known:
        begins.append(max(round(start / fields.frame_shift), ends[-1] if ends else 0))
        ends.append(max(round(end / fields.frame_shift), begins[-1]))
    return Spoken(names, begins, ends)


def _times(
    word_entry: dict[str, Any], num_parts: int, fields: ObjectFields, where: ObjectPlace
) -> list[tuple[float, float] | None]:
    """Return the start and the end of each part of a word in seconds; None where the word has no times."""
    values = [word_entry.get(name) for name in (fields.start, fields.end)]
    if any(value is None for value in values):
        return [None] * num_parts
    start, end = map(_moment, values)
    if not 0 <= start <= end <= fields.frame_shift * (2**31 - 2):
        raise where.error(f"expected a word, its start and end, found {shown(word_entry)}")
    step = (end - start) / max(num_parts, 1)
    bounds = [start + part * step for part in range(num_parts)] + [end]
    return list(pairwise(bounds))


def _words(entry: dict[str, Any], name: str, where: ObjectPlace) -> list[str]:
    """Return the words of a sentence, or of a list of them: an entry may be empty, or hold several words."""
    value = entry.get(name)
    if not isinstance(value, list) or not _is_words(value):
        return split(text_of(entry, name, where))
    return [word for text in value for word in split(text_of({name: text}, name, where))]


def _moment(value: object) -> float:
    """Return seconds, -1 where there are none."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else -1


def shown(value: object) -> str:
    """Return a value as messages show it."""
    if isinstance(value, dict):
        return f"an object with {[str(name)[:20] for name in value][:6]}"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, int) and abs(value) > 1e18:
        return "a large number"
    return ascii(value[:60] if isinstance(value, str) else value)
