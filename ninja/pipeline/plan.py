"""Plan for a run in shards: the sources are divided into consecutive parts of about equal size.

Uncompressed Kaldi archives are divided at the beginnings of lattices. Script files are divided between lines, based on
the sizes of the listed lattices; compressed files and files in other formats are not divided. The parts depend only on
the sources and the number of shards, so each worker can compute its part, and the concatenated results of all shards
equal the results of one run.
"""

from __future__ import annotations

import hashlib
import json
import os
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, Literal

from ninja.errors import NinjaError, OptionError
from ninja.files.output import is_specifier, target
from ninja.files.stream import Table, open_stream
from ninja.formats.format import reader
from ninja.formats.kaldi.archive import KALDI_IMAGE, MAGIC
from ninja.io.inputs import State, script_rows, source_files, states_of
from ninja.io.sources import KALDI_READ, Source, SourceFile, Sources, as_sources, is_kaldi
from ninja.pipeline.archive_positions import LONGEST_HEAD, next_lattice_begin

MAX_SHARDS = 1_000_000


@dataclass(frozen=True, slots=True)
class Shard:
    """Shard ``number``, counted from 1, when the sources are divided into ``of`` shards of about equal size."""

    number: int
    of: int

    def __post_init__(self) -> None:
        """Validate the numbers."""
        if not 1 <= self.number <= self.of:
            raise OptionError(f"shard {self.number}/{self.of}: the first number must be from 1 to {self.of}")
        if self.of > MAX_SHARDS:
            raise OptionError(f"shard {self.number}/{self.of}: at most {MAX_SHARDS:,} shards are allowed")

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Parse a shard in the form ``i/n``, such as ``3/8`` for the third of eight shards.

        Raises:
            OptionError: The text does not have this form, or a number is out of range.
        """
        number, slash, of = text.partition("/")
        if not slash or not number.isdecimal() or not of.isdecimal():
            raise OptionError(f"shard is {text!r}, but must be i/n, such as 3/8")
        return cls(int(number), int(of))

    @property
    def name(self) -> str:
        """Prefix of the shard's file names, such as ``00003-of-00008``."""
        return f"{self.number:05d}-of-{self.of:05d}"


@dataclass(frozen=True, slots=True)
class Unit:
    """A source file, with the information that is needed to divide it between shards."""

    table: Table
    size: int  # in bytes; for a script file, the total size of its lattices
    # For each line of a script file: its position, and the total size of the preceding lattices, both in bytes.
    lines: tuple[tuple[int, int], ...] = ()
    whole: bool = False  # whether the file must not be divided


SUFFIX = ".shards"  # suffix of the folder that contains the shards of an output


def shard_folder_of(output: str) -> str:
    """Return the shard folder for an output that is specified by a path or a Kaldi wspecifier."""
    return target(output).archive + SUFFIX


def renamed(name: str, new_path: Callable[[str], str]) -> str:
    """Replace the paths in an output name, which is a path or a Kaldi wspecifier.

    Args:
        name: Name of the output.
        new_path: Function that maps the path of a file to its new path.
    """
    files = target(name)
    if not is_specifier(name):
        return new_path(files.archive)
    form = ",t" if files.text else ""
    if files.script is not None:
        return f"ark,scp{form}:{new_path(files.archive)},{new_path(files.script)}"
    if files.packed and not files.archive.endswith(".gz"):
        return f"ark{form}:| gzip -c > {new_path(files.archive)}"
    return f"ark{form}:{new_path(files.archive)}"


OutputKind = Literal["lattices", "text", "same"]  # "same" means identical in all shards


