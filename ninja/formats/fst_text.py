"""OpenFst's text: the lines that fstprint prints and fstcompile takes, with or without symbol tables."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ninja import _openfst
from ninja.errors import FormatError, LatticeError, OptionError, SymbolError
from ninja.formats import textual
from ninja.lattice import Lattice
from ninja.openfst import from_image
from ninja.symbols import EPSILON, LARGEST_ID, SymbolTable

_INTEGER = re.compile(rb"[0-9]{1,10}")
_WEIGHT = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?|[+-]?[iI]nf(?:inity)?")
Line = tuple[int, list[bytes]]
Refusal = Callable[[str, int | None], FormatError]


@dataclass(frozen=True, slots=True)
class FstTextOptions:
    """How an FST in text is understood."""

    acceptor: bool | None = None  # one label an arc; None: seen from the lines
    labels: Literal["auto", "ids", "words"] = "auto"  # auto: ids if every label is an integer
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        textual.check_encoding(self.encoding)
        if self.labels not in ("auto", "ids", "words"):
            raise OptionError(f"labels is {self.labels!r}, but one of auto, ids, words is needed")


def read_fst_text(
    content: bytes,
    key: str,
    path: str | None = None,
    words: SymbolTable | None = None,
    options: FstTextOptions = FstTextOptions(),
    *,
    line: int = 1,
) -> Lattice:
    """Read the lattice of an FST in text.

    Words are the output labels (input labels are dropped), graph costs the weights, acoustic costs 0. The first line's
    state is the start. States in topological order keep their order; otherwise those that can be reached are sorted.

    Args:
        content: The whole file.
        key: Utterance id the lattice is to have.
        path: File name for error messages.
        words: Symbol table (``--osymbols``) of the output labels; None: ids stay ids, and words get a table of their
            own, epsilon 0.
        options: How the lines are understood.
        line: Number of the first line, for error messages.

    Raises:
        FormatError: A line that is neither an arc nor a final state, or lines of an acceptor and a transducer at once.
        LatticeError: A cycle, no final state, an infinite or NaN weight of an arc.
        SymbolError: A word is not in ``words``.

    Source: OpenFst 1.8.4, script/compile-impl.h (FstCompiler).
    """
    lines = [(number, row) for number, row in enumerate(map(bytes.split, content.split(b"\n")), start=line) if row]
    return _lattice(lines, textual.Naming(key, path, words, options.encoding), options)


def _lattice(lines: list[Line], naming: textual.Naming, options: FstTextOptions) -> Lattice:
    def refuse(message: str, line: int | None) -> FormatError:
        return FormatError(message, naming.path, key=naming.key, line=line)

    if not lines:
        raise LatticeError("the FST is empty: it has no states", naming.path, key=naming.key)
    acceptor = options.acceptor
    if acceptor is None:
        acceptor = _is_acceptor(lines, naming.words, options, refuse)
    most = 4 if acceptor else 5
    arcs: list[tuple[int, int, bytes, int]] = []  # source, destination, label, line
    costs: list[float] = []
    finals: dict[int, float] = {}
    for number, row in lines:
        if len(row) in (1, 2):
            finals[_state(row[0], number, refuse)] = _weight(row[1], number, refuse) if len(row) == 2 else 0.0
        elif most - 1 <= len(row) <= most:
            label = row[2 if acceptor else 3]
            arcs.append((_state(row[0], number, refuse), _state(row[1], number, refuse), label, number))
            costs.append(_weight(row[-1], number, refuse) if len(row) == most else 0.0)
        else:
            kind = "an acceptor" if acceptor else "a transducer"
            raise refuse(f"{len(row)} fields, which neither an arc nor a final state of {kind} has", number)
    word, table = _words([(label, number) for _, _, label, number in arcs], naming, options)
    names = np.array([[arc[0], arc[1]] for arc in arcs], np.int64).reshape(-1, 2)
    first = _state(lines[0][1][0], lines[0][0], refuse)
    states = np.unique(np.concatenate([names.ravel(), list(finals), [first]]).astype(np.int64))
    place = np.searchsorted(states, names)
    start = int(np.searchsorted(states, first))
    if start:  # an image of ours starts in state 0; what comes back is sorted
        place = np.where(place == start, 0, np.where(place == 0, start, place))
    order = np.argsort(place[:, 0], kind="stable")
    final = np.full(len(states), math.inf)
    for state, weight in finals.items():
        at = int(np.searchsorted(states, state))
        final[0 if at == start else start if at == 0 else at] = weight
    begin = np.searchsorted(place[order, 0], np.arange(len(states) + 1)).astype(np.int64)
    dst, word = place[order, 1].astype(np.int32), word[order]
    image = _openfst.write_image("log64", begin, dst, word, word, np.array(costs, np.float64)[order], final)
    lattice = from_image(image, naming.key, naming.path)
    return lattice if table is None else lattice.with_words(table)


def _is_acceptor(lines: list[Line], words: SymbolTable | None, options: FstTextOptions, refuse: Refusal) -> bool:
    """Tell by the lines whether arcs have one label; four fields may be two labels, or one and a weight."""
    if any(len(row) == 5 for _, row in lines):
        return False
    if any(len(row) == 3 for _, row in lines):
        return True
    fourth = [row[3] for _, row in lines if len(row) == 4]
    if options.labels != "words" and all(map(_INTEGER.fullmatch, fourth)):
        return False
    if words is not None and options.labels != "ids":
        return not all(label.decode(options.encoding, "replace") in words for label in fourth)
    return all(map(_WEIGHT.fullmatch, fourth))


def _state(text: bytes, line: int, refuse: Refusal) -> int:
    if not _INTEGER.fullmatch(text) or int(text) > LARGEST_ID:
        raise refuse(f"{_shown(text)} is no state", line)
    return int(text)


def _weight(text: bytes, line: int, refuse: Refusal) -> float:
    if not _WEIGHT.fullmatch(text):
        raise refuse(f"{_shown(text)} is no weight", line)
    return float(text)


def _shown(text: bytes) -> str:
    return repr(text[:40].decode("utf-8", "replace"))


def _words(
    found: list[tuple[bytes, int]], naming: textual.Naming, options: FstTextOptions
) -> tuple[npt.NDArray[np.int32], SymbolTable | None]:
    """Return the id of each label, int32 [arcs], and the symbol table."""
    labels = dict.fromkeys(label for label, _ in found)
    ids = options.labels == "ids" or (options.labels == "auto" and all(map(_INTEGER.fullmatch, labels)))
    if not ids:
        names = {label: line for label, line in reversed(found)}
        null = textual.EPSILON_NAME.encode()
        given, table = naming.table([(label, names[label]) for label in labels if label != null])
        id_of = dict(zip([label for label in labels if label != null], given[1:].tolist(), strict=True))
        id_of[null] = EPSILON
        return np.array([id_of[label] for label, _ in found], np.int32), table
    for label, line in found:
        if not _INTEGER.fullmatch(label) or int(label) > LARGEST_ID:
            raise FormatError(f"{_shown(label)} is no label", naming.path, key=naming.key, line=line)
        if naming.words is not None and int(label) != EPSILON:
            try:
                naming.words.word(int(label))
            except SymbolError as error:
                raise SymbolError(error.message, naming.path, key=naming.key, line=line) from None
    return np.array([int(label) for label, _ in found], np.int32), naming.words


def write_fst_text(
    lattice: Lattice,
    words: SymbolTable | None = None,
    *,
    labels: Literal["ids", "words"] = "ids",
    acceptor: bool = False,
    costs: Literal["total", "graph", "acoustic"] = "total",
    acoustic_scale: float = 1.0,
    encoding: str = "utf-8",
) -> bytes:
    """Return a lattice as an FST in text: a word acceptor with one cost; alignments and times stay behind.

    Weights have the digits that read back as the same cost; those of 0 are left out, as fstprint does.

    Args:
        lattice: The lattice.
        words: Its symbol table, for names; None: the one attached to it.
        labels: "ids": labels are word ids. "words": their names, epsilon ``<eps>``.
        acceptor: One label an arc, for ``fstcompile --acceptor``, rather than the word twice.
        costs: Weight of an arc: "total" = ``acoustic_scale * acoustic + graph``, or one of its two terms.
        acoustic_scale: Factor of the acoustic cost.
        encoding: Of the file.

    Raises:
        OptionError: An argument is none of the above.
        SymbolError: A word has no name, or one with blanks in it.

    Source: OpenFst 1.8.4, script/print-impl.h (FstPrinter).
    """
    if labels not in ("ids", "words"):
        raise OptionError(f"labels is {labels!r}, but ids or words is needed")
    if labels == "ids":
        names = [str(number) for number in lattice.word.tolist()]
    else:
        place, encoded = textual.spelled(lattice, words, textual.EPSILON_NAME, encoding)
        for name in encoded:
            textual.refuse_blanks(name, lattice.key)
        spelled = [name.decode(encoding) for name in encoded]
        names = [spelled[number] for number in place.tolist()]
    cost = _digits(textual.one_cost(lattice.graph, lattice.acoustic, costs, acoustic_scale))
    final = lattice.is_final
    ends = np.flatnonzero(final)
    end_cost = textual.one_cost(lattice.final_graph[ends], lattice.final_acoustic[ends], costs, acoustic_scale)
    end_of = dict(zip(ends.tolist(), _digits(end_cost), strict=True))
    begin, dst = lattice.arc_begin.tolist(), lattice.dst.tolist()
    rows = []
    for state in range(lattice.num_states):
        for arc in range(begin[state], begin[state + 1]):
            label = names[arc] if acceptor else f"{names[arc]}\t{names[arc]}"
            rows.append(f"{state}\t{dst[arc]}\t{label}{cost[arc]}\n")
        if state in end_of:
            rows.append(f"{state}{end_of[state]}\n")
        elif begin[state] == begin[state + 1]:
            rows.append(f"{state}\tInfinity\n")  # a dead end: without a line of its own it may not be there at all
    return "".join(rows).encode(encoding)


def _digits(cost: npt.NDArray[np.float64]) -> list[str]:
    """Return each cost with the tab before it, or nothing where it is 0."""
    return [f"\t{value!s}" if value else "" for value in cost.astype(np.float32)]
