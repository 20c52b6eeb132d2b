"""SRILM's word meshes: confusion networks, and lattices, as text."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from ninja.consensus.decode import check_frame_shift, mbr_decode
from ninja.consensus.network import ConfusionNetwork, confusion_network
from ninja.errors import SymbolError
from ninja.files import text as utf8
from ninja.formats.mesh import LARGEST_SHARE, NO_WORD, SAME_SHARE, Mesh, MeshText, blocks, filled_times
from ninja.formats.textual import refuse_unended
from ninja.graph.connect import connect
from ninja.graph.kinds import to_compact
from ninja.graph.posteriors import posteriors
from ninja.io.writing import losses
from ninja.lattice import Lattice, Scales
from ninja.lattice.symbols import EPSILON
from ninja.lattice.times import is_timed, state_times

LEAST_SHARE = 0.5  # to which costs of a position add up if they are posteriors: words may have been left out
MOST_DIGITS = 17  # float64 has no more

Column = list[tuple[int, float]]  # of a position: word ids and the costs of their posteriors, as float32


def lattice_mesh(
    lattice: Lattice, acoustic_scale: float = 1.0, lm_scale: float = 1.0, frame_shift: float = losses.NATURAL_SHIFT
) -> MeshText:
    """Return a lattice as a word mesh.

    A lattice whose paths all go through the same states, as that of a mesh does, keeps its positions; one of any other
    shape is aligned by ``mbr_decode``, whose bins without a word are left out.

    Graph costs are taken for the posteriors they are in the lattice of a mesh if there are no other costs, `lm_scale`
    is 1, and the words at each position differ and add up to 0.5 to 1.01: such a mesh is read as the same lattice.
    Otherwise posteriors are those of the arcs, and those of arcs with the same word at one position are added up.

    Args:
        lattice: The lattice.
        acoustic_scale: Factor of acoustic costs; smaller flattens.
        lm_scale: Factor of graph costs.
        frame_shift: Seconds per frame of a lattice that does not say, > 0.

    Returns:
        The text, which says what it has lost. Positions that do not add up to 1 have a line for what they do.

    Raises:
        LatticeError: No path leads from the start to a final state, or the times of states contradict each other.
        OptionError: A scale is not finite, or ``frame_shift`` is not above 0.
        SymbolError: The lattice's table lacks a word id, or a mesh cannot hold a word or the key.

    Source: SRILM, wlat-format(5); lm/src/WordMesh.cc (WordMesh::write).
    """
    scales = Scales(acoustic_scale, lm_scale)
    shift = lattice.frame_shift or frame_shift
    check_frame_shift(shift)
    row = connect(to_compact(lattice))
    try:
        if not _in_a_row(row):
            network = confusion_network(mbr_decode(lattice, scales), shift, lattice.words)
            return MeshText(mesh_text(without_empty_bins(network)), [losses.PATHS])
        if not _of_posteriors(row, lm_scale):
            columns = _columns_by_posterior(row, posteriors(row, scales))
            return MeshText(_text(row, columns, shift), [losses.PATHS])
        lost = losses.structure(lattice, times=row.num_arcs > 0)
        if lattice.frame_shift not in (None, losses.NATURAL_SHIFT):
            lost.append(losses.FRAME_SHIFT)
        return MeshText(_text(row, _columns_as_they_are(row), shift), lost)
    except SymbolError as error:
        error.key = error.key or lattice.key
        raise


def _in_a_row(lattice: Lattice) -> bool:
    """Tell whether all paths of a connected lattice go through all states."""
    last = np.flatnonzero(lattice.is_final).tolist() == [lattice.num_states - 1]
    return last and bool((lattice.dst == lattice.src + 1).all())


def _of_posteriors(lattice: Lattice, lm_scale: float) -> bool:
    """Tell whether graph costs can be those of a mesh that was read."""
    others = lattice.acoustic.any() or lattice.final_graph[-1] != 0.0 or lattice.final_acoustic[-1] != 0.0
    if lm_scale != 1.0 or others:
        return False
    pairs = lattice.src.astype(np.int64) << 32 | lattice.word
    if len(np.unique(pairs)) < lattice.num_arcs:
        return False
    with np.errstate(over="ignore"):
        sums = np.bincount(lattice.src, np.exp(-lattice.graph.astype(np.float64)))
    return bool(((sums >= LEAST_SHARE) & (sums <= LARGEST_SHARE)).all())


def _columns_as_they_are(lattice: Lattice) -> list[Column]:
    arcs = list(zip(lattice.word.tolist(), lattice.graph.tolist(), strict=True))
    begin = lattice.arc_begin.tolist()
    return [arcs[begin[state] : begin[state + 1]] for state in range(lattice.num_states - 1)]


def _columns_by_posterior(lattice: Lattice, posterior: npt.NDArray[np.float64]) -> list[Column]:
    """Return the words of each position, the most probable first."""
    found: list[dict[int, float]] = [{} for _ in range(lattice.num_states - 1)]
    for place, word, share in zip(lattice.src.tolist(), lattice.word.tolist(), posterior.tolist(), strict=True):
        found[place][word] = found[place].get(word, 0.0) + share
    return [
        [
            (word, float(np.float32(0.0 - math.log(min(share, 1.0)))) if share > 0.0 else math.inf)
            for word, share in sorted(shares.items(), key=lambda entry: -entry[1])
        ]
        for shares in found
    ]


def _text(lattice: Lattice, columns: list[Column], frame_shift: float) -> str:
    """Return the lines of the positions of a lattice whose paths all go through its states."""
    table = lattice.words
    seconds: list[str] = []
    lengths: list[str] = []
    silent = False  # whether info lines of no word are needed
    if is_timed(lattice):
        time = state_times(lattice).tolist()
        seconds = [f"{frame * frame_shift:.15g}" for frame in time]
        lengths = [f"{(time[place + 1] - time[place]) * frame_shift:.15g}" for place in range(len(columns))]
        silent = not _tell(columns, time)
    lines = _head(lattice.key, len(columns))
    for place, column in enumerate(columns):
        ids = [word for word, _ in column]
        names = [
            _spelled(None if word == EPSILON else str(word) if table is None else table.word(word)) for word in ids
        ]
        shares = [_posterior(cost) for _, cost in column]
        shown = [f"{name} {share}" for name, share in zip(names, shares, strict=True)]
        lines.append(" ".join([f"align {place}", *shown]))
        total = sum(map(float, shares))
        if abs(total - 1.0) > SAME_SHARE:
            lines.append(f"posterior {place} {total:.6g}")
        if seconds:
            lines += [
                f"info {place} {name} {seconds[place]} {lengths[place]} 0 0 : :"
                for word, name in zip(ids, names, strict=True)
                if word != EPSILON or (silent and not any(ids))
            ]
    return "\n".join(lines) + "\n"


def _tell(columns: list[Column], time: list[int]) -> bool:
    """Tell whether the times of words tell those of all boundaries, as they are read."""
    frame: list[int | None] = [None] * len(time)
    for place, column in enumerate(columns):
        if any(word != EPSILON for word, _ in column):
            frame[place : place + 2] = time[place : place + 2]
    return any(known is not None for known in frame) and filled_times(frame) == time


def _posterior(cost: float) -> str:
    """Return the posterior of a cost, with the fewest digits that the cost is read back from as float32."""
    share = math.exp(-cost)
    text = "0"
    for digits in range(1, MOST_DIGITS + 1 if share else 0):
        text = f"{share:.{digits}g}"
        if float(np.float32(-math.log(float(text)))) == cost:
            break
    return text


def mesh_text(network: ConfusionNetwork) -> str:
    """Return a network as a word mesh.

    Words with known times get an ``info`` line: start, duration (seconds), then acoustic and language model scores,
    which are not known and 0, and phones, which are not known.

    Raises:
        SymbolError: A word is spelled as SRILM spells none, ``*DELETE*``, or it or the key holds a blank.

    Source: SRILM, wlat-format(5); lm/src/WordMesh.cc and NBest.cc (NBestWordInfo::write).
    """
    lines = _head(network.key, network.num_bins)
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


def without_empty_bins(network: ConfusionNetwork) -> ConfusionNetwork:
    """Return a network without the bins in which there is no word, which SRILM's meshes do not have."""
    bins = [network.bin(place) for place in range(network.num_bins)]
    kept = [entries for entries in bins if any(word is not None for word, *_ in entries)]
    return ConfusionNetwork.from_bins(network.key, kept)


