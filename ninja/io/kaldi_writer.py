"""Writer for Kaldi archives and script files, which can resume an interrupted output."""

from __future__ import annotations

import os
import time
from collections import Counter
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from ninja._tables import TableWriter
from ninja.errors import LatticeError, OptionError, SymbolError
from ninja.files.gzip import GzipWriter
from ninja.files.output import PartFile, StandardOutput, Target, has_facts, remove_facts, write_facts
from ninja.files.stream import STDIN as STDOUT
from ninja.files.stream import is_file
from ninja.files.threads import WriteQueue
from ninja.io.companions import refuse_other_scales
from ninja.io.lattice_writer import LONGEST_KEY, LatticeWriter, OutputSettings
from ninja.lattice import Kind, Lattice
from ninja.lattice.batch import Batch

if TYPE_CHECKING:
    from ninja.io.resume import ResumePoint

FLUSH = 1 << 19  # bytes buffered before they are written
CHECKPOINT_INTERVAL = 5.0  # maximum seconds of work that are lost if a run is killed and resumed


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
                point = self._resume_point(self._file)
                tail, entries = point.tail, point.entries
                self.resumed = point.description
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

    def _resume_point(self, file: PartFile) -> ResumePoint:
        """Return where to continue the output of an earlier attempt.

        Raises:
            OptionError: The existing output belongs to another run; it is kept.
        """
        from ninja.io.resume import refuse_other_facts, resume_point

        archive, run = self._target.archive, self._output.run
        is_begun = not file.is_direct and os.path.getsize(file.part) > 0
        is_known = run is not None and has_facts(archive)
        try:
            refuse_other_scales(archive, self._output.chosen)
            if run is not None and (is_begun or (is_known and is_file(archive))):
                refuse_other_facts(archive, run)
        except OptionError:
            file.abandon(keep=is_begun)
            self._file = None
            raise
        point = resume_point(self._target, file)
        self._is_closed = run is not None and not is_known and bool(point.entries)
        return point

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
        content = prepared.entries.view()
        if self._script is not None:
            rows = zip(prepared.keys, prepared.begins, strict=True)
            self._script.write(b"".join(self._script_line(key, self._position + begin) for key, begin in rows))
        self._position += len(content)
        release = partial(self._reuse, prepared.entries)
        if self._queue is not None:
            self._queue.put(content, release)
        else:
            (self._packed or self._opened).write(content)
            content.release()
            release()
        self._keys.update(prepared.keys)
        self._names.take(first)
        self._table.take(first)
        self._checkpoint()
        return True

    def write_on_thread(self) -> None:
        """See `LatticeWriter.write_on_thread`."""
        self._queue = WriteQueue(self._packed or self._opened)

    def _reuse(self, entries: TableWriter) -> None:
        entries.clear()
        self._spare.append(entries)

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
                self.kept = self.keys_done.total() + self._keys.total()
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
                "--resume requires --words (words=) for this input, or words would get other ids than in the output"
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
