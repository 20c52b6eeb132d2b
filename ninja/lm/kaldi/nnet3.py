"""Read Kaldi's nnet3 networks (``final.raw``) in binary or text format: a graph of nodes, and their components.

    <Nnet3> ⏎ configuration lines ⏎ empty line
    <NumComponents> 18
    <ComponentName> tdnn1.affine <NaturalGradientAffineComponent> <LearningRate> … <LinearParams> … </Natural…>
    …
    </Nnet3>

Unused fields can be skipped, because every value is stored with its type.

Source: Kaldi, nnet3/nnet-nnet.cc (Nnet::Read).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from ninja.formats.kaldi.objects import ObjectReader, Value
from ninja.lattice import Array
from ninja.lm.kaldi.components import BUILDERS, Fields, FieldValue
from ninja.lm.kaldi.graph import Fail, parse
from ninja.models.nnet3 import Component, Graph

INTEGER_VECTORS = {"<TimeOffsets>", "<ColumnMap>", "<Sizes>"}


@dataclass(frozen=True, slots=True)
class Nnet3:
    """A network as stored in its file, and the graph built from the configuration lines."""

    lines: list[str]  # the configuration
    fields: dict[str, tuple[str, dict[str, FieldValue]]]  # type and used fields of each component
    graph: Graph


def read(path: str | os.PathLike[str]) -> Nnet3:
    """Read a network, optionally compressed with gzip.

    Raises:
        FormatError: The file is not an nnet3 network, or is truncated or damaged; or the network has an unsupported
            component or descriptor, or cannot be run word by word.
    """
    reader = ObjectReader.open(path)
    if reader.token() != "<Nnet3>":
        reader.fail("not an nnet3 network: <Nnet3> is missing at the start; specify final.raw, not final.mdl", 0)
    lines: list[str] = []
    fails: list[Fail] = []
    reader.line()
    while (place := reader.place, line := reader.line())[1].strip():
        fails.append(_failing(reader, place))
        try:
            lines.append(line.decode("utf-8"))
        except UnicodeDecodeError:
            fails[-1]("a configuration line is not UTF-8, so the file is damaged; copy it again")
    reader.expect("<NumComponents>")
    components: dict[str, Component] = {}
    used: dict[str, tuple[str, dict[str, FieldValue]]] = {}
    # If the number is too large, reading soon fails at the end of the file, because every component takes some bytes.
    for _ in range(reader.integer()):
        reader.expect("<ComponentName>")
        name = reader.token()
        fields = _fields(reader, name)
        components[name] = fields.component()
        used[name] = fields.kind, fields.used
    reader.expect("</Nnet3>")
    graph = parse(list(zip(lines, fails, strict=True)), components, _failing(reader, 0))
    return Nnet3(lines, used, graph)


def rebuild(lines: list[str], fields: dict[str, tuple[str, dict[str, FieldValue]]], fail: Fail) -> Nnet3:
    """Build a network from the configuration lines and component fields in a checkpoint; `fail` reports errors."""
    components = {name: Fields(name, kind, values, fail).component() for name, (kind, values) in fields.items()}
    return Nnet3(lines, fields, parse([(line, fail) for line in lines], components, fail))


def single(array: Array) -> Array:
    """Convert an array to float32; values out of range become infinite, and `Fields` rejects them."""
    with np.errstate(over="ignore"):
        return array.astype(np.float32)


def _failing(reader: ObjectReader, place: int) -> Fail:
    def fail(message: str) -> NoReturn:
        reader.fail(message, place)

    return fail


def _fields(reader: ObjectReader, name: str) -> Fields:
    place = reader.place
    opening = reader.token()
    kind = opening.strip("<>")
    values: dict[str, Value | FieldValue] = {}
    fields = Fields(name, kind, values, _failing(reader, place))
    if opening != f"<{kind}>" or not kind.endswith("Component"):
        reader.fail(f"expected the type of component {name}, found {opening!r}", place)
    if kind not in BUILDERS:  # the fields of an unknown type may be unreadable
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
