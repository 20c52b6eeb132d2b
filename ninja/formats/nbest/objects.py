"""N-best lists in JSON and JSON lines, whatever their makers call the fields.

The schema, with the names of ``ObjectFields`` as they are by default::

    {"key": "utt1", "nbest": [{"text": "a sentence", "score": -1.5}, …]}

One such object a line (JSON lines), a list of them, lists of lists (dialogues of turns), or an object that maps keys to
lists of hypotheses. A hypothesis has ``score``, or ``am_score`` and ``lm_score``, and may have its words with times:
``"words": [{"word": "a", "start": 0.1, "end": 0.2}, …]``, in seconds. ``ESPnet``, ``icefall``, ``SpeechBrain`` and
``Whisper`` leave the form of such files to their users; name the fields as yours have them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from ninja.errors import FormatError, OptionError
from ninja.formats.nbest.hypothesis import Hypothesis, NBest, sentence
from ninja.formats.nbest.nemo import ScoreAs, check_score_as, costs
from ninja.formats.nbest.rows import decoded, each_row, split, strict
from ninja.formats.nbest.srilm import spelled
from ninja.formats.textual import check_encoding, checked_shift
from ninja.symbols import SymbolTable


@dataclass(frozen=True, slots=True)
class ObjectFields:
    """What the fields are called, and what their scores mean."""

    key: str | None = "key"  # utterance id; None: objects are numbered, "3" or "2-3" where lists lie within a list
    nbest: str | None = "nbest"  # list of hypotheses; None: each object is a hypothesis itself, the only one
    text: str = "text"  # the sentence
    score: str = "score"  # of all models together
    am_score: str = "am_score"  # of the acoustic model
    lm_score: str = "lm_score"  # of the language model
    words: str = "words"  # objects with these three fields; where they are there, the text is not read
    word: str = "word"
    start: str = "start"
    end: str = "end"
    meaning: Literal["logprob", "cost"] = "logprob"  # more is better, or less
    base: float = math.e  # of the logarithms
    score_as: ScoreAs = "acoustic"  # which cost the score of all models becomes
    missing_score: float | None = None  # score of hypotheses without one; None: these are refused
    skip: bool = (
        False  # leave out objects without hypotheses, such as the turns of a system; otherwise they are refused
    )
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


DSTC10 = ObjectFields(key=None, text="hyp", skip=True)  # dialogues of turns, of which those of the user have lists


def read_objects(content: bytes, path: str | None = None, fields: ObjectFields | None = None) -> list[NBest]:
    """Read n-best lists of JSON or JSON lines; which of these it is, is seen from the content.

    Args:
        content: The whole file, unpacked.
        path: File name for error messages.
        fields: What the fields are called.

    Raises:
        FormatError: The file is no JSON, an object names a field twice, a field is missing or of another type, or an
            utterance occurs twice.
    """
    return strict(each_object(content, path, fields))


def each_object(
    content: bytes, path: str | None = None, fields: ObjectFields | None = None
) -> list[NBest | FormatError]:
    """Return each list as ``read_objects`` reads it, or what is wrong with it, in the order of the file.

    Raises:
        FormatError: There is nothing, or the file as a whole is no JSON.
    """
    fields = fields or ObjectFields()
    made: list[NBest | FormatError] = []
    seen: set[str] = set()
    skipped = 0
    for name, entry, line in _entries(content, path, fields):
        try:
            found = _list(name, entry, line, path, fields)
            if found is not None and found.key in seen:
                raise FormatError("the utterance occurs twice", path, key=found.key, line=line)
        except FormatError as error:
            made.append(error)
            continue
        if found is None:
            skipped += 1
        else:
            seen.add(found.key)
            made.append(found)
    if not made:
        raise FormatError("there are no hypotheses", path)
    first = next((place for place, each in enumerate(made) if isinstance(each, NBest)), None)
    if skipped and first is not None:
        each = made[first]
        assert isinstance(each, NBest)
        made[first] = replace(each, lost=(*each.lost, f"{skipped} objects without hypotheses"))
    return made


def _list(name: str, entry: Any, line: int | None, path: str | None, fields: ObjectFields) -> NBest | None:
    """Return the list of an object; None: it is to be skipped."""
    if isinstance(entry, FormatError):
        raise entry
    if isinstance(entry, tuple):  # a key and its list
        key, listed = entry
    else:
        if not isinstance(entry, dict):
            raise FormatError(f"expected an object, found {_shown(entry)}", path, key=name, line=line)
        key = name if fields.key is None else _text(entry, fields.key, path, name, line)
        listed = [entry] if fields.nbest is None else entry.get(fields.nbest)
        if fields.skip and not listed:
            return None
    if not isinstance(listed, list) or not listed:
        raise FormatError(f"expected a list of hypotheses as {fields.nbest!r}", path, key=key, line=line)
    hypotheses, beside = [], 0
    for each in listed:
        hypothesis, more = _hypothesis(each, fields, path, key, line)
        hypotheses.append(hypothesis)
        beside += more
    lost = (f"{beside} scores of all models, beside those of each",) if beside else ()
    timed = any(each.begin is not None for each in hypotheses)
    return NBest(key, tuple(hypotheses), fields.frame_shift if timed else None, lost)


def write_objects(lists: list[NBest], words: SymbolTable | None = None) -> bytes:
    """Return lists as JSON lines with the names that fields have by default; both scores go apart, times along.

    Raises:
        SymbolError: A word is unnamed, or cannot be written.
    """
    lines = []
    for nbest in lists:
        listed: list[dict[str, Any]] = []
        for each in nbest.hypotheses:
            names = spelled(each, words, nbest.key)
            entry: dict[str, Any] = {
                "text": " ".join(names),
                "am_score": 0.0 - each.acoustic_cost,
                "lm_score": 0.0 - each.graph_cost,
            }
            if each.begin is not None and each.end is not None and nbest.frame_shift is not None:
                times = zip(names, each.begin, each.end, strict=True)
                entry["words"] = [
                    {"word": name, "start": _seconds(begin, nbest), "end": _seconds(end, nbest)}
                    for name, begin, end in times
                ]
            listed.append(entry)
        lines.append(json.dumps({"key": nbest.key, "nbest": listed}, ensure_ascii=False) + "\n")
    return "".join(lines).encode("utf-8", "surrogateescape")


def _entries(content: bytes, path: str | None, fields: ObjectFields) -> Iterator[tuple[str, Any, int | None]]:
    """Yield a name for messages, the object of each utterance (its key and list, or its error), and its line."""
    try:
        whole, doubled = _loaded(decoded(content, path, encoding=fields.encoding))
    except ValueError as error:
        yield from _of_lines(content, path, fields, error)
        return
    for name, entry in _of_whole(whole, path, fields):
        if doubled and _is_doubled(entry):
            entry = FormatError(f"not JSON: {_TWICE} (object {name})", path)
        yield name, entry, None


def _of_whole(whole: Any, path: str | None, fields: ObjectFields) -> Iterator[tuple[str, Any]]:
    if isinstance(whole, dict):
        own = fields.nbest is None or fields.nbest in whole or fields.key in whole
        if own or not whole or not all(isinstance(value, list) for value in whole.values()):
            yield "1", whole
        else:
            pairs = whole.pairs if isinstance(whole, _Doubled) else whole.items()
            yield from ((key, (key, value)) for key, value in pairs)
    elif isinstance(whole, list):
        for number, entry in enumerate(whole, start=1):
            if isinstance(entry, list):
                yield from ((f"{number}-{turn}", inner) for turn, inner in enumerate(entry, start=1))
            else:
                yield str(number), entry
    else:
        raise FormatError(f"expected objects with hypotheses, found {_shown(whole)}", path)


def _of_lines(
    content: bytes, path: str | None, fields: ObjectFields, error: ValueError
) -> Iterator[tuple[str, Any, int | None]]:
    """Yield the objects of lines, if a file is of these that is not JSON as a whole.

    Raises:
        FormatError: No line is an object, so the file is no JSON at all.
    """
    made: list[tuple[str, Any, int | None]] = []
    parsed = False
    if content.lstrip()[:1] != b"[" and b"\n" in content.strip():
        for line, row in each_row(content, path, fields.encoding):
            entry: Any = row
            if isinstance(row, str):
                if not row.strip():
                    continue
                try:
                    entry, doubled = _loaded(row)
                except ValueError as bad:
                    entry = FormatError(f"not JSON: {str(bad)[:80]}", path, line=line)
                else:
                    # The lines of one object that is written over many are indented.
                    parsed |= isinstance(entry, dict) and row[0] == "{"
                    if doubled:
                        entry = FormatError(f"not JSON: {_TWICE}", path, line=line)
            made.append((str(len(made) + 1), entry, line))
    if not parsed:
        if isinstance(error, FormatError):
            raise error
        bad_lines = [entry for _, entry, _ in made if isinstance(entry, FormatError)]
        raise bad_lines[0] if bad_lines else FormatError(f"not JSON: {str(error)[:80]}", path) from error
    yield from made


_TWICE = "an object names a field twice"


class _Doubled(dict[str, Any]):
    """An object that names a field twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


