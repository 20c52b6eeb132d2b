"""The configuration lines of an nnet3 network: nodes, their components and their inputs.

    input-node name=input dim=200
    component-node name=tdnn1.affine component=tdnn1.affine input=Append(input, IfDefined(Offset(input, -1)))
    dim-range-node name=lstm1.c input-node=lstm1.lstm_nonlin dim-offset=0 dim=200
    output-node name=output input=output.affine objective=linear

A language model reads one word at a time, so what needs words still to come, or a certain word before the first, is
refused; so are the descriptors that look at the time or choose between inputs.

Source: Kaldi, nnet3/nnet-nnet.cc and nnet3/nnet-descriptor.h.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from typing import NoReturn, TypeAlias

from ninja.models.nnet3 import INPUT, OUTPUT, Graph, Node, Part, Term
from ninja.models.nnet3_operations import Component

LONGEST_DELAY = 100  # steps; a row holds as many copies of a node's value
LARGEST_DIM = 2**20
DEEPEST = 50  # descriptors within each other
_KEY = re.compile(r"(?:^|\s)([A-Za-z][\w-]*)=")
_NAME = re.compile(r"[A-Za-z_][\w.-]*")
_Tree: TypeAlias = "str | tuple[str, list[_Tree]]"  # a descriptor's name, with its arguments where it has some
Fail = Callable[[str], NoReturn]  # raises a typed error, with the place


@dataclass(frozen=True, slots=True)
class _Reference:
    """A node at a time relative to now, in a descriptor."""

    node: str
    offset: int
    scale: float
    optional: bool  # zeros where it is not defined


@dataclass(slots=True)
class _Sum:
    references: list[_Reference]
    constant: float = 0.0
    constant_dim: int | None = None

    def changed(self, change: Callable[[_Reference], _Reference], factor: float = 1.0) -> _Sum:
        """Return the sum with its references changed and its constant times a factor."""
        return _Sum([change(each) for each in self.references], self.constant * factor, self.constant_dim)


@dataclass(frozen=True, slots=True)
class _Line:
    kind: str
    values: dict[str, str]
    fail: Fail

    def get(self, key: str) -> str:
        if key not in self.values:
            self.fail(f"a {self.kind} without {key}=")
        return self.values[key]

    def integer(self, key: str, lowest: int) -> int:
        text = self.get(key)
        if not re.fullmatch(r"[0-9]{1,9}", text) or not lowest <= int(text) <= LARGEST_DIM:
            self.fail(f"{key}={text} in a {self.kind}; {lowest} to {LARGEST_DIM} make sense")
        return int(text)


def parse(lines: list[tuple[str, Fail]], components: Mapping[str, Component], fail: Fail) -> Graph:
    """Read configuration lines, each with the function that fails at its place, of a network that runs step by step."""
    found: dict[str, _Line] = {}
    for text, fail_here in lines:
        line = _split(text, fail_here)
        if line.kind == "component":
            fail_here("components are configured in this file; give a trained network, such as final.raw")
        name = line.get("name")
        if not _NAME.fullmatch(name) or name in found:
            fail_here(f"the node name {name!r} is malformed or occurs twice")
        found[name] = line
    for name, kind in ((INPUT, "input-node"), (OUTPUT, "output-node")):
        if name not in found or found[name].kind != kind:
            fail(f"no {kind} named {name!r}; is this a language model's network?")
    dims = {name: _dim(line, components) for name, line in found.items() if line.kind != "output-node"}
    sums = {name: _inputs(line) for name, line in found.items() if line.kind != "input-node"}
    nodes = [_node(name, found[name], sums[name], dims) for name in _ordered(found, sums)]
    _check_delays(nodes, sums, found)
    graph = Graph(dims[INPUT], tuple(nodes), dict(components))
    for node in nodes:
        if node.component and (have := sum(part.dim for part in node.parts)) != components[node.component].input_dim:
            wanted = components[node.component].input_dim
            found[node.name].fail(f"{node.component} needs an input of width {wanted}, but gets {have}")
    return graph


def _split(text: str, fail: Fail) -> _Line:
    kind, _, rest = text.strip().partition(" ")
    if kind not in ("input-node", "component-node", "dim-range-node", "output-node", "component"):
        fail(f"unknown kind of configuration line, {kind[:40]!r}")
    keys = list(_KEY.finditer(rest))
    ends = [key.start() for key in keys[1:]] + [len(rest)]
    values = {key[1]: rest[key.end() : end].strip() for key, end in zip(keys, ends, strict=False)}  # there may be none
    return _Line(kind, values, fail)


def _dim(line: _Line, components: Mapping[str, Component]) -> int:
    if line.kind != "component-node":
        return line.integer("dim", 1)
    name = line.get("component")
    if name not in components:
        line.fail(f"there is no component named {name!r}")
    dim: int = components[name].output_dim
    return dim


def _inputs(line: _Line) -> list[_Sum]:
    """Return the parts of a node's input, in order."""
    if line.kind == "dim-range-node":
        return [_Sum([_Reference(line.get("input-node"), 0, 1.0, optional=False)])]
    return _Descriptor(line.get("input"), line.fail).parse()


