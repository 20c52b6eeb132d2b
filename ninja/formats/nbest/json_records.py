"""Writer for n-best lists in JSON: writes new scores, and keeps all other fields of the original objects.

A reader stores the fields of an object as a ``ListRecord`` (``record_of``), with its ``ObjectFields`` as the layout.
The record stays with the lattice until ``write_objects`` writes the object.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ninja.formats.nbest.json_hypotheses import AM_SCORE, LM_SCORE, ObjectFields, parts
from ninja.formats.nbest.timed import confidences_of
from ninja.formats.nbest.writing import ListOptions, spelled
from ninja.lattice.lattice import ListRecord
from ninja.lattice.nbest import Hypothesis, NBest
from ninja.lattice.symbols import SymbolTable

UNSCALED = ListOptions()
CONFIDENCE = "confidence"  # name of a word's field
KEY = "key"  # default name of the field with the utterance id


def record_of(
    entry: Mapping[str, Any], listed: Sequence[Any], hypotheses: Sequence[Hypothesis], fields: ObjectFields
) -> ListRecord | None:
    """Return a record with the fields of a JSON object for the writer, or None if the writer needs no record.

    The writer needs a record if the object has fields without an equivalent in a lattice, or if the names or meanings
    of the fields in the file differ from the defaults.

    Args:
        entry: The object; an empty mapping if the list of hypotheses is not part of an object.
        listed: The hypotheses as they are in the file.
        hypotheses: The parsed hypotheses. If ``fields.join`` is set, this is the single hypothesis that was joined from
            the parts in `listed`; the fields of these parts are dropped.
        fields: Names of the fields in the file.
    """
    utterance: dict[str, Any] = {}
    if fields.nbest is not None:
        utterance = {name: None if name == fields.nbest else value for name, value in entry.items()}
        texts = entry.get(fields.nbest)
        if isinstance(texts, list) and not any(isinstance(value, dict) for value in texts):
            for name in fields.scores:  # scores in separate lists became fields of the hypotheses
                if isinstance(utterance.get(name), list):
                    del utterance[name]
    records: dict[str, Mapping[str, Any]] = {}
    if not fields.join:
        for value, hypothesis in zip(listed, hypotheses, strict=True):
            if isinstance(value, dict):
                records.setdefault(" ".join(map(str, hypothesis.words)), value)
    others = utterance.keys() - {fields.key, fields.nbest}
    for value in records.values():
        others |= value.keys() - {fields.key, fields.text, fields.words, *fields.scores}
        words = value.get(fields.words) or ()
        others |= {name for word in words if isinstance(word, dict) for name in word.keys() - _word_fields(fields)}
    return ListRecord(utterance, records, frozenset(others), fields) if others or fields != ObjectFields() else None


def _word_fields(fields: ObjectFields) -> set[str]:
    return {fields.word, fields.start, fields.end}


def write_objects(nbest: NBest, words: SymbolTable | None = None, options: ListOptions = UNSCALED) -> bytes:
    """Encode a list as JSON lines; see ``objects_of``."""
    rows = objects_of(nbest, words, options)
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return lines.encode("utf-8", "surrogateescape")


def objects_of(nbest: NBest, words: SymbolTable | None = None, options: ListOptions = UNSCALED) -> list[dict[str, Any]]:
    """Convert an n-best list to JSON objects with the fields in ``nbest.record`` or, if that is None, default fields.

    The scores of both models are written to the fields from which they were read, or to the default fields. A list with
    a record also gets the combined score, computed with the scales in `options`. If a score is a sum of several fields,
    only the first of these fields changes. The result contains one object for the whole list or, if each object in the
    source file is a hypothesis, one object per hypothesis.
    """
    record = nbest.record or ListRecord({}, {})
    layout = record.layout if isinstance(record.layout, ObjectFields) else ObjectFields()
    listed = []
    for hypothesis in nbest.hypotheses:
        names = spelled(hypothesis, words, nbest.key)
        entry = dict(record.hypotheses.get(" ".join(names)) or _plain(hypothesis, names, nbest, layout))
        graph, acoustic = hypothesis.graph_cost, hypothesis.acoustic_cost
        if nbest.record is not None:
            total = options.acoustic_scale * acoustic + options.lm_scale * graph
            _set_score(entry, layout.score, total, layout)
        _set_score(entry, layout.am_score or AM_SCORE, acoustic, layout)
        _set_score(entry, layout.lm_score or LM_SCORE, graph, layout)
        listed.append(entry)
    entries = listed if layout.nbest is None else [{**record.utterance, layout.nbest: listed}]
    return [_with_key(entry, layout.key or KEY, nbest.key) for entry in entries]


def with_new_words(record: ListRecord, nbest: NBest, changed: Iterable[tuple[Hypothesis, Hypothesis]]) -> ListRecord:
    """Return a copy of the record of an n-best list in which changed hypotheses have their new words.

    All other fields of the utterance and its hypotheses are kept.

    Args:
        record: The record of the list, with the old words.
        nbest: The list with the new words.
        changed: ``(old, new)`` for each changed hypothesis.
    """
    layout = record.layout if isinstance(record.layout, ObjectFields) else ObjectFields()
    hypotheses = dict(record.hypotheses)
    for old, new in changed:
        names = list(map(str, new.words))
        if (fields := record.hypotheses.get(" ".join(map(str, old.words)))) is not None:
            others = {name: value for name, value in fields.items() if name != layout.words}
            hypotheses.setdefault(" ".join(names), others | _plain(new, names, nbest, layout))
    return record._replace(hypotheses=hypotheses)


def _plain(hypothesis: Hypothesis, names: list[str], nbest: NBest, layout: ObjectFields) -> dict[str, Any]:
    """Return an object with the text of a hypothesis and, if known, the times and confidences of its words."""
    entry: dict[str, Any] = {layout.text: " ".join(names)}
    frame_shift = nbest.frame_shift
    if hypothesis.begin is not None and hypothesis.end is not None and frame_shift is not None:
        times = zip(names, hypothesis.begin, hypothesis.end, strict=True)
        entry[layout.words] = [
            {
                layout.word: name,
                layout.start: round(begin * frame_shift, 6),
                layout.end: round(end * frame_shift, 6),
            }
            for name, begin, end in times
        ]
        origin = None if nbest.record is None else nbest.record.origin
        if origin is not None and hypothesis is nbest.hypotheses[0]:
            for word, confidence in zip(entry[layout.words], confidences_of(origin, names) or (), strict=False):
                if confidence is not None:
                    word[CONFIDENCE] = confidence
    return entry


def _set_score(entry: dict[str, Any], names: str | None, cost: float, layout: ObjectFields) -> None:
    """Set a score; if the score is a sum of several fields, change only the first of these fields."""
    if names is None:
        return
    first, *others = parts(names)
    score = (cost if layout.meaning == "cost" else 0.0 - cost) / math.log(layout.base)
    entry[first] = score - math.fsum(entry.setdefault(name, 0.0) for name in others)


def _with_key(entry: dict[str, Any], name: str, key: str) -> dict[str, Any]:
    """Set the field `name` of an object to an utterance id unless it already has this value; put a new field first."""
    return entry if str(entry.get(name)) == key else ({} if name in entry else {name: key}) | entry | {name: key}
