"""OpenFst's own binary files: FSTs of the arc types standard, log and log64; vector and const ones are read."""

from __future__ import annotations

from ninja.lattice import Lattice
from ninja.openfst import ArcType, CostName, from_image, to_image

MAGIC = b"\xd6\xfd\xb2\x7e"  # Kaldi's lattices begin so too; the arc type tells them apart


def read_fst(content: bytes, key: str, path: str | None = None) -> Lattice:
    """Read a lattice from the bytes of an OpenFst file.

    Words are the output labels (input labels are dropped), graph costs the weights, acoustic costs 0; an attached
    output (else input) symbol table becomes the lattice's.

    Args:
        content: The whole file.
        key: Utterance id the lattice is to have.
        path: File name for error messages.

    Raises:
        FormatError: Not a vector or const FST of the three arc types, damaged, cut short, or followed by more bytes.
        LatticeError: A cycle, no start, no final state, a NaN or infinite weight, a negative label.

    Source: OpenFst 1.8.4, vector-fst.h (VectorFstImpl::Read), const-fst.h (ConstFstImpl::Read), fst.cc (FstHeader).
    """
    return from_image(content, key, path)


def write_fst(
    lattice: Lattice, arc_type: ArcType = "standard", costs: CostName = "total", acoustic_scale: float = 1.0
) -> bytes:
    """Return a lattice as the bytes of an OpenFst file: a word acceptor with one cost; alignments stay behind.

    Args:
        lattice: The lattice.
        arc_type: Semiring; decides the width of weights.
        costs: Weight of an arc: "total" = ``acoustic_scale * acoustic + graph``, or "graph" or "acoustic" as it is.
        acoustic_scale: Factor of the acoustic cost in "total"; with one cost alone it is refused.

    Raises:
        OptionError: An argument is none of the above.
    """
    return to_image(lattice, arc_type, costs, "word", acoustic_scale)
