"""Lattices in request and response bodies; no file is opened, even if a body contains a file name."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass

import numpy as np

from ninja._tables import TableWriter
from ninja.errors import FormatError, LatticeError, NinjaError, OptionError, VocabularyError
from ninja.files.gzip import GZIP_MAGIC, GzipReader
from ninja.files.stream import BOM, Stream
from ninja.formats.content import Content, Entry
from ninja.formats.format import HEAD, Format, Reader, WriteSettings, by_mark, formats
from ninja.formats.kaldi import archive as kaldi
from ninja.formats.kaldi.archive import KALDI, MAGIC, Vocabulary
from ninja.formats.unsupported import refusal
from ninja.io.detection import other_kind
from ninja.io.layouts import Plain
from ninja.io.losses import converted
from ninja.io.sources import KALDI_HEAD, KALDI_READ, is_kaldi
from ninja.io.writer import check_key
from ninja.lattice import Lattice, Scales
from ninja.lattice.lattice import check, frozen
from ninja.lattice.symbols import EPSILON, SymbolTable
from ninja.serve.problems import Problem

BODY = "body"  # name of the request body in error messages
DEFAULT_KEY = "utterance"  # key of a lattice whose format stores no key
MAX_NEW_WORDS = 200_000  # maximum number of words that requests can add to a symbol table
KALDI_FORMATS = ("binary", "text")
NO_TABLE = (
    "the lattice contains word ids, but this server was started without --words; send a format that contains words"
)


class Vocabularies:
    """A symbol table that all requests share, and to which new words in requests are added.

    Once requests have added `most` words, later requests get a new table, which limits memory use.

    Args:
        base: Symbol table for lattices that contain word ids, or None.
        most: Maximum number of words that requests can add to a table.
    """

    def __init__(self, base: SymbolTable | None, most: int = MAX_NEW_WORDS) -> None:
        self._base = base
        self._most = most
        self._known = Vocabulary.of(base).known
        self._lock = threading.Lock()
        self._current = self._new()

    def current(self) -> Vocabulary:
        """Return the current symbol table, with a mask of the word ids that lattices may contain."""
        with self._lock:
            assert self._current.words is not None
            if len(self._current.words) - (1 if self._base is None else len(self._base)) > self._most:
                self._current = self._new()
            return self._current

    def _new(self) -> Vocabulary:
        return Vocabulary(SymbolTable.growing() if self._base is None else self._base.growing_copy(), self._known)

    def refuse_new_words(self, lattice: Lattice) -> None:
        """Check that a lattice contains no words that requests have added; used for formats that store only ids.

        Raises:
            VocabularyError: The lattice contains such a word, or the server has no symbol table.
        """
        used, known = np.unique(lattice.word), self._known
        if known is None or (used >= len(known)).any() or not known[used].all():
            message = "the format stores word ids, but not all words of the lattice are in the server's symbol table"
            raise VocabularyError(f"{message}; choose a format that contains words", key=lattice.key)

    def attach(self, lattice: Lattice) -> Lattice:
        """Return a copy of a lattice with word ids from the current symbol table, to which new words are added.

        Raises:
            VocabularyError: The lattice contains word ids instead of words, but the server has no symbol table for
                word ids.
            TableError: A word id in the lattice is not in the server's symbol table.
        """
        vocabulary = self.current()
        words = vocabulary.words
        assert words is not None
        if lattice.words is None:
            if vocabulary.known is None:
                if lattice.word.any():
                    raise VocabularyError(NO_TABLE, key=lattice.key)
                return lattice.with_words(words)
            return vocabulary.attach(lattice)
        used = np.unique(lattice.word)
        used = used[used != EPSILON]
        ids = np.array(words.intern(lattice.words.words_of(used.tolist())), np.int32)
        word = np.zeros(lattice.num_arcs, np.int32)
        spoken = lattice.word != EPSILON
        word[spoken] = ids[np.searchsorted(used, lattice.word[spoken])]
        return lattice.replace(word=frozen(word), words=words)


def unpacked(body: bytes, most: int, advice: str) -> bytes:
    """Decompress a body if it is compressed with gzip.

    Args:
        body: The body.
        most: Maximum number of bytes in the decompressed content.
        advice: Advice to the user in the error message for larger content.

    Raises:
        Problem: The decompressed content has more than `most` bytes.
        FormatError: The gzip stream is damaged.
    """
    if not body.startswith(GZIP_MAGIC):
        return body
    reader = GzipReader(b"", io.BytesIO(body), BODY)
    buffer = memoryview(bytearray(1 << 16))
    content = io.BytesIO()
    while count := reader.readinto(buffer):
        content.write(buffer[:count])
        if content.tell() > most:
            raise Problem(413, f"the body unpacks to more than {most} bytes; {advice}")
    return content.getvalue()


def check_arcs(lattice: Lattice, most: int) -> None:
    """Raise `Problem` if a lattice has too many arcs."""
    if lattice.num_arcs > most:
        message = f"the lattice has {lattice.num_arcs} arcs, but at most {most} are allowed; prune it first"
        raise Problem(413, message, lattice.key)


def read_lattice(body: bytes, format: str | None, key: str | None, vocabularies: Vocabularies) -> Lattice:
    """Read the only lattice in a body.

    Args:
        body: The content of a file, not compressed.
        format: Name of the format; None detects it.
        key: Key for the lattice; None keeps the key in the body, if the format stores keys.
        vocabularies: The server's symbol tables.

    Raises:
        NinjaError: The body cannot be read, or does not contain exactly one lattice.
    """
    lattices: list[Lattice] = []
    for entry_key, entry in _entries(body, format, key):
        if isinstance(entry, NinjaError):
            entry.path = BODY
            raise entry
        lattices.append(entry if key is None else entry.with_key(key))
        if entry_key and key is None and entry.key != entry_key:
            lattices[-1] = entry.with_key(entry_key)
        if len(lattices) > 1:
            raise FormatError("the body contains several lattices; send each lattice in a separate request", BODY)
    if not lattices:
        raise FormatError("the body contains no lattice", BODY)
    lattice = lattices[0]
    check(lattice)
    return vocabularies.attach(lattice)


def _entries(body: bytes, name: str | None, key: str | None) -> Iterator[Entry]:
    stream = Stream(io.BytesIO(body), BODY)
    head = stream.head(HEAD)
    format = format_of(head, name)
    if format is None or format.read == KALDI_READ or format.name in KALDI_FORMATS:
        if head.startswith(BOM):
            stream.readinto(memoryview(bytearray(len(BOM))))
        batches = (
            iter([kaldi.bare(stream, key or DEFAULT_KEY, Vocabulary())])
            if head.startswith(MAGIC)
            else kaldi.archive(stream, Vocabulary())
        )
        for batch in batches:
            yield from batch.entries()
        return
    content = Content(stream, "")  # the path is empty, because there is no file
    content.key = key or DEFAULT_KEY
    options = {"key": "utterance"} if format.name == "slf" else {}  # a file name is not available as key
    yield from Reader.of(format, options).entries(content, None)


def format_of(head: bytes, name: str | None, known: Sequence[str] = ()) -> Format | None:
    """Return the format of a body, or None for Kaldi archives.

    Args:
        head: The first bytes of the body, not compressed.
        name: Name of the format; None detects it.
        known: Names of the formats that may be specified.  [default: all formats that are allowed in requests]

    Raises:
        OptionError: The specified format is not allowed.
        FormatError: The format is not recognised.
    """
    if name is not None and name != KALDI:
        return _named(name, known or readable(), "requests")
    format = by_mark(head)
    if format is None and not is_kaldi(head[:KALDI_HEAD]):
        reason = refusal(head) or other_kind(head) or "the format is not recognised; specify it in 'format'"
        raise FormatError(reason, BODY)
    return format


def _named(name: str, known: Sequence[str], purpose: str) -> Format:
    """Return the format that has the given name or alias.

    Raises:
        OptionError: The format is not one of the known formats, or the name contains options, which are not
            allowed because they may refer to files.
    """
    for format in formats():
        if format.name in known and name in (format.name, *format.aliases):
            return format
    raise OptionError(f"{name!r} is not a format for {purpose}; choose one of {', '.join(known)}")


def readable() -> list[str]:
    """Return the names of the formats that are allowed in requests."""
    names = (format.name for format in formats() if format.read is not None and format.of_folder is None)
    return [KALDI, *names]


def writable() -> list[str]:
    """Return the names of the formats that are allowed in responses."""
    return [format.name for format in formats() if _is_writable(format)]


def _is_writable(format: Format) -> bool:
    write = format.write
    if write is None or write.rewrites_files or write.files == "named" or format.name == "parquet":
        return False
    return format.name in KALDI_FORMATS or write.encode is not None or write.encoder is not None


def output_format(name: str) -> Format:
    """Return the format for a response.

    Raises:
        OptionError: There is no such format, or it is not available for responses.
    """
    return _named(KALDI_FORMATS[0] if name == KALDI else name, writable(), "responses")


def write_lattice(lattice: Lattice, format: Format, scales: Scales, n: int) -> bytes:
    """Encode a lattice in a format, after conversion to an n-best list or a confusion network if necessary.

    Args:
        lattice: The lattice.
        format: See `output_format`.
        scales: Scales for combining the costs in formats that store a single cost and have options for scales.
        n: Maximum number of hypotheses in formats for n-best lists.

    Raises:
        LatticeError: The format cannot store the lattice.
    """
    assert format.write is not None
    check_key(lattice.key, format.write, "utf-8")
    if format.name in KALDI_FORMATS:
        table = TableWriter(text=format.name == KALDI_FORMATS[1])
        table.append(lattice, lattice.key.encode("utf-8", "surrogateescape"), lattice.kind == "compact")
        return bytes(table.view())
    values = {"acoustic_scale": scales.acoustic, "lm_scale": scales.lm, "word_penalty": scales.word_penalty, "n": n}
    options = format.write.options
    names = [field.name for field in fields(options)] if is_dataclass(options) else []
    known_values = {name: value for name, value in values.items() if name in names}
    settings = WriteSettings(None if options is None else options(**known_values), None)
    item, _ = converted(lattice, format, settings, with_names="ids" not in format.keeps or "names" in format.keeps)
    encoder = Plain(format.write, settings) if format.write.encoder is None else format.write.encoder(settings)
    try:
        return encoder.add(item) + encoder.end()
    except UnicodeEncodeError as error:
        raise LatticeError("a word or the key cannot be encoded as UTF-8", key=lattice.key) from error
