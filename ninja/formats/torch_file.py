"""Reader for ``torch.save`` files (tensors, numbers, strings, lists, dictionaries) that does not need torch.

Tensors are memory-mapped. This module interprets the opcodes of the pickle itself; nothing is called or imported, and
the few allowed names refer to objects in this module. Unlike ``torch.load(weights_only=True, mmap=True)``, this reader
checks the CRC-32 of every entry that it uses, rejects compressed entries and tensors that extend beyond their
storage, reads k2 objects without k2, and does not import torch (importing it takes about a second).
"""

from __future__ import annotations

import io
import math
import mmap
import pickletools
import zipfile
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from isal import isal_zlib

from ninja.errors import FormatError

Array = npt.NDArray[Any]
_STORAGES = {"Float": "<f4", "Double": "<f8", "Half": "<f2", "Int": "<i4", "Long": "<i8", "Short": "<i2"}
_STORAGES |= {"Bool": "?", "Char": "i1", "Byte": "u1", "BFloat16": "<u2"}
STORAGES = {f"torch.{name}Storage": dtype for name, dtype in _STORAGES.items()}
FLOATS = frozenset(f"torch.{name}Storage" for name in ("Float", "Double", "Half", "BFloat16"))
_BFLOAT16 = "torch.BFloat16Storage"
_TENSOR, PARAMETER = "torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_parameter"
_DICT, _SIZE, _ENCODE = "collections.OrderedDict", "torch.Size", "_codecs.encode"
PLAIN = frozenset({_TENSOR, PARAMETER, _DICT, _SIZE, _ENCODE})  # names for rebuilding tensors and plain objects
_LOCAL_HEADER = 30  # bytes


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor whose elements stay in the file."""

    storage: Array  # [num_elements], read-only
    begin: int  # index of the first element in the storage
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in elements
    is_bfloat16: bool = False

    @property
    def size(self) -> int:
        """Number of elements according to the shape; with strides of 0, it can exceed the size of the storage."""
        return math.prod(self.shape)

    @property
    def is_plain(self) -> bool:
        """Whether the elements are contiguous."""
        expected = 1
        for length, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if length != 1 and stride != expected:
                return not self.size
            expected *= length
        return True

    def array(self) -> Array:
        """Return an aligned, contiguous array; bfloat16 becomes float32. The caller must check ``size`` first."""
        numbers = np.lib.stride_tricks.as_strided(
            self.storage[self.begin :],
            self.shape,
            [stride * self.storage.itemsize for stride in self.strides],
            writeable=False,
        )
        if self.is_bfloat16:
            numbers = (numbers.astype(np.uint32) << 16).view(np.float32)
        return np.require(numbers, requirements=["C", "A"])


@dataclass(slots=True)
class Instance:
    """An instance of a class from another package, with its state."""

    name: str  # qualified name of the class
    state: Any = None


@dataclass(frozen=True, slots=True)
class _Name:
    """A global name (module and attribute) that occurs in the pickle."""

    name: str


@dataclass(frozen=True, slots=True)
class _Storage:
    numbers: Array
    is_bfloat16: bool


@dataclass(slots=True)
class Saved:
    """A zip file written by ``torch.save``."""

    content: memoryview
    entries: dict[str, zipfile.ZipInfo] = field(default_factory=dict)
    folder: str = ""  # folder of all entries, with a trailing slash

    def part(self, name: str) -> memoryview:
        """Return the bytes of a zip entry; raise FormatError if it is missing or damaged."""
        entry = self.entries.get(self.folder + name)
        if entry is None:
            raise FormatError(f"the zip file has no {name}")
        header = self.content[entry.header_offset : entry.header_offset + _LOCAL_HEADER]
        if len(header) < _LOCAL_HEADER or bytes(header[:4]) != b"PK\3\4":
            raise FormatError(f"{name} does not begin at its offset in the zip file", byte=entry.header_offset)
        names, extra = int.from_bytes(header[26:28], "little"), int.from_bytes(header[28:30], "little")
        begin = entry.header_offset + _LOCAL_HEADER + names + extra
        part = self.content[begin : begin + entry.file_size]
        if len(part) != entry.file_size:
            raise FormatError(f"{name} extends beyond the end of the file", byte=begin)
        if isal_zlib.crc32(part) != entry.CRC:
            message = f"{name} is damaged: its checksum differs (or was never computed: torch's set_crc32_options)"
            raise FormatError(message, byte=begin)
        return part


def opened(content: bytes | memoryview) -> Saved:
    """Open a zip file written by ``torch.save``; raise FormatError if it is damaged or was not written by torch."""
    try:
        whole = memoryview(content).obj
        file: Any = whole if isinstance(whole, mmap.mmap) else io.BytesIO(whole)
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
    except Exception as error:  # zipfile raises many types of exceptions
        raise FormatError(f"the file was not saved by torch, or is damaged: {str(error)[:200]}") from error
    if any(entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1 for entry in entries):
        raise FormatError("the zip file has a compressed entry, which torch does not write")
    if sum(entry.file_size for entry in entries) > len(content):
        raise FormatError("the entries of the zip file declare more bytes than the file contains")
    pickles = [entry.filename for entry in entries if entry.filename.split("/")[-1] == "data.pkl"]
    if len(pickles) != 1:
        raise FormatError("the zip file was not written by torch: it must contain exactly one data.pkl")
    by_name = {entry.filename: entry for entry in entries}
    saved = Saved(memoryview(content), by_name, pickles[0].removesuffix("data.pkl"))
    if len(by_name) != len(entries):
        raise FormatError("the zip file has two entries with the same name")
    if saved.folder + "byteorder" in saved.entries and bytes(saved.part("byteorder")) != b"little":
        raise FormatError("the byte order of numbers is not little-endian")
    return saved


def load(saved: Saved, names: Collection[str], only: str) -> Any:
    """Load the saved object, which consists of ``Tensor``, ``Instance`` and built-in Python objects.

    Args:
        saved: The zip file.
        names: Names that the pickle may use: a subset of ``PLAIN`` and ``STORAGES``, and classes for ``Instance``.
        only: Description of the allowed objects, for messages.

    Raises:
        FormatError: The pickle uses another name, or is damaged.
    """
    try:
        return _Interpreter(saved, names, only).run(bytes(saved.part("data.pkl")))
    except FormatError:
        raise
    except Exception as error:  # opcodes that do not match the stack raise exceptions of many types
        raise FormatError(f"the file was not saved by torch, or is damaged: {str(error)[:200]}") from error


def load_arrays(image: bytes | memoryview, only: str) -> Any:
    """Load a saved object as built-in Python objects and arrays (bfloat16 as float32).

    Args:
        image: The bytes of the zip file.
        only: Description of the allowed objects, for messages.

    Raises:
        FormatError: The pickle uses a name that is not allowed, the file is damaged, or the arrays together are larger
            than the file.
    """
    bytes_left = len(image)

    def convert(value: Any, name: str) -> Any:
        """Return a copy of `value` in which all tensors, even in nested containers, are converted to arrays.

        `name` is the path of `value` in the saved object, such as ``encoder.weight``; it is used in messages.
        """
        nonlocal bytes_left
        if isinstance(value, Tensor):
            bytes_left -= value.size * value.storage.itemsize
            if value.size > len(value.storage) or bytes_left < 0:
                raise FormatError(
                    f"{name} has more elements than the file stores for it; save a contiguous copy of the tensor"
                )
            return value.array()
        if isinstance(value, dict):
            return {key: convert(inner, f"{name}.{key}" if name else str(key)) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(convert(inner, name) for inner in value)
        return value

    return convert(load(opened(image), PLAIN | set(STORAGES), only), "")


class _Interpreter:
    """Interpreter for the opcodes of pickle protocol 2."""

    def __init__(self, saved: Saved, names: Collection[str], only: str) -> None:
        self._saved = saved
        self._names = names
        self._only = only
        self._stack: list[Any] = []
        self._marks: list[list[Any]] = []  # for each open mark, the stack below the mark
        self._memo: dict[Any, Any] = {}
        self._storages: dict[tuple[str, str], _Storage] = {}

    def run(self, pickle: bytes) -> Any:
        memo = self._memo
        for opcode, argument, _ in pickletools.genops(pickle):
            name, stack = opcode.name, self._stack
            if name in _VALUES:
                stack.append(argument)
            elif name in ("BINPUT", "LONG_BINPUT"):
                memo[argument] = stack[-1]
            elif name in ("BINGET", "LONG_BINGET"):
                stack.append(memo[argument])
            elif name == "MARK":
                self._marks.append(stack)
                self._stack = []
            elif name == "STOP":
                return stack.pop()
            elif name != "PROTO":
                operation = _OPERATIONS.get(name)
                if operation is None:
                    raise FormatError(f"the pickle contains {name}, which torch does not write")
                operation(self, argument)
        raise FormatError("the pickle has no end")

    def _marked(self) -> list[Any]:
        """Pop the last mark and the items above it from the stack; return the items."""
        marked, self._stack = self._stack, self._marks.pop()
        return marked

    def _literal(self, value: Any) -> None:
        self._stack.append(value)

    def _tuple(self, length: int) -> None:
        values = [self._stack.pop() for _ in range(length)]
        self._stack.append(tuple(reversed(values)))

    def _append(self, values: list[Any]) -> None:
        target = self._stack[-1]
        if type(target) is not list:
            raise ValueError("an element is appended to an object that is not a list")
        target.extend(values)

    def _set(self, values: list[Any]) -> None:
        target, keys = self._stack[-1], values[::2]
        # Only simple keys are allowed, because hashing deeply nested tuples could overflow the stack.
        if type(target) is not dict or not all(type(key) in (str, int) for key in keys):
            raise ValueError(
                "an entry is added to an object that is not a dictionary, or its key is neither a string nor an integer"
            )
        target.update(zip(keys, values[1::2], strict=True))

    def _import(self, argument: str) -> None:
        name = argument.replace(" ", ".")
        if name not in self._names:
            raise FormatError(f"the file contains an object of the type {name[:60]}; {self._only}")
        self._stack.append(_Name(name))

    def _persistent(self) -> None:
        """Load a storage from the tuple ("storage", type, key, device, count) on the stack."""
        tag, kind, key, _, count = self._stack.pop()
        if tag != "storage" or type(kind) is not _Name or type(key) is not str or type(count) is not int:
            raise ValueError("a storage is invalid")
        place = (kind.name, key)
        if place not in self._storages:
            part = self._saved.part(f"data/{key}")
            dtype = np.dtype(STORAGES[kind.name])
            if not 0 <= count <= len(part) // dtype.itemsize:
                raise FormatError(f"data/{key} declares {count} numbers, but has {len(part)} bytes")
            numbers = np.frombuffer(part, dtype, count)
            self._storages[place] = _Storage(numbers, kind.name == _BFLOAT16)
        self._stack.append(self._storages[place])

    def _call(self) -> None:
        arguments, function = self._stack.pop(), self._stack.pop()
        if type(function) is not _Name or type(arguments) is not tuple:
            raise ValueError("a call refers to an object that is not a function")
        self._stack.append(_build(function.name, arguments))

    def _instance(self) -> None:
        arguments, cls = self._stack.pop(), self._stack.pop()
        if type(cls) is not _Name or cls.name in PLAIN or cls.name in STORAGES or arguments != ():
            raise ValueError("an instance refers to an object that is not a class")
        self._stack.append(Instance(cls.name))

    def _set_state(self) -> None:
        state, target = self._stack.pop(), self._stack[-1]
        if type(target) is Instance:
            target.state = state
        elif (
            type(target) is not dict
        ):  # an OrderedDict may have a state: torch stores versions in it; the state is ignored
            raise ValueError("an object of this type cannot have a state, but a state is stored for it")


def _build(name: str, arguments: tuple[Any, ...]) -> Any:
    if name == _TENSOR:
        return _tensor(*arguments[:4])
    if name == PARAMETER and type(arguments[0]) is Tensor:
        return arguments[0]
    if name == _DICT and arguments == ():
        return {}
    if name == _SIZE and len(arguments) == 1:
        return tuple(arguments[0])
    if name == _ENCODE and arguments[1:] == ("latin1",):
        return arguments[0].encode("latin-1")
    raise ValueError(f"{name} is called with unexpected arguments")


def _tensor(storage: Any, begin: Any, shape: Any, strides: Any) -> Tensor:
    """Create a tensor after checking that it lies within its storage."""
    if type(storage) is not _Storage or type(shape) is not tuple or type(strides) is not tuple:
        raise ValueError("a tensor is invalid")
    if len(shape) != len(strides) or len(shape) > 16:
        raise ValueError("a tensor has over 16 axes, or does not have one stride per axis")
    if not all(type(number) is int and 0 <= number < 1 << 62 for number in (begin, *shape, *strides)):
        raise ValueError("the shape, strides or offset of a tensor contain an invalid number")
    if math.prod(max(length, 1) for length in shape) >= 1 << 59:
        raise ValueError("a tensor has too many elements")
    last = begin + sum((length - 1) * stride for length, stride in zip(shape, strides, strict=True))
    if 0 not in shape and last >= len(storage.numbers):
        raise ValueError("a tensor extends beyond its storage")
    return Tensor(storage.numbers, begin, shape, strides, storage.is_bfloat16)


_VALUES = frozenset({"BINUNICODE", "BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT"})
_OPERATIONS: dict[str, Any] = {
    "NONE": lambda machine, _: machine._literal(None),
    "NEWTRUE": lambda machine, _: machine._literal(True),
    "NEWFALSE": lambda machine, _: machine._literal(False),
    "EMPTY_DICT": lambda machine, _: machine._literal({}),
    "EMPTY_LIST": lambda machine, _: machine._literal([]),
    "EMPTY_TUPLE": lambda machine, _: machine._literal(()),
    "TUPLE1": lambda machine, _: machine._tuple(1),
    "TUPLE2": lambda machine, _: machine._tuple(2),
    "TUPLE3": lambda machine, _: machine._tuple(3),
    "TUPLE": lambda machine, _: machine._literal(tuple(machine._marked())),
    "APPEND": lambda machine, _: machine._append([machine._stack.pop()]),
    "APPENDS": lambda machine, _: machine._append(machine._marked()),
    "SETITEM": lambda machine, _: machine._set([machine._stack.pop(-2), machine._stack.pop()]),
    "SETITEMS": lambda machine, _: machine._set(machine._marked()),
    "GLOBAL": _Interpreter._import,
    "BINPERSID": lambda machine, _: machine._persistent(),
    "REDUCE": lambda machine, _: machine._call(),
    "NEWOBJ": lambda machine, _: machine._instance(),
    "BUILD": lambda machine, _: machine._set_state(),
}