def read_meshes(path: str | os.PathLike[str]) -> Iterator[ConfusionNetwork]:
    """Yield the word meshes of a file, one behind the other; gzip is unpacked.

    Posteriors are divided by the mesh's total where that is not 1. Lines on references, n-best hypotheses and
    transitions, and scores and phones of words, are passed over.

    Args:
        path: The file. A mesh without a name gets the file's, without its last ending.

    Raises:
        FormatError: A line that is none of a mesh, a position without its line, a number that is none, a last line
            that does not end.
        InputError: The file cannot be read.

    Source: SRILM, wlat-format(5); lm/src/WordMesh.cc (WordMesh::read).
    """
    name = os.fspath(path)
    content = utf8.read(name).encode()
    refuse_unended(content, name, None, b"")
    for block in blocks(content):
        mesh = Mesh(name, block[0][0])
        for line, row in block:
            mesh.take(row.decode(), line)
        key = mesh.name or os.path.splitext(os.path.basename(name))[0]
        yield ConfusionNetwork.from_bins(key, mesh.bins())


def _head(key: str, size: int) -> list[str]:
    """Return the first lines of a mesh of so many positions."""
    if key.split() != [key]:
        raise SymbolError(f"a word mesh cannot have the name {key!r}; write JSON instead", key=key)
    return [f"name {key}", f"numaligns {size}", "posterior 1"]


def _spelled(word: str | None) -> str:
    if word is None:
        return NO_WORD
    if word == NO_WORD or word.split() != [word]:
        raise SymbolError(f"a word mesh cannot hold the word {word!r}; write JSON instead")
    return word


def _number(value: float) -> str:
    return str(np.float32(value)).removesuffix(".0")  # the fewest digits that give it back
