"""Kaldi archives of FSTs: a key and a machine after the other, as OpenFst writes it or in text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from ninja.errors import FormatError, LatticeError, NinjaError, OptionError
from ninja.formats.fst_text import FstTextOptions, read_fst_text, write_fst_text
from ninja.formats.openfst import MAGIC, write_fst
from ninja.formats.textual import EPSILON_NAME
from ninja.lattice import Lattice
from ninja.openfst import ArcType, CostName, image_at, lost_of_image
from ninja.symbols import SymbolTable

LONGEST_KEY = 4096  # bytes
_BLANK = re.compile(rb"[ \t\r\n]")
_END = re.compile(rb"\n[ \t\r]*\n")  # an empty line ends a machine in text


def read_fst_archive(
    content: bytes,
    path: str | None = None,
    words: SymbolTable | None = None,
    lost: Callable[[str, Sequence[str]], None] | None = None,
) -> Iterator[tuple[str, Lattice | NinjaError]]:
    """Read the lattices of a Kaldi archive of FSTs, binary and text machines as they come.

    Words are the output labels, graph costs the weights, acoustic costs 0. A machine that is no lattice, for one
    because it has a cycle, costs only itself; damage in a binary one ends the reading, since nobody knows where the
    next begins.

    Args:
        content: The whole archive.
        path: File name for error messages.
        words: Symbol table to attach; its lack of a word is that lattice's error.
        lost: Told the key of a lattice and what reading it lost, before it comes; None: nobody asks, which is faster.

    Yields:
        Each key with its lattice, or with what is wrong with it.

    Source: Kaldi, fstext/kaldi-fst-io-inl.h (VectorFstTplHolder::Read, ReadFstKaldi).
    """
    at, line, counted = 0, 1, 0
    while at < len(content):
        line, counted = line + content.count(b"\n", counted, at), at
        blank = _BLANK.search(content, at, at + LONGEST_KEY + 1)
        if blank is None or blank.start() == at:
            what = "no key" if blank is not None else "a key without an end"
            yield "", FormatError(f"{what} where an entry begins; the rest is not read", path, byte=at)
            return
        key = content[at : blank.start()].decode("utf-8", "surrogateescape")
        at = blank.start() if blank.group() == b"\n" else blank.end()
        found: Lattice | NinjaError
        begin = at
        is_image = content.startswith(MAGIC, at)
        try:
            if is_image:
                found, at = image_at(content, at, key, path)
            elif _BLANK.match(content, at):
                end = _END.search(content, _first_line(content, at, path, key))
                if end is None:
                    raise FormatError("the archive ends inside this machine: it is cut short", path, key=key, byte=at)
                found, at = _text(content[at : end.end()], line, key, path), end.end()
            else:
                message = "neither an OpenFst image nor text behind the key; the rest is not read"
                raise FormatError(message, path, key=key, byte=at)
        except FormatError as error:
            yield key, error
            return
        if lost is not None and not isinstance(found, NinjaError):
            lost(key, (lost_of_image if is_image else _lost_of_text)(content[begin:at]))
        yield key, found if isinstance(found, NinjaError) else _attached(found, words, path)


def _first_line(content: bytes, at: int, path: str | None, key: str) -> int:
    """Return where the line break before a machine in text lies."""
    start = content.find(b"\n", at)
    if start < 0 or content[at:start].strip():
        raise FormatError("text on the line of the key; the rest is not read", path, key=key, byte=at)
    return start


def _text(content: bytes, line: int, key: str, path: str | None) -> Lattice | NinjaError:
    try:
        # Kaldi's text machines are transducers over integers.
        options = FstTextOptions(acceptor=False, labels="ids")
        return read_fst_text(content, key, path, None, options, line=line)
    except NinjaError as error:  # an empty line follows: the next machine is not lost
        return error


def _lost_of_text(content: bytes) -> tuple[str, ...]:
    """Return what reading leaves out of a sound machine in text, in words, as ``lost_of_image`` does of an image."""
    rows = (row.split() for row in content.split(b"\n"))
    epsilons = (b"0", EPSILON_NAME.encode())
    return ("input labels",) if any(len(row) > 3 and row[2] not in (row[3], *epsilons) for row in rows) else ()


def _attached(lattice: Lattice, words: SymbolTable | None, path: str | None) -> Lattice | NinjaError:
    if words is None or lattice.words is not None:
        return lattice
    try:
        for number in set(lattice.word.tolist()) - {0}:
            words.word(number)
    except NinjaError as error:
        error.key = lattice.key
        return error
    return lattice.with_words(words)


def fst_entry(
    lattice: Lattice,
    *,
    text: bool = False,
    arc_type: ArcType = "standard",
    costs: CostName = "total",
    acoustic_scale: float = 1.0,
) -> bytes:
    """Return a lattice as an entry of a Kaldi archive of FSTs: word acceptors with one cost.

    Args:
        lattice: The lattice.
        text: As in ``ark,t:`` rather than ``ark:``.
        arc_type: Semiring of a binary machine; Kaldi's tools read "standard".
        costs: As for ``write_fst``.
        acoustic_scale: As for ``write_fst``.

    Raises:
        OptionError: An argument is none of those, or the key has blanks in it.
    """
    key = lattice.key.encode("utf-8", "surrogateescape")
    if not key or _BLANK.search(key) or len(key) > LONGEST_KEY:
        raise OptionError("a key of an archive has no blanks and is not empty", key=lattice.key)
    if not text:
        return key + b" " + write_fst(lattice, arc_type, costs, acoustic_scale)
    if not lattice.is_final.any():
        raise LatticeError("no state is final, so there is nothing to write", key=lattice.key)
    return key + b" \n" + write_fst_text(lattice, costs=costs, acoustic_scale=acoustic_scale) + b"\n"


def write_fst_archive(
    lattices: Iterable[Lattice],
    *,
    text: bool = False,
    arc_type: ArcType = "standard",
    costs: CostName = "total",
    acoustic_scale: float = 1.0,
) -> bytes:
    """Return lattices as the bytes of a Kaldi archive of FSTs; see ``fst_entry``."""
    return b"".join(
        fst_entry(lattice, text=text, arc_type=arc_type, costs=costs, acoustic_scale=acoustic_scale)
        for lattice in lattices
    )
