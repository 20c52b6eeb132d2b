"""Lattices of any format on their way to files: many in one, or one in each."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ninja.errors import LatticeError, OutputError, SymbolError
from ninja.files.output import Bytes, Packed, PartFile, StandardOutput, opened, reported
from ninja.io.sources import STDIN as STDOUT
from ninja.io.targets import EXTENSIONS, Target
from ninja.io.writing import losses
from ninja.io.writing.formats import FORMATS, Format, wants
from ninja.io.writing.lists import mesh_key
from ninja.io.writing.options import Asked
from ninja.io.writing.output import Lossy, Output, checked_key
from ninja.lattice import Lattice

if TYPE_CHECKING:
    from ninja.io.writing.output import Item

FLUSH = 1 << 19  # bytes gathered before they are written
LONGEST_KEY = 4096  # bytes, as Kaldi's tools read it
LONGEST_NAME = 255 - len("..part")  # bytes of the name of a file, which has a longer one while it is written


class Layout(Output):
    """An output of one of ``FORMATS``."""

    def __init__(self, chosen: Target, form: str, asked: Asked, lossy: Lossy) -> None:
        self._format: Format = FORMATS[form]
        takes_ids = self._format.ids and getattr(asked.options, "labels", "ids") == "ids"
        super().__init__(
            chosen.archive,
            form,
            wants(self._format, asked.options),
            lossy=lossy,
            words=asked.words,
            needs_words=takes_ids,
            one_table=takes_ids or form == "native",
        )
        self._target = chosen
        self._asked = asked
        self._count = 0
        self._keys: set[str] = set()
        self._file: PartFile | StandardOutput | None = None
        self._packed: Packed | None = None

    def write(self, item: Item, *, key: str | None = None) -> None:
        """Append an item; see ``Output``."""
        from ninja.lattice.nbest import check

        self._check_open()
        if self._kind(item) != self.wants.kind:
            raise self._refuse_kind()
        name, item = _keyed(item, key)
        try:
            self._check_key(name)
            if isinstance(item, Lattice):
                self._names.check(item, name)
            elif not isinstance(item, str):
                check(item)
            lost = [*self._format.lost(item, self._asked), *self._lost_key(name)]
            self._check_loss(lost, name)
            self._put(name, item)
        except UnicodeEncodeError as error:
            raise SymbolError("a word or the key cannot be written as UTF-8", key=name) from error
        except (LatticeError, SymbolError) as error:
            error.key = error.key or name
            raise
        if isinstance(item, Lattice):
            self._names.take(item)
        self.lost.update(lost)
        self._count += 1
        if self._format.once:
            self._keys.add(name)

    def _kind(self, item: Item) -> str:
        if isinstance(item, Lattice):
            return "lattice"
        return "mesh" if isinstance(item, str) else "nbest"

    def _check_key(self, key: str) -> None:
        if self._format.parted:
            checked_key(key)
        if len(os.fsencode(key)) > LONGEST_KEY:
            raise LatticeError(f"the key is longer than {LONGEST_KEY} bytes", key=key[:60])
        if self._format.text:
            try:
                key.encode(self._asked.encoding)
            except UnicodeEncodeError as error:
                message = f"the key cannot be written as {self._asked.encoding.upper()}; give the lattice another"
                raise LatticeError(message, key=key) from error
        if key in self._keys:
            raise OutputError("the key stands in the output already", self.name, key=key)

    def _lost_key(self, key: str) -> list[str]:
        if self._format.key == "number":
            return [] if key == str(self._count + 1) else [losses.KEY]
        if self._format.key == "nothing" or not getattr(self._asked.options, "extras", True):
            return [losses.KEY]  # a reader makes keys of the file's name and numbers
        return []

    def _put(self, key: str, item: Any) -> None:
        """Take what has been found fit."""
        raise NotImplementedError

    def _encoded(self, item: Any) -> bytes:
        assert self._format.encode is not None
        return self._format.encode(item, self._asked)

    def _open(self) -> None:
        self._file = StandardOutput() if self.name == STDOUT else PartFile(self.name)
        if self._target.packed:
            self._packed = Packed(self._file)

    @property
    def _sink(self) -> Bytes:
        """Where the bytes of the file go."""
        assert self._file is not None
        return self._packed or self._file

    def _finish(self) -> None:
        assert self._file is not None
        if self._packed is not None:
            self._packed.close()
        self._file.finish()

    def _abandon(self) -> None:
        if self._file is not None:
            self._file.abandon(keep=False)
        self._file = None


class Stream(Layout):
    """One file, lattice after lattice."""

    def _open(self) -> None:
        super()._open()
        self._pieces: list[bytes] = []
        self._size = 0

    def _put(self, key: str, item: Any) -> None:
        content = self._encoded(item)
        self._pieces.append(content)
        self._size += len(content)
        if self._size >= FLUSH:
            self._flush()

    def _finish(self) -> None:
        self._flush()
        super()._finish()

    def _flush(self) -> None:
        self._sink.write(b"".join(self._pieces))
        self._pieces = []
        self._size = 0


class Beams(Stream):
    """A file of NeMo's beams, in which each utterance has as many lines."""

    _beam = 0

    def _put(self, key: str, item: Any) -> None:
        length = len(item.hypotheses)
        if self._count and length != self._beam:
            message = f"{length} hypotheses, but lists before have {self._beam}; a file of beams has as many of each"
            raise LatticeError(f"{message}, so ask for fewer: to='nemo:n=…' (--to nemo:n=…)", key=key)
        super()._put(key, item)
        self._beam = length


