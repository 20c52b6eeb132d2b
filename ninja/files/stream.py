"""Streams that read and decompress files, command outputs and stdin; reading of whole files; a guard for inputs."""

from __future__ import annotations

import errno
import io
import os
import re
import stat
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Literal, NamedTuple, cast

from ninja.errors import FormatError, InputError, NinjaWarning, OptionError
from ninja.files import remote
from ninja.files.gzip import GZIP_MAGIC, GzipReader
from ninja.files.raw import Range, open_stdin
from ninja.files.remote import RemoteFile

if TYPE_CHECKING:
    import subprocess

STDIN = "-"
SPECIFIER = re.compile(r"(?=[a-z, ]*\b(?:ark|scp)\b)([a-z, ]+):(.*)", re.DOTALL)  # Kaldi rspecifier or wspecifier
_JOB = r"(?<![A-Za-z0-9])JOB(?![A-Za-z0-9])"
_URL = re.compile(r"(?!file:|local:)(?:[a-z0-9+.-]+::)*[a-z][a-z0-9+.-]+://.")
Identity = tuple[int, int] | str  # device and inode of a local file, which all its links share, or URL of a remote file
UNKNOWN_SIZE = 1 << 62
_KEY = rb"\S{1,4096} "
_MARKS = (
    (_KEY + rb"(?:\0B)?\xd6\xfd\xb2\x7e", "a Kaldi archive of lattices or other FSTs"),
    (_KEY + rb"\0B[FDC]M", "a Kaldi archive of matrices"),
    (_KEY + rb"\0B", "a binary Kaldi archive"),
    (rb"(?:\0B)?<Nnet3>", "a Kaldi nnet3 network"),
    (rb"\0B<ConstArpaLm>", "a Kaldi const-arpa language model"),
    (rb"(?:\0B)?<TransitionModel>", "a Kaldi acoustic model"),
    (rb"\0B", "a binary Kaldi file"),
    (rb"\xd6\xfd\xb2\x7e", "an OpenFst FST"),
    (rb"mmap lm http://kheafield\.com/code", "a KenLM language model"),
    (rb"\s*\\data\\\s", "a language model in ARPA format"),
    (rb"PK\x03\x04.{0,508}data\.pkl", "a PyTorch file"),
    (rb"PK\x03\x04", "a zip file"),
    (rb"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19\.", "an old PyTorch file"),
    (rb"\x80[\x02-\x05].", "a Python pickle"),
    (rb"\x93NUMPY", "a numpy array"),
    (rb".{4}\0{4}\{\"", "a safetensors file"),
    (rb"ARROW1\0|\xff{4}.{4}", "an Arrow file"),
    (rb"\x1f\x8b", "a gzip file"),
    (rb"\x89PNG|\xff\xd8\xff|GIF8[79]a", "a picture"),
    (rb"%PDF-", "a PDF document"),
    (rb"RIFF.{4}WAVE|fLaC\0|OggS\0", "an audio file"),
    (rb"\x7fELF", "a program"),
    (rb".{257}ustar", "a tar file"),
)
KIND_HEAD = 1 << 13  # number of first bytes from which the type of a file is detected
CHUNK = 1 << 20
BOM = b"\xef\xbb\xbf"  # byte-order mark of UTF-8


def names_job(name: str) -> bool:
    """Return whether a file name of an output contains the placeholder ``JOB`` for a number, as in Kaldi's scripts."""
    return with_number(name, "") != name


def with_number(name: str, number: str) -> str:
    """Replace ``JOB`` in the file names of an output with a number; names of folders are not changed."""
    separator = "," if SPECIFIER.fullmatch(name) else "\0"  # a null character does not occur in paths
    files = (file.rpartition("/") for file in name.split(separator))
    return separator.join(folder + slash + re.sub(_JOB, number, base) for folder, slash, base in files)


def is_remote(path: str) -> bool:
    """Return whether a name is the URL of a remote file."""
    return _URL.match(path) is not None


def is_file(path: str) -> bool:
    """Return whether a path or URL refers to an existing file."""
    return remote.is_file(path) if is_remote(path) else os.path.isfile(path)


def identity_of(path: str) -> Identity | None:
    """Return the identity of a regular file (the same for all its names), or None if there is no such file."""
    if is_remote(path):
        return remote.identity_of(path) if remote.is_file(path) else None
    try:
        return identity(os.stat(path))
    except (OSError, ValueError):
        return None


def identity(status: os.stat_result) -> Identity | None:
    """Return the device and inode of a regular file, or None for a pipe, device or folder."""
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None


