"""Batches of lattices, on which an operation is one call, and their collection. A lattice is a batch of one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TypeVar

from ninja import _core
from ninja.errors import LatticeError, NinjaError, OptionError
from ninja.lattice.lattice import SLOTS, Lattice
from ninja.lattice.symbols import SymbolTable

Fault = tuple[int, NinjaError]  # number of lattices of the batch before it, and its error
Made = tuple[object, list[tuple[int, str]]]  # items, and the place and message of each lattice that failed
Keyed = tuple[str, Lattice]
MOST_LATTICES = 16  # of a batch that is collected from single lattices
MOST_ARCS = 20_000  # of such a batch, unless one lattice has more


class Batch:
    """Lattices in order, and the errors of others between them.

    ``ninja.read(source, batches=True)`` yields batches; iteration makes `Lattice` objects without copying arrays.

    Attributes:
        faults: (number of lattices before it, error) of each lattice that could not be read or processed.
        size: Bytes of the lattices in the file.
        position: Bytes of the file up to the end of the last lattice; 0 if unknown.
        words: Symbol table of the lattices without one.
    """

    __slots__ = ("_items", "_keys", "_origins", "faults", "position", "size", "words")

    def __init__(
        self,
        items: object | None,
        *,
        origins: Sequence[Lattice] = (),
        words: SymbolTable | None = None,
        faults: Sequence[Fault] = (),
        size: int = 0,
        position: int = 0,
    ) -> None:
        self._items = items  # [default: made from the lattices on first use]
        self._origins = origins
        self._keys: list[str] | None = None
        self.words = words
        self.faults = faults
        self.size = size
        self.position = position

    @classmethod
    def of(cls, lattices: Iterable[Lattice]) -> Batch:
        """Make a batch of lattices."""
        return cls(None, origins=tuple(lattices))

    @classmethod
    def of_entries(
        cls, entries: Iterable[tuple[str, Lattice | NinjaError]], *, size: int = 0, position: int = 0
    ) -> Batch:
        """Make a batch of lattices and errors with their keys."""
        lattices: list[Lattice] = []
        faults: list[Fault] = []
        for key, lattice in entries:
            if isinstance(lattice, NinjaError):
                faults.append((len(lattices), lattice))
            else:
                lattices.append(lattice if lattice.key == key else lattice.with_key(key))
        return cls(None, origins=lattices, faults=faults, size=size, position=position)

    @property
    def items(self) -> object:
        """The lattices as kernels take them.

        Raises:
            LatticeError: The arrays of a lattice do not fit together.
        """
        if self._items is None:
            self._items = _core.gathered(self._origins)
        return self._items

    @property
    def is_plain(self) -> bool:
        """Whether the lattices come from Kaldi files, which have no times and no other fields."""
        return not self._origins

    @property
    def table(self) -> SymbolTable | None:
        """Symbol table of all lattices.

        Raises:
            LatticeError: They have different tables.
        """
        tables = {id(lattice.words): lattice.words for lattice in self._origins} or {0: self.words}
        if len(tables) > 1:
            raise LatticeError("lattices of several symbol tables; take them one by one", key=self.keys[0])
        return next(iter(tables.values()))

    @property
    def is_compact(self) -> bool:
        """Whether all lattices are compact."""
        if self._items is None:
            return all(lattice.kind == "compact" for lattice in self._origins)
        return _core.all_compact(self._items)

    @property
    def num_arcs(self) -> int:
        """Number of arcs of all lattices."""
        if self._items is None:
            return sum(lattice.num_arcs for lattice in self._origins)
        return _core.arcs_in(self._items)

    @property
    def keys(self) -> list[str]:
        """Keys of the lattices."""
        if self._keys is None:
            self._keys = [lattice.key for lattice in self._origins] if self._items is None else _core.keys(self._items)
        return self._keys

    def __len__(self) -> int:
        """Return the number of lattices."""
        return len(self._origins) if self._items is None else _core.count(self._items)

    def __getitem__(self, number: int) -> Lattice:
        """Return a lattice by its place."""
        if self._items is None:
            return self._origins[number]
        return _core.lattice_at(self._items, number, object.__new__(Lattice), SLOTS, self.words, self._origins)

    def __iter__(self) -> Iterator[Lattice]:
        """Yield the lattices."""
        if self._items is None:
            yield from self._origins
            return
        for number in range(len(self)):
            yield self[number]

    def entries(self) -> Iterator[tuple[str, Lattice | NinjaError]]:
        """Yield each key with its lattice or its error, in order."""
        faults = list(self.faults)
        for number, lattice in enumerate(self):
            while faults and faults[0][0] <= number:
                error = faults.pop(0)[1]
                yield error.key or "", error
            yield lattice.key, lattice
        for _, error in faults:
            yield error.key or "", error

    def map(self, function: Callable[[Lattice], Lattice]) -> Batch:
        """Apply a function to each lattice; faults are kept."""
        return Batch(
            None, origins=tuple(map(function, self)), faults=self.faults, size=self.size, position=self.position
        )

    def first(self, number: int) -> Batch:
        """Return the first lattices, without faults."""
        return Batch.of([self[place] for place in range(number)])

    def without(self, places: Collection[int]) -> Batch:
        """Return the lattices except those at some places, without faults."""
        return Batch.of([lattice for place, lattice in enumerate(self) if place not in places])

    def without_faults(self) -> Batch:
        """Return the batch without its faults."""
        if not self.faults:
            return self
        batch = self.like(self._items)
        batch.faults = ()
        return batch

    def made(self, made: Made, *, several: bool = False) -> Batch:
        """Return the batch of the result of a kernel for these items; failed lattices become faults.

        Args:
            made: Result of the kernel.
            several: The kernel makes any number of lattices from one, with other keys; faults come before them.
        """
        items, failures = made
        errors = [(place, LatticeError(message, key=self.keys[place])) for place, message in failures]
        if several:
            return self._with(items, [(0, error) for _, error in [*self.faults, *errors]])
        batch = self._with(items, self.faults)
        if not errors:
            batch._keys = self._keys
            return batch
        faults = [(before, 0, error) for before, error in self.faults]
        faults += [(place, 1, error) for place, error in errors]
        lost = 0
        moved: list[Fault] = []
        for place, failed, error in sorted(faults, key=lambda fault: fault[:2]):
            moved.append((place - lost, error))
            lost += failed
        batch.faults = moved
        return batch

    def like(self, items: object) -> Batch:
        """Return the batch of new arrays of the same lattices, made by a kernel."""
        batch = self._with(items, self.faults)
        batch._keys = self._keys
        return batch

    def _with(self, items: object | None, faults: Sequence[Fault]) -> Batch:
        return Batch(
            items, origins=self._origins, words=self.words, faults=faults, size=self.size, position=self.position
        )


Lattices = TypeVar("Lattices", Lattice, Batch)  # of operations that return the type of their argument


def as_batch(lattices: Lattice | Batch) -> Batch:
    """Return a batch, or the batch of one lattice."""
    return lattices if isinstance(lattices, Batch) else Batch.of([lattices])


def pairs(lattices: Iterable[Keyed]) -> Iterator[Keyed]:
    """Check and yield ``(key, lattice)`` pairs.

    Raises:
        OptionError: An item is no pair of a key and a lattice; raised at once if the argument is no iterable.
    """
    if isinstance(lattices, Lattice):
        advice = "give [(lattice.key, lattice)]"
        raise OptionError(f"lattices is a single lattice, but pairs of a key and a lattice are needed; {advice}")
    if isinstance(lattices, str | bytes) or not isinstance(lattices, Iterable):
        advice = "read a file with ninja.read"
        raise OptionError(f"lattices is {_named(lattices)}, but pairs of a key and a lattice are needed; {advice}")
    return _checked(lattices)


def bare(lattices: Iterable[Lattice]) -> Iterator[Lattice]:
    """Check and yield lattices.

    Raises:
        OptionError: An item is a pair of a key and a lattice.
    """
    for lattice in lattices:
        refuse_pair(lattice)
        yield lattice


def collect_batches(
    lattices: Iterable[Keyed], max_arcs: int = MOST_ARCS, max_lattices: int = MOST_LATTICES
) -> Iterator[Batch]:
    """Yield lattices in batches of at most `max_arcs` arcs, or one larger lattice, and `max_lattices` lattices."""
    group: list[Lattice] = []
    arcs = 0
    try:
        for key, lattice in lattices:
            if lattice.key != key:
                lattice = lattice.with_key(key)
            if group and (arcs + lattice.num_arcs > max_arcs or len(group) == max_lattices):
                yield Batch.of(group)
                group, arcs = [], 0
            group.append(lattice)
            arcs += lattice.num_arcs
    except NinjaError:  # from the source: the lattices before it are sound
        if group:
            yield Batch.of(group)
        raise
    if group:
        yield Batch.of(group)


def refuse_pair(lattice: object) -> None:
    """Raise OptionError for a pair of a key and a lattice."""
    if isinstance(lattice, tuple):
        raise OptionError(
            "expected a lattice, but got a (key, lattice) pair; pass only the lattice, which contains its key"
        )


def _checked(lattices: Iterable[Keyed]) -> Iterator[Keyed]:
    for pair in lattices:
        if isinstance(pair, tuple) and len(pair) == 2 and hasattr(pair[1], "num_arcs"):
            yield pair
            continue
        item = _named(pair)
        if isinstance(pair, Lattice):
            item += " alone"
            advice = "give (lattice.key, lattice)"
        else:
            advice = "ninja.read yields them"
        raise OptionError(f"lattices gives {item}, but pairs of a key and a lattice are needed; {advice}")


def _named(value: object) -> str:
    """Return the type of a value with its article."""
    name = type(value).__name__
    return f"{'an' if name[:1] in 'AEIOUaeiou' else 'a'} {name}"
