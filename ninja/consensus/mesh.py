"""SRILM's word meshes: confusion networks as text."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from ninja import utf8
from ninja.consensus.network import ConfusionNetwork, Entry
from ninja.errors import FormatError, SymbolError

NO_WORD = "*DELETE*"
IGNORED = ("reference", "hyps", "transposterior", "time")


def mesh_text(network: ConfusionNetwork) -> str:
    """Return a network as a word mesh.

    Words with known times get an ``info`` line: start, duration (seconds), then acoustic and language model scores,
    which are not known and 0, and phones, which are not known.

    Raises:
        SymbolError: A word is spelled as SRILM spells none, ``*DELETE*``, or holds a blank.

    Source: SRILM, wlat-format(5); lm/src/WordMesh.cc and NBest.cc (NBestWordInfo::write).
    """
    lines = [f"name {network.key}", f"numaligns {network.num_bins}", "posterior 1"]
    for place in range(network.num_bins):
        entries = network.bin(place)
        shown = [f"{_spelled(word)} {_number(posterior)}" for word, posterior, _, _ in entries]
        lines.append(" ".join([f"align {place}", *shown]))
        lines += [
            f"info {place} {_spelled(word)} {_number(start)} {_number(duration)} 0 0 : :"
            for word, _, start, duration in entries
            if start is not None and duration is not None
        ]
    return "\n".join(lines) + "\n"


def read_meshes(path: str | os.PathLike[str]) -> Iterator[ConfusionNetwork]:
    """Yield the word meshes of a file, one behind the other; gzip is unpacked.

    Posteriors are divided by the mesh's total where that is not 1. Lines on references, n-best hypotheses and
    transitions, and scores and phones of words, are passed over.

    Args:
        path: The file. A mesh without a name gets the file's, without its last ending.

    Raises:
        FormatError: A line that is none of a mesh, a position without its line, a number that is none.
        InputError: The file cannot be read.

    Source: SRILM, wlat-format(5); lm/src/WordMesh.cc (WordMesh::read).
    """
    name = os.fspath(path)
    mesh: _Mesh | None = None
    for number, line in enumerate(utf8.read(name).split("\n"), start=1):
        fields = line.replace("\t", " ").rstrip("\r ").split(" ")
        fields = [field for field in fields if field]
        if not fields:
            continue
        if mesh is None or (mesh.size is not None and fields[0] in ("name", "numaligns")):
            if mesh is not None:
                yield mesh.network()
            mesh = _Mesh(name, number)
        mesh.take(fields, number)
    if mesh is not None:
        yield mesh.network()


class _Mesh:
    """A word mesh being read; what it takes in memory is bounded by the lines that are there."""

    def __init__(self, path: str, line: int) -> None:
        self.path = path
        self.line = line
        self.key = os.path.splitext(os.path.basename(path))[0]
        self.size: int | None = None
        self.total = 1.0
        self.bins: dict[int, dict[str, list[float | None]]] = {}

    def take(self, fields: list[str], line: int) -> None:
        self.line = line
        keyword, values = fields[0], fields[1:]
        if keyword == "name" and len(values) == 1:
            self.key = values[0]
        elif keyword == "numaligns" and len(values) == 1:
            if not (values[0].isascii() and values[0].isdigit() and len(values[0]) < 10):
                raise self.refused(f"numaligns is {values[0]!r}, but must be a number of positions")
            self.size = int(values[0])
        elif keyword == "posterior" and len(values) == 1:
            self.total = self.number(values[0])
            if not self.total > 0.0:
                raise self.refused(f"the total posterior is {values[0]}, but must be above 0")
        elif keyword == "align" and len(values) % 2 == 1:
            place = self.place(values[0])
            if place in self.bins:
                raise self.refused(f"position {place} has two align lines")
            entries: dict[str, list[float | None]] = {}
            for word, posterior in zip(values[1::2], values[2::2], strict=True):
                if word in entries:
                    raise self.refused(f"{word!r} stands twice at position {place}")
                entries[word] = [self.number(posterior), None, None]
            self.bins[place] = entries
        elif keyword == "info" and len(values) >= 4:
            entry = self.bins.get(self.place(values[0]), {}).get(values[1])
            if entry is None:
                raise self.refused(f"info on {values[1]!r}, which does not stand at position {values[0]}")
            entry[1:] = [self.number(value, infinite=True) for value in values[2:4]]
        elif keyword not in IGNORED and not (keyword == "posterior" and len(values) == 2):
            raise self.refused(f"expected a line of a word mesh, found {' '.join(fields)[:60]!r}")

    def place(self, text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            raise self.refused(f"a position is {text[:20]!r}, but must be a number")
        place = int(text)
        if self.size is None or place >= self.size:
            raise self.refused(f"position {place} is not among the {self.size or 0} of numaligns")
        return place

    def number(self, text: str, *, infinite: bool = False) -> float:
        try:
            value = float(text)
        except ValueError as error:
            raise self.refused(f"{text[:20]!r} is no number") from error
        if np.isnan(value) or (np.isinf(value) and not infinite):
            raise self.refused(f"{text[:20]!r} is no finite number")
        return value

    def network(self) -> ConfusionNetwork:
        if self.size is None:
            raise self.refused("the mesh has no numaligns line")
        bins: list[list[Entry]] = []
        for place in range(self.size):
            if place not in self.bins:
                raise self.refused(f"position {place} of {self.size} has no align line")
            bins.append([self.entry(word, *numbers) for word, numbers in self.bins[place].items()])
        return ConfusionNetwork.from_bins(self.key, bins)

    def entry(self, word: str, posterior: float | None, start: float | None, duration: float | None) -> Entry:
        known = start is not None and duration is not None and np.isfinite(start) and np.isfinite(duration)
        assert posterior is not None
        share = posterior if self.total == 1.0 else posterior / self.total
        return (None if word == NO_WORD else word, share, start if known else None, duration if known else None)

    def refused(self, message: str) -> FormatError:
        return FormatError(message, self.path, line=self.line)


def _spelled(word: str | None) -> str:
    if word is None:
        return NO_WORD
    if word == NO_WORD or word.split() != [word]:
        raise SymbolError(f"a word mesh cannot hold the word {word!r}; write JSON instead")
    return word


def _number(value: float) -> str:
    return str(np.float32(value)).removesuffix(".0")  # the fewest digits that give it back
