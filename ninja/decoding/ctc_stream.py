"""The class `CtcStream`: the growing lattice of an utterance whose CTC frames arrive in chunks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ninja.decoding.ctc import ctc_lattice
from ninja.decoding.ctc_options import CtcOptions
from ninja.decoding.emissions import log_probabilities
from ninja.decoding.lexicon import CtcLexicon
from ninja.decoding.units import CtcUnits
from ninja.errors import LatticeError, ModelError
from ninja.graph import connect, from_arcs
from ninja.lattice import Lattice
from ninja.lattice.symbols import EPSILON, SymbolTable


class CtcStream:
    """The CTC frames received so far, and the lattice of hypotheses after each chunk of frames.

    Each lattice is the result of `ctc_lattice` for all frames so far, so the search begins at the first frame. Before
    the last frame, the last word of a hypothesis can be incomplete; its arc therefore has no word.

    Args:
        key: Utterance id.
        units: Units of the model, one for each column of the output.
        lexicon: The allowed words.  [default: any word]
        options: Beams.
        words: Symbol table that must contain the words, unless it is a ``SymbolTable.growing()``, to which missing
            words are added.
        frame_shift: Duration of a frame, in seconds.
    """

    def __init__(
        self,
        key: str,
        units: CtcUnits,
        lexicon: CtcLexicon | None = None,
        options: CtcOptions | None = None,
        *,
        words: SymbolTable,
        frame_shift: float | None = None,
    ) -> None:
        self.words = words
        self._key = key
        self._units = units
        self._lexicon = lexicon
        self._options = options
        self._frame_shift = frame_shift
        self._parts: list[npt.NDArray[np.float64]] = []

    @property
    def num_units(self) -> int:
        """Number of units, which are the columns of the output."""
        return len(self._units.names)

    @property
    def num_frames(self) -> int:
        """Number of frames so far."""
        return sum(map(len, self._parts))

    def add(self, logprob: npt.ArrayLike, *, final: bool = False) -> Lattice:
        """Add frames and return the lattice for all frames so far.

        Args:
            logprob: Natural log-probabilities of all units at each new frame, [frames, units]; zero frames are allowed.
            final: Whether these are the last frames; if so, all words are complete.

        Raises:
            ModelError: `logprob` does not contain log-probabilities, or has the wrong number of columns; the frames
                are not added.
            LatticeError: There are no frames yet, or there is no hypothesis; see `ctc_lattice`.
        """
        values = log_probabilities(logprob, key=self._key)
        if values.shape[1] != self.num_units:
            message = f"the matrix has {values.shape[1]} columns, but there are {self.num_units} units"
            raise ModelError(message, key=self._key)
        self._parts.append(values)
        if not self.num_frames:
            raise LatticeError("there are no frames yet; add at least one frame", key=self._key)
        self._parts = [np.concatenate(self._parts)]
        lattice = ctc_lattice(
            self._parts[0],
            self._units,
            self._key,
            self._lexicon,
            self._options,
            words=self.words,
            frame_shift=self._frame_shift,
        )
        return lattice if final else without_last_words(lattice)


def without_last_words(lattice: Lattice) -> Lattice:
    """Replace the last word of each hypothesis in a CTC lattice with an arc without a word."""
    src, dst, end = lattice.src, lattice.dst, lattice.num_states - 1
    at_end = np.flatnonzero(dst == end)
    before = np.isin(dst, src[at_end]) & (lattice.word != EPSILON)
    last = {int(src[arc]): arc for arc in at_end.tolist()}  # the arc from a state to the end, which has no word
    words = np.flatnonzero(before)
    tails = np.array([last[state] for state in dst[words].tolist()], np.int64)
    arcs = np.setdiff1d(np.arange(lattice.num_arcs), tails)
    labels = [part.tolist() for part in np.split(lattice.ali, lattice.ali_begin[1:-1])]
    result = from_arcs(
        lattice.key,
        np.concatenate([src[arcs], src[words]]),
        np.concatenate([dst[arcs], np.full(len(words), end)]),
        np.concatenate([lattice.word[arcs], np.zeros(len(words), np.int32)]),
        np.concatenate([lattice.graph[arcs], lattice.graph[words] + lattice.graph[tails]]),
        np.concatenate([lattice.acoustic[arcs], lattice.acoustic[words] + lattice.acoustic[tails]]),
        finals={end: 0.0},
        labels=[*(labels[arc] for arc in arcs), *(labels[w] + labels[r] for w, r in zip(words, tails, strict=True))],
        frame_shift=lattice.frame_shift,
        words=lattice.words,
    )
    return connect(result)
