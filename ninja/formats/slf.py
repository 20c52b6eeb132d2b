"""Reader and writer for HTK's standard lattice format (SLF).

The reader uses sizes, base, dir, start, end, key, words, times, sub-lattices, and the scores selected by
``SlfOptions``. It ignores scales, penalties and all other fields of the header, nodes and links. Links
with probability 0 are dropped, and times are rounded to frames. A lattice has no times if any node has no time, or if
sub-lattices are expanded.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ninja import _formats
from ninja.errors import FormatError, LatticeError, OptionError
from ninja.formats import textual
from ninja.formats.content import (
    Naming,
    check_choice,
    check_encoding,
    first_line,
    one_lattice,
    refuse_unended,
)
from ninja.formats.format import Format, Read, Write, WriteSettings
from ninja.lattice import Lattice, Scales
from ninja.lattice.lattice import checked_shift
from ninja.lattice.symbols import EPSILON_NAME, SymbolTable
from ninja.lattice.word_ids import used_names

WordPosition = Literal["auto", "begin", "end"]
Fold = Literal["never", "null", "silent"]

NULL = "!NULL"
SILENT = frozenset({"!ENTER", "!EXIT", "!SENT_START", "!SENT_END", "<s>", "</s>"})
SILENCES = "words that readers interpret as silence (<s> or !ENTER)"  # listed in messages about lost fields
LARGEST = 700.0  # largest absolute cost whose probability, exp(-cost), is safely within the range of float64
_SPECIAL = re.compile(rb"[\x00-\x1f][0-7]?|[\x20\x7f\\]")
_FOLDS: dict[str, int] = {"never": 0, "null": 1, "silent": 2}
_POSITIONS: dict[str, int] = {"auto": 0, "begin": 1, "end": 2}
_COST = re.compile(r"([A-Za-z0-9_]+)(?:\[(\d{1,3})\])?")
_NO_COSTS = {"t", "time", "W", "WORD", "S", "START", "E", "END", "L", "SUBLAT", "I", "J"}
_FIRST = re.compile(  # how the first line of a file begins
    rb"(VERSION|V|UTTERANCE|U|SUBLAT|S|base|start|end|dir|lmname|ngname|vocab|hmms|wdpenalty|(t|ac|lm|ng|pr|du|am|x\d)scale"
    rb"|N|NODES|L|LINKS)="
)
_DURATION = re.compile(r"\(duration=[^()]*\)$")  # SRILM appends the duration to names
_SCALES = {b"acscale": "acoustic", b"lmscale": "lm", b"wdpenalty": "word_penalty"}


@dataclass(frozen=True, slots=True)
class SlfOptions:
    """Options for reading an HTK lattice."""

    # Fields whose sum is the graph cost; () sets this cost to 0.  [default: l and r, if present]
    graph: tuple[str, ...] | None = None
    acoustic: tuple[str, ...] | None = None  # fields whose sum is the acoustic cost, or () for 0  [default: a]
    frame_shift: float = 0.01  # seconds per frame; times are rounded to frames
    silent: frozenset[str] = SILENT  # words that become epsilon, in addition to !NULL
    words_on: WordPosition = "auto"  # whether the word on a node begins or ends at the node
    fold: Fold = "null"  # links into the end node that become final costs: none, !NULL links, or also silent links
    key: Literal["file", "utterance"] = "file"  # whether the key is the file name, or UTTERANCE= if present
    missing_score: float | None = None  # natural-log score for links without a score  [default: raise an error]
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        checked_shift(self.frame_shift)
        check_encoding(self.encoding)
        check_choice("words_on", self.words_on, *_POSITIONS)
        check_choice("fold", self.fold, *_FOLDS)
        check_choice("key", self.key, "file", "utterance")
        if self.missing_score is not None and not math.isfinite(self.missing_score):
            raise OptionError(
                f"missing_score is {self.missing_score}, but must be finite; use 0 for a probability of 1"
            )
        names = [*(self.graph or ()), *(self.acoustic or ())]
        for name in names:
            if not _COST.fullmatch(name) or name in _NO_COSTS:
                raise OptionError(
                    f"{name!r} is not a field with a score; specify names such as l or n, or i[0] for lists"
                )
        if len(set(names)) != len(names) or len(names) > 30:
            raise OptionError(f"at most 30 fields can be used, and each of them only once, but the fields are {names}")
        graph, acoustic = self._fields()
        shared = next((name for name in graph if name in acoustic), None)
        if shared is not None:  # the user set this field for one cost, but it is a default field of the other cost
            other = "acoustic" if self.acoustic is None else "graph"
            message = f"the field {shared!r} would be part of both costs; set the fields of the {other} cost, too"
            raise OptionError(f"{message} ({other}=…, or {other}= for no fields)")

    def costs(self) -> list[tuple[bytes, int, bool]]:
        """Return ``(name, index, is acoustic)`` for each field that is part of a cost.

        If the value of a field is a list, the index selects an element, as in ``name[2]``; otherwise the index is -1.
        """
        result = []
        for names, is_acoustic in zip(self._fields(), (False, True), strict=True):
            for name in names:
                match = _COST.fullmatch(name)
                assert match is not None
                result.append((match[1].encode(), -1 if match[2] is None else int(match[2]), is_acoustic))
        return result

    def _fields(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return ``(graph fields, acoustic fields)``: the names of the fields that are summed for each cost."""
        return (
            ("l", "r", "language") if self.graph is None else self.graph,
            ("a", "acoustic") if self.acoustic is None else self.acoustic,
        )


