"""What k2 has no place for: an attribute of the file with keys, alignments and times, which k2 carries along unread."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ninja import _formats
from ninja.errors import FormatError
from ninja.formats.k2_file import Machines
from ninja.formats.torch_file import Tensor
from ninja.lattice import Lattice
from ninja.lattice.arrays import frozen, offsets
from ninja.lattice.symbols import SymbolTable

NAME = "ninja"
VERSION = 1
NO_LABELS = frozen(np.zeros(0, np.int32))
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Extras:
    """The attribute, checked against the arcs it belongs to."""

    keys: Sequence[str]
    kinds: Sequence[str]
    frame_shifts: Sequence[float | None]
    arc_first: Int64  # [lattices + 1], arcs of the lattices before
    state_first: Int64  # [lattices + 1]
    ali_begin: Int64  # [all arcs + 1]
    ali: Int32
    final_ali_begin: Int64  # [all states + 1]
    final_ali: Int32
    timed: Sequence[bool]
    time: Int32  # [all states], or empty: nobody has times

    def fits(self, number: int, arrays: _formats.K2Arrays) -> bool:
        """Tell whether a lattice has the arcs and states that it had when it was written."""
        arcs = self.arc_first[number + 1] - self.arc_first[number]
        states = self.state_first[number + 1] - self.state_first[number]
        return len(arrays[1]) == arcs and len(arrays[5]) == states

    def lattice(self, number: int, key: str, arrays: _formats.K2Arrays, words: SymbolTable | None) -> Lattice:
        """Return a lattice with what belongs to it."""
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


def made(lattices: Sequence[Lattice], arcs: Int32) -> dict[str, Any]:
    """Return the attribute for lattices whose arcs, int32 [arcs, 4], are written."""

    def joined(pieces: list[npt.NDArray[Any]]) -> Int32:
        return np.concatenate([NO_LABELS, *pieces]).astype(np.int32)

    timed = [lattice.time is not None for lattice in lattices]
    unknown = [np.full(lattice.num_states, -1) if lattice.time is None else lattice.time for lattice in lattices]
    return {
        "version": VERSION,
        "fingerprint": _fingerprint(arcs),
        # One string: torch is slow with many small ones.
        "lattices": json.dumps([[each.key, each.kind, each.frame_shift, each.time is not None] for each in lattices]),
        "arcs": joined([np.array([lattice.num_arcs]) for lattice in lattices]),
        "states": joined([np.array([lattice.num_states]) for lattice in lattices]),
        "lengths": joined([np.diff(lattice.ali_begin) for lattice in lattices]),
        "alignment": joined([lattice.ali for lattice in lattices]),
        "final_lengths": joined([np.diff(lattice.final_ali_begin) for lattice in lattices]),
        "final_alignment": joined([lattice.final_ali for lattice in lattices]),
        "time": joined(unknown) if any(timed) else NO_LABELS.copy(),
    }


def read(machines: Machines, path: str | None) -> Extras | None:
    """Return the attribute of a file, if it has one that still belongs to its arcs: k2 carries it over any change.

    Raises:
        FormatError: It is damaged.
    """
    found = machines.others.get(NAME)
    if not isinstance(found, dict) or found.get("version") != VERSION:
        return None
    if found.get("fingerprint") != _fingerprint(machines.arcs.reshape(-1, 4)):
        return None
    try:
        return _checked(found, machines)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError) as error:
        raise FormatError(f"the attribute {NAME!r} of the file is damaged: {error}", path) from error


def _checked(found: dict[str, Any], machines: Machines) -> Extras:
    count = machines.count

    def numbers(name: str, length: int) -> Int32:
        tensor = found[name]
        if not isinstance(tensor, Tensor) or not tensor.is_plain:  # one that repeats a few bytes could claim any length
            raise ValueError(f"{name} is not written as a plain tensor is")
        array: Int32 = tensor.array()
        if array.dtype != np.int32 or array.shape != ((length,) if length >= 0 else array.shape) or array.ndim != 1:
            raise ValueError(f"{name} is not [{length}] int32")
        return array

    def begins(lengths: Int32, pool: Int32) -> Int64:
        begin = offsets(lengths)
        if (lengths < 0).any() or begin[-1] != len(pool):
            raise ValueError("the lengths of alignments do not add up")
        return begin

    # An arc for each of ours but the ones that are final costs, and one state less than k2's, which has the final one.
    states, arcs = numbers("states", count), numbers("arcs", count)
    rows = machines.arcs.reshape(-1, 4)
    ends = np.concatenate([[0], np.cumsum(rows[:, 2] == -1)])[machines.arc_begin]
    fits = np.array_equal(arcs, np.diff(machines.arc_begin) - np.diff(ends))
    in_order = bool(((rows[:, 1] > rows[:, 0]) | (rows[:, 2] == -1)).all())
    if not fits or not in_order or not np.array_equal(states, np.diff(machines.state_begin) - 1):
        # The file of a single FSA does not say how many states it has, but the one its final arcs enter does.
        raise ValueError("it belongs to other arcs")
    alignment, final_alignment = numbers("alignment", -1), numbers("final_alignment", -1)
    rows_of = json.loads(found["lattices"])
    if len(rows_of) != count:
        raise ValueError(f"{len(rows_of)} lattices, but {count} FSAs")
    keys, kinds, shifts, timed = (tuple(column) for column in zip(*rows_of, strict=True)) if rows_of else ((),) * 4
    if not all(type(key) is str for key in keys) or not all(type(flag) is bool for flag in timed):
        raise ValueError("a key that is no string")
    if not set(kinds) <= {"compact", "raw"}:
        raise ValueError("a kind that there is not")
    if not all(shift is None or (type(shift) in (int, float) and 0 < shift < float("inf")) for shift in shifts):
        raise ValueError("a frame shift that is not positive")
    arc_first = offsets(arcs)
    state_first = offsets(states)
    lengths, final_lengths = numbers("lengths", int(arc_first[-1])), numbers("final_lengths", int(state_first[-1]))
    return Extras(
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
    """Return a number that changes with the shape and the labels of the arcs, int32 [arcs, 4], but not with scores."""
    from isal import isal_zlib

    ends = np.ascontiguousarray(np.ascontiguousarray(arcs).view(np.int64)[:, 0])  # source and destination at once
    return int(isal_zlib.crc32(np.ascontiguousarray(arcs[:, 2]), isal_zlib.crc32(ends)))
