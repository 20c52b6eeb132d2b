"""One output for each input file: ``-o d2/lat.JOB.gz``, and archives in a folder, ``-o d2/``."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import replace

import click

from ninja.cli.files import Lattices, names_job
from ninja.cli.options import Destination
from ninja.cli.source import Source
from ninja.errors import NinjaError, OptionError, OutputError
from ninja.files.guard import writing
from ninja.files.output import is_specifier, part_of, target
from ninja.files.place import Place
from ninja.files.remote import is_remote
from ninja.files.stream import gives_bytes_once, open_stream
from ninja.formats.format import HEAD, Format, by_extension, detect
from ninja.io.listed import names_in
from ninja.io.sources import look_into, tables
from ninja.io.writer import KALDI, format_of

_NUMBER = re.compile(r"(?<![A-Za-z0-9])[0-9]+(?![A-Za-z0-9])")

Part = tuple[Source, Destination]


def is_parted(destination: Destination) -> bool:
    """Tell whether each input file is to have an output of its own."""
    name = destination.output_file
    if names_job(name):
        return True
    form = format_of(name, destination.to)[0]
    assert form.write is not None
    in_folder = not is_specifier(name) and (name.endswith(os.sep) or os.path.isdir(name))
    return in_folder and form.write.files not in ("each", "named")  # which have a file for each lattice, or their own


def parts(source: Source, destination: Destination) -> list[Part]:
    """Return each input file with its output, or both as they are where there is one output.

    ``JOB`` in the name of the output stands for the number in the name of each input. In a folder outputs have the
    names of the inputs, and their format unless ``--to`` says another; a folder written with a slash is made.

    Raises:
        OptionError: An input has no number or no name, two outputs would be one, there is no folder for them, an
            output is an input, or the format of the files of a folder is only read.
        OutputError: The folder cannot be made.
    """
    if not is_parted(destination):
        return [(source, destination)]
    pattern = destination.output_file
    by_job = names_job(pattern)
    made: dict[str, str] = {}  # the input of each output
    found: list[Part] = []
    for name, path, shape in _files(source):
        to = destination.to
        if by_job:
            output = _with_number(pattern, path, shape)
        else:
            base, to = _name(path, destination)
            output = os.path.join(pattern, base)
        if output in made:
            raise OptionError(f"{output}: {made[output]} and {path} would both go there; name an output for each")
        made[output] = path
        found.append((source.part(name), replace(destination, output_file=output, to=to)))
    folder = os.path.dirname(target(pattern).archive) if by_job else pattern
    if by_job and not os.path.isdir(folder or ".") and not is_remote(pattern):
        raise OptionError(f"{pattern}: there is no folder {folder}; make it first")
    for output in made:
        chosen = target(output)
        for place in (chosen.archive, part_of(chosen.archive), *([chosen.script] if chosen.script else [])):
            writing(place)
    if not by_job:
        _make(folder)
    return found


def _make(folder: str) -> None:
    """Make a folder, which goes at the end of the command if nothing is in it."""
    if os.path.isdir(folder) or is_remote(folder):
        return
    try:
        os.makedirs(folder)
    except OSError as error:
        raise OutputError(f"cannot be made: {error.strerror or error}", folder) from error

    @click.get_current_context().call_on_close
    def remove() -> None:
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def _files(source: Source) -> Iterator[tuple[str, str, re.Pattern[str]]]:
    """Yield how each file of a source is named to be read, its path, and the shape of a number in its name."""
    for name in source.places:
        before, job, behind = os.path.basename(name).partition("JOB")
        shape = re.compile(f"(?<=^{re.escape(before)})[0-9]+(?={re.escape(behind)}$)") if job else _NUMBER
        found = tables(name, allow_pipes=source.allow_pipes)
        for table in found:
            path = table.place.path
            if table.place.command is not None or gives_bytes_once(path):
                raise OptionError(f"{table.place.name} has no name for its output; name a file with -o")
            if table.kind == "folder":
                yield from ((each, each, shape) for each in Lattices().files_of_folder(path))
                continue
            kind, content = look_into(table)
            if kind == "list":
                for each in _listed(content, table.place.name, source):
                    yield each, each, shape
                continue
            yield (name if len(found) == 1 else path), path, shape


def _listed(content: bytes, listed_in: str, source: Source) -> Iterator[str]:
    """Yield the paths of the files that a list names; each that cannot be read is a failure of the source."""
    files, failures = names_in(content, listed_in)
    for table in files:
        try:
            open_stream(table.place, is_input=False).close()
        except NinjaError as error:
            failures.append(error)
        else:
            yield table.place.path
    for failure in failures:
        if source.on_failure is None:
            raise failure
        source.on_failure(failure)


def _with_number(pattern: str, path: str, shape: re.Pattern[str]) -> str:
    """Put the number of an input in the name of its output."""
    numbers = shape.findall(os.path.basename(path))
    if not numbers:
        raise OptionError(f"{path} has no number for JOB in {pattern}; name a folder with -o, for outputs of its name")
    return pattern.replace("JOB", numbers[-1])


def _name(path: str, destination: Destination) -> tuple[str, str | None]:
    """Return the name of an output in a folder, that of its input with the extension of its format, and the format."""
    name = os.path.basename(path)
    known = by_extension(name)
    form, to = format_of(destination.output_file, destination.to)[0], destination.to
    if to is None and (kept := _format_of(path)) is not None and kept.name not in KALDI:
        if kept.write is None or kept.write.files == "named":
            folder = destination.output_file
            raise OptionError(f"{path}: {kept.name} is not written so; say with --to which format {folder} gets")
        form, to = kept, kept.name
    if form in known or (form.name in KALDI and not known and not name.endswith(".scp")):
        return name, to
    stem = name.removesuffix(".gz").removesuffix(".scp")
    ending = next((end for each in known for end in each.extensions if stem.lower().endswith(end)), "")
    return stem[: len(stem) - len(ending)] + form.extensions[0], to


def _format_of(path: str) -> Format | None:
    """Return the format of an input by its content; None: it is not known, or reading it will say what is wrong."""
    try:
        with open_stream(Place(path), is_input=False) as stream:
            return detect(stream.head(HEAD), path)
    except NinjaError:
        return None
