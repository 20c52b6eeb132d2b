"""Whole files of formats, written and read by their records, for tests of one format."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable, Iterator
from typing import Any

from ninja.errors import NinjaError
from ninja.files import text as utf8
from ninja.formats.format import NoOptions, WriteSettings
from ninja.formats.mesh import Mesh, whole_blocks
from ninja.formats.textual import refuse_unended
from ninja.lattice import Lattice
from ninja.lattice.network import ConfusionNetwork
from ninja.lattice.symbols import SymbolTable


def write_natives(lattices: Iterable[Lattice], words: SymbolTable | None = None) -> bytes:
    from ninja.formats.native import NativeEncoder

    encoder = NativeEncoder(WriteSettings(NoOptions(), words))
    return b"".join([*[encoder.add(each) for each in lattices], encoder.end()])


def write_native(lattice: Lattice) -> bytes:
    return write_natives([lattice])


def read_native(content: bytes) -> Lattice:
    from ninja.formats.native import NativeFile

    (lattice,) = NativeFile(content, "x.arrow", check="all")
    return lattice


def read_k2(content: bytes | os.PathLike[str], key: str, path: str | None = None, *options: Any) -> Lattice:
    from ninja.formats.k2 import read_k2s

    (found,) = read_k2s(content, path, *options)
    if isinstance(found, NinjaError):
        raise found
    return found.with_key(key)


def write_k2(lattice: Lattice) -> bytes:
    """Return a single Fsa."""
    import torch

    from ninja.formats.k2 import write_k2s

    loaded = torch.load(io.BytesIO(write_k2s([lattice])), weights_only=True)
    loaded["arcs"] = loaded["arcs"][6:].reshape(-1, 4)  # behind the counts of an FsaVec of one
    buffer = io.BytesIO()
    torch.save(loaded, buffer)
    return buffer.getvalue()


def read_meshes(path: str | os.PathLike[str]) -> Iterator[ConfusionNetwork]:
    name = os.fspath(path)
    content = utf8.read(name).encode()
    refuse_unended(content, name, None, b"")
    for block, _ in whole_blocks(content):
        mesh = Mesh(name, block[0][0])
        for line, row in block:
            mesh.take(row.decode(), line)
        yield ConfusionNetwork.from_bins(mesh.name or os.path.splitext(os.path.basename(name))[0], mesh.bins())


def network_of_json(row: str) -> ConfusionNetwork:
    said = json.loads(row)
    fields = ("word", "posterior", "start", "duration")
    return ConfusionNetwork.from_bins(
        said["key"], [[tuple(map(entry.get, fields)) for entry in entries] for entries in said["bins"]]
    )
