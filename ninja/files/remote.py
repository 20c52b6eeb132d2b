"""Files in object stores and HDFS, named by URLs (``s3://…``, ``gs://…``, ``hdfs://…``) and accessed through fsspec.

Sources are read in ranges. Outputs are written to a local temporary file and uploaded when they are complete, because
an exception in the ``with`` block of an open S3 file would close the file and thus publish a truncated object.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ninja.errors import DependencyError, InputError, NinjaError, OptionError, OutputError, StoreError

INSTALL = "pip install 'ninja-asr[cloud]'"
FIRST_RANGE, LARGEST_RANGE = 1 << 18, 1 << 23  # bytes per request; the number doubles while reading is sequential
_STORES = {
    "s3",
    "s3a",
    "gs",
    "gcs",
    "az",
    "abfs",
    "abfss",
}  # object stores, in which an object appears only when its upload is complete
# A subset of fsspec's protocols, because some other protocols run code or open URLs in files.
SCHEMES = frozenset({*_STORES, "hdfs"})
_MAGIC = re.compile(r"[*?[]")


def is_file(url: str) -> bool:
    """Return whether a URL refers to an existing file."""
    with _store_errors(url):
        system, name = _file_system(url)
        return bool(system.isfile(name))


def identity_of(url: str) -> str:
    """Return the canonical URL of a file, which is the same for all URLs that refer to the file."""
    with _store_errors(url):
        system, name = _file_system(url)
        return str(system.unstrip_protocol(name))


def state_of(url: str) -> tuple[int | None, str]:
    """Return ``(size, tag)``: the size in bytes (None for a missing file), and a tag that changes with the content."""
    with _store_errors(url):
        system, name = _file_system(url)
        try:
            details = system.info(name)
        except FileNotFoundError:
            return None, ""
    return int(details["size"]), _tag(details)


def _tag(details: dict[str, Any]) -> str:
    """Return the value of the first field that changes if the file is overwritten."""
    fields = ("ETag", "etag", "mtime", "LastModified", "created")
    return next((str(details[field]) for field in fields if details.get(field)), "")


def matching(pattern: str) -> list[str]:
    """Return the URLs that match a pattern, in any order; for a URL without a pattern, return only this URL.

    ``JOB`` in the file name matches a number.
    """
    base = pattern.rpartition("/")[2]
    if "JOB" not in base and not _MAGIC.search(pattern):
        return [pattern]
    with _store_errors(pattern):
        system, name = _file_system(pattern)
        paths = system.glob(name if "JOB" not in base else name[: -len(base)] + base.replace("JOB", "*"))
        urls = [_check_inside(str(system.unstrip_protocol(path)), pattern, system) for path in paths]
    shape = re.compile(re.escape(base).replace("JOB", r"\d+")) if "JOB" in base else re.compile(r"[^.].*", re.DOTALL)
    return [url for url in urls if shape.fullmatch(url.rpartition("/")[2])]


def listing(folder: str) -> tuple[list[str], list[str]]:
    """Return ``(file URLs, subfolder URLs)`` for a folder in any order, without hidden files and subfolders."""
    urls: tuple[list[str], list[str]] = [], []
    with _store_errors(folder):
        system, name = _file_system(folder)
        for entry in system.ls(name, detail=True):
            if entry["name"].rstrip("/") == name.rstrip("/"):  # skip the empty object that consoles create for a folder
                continue
            url = _check_inside(
                str(system.unstrip_protocol(entry["name"])).rstrip("/"), f"{folder.rstrip('/')}/", system
            )
            if not url.rpartition("/")[2].startswith("."):
                urls[entry["type"] == "directory"].append(url)
    return urls


def _check_inside(url: str, request: str, system: Any) -> str:
    """Return a URL listed by a store if it is inside the requested folder; raise `InputError` otherwise."""
    plain = _MAGIC.split(request, maxsplit=1)[0].partition("JOB")[0]
    folder = str(system.unstrip_protocol(system._strip_protocol(plain.rpartition("/")[0])))
    if ".." in url.split("/") or not url.startswith(folder.rstrip("/") + "/"):
        raise InputError(f"the store lists {url!r}, which is not in this folder", request)
    return url


def put(path: str, url: str) -> None:
    """Upload a local file to a URL atomically.

    Raises:
        OutputError: The file cannot be written.
    """
    with _store_errors(url, OutputError):
        system, name = _file_system(url)
        if url.partition("://")[0] in _STORES:
            system.put_file(path, name)
        else:
            folder, _, base = name.rpartition("/")
            part = f"{folder}/.{base}.{os.urandom(4).hex()}.part"
            system.makedirs(folder, exist_ok=True)
            try:
                system.put_file(path, part)
                _replace(system, part, name)
            except BaseException:
                if system.exists(part):
                    system.rm_file(part)
                raise


def _replace(system: Any, part: str, name: str) -> None:
    """Rename a file; an existing file with the new name is removed only after the rename has succeeded."""
    try:
        system.mv(part, name)
    except Exception:  # some file systems cannot rename a file to an existing name
        if not system.exists(part) or not system.exists(name):
            raise
    else:
        return
    old = f"{part.removesuffix('.part')}.old"
    system.mv(name, old)
    try:
        system.mv(part, name)
    except BaseException:
        system.mv(old, name)
        raise
    with suppress(Exception):  # ignore errors, because the output is complete; at worst, a hidden file remains
        system.rm_file(old)


def remove(url: str) -> None:
    """Remove a file if it exists."""
    with _store_errors(url, OutputError):
        system, name = _file_system(url)
        if system.isfile(name):
            system.rm_file(name)


def check_target(url: str) -> None:
    """Check that the credentials for an output are valid and that its bucket exists.

    Raises:
        OutputError: The output cannot be written.
    """
    with _store_errors(url, OutputError):
        system, name = _file_system(url)
        if url.partition("://")[0] in _STORES:
            bucket, _, key = name.strip("/").partition("/")
            if not key:
                raise OutputError("is a bucket, not a file; append / and the name of a file", url)
            with suppress(PermissionError):  # an account may be allowed to write, but not to list
                system.info(bucket)


def part_of(url: str) -> str:
    """Return the path of the local temporary file for an output, in a folder that belongs to the user.

    Raises:
        OutputError: The folder cannot be created, or belongs to another user.
    """
    import hashlib
    import tempfile

    folder = os.path.join(tempfile.gettempdir(), f"ninja-{os.getuid()}")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        is_own = os.lstat(folder).st_uid == os.getuid()
    except OSError as error:
        raise OutputError(f"cannot be created: {error.strerror}; set TMPDIR to another folder", folder) from error
    if not is_own:
        raise OutputError("belongs to another user; set TMPDIR to another folder", folder)
    digest = hashlib.sha256(identity_of(url).encode()).hexdigest()[:16]
    return os.path.join(folder, f".{os.path.basename(url)[-100:]}.{digest}.part")


class RemoteFile(io.RawIOBase):
    """A remote file that is read in ranges, which double in size as long as the file is read sequentially.

    The size and tag of the file show whether all ranges belong to the same version. If the file is read sequentially,
    they are requested when the file is opened, after 2, 4, 8, … ranges, and at the end of the file; otherwise, they are
    requested after each range.

    Raises:
        InputError: The file cannot be opened.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        with _store_errors(url):
            self._system, self._name = _file_system(url)
            details = self._system.info(self._name)
        if details["type"] == "directory":
            raise InputError("is a folder, not a file; append / to read the lattices in a folder", url)
        self.size, self._tag = int(details["size"]), _tag(details)
        self._position = 0
        self._range = b""
        self._begin = 0  # offset of the range
        self._num_ranges = 0  # number of ranges read
        self._length = FIRST_RANGE

    def readable(self) -> bool:
        """Return True, because a remote file is always open for reading."""
        return True

    def seekable(self) -> bool:
        """Return True, because a range can begin at any offset of a remote file."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to an offset and return the new position."""
        before = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.size}[whence]
        self._position = before + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer; return the number of bytes read, which is 0 at the end of the file."""
        view = memoryview(buffer).cast("B")
        offset = self._position - self._begin
        if not 0 <= offset < len(self._range):
            if self._position >= self.size or not len(view):
                return 0
            self._read_range(follows=offset == len(self._range))
            offset = 0
        count = min(len(view), len(self._range) - offset)
        view[:count] = self._range[offset : offset + count]
        self._position += count
        return count

    def _read_range(self, *, follows: bool) -> None:
        self._length = min(2 * self._length, LARGEST_RANGE) if follows else FIRST_RANGE
        begin, end = self._position, min(self._position + self._length, self.size)
        try:
            content = self._system.cat_file(self._name, start=begin, end=end)
            self._num_ranges += 1
            is_due = not follows or end == self.size or self._num_ranges.bit_count() == 1
            is_checked = self._num_ranges > 1 and is_due
            is_same = not is_checked or state_of(self._url) == (self.size, self._tag)
        except Exception as error:  # the exception type depends on the library of the store
            raise StoreError(f"cannot be read: {_reason(error)}", self._url) from error
        if len(content) != end - begin:
            message = f"returned {len(content)} bytes instead of {end - begin}, perhaps because it was overwritten; "
            raise StoreError(f"{message}run the command again", self._url)
        if not is_same:
            raise StoreError("was overwritten while it was being read; run the command again", self._url)
        self._range, self._begin = content, begin


def _file_system(url: str) -> tuple[Any, str]:
    """Return ``(file system, path in the file system)`` for a URL.

    Raises:
        OptionError: The scheme is not supported, or the URL is chained (``::``).
        DependencyError: The library for the store is not installed.
    """
    protocol = url.partition("://")[0]
    if "::" in url:
        raise OptionError(f"{url}: chained URLs (::) are not supported; copy the file first")
    if protocol not in SCHEMES:
        schemes = ", ".join(f"{scheme}://" for scheme in sorted(SCHEMES))
        raise OptionError(f"{url}: {protocol}:// is not supported; use {schemes}, or copy the file first")
    try:
        from fsspec.core import url_to_fs

        system, name = url_to_fs(url)
    except ImportError as error:
        library = getattr(error.__cause__, "name", None) or error.name or "a library"
        raise DependencyError(f"{protocol}:// requires {library}, which is not installed; {INSTALL}") from error
    system.invalidate_cache()  # cached listings lack files that other processes have written in the meantime
    return system, str(name)


@contextmanager
def _store_errors(url: str, kind: type[InputError] | type[OutputError] = InputError) -> Iterator[None]:
    """Convert exceptions from store libraries to Ninja's errors in a ``with`` block."""
    try:
        yield
    except NinjaError:
        raise
    except Exception as error:
        message = "cannot be read" if kind is InputError else "cannot be written"
        raise kind(f"{message}: {_reason(error)}", url) from error


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file or bucket"
    text = getattr(error, "strerror", None) or str(error)
    return (text.partition("\n")[0] or type(error).__name__)[:200]
