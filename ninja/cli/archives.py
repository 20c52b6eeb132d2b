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
from ninja.cli.console import current_console, results, run, write
from ninja.cli.options import ListsFormats, command, lattice_output, output_file, reads, switch
from ninja.cli.source import reads_lattices, reads_lattices_alone
from ninja.errors import LatticeError, OptionError
from ninja.formats.kaldi.fst_archive import as_image, as_text
from ninja.formats.kaldi.tables import read_speakers
from ninja.formats.kaldi.transition_model import read_transition_model
from ninja.io.fst_table import opened_table
from ninja.io.inputs import Inputs
from ninja.io.selection import part_of
from ninja.io.writer import KALDI
from ninja.lattice import Kind, Lattice
from ninja.lattice.batch import Batch
from ninja.lattice.transition_model import TransitionModel
from ninja.pipeline import Output
from ninja.pipeline.outputs import LatticeSink, open_output
from ninja.pipeline.stages import OnBatches, OnLattices

MAX_SPEAKERS = 500  # archives that are open at once


@command
@click.option("--strict", is_flag=True, help="Exit with 1 if a key occurs more than once.")
@lattice_output()
@reads_lattices
def merge(inputs: Inputs, destination: Output, strict: bool) -> None:
    """Merge archives: one after the other, each key once.

    Of several lattices with one key, the first is written; the key is printed.

    \b
    Example:
      ninja merge lat.1.gz lat.2.gz more/ -o lat.ark.gz
    """
    count: Counter[str] = Counter()

    def first_of_each_key(part: Inputs) -> Iterator[tuple[str, Lattice]]:
        for key, lattice in part.lattices():
            count[key] += 1
            if count[key] == 1:
                yield key, lattice

    write(OnBatches(unchanged), inputs, destination, read=first_of_each_key)
    repeated = [key for key, times in count.items() if times > 1]
    current_console().say_keys(repeated, "keys occur more than once; the first lattice of each was written")
    message = f"{inputs.log.lattices} lattices, {current_console().seconds:.1f} s"
    current_console().close(message, failed=strict and bool(repeated))


@command
@click.option("--nj", type=click.IntRange(1), help="Number of parts.")
@reads("--utt2spk", "Speaker of each key; the keys of one speaker stay in one part.")
@lattice_output("Output of each part, with JOB for its number or SPK for its speaker", resume=False, each_input=False)
@reads_lattices_alone
def split(inputs: Inputs, destination: Output, nj: int | None, utt2spk: str | None) -> None:
    """Split lattices into several archives.

    With --nj, the parts are consecutive and SOURCE is read twice. With --utt2spk alone, there is one archive for each
    speaker.

    \b
    Examples:
      ninja split lat.ark.gz --nj 4 -o lat.JOB.ark.gz
      ninja split lat.ark.gz --utt2spk utt2spk -o lat.SPK.ark.gz
    """
    if nj is None and utt2spk is None:
        raise click.UsageError("give --nj, --utt2spk, or both")
    placeholder = "SPK" if nj is None else "JOB"
    if placeholder not in destination.name:
        raise click.UsageError(f"-o {destination.name} must contain {placeholder}, or all parts have one name")
    speaker_of = None if utt2spk is None else read_speakers(utt2spk)
    if nj is None:
        assert speaker_of is not None
        part: dict[str, str] = speaker_of
    else:
        if any(file.is_pipe for file in inputs.sources.files):
            raise OptionError("--nj reads the source twice; give a file rather than - or a pipe")
        # Faulty lattices are reported when the source is read for the second time.
        keys = (key for key, _ in inputs.read(lambda _: None))
        keys = (key for key in keys if speaker_of is None or key in speaker_of)
        part = {key: str(number + 1) for key, number in part_of(list(keys), nj, speaker_of).items()}
    for name in set(part.values()):
        if not name or "/" in name or name.startswith("."):
            raise OptionError(f"the speaker {name!r} is not a valid file name")

    def check_speaker(lattice: Lattice) -> Lattice:
        if lattice.key not in part:
            raise LatticeError(f"{utt2spk} names no speaker", key=lattice.key)
        return lattice

    with ExitStack() as stack:
        parts: dict[str, LatticeSink] = {}
        for key, lattice in results(OnLattices(check_speaker), inputs):
            name = part[key]
            if name not in parts:
                if len(parts) == MAX_SPEAKERS:
                    raise OptionError(f"more than {len(parts)} archives cannot be open at once; add --nj")
                output = replace(destination, name=destination.name.replace(placeholder, name))
                parts[name] = stack.enter_context(open_output(output, inputs))
            if not parts[name].take(lattice):
                inputs.log.lattices -= 1
    current_console().close_counting(f"lattices in {len(parts)} archives")


