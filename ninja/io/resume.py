"""Resuming Kaldi archives: the complete entries of an earlier attempt are kept if the facts about both runs agree.

The facts are stored next to the output in ``.NAME.run`` while the output is incomplete and, with ``--resume``, also
afterwards. They are a JSON object with ``version``, ``command``, ``options`` by name, and ``sources``, a list of
``State``. The value of an option that specifies files is a list of the states of these files. If a lattice failed
before another one with the same key was written, ``numbers`` lists the lattices with this key in the output; see
`Occurrences`.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, cast

from ninja import _core
from ninja._tables import TableReader
from ninja.errors import FormatError, OptionError, OutputError, counted
from ninja.files.output import Facts, PartFile, Target, dumped, facts_path, part_of
from ninja.files.stream import STDIN as STDOUT
from ninja.files.stream import is_file, open_raw
from ninja.formats.kaldi.archive import EncodedBatch
from ninja.io.earlier_attempt import Done, Occurrences, refuse_other_scales
from ninja.io.sources import ChosenScales
from ninja.io.writer import NUMBERS, KaldiWriter
from ninja.lattice import Lattice
from ninja.lattice.batch import Batch

CHUNK = 1 << 19  # number of bytes read at a time
PACKED_CHUNK = 1 << 16
CHECKPOINT_INTERVAL = 5.0  # seconds between checkpoints, which limits the work that is lost if a run is killed
LARGEST = 1 << 28  # maximum size of a file with the facts about a run, in bytes


class ResumedWriter(KaldiWriter):
    """Writer that continues the Kaldi archive of an interrupted attempt.

    If the ``with`` block ends with an exception, the output is saved for the next attempt.
    """

    _is_closed = False  # whether the existing output is complete and was written by an unknown run
    _checkpoint_time = 0.0  # time of the last checkpoint, by `time.monotonic`

    def _open(self) -> None:
        archive = self._archive
        if self.name == STDOUT:
            raise OptionError("standard output cannot be resumed; specify a file with -o")
        file = archive.open(keep=True)
        assert isinstance(file, PartFile)
        try:
            point = resume_point(archive.target, file, self._output.run, self._output.chosen)
        except BaseException:  # keep the output of the earlier attempt
            archive.file = None
            raise
        self.resumed, self._is_closed = point.description, point.is_closed
        self.keys_done = Counter(key for key, _ in point.entries)
        self._occurrences = Occurrences(point.numbers, self.keys_done)
        self.done = Done(self.keys_done, self._occurrences.written())
        if not self._is_closed:
            self._write_facts()
        archive.begin(point.entries, point.length)
        if archive.packed is not None and point.tail:
            archive.packed.write(point.tail)
            archive.packed.end_member()
        self._checkpoint_time = time.monotonic()

    def _refuse_addition(self, key: str, lattice: Lattice) -> None:
        """Check that a lattice can be added to the existing output.

        Raises:
            OptionError: The output is complete and belongs to an unknown run, or word ids could differ from ids in the
                output.
        """
        if self._is_closed:
            message = f"is complete but does not contain {key}, and the run that wrote it is unknown; "
            advice = "choose another output, or omit --resume (resume=) to overwrite it"
            raise OptionError(message + advice, self.name)
        if lattice.words is not None and lattice.words.path is None:
            raise OptionError(
                "--resume requires --words (words=) for this input; otherwise, word ids could differ from those in the "
                "output"
            )

    def _put(self, key: str, item: Any) -> None:
        self._refuse_addition(key, item)
        super()._put(key, item)
        self._checkpoint()

    def write_all(self, batch: Batch, prepared: EncodedBatch) -> bool:
        """See `LatticeWriter.write_all`."""
        if prepared.keys:
            self._refuse_addition(prepared.keys[0], batch[0])
        if not super().write_all(batch, prepared):
            return False
        self._checkpoint()
        return True

    def _checkpoint(self) -> None:
        """Flush the output every few seconds; if the run is killed, it can be resumed from this point."""
        if time.monotonic() - self._checkpoint_time >= CHECKPOINT_INTERVAL:
            self._archive.wait()
            self._archive.flush()
            if self._archive.packed is not None:
                self._archive.packed.end_member()
            self._checkpoint_time = time.monotonic()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:  # save the output for the next attempt
            try:
                self._archive.end()
            except BaseException as failure:
                self._count_saved(failure)
                self._give_up()
                raise
            self._count_saved(error)
        super().__exit__(kind, error, trace)

    def _count_saved(self, error: BaseException) -> None:
        """Count the lattices that are saved for the next attempt; if writing failed, look for them in the file."""
        file = self._archive.file
        if not isinstance(error, OutputError):
            if self._is_kept():
                self.num_saved = self.keys_done.total() + self._keys.total()
        elif isinstance(file, PartFile) and is_file(file.part) and not self._is_closed:
            self.num_saved = len((_plain if self._archive.packed is None else _packed)(file.part).entries)

    def _finish(self) -> None:
        try:
            self._archive.finish()  # keep the file with the facts, because a later run may add lattices
        except OutputError as error:
            self._count_saved(error)
            raise
        self._archive.file = None

    def _is_kept(self) -> bool:
        return not self._is_closed and bool(self.num_saved or self.keys_done or self._keys)


@dataclass(slots=True, eq=False, repr=False)
class ResumePoint:
    """The end of the complete entries in an archive, where a resumed run continues."""

    length: int = 0  # number of bytes of complete entries; with gzip, of complete members
    tail: bytes = b""  # with gzip: the complete entries of the last, incomplete member, decompressed
    entries: list[tuple[str, int]] = field(
        default_factory=list
    )  # key and offset of each lattice in the decompressed file
    lost: int = 0  # number of bytes after the last complete entry
    description: str | None = None  # message for the user
    is_closed: bool = False  # whether the existing output is complete and was written by an unknown run
    numbers: Mapping[str, Sequence[int]] = field(default_factory=dict)  # see `Occurrences`


def resume_point(target: Target, file: PartFile, run: Facts | None, scales: ChosenScales | None) -> ResumePoint:
    """Return the point from which the output of an earlier attempt can be continued.

    Args:
        target: Parsed name of the output.
        file: The open temporary file.
        run: Version, command, options and sources of the new run, which must match those recorded for the earlier
            attempt; None omits this check.
        scales: Scales chosen for the lattices.

    Raises:
        OptionError: The existing output belongs to a different run or has different scales; it is kept.
        FormatError: The finished output is damaged or in a different format.
        OutputError: The finished output cannot be copied.
    """
    is_begun = not file.is_direct and os.path.getsize(file.part) > 0
    is_known = run is not None and os.path.lexists(facts_path(target.archive))
    numbers: Mapping[str, Sequence[int]] = {}
    try:
        refuse_other_scales(target.archive, scales)
        if run is not None and (is_begun or (is_known and is_file(target.archive))):
            numbers = refuse_other_facts(target.archive, run)
        point = complete_entries(target, file)
    except BaseException:  # includes an interrupt, because finding the complete entries can take long
        file.abandon(keep=is_begun)
        raise
    point.is_closed = run is not None and not is_known and bool(point.entries)
    point.numbers = numbers
    return point


def complete_entries(chosen: Target, file: PartFile) -> ResumePoint:
    """Find the complete entries in the temporary file of an output and truncate the file after them.

    If the temporary file is empty and a finished output exists, the finished output is first copied to it.

    Args:
        chosen: Parsed name of the output.
        file: The open temporary file.

    Raises:
        FormatError: The finished output is damaged or in a different format.
        OutputError: The copy cannot be written.
    """
    if file.is_direct:
        return ResumePoint()
    finished = not os.path.getsize(file.part)
    if finished:
        if not is_file(chosen.archive):
            return ResumePoint()
        with open_raw(chosen.archive) as source:
            from shutil import copyfileobj  # rarely used: only to resume

            copyfileobj(source, file, CHUNK)
    point = _packed(file.part) if chosen.packed else _plain(file.part)
    if finished and (point.lost or point.tail):
        raise FormatError("cannot be resumed, because it is damaged or in another format; move it", chosen.archive)
    file.cut(point.length)
    if not finished:
        lattices = counted(len(point.entries), "lattice")
        point.description = f"{file.part}: resuming after {lattices} of an earlier attempt"
        if point.lost:
            point.description += f"; discarded {point.lost} bytes of an incomplete lattice"
    return point


def _take(reader: TableReader, point: ResumePoint) -> bool:
    """Add the lattices in the buffer of a reader to `point`, or return False if the buffered bytes are damaged."""
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
    """Find the complete entries of a gzip file, in which only the last member can contain an incomplete entry."""
    from isal import isal_zlib

    damage: tuple[type[Exception], ...] = (zlib.error, cast(type[Exception], isal_zlib.error))
    point = ResumePoint()
    reader = TableReader(path)
    with open(path, "rb") as file:
        content = file.read(PACKED_CHUNK)
        while content:
            unpacker = isal_zlib.decompressobj(wbits=31)
            member = bytearray()
            begin = end = reader.position  # range of the member's complete entries
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


def refuse_other_facts(place: str, facts: Facts) -> dict[str, list[int]]:
    """Compare the facts about a run with the facts about an output's run; return the output's lattice numbers.

    The earlier run stored the lattice numbers with its facts; see `Occurrences`.

    Raises:
        OptionError: The run had another version, command, options or sources; the message names the difference.
    """
    advice = "omit --resume (resume=) to start again"
    path = facts_path(place)
    try:
        if os.path.getsize(path) > LARGEST:
            raise ValueError
        with open(path, "rb") as file:
            before = parsed(file.read())
        now = parsed(dumped(facts))
        numbers = {key: [*map(int, stored)] for key, stored in dict(before.pop(NUMBERS, {})).items()}
        if before == now:
            return numbers
        if any(not isinstance(before[name], type(now[name])) for name in now):
            raise TypeError
        change = difference(before, now)
    except (OSError, LookupError, ValueError, TypeError):
        unknown = f"{part_of(place)} was written by an unknown run; remove it, or {advice}"
        raise OptionError(unknown) from None
    message = f"an earlier attempt used {change}; use the same options, or {advice}"
    raise OptionError(f"{place}: {message}")


def difference(before: Facts, now: Facts) -> str:
    """Describe the first difference between the facts about two runs or two shard plans, such as a different option."""
    for name, text in (("command", "a different command, {}"), ("shards", "{} shards"), ("version", "version {}")):
        if before.get(name) != now.get(name):
            return text.format(before.get(name))
    old, new = before["options"], now["options"]
    changed = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    if changed:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in changed)
        file = next(filter(None, (_changed_file(old.get(name), new.get(name)) for name in changed)), None)
        return f"a different {options}" if file is None else f"a different {options}: {file} has changed since then"
    if before["sources"] != now["sources"]:
        file = _changed_file(before["sources"], now["sources"])
        return "other sources" if file is None else f"other sources: {file} has changed since then"
    return "other outputs"


def _changed_file(before: Any, now: Any) -> str | None:
    """Return the path of the first file whose size or time differs between two lists of file states, or None."""
    if not isinstance(before, list) or not isinstance(now, list):
        return None
    states = {state[0]: state for state in before if isinstance(state, list)}
    changed = (state[0] for state in now if isinstance(state, list) and states.get(state[0], state) != state)
    return next(map(str, changed), None)


def parsed(content: bytes) -> dict[str, Any]:
    """Parse a JSON object, such as the description of a run; raise ValueError if the content is anything else."""
    try:
        facts = json.loads(content)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(facts, dict):
        raise ValueError("not an object")
    return facts
