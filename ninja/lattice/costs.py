"""``Scales``: the weight of each cost of a lattice."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninja.errors import OptionError
from ninja.lattice.lattice import Lattice
from ninja.lattice.symbols import EPSILON


@dataclass(frozen=True, slots=True)
class Scales:
    """Factors of the total cost of a path: ``acoustic * acoustic cost + lm * graph cost + word_penalty * words``.

    Raises:
        OptionError: A factor is not finite, or their sum is not.
    """

    acoustic: float = 1.0
    lm: float = 1.0
    word_penalty: float = 0.0

    def __post_init__(self) -> None:
        if math.isfinite(self.acoustic + self.lm + self.word_penalty):
            return
        scales = {"acoustic_scale": self.acoustic, "lm_scale": self.lm, "word_penalty": self.word_penalty}
        for name, value in scales.items():
            check_finite(name, value)
        raise OptionError(", ".join(f"{name} {value}" for name, value in scales.items()) + ": too large")

    def __str__(self) -> str:
        lm = "" if self.lm == 1.0 else f", LM scale {self.lm:g}"
        return f"acoustic scale {self.acoustic:g}{lm}, word penalty {self.word_penalty:g}"

    def of_arcs(self, lattice: Lattice) -> npt.NDArray[np.float64]:
        """Return the total cost of each arc, float64 [num_arcs]."""
        cost = self.lm * lattice.graph.astype(np.float64) + self.acoustic * lattice.acoustic.astype(np.float64)
        return cost + self.word_penalty * (lattice.word != EPSILON) if self.word_penalty else cost


def check_finite(name: str, value: float) -> None:
    """Raise OptionError unless a number is finite."""
    if not math.isfinite(value):
        raise OptionError(f"{name} is {value}, but must be finite")


def check_one_cost(name: str, costs: str, acoustic_scale: float) -> None:
    """Raise OptionError for an acoustic scale unless `costs` is "total"; other costs are written unscaled."""
    if costs != "total" and acoustic_scale != 1.0:
        message = f"{name}={costs} writes costs unscaled, so there is no acoustic_scale={acoustic_scale:g} to take; "
        raise OptionError(f"{message}leave it out, or set {name}=total")
