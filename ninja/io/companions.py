"""Companion files of lattices: the symbol table and the scale file next to a source or an output.

The scale file of ``rescored.ark.gz`` is ``rescored.ark.gz.scales.toml``; that of a folder is ``lattices.scales.toml``
in the folder. Its keys are options of ``ninja rescore``: ``acoustic_scale``, ``word_penalty``, ``lm_weight``.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ninja.errors import FormatError, OptionError, SymbolError
from ninja.files import remote
from ninja.files.output import LONGEST_NAME, PartFile, opened_as_text, part_of, reported, toml_text
from ninja.files.stream import SPECIFIER, Guard, is_file, is_read_once, is_remote
from ninja.files.stream import STDIN as STDOUT
from ninja.files.text import read_toml
from ninja.io.detection import SCALES_NAME, SCALES_SUFFIX
from ninja.io.sources import Source, SourceFile, Sources, as_sources
from ninja.lattice import Lattice, Scales
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.word_ids import agree, used_words

TABLE_NAMES = ("words.txt", "words.txt.gz")
BESIDE = ".words.txt"
_BLANK = re.compile(r"[ \t\n\v\f\r]")  # ASCII white space, which separates the fields of a line
_GRAPHS = os.path.join(os.pardir, "graph*", TABLE_NAMES[0])  # path relative to a Kaldi decode folder


def write_table(table: SymbolTable, path: str, guard: Guard | None = None) -> None:
    """Write a symbol table in the format of Kaldi's ``words.txt``, omitting words that contain white space."""
    with opened_as_text(path, guard) as file:
        file.writelines(f"{word} {number}\n" for word, number in table if is_one_field(word))


def is_one_field(word: str) -> bool:
    """Return whether a symbol table file can store a word, which must not be empty or contain white space."""
    return bool(word) and _BLANK.search(word) is None


class TableOutput:
    """The symbol table of an output that contains word ids.

    The table is written next to the output if it was built from the words that sources spell, or was itself written
    with another archive. Any other table comes from a file that the user knows; it is written only to replace an older
    table that is already next to the output.

    Args:
        place: File or folder of the output, ``-`` for stdout.
        words_out: File for the table; None writes it next to the output.
        needed: Whether the output contains ids without words.
        guard: Protects the inputs from being replaced.
    """

    def __init__(self, place: str, words_out: str | None, *, needed: bool, guard: Guard | None = None) -> None:
        self._place = place
        self._words_out = words_out
        self._guard = guard
        self._needed = needed and place != os.devnull
        self._once = is_read_once(place)
        self._is_begun = False
        self._existing: SymbolTable | None = None  # table in the output folder
        self._last: SymbolTable | None = None  # the table checked last
        self._num_checked = 0  # number of its entries that were checked
        self._unwritable: dict[int, str] = {}  # its words that cannot be written, by id
        self._words: SymbolTable | None = None  # table of the written lattices

    def check(self, lattice: Lattice) -> None:
        """Check that the symbol table of the output can store the words of a lattice.

        Raises:
            OptionError: The words would be lost, or the output folder has another symbol table; this applies to all
                further lattices, too.
            SymbolError: A word of the lattice is empty or contains white space.
        """
        words = lattice.words
        if not self._needed and self._words_out is None:
            return
        if words is not None and self._needed and self._words_out is None and self._once and words.path is None:
            output = "standard output" if self._place == STDOUT else self._place
            message = f"{output} would contain word ids without a symbol table; use --words, --words-out FILE"
            raise OptionError(f"{message} (words_out=), or --to with a format that spells words")
        if not self._is_begun:
            self._begin(words)
        if words is None:
            return
        if self._last is not words:
            self._last, self._num_checked, self._unwritable = words, 0, {}
        if self._num_checked < len(words):
            new = words.since(self._num_checked)
            self._num_checked += len(new)
            self._unwritable |= {number: word for word, number in new if not is_one_field(word)}
        for number in used_words(lattice) if self._unwritable else ():
            if number in self._unwritable:
                problem = "contains white space" if self._unwritable[number] else "is empty"
                advice = "use a format that spells words" if self._needed else "omit --words-out"
                message = (
                    f"the word {self._unwritable[number]!r} {problem}, so a symbol table cannot store it; {advice}"
                )
                raise SymbolError(message, key=lattice.key)
        if self._existing is not None and not agree(words, self._existing, lattice):
            message = "differs from the symbol table of the lattices; name another folder, or use this table as --words"
            raise OptionError(f"{self._existing.path} {message}")

    @property
    def is_particular(self) -> bool:
        """Whether every lattice must be checked, even if its table was checked before."""
        return bool(self._unwritable) or self._existing is not None

    def take(self, lattice: Lattice) -> None:
        """Record the symbol table of a written lattice.

        In an output of ids, the table of the first lattice contains the words of all lattices; see `TableConsistency`.
        """
        if self._words is None or not self._needed:
            self._words = lattice.words

    def write(self) -> str | None:
        """Write the table if necessary; return its path, or None if it was not written."""
        path = self._path(self._words)
        if path is None or self._words is None or self._existing is not None:
            return None
        write_table(self._words, path, self._guard)
        return path

    def _begin(self, words: SymbolTable | None) -> None:
        """Read an existing table at the path of the output's table."""
        self._is_begun = True
        path = self._path(words)
        if path is None or self._words_out is not None:
            return
        if len(os.fsencode(os.path.basename(path))) > LONGEST_NAME:
            message = "is too long for the name of the symbol table; use a shorter output name, or --words-out"
            raise OptionError(f"{path} {message} (words_out=)")
        if not is_file(path):
            return
        if words is None:
            raise OptionError(f"{path} already exists and would become the symbol table of the output; move it")
        if os.path.basename(path) == TABLE_NAMES[0]:
            self._existing = SymbolTable.read(path)

    def _path(self, words: SymbolTable | None) -> str | None:
        """Return the path to which the table will be written, or None if it will not be written."""
        if self._words_out is not None or not self._needed or self._once:
            return self._words_out
        folder = os.path.isdir(self._place)
        path = os.path.join(self._place, TABLE_NAMES[0]) if folder else table_beside(self._place)
        is_derived = words is not None and (words.path is None or words.path.endswith(BESIDE))
        return path if is_derived or is_file(path) else None