class Single(Layout):
    """A file of one lattice."""

    _first: tuple[str, bytes] | None = None
    _spoilt = False

    def _check_key(self, key: str) -> None:
        super()._check_key(key)
        if self._first is not None:
            self._spoilt = True
            message = f"{self._form} has one lattice a file, but {self._first[0]!r} and {key!r} are to go there; "
            raise OutputError(message + "name a folder, in which each gets its own", self.name)

    def _lost_key(self, key: str) -> list[str]:
        if self._format.key != "name":
            return []
        return [] if self.name != STDOUT and key == _stem(self.name, self._form) else [losses.KEY]

    def _put(self, key: str, item: Any) -> None:
        self._first = key, self._encoded(item)

    def _finish(self) -> None:
        if self._first is None or self._spoilt:
            self._abandon()
            return
        self._sink.write(self._first[1])
        super()._finish()


class Folder(Layout):
    """A file for each lattice, with its key as its name; each of them is there as soon as it is whole."""

    def _open(self) -> None:
        self._written: set[tuple[int, int]] = set()  # device and number of the files that there are
        self._made = not os.path.isdir(self.name)
        with reported(self.name):
            os.makedirs(self.name, exist_ok=True)

    def _check_key(self, key: str) -> None:
        super()._check_key(key)
        name = key + EXTENSIONS[self._form][0]
        # A name with a dot before it would be passed over when the folder is read.
        if not key or key[0] == "." or {os.sep, os.altsep, "\0"} & {*key} or len(os.fsencode(name)) > LONGEST_NAME:
            raise OutputError("the key cannot name a file; give the lattice another", self.name, key=key)
        if _file_number(os.path.join(self.name, name)) in self._written:
            raise OutputError("the file of its key was written already; keys must differ", self.name, key=key)

    def _put(self, key: str, item: Any) -> None:
        path = os.path.join(self.name, key + EXTENSIONS[self._form][0])
        content = self._encoded(item)
        with opened(path) as file:
            file.write(content)
        if (number := _file_number(path)) is not None:
            self._written.add(number)

    def _finish(self) -> None:
        pass

    def _abandon(self) -> None:
        if self._made:
            with contextlib.suppress(OSError):
                os.rmdir(self.name)  # unless there is something in it


def _file_number(path: str) -> tuple[int, int] | None:
    """Return what tells a file from others, whatever it is called; None: there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _stem(path: str, form: str) -> str:
    """Return the name of a file without its extension."""
    name = os.path.basename(path).removesuffix(".gz")
    return next((name[: -len(end)] for end in EXTENSIONS[form] if name.lower().endswith(end)), name)


def _keyed(item: Any, key: str | None) -> tuple[str, Any]:
    """Return the key of an item, and the item under that key."""
    if isinstance(item, str):
        return mesh_key(item) if key is None else key, item
    if key is None or key == item.key:
        return item.key, item
    return key, item.with_key(key) if isinstance(item, Lattice) else replace(item, key=key)
