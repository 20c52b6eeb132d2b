"""SRILM's word meshes (confusion networks), read as lattices and written.

Not read: reference words, n-best hypotheses, posteriors of transitions, times of positions, scores and phones of words;
times of words where they differ within a position, or not all words have them.
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
from ninja.formats.content import Content, Entry, keyed
from ninja.formats.format import FIELDS, Format, Read, Write, WriteSettings
from ninja.formats.window import Pieces, numbered_lines
from ninja.lattice import Lattice
from ninja.lattice.network import ConfusionNetwork
from ninja.lattice.symbols import EPSILON, EPSILON_NAME, SymbolTable
from ninja.lattice.times import is_timed, state_times

_FIRST = re.compile(rb"\s*(?:name[ \t]+\S+[ \t\r]*\n\s*)?numaligns[ \t]+\d+[ \t\r]*(?:\n|\Z)")
_LATEST = 2**31 - 1  # frame
MOST_DIGITS = 17  # float64 has no more

NO_WORD = "*DELETE*"
LARGEST_SHARE = 1.01  # of 1, as far as the digits of files go
SAME_SHARE = 0.001  # as far as posteriors that were rounded add up to what they did before
Word = tuple[str | None, float, float | None, float | None]  # None: no word; posterior; start, duration where known
Block = list[tuple[int, bytes]]  # the lines of a mesh with their numbers
_BEGIN = (b"name", b"numaligns")
_PASSED = ("reference", "hyps", "transposterior", "time")  # lines that are passed over
Column = list[tuple[int, float]]  # of a position: word ids and the costs of their posteriors


@dataclass(frozen=True, slots=True)
class MeshOptions:
    """Options of reading a word mesh as a lattice."""

    least: float = 0.0  # words whose posterior is not above it are left out
    frame_shift: float = 0.01  # seconds; the files have seconds
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        textual.checked_shift(self.frame_shift)
        textual.check_encoding(self.encoding)
        if not 0.0 <= self.least < 1.0:
            raise OptionError(f"least is {self.least}, but must be a posterior, at least 0 and below 1")


def read_mesh_lattices(
    content: Pieces,
    key: str,
    path: str | None = None,
    words: SymbolTable | None = None,
    options: MeshOptions = MeshOptions(),
) -> Iterator[Lattice | NinjaError]:
    """Read the lattices of a file of word meshes.

    The boundaries of the positions become states, words arcs from one to the next; the graph cost is the negative
    logarithm of the posterior, ``*DELETE*`` is epsilon. States have times where the words of the mesh all have some,
    and those at one position the same. A mesh of no positions is the empty sentence; one without a name has the key,
    with a number from 1 where several meshes are in the file.

    Yields:
        The lattice of each mesh, or what is wrong with it: another line than a mesh has or a last line that does not
        end (FormatError), a position without words (LatticeError), a word that is not in ``words`` (SymbolError).

    Source: SRILM, wlat-format(5); lm/src/WordMesh.cc (WordMesh::read).
    """
    found = whole_blocks(content)
    this = next(found, None)
    nameless = 0
    several = False
    while this is not None:
        block, whole = this
        following = next(found, None)
        several = several or following is not None
        mesh = Mesh(path, block[0][0])
        naming = textual.Naming(key, path, words, options.encoding)
        each: Lattice | NinjaError
        try:
            try:
                for line, row in block:
                    if not whole and line == block[-1][0]:
                        raise textual.cut_short(path, None, line)
                    mesh.take(naming.decoded(row, line), line)
            finally:
                nameless += mesh.name is None
                own = mesh.name or (f"{key}-{nameless}" if several else key)
            each = _lattice(mesh, textual.Naming(own, path, words, options.encoding), options)
        except NinjaError as error:
            error.key = own
            each = error
        yield each
        this = following


def _lattice(mesh: Mesh, naming: textual.Naming, options: MeshOptions) -> Lattice:
    bins = mesh.bins()
    kept = [[entry for entry in each if entry[1] > options.least] for each in bins]
    for place, entries in enumerate(kept):
        if not entries:
            at_least = f"a posterior above {options.least:g}" if bins[place] else "a word, or *DELETE*"
            raise LatticeError(f"nothing at position {place} has {at_least}", mesh.path, line=mesh.line)
    flat = [entry for entries in kept for entry in entries]
    names = dict.fromkeys(word for word, *_ in flat if word not in (None, EPSILON_NAME))
    found = [(word.encode(naming.encoding), mesh.line_of(word)) for word in names if word is not None]
    ids, table = naming.table(found)
    id_of = dict(zip(names, ids[1:].tolist(), strict=True))
    time = _times(kept, options.frame_shift)
    return Lattice.from_arrays(
        naming.key,
        np.cumsum([0, *map(len, kept), 0]),
        np.repeat(np.arange(1, len(kept) + 1), [len(entries) for entries in kept]),
        [id_of.get(word or EPSILON_NAME, 0) for word, *_ in flat],
        [0.0 - math.log(posterior) for _, posterior, *_ in flat],
        np.zeros(len(flat)),
        [math.inf] * len(kept) + [0.0],
        time=time,
        frame_shift=None if time is None else options.frame_shift,
        words=table,
    )


def _times(bins: list[list[Word]], frame_shift: float) -> npt.NDArray[np.int32] | None:
    """Return the frame of each boundary, int32 [positions + 1]; None where words lack times or differ on them."""
    frame: list[int | None] = [None] * (len(bins) + 1)
    timed = untimed = 0
    for place, entries in enumerate(bins):
        for word, _, start, duration in entries:
            if start is None or duration is None:
                untimed += word is not None
                continue
            timed += 1
            for boundary, seconds in ((place, start), (place + 1, start + duration)):
                at = round(min(max(seconds / frame_shift, -1.0), 2.0**32))
                if not 0 <= at <= _LATEST or frame[boundary] not in (None, at):
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
    """A word mesh as it is read; its memory is bounded by the number of lines."""

    path: str | None
    line: int  # the one that is read
    name: str | None = None
    size: int | None = None
    total: float = 1.0
    _bins: dict[int, dict[str, list[float | None]]] = field(default_factory=dict)
    _line_of: dict[str, int] = field(default_factory=dict)  # where each word stands first

    def bins(self) -> list[list[Word]]:
        """Return the words of each position; posteriors are divided by the mesh's total."""
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
        """Take in a line of the file."""
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


