"""Objects of n-best lists in JSON, written with new scores and all fields that came with them.

A reader makes a ``ListRecord`` of the object that it read (``record_of``), with its ``ObjectFields`` as the layout. The
record passes through Ninja with the lattice, and ``write_objects`` writes the object again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ninja.formats.nbest.json_hypotheses import AM_SCORE, LM_SCORE, ObjectFields, parts
from ninja.formats.nbest.writing import ListOptions, spelled
from ninja.lattice.list_lattice import ListRecord
from ninja.lattice.nbest import Hypothesis, NBest
from ninja.lattice.symbols import SymbolTable

UNSCALED = ListOptions()
KEY = "key"  # field of the utterance id where the layout has none


def record_of(
    entry: Mapping[str, Any], listed: Sequence[Any], hypotheses: Sequence[Hypothesis], fields: ObjectFields
) -> ListRecord | None:
    """Keep the fields of an object for the writer; None if it would write the same without them.

    Args:
        entry: The object, empty for a list that has none.
        listed: Its hypotheses as the file has them.
        hypotheses: The same as they were read. Fields of pieces that were joined to one hypothesis are not kept.
    """
    utterance: dict[str, Any] = {}
    if fields.nbest is not None:
        utterance = {name: None if name == fields.nbest else value for name, value in entry.items()}
        texts = entry.get(fields.nbest)
        if isinstance(texts, list) and not any(isinstance(value, dict) for value in texts):
            for name in fields.scores:  # lists of scores beside texts are fields of hypotheses from now on
                if isinstance(utterance.get(name), list):
                    del utterance[name]
    kept: dict[str, Mapping[str, Any]] = {}
    if not fields.join:
        for value, hypothesis in zip(listed, hypotheses, strict=True):
            if isinstance(value, dict):
                kept.setdefault(" ".join(map(str, hypothesis.words)), value)
    others = utterance.keys() - {fields.key, fields.nbest}
    for value in kept.values():
        others |= value.keys() - {fields.key, fields.text, fields.words, *fields.scores}
        words = value.get(fields.words) or ()
        others |= {name for word in words if isinstance(word, dict) for name in word.keys() - _word_fields(fields)}
    return ListRecord(utterance, kept, frozenset(others), fields) if others or fields != ObjectFields() else None


def _word_fields(fields: ObjectFields) -> set[str]:
    return {fields.word, fields.start, fields.end}


def write_objects(nbest: NBest, words: SymbolTable | None = None, options: ListOptions = UNSCALED) -> bytes:
    """Return a list as lines of JSON: with default field names, separate scores and times, or as its record has it.

    The object of a record has all its fields again. The score of all models, at the scales of the options, and those of
    each model replace the old ones, under the names that the reader has for them; where a score is the sum of several
    fields, the first of these takes the change. Where objects are hypotheses, each of them is a line.
    """
    record = nbest.record or ListRecord({}, {})
    layout = record.layout if isinstance(record.layout, ObjectFields) else ObjectFields()
    listed = []
    for hypothesis in nbest.hypotheses:
        names = spelled(hypothesis, words, nbest.key)
        entry = dict(record.hypotheses.get(" ".join(names)) or _plain(hypothesis, names, nbest.frame_shift, layout))
        graph, acoustic = hypothesis.graph_cost, hypothesis.acoustic_cost
        if nbest.record is not None:
            total = options.acoustic_scale * acoustic + options.lm_scale * graph
            _set_score(entry, layout.score, total, layout)
        _set_score(entry, layout.am_score or AM_SCORE, acoustic, layout)
        _set_score(entry, layout.lm_score or LM_SCORE, graph, layout)
        listed.append(entry)
    entries = listed if layout.nbest is None else [{**record.utterance, layout.nbest: listed}]
    rows = (_with_key(entry, layout.key or KEY, nbest.key) for entry in entries)
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return lines.encode("utf-8", "surrogateescape")


def _plain(hypothesis: Hypothesis, names: list[str], frame_shift: float | None, layout: ObjectFields) -> dict[str, Any]:
    """Return the text of a hypothesis, and the times of its words in seconds where they are known."""
    entry: dict[str, Any] = {layout.text: " ".join(names)}
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
    return entry


def _set_score(entry: dict[str, Any], names: str | None, cost: float, layout: ObjectFields) -> None:
    """Set a score, or the first of those that add up to it."""
    if names is None:
        return
    first, *others = parts(names)
    score = (cost if layout.meaning == "cost" else 0.0 - cost) / math.log(layout.base)
    entry[first] = score - math.fsum(entry.setdefault(name, 0.0) for name in others)


def _with_key(entry: dict[str, Any], name: str, key: str) -> dict[str, Any]:
    """Return an object with its utterance id, at its place if it has it."""
    return entry if str(entry.get(name)) == key else {name: key} | entry | {name: key}
