"""Options with which a language model is opened."""

from __future__ import annotations

from dataclasses import dataclass

from ninja.errors import OptionError
from ninja.lattice.symbols import SymbolTable


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Options of computing with a language model; a kind of model ignores those it does not have."""

    device: str = "cpu"  # where torch computes, such as "cuda"
    normalize: bool | None = None  # normalise scores exactly; None: as the kind of model is meant to be used
    max_batch: int | None = None  # most histories that a network sees at once; None: as many as a call brings
    words: SymbolTable | None = None  # of a file that numbers its words; None: found in it or beside it

    def __post_init__(self) -> None:
        if self.max_batch is not None and self.max_batch < 1:
            raise OptionError(f"max_batch is {self.max_batch}; it must be at least 1, or None")

    @property
    def normalized(self) -> bool:
        """True unless normalisation was switched off."""
        return self.normalize is not False


DEFAULTS = LoadOptions()
