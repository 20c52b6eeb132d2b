"""Options of the formats that lattices are written in, as ``to=`` takes them: ``slf:base=10``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from ninja.errors import OptionError
from ninja.lattice.costs import check_one_cost
from ninja.lattice.symbols import SymbolTable

CostName = Literal["total", "graph", "acoustic"]


@dataclass(frozen=True, slots=True)
class Nothing:
    """Options of a format that has none."""


@dataclass(frozen=True, slots=True)
class Slf:
    """Options of ``ninja.formats.slf_writer.write_slf``."""

    base: float | None = None  # of the logarithms; 0: probabilities; None: natural
    frame_shift: float | None = None  # seconds; None: the lattice's own, else 0.01

    def __post_init__(self) -> None:
        if self.base is not None and not (self.base == 0 or 1 <= self.base < math.inf):
            raise OptionError(f"base is {self.base}, but 0 (probabilities), 1 (natural logarithms) or more are needed")
        if self.frame_shift is not None and not 1e-6 <= self.frame_shift <= 1e6:
            raise OptionError(f"frame_shift is {self.frame_shift}, but seconds > 0 are needed")


@dataclass(frozen=True, slots=True)
class Sphinx:
    """Options of ``ninja.formats.sphinx.write_sphinx``."""

    base: float = 1.0001  # of the logarithms

    def __post_init__(self) -> None:
        if not 1 < self.base < math.inf:
            raise OptionError(f"base is {self.base}, but Sphinx takes logarithms to a base greater than 1")


@dataclass(frozen=True, slots=True)
class OneCost:
    """Which cost a format of one cost gets."""

    costs: CostName = "total"  # acoustic_scale * acoustic + graph, or one of the two as it is
    acoustic_scale: float = 1.0

    def __post_init__(self) -> None:
        finite("acoustic_scale", self.acoustic_scale)
        check_one_cost("costs", self.costs, self.acoustic_scale)


@dataclass(frozen=True, slots=True)
class Plf:
    """Options of ``ninja.formats.plf.write_plf``."""

    scores: Literal["total", "graph", "acoustic", "both"] = "total"
    acoustic_scale: float = 1.0

    def __post_init__(self) -> None:
        finite("acoustic_scale", self.acoustic_scale)
        check_one_cost("scores", self.scores, self.acoustic_scale)


@dataclass(frozen=True, slots=True)
class Fst(OneCost):
    """Options of ``ninja.formats.fst_binary.write_fst``."""

    arc_type: Literal["standard", "log", "log64"] = "standard"


@dataclass(frozen=True, slots=True)
class Openfst(Fst):
    """Options of an OpenFst file."""

    symbols: bool = False  # put the symbol table of the words into the file


@dataclass(frozen=True, slots=True)
class FstText(OneCost):
    """Options of ``ninja.formats.fst_text.write_fst_text``."""

    labels: Literal["ids", "words"] = "ids"
    acceptor: bool = False


@dataclass(frozen=True, slots=True)
class FstArchive(Fst):
    """Options of ``ninja.formats.kaldi.fst_archive.fst_entry``."""

    text: bool = False  # as in ark,t:, which a name with .txt means, too


@dataclass(frozen=True, slots=True)
class K2:
    """Options of ``ninja.formats.k2.write_k2s``."""

    extras: bool = True  # keep keys, alignments and times in an attribute that k2 carries along unread


@dataclass(frozen=True, slots=True)
class Mesh:
    """By which scales a confusion network is to be made."""

    acoustic_scale: float = 1.0
    lm_scale: float = 1.0

    def __post_init__(self) -> None:
        finite("acoustic_scale", self.acoustic_scale)
        finite("lm_scale", self.lm_scale)


@dataclass(frozen=True, slots=True)
class Lists:
    """Which hypotheses a list is to hold."""

    n: int = 100  # 0: all
    acoustic_scale: float = 1.0
    lm_scale: float = 1.0
    word_penalty: float = 0.0

    def __post_init__(self) -> None:
        if self.n < 0:
            raise OptionError(f"n is {self.n}, but a number of hypotheses is needed, or 0 for all")
        for name in ("acoustic_scale", "lm_scale", "word_penalty"):
            finite(name, getattr(self, name))


@dataclass(frozen=True, slots=True)
class Srilm(Lists):
    """Options of ``ninja.formats.nbest.write_srilm``."""

    variant: Literal["scores", "NBestList1.0", "NBestList2.0"] = "scores"


@dataclass(frozen=True, slots=True)
class Nemo(Lists):
    """Options of ``ninja.formats.nbest.write_nemo``."""

    score_as: Literal["total", "graph", "acoustic"] = "total"


@dataclass(frozen=True, slots=True)
class Asked:
    """What all lattices of an output are written by."""

    options: Any  # of the format's class
    words: SymbolTable | None
    encoding: str


def finite(name: str, value: float) -> None:
    """Refuse a number that is none.

    Raises:
        OptionError: It is infinite or not a number.
    """
    if not math.isfinite(value):
        raise OptionError(f"{name} is {value}, but must be finite")