class _Descriptor:
    """Parser of one descriptor."""

    def __init__(self, text: str, fail: Fail) -> None:
        self.tokens: list[str] = re.findall(r"[(),]|[^\s(),]+", text)
        self.place = 0
        self.fail = fail

    def parse(self) -> list[_Sum]:
        tree = self._read(0)
        if self.place != len(self.tokens):
            self.fail(f"{self.tokens[self.place]!r} follows after the end of a descriptor")
        return self._parts(tree)

    def _next(self) -> str:
        if self.place == len(self.tokens):
            self.fail("a descriptor breaks off")
        self.place += 1
        return self.tokens[self.place - 1]

    def _read(self, depth: int) -> _Tree:
        """Read a name, or a name and its arguments."""
        if depth > DEEPEST:
            self.fail(f"more than {DEEPEST} descriptors within each other")
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
            self.fail(f"an absurd number in a descriptor, {tree[:40]}")
        return value

    def _integer(self, tree: _Tree) -> int:
        value = self._number(tree)
        if value != int(value):
            self.fail(f"expected an integer in a descriptor, found {value}")
        return int(value)

    def _parts(self, tree: _Tree) -> list[_Sum]:
        """Return the parts that stand side by side."""
        if isinstance(tree, str):
            if not _NAME.fullmatch(tree):
                self.fail(f"expected a descriptor, found {tree[:40]!r}")
            return [_Sum([_Reference(tree, 0, 1.0, optional=False)])]
        match tree:
            case "Append", arguments:
                return [part for each in arguments for part in self._parts(each)]
            case "Sum", arguments:
                return self._sum([self._parts(each) for each in arguments])
            case "IfDefined", [one]:
                return [self._optional(part) for part in self._parts(one)]
            case "Offset", [one, number]:
                steps = self._integer(number)
                return [part.changed(lambda r: replace(r, offset=r.offset + steps)) for part in self._parts(one)]
            case "Scale", [number, one]:
                factor = self._number(number)
                return [part.changed(lambda r: replace(r, scale=r.scale * factor), factor) for part in self._parts(one)]
            case "Const", [number, dim]:
                return [_Sum([], self._number(number), self._integer(dim))]
        if tree[0] in DESCRIPTORS:
            self.fail(f"{len(tree[1])} arguments of the descriptor {tree[0]}")
        self.fail(f"the descriptor {tree[0][:40]} is not supported; ours are {', '.join(DESCRIPTORS)}")

    def _sum(self, each: list[list[_Sum]]) -> list[_Sum]:
        if len({len(parts) for parts in each}) > 1:
            self.fail("a Sum of Appends of different length")
        result = []
        for column in zip(*each, strict=True):
            dims = {part.constant_dim for part in column if part.constant_dim is not None}
            if len(dims) > 1:
                self.fail("a Sum of constants of different width")
            references = [reference for part in column for reference in part.references]
            result.append(_Sum(references, sum(part.constant for part in column), next(iter(dims), None)))
        return result

    def _optional(self, part: _Sum) -> _Sum:
        """Let a part count as zeros where it is not defined; all of it must be defined from the same step on."""
        needed = {reference.offset for reference in part.references if not reference.optional}
        delayed = any(offset < 0 for offset in needed)
        if delayed and (len(needed) > 1 or part.constant or any(r.optional for r in part.references)):
            self.fail("IfDefined over a sum whose terms begin at different steps is not supported; put it into the Sum")
        return part.changed(lambda each: replace(each, optional=True))