def read_slf(
    content: bytes,
    key: str,
    path: str | None = None,
    words: SymbolTable | None = None,
    options: SlfOptions = SlfOptions(),
) -> Lattice:
    """Read a lattice from the bytes of an HTK file.

    Nodes become states, and links become arcs. A word on a node, with its scores, moves to the links that enter the
    node, or to the links that leave it if words begin at nodes (``dir=b``, PocketSphinx). Scores are logarithms to the
    ``base`` in the header; they are natural logarithms if the base is absent or 1, and probabilities if it is 0. They
    become natural-log costs. The graph cost is the sum of ``l`` (language model) and ``r`` (pronunciation), unless
    ``options.graph`` selects other fields, such as ``("n",)``, ``("l", "n")`` or ``("i[0]",)`` (the first number in the
    list ``i``). Scales and penalties of the header are not applied. Sub-lattices replace the nodes that refer to them.
    Unknown fields are ignored.

    Missing words and scores are errors. If some links have words, each link or its node must have a word (``W=``).
    If some links have a score that is part of a cost, each link with a word, or its node, must have this score. Only
    the null word and the words in ``options.silent`` may lack scores, because SRILM does not write them. SRILM also
    omits the scores of words that it has split or inserted (``-split-multiwords``, ``-insert-pause``), because their
    probability is 1; read such files with ``missing_score=0``. The first and last node need no word. Links into the
    first node or out of the last node are errors.

    Raises:
        FormatError: The file is not an HTK lattice, or it is damaged or truncated (the last line lacks a newline); a
            link lacks a word or a score; or all links lack a field that ``options`` selects.
        LatticeError: The lattice has a cycle, no path from the first to the last node, or a cost that exceeds the
            range of float32.
        SymbolError: A word is not in ``words``.

    Source: The HTK Book 3.4, "Lattices"; HTK HNet.c (ReadOneLattice, CheckStEndNodes); SRILM HTKLattice.cc (writeHTK).
    """
    result = _parse(content, key, path, options)
    naming = Naming(key, path, words, options.encoding)
    lattice = naming.lattice(result, options.frame_shift)
    if options.key == "file":
        return lattice
    utterance = _DURATION.sub("", naming.decoded(result["utterance"]))
    return lattice.with_key(utterance or key)


