"""``ninja determinize-pruned``, ``ninja determinize-phone-pruned`` and ``ninja determinize``."""

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
from ninja.cli.console import current_console, write
from ninja.cli.options import Command, Sectioned, command, from_fields, lattice_output, reads, section, switch
from ninja.cli.source import reads_lattices
from ninja.errors import NAMED, NinjaError
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
from ninja.log import Log
from ninja.pipeline import Output
from ninja.pipeline.stages import call_safely

Determinize = Callable[..., Any]  # from a lattice to a lattice and its `DeterminizeReport`
SIZES = ("max_arcs", "max_states", "retry_cutoff")  # bounds of the size of the result


def determinizes(*, skip: Sequence[str] = (), max_loop: int | None = None) -> Callable[[Command], Sectioned]:
    """Make a command of a function that returns the stage, given the options.

    Args:
        skip: Bounds that are no options of the command.
        max_loop: Default of ``--max-loop`` if it is another than that of `DeterminizeBounds`.
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
        beam = click.option("--beam", default=10.0, help="Keep paths within this scaled cost of the best one.")
        return command(options.acoustic_scale(beam(bounds)))

    return decorate


ratio = click.FloatRange(0, 1, min_open=True, max_open=True)
minimize_option = switch("--minimize", False, "Push and minimize the results.")


@determinizes()
@minimize_option
def determinize_pruned(**values: Any) -> Determinization:
    """Keep the best path of each word sequence within a beam.

    State-level lattices become compact. If a bound is reached before the beam, the lattice is written with a smaller
    beam, and its key and that beam are printed on stderr.

    \b
    Example:
      ninja determinize-pruned raw.ark.gz --acoustic-scale 0.1 --beam 6 -o lat.ark.gz
    """
    return Determinization(partial(graph.determinize_pruned, **values), partial(determinize_pruned_all, **values))


@determinizes(max_loop=-1)
@reads("--model", "Transition model (final.mdl).", required=True)
@switch("--phone-determinize", True, "First determinize over phones and words.")
@switch("--word-determinize", True, "Finally determinize over words.")
@minimize_option
def determinize_phone_pruned(
    model: str, phone_determinize: bool, word_determinize: bool, **values: Any
) -> Determinization:
    """Determinize phones, then words, within a beam.

    Like `ninja determinize-pruned`; a first pass over phones and words keeps deeper lattices within the bounds.

    \b
    Example:
      ninja determinize-phone-pruned --model final.mdl raw.ark.gz --beam 8 -o lat.ark.gz
    """
    if not (phone_determinize or word_determinize):
        raise click.UsageError("--phone-determinize=false and --word-determinize=false cannot be used together")
    values |= {"phone_determinize": phone_determinize, "word_determinize": word_determinize}
    values["model"] = read_transition_model(model)
    return Determinization(partial(graph.determinize_phone_pruned, **values))


@determinizes(skip=SIZES)
@click.option("--beam-ratio", type=ratio, default=0.9, help="Factor of the beam on each retry.")
@click.option("--num-loops", type=click.IntRange(0), default=20, help="Maximum number of retries on pruned lattices.")
@switch("--prune", False, "Prune the results with the beam.")
def determinize(prune: bool, **values: Any) -> Determinization:
    """Keep the best path of each word sequence.

    A lattice that exceeds a bound is pruned with --beam times --beam-ratio and determinized again, and so on; others
    are not pruned. `ninja determinize-pruned`, which prunes during determinization, is usually the better choice.

    \b
    Example:
      ninja determinize lat.ark.gz --acoustic-scale 0.1 -o unique.ark.gz
    """
    return Determinization(partial(determinize_retrying, prune_result=prune, **values))


class BeamNote(str):
    """Note of a lattice that was determinized with a smaller beam than requested."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Determinization:
    """The batch stage that determinizes lattices and notes those that do not reach the requested beam.

    Args:
        determinize: Determinizes one lattice.
        determinize_batch: Determinizes a batch in one call; returns None if a lattice does not reach the beam.
    """

    determinize: Determinize
    determinize_batch: Callable[[Batch], Batch | None] | None = None

    def apply(self, batch: Batch, log: Log) -> Batch:
        """Determinize a batch."""
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
    """Write the lattices, report those that did not reach the beam, and end the command."""
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
        console.say(f"{number} lattices have a smaller beam than requested")
    console.close_counting(f"lattices, {arcs} arcs")
