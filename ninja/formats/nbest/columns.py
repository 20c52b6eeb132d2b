"""N-best lists in columns: key and rank, scores, a bar, the words; as lattice-rescore writes them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ninja.errors import FormatError, OptionError
from ninja.formats.nbest.hypothesis import Hypothesis, NBest, sentence
from ninja.formats.nbest.rows import number, rows, split
from ninja.formats.textual import check_encoding

_KEY = re.compile(r"(.+)-([0-9]{1,9})")
_LARGEST_COLUMN = 1000


@dataclass(frozen=True, slots=True)
class ColumnOptions:
    """Which columns of scores, counted from 0, are whose; scores are log-probabilities, more is better."""

    acoustic: int | None = 0  # None: no column is
    graph: int | None = 1
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        check_encoding(self.encoding)
        for which in (self.acoustic, self.graph):
            if which is not None and not 0 <= which < _LARGEST_COLUMN:
                raise OptionError(f"there is no column {which}; they are counted from 0")
        if self.acoustic is not None and self.acoustic == self.graph:
            raise OptionError(f"column {self.acoustic} cannot be both costs")


def read_columns(content: bytes, path: str | None = None, options: ColumnOptions = ColumnOptions()) -> list[NBest]:
    """Read lists: on each line ``utt-RANK score score … | words``, the hypotheses of an utterance one after the other.

    Args:
        content: The whole file, unpacked.
        path: File name for error messages.
        options: Which scores become costs; others are lost, and said to be.

    Raises:
        FormatError: A line is something else, has another number of scores than the first, or an utterance goes on
            after another one.

    Source: qiujiali/lattice-rescore, README ("n-best list").
    """
    found: dict[str, list[Hypothesis]] = {}
    columns: int | None = None
    last = ""
    for line, row in rows(content, path, options.encoding):
        head, bar, text = row.partition("|")
        fields = split(head)
        named = _KEY.fullmatch(fields[0]) if fields else None
        if not bar or named is None or len(fields) < 2:
            raise FormatError(f"expected utt-1, scores, a bar and words, found {row[:60]!r}", path, line=line)
        key = named[1]
        scores = [number(field, "a score", path, line, key) for field in fields[1:]]
        columns = len(scores) if columns is None else columns
        if len(scores) != columns:
            message = f"the line has {len(scores)} scores, but the first one {columns}"
            raise FormatError(message, path, key=key, line=line)
        for which in (options.acoustic, options.graph):
            if which is not None and which >= columns:
                raise FormatError(f"there are {columns} scores, so none is column {which}", path, key=key, line=line)
        if key != last and key in found:
            raise FormatError("the utterance goes on after another one; sort the file", path, key=key, line=line)
        last = key
        graph, acoustic = (0.0 if which is None else 0.0 - scores[which] for which in (options.graph, options.acoustic))
        found.setdefault(key, []).append(sentence(split(text), graph, acoustic, line))
    if columns is None:
        raise FormatError("there are no hypotheses", path)
    unused = columns - len({options.acoustic, options.graph} - {None})
    lost = (f"{unused} scores of each hypothesis",) if unused else ()
    return [NBest(key, tuple(hypotheses), lost=lost) for key, hypotheses in found.items()]