DESCRIPTORS = ("Append", "Sum", "IfDefined", "Offset", "Scale", "Const")


def _ordered(found: Mapping[str, _Line], sums: Mapping[str, list[_Sum]]) -> list[str]:
    """Return the nodes that the output depends on, each after those whose present value it reads."""
    needed, waiting = {OUTPUT}, [OUTPUT]
    while waiting:
        name = waiting.pop()
        for reference in (reference for part in sums[name] for reference in part.references):
            if reference.node not in found or found[reference.node].kind == "output-node":
                found[name].fail(f"there is no node named {reference.node[:40]!r}")
            if found[reference.node].kind == "input-node" and reference.node != INPUT:
                found[name].fail(f"the network has a second input, {reference.node}; a language model has one")
            if reference.node not in needed and reference.node != INPUT:
                needed.add(reference.node)
                waiting.append(reference.node)
    present = {
        name: sorted({r.node for part in sums[name] for r in part.references if r.offset == 0 and r.node != INPUT})
        for name in sorted(needed)
    }
    try:
        order = list(TopologicalSorter(present).static_order())
    except CycleError as error:
        name = min(error.args[1])
        found[name].fail(f"the node {name} depends on itself at the same step")
    return [name for name in order if name != OUTPUT] + [OUTPUT]


def _node(name: str, line: _Line, sums: list[_Sum], dims: Mapping[str, int]) -> Node:
    parts = []
    for each in sums:
        widths = {dims[reference.node] for reference in each.references}
        if each.constant_dim is not None:
            widths.add(each.constant_dim)
        if len(widths) != 1 or not 0 < min(widths) <= LARGEST_DIM:
            line.fail(f"a sum of things of different or absurd width: {', '.join(map(str, sorted(widths)))}")
        terms = tuple(Term(r.node, -r.offset, r.scale) for r in each.references)
        parts.append(Part(widths.pop(), terms, each.constant))
    if line.kind == "component-node":
        return Node(name, line.get("component"), tuple(parts), 0, dims[name])
    width = sum(part.dim for part in parts)
    if line.kind == "output-node":
        return Node(name, None, tuple(parts), 0, width)
    first, dim = line.integer("dim-offset", 0), dims[name]
    if first + dim > width:
        line.fail(f"columns {first} to {first + dim - 1} of a node that has {width}")
    return Node(name, None, tuple(parts), first, dim)


def _check_delays(nodes: list[Node], sums: Mapping[str, list[_Sum]], found: Mapping[str, _Line]) -> None:
    """Refuse nodes that need later words, or words before the first."""
    reading = {INPUT}  # nodes that are defined only where there is an input
    for node in nodes:
        if any(not r.optional and r.node in reading for part in sums[node.name] for r in part.references):
            reading.add(node.name)
    for node in nodes:
        fail = found[node.name].fail
        for reference in (reference for part in sums[node.name] for reference in part.references):
            if reference.offset > 0:
                fail(f"{node.name} looks {reference.offset} words ahead; a language model must not")
            if reference.offset < -LONGEST_DELAY:
                fail(f"{node.name} looks {-reference.offset} words back; at most {LONGEST_DELAY} are supported")
            if reference.offset < 0 and not reference.optional:
                fail(f"{node.name} needs words before the first; put IfDefined around its Offset")
            if reference.offset < 0 and reference.node not in reading:
                fail(f"{node.name} looks back at {reference.node}, which does not depend on the input")
