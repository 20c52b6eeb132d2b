"""Reader for n-best lists in the columns that lattice-rescore writes: key and rank, scores, a bar, words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ninja.errors import FormatError, OptionError, counted
from ninja.formats.content import Content, Pieces, check_encoding
from ninja.formats.format import Format, Read
from ninja.formats.nbest.lattices import list_entries
from ninja.formats.nbest.text_rows import Block, Line, blocks, each_row, number, split
from ninja.lattice.nbest import Hypothesis, NBest, sentence

_KEY = re.compile(r"(.+)-([0-9]{1,9})")
_MARK = re.compile(rb"\s*\S+-\d{1,9}(?:[ \t]+[-+\d.eE]+)+[ \t]*\|")
_LARGEST_COLUMN = 1000


@dataclass(frozen=True, slots=True)
class ColumnOptions:
    """Options for reading columns: the 0-based indices of the columns whose log-probabilities become costs."""

    acoustic: int | None = 0  # index of the column with the acoustic score; None for an acoustic cost of 0
    graph: int | None = 1  # index of the column with the graph score; None for a graph cost of 0
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        check_encoding(self.encoding)
        for column in (self.acoustic, self.graph):
            if column is not None and not 0 <= column < _LARGEST_COLUMN:
                raise OptionError(f"column {column} does not exist; columns are counted from 0")
        if self.acoustic is not None and self.acoustic == self.graph:
            raise OptionError(f"column {self.acoustic} cannot be both the acoustic and the graph cost")


def read_columns(
    content: Pieces, path: str | None = None, options: ColumnOptions = ColumnOptions()
) -> Iterator[NBest | FormatError]:
    """Read n-best lists from lines ``utt-RANK score score … | words``; the lines of an utterance must be consecutive.

    Yields:
        Each list, or its first error: a line is malformed, the lines have different numbers of scores, the
        lines of an utterance are not consecutive, or the last line lacks a newline.

    Source: qiujiali/lattice-rescore, README ("n-best list").
    """
    block: Block[Hypothesis] | None = None
    for block in blocks(_lines(content, path, options), path):
        if block.error is not None:
            yield block.error
            continue
        yield NBest(block.key, tuple(block.items))
    if block is None:
        raise FormatError("there are no hypotheses", path)


def _lines(content: Pieces, path: str | None, options: ColumnOptions) -> Iterator[Line[Hypothesis]]:
    columns: int | None = None
    key = ""

    def key_of(fields: list[str]) -> str:
        match = _KEY.fullmatch(fields[0]) if fields else None
        return match[1] if match else key  # a line without a key probably belongs to the previous utterance

    for line, row in each_row(content, path, options.encoding, key_of=key_of):
        if isinstance(row, FormatError):
            yield row.key or "", line, row
            continue
        head, bar, text = row.partition("|")
        fields = split(head)
        match = _KEY.fullmatch(fields[0]) if fields else None
        key = match[1] if match else ""
        try:
            if not bar or match is None or len(fields) < 2:
                raise FormatError(
                    f"expected a key such as utt-1, scores, a bar and words, found {row[:60]!r}", path, line=line
                )
            scores = [number(field, "a score", path, line, key) for field in fields[1:]]
            columns = columns or len(scores)
            if len(scores) != columns:
                message = f"the line has {counted(len(scores), 'score')}, but the first line has {columns}"
                raise FormatError(message, path, key=key, line=line)
            for column in (options.acoustic, options.graph):
                if column is not None and column >= columns:
                    message = f"there is no column {column}, because the line has {counted(columns, 'score')}"
                    raise FormatError(message, path, key=key, line=line)
        except FormatError as error:
            yield key, line, error
            continue
        chosen = options.graph, options.acoustic
        graph, acoustic = (0.0 if column is None else 0.0 - scores[column] for column in chosen)
        yield key, line, sentence(split(text), graph, acoustic, line)


def _read(content: Content, options: ColumnOptions) -> Iterator[NBest | FormatError]:
    return read_columns(content.blocks(), content.name, options)


FORMAT = Format(
    name="columns",
    about="n-best lists in columns: key and rank, scores, a bar, words",
    holds="nbest",
    extensions=(".columns",),
    mark=_MARK.match,
    results=True,
    read=Read(list_entries(_read), ColumnOptions),
)
