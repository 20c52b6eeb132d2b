"""Words and times of lattices in text formats: strings to ids of a symbol table and back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ninja import _core
from ninja.errors import FormatError, LatticeError, OptionError, SymbolError
from ninja.formats.format import Field
from ninja.lattice import Lattice
from ninja.lattice.arrays import frozen
from ninja.lattice.costs import check_one_cost
from ninja.lattice.symbols import EPSILON, EPSILON_NAME, SymbolTable

DENSE = 10_000_000  # word ids up to which a table by id is cheaper than sorting


@dataclass(frozen=True, slots=True)
class Naming:
    """Conversion of a file's words to ids, and the names for its errors."""

    key: str
    path: str | None
    words: SymbolTable | None  # None: a table of the file's own words is made
    encoding: str = "utf-8"

    def decoded(self, name: bytes, line: int | None = None) -> str:
        """Return a piece of the file as a string."""
        try:
            return name.decode(self.encoding)
        except UnicodeDecodeError as error:
            message = f"not {self.encoding.upper()} ({error.reason}); give the encoding or convert the file with iconv"
            raise FormatError(message, self.path, key=self.key, line=line) from error

    def table(self, found: list[tuple[bytes, int]]) -> tuple[npt.NDArray[np.int32], SymbolTable]:
        """Return the id of each word that a kernel found, the null word before them, and the table.

        Raises:
            FormatError: A word is not of the encoding.
            SymbolError: A word is missing from the table; the message names it and its line.
        """
        names = [self.decoded(name, line) for name, line in found]
        words = self.words
        if words is None:
            words = SymbolTable.from_words(list(dict.fromkeys([EPSILON_NAME, *names])))
        ids = np.array([EPSILON, *words.intern(names)], np.int32)
        if (ids < 0).any():
            missing = int(np.flatnonzero(ids < 0)[0]) - 1
            raise SymbolError(
                f"word {names[missing]!r} is not in the symbol table; is it the right one?",
                self.path,
                key=self.key,
                line=found[missing][1],
            )
        return ids, words

    def lattice(self, found: Mapping[str, Any], frame_shift: float | None = None) -> Lattice:
        """Make a lattice of a kernel's result.

        Raises:
            FormatError: A word is not of the encoding.
        """
        ids, words = self.table(found["words"])
        num_states, num_arcs = len(found["final_graph"]), len(found["dst"])
        return Lattice(
            self.key,
            found["arc_begin"],
            found["dst"],
            frozen(ids[found["word"]]),
            found["graph"],
            found["acoustic"],
            frozen(np.zeros(num_arcs + 1, np.int64)),
            frozen(np.zeros(0, np.int32)),
            found["final_graph"],
            found["final_acoustic"],
            frozen(np.zeros(num_states + 1, np.int64)),
            frozen(np.zeros(0, np.int32)),
            time=found["time"],
            frame_shift=None if found["time"] is None else frame_shift,
            words=words,
        )


def spelled(
    lattice: Lattice, words: SymbolTable | None, null: str, encoding: str = "utf-8"
) -> tuple[npt.NDArray[np.int32], list[bytes]]:
    """Return the index of each arc's word, int32 [num_arcs], and the encoded words.

    Args:
        words: Its symbol table; None: the one attached to it.
        null: Name of epsilon.

    Raises:
        SymbolError: There is no table, a word is missing from it, or is named as epsilon or cannot be encoded.
    """
    table = lattice.words if words is None else words
    largest = int(lattice.word.max(initial=0))
    if largest < DENSE:
        used = np.zeros(largest + 1, np.bool_)
        used[lattice.word] = True
        ids = np.flatnonzero(used)
        rank = np.zeros(largest + 1, np.int32)
        rank[ids] = np.arange(len(ids), dtype=np.int32)
        place = rank[lattice.word]
    else:
        ids, inverse = np.unique(lattice.word, return_inverse=True)
        place = inverse.astype(np.int32)
    names: list[bytes] = []
    for number in ids.tolist():
        if number == EPSILON:
            names.append(null.encode())
            continue
        if table is None:
            raise SymbolError("the words of the lattice have no names; give their symbol table", key=lattice.key)
        name = table.word(number)
        if name == null:
            raise SymbolError(f"the word {name!r} (id {number}) is the name of epsilon in this format", key=lattice.key)
        names.append(encoded(name, encoding, lattice.key))
    return place, names


def frames(lattice: Lattice) -> npt.NDArray[np.int32] | None:
    """Return the frame of each state: its times, else those its alignments give, int32 [num_states]; None: neither."""
    if lattice.time is not None:
        return lattice.time
    if not lattice.has_labels:
        return None
    time, arc = _core.state_times(lattice)
    return time if arc < 0 else None


def end_frame(lattice: Lattice, time: npt.NDArray[np.int32]) -> int:
    """Return the frame at which the last final state is over."""
    final = lattice.is_final
    length = np.diff(lattice.final_ali_begin)
    return max(0, int((time[final] + length[final]).max(initial=0)))


def would_fold(lattice: Lattice, last: int) -> bool:
    """Tell whether reading takes the arcs into a last state for final costs: without words, one from a state."""
    entering = np.flatnonzero(lattice.dst == last)
    if last == 0 or (lattice.word[entering] != EPSILON).any():
        return False
    source = np.searchsorted(lattice.arc_begin, entering, side="right") - 1
    return len(np.unique(source)) == len(source)