def entry(lattice: Lattice, model: TransitionModel | None, text: bool, **values: Any) -> bytes:
    """Convert a lattice to an FST and return it as an entry of a table."""
    if model is not None:
        model.check(lattice)
    fst = graph.to_fst(lattice, input_label=None if model is None else model.pdf + 1, **values)
    return as_text(fst, lattice.key) if text else as_image(fst, lattice.key)


@command
@switch("--read-compact", True, "Use words as labels rather than transition ids.")
@click.option("--acoustic-scale", default=0.0, help="Factor of acoustic costs.")
@click.option("--lm-scale", default=0.0, help="Factor applied to graph costs.")
@switch("--rm-eps", True, "Remove epsilons if that does not make the FST larger.")
@switch("--convert-to-pdf-labels", False, "With --read-compact=false: use pdf ids plus 1 as input labels.")
@reads("--trans-model", "Transition model (final.mdl), for --convert-to-pdf-labels.", load=read_transition_model)
@switch("--project-input", False, "With --read-compact=false: use the input labels on both sides.")
@switch("--project-output", True, "With --read-compact=false: use the words on both sides.")
@output_file("Binary table for the FSTs, or text as ark,t:FILE")
@reads_lattices
def to_fst(
    inputs: Inputs, output_file: str, convert_to_pdf_labels: bool, trans_model: TransitionModel | None, **values: Any
) -> None:
    """Convert lattices to OpenFst FSTs, without costs unless scales are given.

    \b
    Example:
      ninja to-fst lat.ark.gz --acoustic-scale 0.1 --lm-scale 1 -o ark,t:fsts.txt
    """
    if convert_to_pdf_labels:
        if values["read_compact"]:
            raise click.UsageError("--convert-to-pdf-labels needs --read-compact=false")
        if trans_model is None:
            raise click.UsageError("--convert-to-pdf-labels needs --trans-model")
    model = trans_model if convert_to_pdf_labels else None
    with opened_table(output_file) as (table, text):
        entry_of = partial(entry, model=model, text=text, **values)
        for _, content in results(OnLattices(entry_of), inputs, to_stdout=output_file == "-"):
            table.write(content)
    current_console().close_counting()


Same = TypeVar("Same", Lattice, Batch)


def unchanged(lattice: Same) -> Same:
    """Return the lattice or batch itself; readers sort the states."""
    return lattice


@click.command(cls=ListsFormats)
@lattice_output()
@click.option("--kind", type=click.Choice(["compact", "raw"]), help="Kind of Kaldi lattice.  [default: as read]")
@reads_lattices
def convert(inputs: Inputs, destination: Output, kind: str | None) -> None:
    """Convert lattices between formats.

    The format of SOURCE is recognised by content, that of the output by the extension of -o or by --to; see
    docs/formats.md for the options of each format and the fields that it cannot store. Formats of one lattice per file
    are written to a folder.

    \b
    Examples:
      ninja convert lat.1.gz --to text | less
      ninja convert lat.ark.gz -o ark,scp:lat.ark,lat.scp
      ninja convert htk_lattices/ -o lat.ark --words words.txt
      ninja convert lat.ark.gz --words words.txt --to slf:base=10 -o htk_lattices
      ninja convert lat.pt -o fsts --to openfst:acoustic_scale=0.1 --lossy refuse
    """
    if kind is not None and (form := destination.resolved.format.name) not in KALDI:
        raise click.UsageError(f"--kind is for Kaldi archives and cannot be used with {form}")
    run(OnBatches(unchanged), inputs, destination, kind=cast("Kind | None", kind))