def is_slf(head: bytes) -> bool:
    """Return whether the first bytes of a file belong to an HTK lattice."""
    return _FIRST.match(first_line(head)) is not None


def header_scales(head: bytes) -> Scales:
    """Return the scales in an HTK file header. The recogniser applied these scales; ``read_slf`` does not apply them.

    Args:
        head: The first decompressed bytes of the file, or all bytes.

    Returns:
        The acoustic and LM scales, and the word penalty as a natural-log cost.

    Source: The HTK Book 3.4, "Lattices": acscale, lmscale, wdpenalty, base.
    """
    header = re.split(rb"^\s*[IJ]=", head, maxsplit=1, flags=re.MULTILINE)[0]
    rows = [row for row in header.split(b"\n") if not row.startswith(b"#")]
    fields = dict(field.split(b"=", 1) for row in rows for field in row.split() if b"=" in field)
    try:
        values = {ours: float(fields[name]) for name, ours in _SCALES.items() if name in fields}
        base = float(fields.get(b"base", 0.0))
        penalty = -values.pop("word_penalty", 0.0) * (math.log(base) if base > 0 and base != 1 else 1.0)
        return Scales(**values, word_penalty=penalty + 0.0)
    except (ValueError, OptionError):  # ``read_slf`` reports the invalid header
        return Scales()


def _parse(content: bytes, key: str, path: str | None, options: SlfOptions) -> dict[str, Any]:
    content = bytes(content)
    refuse_unended(content, path, key or None)
    costs = options.costs()
    result = _formats.read_slf(
        content,
        path,
        key,
        frame_shift=options.frame_shift,
        words=_POSITIONS[options.words_on],
        fold=_FOLDS[options.fold],
        costs=costs,
        missing_score=options.missing_score,
        silent=[word.encode(options.encoding) for word in sorted(options.silent)],
        null=[NULL.encode(), EPSILON_NAME.encode()],
    )
    for (name, _, acoustic), count in zip(costs, result["num_costs"], strict=True):
        if count == 0 and len(result["dst"]) > 0 and (options.acoustic if acoustic else options.graph) is not None:
            cost = "acoustic" if acoustic else "graph"
            message = f"no link has the field {name.decode()!r}, which was selected as the {cost} cost"
            raise FormatError(message, path, key=key or None)
    return result


@dataclass(frozen=True, slots=True)
class SlfWriteOptions:
    """Options for ``write_slf``."""

    base: float | None = None  # base of the logarithms; 0 for probabilities  [default: e]
    frame_shift: float | None = None  # seconds per frame  [default: the frame shift of the lattice, else 0.01]

    def __post_init__(self) -> None:
        if self.base is not None and not (self.base == 0 or 1 <= self.base < math.inf):
            message = "must be 0 (probabilities), 1 (natural logarithms) or a finite base greater than 1"
            raise OptionError(f"base is {self.base}, but {message}")
        if self.frame_shift is not None:
            checked_shift(self.frame_shift)


