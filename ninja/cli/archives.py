"""The commands ``ninja convert``, ``ninja merge``, ``ninja split`` and ``ninja to-fst``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, cast

import click

from ninja import graph
from ninja.cli.main import current_console
from ninja.cli.options import ListsFormats, command, lattice_output, output_file, reads, switch
from ninja.cli.source import reads_lattices, reads_lattices_alone, results, run, write
from ninja.errors import LatticeError, OptionError, counted
from ninja.formats.format import KALDI
from ninja.formats.kaldi.fst_archive import as_image, as_text
from ninja.formats.kaldi.tables import read_speakers
from ninja.formats.kaldi.transition_model import read_transition_model
from ninja.io.fst_table import opened_table
from ninja.io.inputs import Inputs
from ninja.io.selection import part_of
from ninja.lattice import Kind, Lattice
from ninja.lattice.batch import Batch
from ninja.lattice.transition_model import TransitionModel
from ninja.pipeline import Output
from ninja.pipeline.execution import LatticeSink, OnBatches, open_output
from ninja.pipeline.stages import OnLattices

MAX_PARTS = 500  # maximum number of archives that are open at the same time


@command
@click.option("--strict", is_flag=True, help="Exit with code 1 if a key occurs more than once.")
@lattice_output()
@reads_lattices
def merge(inputs: Inputs, destination: Output, strict: bool) -> None:
    """Concatenate archives, keeping the first lattice of each key.

    Keys that occur more than once are reported on stderr.

    \b
    Example:
      ninja merge lat.1.gz lat.2.gz more/ -o lat.ark.gz
    """
    count: Counter[str] = Counter()

    def without_duplicates(part: Inputs) -> Iterator[tuple[str, Lattice]]:
        for key, lattice in part.lattices():
            count[key] += 1
            if count[key] == 1:
                yield key, lattice

    write(OnBatches(unchanged), inputs, destination, read=without_duplicates)
    duplicates = [key for key, occurrences in count.items() if occurrences > 1]
    current_console().say_keys(
        duplicates,
        "keys occur more than once; their first lattices were written",
        "key occurs more than once; its first lattice was written",
    )
    message = f"{counted(inputs.log.lattices, 'lattice')}, {current_console().seconds:.1f} s"
    current_console().close(message, failed=strict and bool(duplicates))


@command
@click.option("--nj", type=click.IntRange(1, MAX_PARTS), help="Number of parts.")
@reads("--utt2spk", "Speaker of each utterance; all lattices of a speaker are written to the same part.")
@lattice_output(
    "Output, whose name contains JOB (for the part number) or, without --nj, SPK (for the speaker)",
    resume=False,
    per_input=False,
    required=True,
)
@reads_lattices_alone
def split(inputs: Inputs, destination: Output, nj: int | None, utt2spk: str | None) -> None:
    """Split lattices into several archives.

    With --nj, lattices are split into consecutive parts, and SOURCE is read twice. With --utt2spk alone, each speaker
    gets a separate archive.

    \b
    Examples:
      ninja split lat.ark.gz --nj 4 -o lat.JOB.ark.gz
      ninja split lat.ark.gz --utt2spk utt2spk -o lat.SPK.ark.gz
    """
    if nj is None and utt2spk is None:
        raise click.UsageError("specify --nj, --utt2spk, or both")
    placeholder = "SPK" if nj is None else "JOB"
    if placeholder not in destination.name:
        raise click.UsageError(f"-o {destination.name} must contain {placeholder} to give each part a different name")
    speaker_of = None if utt2spk is None else read_speakers(utt2spk)
    if nj is None:
        assert speaker_of is not None
        part: dict[str, str] = speaker_of
    else:
        if any(file.is_pipe for file in inputs.sources.files):
            raise OptionError("--nj reads SOURCE twice, so SOURCE cannot be - or a pipe; use a file")
        # Ignore damaged lattices here; they are reported when the source is read for the second time.
        keys = (key for key, _ in inputs.read(lambda _: None))
        keys = (key for key in keys if speaker_of is None or key in speaker_of)
        part = {key: str(number + 1) for key, number in part_of(list(keys), nj, speaker_of).items()}
    for name in set(part.values()):
        if not name or "/" in name or name.startswith("."):
            raise OptionError(f"the speaker {name!r} is not a valid file name; rename it in {utt2spk}")

    def check_speaker(lattice: Lattice) -> Lattice:
        if lattice.key not in part:
            raise LatticeError(f"{utt2spk} has no speaker for this key", key=lattice.key)
        return lattice

    with ExitStack() as stack:
        parts: dict[str, LatticeSink] = {}
        for key, lattice in results(OnLattices(check_speaker), inputs):
            name = part[key]
            if name not in parts:
                if len(parts) == MAX_PARTS:
                    raise OptionError(f"at most {len(parts)} archives can be written; use --nj {len(parts)} or less")
                output = replace(destination, name=destination.name.replace(placeholder, name))
                parts[name] = stack.enter_context(open_output(output, inputs))
            if not parts[name].take(lattice):
                inputs.log.lattices -= 1
    current_console().close_counting(f" in {counted(len(parts), 'archive')}")


def entry(lattice: Lattice, model: TransitionModel | None, text: bool, **values: Any) -> bytes:
    """Convert a lattice to an FST and return the FST as a text or binary table entry.

    Args:
        model: Transition model for converting input labels to pdf ids plus 1; None keeps the labels.
        values: Additional arguments of ``ninja.graph.to_fst``.
    """
    if model is not None:
        model.check(lattice)
    fst = graph.to_fst(lattice, input_label=None if model is None else model.pdf + 1, **values)
    return as_text(fst, lattice.key) if text else as_image(fst, lattice.key)


@command
@switch("--read-compact", True, "Use words as labels rather than transition ids.")
@click.option("--acoustic-scale", default=0.0, help="Factor applied to acoustic costs.")
@click.option("--lm-scale", default=0.0, help="Factor applied to graph costs.")
@switch("--rm-eps", True, "Remove epsilons if that does not make the FST larger.")
@switch("--convert-to-pdf-labels", False, "With --read-compact=false: convert input labels to pdf ids plus 1.")
@reads("--trans-model", "Transition model (final.mdl), for --convert-to-pdf-labels.", load=read_transition_model)
@switch("--project-input", False, "With --read-compact=false: copy input labels to output labels.")
@switch("--project-output", True, "With --read-compact=false: copy output labels (words) to input labels.")
@output_file("Binary table for the FSTs, or ark,t:FILE for a text table")
@reads_lattices
def to_fst(
    inputs: Inputs, output_file: str, convert_to_pdf_labels: bool, trans_model: TransitionModel | None, **values: Any
) -> None:
    """Convert lattices to OpenFst FSTs; costs are included if scales are specified.

    \b
    Example:
      ninja to-fst lat.ark.gz --acoustic-scale 0.1 --lm-scale 1 -o ark,t:fsts.txt
    """
    if convert_to_pdf_labels:
        if values["read_compact"]:
            raise click.UsageError("--convert-to-pdf-labels requires --read-compact=false")
        if trans_model is None:
            raise click.UsageError("--convert-to-pdf-labels requires --trans-model")
    model = trans_model if convert_to_pdf_labels else None
    with opened_table(output_file) as (table, text):
        entry_of = partial(entry, model=model, text=text, **values)
        for _, content in results(OnLattices(entry_of), inputs, to_stdout=output_file == "-"):
            table.write(content)
    current_console().close_counting()


LatticeOrBatch = TypeVar("LatticeOrBatch", Lattice, Batch)


def unchanged(lattice: LatticeOrBatch) -> LatticeOrBatch:
    """Return the lattice or batch unchanged; the reader has sorted it topologically."""
    return lattice


@click.command(cls=ListsFormats)
@lattice_output()
@click.option(
    "--kind", type=click.Choice(["compact", "raw"]), help="Kind of Kaldi lattice to write.  [default: unchanged]"
)
@reads_lattices
def convert(inputs: Inputs, destination: Output, kind: str | None) -> None:
    """Convert lattices between formats.

    The format of SOURCE is detected from its content; the output format is selected by --to or by the extension of -o.
    For formats that store one lattice per file, -o is a folder, or a file if there is only one lattice. docs/formats.md
    lists the options of each format and the fields that it cannot store.

    \b
    Examples:
      ninja convert lat.1.gz --to text | less
      ninja convert lat.ark.gz -o ark,scp:lat.ark,lat.scp
      ninja convert htk_lattices/ -o lat.ark --words words.txt
      ninja convert lat.ark.gz --words words.txt --to slf:base=10 -o htk_lattices
      ninja convert lat.pt -o fsts --to openfst:acoustic_scale=0.1 --lossy refuse
    """
    if kind is not None and (form := destination.resolved.format.name) not in KALDI:
        raise click.UsageError(f"--kind applies only to Kaldi archives and cannot be used with {form}")
    run(OnBatches(unchanged), inputs, destination, kind=cast("Kind | None", kind))
