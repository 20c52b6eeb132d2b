"""Scales of lattices: in a TOML file beside those that were rescored or tuned, or in the headers of HTK lattices.

Beside the file ``rescored.ark.gz`` it is ``rescored.ark.gz.scales.toml``, in a folder ``lattices.scales.toml``.
Its keys are options of ``ninja rescore``: ``acoustic_scale``, ``word_penalty``, ``lm_weight``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ninja.errors import FormatError, NinjaError, OptionError
from ninja.files import remote, toml
from ninja.files.output import Guard, PartFile, part_of, reported
from ninja.files.place import is_file, is_read_once, is_remote
from ninja.formats.format import HEAD
from ninja.io import detection
from ninja.io.detection import SCALES_NAME, SCALES_SUFFIX
from ninja.io.sources import Source, SourceFile, Sources, as_sources, is_kaldi
from ninja.lattice import Scales

KEYS = {"acoustic_scale": "acoustic", "lm_scale": "lm", "word_penalty": "word_penalty"}  # with the fields of `Scales`
_COMMENT = "Scales of the lattices beside this file: ninja best, score and others take them from here."


@dataclass(frozen=True, slots=True)
class ChosenScales:
    """Scales that were chosen for lattices, and the weight they were rescored with."""

    scales: Scales = Scales()
    lm_weight: float | None = None  # share of the new language model in the graph costs
    path: str | None = field(default=None, compare=False)  # file that they were read from

    def values(self) -> dict[str, float]:
        """Return the values by the names of options; the LM scale only if it is not 1."""
        values = {"acoustic_scale": self.scales.acoustic, "word_penalty": self.scales.word_penalty}
        if self.scales.lm != 1.0:
            values["lm_scale"] = self.scales.lm
        return values if self.lm_weight is None else values | {"lm_weight": self.lm_weight}


def scales_path(place: str) -> str:
    """Return the path of the scales of a file or folder of lattices."""
    is_folder = place.endswith("/") if is_remote(place) else os.path.isdir(place)
    return os.path.join(place, SCALES_NAME) if is_folder else f"{place}{SCALES_SUFFIX}"


def read_scales(path: str) -> ChosenScales:
    """Read a file of scales.

    Raises:
        FormatError: It is not TOML, or a scale is not a number.
        InputError: It cannot be read.
        OptionError: A scale is not finite.
    """
    values = {name: value for name, value in toml.read(path).items() if name in (*KEYS, "lm_weight")}
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise FormatError(f"{name} is {value!r}, but must be a number", path)
    scales = Scales(**{KEYS[name]: float(value) for name, value in values.items() if name in KEYS})
    return ChosenScales(scales, values.get("lm_weight"), path)


SCALES_ADVICE = "say with --acoustic-scale and --word-penalty which scales all are to have"


def find_scales(source: Source | Sources, *, allow_pipes: bool = False) -> ChosenScales | None:
    """Return the scales in a file beside lattices; None if there is no such file.

    They are those of the file, else of its folder; of a list of files or a script file, its own, else those of the
    files that it names.

    Args:
        source: As for ``ninja.read``.

    Raises:
        OptionError: Some of the source's files have other scales than others, or none.
        FormatError: A file of scales is no TOML, or a scale is not a number.
    """
    beside = [pair for file in as_sources(source, allow_pipes=allow_pipes).resolvable_files for pair in _beside(file)]
    read = {path: read_scales(path) for _, path in beside if path is not None}
    if not read:
        return None
    first = next(iter(read.values()))
    for name, path in beside:
        if path is None:
            raise OptionError(f"{name} has no scales beside it, but others have: {first.path}; {SCALES_ADVICE}")
        if read[path] != first:
            raise OptionError(f"{first.path} and {path} differ; {SCALES_ADVICE}")
    return first


def _beside(file: SourceFile) -> Iterator[tuple[str, str | None]]:
    """Yield a file or folder, or those that it lists, each with the file of its scales."""
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
            yield from _beside(member)
    else:
        shared = os.path.join(os.path.dirname(path), SCALES_NAME)
        yield path, shared if is_file(path) and is_file(shared) else None


def find_header_scales(sources: Sources) -> tuple[str, Scales] | None:
    """Return the first HTK lattice and the scales in its header; None if no file has any.

    Raises:
        OptionError: Some files have other scales than others.
    """
    first: tuple[str, Scales] | None = None
    for name, scales in header_scales_of(sources):
        if first is None:
            first = name, scales
        elif scales != first[1]:
            raise OptionError(f"the headers of {first[0]} and {name} have different scales; give them as numbers")
    return first


def header_scales_of(sources: Sources) -> Iterator[tuple[str, Scales]]:
    """Yield each HTK lattice, and the scales in its header; pipes and script files are skipped."""
    for file in sources.resolvable_files:
        for member in _header_files(file):
            if member.is_pipe:
                continue
            try:
                head = member.inspect().head(HEAD)
            except NinjaError:  # reading it reports the error
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
    """The scales beside an output, which have a temporary name as long as it has.

    Args:
        places: Files of the output, or its folder.
        chosen: The scales; without them, files of scales that are beside the output are removed.
        guard: Inputs that must not be replaced.
    """

    def __init__(self, places: Sequence[str], chosen: ChosenScales | None, guard: Guard | None = None) -> None:
        self._places = [place for place in places if place != os.devnull and not is_read_once(place)]
        self._chosen = chosen
        self._guard = guard
        self._parts: list[PartFile] = []
        self.path: str | None = None  # of the first place, once it is written

    def begin(self) -> None:
        """Write the scales under temporary names, replacing any from an earlier attempt."""
        for path in map(scales_path, self._places):
            if self._chosen is None:
                _remove(part_of(path))
            else:
                self._parts.append(PartFile(path, guard=self._guard))
                self._parts[-1].write(toml.text(self._chosen.values(), [_COMMENT]).encode())

    def finish(self) -> None:
        """Give the scales their final names, once the output has its own."""
        for part in self._parts:
            part.finish()
            self.path = self.path or part.name
        for path in map(scales_path, self._places if self._chosen is None else []):
            _remove(path)
        self._parts = []

    def abandon(self, *, keep: bool) -> None:
        """Delete the scales, unless a later run may resume the output."""
        for part in self._parts:
            part.abandon(keep=keep)
        self._parts = []


def _remove(path: str) -> None:
    if is_file(path):
        with reported(path):
            (remote.remove if is_remote(path) else os.remove)(path)


def refuse_other_scales(place: str, chosen: ChosenScales | None) -> None:
    """Refuse to resume a file whose lattices have other scales than those that are to be added.

    Args:
        place: The file, finished or under its temporary name; without scales beside it nothing is refused.
        chosen: Scales of the lattices that are to be added, if they have any.

    Raises:
        OptionError: The scales differ.
    """
    part = part_of(place)
    if not is_file(place) and not (os.path.isfile(part) and os.path.getsize(part)):
        return
    path = scales_path(place)
    existing = next(filter(is_file, (part_of(path), path)), None)  # that of an unfinished attempt is the last one
    if existing is None or (before := read_scales(existing)) == chosen:
        return
    then, now = before.values(), {} if chosen is None else chosen.values()
    differ = [name for name in {**then, **now} if _value(then, name) != _value(now, name)]
    old = " and ".join(f"{name} {_value(then, name)}" for name in differ)
    new = " and ".join(_value(now, name) for name in differ) if now else "without scales"
    advice = "give the same options, or leave --resume (resume=) out to begin anew"
    raise OptionError(f"{place}: an earlier attempt was made with {old}, not {new}; {advice}")


def _value(values: dict[str, float], name: str) -> str:
    value = values.get(name, 1.0 if name == "lm_scale" else None)
    return "none" if value is None else f"{value:.12g}"
