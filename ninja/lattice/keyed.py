"""Check that iterables have lattices with keys, as ``ninja.read`` yields them, or without keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ninja.errors import NinjaError, OptionError
from ninja.lattice.batch import Batch
from ninja.lattice.lattice import Lattice

Keyed = tuple[str, Lattice]
MOST_LATTICES = 16  # of a batch that is collected from single lattices
MOST_ARCS = 20_000  # of such a batch, unless one lattice has more


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
        raise OptionError("a pair was given, but a lattice is needed; leave the key out, as the lattice has it")


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
