"""A network described as a graph of components over time (Kaldi's nnet3), run one step at a time.

    input ──► affine ──► relu ──► normalize ──► … ──► output
                ▲
                └── IfDefined(Offset(lstm.r, -1)): another node's value one step ago, zeros before the start

A node applies a component to a concatenation of sums; their terms are values of other nodes in the same step or in
earlier steps. The output and the values that later steps read form one row of numbers for each history:

    row = [ output | a now | a 1 step ago | … | b now | … ]

A row of zeros is the state before the first step. Column ranges and identity components are not computed: nodes
that use them read the underlying nodes. A `Library` provides the arrays: torch (see `nnet3_operations`) or NumPy.

Source: Kaldi, nnet3/nnet-descriptor.h and the components' own documentation in nnet3/nnet-*-component.h.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

INPUT = "input"
OUTPUT = "output"
Matrix: TypeAlias = Any  # matrix type of the array library
Operation = Callable[[list[Matrix]], Matrix]  # function: parts of a node's input → value of the node
Fetcher = Callable[[dict[str, Matrix], Matrix], Matrix]  # function: node values in this step, rows → part of an input


@dataclass(frozen=True, slots=True)
class Component:
    """Function that computes the value of a node from its input in the same step.

    `kind` is the name of an operation of the array library, or "identity".
    """

    kind: str
    input_dim: int
    output_dim: int
    numbers: dict[str, float] = field(default_factory=dict)
    arrays: dict[str, Any] = field(default_factory=dict)  # NumPy arrays: float32, or int64 for indices


@dataclass(frozen=True, slots=True)
class Library:
    """Array library for computations on matrices, float32 [n, width], with one row per history."""

    concatenate: Callable[[list[Matrix]], Matrix]
    # Function: a matrix with the same number of rows, width, value → constant matrix.
    full: Callable[[Matrix, int, float], Matrix]
    # Function: component, whether each part of its input may be overwritten → operation.
    operation: Callable[[Component, list[bool]], Operation]


@dataclass(frozen=True, slots=True)
class Term:
    """The value of a node `delay` steps ago, multiplied by `scale`."""

    node: str
    delay: int = 0
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Part:
    """A sum of terms and a constant; a node's input is the concatenation of its parts."""

    dim: int
    terms: tuple[Term, ...]
    constant: float = 0.0


@dataclass(frozen=True, slots=True)
class Node:
    """Node of a network: a component applied to the input or, without a component, a range of the input's columns."""

    name: str
    component: str | None
    parts: tuple[Part, ...]
    first: int  # start of the range; 0 with a component
    dim: int


@dataclass(frozen=True, slots=True)
class Graph:
    """A network: nodes in order of computation; the last node is the output."""

    input_dim: int
    nodes: tuple[Node, ...]
    components: dict[str, Component]

    @property
    def output_dim(self) -> int:
        """Width of the output."""
        return self.nodes[-1].dim

    @property
    def num_parameters(self) -> int:
        """Number of parameters of the components."""
        return sum(int(array.size) for component in self.components.values() for array in component.arrays.values())


@dataclass(frozen=True, slots=True)
class _Piece:
    """Range of columns in the value of a node, now (`delay` is 0) or `delay` steps ago."""

    node: str
    delay: int
    first: int
    dim: int


@dataclass(frozen=True, slots=True)
class _Sum:
    dim: int
    terms: tuple[tuple[tuple[_Piece, ...], float], ...]  # (pieces to concatenate, factor) of each term
    constant: float

    @property
    def is_piece(self) -> bool:
        """Whether the sum is a single range of columns with factor 1 and no constant, so no arithmetic is needed."""
        return len(self.terms) == 1 and not self.constant and self.terms[0][1] == 1.0 and len(self.terms[0][0]) == 1

    @property
    def piece(self) -> _Piece:
        return self.terms[0][0][0]


@dataclass(slots=True)
class _Memory:
    """Columns ``first`` to ``last - 1`` of a node's value, which a history's row stores for the last ``delay`` steps.

    The columns from k steps ago begin at column ``place + (k - 1) * width`` of the row.
    """

    first: int
    last: int
    delay: int = 0
    place: int = 0

    @property
    def width(self) -> int:
        return self.last - self.first


