"""Read and write Caffe2 nets as protocol buffers.

Source: caffe2/proto/caffe2.proto (messages NetDef, OperatorDef, Argument).
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ninja.errors import ModelError
from ninja.libraries import needed_for

INIT, PREDICT = "init_net.pb", "predict_net.pb"  # suffixes of the file names
# Fields of caffe2.proto that are used; * marks repeated fields.
_MESSAGES = {
    "Argument": "name=1:STRING f=2:FLOAT i=3:INT64 s=4:BYTES floats*=5:FLOAT ints*=6:INT64",
    "OperatorDef": "input*=1:STRING output*=2:STRING type=4:STRING arg*=5:Argument",
    "NetDef": "name=1:STRING op*=2:OperatorDef arg*=6:Argument external_input*=7:STRING external_output*=8:STRING",
}


Argument: TypeAlias = int | float | str | tuple[int, ...] | npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator: its type, and the blobs that it reads and writes."""

    type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    arguments: dict[str, Argument]
    path: str = ""
    number: int = 0  # position in the net, from 1

    def error(self, message: str) -> ModelError:
        """Create an error whose message begins with the operator's position and type."""
        output = f", which computes {self.outputs[0]!r}" if self.outputs else ""
        return ModelError(f"operator {self.number}, {self.type}{output}: {message}", self.path)

    def integer(self, name: str, default: int) -> int:
        """Return an integer argument, or the default if it is missing or has another type."""
        argument = self.arguments.get(name)
        return argument if isinstance(argument, int) else default

    def integers(self, name: str) -> tuple[int, ...]:
        """Return an argument that is a list of integers, or an empty tuple if it is missing or has another type."""
        argument = self.arguments.get(name)
        return argument if isinstance(argument, tuple) else ()


@dataclass(frozen=True, slots=True)
class Net:
    """A net: operators in execution order, and the names of its input and output blobs."""

    name: str
    operators: tuple[Operator, ...]
    external_input: tuple[str, ...] = ()
    external_output: tuple[str, ...] = ()
    arguments: dict[str, Argument] = field(default_factory=dict)
    path: str = ""


def read(path: str | os.PathLike[str]) -> Net:
    """Read a serialised NetDef.

    Raises:
        ModelError: The file is damaged or does not contain a net.
    """
    net_def = _net_def()
    from google.protobuf.message import DecodeError

    name = os.fspath(path)
    with open(name, "rb") as file:
        content = file.read()
    try:
        net = net_def.FromString(content)
        operators = tuple(
            Operator(op.type, tuple(op.input), tuple(op.output), _arguments(op.arg), name, number)
            for number, op in enumerate(net.op, 1)
        )
        external = tuple(net.external_input), tuple(net.external_output)
        arguments = _arguments(net.arg)
    except (DecodeError, UnicodeDecodeError) as error:
        raise ModelError(
            "the file is truncated or is not a Caffe2 net; save the net with SerializeToString", name
        ) from error
    if not operators:
        raise ModelError("the file has no operators or is not a Caffe2 net; save the net with SerializeToString", name)
    for operator in operators:
        if not operator.type or not operator.outputs:
            raise operator.error("the operator has no type or no output; the net is damaged")
    return Net(net.name, operators, *external, arguments, name)


def encode(net: Net) -> bytes:
    """Return a net as a serialised NetDef."""
    message = _net_def()(name=net.name, external_input=net.external_input, external_output=net.external_output)
    for operator in net.operators:
        op = message.op.add(type=operator.type, input=operator.inputs, output=operator.outputs)
        _add(op.arg, operator.arguments)
    _add(message.arg, net.arguments)
    return bytes(message.SerializeToString())


def _arguments(messages: Any) -> dict[str, Argument]:
    return {message.name: _value(message) for message in messages}


def _value(message: Any) -> Argument:
    if message.floats:
        return np.array(message.floats, np.float32)
    for name in ("f", "i"):
        if message.HasField(name):
            number: int | float = getattr(message, name)
            return number
    return message.s.decode() if message.HasField("s") else tuple(message.ints)


def _add(messages: Any, arguments: dict[str, Argument]) -> None:
    for name, value in arguments.items():
        if isinstance(value, str):
            messages.add(name=name, s=value.encode())
        else:
            field = {int: "i", float: "f", tuple: "ints"}.get(type(value), "floats")
            messages.add(name=name, **{field: value})


@functools.cache
def _net_def() -> Any:
    """Define the protobuf messages of Caffe2 nets, and return the class of the message NetDef."""
    with needed_for("a Caffe2 net"):
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    kind = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="caffe2.proto", package="caffe2", syntax="proto2")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for declaration in fields.split():
            label, number, sort = declaration.replace(":", "=").split("=")
            entry = message.field.add(name=label.rstrip("*"), number=int(number))
            entry.label = kind.LABEL_REPEATED if label.endswith("*") else kind.LABEL_OPTIONAL
            if sort in _MESSAGES:
                entry.type, entry.type_name = kind.TYPE_MESSAGE, f".caffe2.{sort}"
            else:
                entry.type = getattr(kind, f"TYPE_{sort}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("caffe2.NetDef"))
