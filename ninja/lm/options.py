"""Options with which a language model is opened."""

from __future__ import annotations

from dataclasses import dataclass

from ninja.lattice.symbols import SymbolTable


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How a language model computes, see `ninja.lm.load`; options that a kind of model has no use for are ignored."""

    device: str = "cpu"
    normalize: bool | None = None  # None: as the kind of model is meant to be used
    max_batch: int | None = None
    words: SymbolTable | None = None  # of a file that numbers its words; None: found in it or beside it

    @property
    def normalized(self) -> bool:
        """Whether a model that is meant to be normalised is to be."""
        return self.normalize is not False
