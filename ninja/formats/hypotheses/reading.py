"""Reader for JSON written by recognisers; presets specify how to convert the JSON to n-best lists."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from ninja.errors import FormatError, NinjaError
from ninja.files.stream import BOM
from ninja.formats.content import CHUNK, Content, check_encoding
from ninja.formats.hypotheses.document import Document
from ninja.formats.hypotheses.json_spans import Path
from ninja.formats.hypotheses.places import (
    Attributes,
    PlacedDocument,
    PlacedHypothesis,
    PlacedUtterance,
    alternative_costs,
    attributes_of,
    placed,
)
from ninja.formats.hypotheses.preset import Preset
from ninja.formats.hypotheses.values import parsed, spelled_path
from ninja.formats.nbest.json_hypotheses import shown
from ninja.formats.nbest.json_lists import TWICE, is_doubled, no_document, read_two
from ninja.formats.nbest.text_rows import decoded, each_row
from ninja.formats.nbest.word_times import frames_of
from ninja.lattice.lattice import ListRecord, Origin, checked_shift
from ninja.lattice.nbest import Hypothesis, NBest, sentence, with_silence

UTF_8 = "utf-8"
OTHERS = frozenset({"fields of the file"})


@dataclass(frozen=True, slots=True)
class PresetOptions:
    """Options for reading JSON written by recognisers."""

    frame_shift: float = 0.01  # seconds per frame; times are rounded to frames
    missing_score: float | None = None  # log-probability of alternatives without a score  [default: raise an error]
    key: str | None = None  # field with the utterance id
    text: str | None = None  # field with the text
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        checked_shift(self.frame_shift)
        check_encoding(self.encoding)


def chosen_preset(document: Any, presets: Sequence[Preset], options: PresetOptions | None) -> Preset:
    """Return the first preset that applies to a document, with the field names that the user has set."""
    preset = next((preset for preset in presets if preset.applies(document)), presets[0])
    if options is not None and options.key is not None:
        preset = replace(preset, key=(options.key,))
    if options is not None and options.text is not None:
        preset = replace(preset, text=(options.text, *preset.text))
    return preset


Placed = tuple[int | None, int, PlacedUtterance | FormatError]  # line number, index in the entry, utterance or error


class HypothesisReader:
    """Reader for the utterances in one JSON or JSON Lines file."""

    def __init__(self, content: Content, options: PresetOptions, presets: Sequence[Preset]) -> None:
        self._content = content
        self._options = options
        self._presets = presets
        self._begins: dict[
            tuple[Path, str | None], float
        ] = {}  # (list, channel) -> start of the last utterance, in seconds
        self._keys: set[str] = set()

    def lists(self) -> Iterator[NBest | NinjaError]:
        """Yield the n-best list of each utterance, or its error."""
        content, options = self._content, self._options
        head = content.first_lines() or content.stream.head(CHUNK).removeprefix(BOM)
        why = no_document(head, content.name, options.encoding, float)
        if isinstance(why, FormatError) and options.encoding == UTF_8:  # invalid UTF-8
            why = no_document(head.decode(UTF_8, "replace").encode(), content.name, constant=float)
        name = self._presets[0].name
        document = Document.of(content, name, has_lines=why is not None, options=options)
        utterances = self._of_whole() if why is None else self._of_lines(why)
        ahead, failure = read_two(utterances)
        is_only = len(ahead) == 1 and failure is None
        remaining = utterances if failure is None else ()
        for number, (line, place, utterance) in enumerate(chain(ahead, remaining), start=1):
            key = None if isinstance(utterance, FormatError) else utterance.key
            key = key or (content.key if is_only else content.numbered(number))
            try:
                if isinstance(utterance, FormatError):
                    raise utterance
                if key in self._keys:
                    name = self._presets[0].name
                    raise FormatError(f"the utterance occurs twice; choose another key field (--from {name}:key=…)")
                self._keys.add(key)
                yield self._list(utterance, key, Origin(document, line or 0, place))
            except FormatError as error:
                error.path, error.key, error.line = content.name, key, error.line or line
                yield error
        if failure is not None:
            raise failure

    def _of_whole(self) -> Iterator[Placed]:
        content, encoding = self._content, self._options.encoding
        try:
            # Tokens need not be valid UTF-8, because recognisers may split the bytes of a character between tokens.
            if encoding == UTF_8:
                text = content.whole().decode(UTF_8, "surrogateescape")
            else:
                text = decoded(content.whole(), content.name, encoding=encoding)
            value, doubled = parsed(text)
        except ValueError as error:
            raise self._not_json(error) from error
        yield from self._of_value(value, None, doubled=doubled)

    def _not_json(self, error: ValueError) -> FormatError:
        """Return a `FormatError` for an exception that was raised while parsing a whole document."""
        if isinstance(error, FormatError):
            return error
        if isinstance(error, json.JSONDecodeError):
            message = f"not JSON: {error.msg} (column {error.colno})"
            return FormatError(message, self._content.name, line=error.lineno)
        return FormatError(f"not JSON: {str(error)[:80]}", self._content.name)

    def _of_lines(self, why: ValueError) -> Iterator[Placed]:
        """Yield the utterances in JSON lines; if no line is an object, raise a single error for the file."""
        name = self._content.name
        pending: list[Placed] | None = []  # errors of the lines before the first object; then None
        for line, row in each_row(self._content.blocks(), name, self._options.encoding, marked=True):
            if isinstance(row, str) and not row.strip():
                continue
            try:
                if isinstance(row, FormatError):
                    raise row
                value, doubled = parsed(row)
                if (
                    not isinstance(value, dict | list) or row[0] not in "{["
                ):  # the line may be a part of a document that spans several lines
                    raise FormatError(f"expected an object, found {shown(value)}")
                if pending is not None:
                    yield from pending
                    pending = None
                yield from self._of_value(value, line, doubled=doubled)
            except ValueError as error:
                bad = error if isinstance(error, FormatError) else FormatError(f"not JSON: {str(error)[:80]}")
                if pending is None:
                    yield line, 0, bad
                else:
                    pending.append((line, 0, bad))
        if pending:
            raise self._not_json(why)

    def _of_value(self, value: Any, line: int | None, *, doubled: bool) -> Iterator[Placed]:
        """Yield the utterances in a document or a line; if there are none, yield one utterance without words."""
        preset = chosen_preset(value, self._presets, self._options)
        self._begins = {}
        document: PlacedDocument = placed(value, preset)
        self._preset = preset
        for index, utterance in enumerate(document.utterances):
            if doubled and not isinstance(utterance, FormatError) and _is_doubled(value, utterance.path):
                yield line, index, FormatError(f"not JSON: {TWICE}")
            else:
                yield line, index, utterance
        if not document.utterances:
            yield line, 0, PlacedUtterance((), None, [])

    def _list(self, utterance: PlacedUtterance, key: str, origin: Origin) -> NBest:
        """Return the n-best list of an utterance."""
        self._check_begin(utterance)
        shift = self._options.frame_shift
        attributes = [attributes_of(hypothesis) for hypothesis in utterance.hypotheses]
        if any(not fields.times for fields, one in zip(attributes, utterance.hypotheses, strict=True) if one.words):
            shift = 0.0
        hypotheses = [
            self._hypothesis(hypothesis, fields, cost, shift)
            for hypothesis, fields, cost in zip(utterance.hypotheses, attributes, self._costs(utterance), strict=True)
        ]
        first = attributes[0] if attributes else Attributes()
        origin = origin._replace(
            words=tuple(utterance.hypotheses[0].words) if utterance.hypotheses else (),
            begin=utterance.times[0],
            end=utterance.times[1],
            speaker=utterance.speaker,
            channel=utterance.channel,
            confidences=tuple(first.confidences),
            speakers=tuple(first.speakers),
        )
        record = ListRecord(_fields(origin), {}, OTHERS, origin=origin)
        timed = any(hypothesis.begin is not None for hypothesis in hypotheses)
        return with_silence(NBest(key, tuple(hypotheses), shift if timed else None, record))

    def _check_begin(self, utterance: PlacedUtterance) -> None:
        """Raise FormatError if an utterance ends before it begins, or begins before the previous one in its channel."""
        begin, end = utterance.times
        if begin is None or not self._preset.in_order:
            return
        where = spelled_path(utterance.path)
        if end is not None and end < begin:
            raise FormatError(f"times run backwards: {where} ends at {end:g} s, before it begins at {begin:g} s")
        place = utterance.path[:-1], utterance.channel
        previous = self._begins.get(place, 0.0)
        if begin < previous:
            message = (
                f"times run backwards: {where} begins at {begin:g} s, before the previous utterance ({previous:g} s)"
            )
            raise FormatError(message)
        self._begins[place] = begin

    def _costs(self, utterance: PlacedUtterance) -> list[float]:
        """Return the costs of the hypotheses; the cost of a single hypothesis is 0."""
        count = len(utterance.hypotheses)
        if count == 1:
            return [0.0]
        costs = alternative_costs(utterance.hypotheses, self._preset.meaning, self._options.missing_score)
        for hypothesis, cost in zip(utterance.hypotheses, costs, strict=True):
            if cost is None:
                names = " or ".join(self._preset.score) or "score"
                message = f"{spelled_path(hypothesis.path)} is one of {count} alternatives, but has no {names}"
                message += f"; specify the logarithm of its probability (--from {self._preset.name}:missing_score=…)"
                raise FormatError(message)
        return [cost for cost in costs if cost is not None]

    def _hypothesis(self, hypothesis: PlacedHypothesis, fields: Attributes, cost: float, shift: float) -> Hypothesis:
        if not fields.times:
            return sentence(hypothesis.words, 0.0, cost)
        try:
            frames = frames_of(fields.times, hypothesis.words, shift or self._options.frame_shift)
        except ValueError as error:
            raise FormatError(f"{spelled_path(hypothesis.path)}: {error}") from error
        self._content.num_overlaps += frames.num_overlaps
        if not shift:
            return sentence(hypothesis.words, 0.0, cost)
        return sentence(hypothesis.words, 0.0, cost, times=(frames.begin, frames.end))


def _is_doubled(document: Any, path: Path) -> bool:
    """Return whether an utterance, or an object that contains it, has a duplicate field."""
    value = document
    for part in path:
        if is_doubled(value, deep=False):
            return True
        value = value[part]
    return is_doubled(value)


def _fields(origin: Origin) -> dict[str, Any]:
    """Return the start, end, speaker and channel of an utterance, if known, as fields for JSON lines."""
    fields = {"start": origin.begin, "end": origin.end, "speaker": origin.speaker, "channel": origin.channel}
    return {name: value for name, value in fields.items() if value is not None}
