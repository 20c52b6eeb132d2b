"""Caffe2's nets as its protocol buffers hold them: operators, their arguments, and the names between them.

Source: caffe2/proto/caffe2.proto (messages NetDef, OperatorDef, Argument).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from dataclasses import field as dataclass_field

import numpy as np

from ninja.errors import ModelError
from ninja.lm.imported.protobuf import Message, field, float_field


@dataclass(frozen=True, slots=True)
class Argument:
    """A named argument of an operator; which of its values counts is the operator's affair."""

    f: float | None = None
    i: int | None = None
    s: str | None = None
    floats: np.ndarray | None = None  # float32
    ints: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator: what it computes from which blobs into which."""

    type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    arguments: dict[str, Argument]
    path: str = ""
    number: int = 0  # its place in the net, from 1

    def error(self, message: str) -> ModelError:
        """Return an error that names this operator and its place."""
        made = f", which makes {self.outputs[0]!r}" if self.outputs else ""
        return ModelError(f"operator {self.number}, {self.type}{made}: {message}", self.path)

    def integer(self, name: str, default: int) -> int:
        """Return an integer argument."""
        argument = self.arguments.get(name)
        return default if argument is None or argument.i is None else argument.i

    def integers(self, name: str) -> tuple[int, ...] | None:
        """Return an argument that is a list of integers, None without it."""
        argument = self.arguments.get(name)
        return None if argument is None else argument.ints


@dataclass(frozen=True, slots=True)
class Net:
    """Operators in the order in which they run, and the blobs that come from outside and are wanted outside."""

    name: str
    operators: tuple[Operator, ...]
    external_input: tuple[str, ...] = ()
    external_output: tuple[str, ...] = ()
    arguments: dict[str, Argument] = dataclass_field(default_factory=dict)
    path: str = ""


def read(path: str | os.PathLike[str]) -> Net:
    """Read a NetDef.

    Raises:
        ModelError: The file is truncated, or no NetDef.
        OSError: The file cannot be read.
    """
    name = os.fspath(path)
    with open(name, "rb") as file:
        message = Message(memoryview(file.read()), name)
    operators = tuple(_operator(each, name, number) for number, each in enumerate(message.messages(2), 1))
    if not operators:
        raise ModelError("a net without operators, or no Caffe2 net; save it with SerializeToString", name)
    arguments = {each.text(1): _argument(each) for each in message.messages(6)}
    return Net(message.text(1), operators, tuple(message.texts(7)), tuple(message.texts(8)), arguments, name)


def _operator(message: Message, path: str, number: int) -> Operator:
    arguments = {each.text(1): _argument(each) for each in message.messages(5)}
    inputs, outputs = tuple(message.texts(1)), tuple(message.texts(2))
    operator = Operator(message.text(4), inputs, outputs, arguments, path, number)
    if not operator.type or not outputs:
        raise operator.error("no type, or no output; the net is damaged")
    return operator


def _argument(message: Message) -> Argument:
    floats = message.floats(2)
    return Argument(
        f=float(floats[-1]) if len(floats) else None,
        i=message.integer(3) if 3 in message else None,
        s=message.text(4) if 4 in message else None,
        floats=message.floats(5) if 5 in message else None,
        ints=tuple(message.integers(6)),
    )


def encode(net: Net) -> bytes:
    """Write a net as Caffe2 does."""
    parts = [field(1, net.name)]
    for operator in net.operators:
        arguments = [field(5, field(1, name) + _encode(value)) for name, value in operator.arguments.items()]
        names = [field(1, name) for name in operator.inputs] + [field(2, name) for name in operator.outputs]
        parts.append(field(2, b"".join((*names, field(4, operator.type), *arguments))))
    parts += [field(6, field(1, name) + _encode(value)) for name, value in net.arguments.items()]
    parts += [field(7, name) for name in net.external_input]
    parts += [field(8, name) for name in net.external_output]
    return b"".join(parts)


def _encode(argument: Argument) -> bytes:
    parts = []
    if argument.f is not None:
        parts.append(float_field(2, argument.f))
    if argument.i is not None:
        parts.append(field(3, argument.i))
    if argument.s is not None:
        parts.append(field(4, argument.s))
    if argument.floats is not None:
        parts.append(float_field(5, argument.floats))
    parts += [field(6, number) for number in argument.ints]
    return b"".join(parts)