def is_read_once(path: str) -> bool:
    """Return whether a path can be read only once, because it is stdin, a pipe or a device."""
    if path == STDIN:
        return True
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


class Place(NamedTuple):
    """The location of bytes to read: a file, a byte range of a file, a command, or stdin."""

    path: str  # file or URL; "-" is stdin
    offset: int = 0  # byte offset at which reading begins
    command: str | None = None  # shell command whose output is read instead of a file
    end: int | None = None  # byte offset at which reading ends; None reads to the end of the file
    line: int = 0  # number of lines of a text file before the offset
    plain: bool = False  # reject pipes and devices, because the name comes from another file

    @property
    def name(self) -> str:
        """Name of the stream in error messages."""
        return f"{self.command} |" if self.command else "standard input" if self.path == STDIN else self.path


class Table(NamedTuple):
    """A lattice file in any format, a script file, or a folder."""

    place: Place
    kind: Literal["ark", "scp", "any", "folder"] = (
        "ark"  # "any": detected from the content, which may also be a file list
    )
    permissive: bool = False  # skip the lattices of a script file that cannot be read


def by_suffix(path: str) -> Literal["scp"] | None:
    """Return "scp" if a path has the extension ``.scp``, else None."""
    return "scp" if path.endswith(".scp") else None


class Guard:
    """Guard that prevents the outputs of a run from replacing its inputs.

    Args:
        inputs: Paths of the inputs that are known before the run; iterated only if an output already exists.
    """

    def __init__(self, inputs: Iterable[str] = ()) -> None:
        self._inputs = inputs
        self._read: dict[Identity, str] = {}
        self._replaced: dict[Identity, str] = {}

    def read(self, path: str, identity: Identity | None) -> None:
        """Register a file that is being read.

        Raises:
            OptionError: An output of this run replaces the file.
        """
        if identity is not None:
            if identity in self._replaced:
                raise _overwritten(self._replaced[identity], path)
            self._read[identity] = path

    def write(self, path: str) -> None:
        """Register a file that will be written.

        Raises:
            OptionError: The file is an input of this run.
        """
        identity = identity_of(path)
        if identity is None or identity in self._replaced:
            return
        for source in self._inputs:
            if (source_identity := identity_of(source)) is not None:
                self._read.setdefault(source_identity, source)
        self._inputs = ()
        if identity in self._read:
            raise _overwritten(path, self._read[identity])
        self._replaced[identity] = path


def _overwritten(output: str, source: str) -> OptionError:
    prefix = "" if output == source else f"{output}: "
    return OptionError(f"{prefix}{source} is an input and would be overwritten; use another name for the output")


