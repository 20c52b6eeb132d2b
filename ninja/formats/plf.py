"""Reader and writer for Moses lattices (PLF, the Python lattice format), one per line.

Arc scores that ``PlfOptions`` does not select are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ninja import _formats
from ninja.errors import FormatError, NinjaError, OptionError
from ninja.formats import textual
from ninja.formats.content import Content, Entry, Naming, Pieces, check_choice, check_encoding, keyed, numbered_lines
from ninja.formats.format import Field, Format, Read, Write
from ninja.formats.textual import kept_costs
from ninja.lattice import Lattice
from ninja.lattice.lattice import check_finite, check_one_cost
from ninja.lattice.symbols import EPSILON_NAME, SymbolTable

NULL = "*EPS*"
_FIRST = re.compile(rb"""\s*(\(\s*\)\s+)*\(\s*\(\s*\(\s*['"]|\s*(\(\s*\)\s*)+\Z""")
_KINDS: dict[str, int] = {"auto": 0, "log": 1, "probability": 2, "score": 3}


@dataclass(frozen=True, slots=True)
class PlfOptions:
    """Options for reading a PLF lattice."""

    # Meaning of scores. "log": log-probabilities; "score": any natural logarithms; "auto": detect for each line whether
    # scores are log-probabilities or probabilities.
    scores: Literal["auto", "log", "probability", "score"] = "auto"
    graph: int | None = 0  # index of the score that becomes the graph cost, if any
    acoustic: int | None = None  # index of the score that becomes the acoustic cost
    fold: Literal["never", "null"] = "null"  # null: *EPS* arcs into the last state become final costs
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        check_encoding(self.encoding)
        check_choice("scores", self.scores, *_KINDS)
        for index in (self.graph, self.acoustic):
            if index is not None and not 0 <= index < 1000:
                raise OptionError(f"the score index {index} is out of range; indices are 0 to 999")
        if self.graph is not None and self.graph == self.acoustic:
            message = f"score {self.graph} cannot be both the graph and the acoustic cost"
            raise OptionError(f"{message}; set graph=none if it is the acoustic cost")


def read_plf(
    content: bytes,
    key: str,
    path: str | None = None,
    words: SymbolTable | None = None,
    options: PlfOptions = PlfOptions(),
    *,
    line: int = 1,
) -> Lattice:
    """Read a lattice from one line of a PLF file.

    The columns become states, and a final state follows the last one. The first score of an arc becomes its graph cost;
    other scores are ignored unless ``options`` selects them. By default, scores are interpreted as probabilities (as in
    Moses) if all are 1, or if all are in (0, 1] and the scores of the first column sum to 1. Otherwise, they are
    interpreted as natural log-probabilities (as in Joshua). A line without columns, or an empty line, represents the
    empty sentence. The lattice has no times.

    Args:
        content: The line, with or without its newline.
        key: Utterance id.
        path: File name for messages.
        words: Symbol table that must contain the words.  [default: a new table]
        options: Options of the format.
        line: Line number for messages.

    Raises:
        FormatError: The line is not a PLF lattice, is truncated, or has scores that do not match ``options``.
        LatticeError: No path leads from the first state to the last, or a cost exceeds the range of float32.
        SymbolError: A word is not in ``words``.

    Source: Moses, "Word lattices" (PLF); C. Dyer et al., 2008, "Generalizing word lattice translation".
    """
    content = bytes(content)
    inside = content.rstrip(b"\r\n")
    if b"\n" in inside:
        message = "there is more than one line; pass each line separately"
        raise FormatError(message, path, key=key, line=line + 1)
    result = _formats.read_plf(
        inside,
        line,
        path,
        key,
        kind=_KINDS[options.scores],
        graph=-1 if options.graph is None else options.graph,
        acoustic=-1 if options.acoustic is None else options.acoustic,
        fold=1 if options.fold == "null" else 0,
        null=[name.encode() for name in (NULL, EPSILON_NAME)],
    )
    return Naming(key, path, words, options.encoding).lattice(result)


def read_plfs(
    content: Pieces,
    path: str | None = None,
    words: SymbolTable | None = None,
    options: PlfOptions = PlfOptions(),
    key_of: Callable[[int], str] = str,
) -> Iterator[Lattice | NinjaError]:
    """Yield the lattices in a PLF file, or their errors; ``key_of`` returns the key for a 1-based line number."""
    for number, line, _ in numbered_lines(content):
        key = key_of(number)
        try:
            yield read_plf(line, key, path, words, options, line=number)
        except NinjaError as error:
            error.key = error.key or key
            yield error


@dataclass(frozen=True, slots=True)
class PlfWriteOptions:
    """Options for ``write_plf``."""

    # Scores to write. "total": acoustic_scale * acoustic + graph; "both": the unscaled graph and acoustic scores.
    scores: Literal["total", "graph", "acoustic", "both"] = "total"
    acoustic_scale: float = 1.0

    def __post_init__(self) -> None:
        check_finite("acoustic_scale", self.acoustic_scale)
        check_one_cost("scores", self.scores, self.acoustic_scale)


def write_plf(
    lattice: Lattice,
    words: SymbolTable | None = None,
    options: PlfWriteOptions = PlfWriteOptions(),
    encoding: str = "utf-8",
) -> bytes:
    """Encode a lattice as one line of a PLF file.

    Scores are natural logarithms, written as the shortest decimal numbers that are read back as the same cost. Final
    costs become *EPS* arcs to an additional last state, unless the last state is the only final one and has no cost.
    Times and alignments are not written.

    Raises:
        LatticeError: No path leads to a final state.

    Source: Moses, "Word lattices" (PLF).
    """
    textual.refuse_pathless(lattice)
    check_encoding(encoding)
    place, names = textual.spelled(lattice, words, NULL, encoding)
    for name in names:
        if b"\n" in name or not name:
            textual.refuse_spaces(name, lattice.key)
    labels = [b"'" + name.replace(b"\\", b"\\\\").replace(b"'", b"\\'") + b"'" for name in names]
    final = np.flatnonzero(lattice.is_final)
    last = textual.plain_end(lattice)
    has_end = (
        last is None or last < lattice.num_states - 1 or textual.would_fold(lattice, last)
    )  # final costs need an additional state
    end = lattice.num_states if has_end else lattice.num_states - 1

    def columns(graph: npt.NDArray[np.float32], acoustic: npt.NDArray[np.float32]) -> list[str]:
        if options.scores == "both":
            rows = zip(_digits(graph), _digits(acoustic), strict=True)
            return [f"{first}, {second}" for first, second in rows]
        return _digits(textual.one_cost(graph, acoustic, options.scores, options.acoustic_scale).astype(np.float32))

    score = columns(lattice.graph, lattice.acoustic)
    final_score = dict(
        zip(final.tolist(), columns(lattice.final_graph[final], lattice.final_acoustic[final]), strict=True)
    )
    begin, dst = lattice.arc_begin.tolist(), lattice.dst.tolist()
    parts = [b"("]
    for state in range(end):
        parts.append(b"(")
        for arc in range(begin[state], begin[state + 1]):
            parts.append(b"(%s, %s, %d)," % (labels[place[arc]], score[arc].encode(), dst[arc] - state))
        if has_end and state in final_score:
            parts.append(b"('%s', %s, %d)," % (NULL.encode(), final_score[state].encode(), end - state))
        parts.append(b"),")
    parts.append(b")\n")
    return b"".join(parts)


def _digits(cost: npt.NDArray[np.float32]) -> list[str]:
    """Return each score as the shortest decimal number that is read back as the same cost."""
    return [f"{value!s}" for value in (0 - cost)]


def _entries(content: Content, words: SymbolTable | None, options: PlfOptions) -> Iterator[Entry]:
    return keyed(read_plfs(content.blocks(), content.name, words, options, content.numbered))


def _stored_fields(keeps: frozenset[Field], options: PlfWriteOptions) -> frozenset[Field]:
    if options.scores == "both":
        return keeps | {"apart"}
    return kept_costs(keeps, options.scores, options.acoustic_scale)


FORMAT = Format(
    name="plf",
    about="Moses lattices (PLF), one per line",
    extensions=(".plf",),
    mark=_FIRST.match,
    read=Read(_entries, PlfOptions),
    keeps=frozenset({"paths", "graph", "acoustic", "unscaled", "names"}),
    write=Write(textual.text_encoder(write_plf), options=PlfWriteOptions, keeps=_stored_fields),
)
