"""k2's lattices: an Fsa or FsaVec as ``torch.save(fsa.as_dict(), FILE)`` leaves it, read and written without k2.

Not read: attributes of arcs and of the file other than scores, words, their names and the one of ``k2_extras``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ninja import _formats
from ninja.errors import FormatError, LatticeError, NinjaError, OptionError, SymbolError
from ninja.formats import k2_extras, k2_file
from ninja.formats.content import Content, keyed
from ninja.formats.format import ALL_FIELDS, Entry, Field, Format, Read, Write, WriteSettings
from ninja.formats.k2_file import Machines
from ninja.formats.textual import refuse_empty
from ninja.lattice import Lattice
from ninja.lattice.arrays import frozen
from ninja.lattice.symbols import SymbolTable

FINAL = -1  # k2's label of arcs into the final state
Int32 = npt.NDArray[np.int32]
Float32 = npt.NDArray[np.float32]
Keys = Sequence[str] | Callable[[int], str] | None


@dataclass(frozen=True, slots=True)
class K2Options:
    """How a k2 file is understood."""

    costs: Literal["acoustic", "graph"] = "acoustic"  # what scores are where there are no lm_scores to split them
    words: Literal["auto", "aux_labels", "labels"] = "auto"  # which labels are the words; auto: aux_labels if any

    def __post_init__(self) -> None:
        if self.costs not in ("acoustic", "graph"):
            raise OptionError(f"costs is {self.costs!r}, but acoustic or graph is needed")
        if self.words not in ("auto", "aux_labels", "labels"):
            raise OptionError(f"words is {self.words!r}, but one of auto, aux_labels, labels is needed")


def read_k2(
    content: bytes | os.PathLike[str],
    key: str,
    path: str | None = None,
    words: SymbolTable | None = None,
    options: K2Options = K2Options(),
) -> Lattice:
    """Read the lattice of a k2 file that holds one.

    Scores become costs with their sign turned: lm_scores the graph cost, the rest of the score the acoustic cost. Arcs
    into the final state become final costs. States in topological order keep their numbers; otherwise those that can
    be reached are sorted. An arc with several words (ragged aux_labels) becomes several arcs, costs on the first.

    Args:
        content: The whole file, or a ``Path``, which is mapped and must not change meanwhile.
        key: Utterance id the lattice is to have.
        path: File name for error messages.
        words: Symbol table that the word ids must be in; None: the file's own ``aux_labels_sym``, if it has one.
        options: How the file is understood.

    Raises:
        FormatError: Not a k2 file, damaged, with anything but tensors, numbers and names in it, or not one FSA.
        LatticeError: A cycle, no path, an infinite score or a negative word.
        SymbolError: A word id is not in ``words``.

    Source: k2, k2/python/k2/fsa.py (as_dict, from_dict), k2/csrc/fsa_utils.h (FsaToTensor, FsaVecToTensor).
    """
    machines = k2_file.read(content, path, key)
    if machines.count != 1:
        raise FormatError(f"{machines.count} FSAs in one file, but one lattice is wanted", path, key=key)
    return _Reader(machines, path, words, options).lattice(0, key)


def read_k2s(
    content: bytes | os.PathLike[str],
    path: str | None = None,
    words: SymbolTable | None = None,
    options: K2Options = K2Options(),
    *,
    keys: Keys = None,
) -> Iterator[Lattice | NinjaError]:
    """Read all lattices of a k2 file.

    Args:
        content: As for ``read_k2``.
        path: As for ``read_k2``.
        words: As for ``read_k2``.
        options: As for ``read_k2``.
        keys: Utterance ids; None: those we wrote into the file, else the numbers of the FSAs, from 1. A function of
            such a number makes the ids where the file has none.

    Yields:
        Each lattice, or what is wrong with it.

    Raises:
        FormatError: The file is no k2 file, or damaged.
        OptionError: There are more or fewer keys than FSAs.
    """
    machines = k2_file.read(content, path)
    reader = _Reader(machines, path, words, options)
    for number, key in enumerate(_keys(machines, reader.extras, keys)):
        try:
            yield reader.lattice(number, key)
        except NinjaError as error:
            yield error


def _keys(machines: Machines, extras: k2_extras.Extras | None, keys: Keys) -> Sequence[str]:
    if keys is None or callable(keys):
        name = keys or str
        return [name(number + 1) for number in range(machines.count)] if extras is None else extras.keys
    if len(keys) != machines.count:
        raise OptionError(f"{len(keys)} keys for {machines.count} FSAs")
    return keys


class _Reader:
    """The lattices of one file."""

    def __init__(self, machines: Machines, path: str | None, words: SymbolTable | None, options: K2Options) -> None:
        self._path = path
        self._options = options
        aux = machines.attributes.get("aux_labels")
        if options.words == "aux_labels" and aux is None:
            raise FormatError("no aux_labels in the file; take the labels for the words", path)
        self.extras = k2_extras.read(machines, path)
        self._from_labels = aux is None or options.words == "labels"
        self._machines, self._word = k2_file.one_word_each(machines, None if self._from_labels else aux, path)
        self._lm = k2_file.scores(self._machines, "lm_scores", path)
        self._am = None if self._lm is None else k2_file.scores(self._machines, "am_scores", path)
        own = machines.symbols("labels_sym" if self._from_labels else "aux_labels_sym", path)
        self._words = own if words is None else words
        self._known = _known(words)
        self._arc_begin = self._machines.arc_begin.tolist()
        self._num_states = np.diff(self._machines.state_begin).tolist()
        self._zeros = frozen(np.zeros(max(self._arc_begin[-1], *self._num_states, 0) + 2, np.int64))

    def lattice(self, number: int, key: str) -> Lattice:
        machines = self._machines
        error, arc, malformed, arrays = _formats.read_k2(
            machines.arcs,
            self._arc_begin[number],
            self._arc_begin[number + 1],
            self._num_states[number],
            self._word,
            self._lm,
            self._am,
            as_graph=self._options.costs == "graph",
            places=False,
        )
        if arrays is None:
            kind = FormatError if malformed else LatticeError
            raise kind(f"arc {arc} {error}" if arc >= 0 else error, self._path, key=key)
        if self._known is not None:
            word = arrays[2]
            if (strange := word >= len(self._known)).any() or (strange := ~self._known[word]).any():
                message = f"word id {word[strange][0]} is not in the symbol table; is it the right one?"
                raise SymbolError(message, self._path, key=key)
        if self.extras is not None and self.extras.fits(number, arrays):
            return self.extras.lattice(number, key, arrays, self._words)
        begin, final_begin = self._zeros[: len(arrays[1]) + 1], self._zeros[: len(arrays[5]) + 1]
        none = k2_extras.NO_LABELS
        return _formats.whole_lattice(key, arrays, begin, none, final_begin, none, "compact", None, None, self._words)


def _known(words: SymbolTable | None) -> npt.NDArray[np.bool_] | None:
    """Return which ids a table has, bool [largest id + 1]; epsilon always belongs to it."""
    if words is None:
        return None
    ids = np.fromiter((number for _, number in words), np.int64, len(words))
    known = np.zeros(int(ids.max(initial=0)) + 1, np.bool_)
    known[ids] = True
    known[0] = True
    return known


def write_k2(lattice: Lattice, *, extras: bool = True) -> bytes:
    """Return a lattice as the bytes of a k2 file with one Fsa; see ``write_k2s``.

    Args:
        lattice: The lattice.
        extras: As for ``write_k2s``.

    Raises:
        LatticeError: No state is final, or a cost is beyond float32.
    """
    return _written([lattice], vector=False, extras=extras)


def write_k2s(lattices: Iterable[Lattice], *, extras: bool = True) -> bytes:
    """Return lattices as the bytes of a k2 file with an FsaVec, for ``k2.Fsa.from_dict(torch.load(FILE))``.

    Scores are ``-(graph + acoustic)``, lm_scores ``-graph``, am_scores ``-acoustic``; words stand in aux_labels, and in
    the labels unless a raw lattice has its alignment there. Final costs stand on arcs with -1 into the final state.

    Args:
        lattices: The lattices.
        extras: Also keep keys, alignments, times and frame shifts, in an attribute that k2 carries along unread.
            Without it they are lost; the names of the words always are.

    Raises:
        LatticeError: No state is final, or a cost is beyond float32.
    """
    return _written(list(lattices), vector=True, extras=extras)


def _written(lattices: list[Lattice], *, vector: bool, extras: bool) -> bytes:
    tables = [_arcs(lattice) for lattice in lattices]
    empty = np.zeros((0, 4), np.int32)
    arcs = np.concatenate([empty, *(table[0] for table in tables)])
    columns = {
        "aux_labels": np.concatenate([empty[:, 0], *(table[1] for table in tables)]),
        "lm_scores": np.concatenate([empty[:, 0].view(np.float32), *(table[2] for table in tables)]),
        "am_scores": np.concatenate([empty[:, 0].view(np.float32), *(table[3] for table in tables)]),
    }
    tensor = arcs
    if vector:
        states = np.cumsum([0, *(lattice.num_states + 1 for lattice in lattices)])
        begins = np.cumsum([0, *(len(table[0]) for table in tables)])
        if max(states[-1], 4 * begins[-1]) > np.iinfo(np.int32).max:
            raise LatticeError("too many arcs for one FsaVec, whose counts are int32; write fewer lattices a file")
        tensor = np.concatenate([[len(lattices), 0], states, begins, arcs.ravel()]).astype(np.int32)
    others = {k2_extras.NAME: k2_extras.made(lattices, arcs)} if extras else {}
    return k2_file.written(tensor, columns, others)


def _arcs(lattice: Lattice) -> tuple[Int32, Int32, Float32, Float32]:
    """Return the arcs of an Fsa, int32 [arcs, 4], their words, LM and acoustic scores."""
    final = np.flatnonzero(lattice.is_final)
    if not len(final):
        raise LatticeError("no state is final, so there is nothing to write", key=lattice.key)
    num_arcs = lattice.num_arcs + len(final)
    src = lattice.src
    place = np.arange(lattice.num_arcs) + np.searchsorted(final, src)  # behind the final arcs of earlier states
    end = lattice.arc_begin[final + 1] + np.arange(len(final))
    arcs = np.empty((num_arcs, 4), np.int32)
    word = np.full(num_arcs, FINAL, np.int32)
    graph, acoustic = np.empty(num_arcs, np.float32), np.empty(num_arcs, np.float32)
    word[place] = lattice.word
    graph[place], graph[end] = lattice.graph, lattice.final_graph[final]
    acoustic[place], acoustic[end] = lattice.acoustic, lattice.final_acoustic[final]
    arcs[place, 0], arcs[end, 0] = src, final
    arcs[place, 1], arcs[end, 1] = lattice.dst, lattice.num_states
    arcs[place, 2], arcs[end, 2] = _labels(lattice), FINAL
    with np.errstate(over="ignore"):
        score = 0 - (graph + acoustic)
    if not np.isfinite(score).all():
        raise LatticeError("graph and acoustic cost of an arc add up to more than float32 holds", key=lattice.key)
    arcs[:, 3] = score.view(np.int32)
    return arcs, word, 0 - graph, 0 - acoustic


def _labels(lattice: Lattice) -> Int32:
    """Return what goes into k2's labels: the alignment of a raw lattice, else the words."""
    length = np.diff(lattice.ali_begin)
    if lattice.kind != "raw" or not len(lattice.ali) or length.max(initial=0) > 1 or lattice.ali.min() < 0:
        return lattice.word
    labels = np.zeros(lattice.num_arcs, np.int32)
    labels[length == 1] = lattice.ali
    return labels


