"""Parser for the hypotheses in a JSON object, with configurable field names."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from ninja.errors import FormatError, OptionError, counted
from ninja.formats.content import check_base, check_choice, check_encoding
from ninja.formats.nbest.nemo import ScoreAs, check_score_as, costs
from ninja.formats.nbest.text_rows import split
from ninja.formats.nbest.word_times import frames_of
from ninja.lattice.lattice import checked_shift
from ninja.lattice.nbest import Hypothesis, sentence

Costs = tuple[float, float]  # graph cost and acoustic cost
NAME = re.compile(r"[\w.-]{1,40}")  # field names that messages may suggest
SCORE, AM_SCORE, LM_SCORE = "score", "am_score", "lm_score"


@dataclass(frozen=True, slots=True)
class ObjectFields:
    """Names of the fields in JSON objects, and the meaning of their scores.

    Scores whose names are joined by ``+`` are added. If the user sets `score`, it is used even if ``am_score`` and
    ``lm_score`` are present, unless the user also sets one of these.
    """

    key: str | None = "key"  # utterance id; if None, the ids are numbers such as "3", or "2-3" in nested lists
    nbest: str | None = "nbest"  # list of hypotheses; if None, each object is the only hypothesis
    text: str = "text"  # the sentence, or a list of its words
    score: str | None = SCORE  # combined score of all models
    am_score: str | None = AM_SCORE  # score of the acoustic model
    lm_score: str | None = LM_SCORE  # score of the language model
    words: str = "words"  # list of objects with the three fields below; used instead of the text if present
    word: str = "word"
    start: str = "start"
    end: str = "end"
    meaning: Literal["logprob", "cost"] = "logprob"  # logprob: higher scores are better; cost: lower scores are better
    base: float = math.e  # base of the logarithmic scores
    score_as: ScoreAs = "acoustic"  # type of cost that the combined score becomes
    missing_score: float | None = None  # score for hypotheses without a score  [default: raise an error]
    skip: bool = False  # whether to skip objects whose list is empty or missing, such as the turns of a dialogue system
    group: bool = False  # whether consecutive objects with the same key form one list (one hypothesis per line)
    join: bool = False  # whether the items of a list are parts of a single hypothesis, such as Whisper's segments
    frame_shift: float = 0.01  # seconds per frame; times are rounded to frames
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        check_encoding(self.encoding)
        checked_shift(self.frame_shift)
        check_score_as(self.score_as)
        check_choice("meaning", self.meaning, "logprob", "cost")
        check_base(self.base)
        if self.group and self.key is None:
            raise OptionError("group=true requires the name of the key field; set key=NAME")

    @property
    def scores(self) -> list[str]:
        """Names of all score fields."""
        return [name for names in (self.score, self.am_score, self.lm_score) for name in parts(names)]

    @property
    def models_apart(self) -> bool:
        """Whether separate acoustic and LM scores are used if present; False if the user sets only `score`."""
        return self.score in (None, SCORE) or (self.am_score, self.lm_score) != (AM_SCORE, LM_SCORE)


def parts(names: str | None) -> list[str]:
    """Split names that are joined by ``+``."""
    return [] if names is None else names.split("+")


class ObjectPlace(NamedTuple):
    """Position of an object in a file, for error messages."""

    path: str | None
    key: str
    line: int | None
    note_overlaps: Callable[[int], None] | None = None  # function of the number of words whose start was moved

    def error(self, message: str) -> FormatError:
        """Return an error that contains this position."""
        return FormatError(message, self.path, key=self.key, line=self.line)

    def spoken(self, words: list[str], times: list[tuple[float, float]], frame_shift: float) -> Spoken:
        """Return words with times in frames, converted from the ``(start, end)`` of each word in seconds.

        Raises:
            FormatError: The times run backwards.
        """
        try:
            frames = frames_of(times, words, frame_shift)
        except ValueError as error:
            raise self.error(str(error)) from error
        if frames.num_overlaps and self.note_overlaps is not None:
            self.note_overlaps(frames.num_overlaps)
        return Spoken(words, (frames.begin, frames.end), times)


class Spoken(NamedTuple):
    """The words of a hypothesis, or of a part of a hypothesis."""

    words: list[str]
    frames: tuple[tuple[int, ...], tuple[int, ...]] | None = None  # start frames and end frames of the words
    times: Sequence[tuple[float, float]] = ()  # start and end of each word in seconds, not rounded


def listed_of(entry: dict[str, Any], fields: ObjectFields, where: ObjectPlace) -> Any:
    """Return the list of hypotheses in an object; texts and scores in separate lists are combined into objects."""
    if fields.nbest is None:
        return [entry]
    listed = entry.get(fields.nbest)
    if not isinstance(listed, list) or any(isinstance(value, dict) for value in listed):
        return listed
    separate = [name for name in fields.scores if isinstance(entry.get(name), list)]
    for name in separate:
        if len(entry[name]) != len(listed):
            message = f"the field {fields.nbest!r} has {len(listed)} hypotheses, but the field {name!r} has "
            raise where.error(f"{message}{counted(len(entry[name]), 'value')}")
    if not separate:
        return listed
    return [{fields.text: text, **{name: entry[name][index] for name in separate}} for index, text in enumerate(listed)]


def hypotheses_of(listed: Iterable[Any], fields: ObjectFields, where: ObjectPlace) -> list[Hypothesis]:
    """Parse the hypotheses in a list."""
    pieces = []
    for value in listed:
        entry = {fields.text: value} if isinstance(value, str) or _is_words(value) else value
        if not isinstance(entry, dict):
            raise where.error(f"expected a hypothesis, found {shown(entry)}")
        costs = _costs(entry, fields, where)
        if costs is None and not (fields.join and fields.missing_score is None):
            costs = _missing(entry, fields, where)
        pieces.append((_spoken(entry, fields, where._replace(note_overlaps=None) if fields.join else where), costs))
    if fields.join:
        return [_joined(pieces, fields.frame_shift, where)]
    return [sentence(spoken.words, *(costs or (0.0, 0.0)), where.line, spoken.frames) for spoken, costs in pieces]


def text_of(entry: dict[str, Any], name: str, where: ObjectPlace) -> str:
    """Return a field as text; it must be a string or an integer."""
    value = entry.get(name)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1e18:
        value = str(value)
    try:
        if not isinstance(value, str):
            raise ValueError
        value.encode()
    except ValueError as error:
        raise where.error(f"expected text at {name!r}, found {shown(value)}") from error
    return value


def _is_words(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) for word in value)


def _joined(pieces: list[tuple[Spoken, Costs | None]], frame_shift: float, where: ObjectPlace) -> Hypothesis:
    """Concatenate the parts of a hypothesis, such as Whisper's segments, and add their costs.

    Raises:
        FormatError: Some of the parts have costs and others have none, or a sum of costs overflows.
    """
    scored = [costs for _, costs in pieces if costs is not None]
    if scored and len(scored) < len(pieces):
        missing = len(pieces) - len(scored)
        raise where.error(
            f"{missing} of {len(pieces)} parts of a hypothesis have no score; either all or none must have a score"
        )
    both = (_total((graph for graph, _ in scored), where), _total((acoustic for _, acoustic in scored), where))
    words = [word for spoken, _ in pieces for word in spoken.words]
    timed = [spoken for spoken, _ in pieces if spoken.frames is not None]
    if not timed or any(spoken.words and spoken.frames is None for spoken, _ in pieces):
        return sentence(words, *both, where.line)
    times = [time for spoken in timed for time in spoken.times]
    return sentence(words, *both, where.line, where.spoken(words, times, frame_shift).frames)


def _missing(entry: dict[str, Any], fields: ObjectFields, where: ObjectPlace) -> Costs:
    """Return the costs for a hypothesis without a score; raise FormatError unless ``missing_score`` is set."""
    if fields.missing_score is None:
        names = repr(fields.score)
        if fields.models_apart:
            names = f"neither {names} nor {fields.am_score!r} and {fields.lm_score!r}"
        else:
            names = f"no {names}"
        present = ", ".join(repr(str(name)[:20]) for name in list(entry)[:8])
        advice = f"specify the field of its score (--from json:score={_likely_score(entry)})"
        advice += ", or specify a value for missing scores (--from json:missing_score=0)"
        raise where.error(f"a hypothesis has {names}; its fields are {present}; {advice}")
    sign = 1.0 if fields.meaning == "cost" else -1.0
    return costs(sign * fields.missing_score * math.log(fields.base) + 0.0, fields.score_as)


def _likely_score(entry: dict[str, Any]) -> str:
    """Return the name of a numeric field, preferably a name that suggests a score."""
    numbers = [
        name
        for name, value in entry.items()
        if isinstance(value, int | float) and name not in (AM_SCORE, LM_SCORE) and NAME.fullmatch(name)
    ]
    return max(numbers, key=lambda name: "score" in name or "prob" in name, default="FIELD")


def _costs(entry: dict[str, Any], fields: ObjectFields, where: ObjectPlace) -> Costs | None:
    """Return ``(graph cost, acoustic cost)`` for a hypothesis, or None if it has no score."""
    both = _sum(entry, fields.score, fields, where)
    if not fields.models_apart:
        return None if both is None else costs(both, fields.score_as)
    acoustic, graph = (_sum(entry, names, fields, where) for names in (fields.am_score, fields.lm_score))
    if acoustic is None and graph is None:
        return None if both is None else costs(both, fields.score_as)
    if (acoustic is None and fields.am_score is not None) or (graph is None and fields.lm_score is not None):
        missing = fields.am_score if acoustic is None else fields.lm_score
        message = f"a hypothesis has the score of one model, but no field {missing!r}"
        raise where.error(f"{message}; specify the score to use (score=…), or set the missing one to none")
    return graph or 0.0, acoustic or 0.0


def _sum(entry: dict[str, Any], names: str | None, fields: ObjectFields, where: ObjectPlace) -> float | None:
    """Return the sum of the score fields `names` (joined by ``+``) of a hypothesis as a cost.

    If none of these fields is present, return None.
    """
    scores = [(name, entry.get(name)) for name in parts(names)]
    if all(value is None for _, value in scores):
        return None
    return _total((_cost(name, value, fields, where) for name, value in scores), where)


def _total(costs: Iterable[float], where: ObjectPlace) -> float:
    total = sum(costs, start=0.0)  # not math.fsum, which raises OverflowError for large sums
    if not math.isfinite(total):
        raise where.error("the sum of the scores is not finite; correct the scores")
    return total


def _cost(name: str, value: object, fields: ObjectFields, where: ObjectPlace) -> float:
    try:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError
        score = float(value) * math.log(fields.base)
        if not math.isfinite(score):
            raise ValueError
    except (ValueError, OverflowError) as error:
        raise where.error(f"expected a number at {name!r}, found {shown(value)}") from error
    return (score if fields.meaning == "cost" else -score) + 0.0


def _spoken(entry: dict[str, Any], fields: ObjectFields, where: ObjectPlace) -> Spoken:
    """Return the words of a hypothesis, with times if all of its words have times.

    An empty list of words is ignored if there is a text. A word with spaces is split into several words, and its time
    is divided among them.
    """
    entries = entry.get(fields.words)
    if entries is None or (entries == [] and entry.get(fields.text) is not None):
        return Spoken(_words(entry, fields.text, where))
    if entries and _is_words(entries):
        return Spoken(_words(entry, fields.words, where))
    if not isinstance(entries, list):
        raise where.error(f"expected a list at {fields.words!r}, found {shown(entries)}")
    names: list[str] = []
    times: list[tuple[float, float] | None] = []
    for word_entry in entries:
        if not isinstance(word_entry, dict):
            raise where.error(f"expected a word, found {shown(word_entry)}")
        parts = split(text_of(word_entry, fields.word, where))
        names += parts
        times += _times(word_entry, len(parts), fields, where)
    timed = [time for time in times if time is not None]
    if len(timed) < len(times):
        return Spoken(names)
    return where.spoken(names, timed, fields.frame_shift)


def _times(
    word_entry: dict[str, Any], num_parts: int, fields: ObjectFields, where: ObjectPlace
) -> list[tuple[float, float] | None]:
    """Divide the time of a word entry evenly among its parts; return ``(start, end)`` of each part in seconds.

    An entry whose text contains spaces has several parts. If the entry has no times, the list contains None for each
    part.
    """
    values = [word_entry.get(name) for name in (fields.start, fields.end)]
    if any(value is None for value in values):
        return [None] * num_parts
    start, end = map(_seconds, values)
    if start < 0 or end < 0:
        raise where.error(f"expected a word, its start and end, found {shown(word_entry)}")
    step = (end - start) / max(num_parts, 1)
    bounds = [start + part * step for part in range(num_parts)] + [end]
    return list(pairwise(bounds))


def _words(entry: dict[str, Any], name: str, where: ObjectPlace) -> list[str]:
    """Return the words in a sentence or a list of texts."""
    value = entry.get(name)
    if not isinstance(value, list) or not _is_words(value):
        return split(text_of(entry, name, where))
    return [word for text in value for word in split(text_of({name: text}, name, where))]


def _seconds(value: object) -> float:
    """Convert a value to seconds; return -1 if it is not a number."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else -1


def shown(value: object) -> str:
    """Describe a value for messages."""
    if isinstance(value, dict):
        return f"an object with {[str(name)[:20] for name in value][:6]}"
    if isinstance(value, list):
        return f"a list of {counted(len(value), 'item')}"
    if isinstance(value, int) and abs(value) > 1e18:
        return "a large number"
    return ascii(value[:60] if isinstance(value, str) else value)
