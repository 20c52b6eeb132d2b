"""``ninja show``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ninja.cli.options import output_file, scales, text_output
from ninja.cli.reading import Reading, opened, reading_options
from ninja.errors import FormatError, InputError, NinjaError, OptionError

if TYPE_CHECKING:
    from ninja.lattice import Lattice

NAMED = 5  # keys that a message lists


@click.command()
@click.argument("source", nargs=-1, required=True)
@click.option("--key", help="Which lattice to show.  [default: the only one]")
@click.option("--ref", metavar="FILE", help="Text with what was said; the path nearest to it is marked.")
@click.option(
    "--max-arcs",
    type=click.IntRange(1),
    default=5000,
    show_default=True,
    help="Draw at most this many arcs, the best ones; the page says what is left out.",
)
@click.option("--frame-shift", type=float, help="Seconds of a frame, to show times in seconds.")
@scales
@reading_options()
@output_file("Page to write, such as lattice.html")
def show(
    source: tuple[str, ...],
    key: str | None,
    ref: str | None,
    max_arcs: int,
    frame_shift: float | None,
    acoustic_scale: float,
    lm_scale: float,
    word_penalty: float,
    output_file: str,
    **how: Any,
) -> None:
    """Write a page that shows a lattice as a graph, for any browser.

    The page needs no network. Time runs to the right; an arc is the darker and wider the more probable it is, and shows
    its figures when it is clicked. The best path is marked, and with --ref the oracle path, too.

    \b
    Example:
      ninja show lat.ark.gz --key utterance-7 --words words.txt --ref text --acoustic-scale 0.1 -o lattice.html
    """
    from ninja.show import ShowOptions, draw, lattice_page

    options = ShowOptions(acoustic_scale, lm_scale, word_penalty, max_arcs, frame_shift)
    reference = None
    reading, _ = opened(source, how)
    if ref is not None and reading.table() is None:
        raise click.UsageError("--ref needs --words: the reference is words, the lattice only numbers")
    lattice = _only(reading) if key is None else _named(reading, key)
    if ref is not None:
        from ninja.evaluate import read_text

        reference = read_text(ref).get(lattice.key)
        if reference is None:
            raise FormatError("there is no reference of this key; leave out --ref to do without", ref, key=lattice.key)
    drawing = draw(lattice, reference, options)
    with text_output(output_file) as stream:
        stream.write(lattice_page(drawing))
    if said := drawing.left_out():
        reading.say(f"{lattice.key}: {said}")


def _named(reading: Reading, key: str) -> Lattice:
    """Return the lattice of a key; what is wrong with others is said, and no more."""
    seen: list[str] = []

    def tolerated(failure: NinjaError) -> None:
        if failure.key == key:
            raise failure
        reading.say(f"failed: {failure}")

    for found, lattice in reading.read(reading.source, tolerated):
        if found == key:
            return lattice
        seen.append(found)
    raise InputError(f"no lattice has the key {key!r}; {_listed(seen)}", reading.source[0])


def _only(reading: Reading) -> Lattice:
    """Return the lattice of a source that holds just one."""
    found: list[Lattice] = []
    for _, lattice in reading.read(reading.source, None):
        found.append(lattice)
        if len(found) > NAMED:
            break
    if not found:
        raise InputError("there is no lattice in it", reading.source[0])
    if len(found) > 1:
        keys = [lattice.key for lattice in found]
        raise OptionError(f"{reading.source[0]}: say with --key which lattice to show; {_listed(keys)}")
    return found[0]


def _listed(keys: list[str]) -> str:
    more = ", …" if len(keys) > NAMED else ""
    return f"there are {', '.join(keys[:NAMED])}{more}" if keys else "there is none at all"
