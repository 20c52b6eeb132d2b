"""``ninja show``."""

from __future__ import annotations

from typing import Any

import click

from ninja.cli.options import command, output_file, reads, scales, text_output
from ninja.cli.source import Source, reads_lattices_alone
from ninja.errors import FormatError, InputError, NinjaError, OptionError
from ninja.evaluate import read_text
from ninja.lattice import Lattice
from ninja.show import ShowOptions, draw, lattice_page

NAMED = 5  # keys that a message lists


@command
@click.option("--key", help="Key of the lattice to show.  [default: the only one]")
@reads("--ref", "Reference transcripts; the path with the fewest errors is marked.")
@click.option("--max-arcs", type=click.IntRange(1), default=5000, help="Draw at most this many arcs.")
@click.option("--frame-shift", type=float, help="Seconds of a frame, to show times in seconds.")
@scales
@output_file("Page to write, such as lattice.html")
@reads_lattices_alone
def show(source: Source, key: str | None, ref: str | None, output_file: str, **given: Any) -> None:
    """Write a page that shows a lattice as a graph, for any browser.

    The page needs no network. Time runs to the right; an arc is the darker and wider the more probable it is, and shows
    its figures when it is clicked. The best path is marked, and with --ref the oracle path, too.

    \b
    Example:
      ninja show lat.ark.gz --key utterance-7 --words words.txt --ref text --acoustic-scale 0.1 -o lattice.html
    """
    options = ShowOptions(**given)
    reference = None
    if ref is not None and source.table() is None:
        raise click.UsageError("--ref needs --words: the reference is words, the lattice only numbers")
    lattice = _chosen(source, key)
    if ref is not None:
        reference = read_text(ref).get(lattice.key)
        if reference is None:
            raise FormatError("there is no reference of this key; leave out --ref to do without", ref, key=lattice.key)
    drawing = draw(lattice, reference, options)
    with text_output(output_file) as stream:
        stream.write(lattice_page(drawing))
    if said := drawing.left_out():
        source.console.say(f"{lattice.key}: {said}")


def _chosen(source: Source, key: str | None) -> Lattice:
    """Return the lattice of a key, or the only one; with a key, failures of others are only reported."""
    seen: list[Lattice] = []

    def tolerated(failure: NinjaError) -> None:
        if failure.key == key:
            raise failure
        source.console.say(f"failed: {failure}")

    for found, lattice in source.read(source.places, None if key is None else tolerated):
        if found == key:
            return lattice
        if len(seen) <= NAMED:
            seen.append(lattice)
        elif key is None:
            break
    more = ", …" if len(seen) > NAMED else ""
    names = ", ".join(lattice.key for lattice in seen[:NAMED])
    listed = f"there are {names}{more}" if seen else "there is none at all"
    if key is not None:
        raise InputError(f"no lattice has the key {key!r}; {listed}", source.places[0])
    if not seen:
        raise InputError("there is no lattice in it", source.places[0])
    if len(seen) > 1:
        raise OptionError(f"{source.places[0]}: say with --key which lattice to show; {listed}")
    return seen[0]
