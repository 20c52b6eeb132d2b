"""Options shared by the writers for n-best lists, and conversions of scores and words."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from ninja.errors import OptionError, SymbolError
from ninja.formats.nbest.text_rows import split
from ninja.formats.textual import encoded
from ninja.lattice import Lattice
from ninja.lattice.lattice import ListLattice, check_finite
from ninja.lattice.nbest import Hypothesis, NBest
from ninja.lattice.symbols import SymbolTable


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Options that determine the number and order of the hypotheses to write."""

    default_n: ClassVar[int] = 100  # number of hypotheses for a lattice that was not read from an n-best list

    n: int | None = (
        None  # maximum number, 0 for all  [default: 100, or all if the lattice was read from an n-best list]
    )
    acoustic_scale: float = 1.0
    lm_scale: float = 1.0
    word_penalty: float = 0.0

    def __post_init__(self) -> None:
        if self.n is not None and self.n < 0:
            raise OptionError(f"n is {self.n}, but must be 1 or more, or 0 for all hypotheses")
        for name in ("acoustic_scale", "lm_scale", "word_penalty"):
            check_finite(name, getattr(self, name))

    def most(self, lattice: Lattice) -> int:
        """Return the maximum number of hypotheses to write for a lattice; 0 for all."""
        if self.n is None:
            return max(lattice.num_hypotheses, 1) if isinstance(lattice, ListLattice) else self.default_n
        return self.n


def scaled(nbest: NBest, options: ListOptions) -> NBest:
    """Scale the graph and acoustic costs of a list, for formats that store only their sum."""
    graph, acoustic = options.lm_scale, options.acoustic_scale
    if graph == acoustic == 1.0:
        return nbest
    hypotheses = (
        replace(
            hypothesis,
            graph=tuple(graph * cost for cost in hypothesis.graph),
            acoustic=tuple(acoustic * cost for cost in hypothesis.acoustic),
        )
        for hypothesis in nbest.hypotheses
    )
    return replace(nbest, hypotheses=tuple(hypotheses))


def recoded(content: bytes, encoding: str, key: str) -> bytes:
    """Convert UTF-8 bytes to another encoding."""
    if encoding == "utf-8":
        return content
    return encoded(content.decode("utf-8", "surrogateescape"), encoding, key)


def spelled(hypothesis: Hypothesis, words: SymbolTable | None, key: str) -> list[str]:
    """Return the words of a hypothesis as strings; raise SymbolError if a word has no name or contains whitespace."""
    names = []
    for word in hypothesis.words:
        if isinstance(word, int):
            if words is None:
                raise SymbolError("the words have no names; specify their symbol table", key=key)
            word = words.word(word)
        if split(word) != [word]:
            raise SymbolError(f"{word!r} cannot be written, because words are separated by whitespace", key=key)
        names.append(word)
    return names
