"""``ninja compose``, ``interp``, ``difference``, ``union`` and ``combine``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import click

from ninja import graph
from ninja.cli import options
from ninja.cli.console import current_console
from ninja.cli.kaldi.joined import Joined, joins_archives
from ninja.cli.kaldi.options import lat_weights_option
from ninja.cli.options import command, lattice_output, reads, switch
from ninja.cli.run import run, write
from ninja.cli.source import reads_lattices_alone
from ninja.errors import FormatError, LatticeError, OptionError
from ninja.evaluate import read_text
from ninja.evaluate.scoring import number
from ninja.formats.fst_image import read_transducer
from ninja.graph.union import check_weights
from ninja.io.inputs import Inputs
from ninja.lattice import Lattice, Scales
from ninja.lattice.fst import Fst
from ninja.pipeline import Output
from ninja.pipeline.stages import OnLattices


@command
@click.option("--phi-label", type=click.IntRange(1), metavar="ID", help="Input label of an FST's back-off arcs.")
@switch("--write-compact", True, "Write word lattices rather than lattices with a label an arc.")
@joins_archives("The composed lattices", others="OTHER")
def compose(joined: Joined, destination: Output, phi_label: int | None, write_compact: bool) -> None:
    """Compose lattices with an FST, or with other lattices.

    OTHER is an FST of OpenFst, such as Kaldi's G.fst, whose costs are added to the graph costs of the paths it accepts.
    Or it is a folder, or an rspecifier (ark:..., scp:...), of lattices, of which those of the same key add both their
    costs. Alignments are those of FIRST.

    \b
    Example:
      ninja compose lat.ark G.fst --phi-label 200005 -o composed.ark
      ninja compose lat.ark ark:other.ark -o composed.ark
    """
    shaped = graph.to_compact if write_compact else graph.to_raw
    inputs, (other,) = joined.inputs, joined.others
    if _is_table(other):
        if phi_label is not None:
            raise OptionError("--phi-label is for FSTs, but OTHER names lattices")
        joined.write(lambda first, others: shaped(graph.compose(first, others[0])), destination, needed=True)
    if inputs.words is None and inputs.table() is not None:
        raise OptionError(f"{other} holds ids of words, but {inputs.places[0]} spells them; give --words")
    machine = _machine(other)
    run(OnLattices(lambda lattice: shaped(graph.compose(lattice, machine, phi_label))), inputs, destination)


def _machine(path: str) -> Fst:
    try:
        return read_transducer(path)
    except FormatError as error:
        error.message += f"; if these are lattices, write ark:{path}"
        raise


def _is_table(name: str) -> bool:
    """Tell whether a source is a folder or an rspecifier, as Kaldi's ClassifyRspecifier does."""
    if os.path.isdir(name):
        return True
    head, colon, _ = name.partition(":")
    return bool(colon) and bool({"ark", "scp"} & set(head.replace(" ", "").split(",")))


@command
@click.option("--alpha", default=0.5, help="Factor of the first's costs, from 0 to 1.")
@joins_archives("The interpolated lattices", others="SECOND")
def interp(joined: Joined, destination: Output, alpha: float) -> None:
    """Interpolate the costs of two archives of lattices.

    Word sequences that both lattices of a key have stay, at --alpha of the first's costs and 1 - alpha of the second's.
    Alignments are the first's.

    \b
    Example:
      ninja interp a.ark b.ark --alpha 0.3 -o both.ark
    """
    if not 0.0 <= alpha <= 1.0:
        raise OptionError(f"alpha is {alpha}, but must be from 0 to 1")
    joined.write(lambda first, others: graph.interp(first, others[0], alpha), destination, needed=True)


@command
@reads("--ref", "Transcripts: a key and its words on each line.", required=True)
@click.option("--strict", is_flag=True, help="Exit with 1 if a lattice has no transcript, or a transcript no lattice.")
@lattice_output("The remaining lattices")
@reads_lattices_alone
def difference(inputs: Inputs, destination: Output, ref: str, strict: bool) -> None:
    """Remove transcripts from lattices.

    Paths that say just what the transcript says go, all others stay as they are. A lattice that holds nothing else
    fails. Without --words, transcripts hold word ids.

    \b
    Example:
      ninja difference den.ark --ref train.tra -o den_mce.ark
    """
    console = current_console()
    transcripts = number(read_text(ref), inputs.table())
    lacking: list[str] = []
    seen: set[str] = set()

    def transcribed(part: Inputs) -> Iterator[tuple[str, Lattice]]:
        for key, lattice in part.lattices():
            if key in transcripts.ids:
                seen.add(key)
                yield key, lattice
            else:
                lacking.append(key)

    write(
        OnLattices(lambda lattice: graph.difference(lattice, transcripts.of(lattice))),
        inputs,
        destination,
        read=transcribed,
    )
    unused = [key for key in transcripts.ids if key not in seen]
    for what, keys in (("lattices without a transcript", lacking), ("transcripts without a lattice", unused)):
        console.say_keys(keys, what)
        if strict:
            console.log.failures.extend(LatticeError(f"one of the {what}", key=key) for key in keys)
    console.close_counting()


@command
@options.acoustic_scale
@switch("--determinize", True, "Keep the best path of each word sequence only.")
@click.option("--max-arcs", type=click.IntRange(1), default=1_000_000, help="Fail unions of more arcs.")
@joins_archives("The united lattices", strict=True)
def union(joined: Joined, destination: Output, acoustic_scale: float, determinize: bool, max_arcs: int) -> None:
    """Unite the lattices of several archives.

    Each lattice of FIRST is united with those of the same key in the others. A key that another archive
    lacks goes without it, and is listed. Archives in the same order are read once, side by side.

    \b
    Example:
      ninja union den.ark num.ark -o union.ark
    """

    def united(first: Lattice, others: Sequence[Any]) -> Lattice:
        lattices = [first, *(lattice for lattice in others if lattice is not None)]
        try:
            return graph.union(lattices, acoustic_scale, determinize=determinize, max_arcs=max_arcs)
        except LatticeError as error:
            if determinize and "more than" in error.message:
                error.message += " (--determinize=false keeps all paths, and needs no such work)"
            raise

    joined.write(united, destination)


@command
@options.acoustic_scale
@options.inv_acoustic_scale
@options.lm_scale
@lat_weights_option
@switch("--exp-weights", False, "Weights are exponents of probabilities rather than factors.")
@joins_archives("The combined lattices", strict=True)
def combine(
    joined: Joined,
    destination: Output,
    acoustic_scale: float,
    lm_scale: float,
    lat_weights: tuple[float, ...] | None,
    exp_weights: bool,
) -> None:
    """Combine the lattices of several systems for consensus decoding.

    The paths of each system's lattice together get the probability of its weight, and all are united. Scales stay in
    the result, of which only the sum of both costs means something: decode it with all scales 1. A key that another
    archive lacks goes without it, and is listed.

    \b
    Example:
      ninja combine a.ark b.ark --acoustic-scale 0.1 --lat-weights 0.6:0.4 -o both.ark
    """
    weights = check_weights(lat_weights, 1 + len(joined.others))

    def combined(first: Lattice, others: Sequence[Any]) -> Lattice:
        return graph.combine([first, *others], weights, Scales(acoustic_scale, lm_scale), exponents=exp_weights)

    joined.write(combined, destination)
