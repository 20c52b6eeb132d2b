"""`CtcStream`: the lattice of an utterance whose CTC frames arrive in parts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ninja.decoding.ctc import ctc_lattice
from ninja.decoding.ctc_options import CtcOptions
from ninja.decoding.emissions import log_probabilities
from ninja.decoding.lexicon import CtcLexicon
from ninja.decoding.units import CtcUnits
from ninja.errors import LatticeError, ModelError
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable


class CtcStream:
    """Frames of a CTC model, and the lattice of their hypotheses after each part.

    Each lattice is that of `ctc_lattice` for all frames so far; the search begins at the first frame.

    Args:
        key: Utterance id.
        units: Units of the columns.
        lexicon: The allowed words.  [default: any word]
        options: Beams.
        words: Symbol table, which must contain the words or grow.
        frame_shift: Seconds per frame.
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
    def num_frames(self) -> int:
        """Number of frames so far."""
        return sum(map(len, self._parts))

    def add(self, logprob: npt.ArrayLike) -> Lattice:
        """Add frames, and return the lattice of all frames so far.

        Args:
            logprob: Natural log-probabilities of all units at each new frame, [frames, units]; may have no frames.

        Raises:
            ModelError: `logprob` does not contain log-probabilities, or not one per unit; the frames are not added.
            LatticeError: There are no frames yet, or the lexicon allows no hypothesis.
        """
        values = log_probabilities(logprob, key=self._key)
        if values.shape[1] != len(self._units.names):
            message = f"the matrix has {values.shape[1]} columns, but there are {len(self._units.names)} units"
            raise ModelError(message, key=self._key)
        self._parts.append(values)
        if not self.num_frames:
            raise LatticeError("there are no frames yet", key=self._key)
        self._parts = [np.concatenate(self._parts)]
        return ctc_lattice(
            self._parts[0],
            self._units,
            self._key,
            self._lexicon,
            self._options,
            words=self.words,
            frame_shift=self._frame_shift,
        )
