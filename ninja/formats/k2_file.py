"""Reader and writer for k2 FSAs saved as dictionaries by ``torch.save``, without k2; only writing requires torch."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ninja.errors import FormatError, OptionError
from ninja.files.stream import mapped
from ninja.formats import torch_file
from ninja.formats.torch_file import PARAMETER, PLAIN, STORAGES, Instance, Tensor
from ninja.lattice.symbols import SymbolTable
from ninja.libraries import needed_for

Array = npt.NDArray[Any]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Refuse = Callable[[str], FormatError]  # function that creates an error with the given message and the file name
_STANDARD = ("arcs", "scores", "labels", "properties")
_RAGGED = ("_k2.ragged.RaggedTensor", "k2.ragged.RaggedTensor")
_TABLE = "k2.symbol_table.SymbolTable"
_NAMES = (PLAIN - {PARAMETER}) | frozenset(STORAGES) | frozenset({*_RAGGED, _TABLE})
_ONLY = "only tensors, numbers, strings, lists and dictionaries are allowed"


@dataclass(frozen=True, slots=True)
class Ragged:
    """A list of integers for each arc."""

    begin: Int64  # [num_arcs + 1], offsets into `values`
    values: Array


@dataclass(frozen=True, slots=True)
class Machines:
    """One or more FSAs, with their states and arcs in concatenated arrays."""

    arcs: Int32  # [4 * num_arcs], source, destination, label and bits of the score of each arc
    state_begin: Int64  # [num_fsas + 1], offsets of the states of each FSA
    arc_begin: Int64  # [num_fsas + 1], offsets of the arcs of each FSA
    attributes: Mapping[str, Array | Ragged] = field(default_factory=dict)  # arrays [num_arcs]
    others: Mapping[str, Any] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Number of FSAs."""
        return len(self.arc_begin) - 1

    @property
    def num_arcs(self) -> int:
        """Total number of arcs."""
        return len(self.arcs) // 4

    def symbols(self, name: str, path: str | None) -> SymbolTable | None:
        """Return the symbol table with the given name, or None if it does not exist."""
        table = self.others.get(name)
        if table is None:
            return None
        state = table.state if isinstance(table, Instance) and table.name == _TABLE else None
        entries = state.get("_id2sym") if isinstance(state, dict) else None
        if not isinstance(entries, dict) or not all(type(i) is int and type(w) is str for i, w in entries.items()):
            raise FormatError(f"{name} is not a symbol table of strings", path)
        return SymbolTable(((word, number) for number, word in sorted(entries.items())), path)


def read(content: bytes | os.PathLike[str], path: str | None = None) -> Machines:
    """Read the FSAs in a file without using k2.

    Raises:
        FormatError: The file was not saved by torch, is damaged, or does not contain an FSA.
    """
    path = os.fspath(content) if path is None and not isinstance(content, bytes) else path

    def refuse(message: str) -> FormatError:
        return FormatError(message, path)

    try:
        image = content if isinstance(content, bytes) else mapped(content, path)
        loaded = torch_file.load(torch_file.opened(image), _NAMES, _ONLY)
    except FormatError as error:
        raise refuse(error.message) from error.__cause__
    if not isinstance(loaded, dict) or not all(isinstance(name, str) for name in loaded):
        raise refuse("the file is not a dictionary; save k2 lattices with torch.save(fsa.as_dict(), FILE)")
    if "arcs" not in loaded:
        raise refuse("the file is not a k2 FSA: its dictionary has no arcs; if it is a language model, use --rnnlm")
    size = len(image)

    def convert(name: str, value: Any) -> Any:
        if isinstance(value, Instance) and value.name in _RAGGED:
            return _ragged(value, name, size, refuse)
        return _array(value, name, size, refuse) if isinstance(value, Tensor) else value

    attributes = {name: convert(name, value) for name, value in loaded.items() if name not in _STANDARD}
    return _machines(_array(loaded["arcs"], "arcs", size, refuse), attributes, refuse)


def from_fsa(fsa: Any) -> Machines:
    """Convert a ``k2.Fsa`` in memory, or the dictionary that its ``as_dict()`` returns.

    Raises:
        FormatError: The argument is neither an Fsa nor such a dictionary, or its arcs and attributes are inconsistent.
    """
    content = fsa.as_dict() if hasattr(fsa, "as_dict") else fsa
    if not isinstance(content, Mapping) or "arcs" not in content:
        raise FormatError(f"expected a k2.Fsa or its as_dict(), found a {type(fsa).__name__}")

    def refuse(message: str) -> FormatError:
        return FormatError(f"the k2 FSA: {message}")

    attributes: dict[str, Any] = {}
    for name, value in content.items():
        if hasattr(value, "_id2sym"):
            attributes[name] = Instance(_TABLE, {"_id2sym": dict(value._id2sym)})
        elif name in ("aux_labels", "lm_scores", "am_scores") and hasattr(value, "row_splits"):
            values = value.values() if callable(value.values) else value.values
            begin = _numbers(value.row_splits(1), name, refuse).astype(np.int64)
            attributes[name] = Ragged(begin, _numbers(values, name, refuse))
        elif name in ("aux_labels", "lm_scores", "am_scores"):
            attributes[name] = _numbers(value, name, refuse)
    return _machines(_numbers(content["arcs"], "arcs", refuse), attributes, refuse)