def _entries(content: Content, words: SymbolTable | None, options: K2Options) -> Iterator[Entry]:
    return keyed(read_k2s(content.mapped(), content.name, None, options, keys=content.numbered))


def _is_k2(head: bytes) -> bool:
    return head.startswith(b"PK\x03\x04") and b"data.pkl" in head[:512]


@dataclass(frozen=True, slots=True)
class K2WriteOptions:
    """Options of ``write_k2s``."""

    extras: bool = True  # keep keys, alignments and times in an attribute that k2 carries along unread


class _Encoder:
    """Lattices kept in memory until the file is complete: an FsaVec begins with the counts of all."""

    def __init__(self, settings: WriteSettings) -> None:
        self._extras = settings.options.extras
        self._lattices: list[Lattice] = []

    def add(self, lattice: Lattice) -> bytes:
        """Take a lattice, if the file can hold it."""
        _check(lattice)
        self._lattices.append(lattice)
        return b""

    def end(self) -> bytes:
        """Return the file."""
        return write_k2s(self._lattices, extras=self._extras)


def _check(lattice: Lattice) -> None:
    """Refuse a lattice that would keep all the others out of their file.

    Raises:
        LatticeError: No state is final, or the sum of two costs is beyond float32.
    """
    refuse_empty(lattice)
    final = lattice.is_final
    with np.errstate(over="ignore"):
        sums = (lattice.graph + lattice.acoustic, lattice.final_graph[final] + lattice.final_acoustic[final])
    if not all(np.isfinite(each).all() for each in sums):
        raise LatticeError("graph and acoustic cost of an arc add up to more than float32 holds", key=lattice.key)


def _kept(keeps: frozenset[Field], options: K2WriteOptions) -> frozenset[Field]:
    return keeps if options.extras else keeps - {"key", "alignments", "times", "raw"}


FORMAT = Format(
    name="k2",
    about="k2's Fsa or FsaVec, saved by torch",
    extensions=(".pt",),
    mark=_is_k2,
    read=Read(_entries, K2Options),
    keeps=ALL_FIELDS - {"names"},
    write=Write(encoder=_Encoder, options=K2WriteOptions, keeps=_kept),
)
