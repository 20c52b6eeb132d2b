"""Transcript edits: recognised and corrected words, and verdicts on corrections."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from ninja.errors import FormatError, OptionError
from ninja.files.stream import text_of
from ninja.lm.ngram.classes import is_class

COLUMNS = "recognised and corrected text, optionally preceded by a key"


@dataclass(frozen=True, slots=True)
class Edit:
    """The recognised and the corrected words of an utterance."""

    recognised: tuple[str, ...]
    corrected: tuple[str, ...]
    key: str = ""  # key of the utterance, "" if it is unknown


@dataclass(frozen=True, slots=True)
class Verdict:
    """A correction by `ninja correct` that was accepted or rejected."""

    is_right: bool
    phrase: str
    cls: str
    before: tuple[str, ...]  # the replaced words
    key: str
    begin: int  # index of the first replaced word


Edits = Sequence[Edit | Verdict]


def read_edits(path: str | os.PathLike[str]) -> Edits:
    """Read transcript edits.

    Args:
        path: A TSV file with a column of recognised text and a column of corrected text, optionally preceded by a
            column of keys; or the JSON file that the review page of ``ninja correct --report`` saves.

    Raises:
        FormatError: The file has the wrong format.
        InputError: The file cannot be read.
    """
    name = os.fspath(path)
    text = text_of(name)
    return _verdicts(text, name) if text.lstrip().startswith("{") else _pairs(text, name)


def paired(recognised: Mapping[str, Sequence[str]], corrected: Mapping[str, Sequence[str]]) -> list[Edit]:
    """Pair each utterance's hypotheses before and after correction.

    Utterances are paired by their keys. If no key occurs both before and after correction, utterances are paired in
    order; this is the case with subtitles, because their keys are derived from file names. An utterance that occurs
    only before or only after correction is skipped.

    Raises:
        OptionError: The two sets of utterances have no key in common, and differ in size.
    """
    if not recognised.keys().isdisjoint(corrected):
        return [Edit(tuple(words), tuple(corrected[key]), key) for key, words in recognised.items() if key in corrected]
    if len(recognised) != len(corrected):
        raise OptionError(
            "the recognised and the corrected utterances have no key in common, and their numbers differ "
            f"({len(recognised)} and {len(corrected)}), so they cannot be paired in order; use the same keys in both"
        )
    pairs = zip(recognised.items(), corrected.values(), strict=True)
    return [Edit(tuple(words), tuple(others), key) for (key, words), others in pairs]


def identities(edits: Iterable[Edit | Verdict]) -> list[str]:
    """Return a distinct id for each edit; equal edits are numbered so that their ids differ."""
    seen: Counter[tuple[object, ...]] = Counter()
    names = []
    for edit in edits:
        content: tuple[object, ...]
        if isinstance(edit, Edit):
            content = (edit.key, edit.recognised, edit.corrected)
        else:
            content = (edit.key, edit.begin, edit.before, edit.phrase, edit.is_right)
        names.append(blake2b(repr((content, seen[content])).encode(), digest_size=6).hexdigest())
        seen[content] += 1
    return names


def _pairs(text: str, path: str) -> list[Edit]:
    edits: list[Edit] = []
    num_columns = 0
    for number, line in enumerate(text.split("\n"), start=1):
        row = line.removesuffix("\r")
        if not row.strip():
            continue
        columns = row.split("\t")
        if len(columns) not in (2, 3):
            raise FormatError(f"expected 2 or 3 columns ({COLUMNS}), found {len(columns)}", path, line=number)
        if num_columns not in (0, len(columns)):
            raise FormatError(
                f"expected {num_columns} columns as in earlier lines, found {len(columns)}", path, line=number
            )
        num_columns = len(columns)
        recognised, corrected = (tuple(column.split()) for column in columns[-2:])
        edits.append(Edit(recognised, corrected, columns[0].strip() if num_columns == 3 else ""))
    return edits


def _verdicts(text: str, path: str) -> list[Verdict]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"not valid JSON: {error}", path) from error
    if not isinstance(content, dict) or "accepted" not in content or "rejected" not in content:
        raise FormatError(
            'expected "accepted" and "rejected" changes, as saved by the review page of `ninja correct --report`', path
        )
    verdicts = []
    for name in ("accepted", "rejected"):
        changes = content[name]
        if not isinstance(changes, list):
            raise FormatError(f"{name!r} must be a list of changes", path)
        for number, change in enumerate(changes, start=1):
            verdicts.append(_verdict(name == "accepted", change, path, f"{name!r}, entry {number}"))
    return verdicts


def _verdict(is_right: bool, change: object, path: str, entry: str) -> Verdict:
    """Parse a change; `entry` is its position in the file, for messages."""
    if not isinstance(change, dict):
        raise FormatError(f"{entry}: expected an object", path)
    texts = []
    for name in ("phrase", "class", "before", "utt"):
        value = change.get(name)
        if not isinstance(value, str) or (name in ("phrase", "before") and not value.strip()):
            reason = "but must be a string ('phrase' and 'before' must not be blank)"
            raise FormatError(f"{entry}: {name!r} is {value!r}, {reason}", path)
        if any("\ud800" <= char <= "\udfff" for char in value):
            raise FormatError(f"{entry}: {name!r} is {value!r}, which is not valid Unicode", path)
        texts.append(value)
    begin = change.get("begin")
    if not isinstance(begin, int) or isinstance(begin, bool) or begin < 0:
        raise FormatError(f'{entry}: "begin" must be the index of a word, not {begin!r}', path)
    phrase, cls, before, key = texts
    if cls and not is_class(cls):
        raise FormatError(f'{entry}: "class" must be "", @…, $… or <…>, not {cls!r}', path)
    return Verdict(is_right, phrase, cls, tuple(before.split()), key, begin)
