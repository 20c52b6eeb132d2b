"""HTK's standard lattice format (SLF)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ninja import _formats
from ninja.errors import FormatError, LatticeError, OptionError
from ninja.formats import textual
from ninja.formats.content import one_lattice
from ninja.formats.format import Format, Read, Write, WriteSettings
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.word_ids import used_names

WordPosition = Literal["auto", "begin", "end"]
Fold = Literal["never", "null", "silent"]

NULL = "!NULL"
SILENT = frozenset({"!ENTER", "!EXIT", "!SENT_START", "!SENT_END", "<s>", "</s>"})
SILENCES = "words that are read as silence (<s> or !ENTER)"
LARGEST = 700.0  # natural logarithm of a probability that float64 holds; at twice that exp(-cost) would be 0
_SPECIAL = re.compile(rb"[\x00-\x1f][0-7]?|[\x20\x7f\\]")
_FOLDS: dict[str, int] = {"never": 0, "null": 1, "silent": 2}
_POSITIONS: dict[str, int] = {"auto": 0, "begin": 1, "end": 2}
_COST = re.compile(r"([A-Za-z0-9_]+)(?:\[(\d{1,3})\])?")
_NO_COSTS = {"t", "time", "W", "WORD", "S", "START", "E", "END", "L", "SUBLAT", "I", "J"}
_FIRST = re.compile(  # what the first line of a file must begin with
    rb"(VERSION|V|UTTERANCE|U|SUBLAT|S|base|start|end|dir|lmname|ngname|vocab|hmms|wdpenalty|(t|ac|lm|ng|pr|du|am|x\d)scale"
    rb"|N|NODES|L|LINKS)="
)
_USED = frozenset({"VERSION", "V", "base", "start", "end", "dir", "tscale", "N", "NODES", "L", "LINKS"})
_DURATION = re.compile(r"\(duration=[^()]*\)$")  # SRILM leaves one at the end of names


@dataclass(frozen=True, slots=True)
class SlfOptions:
    """How an HTK lattice is understood."""

    graph: tuple[str, ...] | None = None  # fields whose sum is the graph cost; None: l and r, those that there are
    acoustic: tuple[str, ...] | None = None  # fields whose sum is the acoustic cost; None: a
    frame_shift: float = 0.01  # seconds; times are rounded to its multiples
    silent: frozenset[str] = SILENT  # words that become epsilon, besides !NULL
    words_on: WordPosition = "auto"  # where the words of nodes stand: they begin or end at their node
    fold: Fold = "null"  # which links into the end become final costs: none, those with !NULL, or the silent ones, too
    key: Literal["file", "utterance"] = "file"  # what names the lattice: the file, or its header, if that has a name
    missing_score: float | None = None  # score (natural logarithm) of links that lack one others have; None: refused
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        textual.checked_shift(self.frame_shift)
        textual.check_encoding(self.encoding)
        if self.words_on not in _POSITIONS or self.fold not in _FOLDS:
            raise OptionError(f"words_on is {self.words_on!r} and fold {self.fold!r}; see SlfOptions for what there is")
        if self.key not in ("file", "utterance"):
            raise OptionError(f"key is {self.key!r}, but must be file or utterance")
        if self.missing_score is not None and not math.isfinite(self.missing_score):
            raise OptionError(f"missing_score is {self.missing_score}, but must be a number; 0 is a probability of 1")
        names = [*(self.graph or ()), *(self.acoustic or ())]
        for name in names:
            if not _COST.fullmatch(name) or name in _NO_COSTS:
                raise OptionError(f"{name!r} is no field with a score; give names such as l or n, or i[0] for lists")
        if len(set(names)) != len(names) or len(names) > 30:
            raise OptionError("a field can be part of one cost, once")

    def costs(self) -> list[tuple[bytes, int, bool]]:
        """Return the ``(field, item or -1, is acoustic)`` of each cost, long names beside short ones."""
        result = []
        for names, acoustic in (
            (self.graph or ("l", "r", "language"), False),
            (self.acoustic or ("a", "acoustic"), True),
        ):
            for name in names:
                found = _COST.fullmatch(name)
                assert found is not None
                result.append((found[1].encode(), -1 if found[2] is None else int(found[2]), acoustic))
        return result


@dataclass(frozen=True, slots=True)
class SlfExtras:
    """What an HTK file says that has no place in ``Lattice``; ``write_slf`` writes it again.

    Values are as in the file, with their quotes.
    """

    header: tuple[tuple[str, str], ...] = ()  # in order, without the size
    on_state: Mapping[str, Mapping[int, str]] = field(default_factory=dict)  # field name -> state -> value
    on_arc: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    on_final: Mapping[str, Mapping[int, str]] = field(default_factory=dict)  # of the link that ends the lattice there
    on_end: Mapping[str, str] = field(default_factory=dict)  # of an end node that became final costs
    end_time: int | None = None  # of that node, in frames
    shape: tuple[int, int] = (0, 0)  # states and arcs of the lattice that the numbers belong to

    def names(self, key: str) -> tuple[str, ...]:
        """Name in words what a lattice alone lacks of this.

        Of the header, what reading has used, and what says nothing, is no loss: base, start, end, dir, tscale, the
        version, the key, empty values, scales of 1 and a penalty of 0.
        """
        return _named(self.header, {*self.on_arc, *self.on_final}, {*self.on_state, *self.on_end}, key)


@dataclass(frozen=True, slots=True)
class SlfLattice:
    """A lattice with all that its file says beside it."""

    lattice: Lattice
    extras: SlfExtras
    lost: tuple[str, ...]  # what neither of them keeps, in words

    @property
    def utterance(self) -> str | None:
        """Name of the utterance that the header gives, without a duration that SRILM leaves behind it."""
        return _utterance(self.extras.header)

    @property
    def scales(self) -> dict[str, float]:
        """Scales and penalties of the header, as they stand there: none is applied to the lattice.

        ``wdpenalty`` and its like are logarithms in the header's base.

        Raises:
            FormatError: One of them is no number.
        """
        found = {}
        for name, value in self.extras.header:
            if name.endswith("scale") or name == "wdpenalty":
                try:
                    found[name] = float(value)
                except ValueError as error:
                    raise FormatError(f"{name}={value} in the header is no number", key=self.lattice.key) from error
        return found


def is_slf(head: bytes) -> bool:
    """Tell whether a file begins as an HTK lattice does: comments, then a field of the header.

    Args:
        head: Its first bytes, some thousands or all.
    """
    return _FIRST.match(textual.first_line(head)) is not None


def read_slf(
    content: bytes,
    key: str,
    path: str | None = None,
    words: SymbolTable | None = None,
    options: SlfOptions = SlfOptions(),
) -> Lattice:
    """Read a lattice from the bytes of an HTK file.

    Nodes become states, links become arcs; a word on a node moves to the links that enter it (leave it where
    ``dir=b`` or PocketSphinx says that words begin at their nodes), with the scores of the node, if any. Scores are
    logarithms in the header's ``base`` (absent or 1: natural; 0: probabilities) and become natural-log costs. The
    graph cost is that of ``l`` plus ``r``, the language model and the pronunciation; ``options.graph`` names others:
    ``("n",)``, ``("l", "n")``, ``("i[0]",)`` for the first number of a list. No scale, no penalty of the header is
    applied. Sub-lattices are put in the place of the nodes that name them. Unknown fields are passed over.

    No word and no score is made up. Where other links have words, one without (``W=``, on it or its node) is refused,
    and where other links have a score that counts, one that takes a word and lacks it, on it or its node. Only the
    null word and those of ``options.silent`` may come without: SRILM writes no scores there. It writes none, either,
    for words that it has split or put in itself (``-split-multiwords``, ``-insert-pause``), where they stand for
    probabilities of 1: ``missing_score=0`` reads these. A node to begin or to end with needs no word. What leaves the
    last node, or enters the first, is refused.

    Args:
        content: The whole file, unpacked.
        key: Utterance id the lattice is to have, unless ``options.key`` says that the header names it.
        path: File name for error messages.
        words: Symbol table that the words must be in; None: one of the file's own words is made, epsilon 0.
        options: How the file is understood.

    Raises:
        FormatError: The file is no HTK lattice, damaged or cut short, as one is whose last line does not end; a word
            or a score is missing from a link, or a field that ``options`` names from all.
        LatticeError: A cycle, no path from the first node to the last, a cost beyond float32.
        SymbolError: A word is not in ``words``.

    Source: The HTK Book 3.4, "Lattices"; HTK HNet.c (ReadOneLattice, CheckStEndNodes); SRILM HTKLattice.cc (writeHTK).
    """
    found = _found(content, key, path, options, keep=False)
    naming = textual.Naming(key, path, words, options.encoding)
    lattice = naming.lattice(found, options.frame_shift)
    return lattice if options.key == "file" else lattice.with_key(_utterance(_header_of(found, naming)) or key)


def read_slf_whole(
    content: bytes,
    key: str | None,
    path: str | None = None,
    words: SymbolTable | None = None,
    options: SlfOptions = SlfOptions(),
) -> SlfLattice:
    """Read a lattice and what has no place in it, as ``read_slf`` reads it.

    Args:
        content: As for ``read_slf``.
        key: Utterance id; None: the one of the header, else "".
        path: As for ``read_slf``.
        words: As for ``read_slf``.
        options: As for ``read_slf``.

    Raises:
        FormatError: As for ``read_slf``.
        LatticeError: As for ``read_slf``.
        SymbolError: As for ``read_slf``.
    """
    found = _found(content, key or "", path, options, keep=True)
    naming = textual.Naming(key or "", path, words, options.encoding)
    lattice = naming.lattice(found, options.frame_shift)
    header = _header_of(found, naming)
    extras = _extras(found, header, naming, lattice)
    whole = SlfLattice(lattice, extras, tuple(_lost(found, naming, options)))
    if (key is None or options.key == "utterance") and whole.utterance is not None:
        whole = SlfLattice(lattice.with_key(whole.utterance), extras, whole.lost)
    return whole


def read_slf_telling(
    content: bytes,
    key: str,
    path: str | None = None,
    words: SymbolTable | None = None,
    options: SlfOptions = SlfOptions(),
) -> tuple[Lattice, tuple[str, ...]]:
    """Read a lattice as ``read_slf`` reads it; return it and what of the file it lacks, in words.

    This is faster than to keep all that with ``read_slf_whole``, whose arguments and errors it has.
    """
    found = _found(content, key, path, options, keep=False)
    naming = textual.Naming(key, path, words, options.encoding)
    header = _header_of(found, naming)
    links = {name.decode() for name, is_there, _ in found["others"] if is_there}
    nodes = {name.decode() for name, _, is_there in found["others"] if is_there}
    lattice = naming.lattice(found, options.frame_shift)
    if options.key == "utterance":
        lattice = lattice.with_key(_utterance(header) or key)
    return lattice, (*_lost(found, naming, options), *_named(header, links, nodes, lattice.key))


def _header_of(found: dict[str, Any], naming: textual.Naming) -> tuple[tuple[str, str], ...]:
    return tuple((name.decode(), naming.decoded(value)) for name, value in found["header"])


def _utterance(header: Iterable[tuple[str, str]]) -> str | None:
    """Return the name that a header gives, if any, without a duration that SRILM leaves behind it."""
    given = next((value for name, value in header if name in ("UTTERANCE", "U")), "")
    return _DURATION.sub("", given) or None


def _named(header: Iterable[tuple[str, str]], links: Set[str], nodes: Set[str], key: str) -> tuple[str, ...]:
    """Name the fields of a header, of links and of nodes that a lattice alone lacks."""
    said = [name for name, value in header if not _says_nothing(name, value, key)]
    found = (("header", said), ("link", sorted(links)), ("node", sorted(nodes)))
    return tuple(f"{what} fields {', '.join(names)}" for what, names in found if names)


def _found(content: bytes, key: str, path: str | None, options: SlfOptions, *, keep: bool) -> dict[str, Any]:
    content = bytes(content)
    textual.refuse_unended(content, path, key or None)
    costs = options.costs()
    found = _formats.read_slf(
        content,
        path,
        key,
        frame_shift=options.frame_shift,
        keep=keep,
        words=_POSITIONS[options.words_on],
        fold=_FOLDS[options.fold],
        costs=costs,
        missing_score=options.missing_score,
        silent=[word.encode(options.encoding) for word in sorted(options.silent)],
        null=[NULL.encode(), textual.EPSILON_NAME.encode()],
    )
    for (name, _, acoustic), count in zip(costs, found["num_costs"], strict=True):
        if count == 0 and len(found["dst"]) > 0 and (options.acoustic if acoustic else options.graph) is not None:
            what = "acoustic" if acoustic else "graph"
            message = f"no link has the field {name.decode()!r}, which is to be the {what} cost"
            raise FormatError(message, path, key=key or None)
    return found


def _extras(
    found: dict[str, Any], header: tuple[tuple[str, str], ...], naming: textual.Naming, lattice: Lattice
) -> SlfExtras:
    """Sort the fields without a place by the states and arcs they belong to."""
    names = [name.decode() for name, *_ in found["others"]]
    on_state: dict[str, dict[int, str]] = {}
    on_arc: dict[str, dict[int, str]] = {}
    on_final: dict[str, dict[int, str]] = {}
    on_end: dict[str, str] = {}
    if found["fields"] and found["num_sublattices"] == 0:
        state_of = _inverse(found["node"])
        arc_of = _inverse(found["link"])
        final_of = _inverse(found["final_link"])
        for on_link, row, number, value in found["fields"]:
            name, text = names[number], naming.decoded(value)
            places = ((on_arc, arc_of), (on_final, final_of)) if on_link else ((on_state, state_of),)
            for table, place in places:
                if row in place:
                    table.setdefault(name, {})[place[row]] = text
            if not on_link and row not in state_of and found["end_node"] == row:
                on_end[name] = text
    return SlfExtras(
        header, on_state, on_arc, on_final, on_end, found["end_time"], (lattice.num_states, lattice.num_arcs)
    )


def _says_nothing(name: str, value: str, key: str) -> bool:
    """Tell whether a field of the header is told by the lattice as well, or tells nothing."""
    text = value.strip("\"'")
    if name in _USED or not text:
        return True
    if name in ("UTTERANCE", "U"):
        return _DURATION.sub("", text) == key
    try:
        return (name.endswith("scale") and float(text) == 1) or (name == "wdpenalty" and float(text) == 0)
    except ValueError:
        return False


def _inverse(numbers: npt.NDArray[np.int32]) -> dict[int, int]:
    return {number: place for place, number in enumerate(numbers.tolist()) if number >= 0}


def _lost(found: dict[str, Any], naming: textual.Naming, options: SlfOptions) -> list[str]:
    """Say in words what reading lost."""
    lost = [f"{count} times the word {naming.decoded(word)!r}: read as epsilon" for word, count in found["silent"]]
    if found["num_rounded"]:
        lost.append(f"{found['num_rounded']} times: rounded to multiples of {options.frame_shift} s")
    if found["num_impossible"]:
        lost.append(f"{found['num_impossible']} links of probability 0: left out")
    if found["num_untimed"]:
        lost.append(f"times: {found['num_untimed']} nodes have none, so no state has")
    if found["num_sublattices"]:
        lost.append(f"{found['num_sublattices']} sub-lattices: put in their places; times and unknown fields are gone")
    if len({name for name, _, acoustic in options.costs() if not acoustic}) > 1:
        given = [
            name.decode() + (f"[{item}]" if item >= 0 else "")
            for (name, item, acoustic), count in zip(options.costs(), found["num_costs"], strict=True)
            if count and not acoustic
        ]
        if len(given) > 1:
            lost.append(f"the terms {', '.join(given)} of the graph cost: added up")
    return lost


@dataclass(frozen=True, slots=True)
class SlfWriteOptions:
    """Options of ``write_slf``."""

    base: float | None = None  # of the logarithms; 0: probabilities; None: natural
    frame_shift: float | None = None  # seconds; None: the lattice's own, else 0.01

    def __post_init__(self) -> None:
        if self.base is not None:
            _check_base(self.base)
        if self.frame_shift is not None:
            textual.checked_shift(self.frame_shift)


def write_slf(
    lattice: Lattice,
    words: SymbolTable | None = None,
    *,
    base: float | None = None,
    frame_shift: float | None = None,
    encoding: str = "utf-8",
) -> bytes:
    """Return a lattice as the bytes of an HTK file, words on its links.

    States become nodes, arcs become links with ``a`` (acoustic) and ``l`` (graph) scores. Final costs stand on links
    with !NULL to an end node of their own, unless the lattice ends in one state without any. Reading gives the same
    lattice: with natural or other logarithms bit for bit, with probabilities (``base=0``) but for their last digit.
    Alignments stay behind; the times that they give are written.

    Args:
        lattice: The lattice.
        words: Its symbol table; None: the one attached to it.
        base: Of the logarithms; 0: probabilities; None: natural.
        frame_shift: Seconds; None: the lattice's own, else 0.01.
        encoding: Of the file.

    Raises:
        OptionError: ``base`` or ``frame_shift`` is out of its range.
        SymbolError: A word has no name.
        LatticeError: No state is final, or a cost is too large for a probability.

    Source: HTK HNet.c (WriteLattice).
    """
    textual.refuse_empty(lattice)
    textual.check_encoding(encoding)
    base = 1.0 if base is None else _check_base(base)
    shift = textual.checked_shift(frame_shift or lattice.frame_shift or 0.01)
    if base == 0:
        _check_probabilities(lattice)
    place, names = textual.spelled(lattice, words, NULL, encoding)
    time = textual.frames(lattice)
    end = _needs_end(lattice)
    lines = _formats.slf_lines(
        lattice,
        place,
        [_quoted(name) for name in names],
        None if time is None else np.maximum(time, 0),
        frame_shift=shift,
        decimals=_decimals(shift),
        log_base=1.0 if base in (0, 1) else math.log(base),
        linear=base == 0,
        graph=True,
        acoustic=True,
        end=end,
        end_time=0 if time is None else textual.end_frame(lattice, time),
        on_node=[],
        on_link=[],
    )
    return _header(lattice, base, encoding, end=end) + lines


def _check_base(base: float) -> float:
    if not (base == 0 or 1 <= base < math.inf):
        raise OptionError(f"base is {base}, but 0 (probabilities), 1 (natural logarithms) or more are needed")
    return base


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


def _needs_end(lattice: Lattice) -> bool:
    """Tell whether final costs need an end node of their own; where not, reading must not fold what is there."""
    final = np.flatnonzero(lattice.is_final)
    last = int(final[0])
    if len(final) > 1 or lattice.final_graph[last] or lattice.final_acoustic[last]:
        return True
    if lattice.arc_begin[last + 1] > lattice.arc_begin[last]:
        return True
    return textual.would_fold(lattice, last)


def _check_probabilities(lattice: Lattice) -> None:
    final = lattice.is_final
    for cost in (lattice.graph, lattice.acoustic, lattice.final_graph[final], lattice.final_acoustic[final]):
        if np.abs(cost).max(initial=0) > LARGEST:  # exp(-cost) would be 0 or infinite
            worst = float(cost[np.abs(cost).argmax()])
            raise LatticeError(f"the cost {worst:g} is too large for a probability; write logarithms", key=lattice.key)


def _decimals(shift: float) -> int:
    """Return how many decimals tell the multiples of a shift apart."""
    return next((places for places in range(2, 10) if abs(round(shift, places) - shift) < 1e-12), 9)


def _quoted(text: bytes) -> bytes:
    """Return a value as HTK reads it: blanks and backslashes escaped, quotes where they would open a quoted text.

    So is a digit behind a control character: SRILM reads as many octal digits as there are.
    """
    if not text:
        return b'""'
    text = _SPECIAL.sub(
        lambda found: b"\\\\" if found[0] == b"\\" else b"".join(b"\\%03o" % byte for byte in found[0]), text
    )
    return b"\\" + text if text[:1] in (b'"', b"'") else text


def _encode(lattice: Lattice, settings: WriteSettings) -> bytes:
    base, shift = settings.options.base, settings.options.frame_shift
    return write_slf(lattice, settings.words, base=base, frame_shift=shift, encoding=settings.encoding)


def _misread(lattice: Lattice, settings: WriteSettings) -> list[str]:
    """Return the loss of words that readers take for silence."""
    misread = not {*SILENT, textual.EPSILON_NAME}.isdisjoint(used_names(lattice, settings.words))
    return [SILENCES] if misread else []


FORMAT = Format(
    name="slf",
    about="lattice of HTK and SRILM (SLF), one a file",
    extensions=(".slf", ".lat"),
    aliases=("htk",),
    mark=is_slf,
    read=Read(one_lattice(read_slf, read_slf_telling), SlfOptions),
    keeps=frozenset({"paths", "key", "times", "frame shift", "graph", "acoustic", "apart", "unscaled", "names"}),
    write=Write(_encode, options=SlfWriteOptions, files="each", also_lost=_misread, encoded_keys=True),
)
