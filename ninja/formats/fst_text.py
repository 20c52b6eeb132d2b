"""Reader and writer for OpenFst's text format (see fstprint and fstcompile), with or without symbol tables.

Input labels of transducers are ignored.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ninja import _formats
from ninja.errors import FormatError, LatticeError, SymbolError, TableError
from ninja.formats import textual
from ninja.formats.content import Naming, check_choice, check_encoding, one_lattice, refuse_unended
from ninja.formats.format import HEAD, Field, Format, Read, Write, WriteSettings
from ninja.formats.fst_binary import read_fst
from ninja.formats.fst_image import write_image
from ninja.lattice import Lattice
from ninja.lattice.fst import Fst
from ninja.lattice.symbols import EPSILON, EPSILON_NAME, LARGEST_ID, SymbolTable
from ninja.lattice.word_ids import used_names

_INTEGER = re.compile(rb"[0-9]{1,10}")
_NAMED = re.compile(rb"^[ \t\r\v\f]*\d+[ \t\r\v\f]+\d+[ \t\r\v\f]+(?!\d+[ \t\r\v\f])(\S+)[ \t\r\v\f]+(\d+)", re.M)
_DECIMAL = re.compile(rb"[+-]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][+-]?[0-9]+)?|-[0-9]+")
_STATE_ID = re.compile(rb"\d{1,10}")
_WEIGHT = re.compile(
    rb"[+-]?(?:\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|[iI]nf(?:inity)?|[nN]a[nN]|BadNumber)"
)
_PAIR = re.compile(
    rb"(?=.*\d)[-+\d.eE]*,[-+\d.eE]*(?:,[\d_]*)?"
)  # the two costs, and optionally the labels, of an arc in a Kaldi lattice
_FIELDS, _STATE, _EMPTY, _LOST = 1, 2, 4, 5  # error codes of the kernel


@dataclass(frozen=True, slots=True)
class FstTextOptions:
    """Options for reading an FST in text format."""

    acceptor: bool | None = None  # one label per arc  [default: detected from the lines]
    labels: Literal["auto", "ids", "words"] = "auto"  # auto: ids if every label is an integer
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        check_encoding(self.encoding)
        check_choice("labels", self.labels, "auto", "ids", "words")


def read_fst_text(
    content: bytes,
    key: str,
    path: str | None = None,
    words: SymbolTable | None = None,
    options: FstTextOptions = FstTextOptions(),
    *,
    line: int = 1,
) -> Lattice:
    """Read a lattice from an FST in text format.

    Output labels become the words, and input labels are dropped. Weights become graph costs, and acoustic costs are 0.
    Arcs with the weight Infinity are dropped. The source state in the first line is the start state. If states are not
    in topological order, the reachable states are sorted. Without `words` (``--osymbols``), integer labels are used as
    ids, and a new symbol table is created for names.

    The format has no end mark. A truncated file is detected only if its last line lacks a newline, or if an arc enters
    a state that has no line (fstprint writes at least one line per state).

    Args:
        content: The whole file, or a section of it.
        key: Utterance id.
        path: File name for messages.
        words: Symbol table of the output labels.
        options: Options of the format.
        line: Number of the first line, for messages.

    Raises:
        FormatError: A line is neither an arc nor a final state, a weight is NaN, acceptor and transducer lines are
            mixed, integers after names could be either weights or word ids, or the file is truncated.
        LatticeError: The FST has a cycle, no final state, a weight of -infinity, or a weight that exceeds the range of
            float32.
        SymbolError: A word is not in ``words``.

    Source: OpenFst 1.8.4, script/compile-impl.h (FstCompiler).
    """
    refuse_unended(content, path, key, b"", line)
    naming = Naming(key, path, words, options.encoding)
    acceptor = _is_acceptor(content, naming, options, line)
    spelled = options.labels == "words" or words is not None
    fault, at, field, count, machine = _formats.read_fst_text(content, line, acceptor=acceptor, spelled=spelled)
    if machine is None:
        raise _error(fault, at, field, count, naming, "an acceptor" if acceptor else "a transducer")
    labels, ids, begin, dst, place, costs, final = machine
    table = None
    if ids is None or spelled:
        ids, table = _ids(labels, naming, options)
    word = ids[place]
    lattice = read_fst(write_image(Fst(begin, dst, word, word, costs, final), "log64"), key, path)
    return lattice if table is None else lattice.with_words(table)


def _error(fault: int, line: int, field: bytes, count: int, naming: Naming, kind: str) -> FormatError | LatticeError:
    """Convert an error code of the compiled parser to an exception."""
    if fault == _EMPTY:
        return LatticeError("the FST is empty: it has no states", naming.path, key=naming.key)
    if fault == _FIELDS:
        message = f"the line has {count} fields, but no arc or final state of {kind} has this number of fields"
    elif fault == _LOST:
        message = (
            f"state {field.decode()} has no line; add 'STATE Infinity' for a dead end, or copy a truncated file again"
        )
    else:
        message = f"{_shown(field)} is not a {'state' if fault == _STATE else 'weight'}"
    return FormatError(message, naming.path, key=naming.key, line=line)


def _is_acceptor(content: bytes, naming: Naming, options: FstTextOptions, line: int) -> bool:
    """Return whether arcs have one label instead of two, as set by an option or else inferred from the lines.

    Lines with four fields are ambiguous: they can contain two labels, or a label and a weight. They are assumed to
    contain two labels if the last two fields are equal in all lines.
    """
    if options.acceptor is not None:
        return options.acceptor
    three, five, integers, weights, fourth = _formats.look_at_fst_text(content)
    if five or three:
        return not five
    if options.labels != "words" and integers:
        named = _NAMED.search(content) if options.labels == "auto" else None
        if named is not None:
            message = (
                f"{_shown(named[1])} and {_shown(named[2])} may be a word and its weight, or an input label and a word "
                "id; specify --from fst-text:acceptor=true or --from fst-text:acceptor=false"
            )
            raise FormatError(message, naming.path, key=naming.key, line=line + content.count(b"\n", 0, named.start(1)))
        return False
    if naming.words is not None and options.labels != "ids":
        return not all(label.decode(options.encoding, "replace") in naming.words for label in fourth)
    return weights


def _shown(text: bytes) -> str:
    return repr(text[:40].decode("utf-8", "replace"))


def _ids(
    labels: list[tuple[bytes, int]], naming: Naming, options: FstTextOptions
) -> tuple[npt.NDArray[np.int32], SymbolTable | None]:
    """Return ``(ids, symbol table)``; the ids are int32 [num_labels + 1]: first epsilon, then the id of each label."""
    ids = options.labels == "ids" or (
        options.labels == "auto" and all(_INTEGER.fullmatch(label) for label, _ in labels)
    )
    if not ids:
        for label, line in labels:
            if options.labels == "auto" and naming.words is None and _DECIMAL.fullmatch(label):
                message = (
                    f"{_shown(label)} is not a label; add the missing label or, if this is a word, "
                    "specify --from fst-text:labels=words"
                )
                raise FormatError(message, naming.path, key=naming.key, line=line)
        null = EPSILON_NAME.encode()
        id_of_name, table = naming.table([(label, line) for label, line in labels if label != null])
        word = np.zeros(len(labels) + 1, np.int32)  # the first element is epsilon, 0
        word[[index for index, (label, _) in enumerate(labels, start=1) if label != null]] = id_of_name[1:]
        return word, table
    for label, line in labels:
        if not _INTEGER.fullmatch(label) or int(label) > LARGEST_ID:
            raise FormatError(f"{_shown(label)} is not a label", naming.path, key=naming.key, line=line)
        if naming.words is not None and int(label) != EPSILON:
            try:
                naming.words.word(int(label))
            except SymbolError as error:
                raise TableError(error.message, naming.path, key=naming.key, line=line) from None
    return np.array([EPSILON, *(int(label) for label, _ in labels)], np.int32), naming.words


@dataclass(frozen=True, slots=True)
class FstTextWriteOptions(textual.OneCost):
    """Options for ``write_fst_text``."""

    labels: Literal["ids", "words"] = "ids"  # whether labels are word ids or words; for words, epsilon is <eps>
    acceptor: bool = False  # write the word of an arc once (for fstcompile --acceptor) instead of twice


def write_fst_text(
    lattice: Lattice,
    words: SymbolTable | None = None,
    options: FstTextWriteOptions = FstTextWriteOptions(),
    encoding: str = "utf-8",
) -> bytes:
    """Encode a lattice as an FST in text format: a word acceptor with one cost per arc, without alignments or times.

    Each weight is written as the shortest decimal number that is read back as the same cost. As in fstprint, a weight
    of 0 is omitted, unless the first line of the file could then be mistaken for the key of an archive entry.

    Source: OpenFst 1.8.4, script/print-impl.h (FstPrinter).
    """
    check_choice("labels", options.labels, "ids", "words")
    costs, scale = options.costs, options.acoustic_scale
    if options.labels == "ids":
        names = [str(number) for number in lattice.word.tolist()]
    else:
        place, encoded = textual.spelled(lattice, words, EPSILON_NAME, encoding)
        for name in encoded:
            textual.refuse_spaces(name, lattice.key)
        spelled = [name.decode(encoding) for name in encoded]
        names = [spelled[number] for number in place.tolist()]
    cost = _digits(textual.one_cost(lattice.graph, lattice.acoustic, costs, scale))
    final = lattice.is_final
    ends = np.flatnonzero(final)
    end_cost = textual.one_cost(lattice.final_graph[ends], lattice.final_acoustic[ends], costs, scale)
    end_of = dict(zip(ends.tolist(), _digits(end_cost), strict=True))
    begin, dst = lattice.arc_begin.tolist(), lattice.dst.tolist()
    rows = []
    for state in range(lattice.num_states):
        for arc in range(begin[state], begin[state + 1]):
            label = names[arc] if options.acceptor else f"{names[arc]}\t{names[arc]}"
            rows.append(f"{state}\t{dst[arc]}\t{label}{cost[arc]}\n")
        if state in end_of:
            # Without a weight, the first line would look like the key of an archive entry.
            zero = "\t0" if not rows and lattice.num_states > 1 else ""
            rows.append(f"{state}{end_of[state] or zero}\n")
        elif begin[state] == begin[state + 1]:
            rows.append(f"{state}\tInfinity\n")  # write a line for a dead end even if it has no arc
    return "".join(rows).encode(encoding)


def _digits(cost: npt.NDArray[np.float64]) -> list[str]:
    """Format each cost as text that begins with a tab; the text is empty if the cost is 0."""
    return [f"\t{value!s}" if value else "" for value in cost.astype(np.float32)]


def begins_fst_text(head: bytes) -> bool:
    """Return whether the first line of a file is an arc, or the only line is the final state 0.

    A line with four fields is an arc of a Kaldi lattice, not of an FST, if its last field is a pair of costs.
    """
    rows = [fields for row in head.split(b"\n", 100) if (fields := row.split())][:2]
    if not rows or not _fits(rows[0]):
        return False
    first = rows[0]
    if len(first) < 3:
        return len(rows) == 1 and first[0] == b"0"
    return len(first) != 4 or first[2] == first[3] or not _PAIR.fullmatch(first[3])


def all_fst_text(head: bytes) -> bool:
    """Return whether the first line can be an arc, and all lines can be arcs or final states of an FST.

    This distinguishes an FST from other tables of numbers.
    """
    head = head[: head.rfind(b"\n") + 1] if len(head) == HEAD else head
    rows = [fields for row in head.split(b"\n") if (fields := row.split())]
    return bool(rows) and len(rows[0]) > 2 and all(map(_fits, rows))


def _fits(fields: list[bytes]) -> bool:
    """Return whether the fields of a line can form an arc or a final state."""
    if not _STATE_ID.fullmatch(fields[0]) or len(fields) > 5:
        return False
    if len(fields) <= 2:
        return len(fields) == 1 or _WEIGHT.fullmatch(fields[1]) is not None
    if not _STATE_ID.fullmatch(fields[1]):
        return False
    return len(fields) < 5 or _WEIGHT.fullmatch(fields[4]) is not None


def _encode(lattice: Lattice, settings: WriteSettings) -> bytes:
    textual.refuse_empty(lattice)
    return write_fst_text(lattice, settings.words, settings.options, settings.encoding)


def _stored_fields(keeps: frozenset[Field], options: FstTextWriteOptions) -> frozenset[Field]:
    fields = textual.kept_by_options(keeps, options)
    return fields - {"ids"} | {"names"} if options.labels == "words" else fields


def _misread(lattice: Lattice, settings: WriteSettings) -> list[str]:
    """Return a message that word names are lost if all are numbers, because readers would interpret them as ids."""
    if settings.options.labels == "ids":
        return []
    names = used_names(lattice, settings.words)
    if names and all(name.isascii() and name.isdigit() for name in names):
        return ["word names (numbers are read as ids)"]
    return []


FORMAT = Format(
    name="fst-text",
    about="FST in the text format of fstprint (AT&T), one per file",
    extensions=(".att", ".fst.txt", ".fsa"),
    aliases=("att",),
    mark=begins_fst_text,
    in_folder=all_fst_text,
    read=Read(one_lattice(read_fst_text), FstTextOptions, ids=True, single=True),
    keeps=frozenset({"paths", "graph", "acoustic", "unscaled", "ids"}),
    write=Write(_encode, options=FstTextWriteOptions, files="each", keeps=_stored_fields, also_lost=_misread),
)