def whole_blocks(content: Pieces) -> Iterator[tuple[Block, bool]]:
    """Yield the numbered lines of each mesh, which begins with its name or size, and whether the last line ends."""
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


def filled_times(frame: Sequence[int | None]) -> list[int]:
    """Return the frames of boundaries where some are not known: None, but not all.

    A boundary between positions without words is where the last one was; the first ones are where a word begins.
    """
    now = next(at for at in frame if at is not None)
    filled = []
    for known in frame:
        now = now if known is None else known
        filled.append(now)
    return filled


def _entries(content: Content, words: SymbolTable | None, options: MeshOptions) -> Iterator[Entry]:
    return keyed(read_mesh_lattices(content.blocks(), content.key, content.name, words, options))


def write_mesh(mesh: ConfusionNetwork | Lattice) -> str:
    """Return a network as a word mesh, or a lattice that is a row of positions with posteriors as its graph costs.

    Such a lattice, which all paths go through state by state, is read back with the same costs. Words with known
    times get an ``info`` line: start, duration (seconds), then acoustic and language model scores, which are not known
    and 0, and phones, which are not known. Positions that do not add up to 1 have a line on that.

    Raises:
        LatticeError: The times of a lattice's states contradict each other.
        SymbolError: The lattice's table lacks a word id, a word is spelled as SRILM spells none, ``*DELETE*``, or
            it or the key holds a blank.

    Source: SRILM, wlat-format(5); lm/src/WordMesh.cc and NBest.cc (NBestWordInfo::write).
    """
    if isinstance(mesh, Lattice):
        return _row_text(mesh)
    lines = _head(mesh.key, mesh.num_bins)
    for place in range(mesh.num_bins):
        entries = mesh.bin(place)
        shown = [f"{_spelled(word)} {_number(posterior)}" for word, posterior, _, _ in entries]
        lines.append(" ".join([f"align {place}", *shown]))
        lines += [
            f"info {place} {_spelled(word)} {_number(start)} {_number(duration)} 0 0 : :"
            for word, _, start, duration in entries
            if start is not None and duration is not None
        ]
    return "\n".join(lines) + "\n"


