"""CTM output for scoring tools: one line per word, with the word's time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ninja.consensus.decode import Consensus, check_consensus
from ninja.errors import LatticeError, OptionError
from ninja.graph.kinds import to_compact
from ninja.lattice import Lattice
from ninja.lattice.lattice import check_words, checked_shift
from ninja.lattice.symbols import EPSILON, SymbolTable

Integers = npt.NDArray[np.int32]

CHANNEL = "1"
MAX_DIGITS = 100
NO_TIMES = "the arcs have neither labels nor times, so word times are unknown; use a lattice with alignments"


def consensus_ctm(consensus: Consensus, frame_shift: float = 0.01, words: SymbolTable | None = None) -> str:
    """Format a decoded word sequence as CTM lines: key, channel 1, start, duration, word, confidence.

    Times and confidences are computed in single precision, as in Kaldi, and have two decimal places.

    Args:
        consensus: Result of ``mbr_decode``.
        frame_shift: Seconds per frame, that is, per alignment label, > 0.
        words: Symbol table; None prints word ids.

    Raises:
        LatticeError: The lattice had no times.
        OptionError: ``frame_shift`` is out of range.
        SymbolError: A word id is not in `words`.

    Source: Kaldi, latbin/lattice-to-ctm-conf.cc.
    """
    check_consensus(consensus)
    check_words(words)
    shift = np.float32(checked_shift(frame_shift))
    if not len(consensus.words):
        return ""
    if not consensus.bin_times.max() > 0:
        raise LatticeError(NO_TIMES, key=consensus.key)
    begin, end = consensus.times.T
    columns = (
        (begin * shift).tolist(),
        ((end - begin) * shift).tolist(),
        _names(consensus.words, words),
        consensus.confidences.tolist(),
    )
    line = f"{_escaped(consensus.key)} {CHANNEL} %.2f %.2f %s %.2f\n"
    return "".join([line % fields for fields in zip(*columns, strict=True)])


def path_ctm(
    lattice: Lattice,
    frame_shift: float = 0.01,
    precision: int = 2,
    words: SymbolTable | None = None,
    *,
    print_silence: bool = False,
) -> str:
    """Format a lattice with a single path as CTM lines: key, channel 1, start, duration, word.

    Args:
        lattice: A linear lattice in which each arc has the alignment labels of its word.
        frame_shift: Seconds per frame, that is, per alignment label, > 0.
        precision: Number of digits after the decimal point, 0 to 100.
        words: Symbol table; None prints word ids.
        print_silence: Also return a line for each arc without a word.

    Raises:
        LatticeError: The lattice is not a single path, or has no times.
        OptionError: ``frame_shift`` or ``precision`` is out of range.
        SymbolError: A word id is not in `words`.

    Source: Kaldi, latbin/nbest-to-ctm.cc; lat/lattice-functions.cc, CompactLatticeToWordAlignment.
    """
    check_words(words)
    shift = np.float32(checked_shift(frame_shift))
    if not 0 <= precision <= MAX_DIGITS:
        raise OptionError(f"precision is {precision}, but must be from 0 to {MAX_DIGITS}")
    lattice = to_compact(lattice)  # gives each arc all labels of its word
    next_states = np.arange(1, lattice.num_states)
    if not (
        np.array_equal(lattice.dst, next_states)
        and (np.diff(lattice.arc_begin)[:-1] == 1).all()
        and np.flatnonzero(lattice.is_final).tolist() == [lattice.num_states - 1]
    ):
        raise LatticeError("the lattice is not a single path; write its best path first (ninja 1best)", key=lattice.key)
    time = lattice.ali_begin if lattice.time is None else lattice.time
    spoken = np.arange(lattice.num_arcs) if print_silence else np.flatnonzero(lattice.word != EPSILON)
    if len(spoken) and not time[-1] > time[0]:
        raise LatticeError(NO_TIMES, key=lattice.key)
    begin, duration = time[spoken].astype(np.float32), np.diff(time)[spoken].astype(np.float32)
    columns = ((begin * shift).tolist(), (duration * shift).tolist(), _names(lattice.word[spoken], words))
    line = f"{_escaped(lattice.key)} {CHANNEL} %.{precision}f %.{precision}f %s\n"
    return "".join([line % fields for fields in zip(*columns, strict=True)])


def _names(ids: Integers, words: SymbolTable | None) -> list[str] | list[int]:
    return ids.tolist() if words is None else [words.word(number) for number in ids.tolist()]


def _escaped(key: str) -> str:
    return key.replace("%", "%%")