def write_slf(
    lattice: Lattice,
    words: SymbolTable | None = None,
    options: SlfWriteOptions = SlfWriteOptions(),
    encoding: str = "utf-8",
) -> bytes:
    """Encode a lattice as an HTK file, with words on links.

    States become nodes, and arcs become links with ``a`` (acoustic) and ``l`` (graph) scores. Final costs become !NULL
    links to an end node, unless there is a single final state without a cost. Reading the file returns the same
    lattice; with probabilities (``base=0``), the last digit of costs may differ. Times that are derived from alignments
    are written, but alignments are not.

    Raises:
        LatticeError: No path leads to a final state, or a cost is too large for a probability.

    Source: HTK HNet.c (WriteLattice).
    """
    textual.refuse_pathless(lattice)
    check_encoding(encoding)
    base = 1.0 if options.base is None else options.base
    shift = checked_shift(options.frame_shift or lattice.frame_shift or 0.01)
    if base == 0:
        _check_probabilities(lattice)
    place, names = textual.spelled(lattice, words, NULL, encoding)
    time = textual.frames(lattice)
    last = textual.plain_end(lattice)
    end = last is None or textual.would_fold(lattice, last)  # whether final costs require an additional end node
    lines = _formats.slf_lines(
        lattice,
        place,
        _all_quoted(names),
        None if time is None else np.maximum(time, 0),
        frame_shift=shift,
        decimals=_decimals(shift),
        log_base=1.0 if base in (0, 1) else math.log(base),
        linear=base == 0,
        end=end,
        end_time=0 if time is None else textual.end_frame(lattice, time),
    )
    return _header(lattice, base, encoding, end=end) + lines


def _header(lattice: Lattice, base: float, encoding: str, *, end: bool) -> bytes:
    lines = [b"VERSION=1.1"]
    if lattice.key:
        lines.append(b"UTTERANCE=" + _quoted(textual.encoded(lattice.key, encoding, lattice.key)))
    if base != 1:
        lines.append(b"base=" + repr(base).encode())
    last = lattice.num_states if end else int(np.flatnonzero(lattice.is_final)[0])
    num_links = lattice.num_arcs + (int(lattice.is_final.sum()) if end else 0)
    lines += [b"start=0", b"end=%d" % last, b"N=%d\tL=%d" % (lattice.num_states + end, num_links)]
    return b"\n".join(lines) + b"\n"


def _check_probabilities(lattice: Lattice) -> None:
    final = lattice.is_final
    for cost in (lattice.graph, lattice.acoustic, lattice.final_graph[final], lattice.final_acoustic[final]):
        if np.abs(cost).max(initial=0) > LARGEST:  # float64 cannot represent exp(-cost)
            worst = float(cost[np.abs(cost).argmax()])
            raise LatticeError(f"the cost {worst:g} is too large for a probability; write logarithms", key=lattice.key)


def _decimals(shift: float) -> int:
    """Return the number of decimal places needed to distinguish the multiples of a frame shift."""
    return next((places for places in range(2, 10) if abs(round(shift, places) - shift) < 1e-12), 9)


def _all_quoted(names: list[bytes]) -> list[bytes]:
    """Escape words, with a fast path if no word needs escaping."""
    text = b"".join(names)
    is_plain = all(names) and not (_SPECIAL.search(text) or b'"' in text or b"'" in text)
    return names if is_plain else [_quoted(name) for name in names]


def _quoted(text: bytes) -> bytes:
    """Escape spaces, backslashes and a leading quote as HTK does.

    A digit after a control character is also escaped, because SRILM reads any number of octal digits.
    """
    if not text:
        return b'""'
    text = _SPECIAL.sub(
        lambda match: b"\\\\" if match[0] == b"\\" else b"".join(b"\\%03o" % byte for byte in match[0]), text
    )
    return b"\\" + text if text[:1] in (b'"', b"'") else text


def _misread(lattice: Lattice, settings: WriteSettings) -> list[str]:
    """Return a message about lost data if the lattice contains words that readers interpret as silence."""
    return [SILENCES] if {*SILENT, EPSILON_NAME} & used_names(lattice, settings.words) else []


FORMAT = Format(
    name="slf",
    about="HTK or SRILM lattice (SLF), one per file",
    extensions=(".slf", ".lat"),
    aliases=("htk",),
    mark=is_slf,
    read=Read(one_lattice(read_slf), SlfOptions, single=True),
    keeps=frozenset({"paths", "key", "times", "frame shift", "graph", "acoustic", "apart", "unscaled", "names"}),
    write=Write(
        textual.text_encoder(write_slf), options=SlfWriteOptions, files="each", also_lost=_misread, encoded_keys=True
    ),
)
