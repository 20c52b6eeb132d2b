"""Lines of SRILM's word meshes: what stands at each position, with posteriors and times."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from ninja.errors import FormatError
from ninja.files import text as utf8
from ninja.formats.pieces import Pieces, numbered_lines
from ninja.formats.textual import refuse_unended
from ninja.lattice.network import ConfusionNetwork

NO_WORD = "*DELETE*"
NO_INFO = ["0", "0", ":", ":"]  # scores and phones where there are none
LARGEST_SHARE = 1.01  # of 1, as far as the digits of files go
SAME_SHARE = 0.001  # as far as posteriors that were rounded add up to what they did before
Word = tuple[str | None, float, float | None, float | None]  # None: no word; posterior; start, duration where known
Block = list[tuple[int, bytes]]  # the lines of a mesh with their numbers
_BEGIN = (b"name", b"numaligns")
_PASSED = ("reference", "hyps", "transposterior", "time")  # lines that are passed over


@dataclass(slots=True)
class Mesh:
    """A word mesh as it is read; what it takes in memory is bounded by the lines that are there."""

    path: str | None
    line: int  # the one that is read
    name: str | None = None
    size: int | None = None
    total: float = 1.0
    _bins: dict[int, dict[str, list[float | None]]] = field(default_factory=dict)
    _line_of: dict[str, int] = field(default_factory=dict)  # where each word stands first

    def bins(self) -> list[list[Word]]:
        """Return the words of each position; posteriors are divided by the mesh's total.

        Raises:
            FormatError: A position has no line, or how many there are is not said.
        """
        if self.size is None:
            raise self._refused("the mesh has no numaligns line")
        bins: list[list[Word]] = []
        for place in range(self.size):
            if place not in self._bins:
                raise self._refused(f"position {place} of {self.size} has no align line")
            bins.append([self._entry(word, *numbers) for word, numbers in self._bins[place].items()])
        return bins

    def line_of(self, word: str) -> int:
        """Return the line on which a word stands first."""
        return self._line_of[word]

    def take(self, row: str, line: int) -> None:
        """Take in a line of the file.

        Raises:
            FormatError: It is none of a word mesh.
        """
        self.line = line
        fields = [each for each in row.replace("\t", " ").rstrip("\r ").split(" ") if each]
        if not fields:
            return
        keyword, values = fields[0], fields[1:]
        if keyword == "name" and len(values) == 1:
            self.name = values[0]
        elif keyword == "numaligns" and len(values) == 1:
            if not (values[0].isascii() and values[0].isdigit() and len(values[0]) < 10):
                raise self._refused(f"numaligns is {values[0][:20]!r}, but must be a number of positions")
            self.size = int(values[0])
        elif keyword == "posterior" and len(values) == 1:
            self.total = self._number(values[0])
            if not self.total > 0.0:
                raise self._refused(f"the total posterior is {values[0]}, but must be above 0")
        elif keyword == "align" and len(values) % 2 == 1:
            self._align(self._place(values[0]), values[1:])
        elif keyword == "info" and len(values) >= 4:
            self._info(self._place(values[0]), values[1], values[2:])
        elif keyword == "posterior" and len(values) == 2:
            self._number(values[1])
            self._place(values[0])
        elif keyword not in _PASSED:
            raise self._refused(f"expected a line of a word mesh, found {' '.join(fields)[:60]!r}")

    def _align(self, place: int, values: list[str]) -> None:
        if place in self._bins:
            raise self._refused(f"position {place} has two align lines")
        entries: dict[str, list[float | None]] = {}
        for word, posterior in zip(values[::2], values[1::2], strict=True):
            if word in entries:
                raise self._refused(f"{word!r} stands twice at position {place}")
            entries[word] = [self._number(posterior), None, None]
            if posterior.startswith("-") and entries[word][0] != 0.0:
                raise self._refused(f"the posterior of {word!r} is {posterior}, but must not be below 0")
            self._line_of.setdefault(word, self.line)
        self._bins[place] = entries

    def _info(self, place: int, word: str, values: list[str]) -> None:
        entry = self._bins.get(place, {}).get(word)
        if entry is None:
            raise self._refused(f"info on {word!r}, which does not stand at position {place}")
        entry[1:] = [self._number(value, infinite=True) for value in values[:2]]

    def _place(self, text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            raise self._refused(f"a position is {text[:20]!r}, but must be a number")
        place = int(text)
        if self.size is None or place >= self.size:
            raise self._refused(f"position {place} is not among the {self.size or 0} of numaligns")
        return place

    def _number(self, text: str, *, infinite: bool = False) -> float:
        try:
            value = float(text if text.isascii() and "_" not in text else "no number")
        except ValueError as error:
            raise self._refused(f"{text[:20]!r} is no number") from error
        if math.isnan(value) or (math.isinf(value) and not infinite):
            raise self._refused(f"{text[:20]!r} is no finite number")
        return value

    def _entry(self, word: str, posterior: float | None, start: float | None, duration: float | None) -> Word:
        known = start is not None and duration is not None and math.isfinite(start) and math.isfinite(duration)
        assert posterior is not None
        share = posterior if self.total == 1.0 else posterior / self.total
        if share > LARGEST_SHARE:
            raise self._refused(f"the posterior of {word!r} is {share:g}, but must not be above 1")
        return (None if word == NO_WORD else word, share, start if known else None, duration if known else None)

    def _refused(self, message: str) -> FormatError:
        return FormatError(message, self.path, line=self.line)


def blocks(content: Pieces) -> Iterator[Block]:
    """Yield the lines of each mesh of a file with their numbers; a mesh begins with its name or its size.

    Args:
        content: The file, unpacked: all of it, or blocks of whole lines.
    """
    return (block for block, _ in whole_blocks(content))


def whole_blocks(content: Pieces) -> Iterator[tuple[Block, bool]]:
    """Yield what ``blocks`` does, and whether a newline ends the last line of each."""
    block: Block = []
    sized = False
    whole = True  # whether a newline ends the last line of the block
    for number, row, ends in numbered_lines(content):
        first = row.split(None, 1)[:1]
        if not first:
            continue
        if sized and first[0] in _BEGIN:
            yield block, True
            block, sized = [], False
        sized = sized or first[0] == b"numaligns"
        block.append((number, row))
        whole = ends
    if block:
        yield block, whole


def read_meshes(path: str | os.PathLike[str]) -> Iterator[ConfusionNetwork]:
    """Yield the word meshes of a file, one behind the other; gzip is unpacked.

    Posteriors are divided by the mesh's total where that is not 1. Lines on references, n-best hypotheses and
    transitions, and scores and phones of words, are passed over.

    Args:
        path: The file. A mesh without a name gets the file's, without its last ending.

    Raises:
        FormatError: A line that is none of a mesh, a position without its line, a number that is none, a last line
            that does not end.
        InputError: The file cannot be read.

    Source: SRILM, wlat-format(5); lm/src/WordMesh.cc (WordMesh::read).
    """
    name = os.fspath(path)
    content = utf8.read(name).encode()
    refuse_unended(content, name, None, b"")
    for block in blocks(content):
        mesh = Mesh(name, block[0][0])
        for line, row in block:
            mesh.take(row.decode(), line)
        key = mesh.name or os.path.splitext(os.path.basename(name))[0]
        yield ConfusionNetwork.from_bins(key, mesh.bins())
