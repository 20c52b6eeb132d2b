"""``ninja convert``, ``merge``, ``split`` and ``to-fst``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, cast

import click

from ninja import graph
from ninja.cli.console import current_console
from ninja.cli.files import is_stdin
from ninja.cli.options import ListsFormats, command, lattice_output, output_file, reads, switch
from ninja.cli.run import results, run, write
from ninja.cli.source import reads_lattices, reads_lattices_alone
from ninja.errors import LatticeError, OptionError
from ninja.files.stream import gives_bytes_once
from ninja.formats.kaldi.fst_archive import as_image, as_text
from ninja.formats.kaldi.tables import read_speakers
from ninja.formats.kaldi.transition_model import read_transition_model
from ninja.io.fst_table import opened_table
from ninja.io.inputs import Inputs
from ninja.io.selection import part_of
from ninja.io.writer import KALDI, format_of
from ninja.lattice import Kind, Lattice
from ninja.lattice.batch import Batch
from ninja.lattice.transition_model import TransitionModel
from ninja.pipeline import Output
from ninja.pipeline.outputs import LatticeSink, open_output
from ninja.pipeline.stages import OnBatches, OnLattices

MOST_SPEAKERS = 500  # archives open at once


@command
@click.option("--strict", is_flag=True, help="Exit with 1 if a key occurs more than once.")
@lattice_output()
@reads_lattices
def merge(inputs: Inputs, destination: Output, strict: bool) -> None:
    """Merge archives: one after the other, each key once.

    Of lattices with the same key the first one is kept and the key is named.

    \b
    Example:
      ninja merge lat.1.gz lat.2.gz more/ -o lat.ark.gz
    """
    count: Counter[str] = Counter()

    def first_ones(part: Inputs) -> Iterator[tuple[str, Lattice]]:
        for key, lattice in part.lattices():
            count[key] += 1
            if count[key] == 1:
                yield key, lattice

    write(OnBatches(unchanged), inputs, destination, read=first_ones)
    twice = [key for key, times in count.items() if times > 1]
    current_console().say_keys(twice, "keys occur more than once, and the first lattice of each was kept")
    message = f"{inputs.log.lattices} lattices, {current_console().seconds:.1f} s"
    current_console().close(message, failed=strict and bool(twice))


@command
@click.option("--nj", type=click.IntRange(1), help="Number of parts.")
@reads("--utt2spk", "Speaker of each key: those of one speaker stay together.")
@lattice_output(
    "Output for each part; JOB in its name is the part's number, SPK its speaker", resume=False, each_input=False
)
@reads_lattices_alone
def split(inputs: Inputs, destination: Output, nj: int | None, utt2spk: str | None) -> None:
    """Split lattices into several archives.

    With --nj, each part is a stretch of SOURCE, which is read twice. With --utt2spk alone, each speaker gets an
    archive of its own.

    \b
    Examples:
      ninja split lat.ark.gz --nj 4 -o lat.JOB.ark.gz
      ninja split lat.ark.gz --utt2spk utt2spk -o lat.SPK.ark.gz
    """
    if nj is None and utt2spk is None:
        raise click.UsageError("give --nj, --utt2spk, or both")
    mark = "SPK" if nj is None else "JOB"
    if mark not in destination.name:
        raise click.UsageError(f"-o {destination.name} lacks {mark}, by which the parts are told apart")
    speaker_of = None if utt2spk is None else read_speakers(utt2spk)
    if nj is None:
        assert speaker_of is not None
        part: dict[str, str] = speaker_of
    else:
        if any(is_stdin(name) or gives_bytes_once(name) for name in inputs.places):
            raise OptionError("what is split into --nj parts is read twice; give a file rather than - or a pipe")
        # Both readings pass over the same faulty lattices; they are reported in the second.
        found = (key for key, _ in inputs.read(inputs.places, lambda _: None))
        placed = [key for key in found if speaker_of is None or key in speaker_of]
        part = {key: str(number + 1) for key, number in part_of(placed, nj, speaker_of).items()}
    for name in set(part.values()):
        if not name or "/" in name or name.startswith("."):
            raise OptionError(f"the speaker {name!r} cannot name a file")

    def known(lattice: Lattice) -> Lattice:
        if lattice.key not in part:
            raise LatticeError(f"{utt2spk} names no speaker", key=lattice.key)
        return lattice

    with ExitStack() as stack:
        parts: dict[str, LatticeSink] = {}
        for key, lattice in results(OnLattices(known), inputs):
            name = part[key]
            if name not in parts:
                if len(parts) == MOST_SPEAKERS:
                    raise OptionError(f"more than {len(parts)} archives cannot be written at once; use --nj as well")
                one = replace(destination, name=destination.name.replace(mark, name))
                parts[name] = stack.enter_context(open_output(one, inputs))
            if not parts[name].take(lattice):
                inputs.log.lattices -= 1
    current_console().close_counting(f"lattices in {len(parts)} archives")


def entry(lattice: Lattice, model: TransitionModel | None, text: bool, **given: Any) -> bytes:
    """Return the FST of a lattice as an entry of a table."""
    if model is not None:
        model.check(lattice)
    made = graph.to_fst(lattice, input_label=None if model is None else model.pdf + 1, **given)
    return as_text(made, lattice.key) if text else as_image(made, lattice.key)


@command
@switch("--read-compact", True, "Take whole words as arcs, else transition ids.")
@click.option("--acoustic-scale", default=0.0, help="Factor of acoustic costs.")
@click.option("--lm-scale", default=0.0, help="Factor of graph costs.")
@switch("--rm-eps", True, "Remove epsilons, where that makes the FST no larger.")
@switch("--convert-to-pdf-labels", False, "With --read-compact=false: numbers of densities, plus 1, as input labels.")
@reads("--trans-model", "Transition model (final.mdl), for --convert-to-pdf-labels.", load=read_transition_model)
@switch("--project-input", False, "With --read-compact=false: input labels on both sides.")
@switch("--project-output", True, "With --read-compact=false: words on both sides.")
@output_file("Table for the FSTs, binary, or text as ark,t:FILE")
@reads_lattices
def to_fst(
    inputs: Inputs, output_file: str, convert_to_pdf_labels: bool, trans_model: TransitionModel | None, **given: Any
) -> None:
    """Convert lattices to OpenFst FSTs, without costs unless scales are given.

    \b
    Example:
      ninja to-fst lat.ark.gz --acoustic-scale 0.1 --lm-scale 1 -o ark,t:fsts.txt
    """
    if convert_to_pdf_labels:
        if given["read_compact"]:
            raise click.UsageError("--convert-to-pdf-labels needs --read-compact=false")
        if trans_model is None:
            raise click.UsageError("--convert-to-pdf-labels needs --trans-model")
    model = trans_model if convert_to_pdf_labels else None
    with opened_table(output_file) as (table, text):
        entry_of = partial(entry, model=model, text=text, **given)
        for _, content in results(OnLattices(entry_of), inputs, to_stdout=output_file == "-"):
            table.write(content)
    current_console().close_counting()


Same = TypeVar("Same", Lattice, Batch)


def unchanged(lattice: Same) -> Same:
    """Return the lattice, or batch, itself: readers have sorted its states already."""
    return lattice


@click.command(cls=ListsFormats)
@lattice_output()
@click.option("--kind", type=click.Choice(["compact", "raw"]), help="Kind of Kaldi lattice.  [default: as read]")
@reads_lattices
def convert(inputs: Inputs, destination: Output, kind: str | None) -> None:
    """Convert lattices between formats.

    What SOURCE holds is found by its content, what is written by the ending of -o or by --to; docs/formats.md
    tells the options of each format, and what it cannot hold. One lattice a file goes into a folder.

    \b
    Examples:
      ninja convert lat.1.gz --to text | less
      ninja convert lat.ark.gz -o ark,scp:lat.ark,lat.scp
      ninja convert htk_lattices/ -o lat.ark --words words.txt
      ninja convert lat.ark.gz --words words.txt --to slf:base=10 -o htk_lattices
      ninja convert lat.pt -o fsts --to openfst:acoustic_scale=0.1 --lossy refuse
    """
    if kind is not None and (form := format_of(destination.name, destination.to)[0].name) not in KALDI:
        raise click.UsageError(f"--kind is of Kaldi's archives and cannot be used with {form}")
    run(OnBatches(unchanged), inputs, destination, kind=cast("Kind | None", kind))