class Stream:
    """A stream of decompressed bytes.

    Args:
        raw: A file, pipe or remote file, which can be compressed with gzip.
        name: Name in error messages.
        size: Size in bytes of a regular file, in which ``seek`` works; None for other files.
        process: Process of the command whose output is read.
        place: Location with the byte range to read; None reads the whole file.
    """

    def __init__(
        self,
        raw: IO[bytes],
        name: str,
        size: int | None = None,
        process: subprocess.Popen[bytes] | None = None,
        place: Place | None = None,
    ) -> None:
        self.name = name
        self.begin, self.end = (0, None) if place is None else (place.offset, place.end)  # offsets in the file
        self.lines = 0 if place is None else place.line  # number of lines before `begin`
        self._process = process
        self._raw = raw
        self._lock = threading.Lock()  # held while the file is read, because another thread may close the stream
        self._closed = False
        self._bytes_left = size
        self._position = 0  # position in the file; not used if the stream is gzip
        self._unpacked: GzipReader | None = None
        self._readinto: Callable[[memoryview], int | None] = raw.readinto  # type: ignore[attr-defined]
        head = b""
        try:
            while len(head) < len(GZIP_MAGIC) and (more := raw.read(len(GZIP_MAGIC) - len(head))):
                head += more
        except OSError as error:
            raise self._failure(error) from error
        self._head = head
        if head.startswith(GZIP_MAGIC):
            self._unpacked = GzipReader(head, raw, name)
            self._readinto = self._unpacked.readinto
            self._head = b""
            self._bytes_left = None

    @property
    def seekable(self) -> bool:
        """Whether ``seek`` works: True for an uncompressed local or remote file, False for a byte range of a file."""
        return self._bytes_left is not None

    @property
    def is_local(self) -> bool:
        """Whether the file can be memory-mapped: it is local and uncompressed, or a byte range of such a file."""
        return (self.seekable or isinstance(self._raw, Range)) and not self._is_remote

    @property
    def _is_remote(self) -> bool:
        return isinstance(self._raw.raw if isinstance(self._raw, Range) else self._raw, RemoteFile)

    @property
    def position(self) -> int:
        """Number of bytes read, counted before decompression."""
        return self._position if self._unpacked is None else self._unpacked.position

    @property
    def bytes_left(self) -> int:
        """Upper bound on the number of bytes that can still be read."""
        return UNKNOWN_SIZE if self._bytes_left is None else self._bytes_left

    def readinto(self, buffer: memoryview) -> int:
        """Read into a buffer; return the number of bytes read, which is 0 at the end of the stream."""
        with self._open():
            return self._read(buffer)

    @contextmanager
    def _open(self) -> Iterator[None]:
        """Keep the file open during a ``with`` block; if the stream is closed meanwhile, close the file afterwards."""
        try:
            with self._lock:
                yield
        finally:
            if self._closed:
                self._close()

    def _read(self, buffer: memoryview) -> int:
        if self._head:
            count = min(len(buffer), len(self._head))
            buffer[:count] = self._head[:count]
            self._head = self._head[count:]
        else:
            try:
                count = self._readinto(buffer) or 0
            except OSError as error:
                raise self._failure(error) from error
        self._position += count
        if self._bytes_left is not None:
            self._bytes_left = max(0, self._bytes_left - count) if count else 0  # the file may have grown or shrunk
        if count == 0 and self._process is not None and self._process.wait() != 0:
            raise InputError(f"the command failed with exit code {self._process.returncode}", self.name)
        return count

    def rest(self) -> bytes:
        """Read all remaining bytes."""
        content = io.BytesIO()  # getvalue() does not copy the bytes
        buffer = memoryview(bytearray(CHUNK))
        while count := self.readinto(buffer):
            content.write(buffer[:count])
        return content.getvalue()

    def head(self, size: int, enough: Callable[[bytes], object] = lambda head: None) -> bytes:
        """Return the next bytes without consuming them.

        Args:
            size: Number of bytes to return; fewer are returned if the stream ends.
            enough: Function that is called with the bytes read so far after each read; if it returns a true value,
                these bytes are returned without waiting for more, because pipes can be slow.
        """
        buffer = bytearray(size)
        count = 0
        while count < size and not (count and enough(bytes(memoryview(buffer)[:count]))):
            if (num_read := self.readinto(memoryview(buffer)[count:])) == 0:
                break
            count += num_read
        self._position -= count
        if self._bytes_left is not None:
            self._bytes_left += count
        head = bytes(memoryview(buffer)[:count])
        self._head = head + self._head
        return head

    def seek(self, offset: int) -> None:
        """Move to an offset in bytes; the stream must be `seekable`."""
        try:
            with self._open():
                size = _size(self._raw)
                self._raw.seek(offset)
        except OSError as error:
            raise self._failure(error) from error
        self._head = b""
        self._position = offset
        self._bytes_left = max(0, (size or 0) - offset)

    def descriptor(self) -> int:
        """Return a new descriptor at the start of a local file; for a byte range, the position is undefined."""
        if self.end is None:
            self.seek(0)
        return os.dup(self._raw.fileno())

    @property
    def identity(self) -> Identity | None:
        """Device and inode of a local file, or the canonical URL of a remote file; None for a pipe."""
        if self._is_remote:
            return identity_of(self.name)
        try:
            return identity(os.fstat(self._raw.fileno()))
        except (AttributeError, OSError):
            return None  # sys.stdin was replaced by an object without a descriptor

    def close(self) -> None:
        """Close the file and terminate the command; if another thread is reading, the file is closed afterwards."""
        self._closed = True
        self._close()
        if self._process is not None:
            self._process.terminate()
            self._process.wait()

    def _close(self) -> None:
        """Close the file unless a thread is reading it.

        Otherwise, a new file could get the same descriptor, and the thread would then read the new file.
        """
        if self._lock.acquire(blocking=False):
            try:
                self._raw.close()
            finally:
                self._lock.release()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _failure(self, error: OSError) -> InputError:
        if isinstance(error, InputError):
            return error
        return InputError(f"cannot be read: {error.strerror or error}", self.name)


