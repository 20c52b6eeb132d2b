"""Reader and writer for transcripts: one line per utterance, with or without a key; users must select this format."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ninja.errors import FormatError
from ninja.files.stream import BOM
from ninja.formats.content import Content, check_choice, check_encoding
from ninja.formats.format import Format, Read, Write, WriteSettings
from ninja.formats.hypotheses.document import Corrections, Document, DocumentEncoder, Rewritten
from ninja.formats.hypotheses.mixed import MixedEncoder, lost_others
from ninja.formats.nbest.cue_text import PLAIN, tokens, with_words
from ninja.formats.nbest.lattices import list_entries
from ninja.formats.nbest.text_rows import each_row
from ninja.formats.nbest.timed import BestOptions
from ninja.formats.nbest.writing import spelled
from ninja.formats.textual import encoded
from ninja.lattice.lattice import ListRecord, Origin
from ninja.lattice.nbest import NBest, sentence

NAME = "transcripts"
_KEY = re.compile(r"[ \t]*[^ \t\r\n\v\f]+[ \t]*")


@dataclass(frozen=True, slots=True)
class TranscriptOptions:
    """Options for reading transcripts."""

    keys: Literal["first", "none"] = "first"  # whether the first word of a line is the key of the utterance
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        check_choice("keys", self.keys, "first", "none")
        check_encoding(self.encoding)


def text_begin(line: str, options: TranscriptOptions) -> int:
    """Return the index at which the text of a line begins, after the key if lines have keys."""
    match = _KEY.match(line) if options.keys == "first" else None
    return 0 if match is None else match.end()


def has_keys(lines: list[str]) -> bool:
    """Return whether the first words of lines look like keys.

    The first words must be distinct. In addition, each must contain a digit, a hyphen or an underscore, or each must be
    followed by a tab.
    """
    rows = [line for line in lines if line.strip()]
    keys = [row.split(None, 1)[0] for row in rows]
    is_before_tab = all(row.partition("\t")[:2] == (key, "\t") for row, key in zip(rows, keys, strict=True))
    has_marks = all(any(char.isdigit() or char in "-_" for char in key) for key in keys)
    return len(set(keys)) == len(keys) > 0 and (has_marks or is_before_tab)


def read_transcripts(content: Content, options: TranscriptOptions) -> Iterator[NBest | FormatError]:
    """Yield each non-blank line as an n-best list with one hypothesis, or its error if it cannot be decoded."""
    document = Document.of(content, NAME, has_lines=True, options=options)
    blocks = content.blocks() if document.content is None else [document.content]
    count = 0
    for number, row in each_row(blocks, content.name, options.encoding, marked=True):
        count += 1
        key = content.numbered(count)
        if isinstance(row, FormatError):
            row.key = key
            yield row
            continue
        if not row.strip():
            continue
        begin = text_begin(row, options)
        if options.keys == "first":
            key = row[:begin].strip(" \t")
        words = tuple(token.word for token in tokens(row[begin:], PLAIN))
        record = ListRecord({}, {}, origin=Origin(document, number, 0, words))
        yield NBest(key, (sentence(words, line=number),), None, record)


def rewrite_line(content: bytes, corrections: Corrections, document: Document) -> Rewritten:
    """Return a line with new words; all other bytes are unchanged."""
    mark = BOM if content.startswith(BOM) else b""
    text = content.removeprefix(BOM).decode(document.encoding)
    if not corrections:
        return Rewritten(content, int(bool(text.strip())))
    nbest = corrections[0]
    words = spelled(nbest.hypotheses[0], None, nbest.key)
    line = text.rstrip("\r\n")
    begin = text_begin(line, document.options)
    key, old = line[:begin], line[begin:]
    if words == [token.word for token in tokens(old, PLAIN)]:
        return Rewritten(content, 1)
    if key and not old:
        key = key.rstrip(" \t") + " "
    changed = key + with_words(old, PLAIN, words) + text[len(line) :]
    return Rewritten(mark + encoded(changed, document.encoding, nbest.key), 1)


class _Lines:
    """Encoder that writes lines with a key and words."""

    def __init__(self, settings: WriteSettings) -> None:
        self._settings = settings

    def add(self, nbest: NBest) -> bytes:
        words = spelled(nbest.hypotheses[0], self._settings.words, nbest.key)
        return encoded(" ".join([nbest.key, *words]) + "\n", self._settings.encoding, nbest.key)

    def end(self) -> bytes:
        return b""


def _encoder(settings: WriteSettings) -> MixedEncoder:
    return MixedEncoder(NAME, DocumentEncoder(settings, NAME, rewrite_line), _Lines(settings))


FORMAT = Format(
    name=NAME,
    about="transcripts: one utterance per line, with its key and words (keys=none: only words)",
    holds="nbest",
    results=True,
    read=Read(list_entries(read_transcripts), TranscriptOptions),
    keeps=frozenset({"key", "names", "fields"}),
    write=Write(
        encoder=_encoder,
        options=BestOptions,
        also_lost=lambda nbest, _: lost_others(nbest, NAME),
        key_is_field=True,
        restores=True,
    ),
)
