"""The base class of writers, which checks and converts lattices and records losses; the writer for Kaldi archives."""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import replace
from types import TracebackType
from typing import Any, Literal, NamedTuple, TypeVar

from ninja._tables import TableWriter
from ninja.errors import LatticeError, OptionError, OutputError, SymbolError, counted, named
from ninja.files.gzip import GzipWriter
from ninja.files.output import Facts, PartFile, StandardOutput, Target, remove_facts, write_facts
from ninja.files.stream import STDIN as STDOUT
from ninja.files.stream import Guard
from ninja.files.threads import WriteQueue
from ninja.formats.format import FIELDS, Format, WriteSettings
from ninja.io.companions import ChosenScales, ScalesOutput, TableConsistency, TableOutput
from ninja.io.losses import COSTS, Item, converted, describe_losses, lost_fields
from ninja.lattice import Kind, Lattice
from ninja.lattice.batch import Batch, refuse_pair
from ninja.lattice.lattice import check_costs

FLUSH = 1 << 19  # bytes buffered before they are written
CHECKPOINT_INTERVAL = 5.0  # maximum seconds of work that are lost if a run is killed and resumed
LONGEST_KEY = 4096  # bytes, as Kaldi's tools read it
Lossy = Literal["allow", "refuse"]
Self = TypeVar("Self", bound="LatticeWriter")


class OutputSettings(NamedTuple):
    """Settings of an output."""

    place: str  # path, URL or "-"
    format: Format
    settings: WriteSettings
    lossy: Lossy = "allow"
    packed: bool = False  # compress with gzip
    words_out: str | None = None  # file for the symbol table; None writes it next to the output if ids need it
    note: str | None = None  # note about the scales with which costs were combined
    beside: tuple[str, ...] = ()  # files or folders next to which the scale file is written
    chosen: ChosenScales | None = None  # scales for the scale file
    run: Facts | None = None  # facts on which the lattices depend; an output is resumed only if they are equal
    guard: Guard | None = None  # protects the inputs from being replaced


