"""Write lattices: Kaldi tables here, other formats through ``layouts``."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from ninja._tables import TableWriter
from ninja.errors import OptionError
from ninja.files.output import Packed, PartFile, StandardOutput
from ninja.io.resume import Standing, stand
from ninja.io.sources import STDIN as STDOUT
from ninja.io.targets import KALDI, Target, format_of, target
from ninja.io.writing import losses
from ninja.io.writing.output import Lossy, Output, Wants, checked_key
from ninja.lattice import Kind, Lattice
from ninja.lattice.symbols import SymbolTable

if TYPE_CHECKING:
    from ninja.io.writing.output import Item

FLUSH = 1 << 19  # bytes gathered before they are written


class Writer(Output):
    """An archive being written; use it in a ``with`` block.

    It takes its name when the block is left. If an exception leaves the block, nothing appears under the name; what was
    written is removed, or kept for the next attempt where `resume` is set.
    """

    def __init__(
        self,
        chosen: Target,
        *,
        resume: bool = False,
        kind: Kind | None = None,
        lossy: Lossy = "allow",
        words: SymbolTable | None = None,
    ) -> None:
        form = "text" if chosen.text else "binary"
        super().__init__(chosen.archive, form, Wants(), lossy=lossy, words=words, needs_words=True)
        self._target = chosen
        self._resume = resume
        self._kind = kind
        self._table = TableWriter(text=chosen.text)
        self._position = 0  # bytes of the archive written, unpacked
        self._script_lines: list[bytes] = []
        self._file: PartFile | StandardOutput | None = None
        self._script: PartFile | None = None
        self._packed: Packed | None = None

    def _open(self) -> None:
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

    def write(self, item: Item, *, key: str | None = None) -> None:
        """Append a lattice under its own key or another.

        Its kind decides whether it becomes a Kaldi ``CompactLattice`` or ``Lattice``. As the latter, arcs with several
        labels become chains of arcs.

        Raises:
            LatticeError: A key that Kaldi could not read back, or something would be lost and nothing may be.
            SymbolError: Its words have other names than those of the lattices before.
            OptionError: It is no lattice.
            OutputError: The file cannot be written: the disk is full, for example, or the ``with`` block is over.
        """
        self._check_open()
        if not isinstance(item, Lattice):
            raise self._refuse_kind()
        lattice = item
        name = checked_key(lattice.key if key is None else key)
        self._names.check(lattice, name)
        lost = losses.of_kaldi(lattice)
        if self._target.text:
            lost += losses.in_text(lattice)
        if lost:
            self._check_loss(lost, name)
        begin = self._table.append(
            lattice, name.encode("utf-8", "surrogateescape"), (self._kind or lattice.kind) == "compact"
        )
        if self._script is not None:
            self._script_lines.append(self._script_line(name, self._position + begin))
        self._names.take(lattice)
        if lost:
            self.lost.update(lost)
        if self._table.pending >= FLUSH:
            self._flush()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_open = False
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
            self.give_up()
            raise
        self.give_up()

    def give_up(self) -> None:
        """Remove what was written, or keep it for the next attempt."""
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
    name: str | os.PathLike[str],
    *,
    resume: bool = False,
    kind: Literal["compact", "raw"] | None = None,
    to: str | None = None,
    lossy: Literal["allow", "refuse"] = "allow",
    words: SymbolTable | None = None,
    encoding: str = "utf-8",
) -> Output:
    """Open a file or a folder of lattices for writing, as a context manager.

    The output appears under its name when the block is left without an exception, or not at all.

        with ninja.write("ark,t:out.txt") as output:
            output.write(lattice)

    The format is that of the name's extension: a Kaldi archive where it says nothing, text for ``.txt``, ``.slf``,
    ``.fst``, ``.pt``, ``.arrow``, ``.jsonl`` and so on for others. Formats of one lattice a file make a file with their
    extension of one lattice, and a folder of any other name, in which each lattice gets the file ``KEY`` with that
    extension. Formats of n-best lists and confusion networks take these rather than lattices: ``wants`` says so.

    Args:
        name: A path (``.gz`` packs it, ``.txt`` is text), ``-`` for the standard output, or a Kaldi wspecifier:
            ``ark:…``, ``ark,t:…``, ``ark,scp:A,S``, ``ark:| gzip -c > F`` (served without a shell).
        resume: Go on with what an earlier attempt left behind, or with the output if it is there already; the output's
            ``keys_done`` says which lattices need not be written again. If this attempt fails, its output is kept, too.
            Kaldi archives only.
        kind: Write every lattice as this kind rather than as its own. Kaldi archives only.
        to: The format and its options, ``slf`` or ``slf:base=10,frame_shift=0.01``; None: by the extension.
            There are binary, text, slf, sphinx, pfsg, plf, mesh, openfst, fst-text, fst-ark, k2, native, json, srilm,
            nemo, espnet and nbest-kaldi; options are the arguments of the functions that write them, and for lists
            n, acoustic_scale, lm_scale and word_penalty. k2 and espnet keep all in memory until the block is left.
        lossy: "refuse" a lattice from which anything would be lost; "allow": count it in ``lost``.
        words: Symbol table of the lattices; None: the one attached to each. An output of ids (``needs_words``) takes
            lattices of one table only.
        encoding: Of names of words in text formats but Kaldi's.

    Raises:
        OptionError: The target makes no sense, there is no such format, or it has no such option.
        OutputError: The file cannot be written.

    Source: Kaldi util/kaldi-table.h, lat/kaldi-lattice.cc; OpenFst vector-fst.h.
    """
    form, values = format_of(name, to)
    if form not in KALDI:
        from ninja.io.writing.layouts import laid_out

        for option, asked in (("resume", resume), ("kind", kind is not None)):
            if asked:
                raise OptionError(f"{option} is for Kaldi archives, but {os.fspath(name)!r} is to be {form}")
        return laid_out(name, form, values, lossy=lossy, words=words, encoding=encoding)
    if values:
        raise OptionError(f"{form} has no option {next(iter(values))!r}; there is: none")
    chosen = target(name)
    if os.path.isdir(chosen.archive):
        raise OptionError(f"the output {chosen.archive!r} is no file name")
    if to is not None:
        chosen = replace(chosen, text=form == "text")
    return Writer(chosen, resume=resume, kind=kind, lossy=lossy, words=words)
