"""Read Kaldi's nnet3 networks (``final.raw``), binary or text: a graph of nodes and the components they apply.

    <Nnet3> ⏎ configuration lines ⏎ empty line
    <NumComponents> 18
    <ComponentName> tdnn1.affine <NaturalGradientAffineComponent> <LearningRate> … <LinearParams> … </Natural…>
    …
    </Nnet3>

Fields that do not matter are read over, whatever they are, since every value says what it is.

Source: Kaldi, nnet3/nnet-nnet.cc (Nnet::Read).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from ninja.formats.kaldi.objects import ObjectReader, Value
from ninja.lattice import Array
from ninja.lm.kaldi.components import BUILDERS, Fields, Kept
from ninja.lm.kaldi.graph import Fail, parse
from ninja.models.nnet3 import Graph
from ninja.models.nnet3_operations import Component

INTEGER_VECTORS = {"<TimeOffsets>", "<ColumnMap>", "<Sizes>"}


@dataclass(frozen=True, slots=True)
class Nnet3:
    """A network as a file holds it, and made ready."""

    lines: list[str]  # the configuration
    fields: dict[str, tuple[str, dict[str, Kept]]]  # type and fields of each component, as far as they matter
    graph: Graph


def read(path: str | os.PathLike[str]) -> Nnet3:
    """Read a network; gzip is unpacked.

    Raises:
        FormatError: It is no nnet3 network, truncated or damaged; or it has a component or descriptor that is not
            supported, or cannot be run one word after the other.
    """
    reader = ObjectReader.open(path)
    if reader.token() != "<Nnet3>":
        reader.fail("this is no nnet3 network, which begins with <Nnet3>; give final.raw, not final.mdl", 0)
    lines: list[str] = []
    fails: list[Fail] = []
    reader.line()
    while (place := reader.place, line := reader.line())[1].strip():
        fails.append(_failing(reader, place))
        try:
            lines.append(line.decode("utf-8"))
        except UnicodeDecodeError:
            fails[-1]("a configuration line is not UTF-8; the file is damaged, copy it again")
    reader.expect("<NumComponents>")
    components: dict[str, Component] = {}
    kept: dict[str, tuple[str, dict[str, Kept]]] = {}
    for _ in range(reader.integer()):  # each takes bytes, so an absurd number soon meets the end
        reader.expect("<ComponentName>")
        name = reader.token()
        fields = _fields(reader, name)
        components[name] = fields.component()
        kept[name] = fields.kind, fields.kept
    reader.expect("</Nnet3>")
    graph = parse(list(zip(lines, fails, strict=True)), components, _failing(reader, 0))
    return Nnet3(lines, kept, graph)


def rebuild(lines: list[str], fields: dict[str, tuple[str, dict[str, Kept]]], fail: Fail) -> Nnet3:
    """Make a network of the lines and fields that `read` kept; `fail` raises an error where they are damaged."""
    components = {name: Fields(name, kind, values, fail).component() for name, (kind, values) in fields.items()}
    return Nnet3(lines, fields, parse([(line, fail) for line in lines], components, fail))


def single(array: Array) -> Array:
    """Return an array as float32; numbers beyond its range become infinite, which `Fields` refuses."""
    with np.errstate(over="ignore"):
        return array.astype(np.float32)


def _failing(reader: ObjectReader, place: int) -> Fail:
    def fail(message: str) -> NoReturn:
        reader.fail(message, place)

    return fail


def _fields(reader: ObjectReader, name: str) -> Fields:
    """Read one component."""
    place = reader.place
    opening = reader.token()
    kind = opening.strip("<>")
    values: dict[str, Value | Kept] = {}
    fields = Fields(name, kind, values, _failing(reader, place))
    if opening != f"<{kind}>" or not kind.endswith("Component"):
        reader.fail(f"expected the type of component {name}, found {opening!r}", place)
    if kind not in BUILDERS:  # what it holds may be nothing that we can read over
        fields.component()
    while (token := reader.token()) != f"</{kind}>":
        if not (token.startswith("<") and token.endswith(">")) or token.startswith("</"):
            reader.fail(f"expected a field of component {name}, found {token!r}")
        if token in INTEGER_VECTORS:
            values[token] = reader.integers()
        while not reader.at("<"):
            value = reader.value()
            values.setdefault(token, single(value) if isinstance(value, np.ndarray) else value)
    return fields