class TableConsistency:
    """Checks that the symbol tables of all lattices of an output agree on the word of each id.

    Args:
        words: Symbol table of the output; None uses the table of the first lattice.
        shared: Whether the output stores ids, so that its lattices must share a table.
    """

    def __init__(self, words: SymbolTable | None, *, shared: bool) -> None:
        self._words = words
        self._has_table = words is not None
        self._shared = shared
        self._is_settled = self._has_table

    def check(self, lattice: Lattice, key: str) -> None:
        """Raise `SymbolError` if an id of a lattice has a different word in the table of the output."""
        table = lattice.words
        if table is self._words or not self._is_settled or (table is None and self._has_table):
            return
        if table is None or self._words is None or not agree(table, self._words, lattice):
            other = "the given table" if self._has_table else "that of earlier lattices"
            message = f"the symbol table of the lattice contradicts {other}; read all lattices with one table, words="
            raise SymbolError(message + " (--words), such as ninja.vocabulary(source)", key=key)

    def are_of(self, words: SymbolTable | None) -> bool:
        """Return whether lattices with this symbol table can be written without checking their words."""
        return words is self._words or not self._is_settled or (words is None and self._has_table)

    def take(self, lattice: Lattice) -> None:
        """Record a written lattice."""
        if self._shared and not self._is_settled:
            self._words, self._is_settled = lattice.words, True


def table_beside(archive: str) -> str:
    """Return the path of the symbol table of an archive: ``lat.ark.words.txt`` for ``lat.ark``."""
    return f"{archive}{BESIDE}"


def find_table(source: Sequence[str]) -> str:
    """Return the path of the symbol table next to lattices, or else in the decoding graph next to their folder.

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
    """Return the symbol table next to a source, or else the tables in the graphs next to its folder."""
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
    """Return the scales in the scale file of lattices, or None if there is no such file.

    A file without a scale file uses the scale file of its folder; a file list or script file without one uses the scale
    files of the files that it names.

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
            raise OptionError(f"the scale files {first.path} and {path} differ; {SCALES_ADVICE}")
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
        """Rename the scale files to their final names, after the output was renamed to its final name."""
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
    """Raise `OptionError` if an output cannot be resumed because its lattices have different scales.

    Args:
        place: Path of a complete or partial output; an output without a scale file is accepted.
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
