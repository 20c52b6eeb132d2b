"""Parse the configuration lines of an nnet3 network: nodes, their components and their inputs.

    input-node name=input dim=200
    component-node name=tdnn1.affine component=tdnn1.affine input=Append(input, IfDefined(Offset(input, -1)))
    dim-range-node name=lstm1.c input-node=lstm1.lstm_nonlin dim-offset=0 dim=200
    output-node name=output input=output.affine objective=linear

A language model reads one word at a time, so nodes that need later words, or words before the first, are rejected.
Descriptors that depend on the time index or choose between inputs are also rejected.

Source: Kaldi, nnet3/nnet-nnet.cc and nnet3/nnet-descriptor.h.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from typing import NoReturn, TypeAlias

from ninja.models.nnet3 import INPUT, OUTPUT, Component, Graph, Node, Part, Term

LONGEST_DELAY = 100  # maximum number of steps back in time; a state stores a copy of a node's value for each step
LARGEST_DIM = 2**20
DEEPEST = 50  # maximum nesting depth of descriptors
_KEY = re.compile(r"(?:^|\s)([A-Za-z][\w-]*)=")
_NAME = re.compile(r"[A-Za-z_][\w.-]*")
_Tree: TypeAlias = "str | tuple[str, list[_Tree]]"  # a name, or a descriptor and its arguments
Fail = Callable[[str], NoReturn]  # raises an error with a message and the position in the file


@dataclass(frozen=True, slots=True)
class _Reference:
    """Reference in a descriptor: a node's value at a time offset, multiplied by a scale."""

    node: str
    offset: int
    scale: float
    optional: bool  # whether the value is 0 at steps at which the node is undefined


@dataclass(slots=True)
class _Sum:
    references: list[_Reference]
    constant: float = 0.0
    constant_dim: int | None = None

    def transform(self, change: Callable[[_Reference], _Reference], factor: float = 1.0) -> _Sum:
        """Return a copy of the sum with `change` applied to each reference and the constant multiplied by `factor`."""
        return _Sum([change(reference) for reference in self.references], self.constant * factor, self.constant_dim)


@dataclass(frozen=True, slots=True)
class _Line:
    kind: str
    values: dict[str, str]
    fail: Fail

    def get(self, key: str) -> str:
        if key not in self.values:
            self.fail(f"the {self.kind} has no {key}=")
        return self.values[key]

    def integer(self, key: str, lowest: int) -> int:
        text = self.get(key)
        if not re.fullmatch(r"[0-9]{1,9}", text) or not lowest <= int(text) <= LARGEST_DIM:
            self.fail(f"{key} of the {self.kind} is {text}, but must be in [{lowest}, {LARGEST_DIM}]")
        return int(text)


def parse(lines: list[tuple[str, Fail]], components: Mapping[str, Component], fail: Fail) -> Graph:
    """Build the graph from configuration lines, each paired with a function that raises an error about the line."""
    by_name: dict[str, _Line] = {}
    for text, fail_here in lines:
        line = _split(text, fail_here)
        if line.kind == "component":
            fail_here("components are configured in this file; specify a trained network, such as final.raw")
        name = line.get("name")
        if not _NAME.fullmatch(name) or name in by_name:
            fail_here(f"the node name {name!r} is malformed or occurs twice")
        by_name[name] = line
    for name, kind in ((INPUT, "input-node"), (OUTPUT, "output-node")):
        if name not in by_name or by_name[name].kind != kind:
            fail(f"there is no {kind} with the name {name!r}; specify the network of a language model")
    dims = {name: _dim(line, components) for name, line in by_name.items() if line.kind != "output-node"}
    sums = {name: _inputs(line) for name, line in by_name.items() if line.kind != "input-node"}
    nodes = [_node(name, by_name[name], sums[name], dims) for name in _ordered(by_name, sums)]
    _check_delays(nodes, sums, by_name)
    graph = Graph(dims[INPUT], tuple(nodes), dict(components))
    for node in nodes:
        if node.component and (have := sum(part.dim for part in node.parts)) != components[node.component].input_dim:
            width = components[node.component].input_dim
            by_name[node.name].fail(f"{node.component} needs an input of width {width}, but gets {have}")
    return graph


def _split(text: str, fail: Fail) -> _Line:
    kind, _, text_of_values = text.strip().partition(" ")
    if kind not in ("input-node", "component-node", "dim-range-node", "output-node", "component"):
        fail(f"a configuration line has the unknown type {kind[:40]!r}")
    keys = list(_KEY.finditer(text_of_values))
    ends = [key.start() for key in keys[1:]] + [len(text_of_values)]
    # Without keys, `ends` still has one entry.
    values = {key[1]: text_of_values[key.end() : end].strip() for key, end in zip(keys, ends, strict=False)}
    return _Line(kind, values, fail)


