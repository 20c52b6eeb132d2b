"""SRILM's word meshes: confusion networks as text."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from ninja import utf8
from ninja.consensus.network import ConfusionNetwork
from ninja.errors import SymbolError
from ninja.formats.mesh import NO_WORD, Mesh, blocks


def mesh_text(network: ConfusionNetwork) -> str:
    """Return a network as a word mesh.

    Words with known times get an ``info`` line: start, duration (seconds), then acoustic and language model scores,
    which are not known and 0, and phones, which are not known.

    Raises:
        SymbolError: A word is spelled as SRILM spells none, ``*DELETE*``, or it or the key holds a blank.

    Source: SRILM, wlat-format(5); lm/src/WordMesh.cc and NBest.cc (NBestWordInfo::write).
    """
    if network.key.split() != [network.key]:
        raise SymbolError(f"a word mesh cannot have the name {network.key!r}; write JSON instead", key=network.key)
    lines = [f"name {network.key}", f"numaligns {network.num_bins}", "posterior 1"]
    for place in range(network.num_bins):
        entries = network.bin(place)
        shown = [f"{_spelled(word)} {_number(posterior)}" for word, posterior, _, _ in entries]
        lines.append(" ".join([f"align {place}", *shown]))
        lines += [
            f"info {place} {_spelled(word)} {_number(start)} {_number(duration)} 0 0 : :"
            for word, _, start, duration in entries
            if start is not None and duration is not None
        ]
    return "\n".join(lines) + "\n"


def read_meshes(path: str | os.PathLike[str]) -> Iterator[ConfusionNetwork]:
    """Yield the word meshes of a file, one behind the other; gzip is unpacked.

    Posteriors are divided by the mesh's total where that is not 1. Lines on references, n-best hypotheses and
    transitions, and scores and phones of words, are passed over.

    Args:
        path: The file. A mesh without a name gets the file's, without its last ending.

    Raises:
        FormatError: A line that is none of a mesh, a position without its line, a number that is none.
        InputError: The file cannot be read.

    Source: SRILM, wlat-format(5); lm/src/WordMesh.cc (WordMesh::read).
    """
    name = os.fspath(path)
    for block in blocks(utf8.read(name).encode()):
        mesh = Mesh(name, block[0][0])
        for line, row in block:
            mesh.take(row.decode(), line)
        key = mesh.name or os.path.splitext(os.path.basename(name))[0]
        yield ConfusionNetwork.from_bins(key, mesh.bins())


def _spelled(word: str | None) -> str:
    if word is None:
        return NO_WORD
    if word == NO_WORD or word.split() != [word]:
        raise SymbolError(f"a word mesh cannot hold the word {word!r}; write JSON instead")
    return word


def _number(value: float) -> str:
    return str(np.float32(value)).removesuffix(".0")  # the fewest digits that give it back
