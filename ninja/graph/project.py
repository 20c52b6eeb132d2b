"""Projection: one side of a lattice alone, its words or its transition ids."""

from __future__ import annotations

import numpy as np

from ninja.errors import LatticeError
from ninja.graph.kinds import to_compact, to_raw
from ninja.lattice import Lattice
from ninja.lattice.arrays import frozen, offsets


def remove_alignments(lattice: Lattice) -> Lattice:
    """Drop the labels of arcs and final states; words and costs stay, times are lost.

    Source: Kaldi, fstext/lattice-utils-inl.h, RemoveAlignmentsFromCompactLattice.
    """
    return lattice.replace(
        ali_begin=frozen(np.zeros(lattice.num_arcs + 1, np.int64)),
        ali=frozen(np.zeros(0, np.int32)),
        final_ali_begin=frozen(np.zeros(lattice.num_states + 1, np.int64)),
        final_ali=frozen(np.zeros(0, np.int32)),
    )


def project(lattice: Lattice, *, project_output: bool = True) -> Lattice:
    """Make a lattice whose labels are its words, or, without ``project_output``, whose words are its labels.

    Returns:
        A lattice of kind "raw": each arc has the same number as word and as label, or neither.

    Raises:
        LatticeError: A label that is to be a word is negative.

    Source: Kaldi, latbin/lattice-project.cc.
    """
    if project_output:
        bare = remove_alignments(to_compact(lattice))
        said = bare.word != 0
        return bare.replace(kind="raw", ali_begin=offsets(said), ali=frozen(bare.word[said]))
    raw = to_raw(lattice)
    if raw.ali.min(initial=0) < 0:
        raise LatticeError(f"the label {raw.ali.min()} cannot be a word: it is negative", key=lattice.key)
    word = np.zeros(raw.num_arcs, np.int32)
    word[np.diff(raw.ali_begin) > 0] = raw.ali
    return raw.replace(word=frozen(word), words=None)