def _dim(line: _Line, components: Mapping[str, Component]) -> int:
    if line.kind != "component-node":
        return line.integer("dim", 1)
    name = line.get("component")
    if name not in components:
        line.fail(f"there is no component with the name {name!r}")
    dim: int = components[name].output_dim
    return dim


def _inputs(line: _Line) -> list[_Sum]:
    """Return the parts that are concatenated to form a node's input, in order."""
    if line.kind == "dim-range-node":
        return [_Sum([_Reference(line.get("input-node"), 0, 1.0, optional=False)])]
    return _Descriptor(line.get("input"), line.fail).parse()


class _Descriptor:
    """Parser for a descriptor."""

    def __init__(self, text: str, fail: Fail) -> None:
        self.tokens: list[str] = re.findall(r"[(),]|[^\s(),]+", text)
        self.place = 0
        self.fail = fail

    def parse(self) -> list[_Sum]:
        tree = self._read(0)
        if self.place != len(self.tokens):
            self.fail(f"unexpected {self.tokens[self.place]!r} after the end of a descriptor")
        return self._parts(tree)

    def _next(self) -> str:
        if self.place == len(self.tokens):
            self.fail("a descriptor is incomplete")
        self.place += 1
        return self.tokens[self.place - 1]

    def _read(self, depth: int) -> _Tree:
        """Parse a name, or a descriptor and its arguments."""
        if depth > DEEPEST:
            self.fail(f"descriptors are nested more than {DEEPEST} levels deep")
        name = self._next()
        if name in "(),":
            self.fail(f"expected a descriptor, found {name!r}")
        if self.tokens[self.place : self.place + 1] != ["("]:
            return name
        arguments: list[_Tree] = []
        while (token := self._next()) == ("," if arguments else "("):
            arguments.append(self._read(depth + 1))
        if token != ")":
            self.fail(f"expected ')' in a descriptor, found {token[:40]!r}")
        return name, arguments

    def _number(self, tree: _Tree) -> float:
        try:
            value = float(tree) if isinstance(tree, str) else math.nan
        except ValueError:
            self.fail(f"expected a number in a descriptor, found {tree[:40]!r}")
        if not abs(value) <= 1e9:
            self.fail(f"a descriptor contains the implausible number {tree[:40]}")
        return value

    def _integer(self, tree: _Tree) -> int:
        value = self._number(tree)
        if value != int(value):
            self.fail(f"expected an integer in a descriptor, found {value}")
        return int(value)

    def _parts(self, tree: _Tree) -> list[_Sum]:
        """Return the parts that a descriptor concatenates."""
        if isinstance(tree, str):
            if not _NAME.fullmatch(tree):
                self.fail(f"expected a descriptor, found {tree[:40]!r}")
            return [_Sum([_Reference(tree, 0, 1.0, optional=False)])]
        match tree:
            case "Append", arguments:
                return [part for argument in arguments for part in self._parts(argument)]
            case "Sum", arguments:
                return self._sum([self._parts(argument) for argument in arguments])
            case "IfDefined", [one]:
                return [self._optional(part) for part in self._parts(one)]
            case "Offset", [one, number]:
                steps = self._integer(number)
                return [part.transform(lambda r: replace(r, offset=r.offset + steps)) for part in self._parts(one)]
            case "Scale", [number, one]:
                factor = self._number(number)
                return [
                    part.transform(lambda r: replace(r, scale=r.scale * factor), factor) for part in self._parts(one)
                ]
            case "Const", [number, dim]:
                return [_Sum([], self._number(number), self._integer(dim))]
        if tree[0] in DESCRIPTORS:
            self.fail(f"the descriptor {tree[0]} has the wrong number of arguments ({len(tree[1])})")
        self.fail(f"the descriptor {tree[0][:40]} is not supported; supported descriptors: {', '.join(DESCRIPTORS)}")

    def _sum(self, terms: list[list[_Sum]]) -> list[_Sum]:
        if len({len(parts) for parts in terms}) > 1:
            self.fail("a Sum adds Appends of different lengths")
        result = []
        for column in zip(*terms, strict=True):
            dims = {part.constant_dim for part in column if part.constant_dim is not None}
            if len(dims) > 1:
                self.fail("a Sum adds constants of different widths")
            references = [reference for part in column for reference in part.references]
            result.append(_Sum(references, sum(part.constant for part in column), next(iter(dims), None)))
        return result

    def _optional(self, part: _Sum) -> _Sum:
        """Parse IfDefined: return a part whose terms are replaced with zeros at the steps at which they are undefined.

        If a term is delayed, all terms must be defined from the same step on.
        """
        needed = {reference.offset for reference in part.references if not reference.optional}
        delayed = any(offset < 0 for offset in needed)
        if delayed and (len(needed) > 1 or part.constant or any(r.optional for r in part.references)):
            self.fail(
                "IfDefined over a sum whose terms begin at different steps is not supported; use a Sum of IfDefined"
            )
        return part.transform(lambda reference: replace(reference, optional=True))


