"""Writers for non-Kaldi formats: to a single file, to one file per lattice, or to files with fixed names."""

from __future__ import annotations

import contextlib
import os
from typing import Any

from ninja.errors import OptionError, OutputError
from ninja.files.gzip import GzipWriter
from ninja.files.output import LONGEST_NAME, PartFile, StandardOutput, opened, reported, sync_folder
from ninja.files.stream import STDIN as STDOUT
from ninja.files.stream import Identity, identity_of, is_file, is_remote
from ninja.formats.format import Encoder, Format, NotingEncoder, Write, WriteSettings
from ninja.io.writer import LatticeWriter, OutputSettings

FLUSH = 1 << 19  # number of bytes that are buffered before they are written


class Plain:
    """Encoder for formats whose files are a sequence of independent entries."""

    def __init__(self, write: Write, settings: WriteSettings) -> None:
        assert write.encode is not None
        self._encode = write.encode
        self._settings = settings

    def add(self, item: Any) -> bytes:
        """Encode an entry."""
        return self._encode(item, self._settings)

    def end(self) -> bytes:
        """Return no bytes, because files in these formats have no footer."""
        return b""


class OneFile(LatticeWriter):
    """Writer for a file that contains all entries."""

    _file: PartFile | StandardOutput | None = None
    _packed: GzipWriter | None = None

    def _open(self) -> None:
        make = self._write.encoder
        # Create the encoder before the file, because the library that it requires may not be installed.
        self._encoder: Encoder = Plain(self._write, self._settings) if make is None else make(self._settings)
        self._file = StandardOutput() if self.name == STDOUT else PartFile(self.name, guard=self._output.guard)
        if self.name.endswith(".gz"):
            self._packed = GzipWriter(self._file)
        self._pieces: list[bytes] = []
        self._size = 0

    def notes(self) -> list[str]:
        """See `LatticeWriter.notes`."""
        return super().notes() + (self._encoder.notes() if isinstance(self._encoder, NotingEncoder) else [])

    def _put(self, key: str, item: Any) -> None:
        content = self._encoder.add(item)
        self._pieces.append(content)
        self._size += len(content)
        if self._size >= FLUSH:
            self._flush()

    def _flush(self) -> None:
        assert self._file is not None
        (self._packed or self._file).write(b"".join(self._pieces))
        self._pieces = []
        self._size = 0

    def _finish(self) -> None:
        assert self._file is not None
        self._pieces.append(self._encoder.end())
        self._flush()
        if self._packed is not None:
            self._packed.close()
        self._file.finish()

    def _abandon(self) -> None:
        if self._file is not None:
            self._file.abandon(keep=False)
        self._file = None


class OneLattice(OneFile):
    """Writer for a file that contains a single lattice."""

    _first: str | None = None
    _has_several = False

    def _check_key(self, key: str) -> None:
        super()._check_key(key)
        if self._first is not None:
            self._has_several = True
            message = f"{self.format.name} files contain a single lattice, but there are several, {self._first!r} "
            raise OutputError(f"{message}and {key!r}; write to a folder instead", self.name)

    def _keeps_key(self, key: str) -> bool:
        return super()._keeps_key(key) or (self.name != STDOUT and key == _stem(self.name, self.format.extensions))

    def _put(self, key: str, item: Any) -> None:
        content = self._encoder.add(item)
        self._first = key
        self._pieces.append(content)

    def _finish(self) -> None:
        if self._first is None or self._has_several:
            self._abandon()
            return
        super()._finish()


