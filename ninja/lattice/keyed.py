"""Checks that lattices come with their keys, as ``ninja.read`` yields them, or without where these are not wanted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ninja.errors import OptionError
from ninja.lattice.lattice import Lattice

Keyed = tuple[str, Lattice]


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