def _machines(arcs: Array, entries: Mapping[str, Any], refuse: Refuse) -> Machines:
    """Create FSAs after checking the arc tensor and the length of each arc attribute."""
    arcs, state_begin, arc_begin = _split_arcs(arcs, refuse)
    attributes: dict[str, Array | Ragged] = {}
    others: dict[str, Any] = {}
    for name, value in entries.items():
        if not isinstance(value, np.ndarray | Ragged):
            others[name] = value
            continue
        length = len(value.begin) - 1 if isinstance(value, Ragged) else len(value) if value.ndim else 0
        if length != len(arcs) // 4:
            raise refuse(f"{name} has {length} entries, but there are {len(arcs) // 4} arcs")
        attributes[name] = value
    return Machines(arcs, state_begin, arc_begin, attributes, others)


def _numbers(value: Any, name: str, refuse: Refuse) -> Array:
    """Copy a torch tensor from any device to an array."""
    array = np.array(value.detach().cpu().numpy() if hasattr(value, "detach") else value)
    if array.dtype.kind not in "if":
        raise refuse(f"{name} is not a tensor of numbers")
    return array


def _array(tensor: Any, name: str, size: int, refuse: Refuse) -> Array:
    """Convert a tensor to an array; reject a tensor that is larger than the file because of strides of 0."""
    if not isinstance(tensor, Tensor):
        raise refuse(f"{name} is not a plain tensor")
    if tensor.size * tensor.storage.itemsize > size:
        raise refuse(f"{name} declares {tensor.size} elements, which is more than the file contains")
    return tensor.array()


def _split_arcs(arcs: Array, refuse: Refuse) -> tuple[Int32, Int64, Int64]:
    """Check an arc tensor, and return ``(arcs, state offsets, arc offsets)``.

    The arcs of all FSAs are int32 [4 * num_arcs]. The offsets, int64 [num_fsas + 1], are the indices of the first
    state and the first arc of each FSA, followed by the total number.
    """
    if arcs.dtype != np.int32:
        raise refuse(f"arcs are {arcs.dtype}, but must be int32")
    if arcs.ndim == 2 and arcs.shape[1] == 4:
        final = arcs[arcs[:, 2] == -1, 1]
        num_states = 0 if not len(arcs) else int(final[0]) + 1 if len(final) else int(arcs[:, :2].max()) + 2
        if num_states < 0 or num_states > np.iinfo(np.int32).max or num_states > 16 * len(arcs) + 16:
            raise refuse(f"the FSA declares {num_states} states, but has only {len(arcs)} arcs")
        return arcs.ravel(), np.array([0, num_states]), np.array([0, len(arcs)])
    if arcs.ndim != 1 or len(arcs) < 2:
        raise refuse(f"arcs have shape {list(arcs.shape)}, but an Fsa has [num_arcs, 4] and an FsaVec has one axis")
    count = int(arcs[0])
    if count < 0 or arcs[1] != 0 or 2 + 2 * (count + 1) > len(arcs):
        raise refuse(f"the FsaVec declares {count} FSAs, but has only {len(arcs)} numbers")
    state_begin = arcs[2 : count + 3].astype(np.int64)
    arc_begin = arcs[count + 3 : 2 * count + 4].astype(np.int64)
    numbers = arcs[2 * count + 4 :]
    for name, begin in (("states", state_begin), ("arcs", arc_begin)):
        if begin[0] != 0 or (np.diff(begin) < 0).any():
            raise refuse(f"the offsets of {name} in the FsaVec must start at 0 and never decrease")
    if 4 * arc_begin[-1] != len(numbers):
        raise refuse(
            f"the FsaVec declares {arc_begin[-1]} arcs, which need 4 numbers each, but has {len(numbers)} numbers"
        )
    if (np.diff(state_begin) > 16 * np.diff(arc_begin) + 16).any():
        raise refuse("the FsaVec declares many more states than arcs")
    return numbers, state_begin, arc_begin


def _ragged(value: Instance, name: str, size: int, refuse: Refuse) -> Ragged:
    state = value.state
    if not isinstance(state, tuple) or len(state) != 3:
        raise refuse(f"{name} is a ragged tensor with more than two axes, or damaged")
    begin = _array(state[0], name, size, refuse)
    values = _array(state[2], name, size, refuse)
    if begin.ndim != 1 or not len(begin) or begin.dtype.kind != "i" or values.ndim != 1:
        raise refuse(f"{name} is a ragged tensor with more than two axes, or damaged")
    if begin[0] != 0 or begin[-1] != len(values) or (np.diff(begin) < 0).any():
        raise refuse(f"the offsets of {name} are inconsistent")
    return Ragged(begin.astype(np.int64), values)