class Network:
    """Network that computes one step for a batch of histories.

    Attributes:
        input_dim: Width of the input of a step.
        output_dim: Width of the output of a step.
        width: Width of the row that represents a history: the output of the last step, followed by the node values
            that later steps read.
    """

    def __init__(self, graph: Graph, library: Library) -> None:
        """Plan the operations of a step.

        Args:
            graph: A network in which the widths of nodes and components agree, and in which every node that is read
                with a delay depends on the input.
            library: Array library that performs the operations.
        """
        self._library = library
        self.input_dim = graph.input_dim
        self.output_dim = graph.output_dim
        inputs = _resolve(graph)
        uses = Counter(piece.node for sums in inputs.values() for piece in _pieces(sums))
        self._memory = _lay_out(graph, inputs)
        self.width = graph.output_dim + sum(memory.width * memory.delay for memory in self._memory.values())
        self._steps: list[tuple[str, Operation, list[Fetcher]]] = []
        unshared: set[str] = set()  # nodes whose values are new matrices, each with a single reader
        for node in graph.nodes:
            if node.name not in inputs:
                continue
            sums = inputs[node.name]
            component = graph.components[node.component] if node.component else None
            function: Operation = library.concatenate
            if component is not None and component.kind != "identity":
                writable = [part.is_piece and part.piece.delay == 0 and part.piece.node in unshared for part in sums]
                function = library.operation(component, writable)
                if uses[node.name] == 1 and node.name not in self._memory:
                    unshared.add(node.name)
            self._steps.append((node.name, function, [self._fetcher(part) for part in sums]))

    def step(self, row: Matrix, value: Matrix) -> list[Matrix]:
        """Advance each history by one step.

        Args:
            row: The rows that represent the histories, float32 [n, width].
            value: The input of each history, float32 [n, input_dim].

        Returns:
            Blocks of columns, each float32 [n, width of the block], whose concatenation is the new rows. The first
            block is the output.
        """
        values = {INPUT: value}
        for name, function, fetchers in self._steps:
            values[name] = function([fetch(values, row) for fetch in fetchers])
        pieces = [values[OUTPUT]]
        for name, memory in self._memory.items():
            pieces.append(values[name][:, memory.first : memory.last])
            if memory.delay > 1:
                pieces.append(row[:, memory.place : memory.place + memory.width * (memory.delay - 1)])
        return pieces

    def _fetcher(self, source: _Sum) -> Fetcher:
        """Return the function that computes a part of a node's input."""
        if source.is_piece:
            return self._view(source.piece)
        terms = [([self._view(piece) for piece in pieces], scale) for pieces, scale in source.terms]

        def add(values: dict[str, Matrix], row: Matrix) -> Matrix:
            total = self._library.full(row, source.dim, source.constant)
            for views, scale in terms:
                term = self._library.concatenate([view(values, row) for view in views])
                total += term if scale == 1.0 else scale * term
            return total

        return add

    def _view(self, piece: _Piece) -> Fetcher:
        if not piece.delay:
            return lambda values, row: values[piece.node][:, piece.first : piece.first + piece.dim]
        memory = self._memory[piece.node]
        place = memory.place + (piece.delay - 1) * memory.width + piece.first - memory.first
        return lambda values, row: row[:, place : place + piece.dim]


def _resolve(graph: Graph) -> dict[str, list[_Sum]]:
    """Return each computed node's input as a list of sums that read columns of computed nodes or the network input.

    A node is not computed if it only selects or concatenates columns of other nodes in the same step; references to
    this node are replaced with references to these columns.
    """
    dim = {INPUT: graph.input_dim} | {node.name: node.dim for node in graph.nodes}
    same: dict[str, list[_Piece]] = {INPUT: [_Piece(INPUT, 0, 0, graph.input_dim)]}
    inputs: dict[str, tuple[Part, ...]] = {}
    for node in graph.nodes:
        same[node.name] = [_Piece(node.name, 0, 0, node.dim)]
        plain = node.component is None or graph.components[node.component].kind == "identity"
        terms = [term for part in node.parts for term in part.terms]
        views = all(len(part.terms) == 1 and not part.constant for part in node.parts)
        if plain and views and all(term.delay == 0 and term.scale == 1.0 for term in terms) and node.name != OUTPUT:
            whole = [piece for term in terms for piece in same[term.node]]
            same[node.name] = _cut(whole, node.first, node.dim)
        else:
            inputs[node.name] = node.parts

    def delayed(term: Term) -> tuple[_Piece, ...]:
        return tuple(
            _Piece(piece.node, piece.delay + term.delay, piece.first, piece.dim)
            for piece in _merge(_cut(same[term.node], 0, dim[term.node]))
        )

    resolved: dict[str, list[_Sum]] = {}
    for name, parts in inputs.items():
        resolved[name] = []
        for part in parts:
            sums = [_Sum(part.dim, tuple((delayed(term), term.scale) for term in part.terms), part.constant)]
            if len(part.terms) == 1 and not part.constant and part.terms[0].scale == 1.0:  # pieces become parts
                sums = [_Sum(piece.dim, (((piece,), 1.0),), 0.0) for piece in delayed(part.terms[0])]
            resolved[name] += sums
    return resolved


def _cut(pieces: Sequence[_Piece], first: int, dim: int) -> list[_Piece]:
    """Return columns ``first`` to ``first + dim - 1`` of a concatenation of pieces, as a list of pieces."""
    result = []
    for piece in pieces:
        begin, end = max(first, 0), min(first + dim, piece.dim)
        if begin < end:
            result.append(_Piece(piece.node, piece.delay, piece.first + begin, end - begin))
        first -= piece.dim
    return result


def _merge(pieces: Sequence[_Piece]) -> list[_Piece]:
    """Merge consecutive pieces that are adjacent column ranges of the same node with the same delay."""
    merged: list[_Piece] = []
    for piece in pieces:
        last = merged[-1] if merged else None
        if last and (last.node, last.delay, last.first + last.dim) == (piece.node, piece.delay, piece.first):
            merged[-1] = _Piece(last.node, last.delay, last.first, last.dim + piece.dim)
        else:
            merged.append(piece)
    return merged


def _pieces(sums: Sequence[_Sum]) -> list[_Piece]:
    return [piece for part in sums for pieces, _ in part.terms for piece in pieces]


def _lay_out(graph: Graph, inputs: dict[str, list[_Sum]]) -> dict[str, _Memory]:
    """Assign columns of a history's row to the node values that later steps read; the output's columns come first."""
    memories: dict[str, _Memory] = {}
    for piece in (piece for sums in inputs.values() for piece in _pieces(sums) if piece.delay):
        last = piece.first + piece.dim
        memory = memories.setdefault(piece.node, _Memory(piece.first, last))
        memory.first, memory.last = min(memory.first, piece.first), max(memory.last, last)
        memory.delay = max(memory.delay, piece.delay)
    place = graph.output_dim
    for memory in memories.values():
        memory.place, place = place, place + memory.width * memory.delay
    return memories