def _row_text(lattice: Lattice) -> str:
    """Return the lines of the positions of a lattice whose paths all go through its states."""
    table = lattice.words
    frame_shift = lattice.frame_shift or MeshOptions().frame_shift
    arcs = list(zip(lattice.word.tolist(), lattice.graph.tolist(), strict=True))
    columns = [arcs[begin:end] for begin, end in pairwise(lattice.arc_begin[:-1].tolist())]
    seconds: list[str] = []
    lengths: list[str] = []
    silent = False  # whether info lines of no word are needed
    if is_timed(lattice):
        time = state_times(lattice).tolist()
        seconds = [f"{frame * frame_shift:.15g}" for frame in time]
        lengths = [f"{(time[place + 1] - time[place]) * frame_shift:.15g}" for place in range(len(columns))]
        silent = not _tell(columns, time)
    lines = _head(lattice.key, len(columns))
    for place, column in enumerate(columns):
        ids = [word for word, _ in column]
        names = [
            _spelled(None if word == EPSILON else str(word) if table is None else table.word(word)) for word in ids
        ]
        shares = [_posterior(cost) for _, cost in column]
        shown = [f"{name} {share}" for name, share in zip(names, shares, strict=True)]
        lines.append(" ".join([f"align {place}", *shown]))
        total = sum(map(float, shares))
        if abs(total - 1.0) > SAME_SHARE:
            lines.append(f"posterior {place} {total:.6g}")
        if seconds:
            lines += [
                f"info {place} {name} {seconds[place]} {lengths[place]} 0 0 : :"
                for word, name in zip(ids, names, strict=True)
                if word != EPSILON or (silent and not any(ids))
            ]
    return "\n".join(lines) + "\n"


def _tell(columns: list[Column], time: list[int]) -> bool:
    """Tell whether the times of words tell those of all boundaries, as they are read."""
    frame: list[int | None] = [None] * len(time)
    for place, column in enumerate(columns):
        if any(word != EPSILON for word, _ in column):
            frame[place : place + 2] = time[place : place + 2]
    return any(known is not None for known in frame) and filled_times(frame) == time


def _posterior(cost: float) -> str:
    """Return the posterior of a cost, with the fewest digits that the cost is read back from as float32."""
    share = math.exp(-cost)
    text = "0"
    for digits in range(1, MOST_DIGITS + 1 if share else 0):
        text = f"{share:.{digits}g}"
        if float(np.float32(-math.log(float(text)))) == cost:
            break
    return text


def _head(key: str, size: int) -> list[str]:
    """Return the first lines of a mesh of so many positions."""
    if key.split() != [key]:
        raise SymbolError(f"a word mesh cannot have the name {key!r}; write JSON instead", key=key)
    return [f"name {key}", f"numaligns {size}", "posterior 1"]


def _spelled(word: str | None) -> str:
    if word is None:
        return NO_WORD
    if word == NO_WORD or word.split() != [word]:
        raise SymbolError(f"a word mesh cannot hold the word {word!r}; write JSON instead")
    return word


def _number(value: float) -> str:
    return str(np.float32(value)).removesuffix(".0")  # the fewest digits that give it back


@dataclass(frozen=True, slots=True)
class MeshWriteOptions:
    """Scales by which the network of a lattice is made."""

    acoustic_scale: float = 1.0
    lm_scale: float = 1.0

    def __post_init__(self) -> None:
        textual.check_finite("acoustic_scale", self.acoustic_scale)
        textual.check_finite("lm_scale", self.lm_scale)


def _encode(mesh: ConfusionNetwork | Lattice, settings: WriteSettings) -> bytes:
    return textual.encoded(write_mesh(mesh), settings.encoding, mesh.key)


def _also_lost(mesh: ConfusionNetwork | Lattice, _: WriteSettings) -> list[str]:
    """Return the loss of times where there is no position to have them."""
    return [FIELDS["times"]] if isinstance(mesh, Lattice) and mesh.time is not None and not mesh.num_arcs else []


FORMAT = Format(
    name="mesh",
    about="word meshes of SRILM (confusion networks)",
    holds="network",
    extensions=(".mesh",),
    mark=_FIRST.match,
    read=Read(_entries, MeshOptions),
    keeps=frozenset({"key", "times", "graph", "acoustic", "apart", "unscaled", "names"}),
    write=Write(
        _encode, options=MeshWriteOptions, files="each", also_lost=_also_lost, key_is_field=True, encoded_keys=True
    ),
)
