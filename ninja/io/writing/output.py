"""``Output``: what every format's writer offers, and what it looks after before anything is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Literal, TypeVar

from ninja.errors import LatticeError, OptionError, OutputError, SymbolError
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.word_ids import agree

if TYPE_CHECKING:
    from ninja.lattice.nbest import NBest

    Item = Lattice | NBest | str

Lossy = Literal["allow", "refuse"]
Self = TypeVar("Self", bound="Output")

MAKERS = {
    "lattice": "lattices; make one of an n-best list with ninja.graph.nbest_lattice",
    "nbest": "n-best lists; make one of a lattice with ninja.graph.lattice_nbest",
    "mesh": "the text of confusion networks; make it of a lattice with ninja.consensus.lattice_mesh, of a network with "
    "ninja.consensus.mesh_text",
}


@dataclass(frozen=True, slots=True)
class Wants:
    """What an output takes, and by which scales it is to be made of a lattice."""

    kind: Literal["lattice", "nbest", "mesh"] = "lattice"
    n: int = 0  # hypotheses of a list; 0: all paths
    acoustic_scale: float = 1.0
    lm_scale: float = 1.0
    word_penalty: float = 0.0


class Output:
    """Lattices being written; use it in a ``with`` block.

    Files appear when the block is left without an exception, or not at all. An error that has a ``key`` is about that
    lattice only; nothing of it is written, and others can be. Any other error is the end of the output.
    """

    def __init__(
        self,
        name: str,
        form: str,
        wants: Wants = Wants(),
        *,
        lossy: Lossy = "allow",
        words: SymbolTable | None = None,
        needs_words: bool = False,
        one_table: bool = False,
    ) -> None:
        if lossy not in ("allow", "refuse"):
            raise OptionError(f"lossy is {lossy!r}, but must be allow or refuse")
        self.name = name
        self.wants = wants
        self.keys_done: Counter[str] = Counter()  # how often keys stand in the output already, with `resume`
        self.lost: Counter[str] = Counter()  # what was lost, and from how many lattices
        self.needs_words = needs_words  # ids are written: the names of words live outside the file
        self._form = form
        self._refuses = lossy == "refuse"
        self._words = words
        self._names = Names(words, shared=one_table or needs_words)
        self._is_open = False

    def __enter__(self: Self) -> Self:
        self._open()
        self._is_open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_open = False
        if error is not None:
            self._abandon()
            return
        try:
            self._finish()
        except BaseException:
            self._abandon()
            raise

    def write(self, item: Item, *, key: str | None = None) -> None:
        """Append a lattice, an n-best list or the text of a word mesh, whichever ``wants`` says.

        Args:
            item: What is written.
            key: Utterance id; None: its own.

        Raises:
            LatticeError: The format cannot hold it, or it would lose something and nothing may be lost.
            SymbolError: A word has no name, one that the format cannot hold, or another than the lattices before.
            OptionError: It is of another kind than ``wants``.
            OutputError: It cannot be written: the disk is full, for example, or a file of one lattice has one.
        """
        raise NotImplementedError

    def _open(self) -> None:
        raise NotImplementedError

    def _finish(self) -> None:
        """Give the files their names."""
        raise NotImplementedError

    def _abandon(self) -> None:
        """Leave nothing behind; this may be called after ``_finish`` failed."""
        raise NotImplementedError

    def _check_open(self) -> None:
        if not self._is_open:
            raise OutputError("the writer is not open; use it in a with block", self.name)

    def _refuse_kind(self) -> OptionError:
        return OptionError(f"{self._form} holds {MAKERS[self.wants.kind]}")

    def _check_loss(self, lost: Sequence[str], key: str) -> None:
        """Refuse to lose anything, where that is asked for."""
        if lost and self._refuses:
            message = f"{self._form} would lose: {', '.join(lost)}; allow it with lossy='allow' (--lossy allow)"
            raise LatticeError(message, key=key)


class Names:
    """The symbol tables of the lattices of an output, which must not give an id two names.

    Args:
        words: The table that was given for all; None: none.
        shared: The output holds ids of one table: that of the first lattice where none was given.
    """

    def __init__(self, words: SymbolTable | None, *, shared: bool) -> None:
        self.words = words
        self._given = words is not None
        self._shared = shared
        self._settled = self._given

    def check(self, lattice: Lattice, key: str) -> None:
        """Refuse a lattice whose words have other names.

        Raises:
            SymbolError: They have.
        """
        own = lattice.words
        if own is self.words or not self._settled or (own is None and self._given):
            return
        if own is None or self.words is None or not agree(own, self.words, lattice):
            before = "the one that was given" if self._given else "that of the lattices before"
            message = f"its symbol table gives its words other names than {before}; read all with one table: words= "
            raise SymbolError(message + "(--words), for one what ninja.vocabulary(source) finds", key=key)

    def take(self, lattice: Lattice) -> None:
        """Note that a lattice was written."""
        if self._shared and not self._settled:
            self.words, self._settled = lattice.words, True


def checked_key(key: str) -> str:
    """Return a key that a format can hold which parts it from what follows by a blank.

    Raises:
        LatticeError: It cannot.
    """
    if not key or key.split() != [key]:
        raise LatticeError(f"the key {key!r} is empty or holds a blank; give the lattice another", key=key)
    return key
