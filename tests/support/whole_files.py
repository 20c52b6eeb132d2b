"""Whole files of formats, written and read record by record, for tests of one format."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

from ninja.errors import LatticeError, NinjaError
from ninja.files.stream import text_of
from ninja.formats.content import refuse_unended
from ninja.formats.format import WriteSettings
from ninja.formats.mesh import Mesh, whole_blocks
from ninja.formats.nbest.json_hypotheses import ObjectFields
from ninja.formats.nbest.json_lists import objects, read_lists
from ninja.formats.nbest.kaldi import stem
from ninja.lattice import Array, Lattice
from ninja.lattice.nbest import Hypothesis, NBest
from ninja.lattice.network import ConfusionNetwork
from ninja.lattice.symbols import SymbolTable

DSTC10 = ObjectFields(key=None, text="hyp", skip=True)  # dialogues of turns; only turns of the user have n-best lists


def write_natives(lattices: Iterable[Lattice], words: SymbolTable | None = None) -> bytes:
    from ninja.formats.native import NativeEncoder

    encoder = NativeEncoder(WriteSettings(None, words))
    return b"".join([*[encoder.add(lattice) for lattice in lattices], encoder.end()])


def write_native(lattice: Lattice) -> bytes:
    return write_natives([lattice])


def read_native(content: bytes) -> Lattice:
    from ninja.formats.native import NativeFile

    (lattice,) = NativeFile(content, "x.arrow", check="all")
    return lattice


def read_k2(content: bytes | os.PathLike[str], key: str, path: str | None = None, *options: Any) -> Lattice:
    from ninja.formats.k2 import read_k2s

    (entry,) = read_k2s(content, path, *options)
    if isinstance(entry, NinjaError):
        raise entry
    return entry.with_key(key)


def write_k2s(lattices: Iterable[Lattice], *, extras: bool = True) -> bytes:
    from ninja.formats.k2 import K2Encoder, K2WriteOptions

    encoder = K2Encoder(WriteSettings(K2WriteOptions(extras), None))
    return b"".join([*[encoder.add(lattice) for lattice in lattices], encoder.end()])


def write_k2(lattice: Lattice) -> bytes:
    """Return a single Fsa."""
    import torch

    dictionary = torch.load(io.BytesIO(write_k2s([lattice])), weights_only=True)
    dictionary["arcs"] = dictionary["arcs"][6:].reshape(-1, 4)  # after the counts of an FsaVec with one Fsa
    return torch_bytes(dictionary)


def torch_bytes(value: object) -> bytes:
    """Return the content of a file that torch.save writes."""
    import torch

    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def read_meshes(path: str | os.PathLike[str]) -> Iterator[ConfusionNetwork]:
    name = os.fspath(path)
    content = text_of(name).encode()
    refuse_unended(content, name, None, b"")
    for block, _ in whole_blocks(content):
        mesh = Mesh(name, block[0][0])
        for line, row in block:
            mesh.add(row.decode(), line)
        yield ConfusionNetwork.from_bins(mesh.name or os.path.splitext(os.path.basename(name))[0], mesh.bins())


def network_of_json(row: str) -> ConfusionNetwork:
    network = json.loads(row)
    fields = ("word", "posterior", "start", "duration")
    return ConfusionNetwork.from_bins(
        network["key"], [[tuple(map(entry.get, fields)) for entry in entries] for entries in network["bins"]]
    )


def valid_entries(entries: Iterable[Any]) -> list[Any]:
    """Return the entries if all are valid, or raise the first error."""
    valid = []
    for entry in entries:
        if isinstance(entry, NinjaError):
            raise entry
        valid.append(entry)
    return valid


def read_entries(content: bytes, path: str | None = None, fields: ObjectFields | None = None) -> list[Any]:
    fields = fields or ObjectFields()
    return list(read_lists(objects(content, path, fields), path, fields))


def read_objects(content: bytes, path: str | None = None, fields: ObjectFields | None = None) -> list[NBest]:
    return valid_entries(read_entries(content, path, fields))


def tables_nbest(
    words: Iterable[tuple[str, Array]],
    graph: Mapping[str, float] | None = None,
    acoustic: Mapping[str, float] | None = None,
    alignments: Mapping[str, Array] | None = None,
) -> Iterator[NBest]:
    """Yield the n-best lists of the tables of ``nbest-to-linear``, as ``linear-to-nbest`` does."""

    def cost(table: Mapping[str, float] | None, key: str, name: str) -> float:
        if table is None:
            return 0.0
        if key not in table:
            raise LatticeError(f"the table of {name} costs lacks it", key=key)
        return table[key]

    def hypothesis(key: str, ids: Array) -> Hypothesis:
        word_ids = tuple(ids.tolist())
        no_costs = (0.0,) * len(word_ids)
        labels = None
        if alignments is not None:
            if key not in alignments:
                raise LatticeError("the table of alignments lacks it", key=key)
            labels = _split_labels(alignments[key].tolist(), len(word_ids))
        return Hypothesis(
            word_ids,
            (*no_costs, cost(graph, key, "graph")),
            (*no_costs, cost(acoustic, key, "acoustic")),
            labels=labels,
        )

    for key, group in groupby(words, lambda entry: stem(entry[0])):
        yield NBest(key, tuple(hypothesis(*entry) for entry in group))


def _split_labels(labels: list[int], num_words: int) -> tuple[tuple[int, ...], ...]:
    if not num_words:
        return (tuple(labels),)
    dealt = [tuple(labels[place : place + 1]) for place in range(num_words - 1)]
    return (*dealt, tuple(labels[num_words - 1 :]), ())