DESCRIPTORS = ("Append", "Sum", "IfDefined", "Offset", "Scale", "Const")


def _ordered(by_name: Mapping[str, _Line], sums: Mapping[str, list[_Sum]]) -> list[str]:
    """Sort the nodes on which the output depends; each node follows the nodes that it reads at the same step."""
    needed, stack = {OUTPUT}, [OUTPUT]
    while stack:
        name = stack.pop()
        for reference in (reference for part in sums[name] for reference in part.references):
            if reference.node not in by_name or by_name[reference.node].kind == "output-node":
                by_name[name].fail(f"there is no node with the name {reference.node[:40]!r}")
            if by_name[reference.node].kind == "input-node" and reference.node != INPUT:
                by_name[name].fail(f"the network has a second input, {reference.node}; a language model has only one")
            if reference.node not in needed and reference.node != INPUT:
                needed.add(reference.node)
                stack.append(reference.node)
    dependencies = {
        name: sorted({r.node for part in sums[name] for r in part.references if r.offset == 0 and r.node != INPUT})
        for name in sorted(needed)
    }
    try:
        order = list(TopologicalSorter(dependencies).static_order())
    except CycleError as error:
        name = min(error.args[1])
        by_name[name].fail(f"the node {name} depends on itself at the same step")
    return [name for name in order if name != OUTPUT] + [OUTPUT]


def _node(name: str, line: _Line, sums: list[_Sum], dims: Mapping[str, int]) -> Node:
    parts = []
    for part in sums:
        widths = {dims[reference.node] for reference in part.references}
        if part.constant_dim is not None:
            widths.add(part.constant_dim)
        if len(widths) != 1 or not 0 < min(widths) <= LARGEST_DIM:
            line.fail(f"a sum adds different or implausible widths: {', '.join(map(str, sorted(widths)))}")
        terms = tuple(Term(r.node, -r.offset, r.scale) for r in part.references)
        parts.append(Part(widths.pop(), terms, part.constant))
    if line.kind == "component-node":
        return Node(name, line.get("component"), tuple(parts), 0, dims[name])
    width = sum(part.dim for part in parts)
    if line.kind == "output-node":
        return Node(name, None, tuple(parts), 0, width)
    first, dim = line.integer("dim-offset", 0), dims[name]
    if first + dim > width:
        line.fail(f"columns {first} to {first + dim - 1} are selected from a node that has {width} columns")
    return Node(name, None, tuple(parts), first, dim)


def _check_delays(nodes: list[Node], sums: Mapping[str, list[_Sum]], by_name: Mapping[str, _Line]) -> None:
    """Reject nodes with time offsets that a language model does not support.

    A node must not read values of later steps, values more than `LONGEST_DELAY` steps earlier, or values before the
    first word unless they are optional (IfDefined). Earlier values must come from nodes that depend on the input.
    """
    input_nodes = {INPUT}  # nodes that are defined only at the steps of the input
    for node in nodes:
        if any(not r.optional and r.node in input_nodes for part in sums[node.name] for r in part.references):
            input_nodes.add(node.name)
    for node in nodes:
        fail = by_name[node.name].fail
        for reference in (reference for part in sums[node.name] for reference in part.references):
            if reference.offset > 0:
                fail(
                    f"{node.name} needs a word {reference.offset} steps later, but a "
                    "language model reads only earlier words"
                )
            if reference.offset < -LONGEST_DELAY:
                fail(
                    f"{node.name} needs the word {-reference.offset} steps earlier; at "
                    f"most {LONGEST_DELAY} steps are supported"
                )
            if reference.offset < 0 and not reference.optional:
                fail(f"{node.name} needs words before the first; put IfDefined around its Offset")
            if reference.offset < 0 and reference.node not in input_nodes:
                fail(f"{node.name} needs an earlier value of {reference.node}, which does not depend on the input")