class LatticeWriter:
    """Writer for lattices, n-best lists or confusion networks; use it in a ``with`` block.

    Files get their names when the block ends without an exception; otherwise they are removed. An error with a ``key``
    applies only to that lattice, which is not written; writing can continue. After any other error, it cannot.

    Attributes:
        keys_done: Number of lattices of each key that are already in a resumed output.
        lost: Number of lattices that lost each field.
        resumed: Description of the earlier attempt, if the output was resumed.
        num_saved: Number of lattices of a failed output that were saved for the next attempt.
        words_path: Path of the symbol table, if it was written.
        scales_path: Path of the scale file, if it was written.
    """

    def __init__(self, output: OutputSettings) -> None:
        if output.lossy not in ("allow", "refuse"):
            raise OptionError(f"lossy is {output.lossy!r}, but must be allow or refuse")
        assert output.format.write is not None
        self.name = output.place
        self.format = output.format
        self.keys_done: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        self.resumed: str | None = None
        self.num_saved = 0
        self.words_path: str | None = None
        self.scales_path: str | None = None
        self._output = output
        self._write = output.format.write
        self._settings = output.settings
        self._keeps = output.format.kept(output.settings.options)
        untimed = {"key", "alignments", "raw", *COSTS}  # all fields of a lattice without times
        self._keeps_untimed = output.format.holds == "lattice" and self._keeps >= untimed and not self._write.also_lost
        self._keys: Counter[str] = Counter()
        self._is_open = False
        self._names = TableConsistency(output.settings.words, shared="ids" in self._keeps)
        self._table = TableOutput(output.place, output.words_out, needed=self.needs_words, guard=output.guard)
        self._scales = ScalesOutput(output.beside, output.chosen if self._keeps >= COSTS else None, output.guard)

    @property
    def needs_words(self) -> bool:
        """Whether the file contains word ids, but not the words."""
        return "ids" in self._keeps and "names" not in self._keeps

    def __enter__(self: Self) -> Self:
        try:
            self._open()
            self._scales.begin()
        except BaseException:
            self._give_up()
            raise
        self._is_open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_open = False
        if error is not None:
            self._give_up()
            return
        try:
            self._finish()
            self._scales.finish()
        except BaseException:
            self._give_up()
            raise
        self.scales_path = self._scales.path
        self.words_path = self._table.write()

    def _give_up(self) -> None:
        """Remove the output, or save it for the next attempt."""
        self._scales.abandon(keep=self._is_kept())
        self._abandon()

    def _is_kept(self) -> bool:
        """Return whether a failed output is saved for the next attempt."""
        return False

    def write(self, item: Item, *, key: str | None = None) -> None:
        """Append a lattice, converted to an n-best list or a confusion network if the format requires it.

        Args:
            item: A lattice; or an n-best list or a confusion network, if the format stores it.
            key: Utterance id; None uses the key of the item.

        Raises:
            LatticeError: The format cannot store the item, or with ``lossy="refuse"``, not all of its fields.
            SymbolError: An id has no word, a different word than in earlier lattices, or one that the format cannot
                store.
            OptionError: The item is neither a lattice nor of a type that the format stores, or words would be lost.
            OutputError: The item cannot be written, for example because the disk is full, or because a file for a
                single lattice already contains one.
        """
        if not self._is_open:
            raise OutputError("the writer is not open; use it in a with block", self.name)
        refuse_pair(item)
        if key is not None and key != item.key:
            item = item.with_key(key) if isinstance(item, Lattice) else replace(item, key=key)
        name = item.key
        try:
            output_item: Any = item
            lost: list[str] = []
            if isinstance(item, Lattice):
                check_costs(item)
                self._table.check(item)
                self._names.check(item, name)
            if self.format.holds != "lattice" or not isinstance(item, Lattice):
                output_item, lost = converted(item, self.format, self._settings, with_names=not self.needs_words)
            self._check_key(name)
            if FIELDS["paths"] not in lost and not (
                self._keeps_untimed and output_item.time is None is output_item.frame_shift
            ):
                lost = lost + lost_fields(item, output_item, self._keeps, self._write, self._settings)
                lost += [] if self._keeps_key(name) else [FIELDS["key"]]
            if lost and self._output.lossy == "refuse":
                message = f"{self.format.name} cannot store: {', '.join(lost)}; use lossy='allow' (--lossy allow)"
                raise LatticeError(f"{message} to drop these fields", key=name)
            self._put(name, output_item)
        except UnicodeEncodeError as error:
            raise SymbolError("a word or the key cannot be encoded as UTF-8", key=name) from error
        except (LatticeError, SymbolError) as error:
            error.key = error.key or name
            raise
        self._keys[name] += 1
        if isinstance(item, Lattice):
            self._names.take(item)
            self._table.take(item)
        if lost:
            self.lost.update(lost)

    def prepared(self, batch: Batch) -> Any | None:
        """Encode a batch for `write_all`; return None if its lattices must be written one by one.

        Batches may be encoded on any thread and in any order.
        """
        return None

    def write_all(self, batch: Batch, prepared: Any) -> bool:
        """Append a batch encoded by `prepared`; return False if its lattices must be written one by one."""
        raise NotImplementedError

    def write_on_thread(self) -> None:
        """Write encoded batches on a thread from now on, if the format supports it."""

    def notes(self) -> list[str]:
        """Return messages for the user, once the output is complete."""
        notes = []
        if self.words_path is not None and self._output.words_out is None:
            notes.append(f"wrote the symbol table to {self.words_path}")
        elif self.words_path is None and self._output.words_out is not None:
            notes.append(f"{self._output.words_out} is not written, because the lattices have no symbol table")
        if self.scales_path is not None:
            notes.append(f"wrote the scales to {self.scales_path}")
        if self.repeated:
            duplicates = [key for key, count in self._keys.items() if count > 1]
            notes.append(f"{counted(len(duplicates), 'key occurs', 'keys occur')} more than once: {named(duplicates)}")
        if self._output.note is not None and self._keys:
            notes.append(self._output.note)
        if self.lost:
            notes.append(f"warning: {self.format.name} files cannot store all fields; {describe_losses(self.lost)}")
        return notes

    @property
    def repeated(self) -> bool:
        """Whether a key was written more than once."""
        return self._keys.total() > len(self._keys)

    def _keeps_key(self, key: str) -> bool:
        """Return whether the output stores the key."""
        return "key" in self._keeps

    def _check_key(self, key: str) -> None:
        """Raise an error if the output cannot store a key."""
        if self._write.key_is_field:
            check_key(key)
        if 4 * len(key) > LONGEST_KEY and len(os.fsencode(key)) > LONGEST_KEY:
            raise LatticeError(f"the key is longer than {LONGEST_KEY} bytes", key=key[:60])
        if self._write.encoded_keys:
            try:
                key.encode(self._settings.encoding)
            except UnicodeEncodeError as error:
                encoding = self._settings.encoding.upper()
                message = f"the key cannot be encoded as {encoding}; use another key or encoding"
                raise LatticeError(message, key=key) from error
        if self._write.unique_keys and key in self._keys:
            raise OutputError("the key is already in the output", self.name, key=key)

    def _open(self) -> None:
        """Open the files."""
        raise NotImplementedError

    def _put(self, key: str, item: Any) -> None:
        """Write a checked item."""
        raise NotImplementedError

    def _finish(self) -> None:
        """Complete the files and give them their names."""
        raise NotImplementedError

    def _abandon(self) -> None:
        """Remove the files, even after ``_finish`` failed."""
        raise NotImplementedError


