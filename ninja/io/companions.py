"""Companions of lattices: their words, the symbol table and the scale file next to them, and scales in HTK headers.

The scale file of ``rescored.ark.gz`` is ``rescored.ark.gz.scales.toml``; that of a folder is ``lattices.scales.toml``
in the folder. Its keys are options of ``ninja rescore``: ``acoustic_scale``, ``word_penalty``, ``lm_weight``.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from ninja.errors import FormatError, NinjaError, OptionError, SymbolError
from ninja.files import remote
from ninja.files.output import PartFile, part_of, reported
from ninja.files.stream import SPECIFIER, Guard, is_file, is_read_once, is_remote
from ninja.files.stream import STDIN as STDOUT
from ninja.files.text import read_toml, toml_text
from ninja.formats.format import HEAD
from ninja.formats.kaldi.archive import Vocabulary
from ninja.io import detection
from ninja.io.detection import SCALES_NAME, SCALES_SUFFIX
from ninja.io.sources import Source, SourceFile, Sources, as_sources, is_kaldi
from ninja.lattice import Array, Lattice, Scales
from ninja.lattice.batch import Batch
from ninja.lattice.lattice import frozen
from ninja.lattice.symbols import EPSILON, SymbolTable

TABLE_NAMES = ("words.txt", "words.txt.gz")
BESIDE = ".words.txt"
_GRAPHS = os.path.join(os.pardir, "graph*", TABLE_NAMES[0])  # path relative to a Kaldi decode folder


class Words:
    """The words of the lattices of a run.

    Args:
        table: Symbol table. If it grows, the words that files spell are added to it; otherwise it must contain them.
        of_ids: Function that finds the symbol table of sources that contain ids, called when the first of them is
            read. None uses `table`, unless it grows.
        keep_tables: Lattices of a file that contains a symbol table keep that table, and some files may contain ids
            while others contain words.
    """

    def __init__(
        self,
        table: SymbolTable,
        of_ids: Callable[[], SymbolTable | None] | None = None,
        *,
        keep_tables: bool = False,
    ) -> None:
        self.table = table
        self._keep_tables = keep_tables and table.grows
        self._of_ids = of_ids
        self._vocabulary: Vocabulary | None = None  # vocabulary of files that contain ids
        self._ids_in = ""  # the first file that contains ids
        self._is_spelled = table.grows and len(table) > 1
        self._last: tuple[SymbolTable, Array] | None = None  # cached, as the lattices of a file share their table

    @property
    def known(self) -> SymbolTable | None:
        """Symbol table of the lattices read so far, None if they have only ids."""
        if self._is_spelled or not self.table.grows:
            return self.table
        return None if self._vocabulary is None else self._vocabulary.words

    def vocabulary(self) -> Vocabulary:
        """Return the vocabulary for files that contain word ids."""
        if self._vocabulary is None:
            table = None if self.table.grows else self.table
            if self._of_ids is not None and self.table.grows and not self._is_spelled:
                table = self._of_ids()
            self._vocabulary = Vocabulary.of(table)
        return self._vocabulary

    def check_ids(self, batches: Iterator[Batch], name: str) -> Iterator[Batch]:
        """Yield batches of Kaldi lattices; raise `OptionError` if they contain ids, but another file spells words."""
        for batch in batches:
            if self.table.grows and not self._keep_tables and not self._ids_in and any(map(self._has_ids, batch)):
                self._ids_in = name
                self._refuse_mixture()
            yield batch

    def _has_ids(self, lattice: Lattice) -> bool:
        return lattice.words is not self.table and bool(lattice.word.any())

    def attach(self, lattice: Lattice, name: str = "") -> Lattice:
        """Return a lattice whose word ids are those of the table.

        Raises:
            SymbolError: A word of the lattice is not in the table.
            OptionError: One file contains ids, but another spells words.
        """
        if lattice.words is None:
            if lattice.word.any():
                self._ids_in = self._ids_in or name
                self._refuse_mixture()
                return self.vocabulary().attach(lattice)
            return lattice if self.table.grows else lattice.with_words(self.table)
        if self.table.grows and not self._is_spelled:
            self._is_spelled = True
            self._refuse_mixture()
        if lattice.words is self.table or self._keep_tables:
            return lattice
        id_of = self._ids_of(lattice.words)
        word = frozen(id_of[np.minimum(lattice.word, len(id_of) - 1)])
        if (word < 0).any():
            missing = lattice.words.word(int(lattice.word[np.flatnonzero(word < 0)[0]]))
            raise SymbolError(f"word {missing!r} is not in the symbol table; is it the right one?", key=lattice.key)
        return lattice.replace(word=word, words=self.table)

    def _refuse_mixture(self) -> None:
        if self._is_spelled and self._ids_in and not self._keep_tables:
            message = "contains word ids, but another source spells words; set their symbol table with --words (words=)"
            raise OptionError(f"{self._ids_in} {message}")

    def _ids_of(self, other: SymbolTable) -> Array:
        """Return the id in this table for each id of another table, -1 for missing words; int32 [largest id + 2]."""
        if self._last is None or self._last[0] is not other:
            if self.table.grows:
                self.table.merge(other)
            entries = dict(other)
            ids = np.fromiter(entries.values(), np.int64, len(entries))
            id_of = np.full(max(other.end_of_ids(), 1) + 1, -1, np.int32)
            id_of[ids] = self.table.ids(entries)
            id_of[EPSILON] = EPSILON
            self._last = other, id_of
        return self._last[1]


def table_beside(archive: str) -> str:
    """Return the path of the symbol table of an archive: ``lat.ark.words.txt`` for ``lat.ark``."""
    return f"{archive}{BESIDE}"


def find_table(source: Sequence[str]) -> str:
    """Return the path of the symbol table next to lattices, or else that of the decoding graph next to their folder.

    For ``lat.ark``, candidates are ``lat.ark.words.txt``, ``words.txt`` and ``words.txt.gz`` in the same folder, then
    ``../graph*/words.txt``.

    Args:
        source: Names of the sources, at least one; ``-`` has no symbol table.

    Raises:
        OptionError: Some or all sources have no symbol table, or the tables differ.
    """
    candidates = {name: _tables_of(name) for name in source}
    tables = list(dict.fromkeys(table for paths in candidates.values() for table in paths))
    without = next((name for name, paths in candidates.items() if not paths), None)
    if without is not None:
        message = f"{without}: found no {' or '.join(TABLE_NAMES)} next to it"
        if tables:
            second = next(name for name, paths in candidates.items() if paths)
            message = f"{message}, but one next to {second}"
        raise OptionError(f"{message}; set the symbol table with --words")
    for second in tables[1:]:
        import filecmp  # for two tables only

        if not filecmp.cmp(tables[0], second, shallow=False):
            raise OptionError(f"the symbol tables {tables[0]} and {second} differ; choose one with --words")
    return tables[0]


def _tables_of(source: str) -> list[str]:
    """Return the symbol table next to a source, or else those of the graphs next to its folder."""
    if source == STDOUT:
        return []
    path = source if os.path.exists(source) or not SPECIFIER.fullmatch(source) else source.partition(":")[2]
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    names = [table_beside(path), *(os.path.join(folder, name) for name in TABLE_NAMES)]
    nearest = next(filter(is_file, names), None)
    return sorted(glob.glob(os.path.join(glob.escape(folder), _GRAPHS))) if nearest is None else [nearest]


KEYS = {"acoustic_scale": "acoustic", "lm_scale": "lm", "word_penalty": "word_penalty"}  # option → field of `Scales`
_COMMENT = "Scales for the lattices next to this file, used by default by ninja best, score and other commands."


@dataclass(frozen=True, slots=True)
class ChosenScales:
    """Scales chosen for lattices, and the weight with which they were rescored."""

    scales: Scales = Scales()
    lm_weight: float | None = None  # weight of the new language model in the graph costs
    path: str | None = field(default=None, compare=False)  # file from which they were read

    def values(self) -> dict[str, float]:
        """Return the values by option name, without the LM scale if it is 1."""
        values = {"acoustic_scale": self.scales.acoustic, "word_penalty": self.scales.word_penalty}
        if self.scales.lm != 1.0:
            values["lm_scale"] = self.scales.lm
        return values if self.lm_weight is None else values | {"lm_weight": self.lm_weight}


def scales_path(place: str) -> str:
    """Return the path of the scale file of a lattice file or folder."""
    is_folder = place.endswith("/") if is_remote(place) else os.path.isdir(place)
    return os.path.join(place, SCALES_NAME) if is_folder else f"{place}{SCALES_SUFFIX}"


def read_scales(path: str) -> ChosenScales:
    """Read a scale file.

    Raises:
        FormatError: The file is not TOML, or a scale is not a number.
        InputError: The file cannot be read.
        OptionError: A scale is not finite.
    """
    values = {name: value for name, value in read_toml(path).items() if name in (*KEYS, "lm_weight")}
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise FormatError(f"{name} is {value!r}, but must be a number", path)
    scales = Scales(**{KEYS[name]: float(value) for name, value in values.items() if name in KEYS})
    return ChosenScales(scales, values.get("lm_weight"), path)


SCALES_ADVICE = "set the scales for all with --acoustic-scale and --word-penalty"


def find_scales(source: Source | Sources, *, allow_pipes: bool = False) -> ChosenScales | None:
    """Return the scales in the scale file of lattices, None if there is no such file.

    A file without a scale file uses that of its folder; a file list or script file without one uses those of the files
    that it names.

    Args:
        source: See ``ninja.read``.
        allow_pipes: See ``ninja.read``.

    Raises:
        OptionError: Files of the source have different scales, or only some have a scale file.
        FormatError: A scale file is not TOML, or a scale is not a number.
    """
    pairs = [
        pair for file in as_sources(source, allow_pipes=allow_pipes).resolvable_files for pair in _scale_files(file)
    ]
    scales = {path: read_scales(path) for _, path in pairs if path is not None}
    if not scales:
        return None
    first = next(iter(scales.values()))
    for name, path in pairs:
        if path is None:
            raise OptionError(f"{name} has no scale file, unlike other lattices ({first.path}); {SCALES_ADVICE}")
        if scales[path] != first:
            raise OptionError(f"{first.path} and {path} differ; {SCALES_ADVICE}")
    return first


def _scale_files(file: SourceFile) -> Iterator[tuple[str, str | None]]:
    """Yield the path of a file or folder, or of each file that it lists, with the path of the scale file or None."""
    path = file.path
    if file.is_pipe:
        yield path, None
        return
    file_scales = scales_path(path)
    if is_file(file_scales):
        yield path, file_scales
    elif file.kind == "folder":
        scaled = {member.path for member in file.files if is_file(scales_path(member.path))}
        for member in file.lattice_files if scaled else []:
            yield member.path, scales_path(member.path) if member.path in scaled else None
        if not scaled:
            yield path, None
    elif members := file.members:
        for member in members:
            yield from _scale_files(member)
    else:
        shared = os.path.join(os.path.dirname(path), SCALES_NAME)
        yield path, shared if is_file(path) and is_file(shared) else None


def find_header_scales(sources: Sources) -> tuple[str, Scales] | None:
    """Return the name and the header scales of the first HTK lattice, None if there is none.

    Raises:
        OptionError: The headers have different scales.
    """
    first: tuple[str, Scales] | None = None
    for name, scales in header_scales_of(sources):
        if first is None:
            first = name, scales
        elif scales != first[1]:
            raise OptionError(f"the headers of {first[0]} and {name} have different scales; set them as numbers")
    return first


def header_scales_of(sources: Sources) -> Iterator[tuple[str, Scales]]:
    """Yield the name and the header scales of each HTK lattice; pipes and script files are skipped."""
    for file in sources.resolvable_files:
        for member in _header_files(file):
            if member.is_pipe:
                continue
            try:
                head = member.inspect().head(HEAD)
            except NinjaError:  # reported by the reader
                continue
            if not is_kaldi(head):
                from ninja.formats.slf import header_scales, is_slf

                if is_slf(head) and (scales := header_scales(head)) is not None:
                    yield member.name, scales


def _header_files(file: SourceFile) -> Iterator[SourceFile]:
    if file.kind == "folder":
        for member in file.files:
            if not detection.is_companion(member.path):
                yield member
                member.close_surplus()
    elif file.kind in ("ark", "list"):
        yield from file.members if file.kind == "list" else [file]


class ScalesOutput:
    """The scale files of an output, which have temporary names until the output is complete.

    Args:
        places: Files of the output, or its folder.
        chosen: The scales; None removes existing scale files of the output.
        guard: Protects the inputs from being replaced.
    """

    def __init__(self, places: Sequence[str], chosen: ChosenScales | None, guard: Guard | None = None) -> None:
        self._places = [place for place in places if place != os.devnull and not is_read_once(place)]
        self._chosen = chosen
        self._guard = guard
        self._parts: list[PartFile] = []
        self.path: str | None = None  # path of the first scale file, once it is written

    def begin(self) -> None:
        """Write the scale files under temporary names, replacing those of an earlier attempt."""
        for path in map(scales_path, self._places):
            if self._chosen is None:
                _remove(part_of(path))
            else:
                self._parts.append(PartFile(path, guard=self._guard))
                self._parts[-1].write(toml_text(self._chosen.values(), [_COMMENT]).encode())

    def finish(self) -> None:
        """Give the scale files their final names, once the output has its name."""
        for part in self._parts:
            part.finish()
            self.path = self.path or part.name
        for path in map(scales_path, self._places if self._chosen is None else []):
            _remove(path)
        self._parts = []

    def abandon(self, *, keep: bool) -> None:
        """Delete the temporary scale files, or keep them so that the output can be resumed."""
        for part in self._parts:
            part.abandon(keep=keep)
        self._parts = []


def _remove(path: str) -> None:
    if is_file(path):
        with reported(path):
            (remote.remove if is_remote(path) else os.remove)(path)


def refuse_other_scales(place: str, chosen: ChosenScales | None) -> None:
    """Raise `OptionError` if an output cannot be resumed because its lattices have other scales.

    Args:
        place: Path of the output, which may be complete or not; one without a scale file is accepted.
        chosen: Scales of the lattices to be added, if any.
    """
    part = part_of(place)
    if not is_file(place) and not (os.path.isfile(part) and os.path.getsize(part)):
        return
    path = scales_path(place)
    existing = next(filter(is_file, (part_of(path), path)), None)  # an unfinished attempt is the most recent one
    if existing is None or (before := read_scales(existing)) == chosen:
        return
    then, now = before.values(), {} if chosen is None else chosen.values()
    differ = [name for name in {**then, **now} if _value(then, name) != _value(now, name)]
    old = " and ".join(f"{name} {_value(then, name)}" for name in differ)
    new = " and ".join(_value(now, name) for name in differ) if now else "without scales"
    advice = "use the same options, or omit --resume (resume=) to start again"
    raise OptionError(f"{place}: an earlier attempt was run with {old}, not {new}; {advice}")


def _value(values: dict[str, float], name: str) -> str:
    value = values.get(name, 1.0 if name == "lm_scale" else None)
    return "none" if value is None else f"{value:.12g}"
