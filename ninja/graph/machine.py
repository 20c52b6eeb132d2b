"""Weighted transducers of OpenFst, as flat arrays that a lattice is composed with: grammars, lexicons, edit models."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninja import _algebra
from ninja.errors import FormatError, LatticeError
from ninja.files.place import Place
from ninja.files.stream import open_stream

CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Machine:
    """An FST, with cycles or without; the arcs of each state are in the order of their input labels."""

    start: int
    arc_begin: npt.NDArray[np.int64]  # [num_states + 1]
    dst: npt.NDArray[np.int32]  # [num_arcs]
    ilabel: npt.NDArray[np.int32]  # [num_arcs], 0 = epsilon
    olabel: npt.NDArray[np.int32]  # [num_arcs], 0 = epsilon
    cost: npt.NDArray[np.float64]  # [num_arcs], natural-log costs
    final_cost: npt.NDArray[np.float64]  # [num_states], +inf = not final
    path: str | None = None

    @classmethod
    def parse(cls, image: bytes, path: str | None = None) -> Machine:
        """Make a machine of the bytes of an OpenFst file: a vector FST of the arc types standard, log or log64.

        Raises:
            FormatError: Something else, damaged or cut short.
            LatticeError: It has no start, a NaN or infinite weight or a negative label.
        """
        error, byte, fields = _algebra.parse_machine(image)
        if error and byte >= 0:
            raise FormatError(error, path, byte=byte)
        if fields is None:
            raise LatticeError(error, path)
        return cls(*fields, path=path)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Machine:
        """Read a file, packed with gzip or not; ``-`` is the standard input.

        Raises:
            FormatError: As ``parse``, or a damaged gzip stream.
            LatticeError: As ``parse``.
            InputError: The file cannot be read.
        """
        name = os.fspath(path)
        pieces = []
        with open_stream(Place(name)) as stream:
            buffer = memoryview(bytearray(CHUNK))
            while count := stream.readinto(buffer):
                pieces.append(bytes(buffer[:count]))
        return cls.parse(b"".join(pieces), name)