def scores(machines: Machines, name: str, path: str | None) -> npt.NDArray[np.float32] | None:
    """Return an attribute with one score per arc, float32 [num_arcs], or None if it is missing."""
    values = machines.attributes.get(name)
    if values is None:
        return None
    if isinstance(values, Ragged) or values.ndim != 1 or values.dtype.kind != "f":
        raise FormatError(f"{name} must have one score per arc", path)
    with np.errstate(over="ignore"):  # if a score overflows, the kernel reports the infinite value
        return np.ascontiguousarray(values, np.float32)


def one_word_each(machines: Machines, words: Array | Ragged | None, path: str | None) -> tuple[Machines, Int32 | None]:
    """Split each arc with several words into one arc per word; the first new arc has the scores.

    Returns:
        ``(FSAs, word of each arc)``: the words are int32 [num_arcs], or None if `words` is None.

    Raises:
        FormatError: Words are not integers.
    """
    if words is None:
        return machines, None
    values = words.values if isinstance(words, Ragged) else words
    if values.dtype.kind != "i" or values.ndim != 1:
        raise FormatError("aux_labels must have an integer, or a list of integers, per arc", path)
    small = values.astype(np.int32, copy=False)
    if small is not values and not np.array_equal(small, values):
        raise FormatError("aux_labels exceed the range of int32", path)
    if not isinstance(words, Ragged):
        return machines, np.ascontiguousarray(small)
    arc = np.repeat(np.arange(machines.num_arcs), np.diff(words.begin))
    is_final = machines.arcs.reshape(-1, 4)[:, 2] == -1
    is_word = (small != 0) & ~((small == -1) & is_final[arc])  # -1 is the label of final arcs in k2, not a word
    small, arc = small[is_word], arc[is_word]
    if len(arc) < 2 or (np.diff(arc) > 0).all():
        word = np.where(is_final, np.int32(-1), np.int32(0))
        word[arc] = small
        return machines, word
    return _split(machines, small, arc)


def _split(machines: Machines, words: Int32, arc: Int64) -> tuple[Machines, Int32]:
    count = np.maximum(np.bincount(arc, minlength=machines.num_arcs), 1)
    original = np.repeat(np.arange(machines.num_arcs), count)
    begin = np.concatenate([[0], np.cumsum(count)])
    step = np.arange(len(original)) - begin[original]
    rows = machines.arcs.reshape(-1, 4)[original]
    is_last = step == count[original] - 1
    word = np.where(rows[:, 2] == -1, np.int32(-1), np.int32(0))
    word[begin[arc] + np.arange(len(arc)) - np.searchsorted(arc, arc)] = words
    arc_begin = begin[machines.arc_begin]
    owner = np.repeat(np.arange(machines.count), np.diff(arc_begin))
    extra = np.bincount(owner[~is_last], minlength=machines.count)  # number of states between the parts of arcs
    state_begin = machines.state_begin + np.concatenate([[0], np.cumsum(extra)])
    last = np.diff(machines.state_begin) - 1  # the final state, which must stay the last state
    rank = np.cumsum(~is_last) - 1
    rank -= np.concatenate([[0], np.cumsum(extra)])[owner]
    between = last[owner] + rank
    rows[rows[:, 1] == last[owner], 1] += extra[owner[rows[:, 1] == last[owner]]].astype(np.int32)
    rows[~is_last, 1] = between[~is_last]
    rows[~is_last, 2] = 0
    later = np.flatnonzero(step > 0)
    rows[later, 0] = between[later - 1]
    rows[later, 3] = 0  # score 0.0, whose bits are all 0
    attributes: dict[str, Array | Ragged] = {}
    order = np.lexsort((rows[:, 0], owner))
    for name in ("lm_scores", "am_scores"):
        values = machines.attributes.get(name)
        if isinstance(values, np.ndarray):
            attributes[name] = np.where(step > 0, 0, values[original])[order]
    arcs = np.ascontiguousarray(rows[order]).ravel()
    return Machines(arcs, state_begin, arc_begin, attributes, machines.others), np.ascontiguousarray(word[order])


def write(arcs: Int32, columns: Mapping[str, Array], others: Mapping[str, Any]) -> bytes:
    """Encode arcs, arc attributes and other attributes as the bytes of a file; arrays become tensors."""
    with needed_for("writing a k2 file"):
        import torch

    def convert(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return torch.from_numpy(value if value.flags.writeable else value.copy())
        if isinstance(value, Mapping):
            return {name: convert(inner) for name, inner in value.items()}
        if isinstance(value, Sequence) and not isinstance(value, str):
            return [convert(inner) for inner in value]
        return value

    buffer = io.BytesIO()
    try:
        torch.save(convert({"arcs": arcs, **columns, **others}), buffer)
    except (TypeError, ValueError) as error:
        raise OptionError(f"the lattices cannot be written as a k2 file: {error}") from error
    return buffer.getvalue()
