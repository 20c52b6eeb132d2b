"""To OpenFst and back: lattices as ``pywrapfst`` machines, by binary image rather than arc by arc.

OpenFst knows one weight; a lattice has two costs and an alignment on every arc. Arc labels bridge the gap: with
``labels="arc"`` (or ``"word:arc"``) each arc carries its own number, so that whatever OpenFst makes of the machine can
be mapped back, word, costs and alignment included, by ``from_openfst(fst, like=lattice)``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from ninja import _openfst
from ninja.errors import DependencyError, FormatError, LatticeError, OptionError
from ninja.lattice import Lattice
from ninja.lattice.arrays import frozen, gather, offsets, owners
from ninja.lattice.symbols import EPSILON, SymbolTable

if TYPE_CHECKING:
    import pywrapfst

ArcType = Literal["standard", "log", "log64"]
CostName = Literal["total", "graph", "acoustic"]
Labels = Literal["word", "arc", "word:arc"]
Float64 = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Symbols = list[tuple[bytes, int]]
Side = Literal["output", "input"]
Fields = tuple[str, int, Int64, Int32, Int32, Int32, Float64, Float64, "tuple[Symbols | None, Symbols | None]"]


def to_openfst(
    lattice: Lattice,
    arc_type: ArcType = "standard",
    costs: CostName = "total",
    labels: Labels = "word",
    acoustic_scale: float = 1.0,
) -> pywrapfst.MutableFst:
    """Return a lattice as an OpenFst machine.

    Args:
        lattice: Any lattice; its alignments stay behind.
        arc_type: Semiring: "standard" (tropical, float32), "log" (float32) or "log64" (float64).
        costs: Weight of an arc: "total" = ``acoustic_scale * acoustic + graph``, or "graph" or "acoustic" as it is.
        labels: "word": both labels are the word, 0 = epsilon, and final costs are final weights.
            "arc": both labels are the arc's number + 1. Final costs become arcs too, so that a path tells all: state s,
            if final, gets an arc labelled ``num_arcs + s + 1`` to one new state, the only final one, of weight 0.
            "word:arc": as "arc", but the input label is the word (0 on the arcs of final costs).
        acoustic_scale: Factor of the acoustic cost in "total"; with one cost alone it is refused.

    Raises:
        DependencyError: pywrapfst is not installed.
        OptionError: An argument is none of the above.
        LatticeError: A cost is more than a weight of that width holds.
    """
    image = to_image(lattice, arc_type, costs, labels, acoustic_scale)
    return pywrapfst_module().VectorFst.read_from_string(image)


def from_openfst(
    fst: pywrapfst.Fst,
    key: str = "",
    like: Lattice | None = None,
    labels: Literal["arc", "word:arc"] = "arc",
) -> Lattice:
    """Make a lattice of an acyclic OpenFst machine.

    States in topological order keep their numbers; otherwise those reachable from the start are sorted. Arcs of
    infinite weight, the semiring's zero, are left out: no path can take them.

    Args:
        fst: Machine of any of the three arc types; it is not changed.
        key: Utterance id; with ``like`` and an empty key, that lattice's.
        like: None: words are the output labels (as Kaldi reads a transducer; input labels are dropped), weights become
            graph costs, acoustic costs are 0 and alignments empty; an attached output symbol table becomes the
            lattice's, or an input one where every arc has the same label on both sides. A lattice: output labels are
            its arcs, as ``to_openfst`` wrote them; both costs and the alignment are looked up there and the machine's
            own weights ignored. Arcs of final costs become final costs again where nothing else ends in their state,
            and epsilon arcs elsewhere. Output label 0 costs nothing.
        labels: With ``like``: "arc" takes the word from there too, "word:arc" from the input label.

    Raises:
        DependencyError: pywrapfst is not installed.
        LatticeError: A cycle, no start, no final state, a weight of NaN or -infinity, a label that is no word or arc.
    """
    image = (fst if fst.fst_type() == "vector" else pywrapfst_module().convert(fst, "vector")).write_to_string()
    if like is None:
        return from_image(image, key)
    fields = parse_image(image, key or like.key)
    return recover(fields, like, labels, key)[0]


def to_image(
    lattice: Lattice,
    arc_type: ArcType = "standard",
    costs: CostName = "total",
    labels: Labels = "word",
    acoustic_scale: float = 1.0,
    symbols: bytes = b"",
) -> bytes:
    """Return the binary image of the machine ``to_openfst`` gives; needs no pywrapfst.

    Args:
        lattice: As for ``to_openfst``.
        arc_type: As for ``to_openfst``.
        costs: As for ``to_openfst``.
        labels: As for ``to_openfst``.
        acoustic_scale: As for ``to_openfst``.
        symbols: Bytes of a symbol table, which becomes that of both labels; b"": they have none. For words only.

    Raises:
        OptionError: As ``to_openfst``.
        LatticeError: As ``to_openfst``.
    """
    factors = {"total": (1.0, acoustic_scale), "graph": (1.0, 0.0), "acoustic": (0.0, 1.0)}
    choices: dict[str, tuple[str, tuple[str, ...]]] = {
        "arc_type": (arc_type, ("standard", "log", "log64")),
        "costs": (costs, tuple(factors)),
        "labels": (labels, ("word", "arc", "word:arc")),
    }
    for name, (value, allowed) in choices.items():
        if value not in allowed:
            raise OptionError(f"{name} is {value!r}, but must be one of {', '.join(allowed)}")
    if not np.isfinite(acoustic_scale):
        raise OptionError(f"acoustic_scale is {acoustic_scale}, but must be finite")
    refuse_scale("costs", costs, acoustic_scale)
    of_graph, of_acoustic = factors[costs]

    def mixed(graph: npt.NDArray[np.float32], acoustic: npt.NDArray[np.float32]) -> Float64:
        with np.errstate(over="ignore"):
            return of_graph * graph.astype(np.float64) + of_acoustic * acoustic.astype(np.float64)

    final = np.flatnonzero(lattice.is_final)
    final_cost = np.full(lattice.num_states, np.inf)
    final_cost[final] = mixed(lattice.final_graph[final], lattice.final_acoustic[final])
    cost = mixed(lattice.graph, lattice.acoustic)
    _refuse_large(cost, arc_type, lambda arc: f"arc {arc}", lattice.key)
    _refuse_large(final_cost[final], arc_type, lambda place: f"ending in state {final[place]}", lattice.key)
    if labels == "word":
        return _openfst.write_image(
            arc_type, lattice.arc_begin, lattice.dst, lattice.word, lattice.word, cost, final_cost, symbols
        )
    return labelled_image(lattice, arc_type, cost, final_cost, words=labels == "word:arc")


def _refuse_large(cost: Float64, arc_type: ArcType, name: Callable[[int], str], key: str) -> None:
    """Refuse costs that a weight cannot hold: as infinity it would say that there is no such arc."""
    width = np.float64 if arc_type == "log64" else np.float32
    with np.errstate(over="ignore"):
        held = np.isfinite(cost.astype(width))
    if not held.all():
        first = int(np.flatnonzero(~held)[0])
        advice = "a smaller acoustic_scale" + (" or arc_type=log64" if np.isfinite(cost[first]) else "")
        message = f"{name(first)} costs {cost[first]:g}, more than a {width.__name__} holds; take {advice}"
        raise LatticeError(message, key=key or None)


def refuse_scale(name: str, costs: str, acoustic_scale: float) -> None:
    """Refuse a scale beside costs that are written as they are.

    Args:
        name: What the option of the costs is called.
        costs: Its value; only "total" takes a scale.
        acoustic_scale: The scale.

    Raises:
        OptionError: It is not 1.
    """
    if costs != "total" and acoustic_scale != 1.0:
        message = f"{name}={costs} writes costs unscaled, so there is no acoustic_scale={acoustic_scale:g} to take; "
        raise OptionError(f"{message}leave it out, or say {name}=total")


def labelled_image(
    lattice: Lattice,
    arc_type: ArcType,
    cost: Float64,
    final_cost: Float64,
    *,
    words: bool,
) -> bytes:
    """Return the image of an arc-labelled machine with given weights, float64 [num_arcs] and [num_states].

    Args:
        lattice: Gives the shape and the words.
        arc_type: Semiring.
        cost: Weight of each arc.
        final_cost: Weight of each final state, +inf = not final.
        words: Input labels are words rather than arcs.
    """
    num_states, num_arcs = lattice.num_states, lattice.num_arcs
    arc = np.arange(num_arcs, dtype=np.int32)
    final_arc = np.arange(num_arcs, num_arcs + num_states, dtype=np.int32)
    final = np.flatnonzero(np.isfinite(final_cost))
    place = lattice.arc_begin[final + 1]  # behind the arcs of its state
    olabel = np.insert(arc, place, final_arc[final]) + np.int32(1)
    arc_begin = lattice.arc_begin.copy()
    arc_begin[final + 1] += 1
    arc_begin[1:] = np.cumsum(np.diff(lattice.arc_begin) + np.isfinite(final_cost))
    ends = np.full(num_states + 1, np.inf)
    ends[num_states] = 0.0
    return _openfst.write_image(
        arc_type,
        np.append(arc_begin, arc_begin[-1]),
        np.insert(lattice.dst, place, np.int32(num_states)),
        np.insert(lattice.word, place, np.int32(0)) if words else olabel,
        olabel,
        np.insert(cost, place, final_cost[final]),
        ends,
    )


def from_image(image: bytes, key: str = "", path: str | None = None, words: Side = "output") -> Lattice:
    """Make a lattice of a binary image, its words the output labels and its graph costs the weights.

    Args:
        image: All bytes of it.
        key: Utterance id.
        path: File name for error messages.
        words: "input": the words are the input labels.

    Raises:
        FormatError: The image is damaged or of another kind of FST.
        LatticeError: The machine is no lattice; see ``from_openfst``.
    """
    fields = parse_image(image, key, path)
    if fields[1] != len(image):
        left = len(image) - fields[1]
        raise FormatError(f"{left} bytes follow the end of the FST", path, key=key or None, byte=fields[1])
    return _of_fields(fields, key, path, words)


def lost_of_image(image: bytes, words: Side = "output") -> tuple[str, ...]:
    """Return what ``from_image`` leaves out of a sound image, in words."""
    ilabel, olabel = parse_image(image)[4:6]
    left, side = (ilabel, "input") if words == "output" else (olabel, "output")
    # In a word acceptor the labels are the same, in Kaldi's graphs of words one of them may be epsilon.
    return (f"{side} labels",) if ((ilabel != olabel) & (left != EPSILON)).any() else ()


def image_at(content: bytes, begin: int, key: str, path: str | None = None) -> tuple[Lattice | LatticeError, int]:
    """Make a lattice of an image that begins somewhere in other bytes.

    Returns:
        The lattice, or why the machine there is none; and where its image ends.

    Raises:
        FormatError: The image is damaged or of another kind of FST, so that nobody knows where it ends.
    """
    try:
        fields = parse_image(content, key, path, begin)
    except LatticeError as error:
        return error, begin + _openfst.image_end(content, begin)
    try:
        return _of_fields(fields, key, path), begin + fields[1]
    except LatticeError as error:
        return error, begin + fields[1]


def _of_fields(fields: Fields, key: str, path: str | None, side: Side = "output") -> Lattice:
    _, _, arc_begin, dst, ilabel, olabel, cost, final_cost, (of_inputs, of_outputs) = fields
    label = olabel if side == "output" else ilabel
    symbols, others = (of_outputs, of_inputs) if side == "output" else (of_inputs, of_outputs)
    # What names the labels of the other side names these where they are the same.
    if symbols is None and others is not None and np.array_equal(ilabel, olabel):
        symbols = others
    words = None
    if symbols is not None:
        try:
            words = SymbolTable(((name.decode("utf-8"), number) for name, number in symbols), path)
        except UnicodeDecodeError as error:
            raise FormatError(f"the symbol table is not UTF-8 ({error.reason})", path, key=key or None) from error
    # Costs beyond float32, possible in log64 only, become infinite and are refused as such.
    with np.errstate(over="ignore"):
        graph, final_graph = cost.astype(np.float32), final_cost.astype(np.float32)
    if (large := np.isposinf(final_graph) & np.isfinite(final_cost)).any():  # it would not be final
        state = int(np.flatnonzero(large)[0])
        message = f"state {state} has the final weight {final_cost[state]:g}, more than a float32 holds"
        raise LatticeError(message, path, key=key or None)
    final_acoustic = np.where(np.isposinf(final_graph), np.float32(np.inf), np.float32(0))
    if not np.isfinite(graph).all() or np.isneginf(final_graph).any() or np.isposinf(final_graph).all():
        try:
            return Lattice.from_arrays(key, arc_begin, dst, label, graph, np.zeros_like(graph), final_graph)
        except LatticeError as error:
            raise LatticeError(error.message, path, key=key or None) from None
    # All else has been checked by the parser.
    nothing, none = np.zeros(len(graph) + 1, np.int64), np.zeros(0, np.int32)
    final_nothing = np.zeros(len(final_graph) + 1, np.int64)
    acoustic = np.zeros_like(graph)
    for array in (graph, acoustic, nothing, none, final_graph, final_acoustic, final_nothing):
        frozen(array)
    return Lattice(
        key,
        arc_begin,
        dst,
        label,
        graph,
        acoustic,
        nothing,
        none,
        final_graph,
        final_acoustic,
        final_nothing,
        none,
        words=words,
    )


def recover(
    fields: Fields, like: Lattice, labels: Literal["arc", "word:arc"], key: str = ""
) -> tuple[Lattice, Int32, Int32]:
    """Make a lattice of an arc-labelled machine: words, costs and alignments come from ``like``; see ``from_openfst``.

    Args:
        fields: What ``parse_image`` found.
        like: The lattice whose arcs the output labels are.
        labels: Whether words come from there, too, or from the input labels.
        key: Utterance id; by default that lattice's.

    Returns:
        The lattice; the label of each arc, int32 [num_arcs]; the label of each final state, int32 [num_states], else 0.

    Raises:
        LatticeError: A label names no arc and no final state of ``like``, or no state is final.
    """
    _, _, arc_begin, dst, ilabel, olabel, _, final_cost, _ = fields
    key = key or like.key
    num_arcs, num_states = like.num_arcs, final_cost.shape[0]
    named = np.concatenate([np.ones(num_arcs + 1, bool), like.is_final])
    if olabel.size and ((bad := olabel >= named.size).any() or (bad := ~named[olabel]).any()):
        label = int(olabel[np.flatnonzero(bad)[0]])
        raise LatticeError(
            f"output label {label} names no arc (1 to {num_arcs}) and no final state of the lattice", key=key
        )
    zero = np.zeros(1, np.float32)
    begin = np.concatenate([[0], like.ali_begin[:-1], like.final_ali_begin[:-1] + like.ali.size])
    length = np.concatenate([[0], np.diff(like.ali_begin), np.diff(like.final_ali_begin)])
    pool = np.concatenate([like.ali, like.final_ali])
    graph_of = np.concatenate([zero, like.graph, like.final_graph])
    acoustic_of = np.concatenate([zero, like.acoustic, like.final_acoustic])

    is_final = np.isfinite(final_cost)
    src = owners(arc_begin)
    word_of = np.concatenate([[0], like.word, np.zeros(like.num_states, np.int32)])
    word = ilabel if labels == "word:arc" else word_of[olabel]
    ending = (word == 0) & (olabel > num_arcs) & is_final[dst] & (np.diff(arc_begin)[dst] == 0) & ~is_final[src]
    ending &= np.bincount(src[ending], minlength=num_states)[src] == 1
    # An ending arc turns into its state's final cost; states entered by such arcs only vanish.
    stays = np.ones(num_states, bool)
    stays[dst[ending]] = False
    stays[dst[~ending]] = True
    stays[0] = True
    place = np.cumsum(stays) - 1
    final_label = np.zeros(num_states, np.int32)
    final_label[src[ending]] = olabel[ending]
    ends = is_final.copy()
    ends[src[ending]] = True
    kept = ~ending
    label, final_label, ends = olabel[kept], final_label[stays], ends[stays]
    ali_begin, ali = gather(pool, begin[label], length[label])
    final_ali_begin, final_ali = gather(pool, begin[final_label], length[final_label])
    single = length[label].max(initial=0) <= 1 and final_ali.size == 0
    lattice = Lattice.from_arrays(
        key,
        offsets(np.bincount(src[kept], minlength=num_states)[stays]),
        place[dst[kept]],
        word[kept],
        graph_of[label],
        acoustic_of[label],
        np.where(ends, graph_of[final_label], np.float32(np.inf)),
        np.where(ends, acoustic_of[final_label], np.float32(np.inf)),
        ali_begin=ali_begin,
        ali=ali,
        final_ali_begin=final_ali_begin,
        final_ali=final_ali,
        kind=like.kind if single else "compact",
        frame_shift=like.frame_shift,
        words=like.words,
    )
    return lattice, label, final_label


def parse_image(image: bytes, key: str = "", path: str | None = None, begin: int = 0) -> Fields:
    """Parse a binary image, which begins at a byte, into flat arrays, states sorted as ``from_openfst`` says.

    Returns:
        (arc type, bytes taken, arc_begin, dst, input label, output label, weight, final weight, symbols of both labels,
        None where there are none), as in a lattice; weights float64. Arcs of infinite weight are left out.

    Raises:
        FormatError: The image is damaged or of another kind of FST.
        LatticeError: A cycle, no start, a weight of NaN or -infinity, a negative label.
    """
    error, byte, fields = _openfst.parse_image(image, begin)
    if error and byte >= 0:
        raise FormatError(error, path, key=key or None, byte=begin + byte)
    if error:
        raise LatticeError(error, path, key=key or None)
    assert fields is not None
    return fields


def pywrapfst_module() -> Any:
    """Return the module pywrapfst, imported on first use.

    Raises:
        DependencyError: It is not installed.
    """
    try:
        import pywrapfst
    except ImportError as error:
        raise DependencyError("pywrapfst is not installed; pip install pynini") from error
    return pywrapfst
