"""The output of each format: which of the layouts it has, and those of formats that have their own."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Any

from ninja.errors import OptionError, OutputError, SymbolError
from ninja.files.output import Bytes, opened, reported
from ninja.formats.options import fill
from ninja.io.sources import STDIN as STDOUT
from ninja.io.targets import EXTENSIONS, Target, target
from ninja.io.writer import Writer
from ninja.io.writing.formats import FORMATS
from ninja.io.writing.layout import Beams, Folder, Layout, Single, Stream
from ninja.io.writing.lists import espnet
from ninja.io.writing.options import Asked
from ninja.io.writing.output import Lossy, Output
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable

if TYPE_CHECKING:
    from ninja.lattice.nbest import NBest


class Gathered(Layout):
    """A k2 file, which needs all lattices at once: they are kept in memory until the ``with`` block is left."""

    def _open(self) -> None:
        super()._open()
        self._lattices: list[Lattice] = []

    def _put(self, key: str, item: Any) -> None:
        from ninja.io.writing.lattices import k2_checked

        k2_checked(item)
        self._lattices.append(item)

    def _finish(self) -> None:
        from ninja.formats.k2 import write_k2s

        self._sink.write(write_k2s(self._lattices, extras=self._asked.options.extras))
        super()._finish()


class Columns(Layout):
    """A file of our own, a record batch at a time."""

    _writer: Any = None

    def _check_key(self, key: str) -> None:
        super()._check_key(key)
        key.encode()

    def _put(self, key: str, item: Any) -> None:
        self._begun(item.words if self._asked.words is None else self._asked.words).write(item.with_words(None))

    def _finish(self) -> None:
        self._begun(self._asked.words).close()
        super()._finish()

    def _begun(self, words: SymbolTable | None) -> Any:
        from ninja.formats.native_writer import NativeWriter

        if self._writer is None:
            self._writer = NativeWriter(_Raw(self._sink), words)  # type: ignore[arg-type]
        return self._writer


class Ranks(Folder):
    """Folders of ESPnet, one a rank; their texts are kept in memory until the ``with`` block is left."""

    def _open(self) -> None:
        super()._open()
        self._files: dict[str, list[bytes]] = {}
        if os.path.isdir(os.path.join(self.name, "1best_recog")):
            raise OutputError("there are lists in it already; move them away, or name another folder", self.name)

    def _check_key(self, key: str) -> None:
        Layout._check_key(self, key)

    def _put(self, key: str, item: Any) -> None:
        for name, content in espnet(item, self._asked).items():
            self._files.setdefault(name, []).append(content)

    def _finish(self) -> None:
        for name, contents in self._files.items():
            path = os.path.join(self.name, name)
            with reported(path):
                os.makedirs(os.path.dirname(path), exist_ok=True)
            with opened(path) as file:
                file.write(b"".join(contents))


class Linear(Layout):
    """A Kaldi archive with a lattice for each hypothesis."""

    def _open(self) -> None:
        self._archive = Writer(self._target)
        self._archive.__enter__()

    def _put(self, key: str, item: NBest) -> None:
        from ninja.formats.nbest import linear_lattices

        if self._asked.words is None and any(isinstance(word, str) for each in item.hypotheses for word in each.words):
            raise SymbolError("its words are names, but the archive holds ids; give words= (--words)", key=key)
        for lattice in linear_lattices(item, self._asked.words):
            self._archive.write(lattice)

    def _finish(self) -> None:
        self._archive.__exit__(None, None, None)

    def _abandon(self) -> None:
        self._archive.give_up()


class _Raw(io.RawIOBase):
    """What Arrow writes to."""

    def __init__(self, sink: Bytes) -> None:
        self._sink = sink

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        self._sink.write(memoryview(content))
        return len(content)


LAYOUTS: dict[str, type[Layout]] = {
    "k2": Gathered,
    "native": Columns,
    "espnet": Ranks,
    "nbest-kaldi": Linear,
    "nemo": Beams,
}


def laid_out(
    name: str | os.PathLike[str],
    form: str,
    values: dict[str, str],
    *,
    lossy: Lossy,
    words: SymbolTable | None,
    encoding: str,
) -> Output:
    """Return the output of a format.

    Args:
        name: A file, a folder or ``-``.
        form: Name of the format, one of ``FORMATS``.
        values: Its options, in text.
        lossy: As for ``write``.
        words: As for ``write``.
        encoding: As for ``write``.

    Raises:
        OptionError: There is no such option, or the name is none of a file or folder.
    """
    from ninja.formats.textual import check_encoding

    check_encoding(encoding)
    path = target(name).archive
    text = path.removesuffix(".gz").endswith(".txt")
    asked = Asked(fill(FORMATS[form].options, values, form, text=text), words, encoding)
    layout = LAYOUTS.get(form, Stream)
    if FORMATS[form].one:
        layout = Single if _is_file(path, form) else Folder
    packed = path.endswith(".gz") and layout not in (Folder, Ranks)
    if layout is Ranks and path == STDOUT:
        raise OptionError("espnet has many files; name a folder")
    if layout not in (Folder, Ranks) and path != STDOUT and (os.path.isdir(path) or path.endswith(os.sep)):
        raise OptionError(f"the output {path!r} is no file name, but {form} has many lattices in one file")
    return layout(Target(path, text=text, packed=packed), form, asked, lossy)


def _is_file(path: str, form: str) -> bool:
    """Tell whether a name is that of a file of a format rather than of a folder."""
    if path == STDOUT or path.endswith(os.sep) or os.path.isdir(path):
        return path == STDOUT
    if os.path.exists(path) and not os.path.isfile(path):  # /dev/null, a named pipe
        return True
    return path.removesuffix(".gz").lower().endswith(EXTENSIONS[form])