class Folder(LatticeWriter):
    """Writer for a folder with one file per lattice, named after the lattice's key; each file is written atomically."""

    def __init__(self, output: OutputSettings) -> None:
        super().__init__(output)
        self._written: dict[Identity, str] = {}
        self._is_new = False  # whether this writer created the folder

    def _open(self) -> None:
        if is_remote(self.name):
            return
        self._is_new = not os.path.isdir(self.name)
        with reported(self.name):
            os.makedirs(self.name, exist_ok=True)

    def _keeps_key(self, key: str) -> bool:
        return True

    def _path(self, key: str) -> str:
        return os.path.join(self.name, key + self.format.extensions[0])

    def _check_key(self, key: str) -> None:
        super()._check_key(key)
        name = key + self.format.extensions[0]
        # Names that begin with a dot are invalid, too, because readers of a folder skip hidden files.
        is_chain = is_remote(self.name) and "::" in key  # "::" separates chained URLs
        if (
            is_chain
            or not key
            or key[0] == "."
            or {os.sep, os.altsep, "\0"} & {*key}
            or len(os.fsencode(name)) > LONGEST_NAME
        ):
            raise OutputError("the key is not a valid file name; use another key", self.name, key=key)
        if identity_of(self._path(key)) in self._written:
            raise OutputError("the file for this key was already written; keys must be unique", self.name, key=key)

    def _put(self, key: str, item: Any) -> None:
        assert self._write.encode is not None
        path = self._path(key)
        content = self._write.encode(item, self._settings)
        with opened(
            path, self._output.guard, syncs_folder=False
        ) as file:  # `_finish` syncs the folder once for all files
            file.write(content)
        self._note(path)

    def _note(self, path: str) -> None:
        if (identity := identity_of(path)) is not None:
            self._written[identity] = path

    def _finish(self) -> None:
        """Raise `OutputError` if another process has replaced a file, because the folder would then mix two outputs."""
        for identity, path in self._written.items():
            if identity_of(path) != identity:
                message = "another process also wrote this file; run again with a separate folder for each process"
                raise OutputError(message, path)
        if self._written and not is_remote(self.name):
            with reported(self.name):
                sync_folder(self.name)

    def _abandon(self) -> None:
        if self._is_new:
            with contextlib.suppress(OSError):
                os.rmdir(self.name)  # keeps a folder that is not empty


class NamedFiles(Folder):
    """Writer for a folder of files with fixed names; contents are held in memory until the ``with`` block ends."""

    def _open(self) -> None:
        super()._open()
        self._contents: dict[str, list[bytes]] = {}

    def _check_key(self, key: str) -> None:
        LatticeWriter._check_key(self, key)

    def _put(self, key: str, item: Any) -> None:
        assert self._write.encode_files is not None
        for name, content in self._write.encode_files(item, self._settings).items():
            if not self._contents:
                self._refuse_another(name)
            self._contents.setdefault(name, []).append(content)

    def _refuse_another(self, name: str) -> None:
        if is_file(os.path.join(self.name, name)):
            raise OutputError("already contains n-best lists; move them, or choose another folder", self.name)

    def _finish(self) -> None:
        for name in self._contents:  # check again, because another process may have written the files in the meantime
            self._refuse_another(name)
        for name, contents in self._contents.items():
            path = os.path.join(self.name, name)
            if not is_remote(path):
                with reported(path):
                    os.makedirs(os.path.dirname(path), exist_ok=True)
            with opened(path, self._output.guard) as file:
                file.write(b"".join(contents))
            self._note(path)
        super()._finish()


def writer_of(output: OutputSettings) -> LatticeWriter:
    """Return the writer for an output in a non-Kaldi format.

    Raises:
        OptionError: The output is a folder or stdout, to which the format cannot be written.
    """
    path, format = output.place, output.format
    assert format.write is not None
    if format.write.files == "named":
        if path == STDOUT:
            raise OptionError(f"{format.name} writes several files; specify a folder")
        return NamedFiles(output)
    if format.write.files == "each":
        return OneLattice(output) if _is_file(path, format) else Folder(output)
    if path != STDOUT and (os.path.isdir(path) or path.endswith(os.sep)):
        raise OptionError(f"the output {path!r} is a folder, but {format.name} writes a single file; add a file name")
    return OneFile(output)


def _is_file(path: str, format: Format) -> bool:
    """Return whether a format writes a single file, rather than a folder, to this path."""
    if path == STDOUT or path.endswith(os.sep) or os.path.isdir(path):
        return path == STDOUT
    if os.path.exists(path) and not os.path.isfile(path):  # a device such as /dev/null, or a named pipe
        return True
    return path.removesuffix(".gz").lower().endswith(format.extensions)


def _stem(path: str, extensions: tuple[str, ...]) -> str:
    """Return a file name without its extension."""
    name = os.path.basename(path).removesuffix(".gz")
    return next((name[: -len(end)] for end in extensions if name.lower().endswith(end)), name)