def check_encoding(encoding: str) -> None:
    """Refuse an unknown encoding, or one that is no superset of ASCII."""
    try:
        same = "!aZ09 =\t\n".encode(encoding) == b"!aZ09 =\t\n"
    except (LookupError, UnicodeError) as error:
        raise OptionError(f"there is no encoding {encoding!r}") from error
    if not same:
        raise OptionError(f"in the encoding {encoding!r} ASCII has other bytes; convert the file with iconv")


def encoded(text: str, encoding: str, key: str) -> bytes:
    """Return a string as bytes of a file; bytes of a key that were no UTF-8 come back as they were."""
    try:
        return text.encode(encoding, "surrogateescape")
    except UnicodeEncodeError as error:
        raise SymbolError(f"{text!r} cannot be written as {encoding.upper()}", key=key) from error


def checked_shift(frame_shift: float) -> float:
    """Return a frame shift; refuse one that is not above 0."""
    if not 1e-6 <= frame_shift <= 1e6:
        raise OptionError(f"frame_shift is {frame_shift}, but seconds > 0 are needed")
    return frame_shift


@dataclass(frozen=True, slots=True)
class OneCost:
    """The cost that a format of one cost gets."""

    costs: Literal["total", "graph", "acoustic"] = "total"  # acoustic_scale * acoustic + graph, or one as it is
    acoustic_scale: float = 1.0

    def __post_init__(self) -> None:
        check_finite("acoustic_scale", self.acoustic_scale)
        check_one_cost("costs", self.costs, self.acoustic_scale)


def kept_costs(keeps: frozenset[Field], costs: str = "total", acoustic_scale: float = 1.0) -> frozenset[Field]:
    """Return the fields that a format with a single cost keeps."""
    if costs == "acoustic":
        keeps -= {"graph"}
    if costs == "graph" or acoustic_scale == 0.0:
        keeps -= {"acoustic"}
    return keeps if acoustic_scale == 1.0 else keeps - {"unscaled"}


def kept_by_options(keeps: frozenset[Field], options: OneCost) -> frozenset[Field]:
    """Return the fields that a format with these options keeps."""
    return kept_costs(keeps, options.costs, options.acoustic_scale)


def check_finite(name: str, value: float) -> None:
    """Refuse an infinite number and NaN."""
    if not math.isfinite(value):
        raise OptionError(f"{name} is {value}, but must be finite")


def one_cost(
    graph: npt.NDArray[np.float32], acoustic: npt.NDArray[np.float32], costs: str, acoustic_scale: float
) -> npt.NDArray[np.float64]:
    """Return the cost of formats with a single cost, float64.

    Args:
        costs: "total" = ``acoustic_scale * acoustic + graph``; "graph" or "acoustic" as it is.
        acoustic_scale: Factor of the acoustic cost in "total"; with one cost alone it is refused.

    Raises:
        OptionError: ``costs`` is none of these, or the scale is not finite, or not 1 with one cost alone.
    """
    if costs in ("graph", "acoustic"):
        check_one_cost("costs", costs, acoustic_scale)
    if costs == "graph":
        return graph.astype(np.float64)
    if costs == "acoustic":
        return acoustic.astype(np.float64)
    if costs != "total" or not math.isfinite(acoustic_scale):
        raise OptionError(
            f"costs is {costs!r}, acoustic_scale {acoustic_scale}: see the documentation for what there is"
        )
    return acoustic_scale * acoustic.astype(np.float64) + graph


def first_line(head: bytes) -> bytes:
    """Return the first line that is neither empty nor a comment with '#', without blanks around it; b"" if none is."""
    begin = 0
    while begin < len(head):
        end = head.find(b"\n", begin)
        end = len(head) if end < 0 else end
        line = head[begin:end].strip(b" \t\r\v\f")
        if line and not line.startswith(b"#"):
            return line
        begin = end + 1
    return b""


def unended_line(content: bytes, comment: bytes = b"#") -> int:
    """Return the number of a file's last line if nothing ends it, counted from 1; 0: it ends, or says nothing.

    Args:
        content: The whole file, or its end.
        comment: What comments begin with; b"": there are none.
    """
    begin = content.rfind(b"\n") + 1
    rest = content[begin:].strip(b" \t\r\v\f")
    if not rest or (comment and rest.startswith(comment)):
        return 0
    return content.count(b"\n", 0, begin) + 1


def cut_short(path: str | None, key: str | None, line: int) -> FormatError:
    """Return the error of a file whose last line does not end, where half a word or number would look like a whole."""
    message = "the last line does not end: the file may be cut short; if it is whole, end it with a newline"
    return FormatError(message, path, key=key, line=line)


def refuse_unended(content: bytes, path: str | None, key: str | None, comment: bytes = b"#", line: int = 1) -> None:
    """Refuse a file whose last line does not end, unless it is blank or a comment.

    Args:
        key: Utterance id of the lattice that ends there, where it is known.
        comment: As for ``unended_line``.
        line: Number of the first line.

    Raises:
        FormatError: It is cut short, for all that can be seen.
    """
    last = unended_line(content, comment)
    if last:
        raise cut_short(path, key, line - 1 + last)


def refuse_blanks(name: bytes, key: str) -> None:
    """Refuse a name that a format without quotes cannot hold."""
    if not name or any(letter in b" \t\n\v\f\r\0" for letter in name):
        raise SymbolError(f"{name.decode('utf-8', 'replace')!r} cannot be written without quotes", key=key)


def refuse_empty(lattice: Lattice) -> None:
    """Refuse a lattice without a path, which no format but Kaldi's can hold.

    Raises:
        LatticeError: No state is final.
    """
    if not lattice.is_final.any():
        raise LatticeError("no state is final, so there is nothing to write", key=lattice.key)
