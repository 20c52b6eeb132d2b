"""Resume Kaldi archives: complete entries of an earlier attempt, facts about its run, and states of its sources.

The facts are stored next to the output in ``.NAME.run`` while the output is incomplete, and with ``--resume`` also
afterwards. They are a JSON object with ``version``, ``command``, ``options`` by name, and ``sources``, a list of
`State`. The value of an option is the user's, or a list of the states of its files.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from ninja import _core
from ninja._tables import TableReader
from ninja.errors import FormatError, NinjaError, OptionError
from ninja.files import remote
from ninja.files.output import Guard, PartFile, part_of, reported
from ninja.files.place import Place, Target, is_file, is_remote, resolve_listed
from ninja.files.stream import open_raw
from ninja.formats.format import of_folder, reader
from ninja.io import detection
from ninja.io.sources import SourceFile, Sources

CHUNK = 1 << 19  # bytes read at once
PACKED_CHUNK = 1 << 16
LARGEST = 1 << 28  # maximum size of a file of facts in bytes
State = tuple[str, int, int]  # path, size and modification time in ns; -1 and -1 if the file does not exist
Facts = Mapping[str, Any]


@dataclass(slots=True)
class ResumePoint:
    """The valid part of an unfinished archive."""

    length: int = 0  # number of bytes of complete entries
    tail: bytes = b""  # complete entries after these in an incomplete gzip member, decompressed
    entries: list[tuple[str, int]] = field(
        default_factory=list
    )  # key and offset of each lattice, in the decompressed file
    lost: int = 0  # number of bytes after the last complete entry
    description: str | None = None  # for the user


def resume_point(chosen: Target, file: PartFile) -> ResumePoint:
    """Find the complete entries in the temporary file of an output, and truncate the file after them.

    If the temporary file is empty, the finished output, if there is one, is first copied to it.

    Args:
        chosen: Names of the output.
        file: The open temporary file.

    Raises:
        FormatError: The finished output is damaged, or in another format.
        OutputError: The copy cannot be written.
    """
    if file.is_direct:
        return ResumePoint()
    finished = not os.path.getsize(file.part)
    if finished:
        if not is_file(chosen.archive):
            return ResumePoint()
        with open_raw(chosen.archive) as source:
            from shutil import copyfileobj  # to resume only

            copyfileobj(source, file, CHUNK)
    point = _packed(file.part) if chosen.packed else _plain(file.part)
    if finished and (point.lost or point.tail):
        raise FormatError("cannot be resumed, because it is damaged or in another format; move it", chosen.archive)
    file.cut(point.length)
    if not finished:
        count = len(point.entries)
        lattices = "1 lattice" if count == 1 else f"{count} lattices"
        point.description = f"{file.part}: resuming after {lattices} of an earlier attempt"
        if point.lost:
            point.description += f"; discarded {point.lost} bytes of an incomplete lattice"
    return point


def _take(reader: TableReader, point: ResumePoint) -> bool:
    """Parse the bytes read so far, and add their entries; return False if they are damaged."""
    items, faults = reader.parse(1 << 62)
    if reader.broken or faults:
        return False
    point.entries += zip(_core.keys(items), reader.offsets, strict=True)
    return True


def _plain(path: str) -> ResumePoint:
    point = ResumePoint()
    reader = TableReader(path)
    with open(path, "rb", buffering=0) as file:
        while count := file.readinto(reader.space(max(CHUNK, reader.pending))):
            reader.advance(count)
            if not _take(reader, point):
                break
            point.length = reader.position
    point.lost = os.path.getsize(path) - point.length
    return point


def _packed(path: str) -> ResumePoint:
    """Find the complete entries of a gzip file; each member has complete entries, except the last, if truncated."""
    from isal import isal_zlib

    damage: tuple[type[Exception], ...] = (zlib.error, cast(type[Exception], isal_zlib.error))
    point = ResumePoint()
    reader = TableReader(path)
    with open(path, "rb") as file:
        content = file.read(PACKED_CHUNK)
        while content:
            unpacker = isal_zlib.decompressobj(wbits=31)
            member = bytearray()
            begin = end = reader.position  # of its complete entries
            try:
                while content and not unpacker.eof:
                    piece = unpacker.decompress(content)
                    content = unpacker.unused_data or file.read(PACKED_CHUNK)
                    member += piece
                    reader.space(len(piece))[:] = piece
                    reader.advance(len(piece))
                    if not _take(reader, point):
                        break
                    end = reader.position
                is_whole = unpacker.eof and end == begin + len(member)
            except damage:
                is_whole = False
            if is_whole:
                point.length = file.tell() - len(content)
                continue
            point.tail = bytes(member[: end - begin])
            point.lost = len(member) - len(point.tail)
            if not point.tail:
                point.lost = os.path.getsize(path) - point.length
            break
    return point


def state_of(path: str) -> State:
    """Return the state of a file, which shows whether the file has changed."""
    if is_remote(path):
        import hashlib  # for URLs only

        size, mark = remote.state_of(path)
        return path, -1 if size is None else size, int(hashlib.sha256(mark.encode()).hexdigest()[:12], 16)
    try:
        status = os.stat(path)
    except OSError:
        return path, -1, -1
    return path, status.st_size, status.st_mtime_ns


def states_of(sources: Sources, format: str | None = None) -> list[State]:
    """Return the states of the files of sources, and of the files that script files name.

    Raises:
        NinjaError: See `source_files`.
    """
    paths: list[str] = []
    for file in source_files(sources, format):
        if file.kind == "folder":
            paths.extend(member.path for member in file.files)
            continue
        paths.append(file.path)
        if file.kind == "scp":
            paths.extend(place.path for _, place in script_rows(file) or () if place.path)
    return [state_of(path) for path in dict.fromkeys(paths)]


def source_files(sources: Sources, format: str | None) -> Iterator[SourceFile]:
    """Yield the lattice files of sources, and folders whose format covers the folder as a whole.

    Raises:
        OptionError: A source is a pipe.
        NinjaError: A list of files is invalid.
    """
    for file in sources.files:
        if file.is_pipe:
            raise OptionError(f"{file.name} cannot be divided into shards; use files instead")
        if file.kind == "folder":
            whole = of_folder(file.path, "utf-8") if format is None else reader(format)
            if whole is not None and whole.format.of_folder is not None:
                yield file
            elif format is None:
                yield from file.lattice_files
            else:
                yield from (member for member in file.files if not detection.is_companion(member.path))
        elif file.kind == "list":
            files, errors = file.listed
            if errors:
                raise errors[0]
            yield from files
        else:
            yield file


def script_rows(file: SourceFile) -> list[tuple[int, Place]] | None:
    """Return the offset and the named file of each line of a script file; None if it is compressed or unreadable."""
    try:
        if not file.inspect().seekable:
            return None
    except NinjaError:  # reported by the reader
        return None
    rows: list[tuple[int, Place]] = []
    begin = 0
    for line in file.content().split(b"\n"):
        if fields := line.split(None, 1):
            name = os.fsdecode(fields[1].strip()) if len(fields) > 1 else None
            rows.append((begin, Place("") if name is None else _listed(name, file.name)))
        begin += len(line) + 1
    return rows


def _listed(name: str, script: str) -> Place:
    """Return the file that a line of a script file names; its path is empty if it cannot be resolved."""
    try:
        places = resolve_listed(name, script)
    except NinjaError:
        return Place("")
    return places[0] if len(places) == 1 else Place("")


def write_facts(place: str, facts: Facts, guard: Guard | None = None) -> None:
    """Write the facts about the run of an output; its temporary file must be open."""
    path = _facts_path(place)
    if guard is not None:
        guard.write(path)
    with reported(path):
        remove_facts(place)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)  # does not follow links
        with open(descriptor, "wb") as file:
            file.write(dumped(facts))


def has_facts(place: str) -> bool:
    """Return whether there are facts about the run of an output."""
    return os.path.lexists(_facts_path(place))


def remove_facts(place: str) -> None:
    """Remove the facts about the run of an output."""
    with reported(path := _facts_path(place)), contextlib.suppress(FileNotFoundError):
        os.remove(path)


def refuse_other_facts(place: str, facts: Facts) -> None:
    """Raise `OptionError` if an output belongs to a run with other facts; the message describes the difference."""
    advice = "omit --resume to start again"
    path = _facts_path(place)
    try:
        if os.path.getsize(path) > LARGEST:
            raise ValueError
        with open(path, "rb") as file:
            before = parsed(file.read())
        now = parsed(dumped(facts))
        if before == now:
            return
        if any(not isinstance(before[name], type(now[name])) for name in now):
            raise TypeError
        change = difference(before, now)
    except (OSError, LookupError, ValueError, TypeError):
        unknown = f"{part_of(place)} was written by an unknown run; remove it, or {advice}"
        raise OptionError(unknown) from None
    message = f"an earlier attempt was run with {change}; use the same options, or {advice}"
    raise OptionError(f"{place}: {message}")


def difference(before: Facts, now: Facts) -> str:
    """Describe the first difference between the facts of two runs, or of two plans for shards."""
    for name, text in (("command", "another command, {}"), ("shards", "{} shards"), ("version", "version {}")):
        if before.get(name) != now.get(name):
            return text.format(before.get(name))
    old, new = before["options"], now["options"]
    changed = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    if changed:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in changed)
        file = next(filter(None, (_changed_file(old.get(name), new.get(name)) for name in changed)), None)
        return f"another {options}" if file is None else f"another {options}: {file} has changed since then"
    if before["sources"] != now["sources"]:
        file = _changed_file(before["sources"], now["sources"])
        return "other sources" if file is None else f"other sources: {file} has changed since then"
    return "other outputs"


def _changed_file(before: Any, now: Any) -> str | None:
    """Return the path of the first file whose states in two lists differ, None if there is none."""
    if not isinstance(before, list) or not isinstance(now, list):
        return None
    states = {state[0]: state for state in before if isinstance(state, list)}
    changed = (state[0] for state in now if isinstance(state, list) and states.get(state[0], state) != state)
    return next(map(str, changed), None)


def dumped(facts: Facts) -> bytes:
    """Encode facts as JSON, in ASCII even if paths are not valid UTF-8."""
    return json.dumps(facts, indent=1).encode() + b"\n"


def parsed(content: bytes) -> dict[str, Any]:
    """Parse facts; raise ValueError if the content is not a JSON object."""
    try:
        facts = json.loads(content)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(facts, dict):
        raise ValueError("not an object")
    return facts


def _facts_path(place: str) -> str:
    return part_of(place).removesuffix(".part") + ".run"