def open_stream(place: Place) -> Stream:
    """Open a location (a file, a byte range of a file, a command, or stdin) for reading, beginning at its offset.

    Raises:
        InputError: The file, command or stdin cannot be opened.
        FormatError: The location has an offset, but the file is compressed or is a pipe.
    """
    if place.command is not None:
        import subprocess  # rarely used: only for commands

        process = subprocess.Popen(place.command, shell=True, stdout=subprocess.PIPE)
        assert process.stdout is not None
        return Stream(process.stdout, place.name, process=process)
    raw = open_stdin() if place.path == STDIN else open_raw(place.path, plain=place.plain)
    if place.end is not None:
        raw.seek(place.offset)
        return Stream(cast("IO[bytes]", Range(raw, place.end - place.offset)), place.name, place=place)
    stream = Stream(raw, place.name, None if place.path == STDIN else _size(raw))
    if place.offset and not stream.seekable:
        stream.close()
        raise FormatError(f"an offset ({place.offset}) requires an uncompressed file, not gzip or a pipe", stream.name)
    if stream.seekable:
        stream.seek(place.offset)
    return stream


def _size(raw: IO[bytes]) -> int | None:
    """Return the size of an open file in bytes, or None if it is not a regular file."""
    if isinstance(raw, RemoteFile):
        return raw.size
    status = os.fstat(raw.fileno())
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def open_raw(path: str, *, plain: bool = False) -> IO[bytes]:
    """Open a file, pipe or remote file without decompression.

    Args:
        path: Path or URL.
        plain: Reject pipes and devices.

    Raises:
        InputError: The path cannot be opened.
    """
    if not path:
        raise InputError("the name of an input is empty; if it comes from a shell variable, set the variable")
    if is_remote(path):
        return cast("IO[bytes]", RemoteFile(path))
    try:
        return cast("IO[bytes]", open(_open_regular(path) if plain else path, "rb", buffering=0))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path) from error
    except ValueError as error:
        raise InputError(f"cannot be read: {error}", path.replace("\0", "?")) from error


def _open_regular(path: str) -> int:
    """Open a regular file; do not block if a pipe replaces it in the meantime."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(errno.EINVAL, "a file named in another file must be a regular file, not a pipe or device")
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK)


def without_mark(content: bytes, path: str | os.PathLike[str] | None) -> bytes:
    """Remove the byte-order mark from a text, and warn if there is one."""
    if not content.startswith(BOM):
        return content
    warnings.warn(f"{path or 'text'}: ignoring the byte-order mark at the start", NinjaWarning, stacklevel=2)
    return content[len(BOM) :]


def kind_of(head: bytes) -> str | None:
    """Return the type of a file, such as "a PyTorch file", from its first bytes; None for text and unknown types."""
    return next((kind for mark, kind in _MARKS if re.match(mark, head, re.DOTALL)), None)


def text_of(path: str | os.PathLike[str], *, plain: bool = False) -> str:
    """Return the text of a file, decompressed if it is gzip; for `plain`, see `open_raw`."""
    return decoded(content_of(path, plain=plain), path)


def content_of(path: str | os.PathLike[str], *, plain: bool = False) -> bytes:
    """Return the content of a file or of stdin (``-``), decompressed if it is gzip; for `plain`, see `open_raw`.

    If `plain` is True, ``-`` refers to a file with this name instead of stdin.
    """
    name = os.fspath(path)
    with open_stream(Place(f"./{name}" if name == STDIN and plain else name, plain=plain)) as stream:
        return stream.rest()


def decoded(content: bytes, path: str | os.PathLike[str]) -> str:
    """Decode the content of a file as UTF-8.

    Raises:
        FormatError: The content is not UTF-8 text; the message contains the file type if it is known.
    """
    if (kind := kind_of(content[:KIND_HEAD])) is not None:
        raise FormatError(f"expected text, found {kind}; check the order of the arguments", path)
    try:
        return without_mark(content, path).decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise FormatError(f"not UTF-8 ({error.reason}); convert it with iconv", path, line=line) from error


def mapped(path: str | os.PathLike[str], name: str | None = None) -> memoryview:
    """Map a file into memory; it stays mapped as long as any part of the returned memory is in use.

    Args:
        path: Path of the file.
        name: Name of the file in error messages; None uses the path.
    """
    import mmap  # rarely used: only for model files

    how: dict[str, int] = {"access": mmap.ACCESS_READ}
    if hasattr(mmap, "MAP_POPULATE"):  # map all pages in one call, because computing the checksums reads all pages
        how = {"flags": mmap.MAP_SHARED | mmap.MAP_POPULATE, "prot": mmap.PROT_READ}
    try:
        with open(path, "rb") as file:
            empty = os.fstat(file.fileno()).st_size == 0
            return memoryview(b"" if empty else mmap.mmap(file.fileno(), 0, **how))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", name or os.fspath(path)) from error
