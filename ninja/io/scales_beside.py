"""Scales beside lattices: those under which a rescoring or a tuning left them, in a small TOML file.

Beside the file ``rescored.ark.gz`` it is ``rescored.ark.gz.scales.toml``, in a folder ``lattices.scales.toml``.
Its keys are options of ``ninja rescore``: ``acoustic_scale``, ``word_penalty``, ``lm_weight``.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from ninja.errors import FormatError, NinjaError, OptionError
from ninja.files import toml
from ninja.files.output import PartFile, part_of, reported
from ninja.files.place import Table, resolve_listed
from ninja.files.remote import is_file, is_remote, remove
from ninja.files.stream import gives_bytes_once
from ninja.io.folder import SCALES_NAME, SCALES_SUFFIX, files, lattice_files
from ninja.io.listed import names_in
from ninja.io.sources import Source, look_into, tables
from ninja.lattice import Scales

KEYS = {"acoustic_scale": "acoustic", "lm_scale": "lm", "word_penalty": "word_penalty"}  # with the fields of `Scales`
_COMMENT = "Scales of the lattices beside this file: ninja best, score and others take them from here."


@dataclass(frozen=True, slots=True)
class ChosenScales:
    """Scales that were chosen for lattices, and how they were rescored."""

    scales: Scales = Scales()
    lm_weight: float | None = None  # share of the new language model in the graph costs; None: not said
    path: str | None = field(default=None, compare=False)  # file that says so

    def values(self) -> dict[str, float]:
        """Return the options that say so; the LM scale where it is not 1."""
        found = {"acoustic_scale": self.scales.acoustic, "word_penalty": self.scales.word_penalty}
        if self.scales.lm != 1.0:
            found["lm_scale"] = self.scales.lm
        return found if self.lm_weight is None else found | {"lm_weight": self.lm_weight}


def scales_path(place: str) -> str:
    """Return the path of the scales of a file or a folder of lattices."""
    is_folder = place.endswith("/") if is_remote(place) else os.path.isdir(place)
    return os.path.join(place, SCALES_NAME) if is_folder else f"{place}{SCALES_SUFFIX}"


def read_scales(path: str) -> ChosenScales:
    """Read a file of scales.

    Raises:
        FormatError: It is no TOML, or a scale is no number.
        InputError: It cannot be read.
        OptionError: A scale is not finite.
    """
    values = {name: value for name, value in toml.read(path).items() if name in (*KEYS, "lm_weight")}
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise FormatError(f"{name} is {value!r}, but must be a number", path)
    scales = Scales(**{KEYS[name]: float(value) for name, value in values.items() if name in KEYS})
    return ChosenScales(scales, values.get("lm_weight"), path)


def find_scales(source: Source, *, allow_pipes: bool = False) -> ChosenScales | None:
    """Return the scales that stand beside lattices; None: there are none.

    They are those of the file, else of its folder; of a list of files or a script file, its own, else those of the
    files that it names.

    Args:
        source: As of ``read``.

    Raises:
        OptionError: Some of the source's files have other scales than others, or none.
        FormatError: A file of scales is no TOML, or a scale is no number.
    """
    try:
        found = tables(source, allow_pipes=allow_pipes)
    except NinjaError:  # as reading it will say
        return None
    beside = [pair for each in found for pair in _beside(each)]
    read = {path: read_scales(path) for _, path in beside if path is not None}
    if not read:
        return None
    first = next(iter(read.values()))
    for place, path in beside:
        if path is None:
            raise OptionError(f"{place} has no scales beside it, but others have: {first.path}; {SCALES_ADVICE}")
        if read[path] != first:
            raise OptionError(f"{first.path} and {path} differ; {SCALES_ADVICE}")
    return first


SCALES_ADVICE = "say with --acoustic-scale and --word-penalty which scales all are to have"


def _beside(table: Table) -> Iterator[tuple[str, str | None]]:
    """Yield a file or folder, or those that it lists, each with the file of its scales."""
    place = table.place.path
    if table.place.command is not None or gives_bytes_once(place):
        yield place, None
        return
    own = scales_path(place)
    if is_file(own):
        yield place, own
    elif table.kind == "folder":
        some = [path for path in files(place) if is_file(scales_path(path))]
        for path in lattice_files(place) if some else []:
            yield path, scales_path(path) if path in some else None
        if not some:
            yield place, None
    elif listed := _listed(table):
        for each in listed:
            yield from _beside(each)
    else:
        folder = os.path.join(os.path.dirname(place), SCALES_NAME)
        yield place, folder if is_file(place) and is_file(folder) else None


def _listed(table: Table) -> list[Table]:
    """Return the files that a list of files or a script file names; none where it is neither."""
    kind, content = look_into(table)
    if kind != "scp":
        return names_in(content, table.place.name)[0]
    archives: dict[str, Table] = {}
    for row in content.split(b"\n"):
        fields = row.split(None, 1)
        if len(fields) == 2 and not row.endswith(b"|"):
            with contextlib.suppress(NinjaError):  # as reading it will say
                for place in resolve_listed(os.fsdecode(fields[1].strip()), table.place.name):
                    archives.setdefault(place.path, Table(replace(place, offset=0)))
    return [archive for path, archive in archives.items() if not os.path.isdir(path)]


class ScalesBeside:
    """The scales beside an output, which have a temporary name as long as it has.

    Args:
        places: Files of the output, or its folder.
        chosen: None: none stand there afterwards.
    """

    def __init__(self, places: Sequence[str], chosen: ChosenScales | None) -> None:
        self._places = [place for place in places if place != os.devnull and not gives_bytes_once(place)]
        self._chosen = chosen
        self._parts: list[PartFile] = []
        self.path: str | None = None  # of the first place, once it is written

    def begin(self) -> None:
        """Write the scales under their temporary names, in place of those that an earlier attempt left there."""
        for path in map(scales_path, self._places):
            if self._chosen is None:
                _remove(part_of(path))
            else:
                self._parts.append(PartFile(path))
                self._parts[-1].write(toml.text(self._chosen.values(), [_COMMENT]).encode())

    def finish(self) -> None:
        """Give the scales their names, once the output has its own."""
        for part in self._parts:
            part.finish()
            self.path = self.path or part.name
        for path in map(scales_path, self._places if self._chosen is None else []):
            _remove(path)
        self._parts = []

    def abandon(self, *, keep: bool) -> None:
        """Remove the scales, or keep them for the attempt that takes up the output again."""
        for part in self._parts:
            part.abandon(keep=keep)
        self._parts = []


def _remove(path: str) -> None:
    if is_file(path):
        with reported(path):
            (remove if is_remote(path) else os.remove)(path)


def refuse_other_scales(place: str, chosen: ChosenScales | None) -> None:
    """Refuse to go on with a file whose lattices have other scales than those that are to be added.

    Args:
        place: The file, finished or begun under its temporary name; of one without scales beside it nothing is known.
        chosen: The scales of the lattices that are to be added; None: they have none.

    Raises:
        OptionError: The scales differ; it says which.
    """
    part = part_of(place)
    if not is_file(place) and not (os.path.isfile(part) and os.path.getsize(part)):
        return
    path = scales_path(place)
    found = next(filter(is_file, (part_of(path), path)), None)  # an unfinished attempt is the last one
    if found is None or (before := read_scales(found)) == chosen:
        return
    then, now = before.values(), {} if chosen is None else chosen.values()
    differ = [name for name in {**then, **now} if _value(then, name) != _value(now, name)]
    made = " and ".join(f"{name} {_value(then, name)}" for name in differ)
    asked = " and ".join(_value(now, name) for name in differ) if now else "without scales"
    advice = "give the same options, or leave --resume (resume=) out to begin anew"
    raise OptionError(f"{place}: an earlier attempt was made with {made}, not {asked}; {advice}")


def _value(values: dict[str, float], name: str) -> str:
    """Return one of the values of ``ChosenScales``, as a message has it."""
    value = values.get(name, 1.0 if name == "lm_scale" else None)
    return "none" if value is None else f"{value:.12g}"