def _is_doubled(entry: Any) -> bool:
    """Tell whether an object, or one within it, names a field twice."""
    left = [entry]
    while left:
        each = left.pop()
        if isinstance(each, _Doubled):
            return True
        if isinstance(each, list | tuple):
            left.extend(inner for inner in each if isinstance(inner, list | dict))
        elif isinstance(each, dict):
            left.extend(inner for inner in each.values() if isinstance(inner, list | dict))
    return False


def _loaded(text: str) -> tuple[Any, bool]:
    """Return what JSON says, and whether some object in it names a field twice."""
    doubled = []

    def made(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        entry = dict(pairs)
        if len(entry) < len(pairs):
            entry = _Doubled(pairs)
            doubled.append(True)
        return entry

    try:
        return json.loads(text, object_pairs_hook=made, parse_constant=_no_number), bool(doubled)
    except RecursionError as error:
        raise ValueError("lists within lists, too deep") from error


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number")


def _hypothesis(
    entry: Any, fields: ObjectFields, path: str | None, key: str, line: int | None
) -> tuple[Hypothesis, bool]:
    """Return a hypothesis, and whether a score of it was not read."""
    if isinstance(entry, str):
        entry = {fields.text: entry}
    if not isinstance(entry, dict):
        raise FormatError(f"expected a hypothesis, found {_shown(entry)}", path, key=key, line=line)

    def cost(name: str) -> float | None:
        value = entry.get(name)
        if value is None:
            return None
        try:
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ValueError
            score = float(value) * math.log(fields.base)
            if not math.isfinite(score):
                raise ValueError
        except (ValueError, OverflowError) as error:
            raise FormatError(
                f"expected a number as {name!r}, found {_shown(value)}", path, key=key, line=line
            ) from error
        return (score if fields.meaning == "cost" else -score) + 0.0

    both, acoustic, graph = cost(fields.score), cost(fields.am_score), cost(fields.lm_score)
    more = both is not None and (acoustic is not None or graph is not None)
    if acoustic is None and graph is None:
        if both is None:
            if fields.missing_score is None:
                message = f"a hypothesis has neither {fields.score!r} nor {fields.am_score!r} and {fields.lm_score!r}; "
                raise FormatError(message + "name its fields, or say what a missing score is", path, key=key, line=line)
            sign = 1.0 if fields.meaning == "cost" else -1.0
            both = sign * fields.missing_score * math.log(fields.base) + 0.0
        graph, acoustic = costs(both, fields.score_as)
    elif acoustic is None or graph is None:
        missing = fields.am_score if acoustic is None else fields.lm_score
        raise FormatError(f"a hypothesis has one model's score, but no {missing!r}", path, key=key, line=line)
    if entry.get(fields.words) is None:
        return sentence(split(_text(entry, fields.text, path, key, line)), graph, acoustic, line), more
    names, begins, ends = _timed(entry[fields.words], fields, path, key, line)
    none = (0.0,) * len(names)
    return Hypothesis(tuple(names), (*none, graph), (*none, acoustic), tuple(begins), tuple(ends), line=line), more


def _timed(
    entries: Any, fields: ObjectFields, path: str | None, key: str, line: int | None
) -> tuple[list[str], list[int], list[int]]:
    """Return words and the frames of their begins and ends."""
    names: list[str] = []
    begins: list[int] = []
    ends: list[int] = []
    if not isinstance(entries, list):
        raise FormatError(f"expected a list as {fields.words!r}, found {_shown(entries)}", path, key=key, line=line)
    for entry in entries:
        if not isinstance(entry, dict):
            raise FormatError(f"expected a word, found {_shown(entry)}", path, key=key, line=line)
        word = split(_text(entry, fields.word, path, key, line))
        start, end = (_moment(entry.get(name)) for name in (fields.start, fields.end))
        if len(word) != 1 or not 0 <= start <= end <= fields.frame_shift * (2**31 - 2):
            raise FormatError(f"expected a word, its start and end, found {_shown(entry)}", path, key=key, line=line)
        names.append(word[0])
        begins.append(max(round(start / fields.frame_shift), ends[-1] if ends else 0))
        ends.append(max(round(end / fields.frame_shift), begins[-1]))
    return names, begins, ends


def _text(entry: dict[str, Any], name: str, path: str | None, key: str, line: int | None) -> str:
    """Return a field that must be a string (a number is one, too, where it is a key)."""
    value = entry.get(name)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1e18:
        value = str(value)
    try:
        if not isinstance(value, str):
            raise ValueError
        value.encode()
    except ValueError as error:
        raise FormatError(f"expected text as {name!r}, found {_shown(value)}", path, key=key, line=line) from error
    return value


def _moment(value: object) -> float:
    """Return seconds, -1 where there are none."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else -1


def _seconds(frame: int, nbest: NBest) -> float:
    return round(frame * (nbest.frame_shift or 0.0), 6)


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return f"an object with {[str(name)[:20] for name in value][:6]}"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, int) and abs(value) > 1e18:
        return "a large number"
    return ascii(value[:60] if isinstance(value, str) else value)
