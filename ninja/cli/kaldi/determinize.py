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
from ninja.cli.console import current_console
from ninja.cli.options import Command, Sectioned, command, from_fields, lattice_output, reads, section, switch
from ninja.cli.run import write
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

Determinize = Callable[..., Any]  # a lattice → a lattice and its `DeterminizeReport`
SIZES = ("max_arcs", "max_states", "retry_cutoff")  # bounds of the result's size


def determinizes(*, skip: Sequence[str] = (), max_loop: int | None = None) -> Callable[[Command], Sectioned]:
    """Make a command of a function that returns, given the options, the stage for the lattices.

    ``skip`` are bounds without an option; ``max_loop`` is another default.
    """
    names = {field.name for field in dataclasses.fields(DeterminizeBounds)} - {*skip}

    def decorate(function: Command) -> Sectioned:
        @functools.wraps(function)
        def collected(inputs: Inputs, destination: Output, beam: float, acoustic_scale: float, **given: Any) -> None:
            check_beam(beam, acoustic_scale)
            bounds = DeterminizeBounds(**{name: given.pop(name) for name in names})
            stage = function(beam=beam, acoustic_scale=acoustic_scale, bounds=bounds, **given)
            _write(stage, inputs, destination)

        fields = section("Bounds", from_fields(DeterminizeBounds, skip=skip))
        bounds = fields(lattice_output()(reads_lattices(collected)))
        for each in vars(bounds)["__click_params__"]:
            if each.name == "max_loop" and max_loop is not None:
                each.default = max_loop
        beam = click.option("--beam", default=10.0, help="Keep what is within this scaled cost of the best path.")
        return command(options.acoustic_scale(beam(bounds)))

    return decorate


ratio = click.FloatRange(0, 1, min_open=True, max_open=True)
minimize_option = switch("--minimize", False, "Push and minimize the results.")


@determinizes()
@minimize_option
def determinize_pruned(**given: Any) -> Determinization:
    """Keep the best path of each word sequence within a beam.

    State-level lattices become compact ones. Where a bound comes before the beam, what lies within a smaller beam is
    written, and stderr says which lattice and which beam.

    \b
    Example:
      ninja determinize-pruned raw.ark.gz --acoustic-scale 0.1 --beam 6 -o lat.ark.gz
    """
    return Determinization(partial(graph.determinize_pruned, **given), partial(determinize_pruned_all, **given))


@determinizes(max_loop=-1)
@reads("--model", "Transition model (final.mdl).", required=True)
@switch("--phone-determinize", True, "Determinize over phones and words first.")
@switch("--word-determinize", True, "Determinize over words in the end.")
@minimize_option
def determinize_phone_pruned(
    model: str, phone_determinize: bool, word_determinize: bool, **given: Any
) -> Determinization:
    """Determinize phones, then words, within a beam.

    As `ninja determinize-pruned`; a first pass over phones and words lets deeper lattices through the bounds.

    \b
    Example:
      ninja determinize-phone-pruned --model final.mdl raw.ark.gz --beam 8 -o lat.ark.gz
    """
    if not (phone_determinize or word_determinize):
        raise click.UsageError("--phone-determinize=false --word-determinize=false leaves nothing to do")
    given |= {"phone_determinize": phone_determinize, "word_determinize": word_determinize}
    given["model"] = read_transition_model(model)
    return Determinization(partial(graph.determinize_phone_pruned, **given))


@determinizes(skip=SIZES)
@click.option("--beam-ratio", type=ratio, default=0.9, help="Factor of the beam on each retry.")
@click.option("--num-loops", type=click.IntRange(0), default=20, help="Most retries on pruned lattices.")
@switch("--prune", False, "Prune the results by the beam.")
def determinize(prune: bool, **given: Any) -> Determinization:
    """Keep the best path of each word sequence.

    Nothing is pruned where that is possible. A lattice too large for it is pruned by --beam times --beam-ratio and
    tried again, and so on. Mostly `ninja determinize-pruned` is what you want: it prunes while it determinizes.

    \b
    Example:
      ninja determinize lat.ark.gz --acoustic-scale 0.1 -o unique.ark.gz
    """
    return Determinization(partial(determinize_retrying, prune_result=prune, **given))


class BeamNote(str):
    """Note of a lattice that holds less than the requested beam."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Determinization:
    """The batch stage that determinizes lattices and notes those for which the whole beam was not reached.

    Args:
        function: Determinizes one lattice.
        whole: Determinizes a batch in one call; returns None if a lattice does not reach the beam.
    """

    function: Determinize
    whole: Callable[[Batch], Batch | None] | None = None

    def apply(self, batch: Batch, log: Log) -> Batch:
        """Determinize a batch."""
        if self.whole is not None and (determinized := self.whole(batch)) is not None:
            return determinized
        entries: list[tuple[str, Lattice | NinjaError]] = []
        for lattice in batch:
            result = call_safely(self.function, lattice)
            if not isinstance(result, NinjaError):
                result, report = result
                if not report.complete:
                    log.note(BeamNote(f"{lattice.key}: {report}"))
            entries.append((lattice.key, result))
        return Batch.of_entries(entries)


def _write(stage: Determinization, inputs: Inputs, destination: Output) -> NoReturn:
    """Write all lattices, report those that did not reach the beam, and end the command."""
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
        console.say(f"{number} lattices hold less than the requested beam")
    console.close_counting(f"lattices, {arcs} arcs")
