"""Write lattices as Kaldi tables."""

from __future__ import annotations

import os
from collections import Counter
from types import TracebackType
from typing import Literal

from ninja._formats import TableWriter
from ninja.errors import LatticeError, OptionError, OutputError
from ninja.formats.files import Packed, PartFile, StandardOutput
from ninja.formats.resume import Standing, stand
from ninja.formats.sources import STDIN as STDOUT
from ninja.formats.targets import Target, target
from ninja.lattice import Kind, Lattice

FLUSH = 1 << 19  # bytes gathered before they are written


class Writer:
    """An archive being written; use it in a ``with`` block.

    It takes its name when the block is left. If an exception leaves the block, nothing appears under the name; what was
    written is removed, or kept for the next attempt where `resume` is set.
    """

    def __init__(self, chosen: Target, *, resume: bool = False, kind: Kind | None = None) -> None:
        self.keys_done: Counter[str] = Counter()  # how often keys stand in the output already, with `resume`
        self._target = chosen
        self._resume = resume
        self._kind = kind
        self._table = TableWriter(text=chosen.text)
        self._position = 0  # bytes of the archive written, unpacked
        self._script_lines: list[bytes] = []
        self._file: PartFile | StandardOutput | None = None
        self._script: PartFile | None = None
        self._packed: Packed | None = None

    def __enter__(self) -> Writer:
        chosen = self._target
        if chosen.archive == STDOUT:
            if self._resume:
                raise OptionError("what went to the standard output cannot be taken up again; name a file")
            self._file = StandardOutput()
        else:
            standing = stand(chosen) if self._resume else Standing()
            self._file = PartFile(chosen.archive, standing.length)
            self._position = standing.length
            self.keys_done = Counter(key for key, _ in standing.entries)
            if chosen.script is not None:
                self._script = PartFile(chosen.script)
                self._script_lines = [self._script_line(key, at) for key, at in standing.entries]
        if chosen.packed:
            self._packed = Packed(self._file)
        return self

    def write(self, lattice: Lattice, *, key: str | None = None) -> None:
        """Append a lattice under its own key or another.

        Its kind decides whether it becomes a Kaldi ``CompactLattice`` or ``Lattice``. As the latter, arcs with several
        labels become chains of arcs.

        Raises:
            LatticeError: A key that Kaldi could not read back.
            OutputError: The file cannot be written: the disk is full, for example, or the ``with`` block is over.
        """
        if self._file is None:
            raise OutputError("the writer is not open; use it in a with block", self._target.archive)
        name = lattice.key if key is None else key
        if not name or name.split() != [name]:
            raise LatticeError(f"the key {name!r} is empty or holds a blank; give the lattice another")
        begin = self._table.append(
            lattice, name.encode("utf-8", "surrogateescape"), (self._kind or lattice.kind) == "compact"
        )
        if self._script is not None:
            self._script_lines.append(self._script_line(name, self._position + begin))
        if self._table.pending >= FLUSH:
            self._flush()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        files = [file for file in (self._file, self._script) if file is not None]
        try:
            if error is None or self._resume:
                self._flush()
                if self._packed is not None:
                    self._packed.close()
            if error is None:
                for file in files:
                    file.finish()
                self._file = self._script = None
                return
        except BaseException:
            self._abandon()
            raise
        self._abandon()

    def _abandon(self) -> None:
        for file in (self._file, self._script):
            if file is not None:
                file.abandon(keep=self._resume and file is self._file)
        self._file = self._script = None

    def _flush(self) -> None:
        assert self._file is not None
        content = self._table.view()
        (self._packed or self._file).write(content)
        self._position += len(content)
        content.release()
        self._table.clear()
        if self._script is not None:
            self._script.write(b"".join(self._script_lines))
            self._script_lines = []

    def _script_line(self, key: str, offset: int) -> bytes:
        return os.fsencode(f"{key} {self._target.archive}:{offset}\n")


def write(
    name: str | os.PathLike[str], *, resume: bool = False, kind: Literal["compact", "raw"] | None = None
) -> Writer:
    """Open a table for writing, as a context manager.

    The output appears under its name when the block is left without an exception, or not at all.

        with ninja.write("ark,t:out.txt") as output:
            output.write(lattice)

    Args:
        name: A path (``.gz`` packs it, ``.txt`` is text), ``-`` for the standard output, or a Kaldi wspecifier:
            ``ark:…``, ``ark,t:…``, ``ark,scp:A,S``, ``ark:| gzip -c > F`` (served without a shell).
        resume: Go on with what an earlier attempt left behind, or with the output if it is there already; the writer's
            ``keys_done`` says which lattices need not be written again. If this attempt fails, its output is kept, too.
        kind: Write every lattice as this kind rather than as its own.

    Raises:
        OptionError: The target makes no sense.
        OutputError: The file cannot be written.

    Source: Kaldi util/kaldi-table.h, lat/kaldi-lattice.cc; OpenFst vector-fst.h.
    """
    return Writer(target(name), resume=resume, kind=kind)
