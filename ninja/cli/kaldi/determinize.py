"""``ninja determinize-pruned``, ``ninja determinize-phone-pruned`` and ``ninja determinize``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from ninja.cli.options import lattice_output, resume
from ninja.cli.places import check_places
from ninja.cli.reading import NAMED_FAILURES, Reading, reads_lattices
from ninja.cli.switches import switch
from ninja.lattice import Lattice
from ninja.log import Log
from ninja.parallel.pipeline import Each, Keyed

if TYPE_CHECKING:
    from ninja.graph.determinize_pruned import DeterminizeBounds, DeterminizeReport
    from ninja.lattice.transition_model import TransitionModel

Command = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Words:
    """Determinization over words, within a beam."""

    beam: float
    acoustic_scale: float
    bounds: DeterminizeBounds
    minimize: bool

    def __call__(self, lattice: Lattice) -> tuple[Lattice, DeterminizeReport]:
        """Determinize a lattice."""
        from ninja.graph.determinize_pruned import determinize_pruned

        return determinize_pruned(
            lattice, self.beam, self.acoustic_scale, self.bounds, minimize=self.minimize, return_report=True
        )


@dataclass(frozen=True, slots=True)
class Phones:
    """Determinization over phones and words, then over words."""

    model: TransitionModel
    beam: float
    acoustic_scale: float
    bounds: DeterminizeBounds
    phone_determinize: bool
    word_determinize: bool
    minimize: bool

    def __call__(self, lattice: Lattice) -> tuple[Lattice, DeterminizeReport]:
        """Determinize a lattice."""
        from ninja.graph.determinize_pruned import determinize_phone_pruned

        return determinize_phone_pruned(
            lattice,
            self.model,
            self.beam,
            self.acoustic_scale,
            self.bounds,
            phone_determinize=self.phone_determinize,
            word_determinize=self.word_determinize,
            minimize=self.minimize,
            return_report=True,
        )


@dataclass(frozen=True, slots=True)
class Whole:
    """Determinization without a beam, tried again on pruned lattices."""

    beam: float
    acoustic_scale: float
    bounds: DeterminizeBounds
    beam_ratio: float
    num_loops: int
    prune: bool

    def __call__(self, lattice: Lattice) -> tuple[Lattice, DeterminizeReport]:
        """Determinize a lattice."""
        from ninja.graph.determinize_pruned import determinize_retrying

        return determinize_retrying(
            lattice,
            self.beam,
            self.acoustic_scale,
            self.bounds,
            beam_ratio=self.beam_ratio,
            num_loops=self.num_loops,
            prune_result=self.prune,
        )


@dataclass(frozen=True, slots=True)
class Determinizing:
    """The stage that determinizes each lattice, and notes those for which the whole beam was not reached."""

    function: Callable[[Lattice], tuple[Lattice, DeterminizeReport]]

    def __call__(self, lattices: Keyed, log: Log) -> Iterator[tuple[str, Lattice]]:
        """Yield each lattice, determinized."""

        def determinized(lattice: Lattice) -> Lattice:
            result, report = self.function(lattice)
            if not report.complete:
                log.note(f"{lattice.key}: {report}")
            return result

        return Each(determinized)(lattices, log)


def _shared(max_loop: int) -> Callable[[Command], Command]:
    """Add the options of all three commands."""

    def add(command: Command) -> Command:
        for decorate in (
            click.option(
                "--max-loop",
                type=int,
                default=max_loop,
                show_default=True,
                help="Most states that may follow one another over epsilons; 0 or less: no bound.",
            ),
            click.option(
                "--max-mem",
                type=int,
                default=50_000_000,
                show_default=True,
                help="Bytes one lattice may take, roughly; 0 or less: no bound.",
            ),
            click.option(
                "--delta",
                type=float,
                default=2.0**-10,
                show_default=True,
                help="Sets of states whose costs differ by no more are one state.",
            ),
            click.option("--beam", type=float, default=10.0, show_default=True, help="In scaled cost."),
            click.option(
                "--acoustic-scale",
                type=float,
                default=1.0,
                show_default=True,
                help="Factor of acoustic costs where paths compete.",
            ),
        ):
            command = decorate(command)
        return command

    return add


def _sizes(command: Command) -> Command:
    """Add the bounds of the result."""
    for decorate in (
        click.option(
            "--retry-cutoff",
            type=float,
            default=0.5,
            show_default=True,
            help="Prune and try again where less than this share of the beam was reached; 0: never.",
        ),
        click.option("--max-states", type=int, default=-1, show_default=True, help="Most states; 0 or less: no bound."),
        click.option("--max-arcs", type=int, default=-1, show_default=True, help="Most arcs; 0 or less: no bound."),
    ):
        command = decorate(command)
    return command


@click.command()
@lattice_output("The compact lattices")
@_shared(max_loop=500_000)
@_sizes
@switch("--minimize", False, "Push and minimize the results.")
@resume
@reads_lattices
def determinize_pruned(
    reading: Reading,
    output_file: str,
    beam: float,
    acoustic_scale: float,
    minimize: bool,
    resume: bool,
    **bounds: Any,
) -> None:
    """Keep the best path of each word sequence within a beam.

    State-level lattices become compact ones. Where a bound comes before the beam, what lies within a smaller beam is
    written, and stderr says which lattice and which beam.

    \b
    Example:
      ninja determinize-pruned raw.ark.gz --acoustic-scale 0.1 --beam 6 -o lat.ark.gz
    """
    words = Words(beam, acoustic_scale, _bounds(beam, acoustic_scale, **bounds), minimize)
    _write(reading, output_file, resume, words)


@click.command()
@lattice_output("The compact lattices")
@click.option("--model", metavar="FILE", required=True, help="final.mdl: its transitions tell where phones begin.")
@_shared(max_loop=-1)
@_sizes
@switch("--phone-determinize", True, "Determinize over phones and words first.")
@switch("--word-determinize", True, "Determinize over words in the end.")
@switch("--minimize", False, "Push and minimize the results.")
@resume
@reads_lattices
def determinize_phone_pruned(
    reading: Reading,
    output_file: str,
    model: str,
    beam: float,
    acoustic_scale: float,
    phone_determinize: bool,
    word_determinize: bool,
    minimize: bool,
    resume: bool,
    **bounds: Any,
) -> None:
    """Keep the best path of each word sequence within a beam, determinizing phones first.

    As `ninja determinize-pruned`; a first pass over phones and words lets deeper lattices through the bounds.

    \b
    Example:
      ninja determinize-phone-pruned --model final.mdl raw.ark.gz --beam 8 -o lat.ark.gz
    """
    from ninja.formats.kaldi.transition_model import read_transition_model

    if not (phone_determinize or word_determinize):
        raise click.UsageError("--phone-determinize=false --word-determinize=false leaves nothing to do")
    check_places([output_file], [model], reading)
    checked = _bounds(beam, acoustic_scale, **bounds)
    passes = Phones(
        read_transition_model(model),
        beam,
        acoustic_scale,
        checked,
        phone_determinize,
        word_determinize,
        minimize,
    )
    _write(reading, output_file, resume, passes)


@click.command()
@lattice_output("The compact lattices")
@_shared(max_loop=500_000)
@click.option(
    "--beam-ratio",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.9,
    show_default=True,
    help="Factor of the beam for each further try.",
)
@click.option(
    "--num-loops", type=click.IntRange(0), default=20, show_default=True, help="Most tries on a pruned lattice."
)
@switch("--prune", False, "Prune the results by the beam.")
@resume
@reads_lattices
def determinize(
    reading: Reading,
    output_file: str,
    beam: float,
    acoustic_scale: float,
    beam_ratio: float,
    num_loops: int,
    prune: bool,
    resume: bool,
    **bounds: Any,
) -> None:
    """Keep the best path of each word sequence.

    Nothing is pruned where that is possible. A lattice too large for it is pruned by --beam times --beam-ratio and
    tried again, and so on. Mostly `ninja determinize-pruned` is what you want: it prunes while it determinizes.

    \b
    Example:
      ninja determinize lat.ark.gz --acoustic-scale 0.1 -o unique.ark.gz
    """
    whole = Whole(beam, acoustic_scale, _bounds(beam, acoustic_scale, **bounds), beam_ratio, num_loops, prune)
    _write(reading, output_file, resume, whole)


def _bounds(beam: float, acoustic_scale: float, **bounds: Any) -> DeterminizeBounds:
    """Check the options before any lattice is read."""
    from ninja.graph.determinize_pruned import DeterminizeBounds, check_beam

    check_beam(beam, acoustic_scale)
    return DeterminizeBounds(**bounds)


def _write(
    reading: Reading,
    output_file: str,
    resume: bool,
    function: Callable[[Lattice], tuple[Lattice, DeterminizeReport]],
) -> None:
    """Write all lattices, say what was given up, and end the command."""
    log = reading.log
    log.on_note = lambda note: reading.say(note) if len(log.notes) <= NAMED_FAILURES else None
    arcs = reading.write(output_file, Determinizing(function), resume=resume, kind="compact")
    if log.notes:
        reading.say(f"{len(log.notes)} lattices hold less than the beam asked for")
    reading.close(f"{reading.log.lattices} lattices, {arcs} arcs, {reading.seconds:.1f} s")
