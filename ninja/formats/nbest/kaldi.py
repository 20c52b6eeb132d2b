"""Reader and writer for Kaldi n-best lists: archives of linear lattices with keys such as utt-1 and utt-2."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt

from ninja._tables import TableWriter
from ninja.errors import FormatError, LatticeError, NinjaError, SymbolError
from ninja.formats.content import Content, Pieces, check_encoding
from ninja.formats.format import Format, Read, Write, WriteSettings
from ninja.formats.kaldi.archive import MAGIC, Vocabulary, archive
from ninja.formats.kaldi.named_text import parse
from ninja.formats.nbest.lattices import list_entries, nbest_lattice
from ninja.formats.nbest.text_rows import number, rows, split
from ninja.formats.nbest.writing import ListOptions
from ninja.lattice import Lattice
from ninja.lattice.nbest import Hypothesis, NBest
from ninja.lattice.symbols import EPSILON, EPSILON_NAME, SymbolTable

Integers = npt.NDArray[np.int32]
_IMAGE_HEAD = 8192  # number of bytes that certainly contain the start of the first lattice in a binary archive
_LISTS = "an archive of n-best lists"  # name of an archive without a file name in messages
_KEY = re.compile(r"(.+)-([0-9]{1,9})", re.DOTALL)


def joined(lattices: Iterable[Lattice]) -> Iterator[NBest]:
    """Yield an n-best list for each group of consecutive linear lattices with keys such as ``utt-1`` and ``utt-2``.

    Costs and labels of an arc without a word are added to the next word, or to the sentence end.

    Raises:
        LatticeError: A key does not end with a number, or a lattice is not a single path.

    Source: Kaldi, latbin/lattice-to-nbest.cc.
    """
    for key, group in groupby(lattices, lambda lattice: stem(lattice.key)):
        yield NBest(key, tuple(linear_hypothesis(lattice) for lattice in group))


def stem(key: str) -> str:
    """Return the utterance id for the key of a hypothesis, such as ``utt`` for ``utt-1``.

    Raises:
        LatticeError: The key does not end with a number.
    """
    match = _KEY.fullmatch(key)
    if not match:
        raise LatticeError(
            "the key of a hypothesis must end with its number, as in utt-1; specify an n-best list", key=key
        )
    return match[1]


def linear_hypothesis(lattice: Lattice) -> Hypothesis:
    """Return the only path in a linear lattice as a hypothesis with word ids."""
    last = lattice.num_states - 1
    if not (
        np.array_equal(lattice.arc_begin, np.minimum(np.arange(last + 2), last))
        and np.array_equal(lattice.dst, np.arange(1, last + 1))
        and np.flatnonzero(lattice.is_final).tolist() == [last]
    ):
        raise LatticeError("the lattice is not a single path, so it is not from an n-best list", key=lattice.key)
    line = _Line(has_labels=lattice.has_labels)
    ali, begin = lattice.ali.tolist(), lattice.ali_begin.tolist()
    arcs = zip(lattice.word.tolist(), lattice.graph.tolist(), lattice.acoustic.tolist(), strict=True)
    for arc, (word, graph, acoustic) in enumerate(arcs):
        line.arc(word, graph, acoustic, ali[begin[arc] : begin[arc + 1]])
    final = float(lattice.final_graph[last]), float(lattice.final_acoustic[last])
    return line.hypothesis(*final, lattice.final_ali.tolist())


def linear_lattices(nbest: NBest, words: SymbolTable | None = None) -> list[Lattice]:
    """Convert each hypothesis to a linear lattice; the keys are numbered as in ``lattice-to-nbest``.

    Raises:
        LatticeError: A cost exceeds the range of float32.
        SymbolError: A word is not in ``words``.
    """
    return [
        nbest_lattice(NBest(f"{nbest.key}-{index}", (hypothesis,), nbest.frame_shift), words)
        for index, hypothesis in enumerate(nbest.hypotheses, start=1)
    ]


def read_kaldi_names(content: Pieces, path: str | None = None, *, encoding: str = "utf-8") -> Iterator[NBest]:
    """Yield the n-best lists in a text archive with words in place of ids (``lattice-copy`` and ``int2sym.pl``).

    Each line of a linear lattice except the last is ``state next-state word graph,acoustic,labels``, where labels are
    ``1_2_3`` or empty. The last line is ``state`` or ``state graph,acoustic,labels``.

    Raises:
        FormatError: A line is malformed, a key has no number, or the last line lacks a newline. The error is raised
            after the preceding lists have been yielded.

    Source: Kaldi, lat/kaldi-lattice.cc (WriteCompactLattice, text mode).
    """
    key = ""
    hypotheses: list[Hypothesis] = []
    line_of_path: _Line | None = None
    state = 0
    for line, row in rows(content, path, encoding):
        fields = split(row)
        if not fields:
            if line_of_path is not None and not line_of_path.done:
                raise FormatError("the lattice has no final state", path, key=key, line=line)
            line_of_path = None
        elif line_of_path is None:
            match = _KEY.fullmatch(fields[0])
            if len(fields) != 1 or not match:
                raise FormatError(f"expected only a key, such as utt-1, found {row[:60]!r}", path, line=line)
            if hypotheses and key != match[1]:
                yield NBest(key, tuple(hypotheses))
                hypotheses = []
            key = match[1]
            line_of_path, state = _Line(line=line), 0
        else:
            if line_of_path.done or fields[0] != str(state) or len(fields) > 4:
                message = f"expected a single arc from state {state}, found {row[:60]!r}"
                raise FormatError(message, path, key=key, line=line)
            if len(fields) <= 2:
                weight = _weight(fields[1] if len(fields) == 2 else ",,", path, key, line)
                hypotheses.append(line_of_path.hypothesis(*weight))
                continue
            state += 1
            if fields[1] != str(state):
                message = f"expected an arc to state {state}, found {fields[1][:60]!r}"
                raise FormatError(message, path, key=key, line=line)
            word = EPSILON if fields[2] == EPSILON_NAME else fields[2]
            line_of_path.arc(word, *_weight(fields[3] if len(fields) == 4 else ",,", path, key, line))
    if line_of_path is not None and not line_of_path.done:
        raise FormatError("the file ends within a lattice", path, key=key)
    if hypotheses:
        yield NBest(key, tuple(hypotheses))


class _Line:
    """A linear lattice that is being read; costs and labels of arcs without a word are added to the next word."""

    def __init__(self, *, has_labels: bool | None = None, line: int | None = None) -> None:
        self.line, self.done, self.has_labels = line, False, has_labels
        self.words: list[str | int] = []
        self.graph: list[float] = []
        self.acoustic: list[float] = []
        self.labels: list[tuple[int, ...]] = []
        self.pending: tuple[list[float], list[float], list[int]] = (
            [],
            [],
            [],
        )  # costs and labels of arcs without a word, which are added to the next word

    def arc(self, word: str | int, graph: float, acoustic: float, labels: list[int]) -> None:
        self._add(graph, acoustic, labels)
        if word != EPSILON:
            self.words.append(word)
            self._assign_pending()

    def hypothesis(self, graph: float, acoustic: float, labels: list[int]) -> Hypothesis:
        """Add the costs and labels of the final state, and return the complete hypothesis."""
        self.done = True
        self._add(graph, acoustic, labels)
        self._assign_pending()
        has_labels = any(self.labels) if self.has_labels is None else self.has_labels
        return Hypothesis(
            tuple(self.words),  # type: ignore[arg-type]
            tuple(self.graph),
            tuple(self.acoustic),
            labels=tuple(self.labels) if has_labels else None,
            line=self.line,
        )

    def _add(self, graph: float, acoustic: float, labels: list[int]) -> None:
        self.pending[0].append(graph)
        self.pending[1].append(acoustic)
        self.pending[2].extend(labels)

    def _assign_pending(self) -> None:
        graph, acoustic, labels = self.pending
        self.graph.append(math.fsum(graph))
        self.acoustic.append(math.fsum(acoustic))
        self.labels.append(tuple(labels))
        self.pending = ([], [], [])


def _weight(text: str, path: str | None, key: str, line: int) -> tuple[float, float, list[int]]:
    parts = text.split(",")
    if len(parts) != 3:
        raise FormatError(f"expected graph,acoustic,labels, found {text[:60]!r}", path, key=key, line=line)
    graph, acoustic = (number(part, "a cost", path, line, key) if part else 0.0 for part in parts[:2])
    labels = parts[2].split("_") if parts[2] else []
    if not all(label.isascii() and label.isdigit() and len(label) < 10 for label in labels):
        raise FormatError(f"expected labels such as 1_2_3, found {parts[2][:60]!r}", path, key=key, line=line)
    return graph, acoustic, [int(label) for label in labels]


def read_linear_lists(content: bytes, path: str | None = None, *, encoding: str = "utf-8") -> list[NBest]:
    """Read the n-best lists from a binary or text archive of linear lattices with keys ``utt-1``, ``utt-2``, ….

    Raises:
        LatticeError: A lattice is not a single path, or its key has no number.

    Source: Kaldi, latbin/lattice-to-nbest.cc.
    """
    lattices: list[Lattice] = []
    for key, lattice in parse(content, Vocabulary(), path or _LISTS):
        if isinstance(lattice, LatticeError):
            raise lattice
        if isinstance(lattice, NinjaError):
            if MAGIC in content[:_IMAGE_HEAD]:
                raise lattice
            return list(read_kaldi_names(content, path, encoding=encoding))
        lattices.append(lattice.with_key(key))
    return list(joined(lattices))


def _spells_names(head: bytes) -> bool:
    """Return whether the first lines of an archive contain words in place of ids."""
    if MAGIC in head[:_IMAGE_HEAD]:
        return False
    results = [result for _, result in parse(head, Vocabulary(), _LISTS)]
    complete = results[:-1]  # the last lattice may be incomplete
    return any(isinstance(result, NinjaError) and not isinstance(result, LatticeError) for result in complete)


@dataclass(frozen=True, slots=True)
class KaldiListReadOptions:
    """Options for reading an archive of linear lattices; its words are ids if it can be read as a Kaldi archive."""

    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        check_encoding(self.encoding)


def _lists(content: Content, options: KaldiListReadOptions) -> Iterable[NBest]:
    head = content.first_lines()
    if not head:
        return read_linear_lists(content.whole(), content.name, encoding=options.encoding)
    if _spells_names(head):
        return read_kaldi_names(content.blocks(), content.name, encoding=options.encoding)
    return joined(_of_archive(content))


def _of_archive(content: Content) -> Iterator[Lattice]:
    """Yield the lattices in a Kaldi archive."""
    for batch in archive(content.stream, Vocabulary()):
        for key, lattice in batch.entries():
            if isinstance(lattice, NinjaError):
                raise lattice
            yield lattice.with_key(key)


@dataclass(frozen=True, slots=True)
class KaldiListOptions(ListOptions):
    """Options for writing an archive of linear lattices."""

    text: bool = False  # whether to write text, which is also written for ark,t: and file names that end in .txt


def _encode(nbest: NBest, settings: WriteSettings) -> bytes:
    if settings.words is None and any(isinstance(word, str) for item in nbest.hypotheses for word in item.words):
        raise SymbolError(
            "the hypothesis contains words, but the archive contains word ids; specify words= (--words)", key=nbest.key
        )
    table = TableWriter(text=settings.options.text)
    for lattice in linear_lattices(nbest, settings.words):
        table.append(lattice, lattice.key.encode("utf-8", "surrogateescape"), lattice.kind == "compact")
    return bytes(table.view())


FORMAT = Format(
    name="nbest-kaldi",
    about="Kaldi archive of linear lattices with keys utt-1, utt-2, … (lattice-to-nbest)",
    holds="nbest",
    read=Read(list_entries(_lists), KaldiListReadOptions),
    keeps=frozenset({"key", "graph", "acoustic", "apart", "unscaled", "word costs", "alignments", "ids"}),
    write=Write(_encode, options=KaldiListOptions, key_is_field=True),
)
