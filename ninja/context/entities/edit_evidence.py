"""Evidence about phrases from transcript edits, which `ninja learn` appends to an entity file as marked lines.

    #ninja-learn {"version": 1, "min_count": 2, "edits": ["6f1e0c2ab3d4", …]}
    #ninja-learn {"phrase": "Kathy Clendenin", "class": "@name", "recognised": {"cathy clendening": 2}, "added": 2}

The first line of each run of the command identifies its edits; each of the following lines contains the run's
evidence about one phrase. The lines are comments in phrase lists and TSV files. Phrases, weights and recognised forms
are computed from the evidence of all runs, so counts add up across runs, and a run can be undone by removing its lines.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from ninja.errors import FormatError
from ninja.lattice.text import BASIC
from ninja.lm.ngram.classes import is_class

MARK = "#ninja-learn "
VERSION = 1
MAX_FACTOR = 2.0  # maximum factor applied to the weight of a phrase, and therefore to its boost
MIN_FACTOR = 0.1
LARGEST = 10**9 - 1  # maximum count in the file
_COUNTS = ("added", "accepted", "rejected")
_AFTER_NO_NEWLINE = '{"after": "no newline", '  # beginning of a run whose file did not end with a newline


@dataclass(frozen=True, slots=True)
class PhraseEvidence:
    """Evidence about one phrase, collected from edits."""

    phrase: str  # as written in its list or in the corrected text
    cls: str = ""  # class, "" for no class
    # recognised words → number of edits that replaced them with the phrase, minus number of wrong corrections to it
    recognised: Mapping[str, int] = field(default_factory=dict)
    added: int = 0  # number of edits that inserted the phrase in an utterance whose lists lack it
    accepted: int = 0  # number of edits that inserted the phrase in an utterance whose lists contain it
    rejected: int = 0  # number of edits that replaced the phrase with other words

    @property
    def form(self) -> str:
        """The lexical form that identifies the phrase."""
        return phrase_form(self.phrase)

    @property
    def inserted(self) -> int:
        """Number of edits that inserted the phrase."""
        return self.added + self.accepted

    def __add__(self, other: PhraseEvidence) -> PhraseEvidence:
        """Add the counts of other evidence about the same phrase."""
        recognised = Counter(self.recognised)
        recognised.update(other.recognised)  # keeps counts below 0
        return PhraseEvidence(
            self.phrase,
            self.cls or other.cls,
            dict(recognised),
            self.added + other.added,
            self.accepted + other.accepted,
            self.rejected + other.rejected,
        )

    def is_new(self, min_count: int) -> bool:
        """Return whether to add the phrase for all utterances.

        Insertions must exceed rejections by at least `min_count`, and an edit must have inserted the phrase in an
        utterance whose lists lack it.
        """
        return self.added > 0 and self.inserted - self.rejected >= min_count

    def forms(self, min_count: int) -> tuple[str, ...]:
        """Return the recognised words that the phrase replaced often enough, the most frequent first."""
        ranked = sorted(self.recognised.items(), key=lambda item: (-item[1], item[0]))
        return tuple(words for words, count in ranked if count >= min_count)

    def factor(self, min_count: int) -> float:
        """Return the factor applied to the phrase's weight: (1 + insertions) / (1 + rejections), within bounds.

        The factor is 1 if fewer than `min_count` edits inserted or rejected the phrase, and at most 1 if no edit
        inserted the phrase in an utterance whose lists contain it.
        """
        if self.inserted + self.rejected < min_count:
            return 1.0
        most = MAX_FACTOR if self.accepted else 1.0
        return min(max((1 + self.inserted) / (1 + self.rejected), MIN_FACTOR), most)


@dataclass(frozen=True, slots=True)
class Run:
    """The edits and the evidence from one run of ``ninja learn``."""

    min_count: int  # minimum number of edits that must support a change
    edits: tuple[str, ...]  # ids of the edits; an edit is counted only once, even in several runs
    evidence: tuple[PhraseEvidence, ...] = ()

    def lines(self) -> list[str]:
        """Return the lines that the run appends to an entity file."""
        rows: list[dict[str, Any]] = [{"version": VERSION, "min_count": self.min_count, "edits": self.edits}]
        for item in self.evidence:
            row: dict[str, Any] = {"phrase": item.phrase}
            row |= {"class": item.cls} if item.cls else {}
            row |= {"recognised": item.recognised} if item.recognised else {}
            rows.append(row | {name: getattr(item, name) for name in _COUNTS if getattr(item, name)})
        return [MARK + json.dumps(row, ensure_ascii=False) for row in rows]


@dataclass(frozen=True, slots=True)
class EditEvidence:
    """The evidence that learning runs have stored in an entity file, keyed by the lexical form of each phrase."""

    min_count: int = 1  # minimum number of edits that must support a change
    phrases: Mapping[str, PhraseEvidence] = field(default_factory=dict)
    edits: frozenset[str] = frozenset()  # ids of all edits

    @classmethod
    def of(cls, runs: Sequence[Run]) -> EditEvidence:
        """Add up the evidence from runs; the minimum number of supporting edits is taken from the last run."""
        total = {item.form: item for item in merged(item for run in runs for item in run.evidence)}
        edits = frozenset(edit for run in runs for edit in run.edits)
        return cls(runs[-1].min_count if runs else 1, total, edits)

    @property
    def new(self) -> list[PhraseEvidence]:
        """The phrases that are added for all utterances."""
        return [item for item in self.phrases.values() if item.is_new(self.min_count)]

    @property
    def effective(self) -> list[PhraseEvidence]:
        """The phrases that are added or that have changed weights or recognised forms."""
        count = self.min_count
        items = self.phrases.values()
        return [item for item in items if item.is_new(count) or item.factor(count) != 1 or item.forms(count)]

    def changes(self, phrase: str) -> tuple[float, tuple[str, ...]]:
        """Return (factor applied to a phrase's weight, lexical forms that were recognised in place of the phrase)."""
        item = self.phrases.get(phrase_form(phrase)) if self.phrases else None
        return (1.0, ()) if item is None else (item.factor(self.min_count), item.forms(self.min_count))


NO_EDITS = EditEvidence()


def phrase_form(text: str) -> str:
    """Return the lexical form of a phrase."""
    return " ".join(BASIC.words(text.split()))


def merged(items: Iterable[PhraseEvidence]) -> tuple[PhraseEvidence, ...]:
    """Add up the evidence about each phrase, in order of first occurrence."""
    total: dict[str, PhraseEvidence] = {}
    for item in items:
        total[item.form] = total[item.form] + item if item.form in total else item
    return tuple(total.values())


def divide(text: str, path: str) -> tuple[str, list[Run]]:
    """Split an entity file into (text, runs); in the text, lines from ``ninja learn`` are replaced with empty lines.

    Raises:
        FormatError: A line from ``ninja learn`` is damaged, or its version is not supported.
    """
    if MARK not in text:
        return text, []
    lines = text.split("\n")
    runs: list[tuple[Run, list[PhraseEvidence]]] = []
    for number, line in enumerate(lines):
        if not line.startswith(MARK):
            continue
        row = _Row(line, path, number + 1)
        lines[number] = ""
        if row.begins_run:
            if row.content.get("version") != VERSION:
                row.refuse(
                    f"the version is {row.content.get('version')!r}, but this release supports only version "
                    f"{VERSION}; upgrade Ninja"
                )
            runs.append((Run(row.count("min_count", 1), row.texts("edits")), []))
        elif not runs:
            row.refuse("the evidence for a phrase must follow the edits of its run; restore the preceding lines")
        else:
            runs[-1][1].append(row.evidence())
    return "\n".join(lines), [replace(run, evidence=tuple(evidence)) for run, evidence in runs]


def appended(content: bytes, run: Run) -> bytes:
    """Return the content of an entity file with a run appended."""
    lines = "".join(f"{line}\n" for line in run.lines())
    if content and not content.endswith(b"\n"):
        lines = "\n" + lines.replace(MARK + "{", MARK + _AFTER_NO_NEWLINE, 1)
    return content + lines.encode()


def without_last_run(content: bytes, path: str) -> bytes:
    """Return the content of an entity file without the last run of ``ninja learn``; keep lines added after the run.

    Raises:
        FormatError: The file contains no run, or a line that ``ninja learn`` added is damaged.
    """
    lines = re.findall(rb"[^\n]*\n|[^\n]+\Z", content)
    mark = MARK.encode()
    rows = [
        (number, _Row(line.decode("utf-8", "replace"), path, number + 1))
        for number, line in enumerate(lines)
        if line.startswith(mark)
    ]
    starts = [(number, row) for number, row in rows if row.begins_run]
    if not starts:
        raise FormatError("contains no lines from `ninja learn`, so there is nothing to undo", path)
    first, row = starts[-1]
    before, later = b"".join(lines[:first]), [line for line in lines[first:] if not line.startswith(mark)]
    if not later and "after" in row.content:
        before = before.removesuffix(b"\n")
    return before + b"".join(later)


class _Row:
    """A line that ``ninja learn`` added to an entity file: `MARK`, followed by a JSON object."""

    def __init__(self, line: str, path: str, number: int) -> None:
        self.path, self.number = path, number
        try:
            content = json.loads(line.removeprefix(MARK))
        except (ValueError, RecursionError) as error:
            self.refuse(f"not valid JSON: {error}")
        if not isinstance(content, dict):
            self.refuse(f"expected a JSON object after {MARK.strip()!r}, found {type(content).__name__}")
        self.content: dict[str, Any] = content

    @property
    def begins_run(self) -> bool:
        """Whether the line is the first line of a run."""
        return "phrase" not in self.content

    def evidence(self) -> PhraseEvidence:
        """Parse the line as evidence about a phrase."""
        phrase, cls = self.content["phrase"], self.content.get("class", "")
        if not isinstance(phrase, str) or not phrase.strip():
            self.refuse(f'"phrase" must be a non-empty string, not {phrase!r}')
        if not isinstance(cls, str) or (cls and not is_class(cls)):
            self.refuse(f'"class" must be "", @…, $… or <…>, not {cls!r}')
        recognised = self.content.get("recognised", {})
        if not isinstance(recognised, dict) or not all(map(_is_integer, recognised.values())):
            self.refuse('"recognised" must map recognised words to numbers of edits')
        return PhraseEvidence(phrase, cls, recognised, *(self.count(name, 0) for name in _COUNTS))

    def count(self, name: str, least: int) -> int:
        """Return the integer in a field of the JSON object, in [`least`, `LARGEST`]; the default is `least`."""
        value = self.content.get(name, least)
        if not _is_integer(value) or value < least:
            self.refuse(f"{name!r} must be an integer from {least} to {LARGEST}, not {value!r}")
        return int(value)

    def texts(self, name: str) -> tuple[str, ...]:
        """Return the value of a field of the JSON object, which must be a list of strings."""
        values = self.content.get(name)
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            self.refuse(f"{name!r} must be a list of strings")
        return tuple(values)

    def refuse(self, reason: str) -> NoReturn:
        """Raise a FormatError that specifies the file, the number of the line and the reason."""
        raise FormatError(f"{MARK.strip()}: {reason}", self.path, line=self.number)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST
