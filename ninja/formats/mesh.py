"""Reader and writer for SRILM word meshes (confusion networks); meshes are read as lattices.

Reference words, n-best hypotheses, transition posteriors, times of positions, word scores and phones are ignored. Word
times are also ignored if the times of the words at a position disagree, or if a word has no times.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ninja.errors import FormatError, LatticeError, NinjaError, OptionError, SymbolError
from ninja.formats import textual
from ninja.formats.content import (
    Content,
    Entry,
    Naming,
    Pieces,
    check_encoding,
    cut_short,
    keyed,
    numbered_lines,
)
from ninja.formats.format import FIELDS, Format, Read, Write, WriteSettings
from ninja.lattice import Lattice
from ninja.lattice.lattice import check_finite, checked_shift
from ninja.lattice.network import ConfusionNetwork
from ninja.lattice.symbols import EPSILON, EPSILON_NAME, SymbolTable
from ninja.lattice.times import is_timed, state_times

_FIRST = re.compile(rb"\s*(?:name[ \t]+\S+[ \t\r]*\n\s*)?numaligns[ \t]+\d+[ \t\r]*(?:\n|\Z)")
_BLANK = re.compile(r"[ \t\n\v\f\r\0]")  # as in SRILM; words may have other Unicode spaces
_LAST_FRAME = 2**31 - 1
MAX_DIGITS = 17  # number of significant digits that distinguish all float64 values

NO_WORD = "*DELETE*"
LARGEST_POSTERIOR = 1.01  # a posterior may exceed 1 slightly because of rounding
SAME_TOTAL = 0.001  # maximum difference between 1 and a sum of rounded posteriors
Word = tuple[str | None, float, float | None, float | None]  # word (None for no word), posterior, start, duration
Block = list[tuple[int, bytes]]  # (line number, line) of a mesh
_BEGIN = (b"name", b"numaligns")
_IGNORED = ("reference", "hyps", "transposterior", "time")  # keywords of lines that are not read
Column = list[tuple[int, float]]  # (word id, negative logarithm of its posterior) at a position


@dataclass(frozen=True, slots=True)
class MeshOptions:
    """Options for reading a word mesh as a lattice."""

    least: float = 0.0  # only words with a posterior above this value are read
    frame_shift: float = 0.01  # seconds per frame
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        checked_shift(self.frame_shift)
        check_encoding(self.encoding)
        if not 0.0 <= self.least < 1.0:
            raise OptionError(f"least is {self.least}, but must be 0 or more and below 1")


def read_mesh_lattices(
    content: Pieces,
    key: str,
    path: str | None = None,
    words: SymbolTable | None = None,
    options: MeshOptions = MeshOptions(),
) -> Iterator[Lattice | NinjaError]:
    """Read the word meshes in a file as lattices.

    The boundaries between positions become states, and words become arcs from one boundary to the next. Graph costs are
    negative logarithms of posteriors; ``*DELETE*`` becomes epsilon. States have times if all words have consistent
    times. A mesh without positions represents the empty sentence. An unnamed mesh gets the key `key`; if the file
    contains several meshes, the 1-based number of the mesh among the unnamed meshes is appended.

    Yields:
        The lattice of each mesh, or its error: FormatError for an invalid or missing line or a last line without a
        newline, LatticeError for a position without words, SymbolError for a word that is not in ``words``.

    Source: SRILM, wlat-format(5); lm/src/WordMesh.cc (WordMesh::read).
    """
    blocks = whole_blocks(content)
    current = next(blocks, None)
    nameless = 0
    several = False
    while current is not None:
        block, ends = current
        following = next(blocks, None)
        several = several or following is not None
        mesh = Mesh(path, block[0][0])
        naming = Naming(key, path, words, options.encoding)
        try:
            try:
                for line, row in block:
                    if not ends and line == block[-1][0]:
                        raise cut_short(path, None, line)
                    mesh.add(naming.decoded(row, line), line)
            finally:
                nameless += mesh.name is None
                name = mesh.name or (f"{key}-{nameless}" if several else key)
            yield _lattice(mesh, Naming(name, path, words, options.encoding), options)
        except NinjaError as error:
            error.key = name
            yield error
        current = following


def _lattice(mesh: Mesh, naming: Naming, options: MeshOptions) -> Lattice:
    all_bins = mesh.bins()
    bins = [[entry for entry in entries if entry[1] > options.least] for entries in all_bins]
    for index, entries in enumerate(bins):
        if not entries:
            missing = f"with a posterior above {options.least:g}" if all_bins[index] else "(a word or *DELETE*)"
            raise LatticeError(f"position {index} has no entry {missing}", mesh.path, line=mesh.line)
    flat = [entry for entries in bins for entry in entries]
    names = dict.fromkeys(word for word, *_ in flat if word is not None and word != EPSILON_NAME)
    ids, table = naming.table([(word.encode(naming.encoding), mesh.line_of[word]) for word in names])
    id_of = dict(zip(names, ids[1:].tolist(), strict=True))
    time = _times(bins, options.frame_shift)
    return Lattice.from_arrays(
        naming.key,
        np.cumsum([0, *map(len, bins), 0]),
        np.repeat(np.arange(1, len(bins) + 1), [len(entries) for entries in bins]),
        [id_of.get(word or EPSILON_NAME, 0) for word, *_ in flat],
        [0.0 - math.log(posterior) for _, posterior, *_ in flat],
        np.zeros(len(flat)),
        [math.inf] * len(bins) + [0.0],
        time=time,
        frame_shift=None if time is None else options.frame_shift,
        words=table,
    )


def _times(bins: list[list[Word]], frame_shift: float) -> npt.NDArray[np.int32] | None:
    """Return the frame of each boundary between positions, int32 [num_positions + 1].

    Return None if words have no times, or if times are inconsistent or out of range.
    """
    frame: list[int | None] = [None] * (len(bins) + 1)
    timed = untimed = 0
    for index, entries in enumerate(bins):
        for word, _, start, duration in entries:
            if start is None or duration is None:
                untimed += word is not None
                continue
            timed += 1
            for boundary, seconds in ((index, start), (index + 1, start + duration)):
                at = round(min(max(seconds / frame_shift, -1.0), 2.0**32))
                if not 0 <= at <= _LAST_FRAME or frame[boundary] not in (None, at):
                    return None
                frame[boundary] = at
    if not timed or untimed:
        return None
    filled = filled_times(frame)
    if any(later < earlier for earlier, later in pairwise(filled)):
        return None
    return np.array(filled, np.int32)


@dataclass(slots=True)
class Mesh:
    """A word mesh that is being read; its memory use is proportional to the number of lines read so far."""

    path: str | None
    line: int  # number of the last line that was read
    name: str | None = None
    size: int | None = None
    total: float = 1.0
    line_of: dict[str, int] = field(default_factory=dict)  # first line of each word
    _bins: dict[int, dict[str, list[float | None]]] = field(default_factory=dict)

    def bins(self) -> list[list[Word]]:
        """Return the words of each position; posteriors are divided by the total posterior of the mesh."""
        if self.size is None:
            raise self._refused("the mesh has no numaligns line")
        bins: list[list[Word]] = []
        for index in range(self.size):
            if index not in self._bins:
                raise self._refused(f"position {index} of {self.size} has no align line")
            bins.append([self._entry(word, *numbers) for word, numbers in self._bins[index].items()])
        return bins

    def add(self, row: str, line: int) -> None:
        """Parse a line from the file."""
        self.line = line
        fields = [text for text in row.replace("\t", " ").rstrip("\r ").split(" ") if text]
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
            self.total = self._number(values[0], "the total posterior")
            if not self.total > 0.0:
                raise self._refused(f"the total posterior is {values[0]}, but must be above 0")
        elif keyword == "align" and len(values) % 2 == 1:
            self._align(self._place(values[0]), values[1:])
        elif keyword == "info" and len(values) >= 4:
            self._info(self._place(values[0]), values[1], values[2:])
        elif keyword == "posterior" and len(values) == 2:
            self._number(values[1], "the posterior of a position")
            self._place(values[0])
        elif keyword not in _IGNORED:
            raise self._refused(f"expected a line of a word mesh, found {' '.join(fields)[:60]!r}")

    def _align(self, place: int, values: list[str]) -> None:
        if place in self._bins:
            raise self._refused(f"position {place} has two align lines")
        entries: dict[str, list[float | None]] = {}
        for word, posterior in zip(values[::2], values[1::2], strict=True):
            if word in entries:
                raise self._refused(f"{word!r} occurs twice at position {place}")
            entries[word] = [self._number(posterior, f"the posterior of {word!r}"), None, None]
            if posterior.startswith("-") and entries[word][0] != 0.0:
                raise self._refused(f"the posterior of {word!r} is {posterior}, but must not be below 0")
            self.line_of.setdefault(word, self.line)
        self._bins[place] = entries

    def _info(self, place: int, word: str, values: list[str]) -> None:
        entry = self._bins.get(place, {}).get(word)
        if entry is None:
            raise self._refused(f"the info line describes {word!r}, which is not at position {place}")
        entry[1:] = [self._number(value, f"a time of {word!r}", infinite=True) for value in values[:2]]

    def _place(self, text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            raise self._refused(f"expected a position number, found {text[:20]!r}")
        place = int(text)
        if self.size is None:
            raise self._refused("expected numaligns before the first position")
        if place >= self.size:
            raise self._refused(f"position {place} does not exist, because numaligns is {self.size}")
        return place

    def _number(self, text: str, name: str, *, infinite: bool = False) -> float:
        try:
            value = float(text if text.isascii() and "_" not in text else "")
        except ValueError as error:
            raise self._refused(f"{name} is {text[:20]!r}, but must be a number") from error
        if math.isnan(value) or (math.isinf(value) and not infinite):
            raise self._refused(f"{name} is {text[:20]!r}, but must be a finite number")
        return value

    def _entry(self, word: str, posterior: float | None, start: float | None, duration: float | None) -> Word:
        timed = start is not None and duration is not None and math.isfinite(start) and math.isfinite(duration)
        assert posterior is not None
        posterior = posterior if self.total == 1.0 else posterior / self.total
        if posterior > LARGEST_POSTERIOR:
            raise self._refused(f"the posterior of {word!r} is {posterior:g}, but must not be above 1")
        return (None if word == NO_WORD else word, posterior, start if timed else None, duration if timed else None)

    def _refused(self, message: str) -> FormatError:
        return FormatError(message, self.path, line=self.line)


def whole_blocks(content: Pieces) -> Iterator[tuple[Block, bool]]:
    """Yield ``(numbered lines, whether the last line has a newline)`` for each mesh."""
    block: Block = []
    has_size = False
    last_ends = True
    for number, row, ends in numbered_lines(content):
        first = row.split(None, 1)[:1]
        if not first:
            continue
        if has_size and first[0] in _BEGIN:
            yield block, True
            block, has_size = [], False
        has_size = has_size or first[0] == b"numaligns"
        block.append((number, row))
        last_ends = ends
    if block:
        yield block, last_ends


def filled_times(frame: Sequence[int | None]) -> list[int]:
    """Replace each unknown frame with the previous known frame or, at the start, with the first known frame.

    At least one frame must be known.
    """
    current = next(at for at in frame if at is not None)
    filled = []
    for at in frame:
        current = current if at is None else at
        filled.append(current)
    return filled


def _entries(content: Content, words: SymbolTable | None, options: MeshOptions) -> Iterator[Entry]:
    return keyed(read_mesh_lattices(content.blocks(), content.key, content.name, words, options))


def write_mesh(mesh: ConfusionNetwork | Lattice) -> str:
    """Encode a confusion network (or a lattice in which each arc leads to the next state) as a word mesh.

    The graph costs of a lattice become posteriors; reading the file returns the same costs. Words with times get an
    ``info`` line with the start and duration in seconds, acoustic and language model scores of 0, and no phones.
    Positions with posteriors that do not sum to 1 get a ``posterior`` line.

    Raises:
        LatticeError: The state times are inconsistent.
        SymbolError: A word is missing from the symbol table or is ``*DELETE*``, or a word or the key contains
            whitespace.

    Source: SRILM, wlat-format(5); lm/src/WordMesh.cc and NBest.cc (NBestWordInfo::write).
    """
    if isinstance(mesh, Lattice):
        return _row_text(mesh)
    lines = _head(mesh.key, mesh.num_bins)
    for index in range(mesh.num_bins):
        entries = mesh.bin(index)
        pairs = (f"{_spelled(word)} {_number(posterior)}" for word, posterior, *_ in entries)
        lines.append(" ".join([f"align {index}", *pairs]))
        lines += [
            _info_line(index, _spelled(word), _number(start), _number(duration))
            for word, _, start, duration in entries
            if start is not None and duration is not None
        ]
    return "\n".join(lines) + "\n"


def _info_line(place: int, name: str, start: str, duration: str) -> str:
    return f"info {place} {name} {start} {duration} 0 0 : :"


def _row_text(lattice: Lattice) -> str:
    """Encode a lattice as a word mesh; each arc in the lattice must lead to the next state."""
    table = lattice.words
    frame_shift = lattice.frame_shift or MeshOptions().frame_shift
    arcs = list(zip(lattice.word.tolist(), lattice.graph.tolist(), strict=True))
    columns = [arcs[begin:end] for begin, end in pairwise(lattice.arc_begin[:-1].tolist())]
    seconds: list[str] = []
    lengths: list[str] = []
    info_on_silence = False
    if is_timed(lattice):
        time = state_times(lattice).tolist()
        seconds = [f"{frame * frame_shift:.15g}" for frame in time]
        lengths = [f"{(time[index + 1] - time[index]) * frame_shift:.15g}" for index in range(len(columns))]
        info_on_silence = not _words_give_times(columns, time)
    lines = _head(lattice.key, len(columns))
    for index, column in enumerate(columns):
        ids = [word for word, _ in column]
        names = [
            _spelled(None if word == EPSILON else str(word) if table is None else table.word(word)) for word in ids
        ]
        posteriors = [_posterior(cost) for _, cost in column]
        pairs = zip(names, posteriors, strict=True)
        lines.append(" ".join([f"align {index}", *(f"{name} {posterior}" for name, posterior in pairs)]))
        total = sum(map(float, posteriors))
        if abs(total - 1.0) > SAME_TOTAL:
            lines.append(f"posterior {index} {total:.6g}")
        if seconds:
            lines += [
                _info_line(index, name, seconds[index], lengths[index])
                for word, name in zip(ids, names, strict=True)
                if word != EPSILON or (info_on_silence and not any(ids))
            ]
    return "\n".join(lines) + "\n"


def _words_give_times(columns: list[Column], time: list[int]) -> bool:
    """Return whether the times of all boundaries between positions follow from the word times."""
    frame: list[int | None] = [None] * len(time)
    for index, column in enumerate(columns):
        if any(word != EPSILON for word, _ in column):
            frame[index : index + 2] = time[index : index + 2]
    return any(at is not None for at in frame) and filled_times(frame) == time


def _posterior(cost: float) -> str:
    """Convert a cost to a posterior, as the shortest decimal number that is read back as the same float32 cost."""
    posterior = math.exp(-cost)
    text = "0"
    for digits in range(1, MAX_DIGITS + 1 if posterior else 0):
        text = f"{posterior:.{digits}g}"
        if float(np.float32(-math.log(float(text)))) == cost:
            break
    return text


def _head(key: str, size: int) -> list[str]:
    """Return the header lines of a mesh with `size` positions."""
    if key.split() != [key]:
        message = f"the name of a word mesh cannot be empty or contain whitespace, but is {key!r}; write JSON instead"
        raise SymbolError(message, key=key)
    return [f"name {key}", f"numaligns {size}", "posterior 1"]


def _spelled(word: str | None) -> str:
    if word is None:
        return NO_WORD
    if not word or word == NO_WORD or _BLANK.search(word):
        raise SymbolError(f"a word mesh cannot contain the word {word!r}; write JSON instead")
    return word


def _number(value: float) -> str:
    return str(np.float32(value)).removesuffix(".0")  # the fewest digits that distinguish the float32 value


@dataclass(frozen=True, slots=True)
class MeshWriteOptions:
    """Options for writing word meshes: the scales for computing a confusion network from a lattice."""

    acoustic_scale: float = 1.0
    lm_scale: float = 1.0

    def __post_init__(self) -> None:
        check_finite("acoustic_scale", self.acoustic_scale)
        check_finite("lm_scale", self.lm_scale)


def _encode(mesh: ConfusionNetwork | Lattice, settings: WriteSettings) -> bytes:
    return textual.encoded(write_mesh(mesh), settings.encoding, mesh.key)


def _also_lost(mesh: ConfusionNetwork | Lattice, _: WriteSettings) -> list[str]:
    """Return a message about lost data if a lattice has times that cannot be written because it has no positions."""
    return [FIELDS["times"]] if isinstance(mesh, Lattice) and mesh.time is not None and not mesh.num_arcs else []


FORMAT = Format(
    name="mesh",
    about="SRILM word meshes (confusion networks)",
    holds="network",
    extensions=(".mesh",),
    mark=_FIRST.match,
    read=Read(_entries, MeshOptions),
    keeps=frozenset({"key", "times", "graph", "acoustic", "apart", "unscaled", "names"}),
    write=Write(
        _encode, options=MeshWriteOptions, files="each", also_lost=_also_lost, key_is_field=True, encoded_keys=True
    ),
)
