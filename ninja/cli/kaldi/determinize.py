"""``ninja determinize-pruned``, ``ninja determinize-phone-pruned`` and ``ninja determinize``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import click

from ninja import graph
from ninja.cli import options
from ninja.cli.console import NAMED_FAILURES
from ninja.cli.kaldi.options import model_option
from ninja.cli.options import Command, Destination, command, lattice_output, section, switch
from ninja.cli.places import check_places
from ninja.cli.run import write
from ninja.cli.source import Source, reads_lattices
from ninja.formats.kaldi.transition_model import read_transition_model
from ninja.graph.determinize_pruned import DeterminizeBounds, check_beam, determinize_retrying
from ninja.lattice import Lattice
from ninja.log import Log
from ninja.parallel.pipeline import Each, Keyed

Determinize = Callable[..., Any]  # a lattice → a lattice and its `DeterminizeReport`


@dataclass(frozen=True, slots=True)
class Determinizing:
    """The stage that determinizes each lattice, and notes those for which the whole beam was not reached."""

    function: Determinize

    def __call__(self, lattices: Keyed, log: Log) -> Iterator[tuple[str, Lattice]]:
        """Yield each lattice, determinized."""

        def determinized(lattice: Lattice) -> Lattice:
            result, report = self.function(lattice)
            if not report.complete:
                log.note(f"{lattice.key}: {report}")
            return result

        return Each(determinized)(lattices, log)


minimize_option = switch("--minimize", False, "Push and minimize the results.")


def bounds(*, sizes: bool = True, max_loop: int = 500_000) -> Callable[[Command], Command]:
    """Add beam, scale and bounds; with bounds of the result's size or without."""
    size_options = (
        click.option("--max-arcs", default=-1, help="Most arcs; 0 or less: no bound."),
        click.option("--max-states", default=-1, help="Most states; 0 or less: no bound."),
        click.option("--retry-cutoff", default=0.5, help="Prune and retry below this share of the beam; 0: never."),
    )

    def add(function: Command) -> Command:
        bounded = section(
            "Bounds",
            click.option("--delta", default=2.0**-10, help="Merge sets of states whose costs differ by no more."),
            click.option("--max-mem", default=50_000_000, help="Most bytes, roughly; 0 or less: no bound."),
            click.option("--max-loop", default=max_loop, help="Most chained epsilons; 0 or less: no bound."),
            *(size_options if sizes else ()),
        )
        beam = click.option("--beam", default=10.0, help="Keep what is within this scaled cost of the best path.")
        return options.acoustic_scale(beam(bounded(function)))

    return add


@command
@bounds()
@minimize_option
@lattice_output("The compact lattices")
@reads_lattices
def determinize_pruned(
    source: Source, destination: Destination, beam: float, acoustic_scale: float, minimize: bool, **bounds: Any
) -> None:
    """Keep the best path of each word sequence within a beam.

    State-level lattices become compact ones. Where a bound comes before the beam, what lies within a smaller beam is
    written, and stderr says which lattice and which beam.

    \b
    Example:
      ninja determinize-pruned raw.ark.gz --acoustic-scale 0.1 --beam 6 -o lat.ark.gz
    """
    checked = _bounds(beam, acoustic_scale, bounds)
    function = partial(
        graph.determinize_pruned,
        beam=beam,
        acoustic_scale=acoustic_scale,
        bounds=checked,
        minimize=minimize,
    )
    _write(function, source, destination)


@command
@model_option
@bounds(max_loop=-1)
@switch("--phone-determinize", True, "Determinize over phones and words first.")
@switch("--word-determinize", True, "Determinize over words in the end.")
@minimize_option
@lattice_output("The compact lattices")
@reads_lattices
def determinize_phone_pruned(
    source: Source,
    destination: Destination,
    model: str,
    beam: float,
    acoustic_scale: float,
    phone_determinize: bool,
    word_determinize: bool,
    minimize: bool,
    **bounds: Any,
) -> None:
    """Determinize phones, then words, within a beam.

    As `ninja determinize-pruned`; a first pass over phones and words lets deeper lattices through the bounds.

    \b
    Example:
      ninja determinize-phone-pruned --model final.mdl raw.ark.gz --beam 8 -o lat.ark.gz
    """
    if not (phone_determinize or word_determinize):
        raise click.UsageError("--phone-determinize=false --word-determinize=false leaves nothing to do")
    check_places([destination.output_file], [model], source)
    checked = _bounds(beam, acoustic_scale, bounds)
    function = partial(
        graph.determinize_phone_pruned,
        model=read_transition_model(model),
        beam=beam,
        acoustic_scale=acoustic_scale,
        bounds=checked,
        phone_determinize=phone_determinize,
        word_determinize=word_determinize,
        minimize=minimize,
    )
    _write(function, source, destination)


@command
@bounds(sizes=False)
@click.option(
    "--beam-ratio",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.9,
    help="Factor of the beam on each retry.",
)
@click.option("--num-loops", type=click.IntRange(0), default=20, help="Most retries on pruned lattices.")
@switch("--prune", False, "Prune the results by the beam.")
@lattice_output("The compact lattices")
@reads_lattices
def determinize(
    source: Source,
    destination: Destination,
    beam: float,
    acoustic_scale: float,
    beam_ratio: float,
    num_loops: int,
    prune: bool,
    **bounds: Any,
) -> None:
    """Keep the best path of each word sequence.

    Nothing is pruned where that is possible. A lattice too large for it is pruned by --beam times --beam-ratio and
    tried again, and so on. Mostly `ninja determinize-pruned` is what you want: it prunes while it determinizes.

    \b
    Example:
      ninja determinize lat.ark.gz --acoustic-scale 0.1 -o unique.ark.gz
    """
    function = partial(
        determinize_retrying,
        beam=beam,
        acoustic_scale=acoustic_scale,
        bounds=_bounds(beam, acoustic_scale, bounds),
        beam_ratio=beam_ratio,
        num_loops=num_loops,
        prune_result=prune,
    )
    _write(function, source, destination)


def _bounds(beam: float, acoustic_scale: float, bounds: dict[str, Any]) -> DeterminizeBounds:
    """Check the options before any lattice is read."""
    check_beam(beam, acoustic_scale)
    return DeterminizeBounds(**bounds)


def _write(function: Determinize, source: Source, destination: Destination) -> NoReturn:
    """Write all lattices, say which ones did not reach the beam, and end the command."""
    console = source.console
    log = console.log
    log.on_note = lambda note: console.say(note) if len(log.notes) <= NAMED_FAILURES else None
    arcs = write(Determinizing(function), source, destination, kind="compact")
    if log.notes:
        console.say(f"{len(log.notes)} lattices hold less than the beam asked for")
    console.close_counting(f"lattices, {arcs} arcs")
