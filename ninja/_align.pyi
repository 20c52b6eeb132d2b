"""Types of the compiled alignment of lattices."""

from typing import Literal

from ninja._core import Int32, Int64, UInt32
from ninja.lattice import Lattice
from ninja.lattice.batch import Lattices

def align(
    lattices: Lattices,
    known: UInt32,
    by_phone: bool,
    reorder: bool,
    silence_word: int,
    max_states: int,
    max_labels: int,
) -> Lattices | Literal[False] | None: ...
def align_generally(
    lattice: Lattice,
    known: UInt32,
    by_phone: bool,
    phones_as_words: bool,
    reorder: bool,
    silence_word: int,
    partial_word: int,
    expansion: int,
    max_states: int,
    max_labels: int,
    *,
    epsilons: bool = False,
) -> tuple[Lattice, int] | None: ...
def find_unknown_label(labels: Int32, known: UInt32) -> int: ...

class Lexicon:
    def __init__(self, entries: Int32, begin: Int64) -> None: ...

def align_by_lexicon(
    lattice: Lattice,
    known: UInt32,
    lexicon: Lexicon,
    no_word: int,
    partial_word: int,
    expansion: int,
    max_states: int,
    max_labels: int,
) -> tuple[Lattice, int, int] | None: ...
