"""Commands that determinize lattices: ``determinize-pruned``, ``determinize-phone-pruned`` and ``determinize``."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import click

from ninja import graph
from ninja.cli import options
from ninja.cli.command import Command, Sectioned
from ninja.cli.main import current_console
from ninja.cli.options import command, from_fields, lattice_output, reads, section, switch
from ninja.cli.source import reads_lattices, write
from ninja.errors import NAMED, Log, NinjaError, counted
from ninja.formats.kaldi.transition_model import read_transition_model
from ninja.graph.determinize_pruned import (
    DeterminizeBounds,
    check_beam,
    determinize_pruned_all,
    determinize_retrying,
)
from ninja.io.inputs import Inputs
from ninja.lattice import Lattice
from ninja.lattice.batch import Batch
from ninja.pipeline import Output
from ninja.pipeline.stages import call_safely

Determinize = Callable[..., Any]  # takes a lattice; returns a lattice and a `DeterminizeReport`
SIZES = ("max_arcs", "max_states", "retry_cutoff")  # options that limit the size of the result
BEAM_HELP = "Keep paths whose scaled cost is within this beam of the best path."


def determinizes(
    *, skip: Sequence[str] = (), max_loop: int | None = None, beam_help: str = BEAM_HELP
) -> Callable[[Command], Sectioned]:
    """Return a decorator that creates a command from a function that maps options to a `Determinization`.

    Args:
        skip: Fields of `DeterminizeBounds` for which no option is added.
        max_loop: Default of ``--max-loop``; None uses the default of `DeterminizeBounds`.
        beam_help: Help text of ``--beam``.
    """
    names = {field.name for field in dataclasses.fields(DeterminizeBounds)} - {*skip}

    def decorate(function: Command) -> Sectioned:
        @functools.wraps(function)
        def collected(inputs: Inputs, destination: Output, beam: float, acoustic_scale: float, **values: Any) -> None:
            check_beam(beam, acoustic_scale)
            bounds = DeterminizeBounds(**{name: values.pop(name) for name in names})
            stage = function(beam=beam, acoustic_scale=acoustic_scale, bounds=bounds, **values)
            _write(stage, inputs, destination)

        fields = section("Bounds", from_fields(DeterminizeBounds, skip=skip))
        bounds = fields(lattice_output()(reads_lattices(collected)))
        for option in vars(bounds)["__click_params__"]:
            if option.name == "max_loop" and max_loop is not None:
                option.default = max_loop
        beam = click.option("--beam", default=10.0, help=beam_help)
        return command(options.acoustic_scale(beam(bounds)))

    return decorate


ratio = click.FloatRange(0, 1, min_open=True, max_open=True)
minimize_option = switch("--minimize", False, "Push and minimize the results.")


@determinizes()
@minimize_option
def determinize_pruned(**values: Any) -> Determinization:
    """Keep the best path of each word sequence within a beam.

    State-level lattices become compact lattices. If a limit on memory or size is reached, the result is complete only
    within a smaller beam. The keys and beams of the first 20 such lattices are printed on stderr.

    \b
    Example:
      ninja determinize-pruned raw.ark.gz --acoustic-scale 0.1 --beam 6 -o lat.ark.gz
    """
    return Determinization(partial(graph.determinize_pruned, **values), partial(determinize_pruned_all, **values))


@determinizes(max_loop=-1)
@reads("--model", "Transition model (final.mdl).", required=True)
@switch("--phone-determinize", True, "Run a first pass that determinizes over phones and words.")
@switch("--word-determinize", True, "Run a final pass that determinizes over words.")
@minimize_option
def determinize_phone_pruned(
    model: str, phone_determinize: bool, word_determinize: bool, **values: Any
) -> Determinization:
    """Determinize lattices over phones and words, then over words, within a beam.

    The second pass, over words, works like `ninja determinize-pruned`. The first pass reduces the work of the second,
    so deeper lattices stay within the limits on memory and size.

    \b
    Example:
      ninja determinize-phone-pruned --model final.mdl raw.ark.gz --beam 8 -o lat.ark.gz
    """
    if not (phone_determinize or word_determinize):
        raise click.UsageError("--phone-determinize=false and --word-determinize=false cannot be used together")
    values |= {"phone_determinize": phone_determinize, "word_determinize": word_determinize}
    values["model"] = read_transition_model(model)
    return Determinization(partial(graph.determinize_phone_pruned, **values))


@determinizes(skip=SIZES, beam_help="Beam in scaled cost, used for retries and with --prune.")
@click.option("--beam-ratio", type=ratio, default=0.9, help="Factor applied to the beam on each retry.")
@click.option("--num-loops", type=click.IntRange(0), default=20, help="Maximum number of retries on pruned lattices.")
@switch("--prune", False, "Prune the results with the beam.")
def determinize(prune: bool, **values: Any) -> Determinization:
    """Keep the best path of each word sequence.

    If a limit such as --max-mem is exceeded, the lattice is pruned with a beam of --beam × --beam-ratio and
    determinized again; each further retry multiplies the beam by --beam-ratio. Lattices that stay within the limits are
    pruned only with --prune. `ninja determinize-pruned`, which prunes during determinization, is usually the better
    choice.

    \b
    Example:
      ninja determinize lat.ark.gz --acoustic-scale 0.1 -o unique.ark.gz
    """
    return Determinization(partial(determinize_retrying, prune_result=prune, **values))


class BeamNote(str):
    """A note that a lattice was determinized with a smaller beam than requested."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Determinization:
    """Batch stage that determinizes lattices, and adds a `BeamNote` for each lattice that needs a smaller beam.

    Args:
        determinize: Function that determinizes one lattice, and returns ``(result, DeterminizeReport)``.
        determinize_batch: Function that determinizes a batch in one call; it returns None if a lattice needs a smaller
            beam.
    """

    determinize: Determinize
    determinize_batch: Callable[[Batch], Batch | None] | None = None

    def apply(self, batch: Batch, log: Log) -> Batch:
        """Determinize the lattices in a batch, and note each lattice that needs a smaller beam."""
        if self.determinize_batch is not None and (determinized := self.determinize_batch(batch)) is not None:
            return determinized
        entries: list[tuple[str, Lattice | NinjaError]] = []
        for lattice in batch:
            result = call_safely(self.determinize, lattice)
            if not isinstance(result, NinjaError):
                result, report = result
                if not report.complete:
                    log.note(BeamNote(f"{lattice.key}: {report}"))
            entries.append((lattice.key, result))
        return Batch.of_entries(entries)


def _write(stage: Determinization, inputs: Inputs, destination: Output) -> NoReturn:
    """Write the lattices, print the keys of lattices that needed a smaller beam, and exit."""
    console, log = current_console(), inputs.log

    def incomplete() -> int:
        return sum(isinstance(note, BeamNote) for note in log.notes)

    def show(note: str) -> None:
        if not isinstance(note, BeamNote):
            console.note(note)
        elif incomplete() <= NAMED:
            console.say(note)

    log.on_note = show
    arcs = write(stage, inputs, destination, kind="compact").arcs
    if number := incomplete():
        console.say(
            f"{counted(number, 'lattice was', 'lattices were')} determinized with a smaller beam than requested"
        )
    console.close_counting(f", {counted(arcs, 'arc')}")
