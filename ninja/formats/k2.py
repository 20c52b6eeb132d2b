"""Reader and writer for k2 lattices (``torch.save(fsa.as_dict(), FILE)`` of an Fsa or FsaVec), without using k2.

Only scores, words, symbol tables and the attribute that Ninja writes are read; other attributes are ignored.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ninja import _formats
from ninja.errors import FormatError, LatticeError, NinjaError, OptionError
from ninja.formats import k2_file
from ninja.formats.content import Content, Entry, check_choice, keyed
from ninja.formats.format import ALL_FIELDS, Field, Format, Read, Write, WriteSettings
from ninja.formats.k2_file import Machines
from ninja.formats.textual import refuse_empty
from ninja.formats.torch_file import Tensor
from ninja.lattice import Lattice
from ninja.lattice.arrays import offsets
from ninja.lattice.lattice import SHIFTS, frozen
from ninja.lattice.symbols import SymbolTable

FINAL = -1  # label of arcs into the final state in k2
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Float32 = npt.NDArray[np.float32]
EXTRAS = "ninja"  # attribute with keys, alignments and times, which k2 preserves
VERSION = 1
NO_LABELS = frozen(np.zeros(0, np.int32))


@dataclass(frozen=True, slots=True)
class K2Options:
    """Options for reading a k2 file."""

    costs: Literal["acoustic", "graph"] = "acoustic"  # type of cost that scores become in a file without lm_scores
    words: Literal["auto", "aux_labels", "labels"] = "auto"  # attribute with the words; auto: aux_labels, else labels

    def __post_init__(self) -> None:
        check_choice("costs", self.costs, "acoustic", "graph")
        check_choice("words", self.words, "auto", "aux_labels", "labels")


def read_k2s(
    content: bytes | os.PathLike[str],
    path: str | None = None,
    options: K2Options = K2Options(),
    key_of: Callable[[int], str] = str,
) -> Iterator[Lattice | NinjaError]:
    """Read all lattices in a k2 file.

    If `content` is a path, the file is memory-mapped, and must not change while its lattices are in use.

    Costs are negated scores: lm_scores become the graph cost, and the rest of the score becomes the acoustic cost. Arcs
    into the final state become final costs. If states are not in topological order, the reachable states are sorted. An
    arc with several words (ragged aux_labels) becomes several arcs, of which the first has the costs. Keys are
    taken from the attribute ``ninja`` (see `K2Encoder`), or else returned by ``key_of(number)`` for the 1-based number
    of the FSA.

    Raises:
        FormatError: The file is not a k2 file, is damaged, or contains objects other than tensors, numbers, strings and
            containers.

    Source: k2, k2/python/k2/fsa.py (as_dict, from_dict), k2/csrc/fsa_utils.h (FsaToTensor, FsaVecToTensor).
    """
    yield from _lattices(k2_file.read(content, path), path, options, key_of)


def k2_lattices(fsa: Any, options: K2Options = K2Options(), keys: Sequence[str] | None = None) -> list[Lattice]:
    """Convert a ``k2.Fsa``, or the dictionary that its ``as_dict()`` returns, to lattices; see ``read_k2s``.

    Raises:
        OptionError: The number of keys differs from the number of lattices.
        FormatError: The argument is not an Fsa, or its arcs and attributes are inconsistent.
        LatticeError: An FSA cannot be converted to a lattice.
    """
    machines = k2_file.from_fsa(fsa)
    if keys is not None and len(keys) != machines.count:
        raise OptionError(f"there are {len(keys)} keys, but {machines.count} lattices; specify one key per lattice")
    lattices = []
    for lattice in _lattices(machines, None, options, str if keys is None else lambda number: keys[number - 1]):
        if isinstance(lattice, NinjaError):
            raise lattice
        lattices.append(lattice)
    return lattices


def _lattices(
    machines: Machines, path: str | None, options: K2Options, key_of: Callable[[int], str]
) -> Iterator[Lattice | NinjaError]:
    reader = _Reader(machines, path, options)
    extras = reader.extras
    for number in range(machines.count):
        try:
            yield reader.lattice(number, key_of(number + 1) if extras is None else extras.keys[number])
        except NinjaError as error:
            yield error


class _Reader:
    """Reader for the lattices in one file."""

    def __init__(self, machines: Machines, path: str | None, options: K2Options) -> None:
        self._path = path
        self._options = options
        aux = machines.attributes.get("aux_labels")
        if options.words == "aux_labels" and aux is None:
            raise FormatError("the file has no aux_labels; use words=labels to read words from labels", path)
        self.extras = _read_extras(machines, path)
        self._from_labels = aux is None or options.words == "labels"
        self._machines, self._word = k2_file.one_word_each(machines, None if self._from_labels else aux, path)
        self._lm = k2_file.scores(self._machines, "lm_scores", path)
        self._am = None if self._lm is None else k2_file.scores(self._machines, "am_scores", path)
        self._words = machines.symbols("labels_sym" if self._from_labels else "aux_labels_sym", path)
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
        )
        if arrays is None:
            kind = FormatError if malformed else LatticeError
            raise kind(f"arc {arc} {error}" if arc >= 0 else error, self._path, key=key)
        if self.extras is not None and self.extras.fits(number, arrays):
            return self.extras.lattice(number, key, arrays, self._words)
        begin, final_begin = self._zeros[: len(arrays[1]) + 1], self._zeros[: len(arrays[5]) + 1]
        none = NO_LABELS
        return _formats.whole_lattice(key, arrays, begin, none, final_begin, none, "compact", None, None, self._words)


def _arcs(lattice: Lattice) -> tuple[Int32, Int32, Float32, Float32]:
    """Return ``(arcs, words, LM scores, acoustic scores)`` for an Fsa; the arcs are int32 [num_arcs, 4]."""
    refuse_empty(lattice)
    final = np.flatnonzero(lattice.is_final)
    num_arcs = lattice.num_arcs + len(final)
    src = lattice.src
    place = np.arange(lattice.num_arcs) + np.searchsorted(final, src)  # row index after final arcs are inserted
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
        raise LatticeError(
            "an arc's total cost exceeds the range of float32; scale the costs down first", key=lattice.key
        )
    arcs[:, 3] = score.view(np.int32)
    return arcs, word, 0 - graph, 0 - acoustic


def _labels(lattice: Lattice) -> Int32:
    """Return the labels for k2: the alignment labels of a raw lattice, or the words of a compact lattice."""
    length = np.diff(lattice.ali_begin)
    if lattice.kind != "raw" or not len(lattice.ali) or length.max(initial=0) > 1 or lattice.ali.min() < 0:
        return lattice.word
    labels = np.zeros(lattice.num_arcs, np.int32)
    labels[length == 1] = lattice.ali
    return labels


def _entries(content: Content, words: SymbolTable | None, options: K2Options) -> Iterator[Entry]:
    return keyed(read_k2s(content.mapped(), content.name, options, content.numbered))


def _is_k2(head: bytes) -> bool:
    return head.startswith(b"PK\x03\x04") and b"data.pkl" in head[:512]


@dataclass(frozen=True, slots=True)
class K2WriteOptions:
    """Options for writing a k2 file."""

    extras: bool = True  # whether to write keys, alignments and times as an attribute, which k2 preserves


class K2Encoder:
    """Encoder that writes an FsaVec; all lattices are held in memory, because the file begins with their sizes.

    Scores are ``-(graph + acoustic)``, lm_scores are ``-graph`` and am_scores are ``-acoustic``. The aux_labels are the
    words; the labels are the alignment for a raw lattice, else the words. Final costs become arcs with label -1 into
    the final state. With the option ``extras``, the attribute ``ninja`` stores keys, kinds, alignments and times.
    """

    def __init__(self, settings: WriteSettings) -> None:
        self._extras = settings.options.extras
        self._lattices: list[Lattice] = []
        self._tables: list[tuple[Int32, Int32, Float32, Float32]] = []

    def add(self, lattice: Lattice) -> bytes:
        """Convert a lattice and keep it until `end` writes all lattices; return empty bytes."""
        self._tables.append(_arcs(lattice))
        self._lattices.append(lattice)
        return b""

    def end(self) -> bytes:
        """Return the bytes of the file."""
        arcs, columns = _joined(self._lattices, self._tables)
        extras = {}
        if self._extras:
            rows = [np.zeros((0, 4), np.int32), *(table[0] for table in self._tables)]
            extras[EXTRAS] = _extras(self._lattices, np.concatenate(rows))
        return k2_file.write(arcs, columns, extras)


def k2_attributes(lattices: Sequence[Lattice]) -> dict[str, npt.NDArray[Any]]:
    """Convert lattices to the arrays of an FsaVec, keyed as ``k2.Fsa.from_dict`` expects; see `K2Encoder`.

    Raises:
        LatticeError: A lattice has no final state, or costs or counts exceed the range of k2's types.
    """
    arcs, columns = _joined(lattices, [_arcs(lattice) for lattice in lattices])
    return {"arcs": arcs, **columns}


def _joined(
    lattices: Sequence[Lattice], tables: Sequence[tuple[Int32, Int32, Float32, Float32]]
) -> tuple[Int32, dict[str, npt.NDArray[Any]]]:
    """Concatenate lattices; return ``(arcs, attributes)``: the arc tensor of an FsaVec, and its arc attributes."""
    empty = np.zeros((0, 4), np.int32)
    arcs = np.concatenate([empty, *(table[0] for table in tables)])
    columns = {
        "aux_labels": np.concatenate([empty[:, 0], *(table[1] for table in tables)]),
        "lm_scores": np.concatenate([empty[:, 0].view(np.float32), *(table[2] for table in tables)]),
        "am_scores": np.concatenate([empty[:, 0].view(np.float32), *(table[3] for table in tables)]),
    }
    states = np.cumsum([0, *(lattice.num_states + 1 for lattice in lattices)])
    begins = np.cumsum([0, *(len(table[0]) for table in tables)])
    if max(states[-1], 4 * begins[-1]) > np.iinfo(np.int32).max:
        raise LatticeError("too many arcs for one FsaVec, whose counts are int32; write fewer lattices per file")
    return np.concatenate([[len(lattices), 0], states, begins, arcs.ravel()]).astype(np.int32), columns


def _stored_fields(keeps: frozenset[Field], options: K2WriteOptions) -> frozenset[Field]:
    return keeps if options.extras else keeps - {"key", "alignments", "times", "raw"}


@dataclass(frozen=True, slots=True)
class _Extras:
    """The attribute ``ninja`` of a file (keys, alignments, times), checked against the arcs in the file."""

    keys: Sequence[str]
    kinds: Sequence[str]
    frame_shifts: Sequence[float | None]
    arc_first: Int64  # [num_lattices + 1], offsets of the arcs of each lattice
    state_first: Int64  # [num_lattices + 1], offsets of the states
    ali_begin: Int64  # [total number of arcs + 1]
    ali: Int32
    final_ali_begin: Int64  # [total number of states + 1]
    final_ali: Int32
    timed: Sequence[bool]  # [num_lattices], whether a lattice has times
    time: Int32  # [total number of states]; empty if no lattice has times

    def fits(self, number: int, arrays: _formats.K2Arrays) -> bool:
        """Return whether a lattice has the same number of arcs and states as when it was written."""
        arcs = self.arc_first[number + 1] - self.arc_first[number]
        states = self.state_first[number + 1] - self.state_first[number]
        return bool(len(arrays[1]) == arcs and len(arrays[5]) == states)

    def lattice(self, number: int, key: str, arrays: _formats.K2Arrays, words: SymbolTable | None) -> Lattice:
        """Create a lattice from arcs, with the alignment, times, frame shift and kind stored in the attribute."""
        first, last = self.arc_first[number], self.arc_first[number + 1]
        first_state, last_state = self.state_first[number], self.state_first[number + 1]
        begin = self.ali_begin[first : last + 1]
        final_begin = self.final_ali_begin[first_state : last_state + 1]
        return _formats.whole_lattice(
            key,
            arrays,
            frozen(begin - begin[0]),
            frozen(self.ali[begin[0] : begin[-1]]),
            frozen(final_begin - final_begin[0]),
            frozen(self.final_ali[final_begin[0] : final_begin[-1]]),
            self.kinds[number],
            frozen(self.time[first_state:last_state]) if self.timed[number] else None,
            self.frame_shifts[number],
            words,
        )


def _extras(lattices: Sequence[Lattice], arcs: Int32) -> dict[str, Any]:
    """Create the attribute ``ninja``, which stores lattice properties that k2 cannot represent.

    Args:
        arcs: Arcs of the lattices in k2's format, int32 [num_arcs, 4].
    """

    def joined(pieces: list[npt.NDArray[Any]]) -> Int32:
        return np.concatenate([NO_LABELS, *pieces]).astype(np.int32)

    timed = [lattice.time is not None for lattice in lattices]
    unknown = [np.full(lattice.num_states, -1) if lattice.time is None else lattice.time for lattice in lattices]
    return {
        "version": VERSION,
        "fingerprint": _fingerprint(arcs),
        # All keys are in a single string, because torch is slow with many small strings.
        "lattices": json.dumps([[one.key, one.kind, one.frame_shift, one.time is not None] for one in lattices]),
        "arcs": joined([np.array([lattice.num_arcs]) for lattice in lattices]),
        "states": joined([np.array([lattice.num_states]) for lattice in lattices]),
        "lengths": joined([np.diff(lattice.ali_begin) for lattice in lattices]),
        "alignment": joined([lattice.ali for lattice in lattices]),
        "final_lengths": joined([np.diff(lattice.final_ali_begin) for lattice in lattices]),
        "final_alignment": joined([lattice.final_ali for lattice in lattices]),
        "time": joined(unknown) if any(timed) else NO_LABELS.copy(),
    }


def _read_extras(machines: Machines, path: str | None) -> _Extras | None:
    """Return the attribute ``ninja`` of a file, or None if it is missing or outdated.

    The attribute is outdated if its version is not supported, or if the arcs have changed since it was written.
    """
    fields = machines.others.get(EXTRAS)
    if not isinstance(fields, dict) or fields.get("version") != VERSION:
        return None
    if fields.get("fingerprint") != _fingerprint(machines.arcs.reshape(-1, 4)):
        return None
    try:
        return _checked_extras(fields, machines)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError) as error:
        raise FormatError(f"the attribute {EXTRAS!r} of the file is damaged: {error}", path) from error


def _checked_extras(fields: dict[str, Any], machines: Machines) -> _Extras:
    count = machines.count

    def numbers(name: str, length: int) -> Int32:
        tensor = fields[name]
        if (
            not isinstance(tensor, Tensor) or not tensor.is_plain
        ):  # with strides of 0, a small tensor could have any length
            raise ValueError(f"{name} is not a contiguous tensor")
        array: Int32 = tensor.array()
        if array.dtype != np.int32 or array.shape != ((length,) if length >= 0 else array.shape) or array.ndim != 1:
            size = f" of size {length}" if length >= 0 else ""
            raise ValueError(f"{name} is not an int32 tensor with one axis{size}")
        return array

    def begins(lengths: Int32, pool: Int32) -> Int64:
        begin = offsets(lengths)
        if (lengths < 0).any() or begin[-1] != len(pool):
            raise ValueError("the lengths of the alignments do not sum to the number of labels")
        return begin

    # In k2, arcs into the final state represent final costs; the lattice has neither these arcs nor this state.
    states, arcs = numbers("states", count), numbers("arcs", count)
    rows = machines.arcs.reshape(-1, 4)
    ends = np.concatenate([[0], np.cumsum(rows[:, 2] == -1)])[machines.arc_begin]
    fits = np.array_equal(arcs, np.diff(machines.arc_begin) - np.diff(ends))
    in_order = bool(((rows[:, 1] > rows[:, 0]) | (rows[:, 2] == -1)).all())
    if not fits or not in_order or not np.array_equal(states, np.diff(machines.state_begin) - 1):
        raise ValueError("its arcs differ from the arcs in the file")
    alignment, final_alignment = numbers("alignment", -1), numbers("final_alignment", -1)
    records = json.loads(fields["lattices"])
    if len(records) != count:
        raise ValueError(f"it describes {len(records)} lattices, but the file contains {count} FSAs")
    keys, kinds, shifts, timed = (tuple(column) for column in zip(*records, strict=True)) if records else ((),) * 4
    if not all(type(key) is str for key in keys) or not all(type(flag) is bool for flag in timed):
        raise ValueError("a key is not a string, or a flag is not a boolean")
    if not set(kinds) <= {"compact", "raw"}:
        raise ValueError("the kind of a lattice is neither compact nor raw")
    if not all(shift is None or (type(shift) in (int, float) and SHIFTS[0] <= shift <= SHIFTS[1]) for shift in shifts):
        raise ValueError("a frame shift is not a number from 1e-6 to 1e6")
    arc_first = offsets(arcs)
    state_first = offsets(states)
    lengths, final_lengths = numbers("lengths", int(arc_first[-1])), numbers("final_lengths", int(state_first[-1]))
    return _Extras(
        keys,
        kinds,
        shifts,
        arc_first,
        state_first,
        begins(lengths, alignment),
        alignment,
        begins(final_lengths, final_alignment),
        final_alignment,
        timed,
        numbers("time", int(state_first[-1]) if any(timed) else 0),
    )


def _fingerprint(arcs: Int32) -> int:
    """Return a checksum of arcs, int32 [num_arcs, 4], that covers states and labels, but not scores."""
    from isal import isal_zlib

    ends = np.ascontiguousarray(
        np.ascontiguousarray(arcs).view(np.int64)[:, 0]
    )  # source and destination as one integer
    return int(isal_zlib.crc32(np.ascontiguousarray(arcs[:, 2]), isal_zlib.crc32(ends)))


FORMAT = Format(
    name="k2",
    about="k2's Fsa or FsaVec, saved by torch",
    extensions=(".pt",),
    mark=_is_k2,
    read=Read(_entries, K2Options, ids=True),
    keeps=ALL_FIELDS - {"names"},
    write=Write(encoder=K2Encoder, options=K2WriteOptions, keeps=_stored_fields),
)
