"""Checks that lattices come with their keys, as ``ninja.read`` yields them, or without where these are not wanted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ninja.errors import NinjaError, OptionError
from ninja.lattice.batch import Batch
from ninja.lattice.lattice import Lattice

Keyed = tuple[str, Lattice]
MOST_LATTICES = 16  # of a batch that is collected from single lattices
MOST_ARCS = 20_000  # of such a batch, unless one lattice has more


def pairs(lattices: Iterable[Keyed]) -> Iterator[Keyed]:
    """Yield ``(key, lattice)`` pairs, once it is seen that they are some.

    Raises:
        OptionError: A lattice stands where pairs are wanted, or something else does; at once if it is no iterable.
    """
    if isinstance(lattices, Lattice):
        advice = "give [(lattice.key, lattice)]"
        raise OptionError(f"lattices is a single lattice, but pairs of a key and a lattice are needed; {advice}")
    if isinstance(lattices, str | bytes) or not isinstance(lattices, Iterable):
        advice = "read a file with ninja.read"
        raise OptionError(f"lattices is {_named(lattices)}, but pairs of a key and a lattice are needed; {advice}")
    return _checked(lattices)


def bare(lattices: Iterable[Lattice]) -> Iterator[Lattice]:
    """Yield lattices, once it is seen that they are some.

    Raises:
        OptionError: A pair of a key and a lattice stands where a lattice is wanted.
    """
    for lattice in lattices:
        refuse_pair(lattice)
        yield lattice


def collect_batches(
    lattices: Iterable[Keyed], max_arcs: int = MOST_ARCS, max_lattices: int = MOST_LATTICES
) -> Iterator[Batch]:
    """Yield lattices in batches of at most so many arcs, or one larger lattice, and of at most so many lattices."""
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
    except NinjaError:  # of the source: the lattices before are sound
        if group:
            yield Batch.of(group)
        raise
    if group:
        yield Batch.of(group)


def refuse_pair(lattice: object) -> None:
    """Refuse a pair of a key and a lattice where a lattice is wanted.

    Raises:
        OptionError: It is one.
    """
    if isinstance(lattice, tuple):
        raise OptionError("a pair was given, but a lattice is needed; leave the key out, which the lattice has itself")


def _checked(lattices: Iterable[Keyed]) -> Iterator[Keyed]:
    for pair in lattices:
        if isinstance(pair, tuple) and len(pair) == 2 and hasattr(pair[1], "num_arcs"):
            yield pair
            continue
        found = _named(pair)
        if isinstance(pair, Lattice):
            found += " alone"
            advice = "give (lattice.key, lattice)"
        else:
            advice = "ninja.read yields them"
        raise OptionError(f"lattices gives {found}, but pairs of a key and a lattice are needed; {advice}")


def _named(value: object) -> str:
    """Return what a value is."""
    name = type(value).__name__
    return f"{'an' if name[:1] in 'AEIOUaeiou' else 'a'} {name}"
