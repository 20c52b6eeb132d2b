"""The commands ``ninja compose``, ``ninja interp``, ``ninja difference``, ``ninja union`` and ``ninja combine``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import click

from ninja import graph
from ninja.cli import options
from ninja.cli.kaldi.joined import Joined, joins_archives
from ninja.cli.kaldi.options import lat_weights_option
from ninja.cli.main import current_console
from ninja.cli.options import command, lattice_output, reads, switch
from ninja.cli.source import reads_lattices_alone, run, write
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
@click.option("--phi-label", type=click.IntRange(1), metavar="ID", help="Input label of the back-off arcs of an FST.")
@switch("--write-compact", True, "Write Kaldi's CompactLattice instead of Lattice.")
@joins_archives("Output for the composed lattices", others="OTHER")
def compose(joined: Joined, destination: Output, phi_label: int | None, write_compact: bool) -> None:
    """Compose lattices with an FST, or with other lattices.

    OTHER is an OpenFst FST such as Kaldi's G.fst, or lattices in a folder or rspecifier (ark:..., scp:...). The costs
    of an FST are added to the graph costs of the paths that it accepts; the graph and acoustic costs of lattices in
    OTHER are added to the costs of the lattices in FIRST with the same keys. Alignments are taken from FIRST.

    \b
    Examples:
      ninja compose lat.ark G.fst --phi-label 200005 -o composed.ark
      ninja compose lat.ark ark:other.ark -o composed.ark
    """
    convert = graph.to_compact if write_compact else graph.to_raw
    inputs, (other,) = joined.inputs, joined.others
    if _is_table(other):
        if phi_label is not None:
            raise OptionError("--phi-label applies only to an FST, but OTHER contains lattices")
        joined.write(lambda first, others: convert(graph.compose(first, others[0])), destination, require_all=True)
    if inputs.words is None and inputs.table() is not None:
        raise OptionError(f"{other} contains word ids, but {inputs.places[0]} contains words; use --words")
    transducer = _read_transducer(other)
    run(OnLattices(lambda lattice: convert(graph.compose(lattice, transducer, phi_label))), inputs, destination)


def _read_transducer(path: str) -> Fst:
    try:
        return read_transducer(path)
    except FormatError as error:
        error.message += f"; if it contains lattices, use ark:{path}"
        raise


def _is_table(name: str) -> bool:
    """Return whether a source is a folder or an rspecifier, as recognised by Kaldi's ClassifyRspecifier."""
    if os.path.isdir(name):
        return True
    head, colon, _ = name.partition(":")
    return bool(colon) and bool({"ark", "scp"} & set(head.replace(" ", "").split(",")))


@command
@click.option("--alpha", default=0.5, help="Weight of the costs in FIRST, from 0 to 1.")
@joins_archives("Output for the interpolated lattices", others="SECOND")
def interp(joined: Joined, destination: Output, alpha: float) -> None:
    """Interpolate the costs of lattices in two archives.

    Word sequences that occur in both lattices with the same key are kept. Their costs are --alpha times the costs in
    FIRST plus (1 - alpha) times the costs in SECOND. Alignments are taken from FIRST.

    \b
    Example:
      ninja interp a.ark b.ark --alpha 0.3 -o both.ark
    """
    if not 0.0 <= alpha <= 1.0:
        raise OptionError(f"alpha is {alpha}, but must be from 0 to 1")
    joined.write(lambda first, others: graph.interp(first, others[0], alpha), destination, require_all=True)


@command
@reads("--ref", "Transcripts: each line contains a key and its words.", required=True)
@click.option(
    "--strict",
    is_flag=True,
    help="Exit with code 1 if a lattice has no transcript, or a transcript has no lattice.",
)
@lattice_output("Output for the remaining lattices")
@reads_lattices_alone
def difference(inputs: Inputs, destination: Output, ref: str, strict: bool) -> None:
    """Remove from each lattice the paths that match its transcript.

    Paths whose words equal the transcript with the same key are removed; other paths are unchanged. If no path remains,
    the lattice is reported as failed. If there is no symbol table, transcripts must contain word ids.

    \b
    Example:
      ninja difference den.ark --ref train.tra -o den_mce.ark
    """
    console = current_console()
    transcripts = number(read_text(ref), inputs.table())
    untranscribed: list[str] = []
    matched: set[str] = set()

    def select(part: Inputs) -> Iterator[tuple[str, Lattice]]:
        for key, lattice in part.lattices():
            if key in transcripts.ids:
                matched.add(key)
                yield key, lattice
            else:
                untranscribed.append(key)

    write(
        OnLattices(lambda lattice: graph.difference(lattice, transcripts.of(lattice))),
        inputs,
        destination,
        read=select,
    )
    unused = [key for key in transcripts.ids if key not in matched]
    for item, other, keys in (("lattice", "transcript", untranscribed), ("transcript", "lattice", unused)):
        console.say_keys(keys, f"{item}s without a {other}", f"{item} without a {other}")
        if strict:
            console.log.failures.extend(LatticeError(f"the {item} has no {other}", key=key) for key in keys)
    console.close_counting()


@command
@options.acoustic_scale
@switch("--determinize", True, "Keep only the best path of each word sequence.")
@click.option("--max-arcs", type=click.IntRange(1), default=1_000_000, help="Maximum number of arcs per result.")
@joins_archives("Output for the united lattices", strict=True)
def union(joined: Joined, destination: Output, acoustic_scale: float, determinize: bool, max_arcs: int) -> None:
    """Unite the lattices of several archives.

    Each lattice in FIRST is united with the lattices that have the same key in the other archives. Keys of FIRST that
    are missing from another archive are listed on stderr. Archives whose keys are in the same order are read once, in
    parallel.

    \b
    Example:
      ninja union den.ark num.ark -o union.ark
    """

    def unite(first: Lattice, others: Sequence[Any]) -> Lattice:
        lattices = [first, *(lattice for lattice in others if lattice is not None)]
        try:
            return graph.union(lattices, acoustic_scale, determinize=determinize, max_arcs=max_arcs)
        except LatticeError as error:
            if determinize and "more than" in error.message:
                error.message += "; --determinize=false keeps all paths without determinization"
            raise

    joined.write(unite, destination)


@command
@options.acoustic_scale
@options.inv_acoustic_scale
@options.lm_scale
@lat_weights_option
@switch("--exp-weights", False, "Use the weights as exponents of the path probabilities instead of as factors.")
@joins_archives("Output for the combined lattices", strict=True)
def combine(
    joined: Joined,
    destination: Output,
    acoustic_scale: float,
    lm_scale: float,
    lat_weights: tuple[float, ...] | None,
    exp_weights: bool,
) -> None:
    """Combine the lattices of several systems for consensus decoding.

    The path probabilities of each lattice are scaled so that they sum to the weight of its system, and the lattices
    with the same key are merged. The scaled costs are written to the output. Only the sum of a graph cost and an
    acoustic cost is meaningful, so all scales must be 1 when the output is decoded. Keys of FIRST that are missing from
    another archive are listed on stderr.

    \b
    Example:
      ninja combine a.ark b.ark --acoustic-scale 0.1 --lat-weights 0.6:0.4 -o both.ark
    """
    weights = check_weights(lat_weights, 1 + len(joined.others))

    def combine_lattices(first: Lattice, others: Sequence[Any]) -> Lattice:
        return graph.combine([first, *others], weights, Scales(acoustic_scale, lm_scale), exponents=exp_weights)

    joined.write(combine_lattices, destination)
