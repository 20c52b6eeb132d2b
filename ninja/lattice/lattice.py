"""``Lattice``, the central type of this package; ``ListLattice`` for n-best lists; and ``Scales`` for costs.

This module contains no algorithms; functions in other modules accept a lattice and return a new lattice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ninja.errors import LatticeError, OptionError, counted, kind_of
from ninja.lattice.symbols import EPSILON, SymbolTable

Array = npt.NDArray[Any]
Kind = Literal["compact", "raw"]

_DTYPES = {
    "arc_begin": np.int64,
    "dst": np.int32,
    "word": np.int32,
    "graph": np.float32,
    "acoustic": np.float32,
    "ali_begin": np.int64,
    "ali": np.int32,
    "final_graph": np.float32,
    "final_acoustic": np.float32,
    "final_ali_begin": np.int64,
    "final_ali": np.int32,
    "time": np.int32,
}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Lattice:
    """A word lattice whose states are in topological order, with state 0 as the only start and arcs sorted by state.

    Costs are unscaled natural-log costs; lower is better. Graph and acoustic costs are stored separately, as in Kaldi.
    The arrays are read-only. States that are not on a path from the start to a final state are allowed (``connect``
    removes them).
    """

    key: str  # utterance id
    arc_begin: npt.NDArray[np.int64]  # [num_states + 1]; arcs of state s are arc_begin[s] : arc_begin[s + 1]
    dst: npt.NDArray[np.int32]  # [num_arcs], destination state, greater than the source state
    word: npt.NDArray[np.int32]  # [num_arcs], word id, 0 = epsilon
    graph: npt.NDArray[np.float32]  # [num_arcs], sum of LM, pronunciation and transition costs
    acoustic: npt.NDArray[np.float32]  # [num_arcs]
    ali_begin: npt.NDArray[np.int64]  # [num_arcs + 1]; labels of arc a are ali[ali_begin[a] : ali_begin[a + 1]]
    ali: npt.NDArray[np.int32]  # alignment labels of all arcs, one per frame: transition ids in Kaldi
    final_graph: npt.NDArray[np.float32]  # [num_states], +inf = not final
    final_acoustic: npt.NDArray[np.float32]  # [num_states], +inf = not final
    final_ali_begin: npt.NDArray[np.int64]  # [num_states + 1]
    final_ali: npt.NDArray[np.int32]  # alignment labels of all final states
    kind: Kind = "compact"  # "raw": Kaldi's Lattice, at most one label per arc; writers keep the kind
    time: npt.NDArray[np.int32] | None = None  # [num_states], frame of each state, if the file has times and no labels
    frame_shift: float | None = None  # seconds per frame (per label), if known
    words: SymbolTable | None = None  # shared by all lattices of an archive

    @classmethod
    def from_arrays(
        cls,
        key: str,
        arc_begin: npt.ArrayLike,
        dst: npt.ArrayLike,
        word: npt.ArrayLike,
        graph: npt.ArrayLike,
        acoustic: npt.ArrayLike,
        final_graph: npt.ArrayLike,
        final_acoustic: npt.ArrayLike | None = None,
        *,
        ali_begin: npt.ArrayLike | None = None,
        ali: npt.ArrayLike | None = None,
        final_ali_begin: npt.ArrayLike | None = None,
        final_ali: npt.ArrayLike | None = None,
        kind: Kind = "compact",
        time: npt.ArrayLike | None = None,
        frame_shift: float | None = None,
        words: SymbolTable | None = None,
    ) -> Lattice:
        """Create a lattice from arrays and check every invariant.

        The arguments are the fields of the class. Alignments default to empty, and ``final_acoustic`` defaults to 0 for
        final states.

        Raises:
            LatticeError: An invariant is violated; the message names the first arc or state that violates it.
            OptionError: The key is not a str, ``words`` is not a symbol table, or the frame shift is out of range.
        """
        no_labels = np.zeros(0, np.int32)
        final_graph = _convert("final_graph", final_graph, key)
        if final_acoustic is None:
            final_acoustic = np.where(np.isposinf(final_graph), np.float32(np.inf), np.float32(0))
        values = {
            "arc_begin": arc_begin,
            "dst": dst,
            "word": word,
            "graph": graph,
            "acoustic": acoustic,
            "ali_begin": np.zeros(np.size(dst) + 1, np.int64) if ali_begin is None else ali_begin,
            "ali": no_labels if ali is None else ali,
            "final_graph": final_graph,
            "final_acoustic": final_acoustic,
            "final_ali_begin": np.zeros(len(final_graph) + 1, np.int64) if final_ali_begin is None else final_ali_begin,
            "final_ali": no_labels if final_ali is None else final_ali,
        }
        if time is not None:
            values["time"] = time
        arrays = {name: _convert(name, array, key) for name, array in values.items()}
        lattice = cls(key, **arrays, kind=kind, frame_shift=frame_shift, words=words)
        check(lattice)
        return lattice

    @classmethod
    def unlabelled(
        cls,
        key: str,
        arc_begin: npt.NDArray[np.int64],
        dst: npt.NDArray[np.int32],
        word: npt.NDArray[np.int32],
        graph: npt.NDArray[np.float32],
        acoustic: npt.NDArray[np.float32],
        final_graph: npt.NDArray[np.float32],
        final_acoustic: npt.NDArray[np.float32],
        words: SymbolTable | None = None,
    ) -> Lattice:
        """Create a lattice without alignments from a kernel's read-only arrays, which are not checked."""
        none = frozen(np.zeros(0, np.int32))
        ali_begin, final_ali_begin = (frozen(np.zeros(size + 1, np.int64)) for size in (len(dst), len(final_graph)))
        arcs = key, arc_begin, dst, word, graph, acoustic, ali_begin, none
        return cls(*arcs, final_graph, final_acoustic, final_ali_begin, none, words=words)

    @property
    def num_states(self) -> int:
        """Number of states."""
        return len(self.arc_begin) - 1

    @property
    def num_arcs(self) -> int:
        """Number of arcs."""
        return len(self.dst)

    @property
    def src(self) -> npt.NDArray[np.int32]:
        """Source state of each arc, int32 [num_arcs]; computed on each access."""
        return np.repeat(np.arange(self.num_states, dtype=np.int32), np.diff(self.arc_begin))

    @property
    def is_final(self) -> npt.NDArray[np.bool_]:
        """Mask of final states, bool [num_states]."""
        return np.isfinite(self.final_graph) & np.isfinite(self.final_acoustic)

    @property
    def has_labels(self) -> bool:
        """Whether any arc or final state has alignment labels."""
        return len(self.ali) > 0 or len(self.final_ali) > 0

    def replace(self, **changed: Any) -> Lattice:
        """Return a copy with new values for some fields, without checks.

        This is twice as fast as ``dataclasses.replace``.

        Args:
            changed: New values by field name; arrays must be read-only and consistent with the other fields.

        Raises:
            TypeError: A name is not a field of the class.
        """
        copy = object.__new__(Lattice)
        for name, store in _STORES:
            store(copy, changed.pop(name) if name in changed else getattr(self, name))
        if changed:
            raise TypeError(f"a lattice has no field {next(iter(changed))!r}")
        return copy

    def with_costs(self, graph: npt.NDArray[np.float32], acoustic: npt.NDArray[np.float32] | None = None) -> Lattice:
        """Return a copy with new arc costs, float32 [num_arcs] each; if `acoustic` is None, acoustic costs are kept."""
        changed = self.replace(graph=frozen_copy(graph, np.float32))
        return changed if acoustic is None else changed.replace(acoustic=frozen_copy(acoustic, np.float32))

    def with_key(self, key: str) -> Lattice:
        """Return a copy with the key replaced."""
        check_description(key)
        return self.replace(key=key)

    def with_words(self, words: SymbolTable | None) -> Lattice:
        """Return a copy with the symbol table replaced."""
        return self.replace(words=words)

    def identical(self, other: Lattice) -> bool:
        """Return whether two lattices have the same key, kind and arrays; frame shifts and symbol tables may differ."""
        return (
            self.key == other.key
            and self.kind == other.kind
            and all(np.array_equal(getattr(self, name), getattr(other, name)) for name in _DTYPES)
        )

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the fields; the arrays are read-only again after unpickling."""
        return _restore, tuple(getattr(self, slot.name) for slot in fields(self))

    def __repr__(self) -> str:
        return (
            f"Lattice({self.key!r}, {counted(self.num_states, 'state')}, {counted(self.num_arcs, 'arc')}, {self.kind})"
        )


SHIFTS = 1e-6, 1e6  # range of frame shifts in seconds
SLOTS: tuple[Any, ...] = tuple(Lattice.__dict__[slot.name] for slot in fields(Lattice))  # descriptors of the fields
_STORES = tuple((slot.__name__, slot.__set__) for slot in SLOTS)


def check_lattice(argument: object) -> None:
    """Raise OptionError if an argument is not a lattice."""
    if not isinstance(argument, Lattice):
        raise not_a_lattice(argument)


def not_a_lattice(argument: object) -> OptionError:
    """Return the error for an argument that is not a lattice; kernels also raise it."""
    if isinstance(argument, tuple):
        advice = "pass only the lattice, which contains its key"
    else:
        advice = "pass a ninja.Lattice, as in the (key, lattice) pairs that ninja.read yields"
    return OptionError(f"expected a lattice, but got {kind_of(argument)}; {advice}")


def check_description(key: object, words: object = None, frame_shift: object = None) -> None:
    """Raise OptionError if an utterance id, symbol table or frame shift has an invalid type or value."""
    if not isinstance(key, str):
        raise OptionError(f"key is {key!r:.60}, but must be an utterance id of type str")
    check_words(words)
    if frame_shift is not None:
        checked_shift(frame_shift)


def check_words(words: object) -> None:
    """Raise OptionError if an argument is neither a symbol table nor None."""
    if words is not None and not isinstance(words, SymbolTable):
        raise OptionError(f"words is {words!r:.60}, but must be a SymbolTable; SymbolTable.read reads a file")


def checked_shift(frame_shift: Any) -> float:
    """Check and return a frame shift in seconds; raise OptionError unless it is in `SHIFTS`.

    With other frame shifts, times would be infinite in single precision, or would all be 0.
    """
    if not (isinstance(frame_shift, Real) and SHIFTS[0] <= float(frame_shift) <= SHIFTS[1]):
        raise OptionError(f"frame_shift is {frame_shift!r:.60}, but must be from 1e-6 to 1e6 seconds")
    return float(frame_shift)


def check(lattice: Lattice) -> None:
    """Check every invariant of a lattice. Lattices from readers and kernels satisfy the invariants by construction.

    Raises:
        LatticeError: An invariant is violated; the message names the first arc or state that violates it.
        OptionError: See `check_description`.
    """

    def refuse(message: str) -> None:
        raise LatticeError(message, key=lattice.key)

    num_states, num_arcs = lattice.num_states, lattice.num_arcs
    if num_states < 1:
        refuse("the lattice is empty: it has no states")
    lengths = {"word": num_arcs, "graph": num_arcs, "acoustic": num_arcs, "ali_begin": num_arcs + 1}
    lengths |= {"final_graph": num_states, "final_acoustic": num_states, "final_ali_begin": num_states + 1}
    for name, length in lengths.items():
        if getattr(lattice, name).shape != (length,):
            refuse(f"{name} has shape {getattr(lattice, name).shape}, but must have shape ({length},)")
    if lattice.ali.ndim != 1 or lattice.final_ali.ndim != 1:
        refuse("ali and final_ali must have one dimension")
    if lattice.kind not in ("compact", "raw"):
        refuse(f"kind is {lattice.kind!r}, but must be compact or raw")
    check_description(lattice.key, lattice.words, lattice.frame_shift)
    pools = {"arc_begin": num_arcs, "ali_begin": len(lattice.ali), "final_ali_begin": len(lattice.final_ali)}
    for name, size in pools.items():
        begin = getattr(lattice, name)
        if begin[0] != 0 or begin[-1] != size or (begin[1:] < begin[:-1]).any():
            refuse(f"{name} must start at 0, never decrease, and end at {size}")

    def first(bad: Array) -> int:
        return int(np.flatnonzero(bad)[0])

    if (bad := (lattice.dst < 0) | (lattice.dst >= num_states)).any():
        refuse(f"arc {first(bad)} enters state {lattice.dst[first(bad)]}, but there are {num_states} states")
    if (bad := lattice.dst <= lattice.src).any():
        arc = first(bad)
        refuse(f"arc {arc} leads from state {lattice.src[arc]} back to {lattice.dst[arc]}; sort the states")
    if (bad := lattice.word < 0).any():
        refuse(f"arc {first(bad)} has the negative word id {lattice.word[first(bad)]}")
    for name in ("graph", "acoustic"):
        if (bad := ~np.isfinite(getattr(lattice, name))).any():
            refuse(f"arc {first(bad)} has the {name} cost {getattr(lattice, name)[first(bad)]}, but it must be finite")
    for name in ("final_graph", "final_acoustic"):
        cost = getattr(lattice, name)
        if (bad := np.isnan(cost) | np.isneginf(cost)).any():
            refuse(f"state {first(bad)} has the {name} cost {cost[first(bad)]}, but it must be finite or +inf")
    if not lattice.is_final.any():
        refuse("no state is final")
    if lattice.time is not None and lattice.time.shape != (num_states,):
        refuse(f"time has shape {lattice.time.shape}, but must have shape ({num_states},)")


def check_costs(lattice: Lattice) -> None:
    """Check that all costs can be written to a file and read again; computed costs can exceed the range of float32.

    Raises:
        LatticeError: An arc cost or a final cost is not finite, or no state is final.
    """
    is_final = lattice.is_final
    is_not_final = np.isposinf(lattice.final_graph) & np.isposinf(lattice.final_acoustic)
    is_finite = np.isfinite(lattice.graph) & np.isfinite(lattice.acoustic)
    if is_finite.all() and (is_final | is_not_final).all() and is_final.any():
        return
    if not is_finite.all():
        arc = int(np.flatnonzero(~is_finite)[0])
        costs = f"arc {arc} has the costs {lattice.graph[arc]} and {lattice.acoustic[arc]}"
    elif not (is_final | is_not_final).all():
        state = int(np.flatnonzero(~(is_final | is_not_final))[0])
        costs = f"state {state} has the final costs {lattice.final_graph[state]} and {lattice.final_acoustic[state]}"
    else:
        raise LatticeError("no state is final", key=lattice.key)
    reason = "exceed the range of float32; scale the costs down first"
    if "nan" in costs:
        reason = "are not numbers; correct them first"
    raise LatticeError(f"{costs}, which {reason}", key=lattice.key)


def _restore(*values: Any) -> Lattice:
    """Create a lattice from its unpickled fields."""
    arguments: list[Any] = [frozen(value) if isinstance(value, np.ndarray) else value for value in values]
    return Lattice(*arguments)


def _convert(name: str, values: npt.ArrayLike, key: str) -> Array:
    """Convert values to the dtype of a field; integers must be representable exactly."""
    dtype = np.dtype(_DTYPES[name])
    if isinstance(values, np.ndarray) and values.dtype == dtype and values.ndim:
        return frozen_copy(values, dtype)
    try:
        with np.errstate(invalid="ignore", over="ignore"):  # `check` reports infinite costs
            array = frozen_copy(values, dtype)
        if dtype.kind == "f" or np.array_equal(array, values):
            return array
    except (OverflowError, ValueError, TypeError):
        pass
    raise LatticeError(f"{name} contains values that cannot be converted to {dtype}", key=key)


def has_graph_costs(lattice: Lattice) -> bool:
    """Return whether an arc or a final state has a graph cost other than 0."""
    return bool(lattice.graph.any() or lattice.final_graph[lattice.is_final].any())


LARGEST_SCALE = 1e200  # largest absolute value for which path costs stay within the range of float64


@dataclass(frozen=True, slots=True)
class Scales:
    """Weights of the terms in a path cost: ``acoustic * acoustic cost + lm * graph cost + word_penalty * words``.

    Raises:
        OptionError: A weight is not between -1e200 and 1e200; with other weights, path costs could overflow float64.
    """

    acoustic: float = 1.0
    lm: float = 1.0
    word_penalty: float = 0.0

    def __post_init__(self) -> None:
        to_python_numbers(self)
        scales = {"acoustic_scale": self.acoustic, "lm_scale": self.lm, "word_penalty": self.word_penalty}
        for name, value in scales.items():
            if not abs(value) <= LARGEST_SCALE:
                check_finite(name, value)
                raise OptionError(f"{name} is {value}, but must be between -{LARGEST_SCALE:g} and {LARGEST_SCALE:g}")

    def __str__(self) -> str:
        lm = "" if self.lm == 1.0 else f", LM scale {self.lm:g}"
        return f"acoustic scale {self.acoustic:g}{lm}, word penalty {self.word_penalty:g}"

    def of_arcs(self, lattice: Lattice) -> npt.NDArray[np.float64]:
        """Return the total cost of each arc, float64 [num_arcs]."""
        cost = self.lm * lattice.graph.astype(np.float64) + self.acoustic * lattice.acoustic.astype(np.float64)
        return cost + self.word_penalty * (lattice.word != EPSILON) if self.word_penalty else cost


def to_python_numbers(options: Any) -> None:
    """Convert NumPy scalars in the fields of a frozen dataclass to Python numbers, which have a plain `repr`."""
    for slot in fields(options):
        if isinstance(value := getattr(options, slot.name), np.generic):
            object.__setattr__(options, slot.name, value.item())


def check_finite(name: str, value: float) -> None:
    """Raise OptionError if a number is not finite."""
    if not abs(value) < math.inf:  # also correct for integers beyond float64
        raise OptionError(f"{name} is {value}, but must be finite")


def check_one_cost(name: str, costs: str, acoustic_scale: float) -> None:
    """Raise OptionError if an acoustic scale is set for costs other than "total"; only "total" is scaled."""
    if costs != "total" and acoustic_scale != 1.0:
        message = f"acoustic_scale={acoustic_scale:g} has no effect with {name}={costs}, which writes unscaled costs"
        raise OptionError(f"{message}; remove it, or set {name}=total")


class Origin(NamedTuple):
    """The position of an utterance in its source file, and the fields of its words in that file.

    Writers for the same format write a copy of the file in which only corrected words are changed. Other writers use
    the confidences and speakers in this object.
    """

    document: Any  # ``ninja.formats.hypotheses.document.Document``
    entry: int  # index of the line or block of the file; 0 if the file is read as a whole
    place: int  # 0-based index of the utterance within the entry
    words: tuple[str, ...] = ()  # words of the first hypothesis
    begin: float | None = None  # seconds
    end: float | None = None  # seconds
    speaker: str | None = None
    channel: str | None = None
    confidences: tuple[float | None, ...] = ()  # [num_words] or empty
    speakers: tuple[str | None, ...] = ()  # [num_words] or empty


class ListRecord(NamedTuple):
    """Additional fields of an utterance and its hypotheses, which a writer of the same format writes back.

    Hypotheses are identified by their words.
    """

    utterance: Mapping[str, Any]  # fields of the utterance, in file order
    hypotheses: Mapping[str, Mapping[str, Any]]  # words of a hypothesis, joined by spaces -> its fields
    others: frozenset[str] = frozenset()  # names of fields that have no equivalent in a lattice
    layout: Any = None  # field names of the file  [default: the writer's field names]
    origin: Origin | None = None  # position of the utterance, for writers that copy the file and replace only words


def joined_records(first: ListRecord | None, second: ListRecord | None) -> ListRecord | None:
    """Merge the additional fields of two parts of an n-best list; fields of the first part take precedence."""
    if first is None or second is None:
        return first or second
    utterance = {**second.utterance, **first.utterance}
    hypotheses = {**second.hypotheses, **first.hypotheses}
    return ListRecord(utterance, hypotheses, first.others | second.others, first.layout, first.origin or second.origin)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ListLattice(Lattice):
    """A lattice whose paths are hypotheses of an n-best list."""

    num_hypotheses: int = 0  # length of the list; the lattice has at most as many distinct word sequences
    record: ListRecord | None = None  # additional fields of the file

    @classmethod
    def of(cls, lattice: Lattice, num_hypotheses: int, record: ListRecord | None = None) -> ListLattice:
        """Convert a lattice to a ``ListLattice``."""
        values: list[Any] = [slot.__get__(lattice) for slot in SLOTS]
        return cls(*[*values, num_hypotheses, record])

    def replace(self, **changed: Any) -> ListLattice:
        """Return a copy with new values for some fields; see ``Lattice.replace``."""
        return ListLattice.of(Lattice.replace(self, **changed), self.num_hypotheses, self.record)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the lattice, the number of hypotheses and the record."""
        return ListLattice.of, (Lattice.replace(self), self.num_hypotheses, self.record)


def as_list_of(source: Lattice, lattice: Lattice) -> Lattice:
    """Convert `lattice` to a ``ListLattice`` with the ``num_hypotheses`` and ``record`` of `source`.

    If `source` is not a ``ListLattice``, or `lattice` already is one, `lattice` is returned unchanged.
    """
    if isinstance(source, ListLattice) and not isinstance(lattice, ListLattice):
        return ListLattice.of(lattice, source.num_hypotheses, source.record)
    return lattice


def frozen(array: Array, dtype: npt.DTypeLike | None = None) -> Array:
    """Return a contiguous read-only array of the given dtype; the caller must not keep writable views of its memory."""
    array = np.ascontiguousarray(array, dtype)
    array.flags.writeable = False
    return array


def frozen_copy(values: npt.ArrayLike, dtype: npt.DTypeLike) -> Array:
    """Return values as a contiguous read-only array; memory that the caller could still modify is copied."""
    array = np.ascontiguousarray(values, dtype)
    if array.flags.writeable and (array is values or array.base is not None):
        array = array.copy()
    return frozen(array)