def check_key(key: str) -> None:
    """Raise `LatticeError` if a key is empty or contains white space."""
    if not key or key.split() != [key]:
        raise LatticeError(f"the key {key!r} is empty or contains white space; use another key", key=key)


class Prepared(NamedTuple):
    """An encoded batch."""

    keys: list[str]
    entries: TableWriter
    begins: list[int]  # offset of each lattice in bytes; empty without a script file


class KaldiWriter(LatticeWriter):
    """Writer for a Kaldi archive, binary or text.

    If an exception leaves the ``with`` block, the output is removed, or with `resume` saved for the next attempt.

    Args:
        output: Settings of the output.
        target: Names and form of the archive and the script file.
        resume: Continue the output of an interrupted attempt.
        kind: Kind to which lattices are converted; None keeps the kind of each lattice.
    """

    def __init__(
        self, output: OutputSettings, target: Target, *, resume: bool = False, kind: Kind | None = None
    ) -> None:
        super().__init__(output)
        self._target = target
        self._resume = resume
        self._kind = kind
        self._entries = TableWriter(text=target.text)
        self._position = 0  # number of bytes written to the archive, before compression
        self._script_lines: list[bytes] = []
        self._file: PartFile | StandardOutput | None = None
        self._script: PartFile | None = None
        self._packed: GzipWriter | None = None
        self._queue: WriteQueue | None = None  # thread that writes prepared batches
        self._spare: list[TableWriter] = []  # buffers to reuse for prepared batches
        self._is_closed = False  # the existing output is complete, and its run is unknown
        self._checkpoint_time = 0.0  # when the output was last flushed so that it can be resumed

    def _open(self) -> None:
        target, tail = self._target, b""
        entries: list[tuple[str, int]] = []  # of an earlier attempt
        if target.archive == STDOUT:
            if self._resume:
                raise OptionError("standard output cannot be resumed; name a file with -o")
            self._file = StandardOutput()
        else:
            self._file = PartFile(target.archive, keep=self._resume, guard=self._output.guard)
            if self._resume:
                from ninja.io.resume import resume_point

                try:
                    point = resume_point(target, self._file, self._output.run, self._output.chosen)
                except OptionError:  # the file belongs to another run, and is kept
                    self._file = None
                    raise
                tail, entries = point.tail, point.entries
                self.resumed, self._is_closed = point.description, point.is_closed
                self._position = point.length
                self.keys_done = Counter(key for key, _ in entries)
            if self._output.run is not None and not self._file.is_direct and not self._is_closed:
                write_facts(target.archive, self._output.run, self._output.guard)
            if target.script is not None:
                self._script = PartFile(target.script, guard=self._output.guard)
                self._script_lines = [self._script_line(key, offset) for key, offset in entries]
        if target.packed:
            self._packed = GzipWriter(self._file, follows=self._position > 0)
            if tail:
                self._packed.write(tail)
                self._packed.end_member()
        self._checkpoint_time = time.monotonic()

    def _refuse_addition(self, key: str) -> None:
        """Raise `OptionError` if the existing output is complete and its run is unknown."""
        if self._is_closed:
            message = f"is complete but does not contain {key}, and the run that wrote it is unknown; "
            advice = "name another output, or omit --resume to overwrite it"
            raise OptionError(message + advice, self._target.archive)

    def _put(self, key: str, item: Any) -> None:
        lattice: Lattice = item
        self._refuse_addition(key)
        self._refuse_own_words(lattice)
        name = key.encode("utf-8", "surrogateescape")
        begin = self._entries.append(lattice, name, (self._kind or lattice.kind) == "compact")
        if self._script is not None:
            self._script_lines.append(self._script_line(key, self._position + begin))
        if self._entries.pending >= FLUSH:
            self._flush()
        self._checkpoint()

    def prepared(self, batch: Batch) -> Prepared | None:
        """Encode a batch; return None if its lattices must be written one by one."""
        keys = batch.keys
        if self._output.lossy == "refuse" or not self._are_ordinary(batch, keys):
            return None
        entries = self._spare.pop() if self._spare else TableWriter(text=self._target.text)
        try:
            begins = entries.append_all(batch.items, None if self._kind is None else self._kind == "compact")
        except (LatticeError, UnicodeEncodeError):  # writing them one by one finds the invalid lattice
            return None
        return Prepared(keys, entries, begins.tolist() if self._target.script is not None else [])

    def _are_ordinary(self, batch: Batch, keys: list[str]) -> bool:
        """Return whether all fields of the lattices can be stored, and their keys are valid."""
        if not batch.is_plain and any(lattice.time is not None or lattice.frame_shift is not None for lattice in batch):
            return False
        return " ".join(keys).split() == keys and 4 * max(map(len, keys), default=0) <= LONGEST_KEY

    def write_all(self, batch: Batch, prepared: Prepared) -> bool:
        """Append an encoded batch; return False if its lattices must be written one by one."""
        if not prepared.keys:
            return True
        first = batch[0]
        self._refuse_addition(prepared.keys[0])
        one_table = batch.is_plain or all(lattice.words is first.words for lattice in batch)
        if not one_table or not self._names.are_of(first.words):
            return False
        try:
            self._table.check(first)
        except SymbolError:  # writing them one by one finds the invalid lattice
            return False
        if self._table.is_particular:
            return False
        self._refuse_own_words(first)
        self._flush()
        if self._script is not None:
            rows = zip(prepared.keys, prepared.begins, strict=True)
            self._script.write(b"".join(self._script_line(key, self._position + begin) for key, begin in rows))
        self._position += prepared.entries.pending
        if self._queue is not None:
            self._queue.put(prepared.entries)
        else:
            with prepared.entries.view() as content:
                (self._packed or self._opened).write(content)
            prepared.entries.clear()
            self._spare.append(prepared.entries)
        self._keys.update(prepared.keys)
        self._names.take(first)
        self._table.take(first)
        self._checkpoint()
        return True

    def write_on_thread(self) -> None:
        """See `LatticeWriter.write_on_thread`."""
        self._queue = WriteQueue(self._packed or self._opened, self._spare)

    def _wait(self) -> None:
        """Wait until prepared batches are written."""
        if self._queue is not None:
            self._queue.wait()

    def _checkpoint(self) -> None:
        """Flush the output every few seconds, so that a run that is killed can be resumed."""
        if self._resume and time.monotonic() - self._checkpoint_time >= CHECKPOINT_INTERVAL:
            self._wait()
            self._flush()
            if self._packed is not None:
                self._packed.end_member()
            self._checkpoint_time = time.monotonic()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self._resume:  # save the output for the next attempt
            try:
                self._end()
            except BaseException:
                self._give_up()
                raise
            if self._is_kept():
                self.num_saved = self.keys_done.total() + self._keys.total()
        super().__exit__(kind, error, trace)

    def _end(self) -> None:
        self._wait()
        self._flush()
        if self._packed is not None:
            self._packed.close()

    def _finish(self) -> None:
        self._end()
        for file in (self._file, self._script):
            if file is not None:
                file.finish()
        if not self._resume:
            self._forget_facts()
        self._file = self._script = None

    def _is_kept(self) -> bool:
        return self._resume and not self._is_closed and bool(self.keys_done or self._keys)

    def _abandon(self) -> None:
        if self._queue is not None:
            self._queue.stop()
        for file in (self._file, self._script):
            if file is not None:
                file.abandon(keep=file is self._file and self._is_kept())
        if not self._is_kept():
            self._forget_facts()
        self._file = self._script = None

    def _forget_facts(self) -> None:
        if self._file is not None and self._output.run is not None and self._target.archive != STDOUT:
            remove_facts(self._target.archive)

    def _refuse_own_words(self, lattice: Lattice) -> None:
        if self._resume and lattice.words is not None and lattice.words.path is None:
            raise OptionError(
                "--resume requires --words (words=) for this input; otherwise word ids would differ from the output's"
            )

    @property
    def _opened(self) -> PartFile | StandardOutput:
        assert self._file is not None
        return self._file

    def _flush(self) -> None:
        if self._entries.pending:
            self._wait()
            content = self._entries.view()
            (self._packed or self._opened).write(content)
            self._position += len(content)
            content.release()
            self._entries.clear()
        if self._script is not None:
            self._script.write(b"".join(self._script_lines))
            self._script_lines = []

    def _script_line(self, key: str, offset: int) -> bytes:
        return os.fsencode(f"{key} {self._target.archive}:{offset}\n")