@dataclass(frozen=True, slots=True)
class PartOutput:
    """An output of the command that is run in shards."""

    option: str  # name of the command-line option that sets the output
    name: str  # a path or a Kaldi wspecifier
    kind: OutputKind

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the output files, without their folder."""
        files = target(self.name)
        return tuple(os.path.basename(path) for path in (files.archive, files.script) if path is not None)


@dataclass(frozen=True)
class Plan:
    """Description of a run in shards: everything that determines its results, and the folder for its files.

    Attributes:
        folder: Shard folder, which contains the files and records of the shards.
        shards: Number of shards.
        command: Name of the command.
        options: Values of the options by name; files are represented by checksums.
        version: Version of Ninja.
        outputs: Outputs of the command.
        states: Path, size in bytes and modification time of each source file, each file that is listed in a script
            file, and each other file from which lattices are read.
        units: Source files; None in a plan that was read from a folder.
    """

    folder: str
    shards: int
    command: str
    options: Mapping[str, Any]
    version: str
    outputs: tuple[PartOutput, ...]
    states: tuple[State, ...]
    units: tuple[Unit, ...] | None = field(default=None, compare=False)

    @cached_property
    def digest(self) -> str:
        """Checksum that identifies the plan in records."""
        return hashlib.sha256(json.dumps(self.facts(), sort_keys=True).encode("utf-8", "surrogateescape")).hexdigest()

    def facts(self) -> dict[str, Any]:
        """Return the JSON object that is stored as the plan and hashed by `digest`."""
        return {
            "version": self.version,
            "command": self.command,
            "options": dict(self.options),
            "outputs": [
                [output.option, renamed(output.name, os.path.basename), output.kind] for output in self.outputs
            ],
            "shards": self.shards,
            "sources": [list(state) for state in self.states],
        }

    def tables(self, shard: Shard) -> tuple[Table, ...]:
        """Return the files and file sections that a shard reads, possibly none, in the order of the sources.

        Raises:
            InputError: A file cannot be read.
        """
        assert self.units is not None
        assert shard.of == self.shards
        ends = list(accumulate(unit.size for unit in self.units))
        begin, end = (self._cut(number, ends) for number in (shard.number - 1, shard.number))
        tables = []
        for index in range(begin[0], min(end[0] + 1, len(self.units))):
            unit = self.units[index]
            first = begin[1] if index == begin[0] else 0
            last = end[1] if index == end[0] else None
            if last == 0 or (first and first == last):
                continue
            if not first and last is None:
                tables.append(unit.table)
                continue
            size = self._bytes(unit)
            if first >= size:
                continue
            line = 0 if not unit.lines else bisect_right([position for position, _ in unit.lines], first) - 1
            part = unit.table.place._replace(offset=first, end=size if last is None else last, line=line)
            tables.append(unit.table._replace(place=part))
        return tuple(tables)

    def _bytes(self, unit: Unit) -> int:
        """Return the size of a source file in bytes; for a script file, the size of the script file itself."""
        return next(size for path, size, _ in self.states if path == unit.table.place.path) if unit.lines else unit.size

    def _cut(self, number: int, ends: list[int]) -> tuple[int, int]:
        """Return ``(index of the unit, offset in the unit)`` at which shard ``number`` ends.

        Args:
            number: Number of the shard; 0 returns the start of the first unit.
            ends: Cumulative sizes of the units in bytes.
        """
        assert self.units is not None
        if number == self.shards:
            return len(self.units), 0
        if number == 0:
            return 0, 0
        target_size = ends[-1] * number // self.shards if ends else 0
        index = bisect_right(ends, target_size)
        if index == len(ends):
            return index, 0
        unit = self.units[index]
        offset = target_size - (ends[index] - unit.size)
        if unit.lines:
            line = bisect_right([size for _, size in unit.lines], offset) - 1
            return index, unit.lines[line][0]
        shape = "whole" if unit.whole or not offset else _shape(unit.table)
        if shape == "whole":
            return (index, 0) if 2 * offset <= unit.size else (index + 1, 0)
        return index, next_lattice_begin(unit.table.place.path, offset, text=shape == "text")


def units(source: Source | Sources, *, format: str | None = None) -> tuple[list[Unit], list[State]]:
    """Return ``(units, states)`` for the files in a source; the states include files that script files list.

    Args:
        source: See `ninja.read`.
        format: See `ninja.read`.

    Raises:
        OptionError: A source is a pipe, which cannot be divided.
        NinjaError: The source is invalid; see `ninja.read`.
    """
    sources = as_sources(source)
    states = states_of(sources, format)
    sizes = {path: size for path, size, _ in states}
    units: list[Unit] = []
    foreign = format is not None and reader(format).format.read != KALDI_READ
    for file in source_files(sources, format):
        if file.kind == "folder":
            units.append(Unit(file.table, file.size or 0, whole=True))
            continue
        table = file.table._replace(kind="scp" if file.kind == "scp" else "ark")
        script = _script(file, table, sizes) if file.kind == "scp" else None
        units.append(script or Unit(table, max(0, sizes[file.path]), whole=foreign))
    return units, states


def _script(file: SourceFile, table: Table, file_sizes: Mapping[str, int]) -> Unit | None:
    """Return a unit for a script file; the unit's size is the total size of the lattices that the script file lists.

    None is returned if the script file is compressed or unreadable. A lattice is assumed to end where the next lattice
    in the script file begins, or at the end of its archive.
    """
    rows = script_rows(file)
    if rows is None:
        return None
    end_of: dict[tuple[str, int], int] = {}
    named = sorted({(place.path, place.offset) for _, place in rows})
    for (path, offset), (other, following) in pairwise([*named, ("", 0)]):
        end_of[path, offset] = following if other == path else file_sizes.get(path, 0)
    sizes = [max(1, end_of[place.path, place.offset] - place.offset) for _, place in rows]
    lines = tuple(zip((begin for begin, _ in rows), accumulate(sizes, initial=0), strict=False))
    return Unit(table, sum(sizes), lines)


def _shape(table: Table) -> Literal["whole", "binary", "text"]:
    """Return how a file can be divided: as a binary or text Kaldi archive, or not at all ("whole")."""
    try:
        with open_stream(table.place) as stream:
            head = stream.head(LONGEST_HEAD)
            if not stream.seekable or not is_kaldi(head) or head.startswith(MAGIC):
                return "whole"
    except NinjaError:  # the reader reports the error
        return "whole"
    return "binary" if KALDI_IMAGE.match(head) else "text"
