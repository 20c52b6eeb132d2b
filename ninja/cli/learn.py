"""The command ``ninja learn``, which learns phrases from corrected transcripts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import click

from ninja.cli.command import CommandFiles, Lattices, given_on_command_line
from ninja.cli.main import current_console
from ninja.cli.options import command, output_file, reads, section
from ninja.cli.source import build_inputs, reading_options
from ninja.context.correction.edits import Edits, paired, read_edits
from ninja.context.correction.learning import LearnResult, entity_bytes, learn_edits, undo
from ninja.context.correction.options import CorrectOptions
from ninja.context.correction.stage import Correcting, Correction
from ninja.context.entities.lists import Entities
from ninja.errors import LatticeError, OptionError, counted
from ninja.evaluate import read_speakers, read_text
from ninja.files.output import StandardOutput, opened
from ninja.files.stream import STDIN
from ninja.graph import lattice_nbest
from ninja.io.inputs import Inputs
from ninja.lattice import Lattice, Scales
from ninja.lattice.batch import Keyed
from ninja.lattice.lattice import ListLattice
from ninja.lattice.text import NORMALIZER_HELP
from ninja.pipeline.transcripts import detect_transcripts
from ninja.tune.correction import compare_lists

SHOWN = 5  # maximum number of phrases in the summary


@command
@click.argument("edit_files", metavar="[SOURCE]...", nargs=-1, type=Lattices())
@section(
    "Learning",
    reads("--lists", "Phrase list to extend: any file that `ninja correct --entities` accepts.  [default: none]"),
    click.option(
        "--min-count",
        type=click.IntRange(1),
        default=2,
        help="Minimum number of edits required to add a phrase, change a weight or add a pronunciation.",
    ),
    click.option("--undo", "is_undone", is_flag=True, help="Remove the lines that the last run added to --lists."),
    reads("--utt2group", "Group of each utterance, in utt2spk format; for phrases that are listed by group."),
    click.option("--letters-only", is_flag=True, help="Compare letters instead of phones."),
    click.option("--normalizer", default="basic", help=NORMALIZER_HELP.partition("  [default")[0]),
)
@section(
    "Check",
    reads(
        "--dev",
        "Hypotheses of a development set; nothing is written if the learned phrases increase the errors in this set.",
        kind=Lattices(),
        metavar="HYPOTHESES",
    ),
    reads("--ref", "Reference transcripts of --dev, with a key and words on each line."),
)
@output_file("Output for the new phrase list")
@reading_options()
def learn(
    edit_files: tuple[str, ...],
    lists: str | None,
    min_count: int,
    is_undone: bool,
    utt2group: str | None,
    letters_only: bool,
    normalizer: str,
    dev: str | None,
    ref: str | None,
    output_file: str,
    **reading: Any,
) -> None:
    """Learn phrases from corrected transcripts.

    SOURCE is a TSV file, in which each line contains the recognised text and the corrected text of an utterance,
    optionally after a key. SOURCE can also be two files in any hypothesis format (before and after correction), or a
    file of accepted and rejected changes that was saved from the page of `ninja correct --report`.

    Names inserted by edits become new phrases. The weight of a listed phrase is raised if edits inserted the phrase,
    and lowered if edits removed it. Words that were recognised in place of a phrase become another pronunciation of the
    phrase. Each change requires at least --min-count edits. The counts are stored in the output, and later runs add to
    these counts; edits that were counted before are ignored.

    The output is a copy of --lists, followed by lines with these changes. --undo removes these lines.

    \b
    Examples:
      ninja learn edits.tsv --lists names.txt -o learned.txt
      ninja learn whisper.json corrected.json --lists names.txt -o learned.txt --dev dev.txt --ref dev.ref
      ninja learn --undo --lists learned.txt -o names.txt
    """
    console = current_console()
    if is_undone:
        _undo(edit_files, lists, output_file)
        return
    if not edit_files:
        raise OptionError("there are no edits to learn from; specify a file of edits, or --undo")
    if len(edit_files) > 2:
        raise OptionError(
            f"{len(edit_files)} sources are given; specify one file of edits, or the transcripts before and after "
            "correction"
        )
    if (dev is None) != (ref is None):
        raise OptionError(
            "--dev and --ref are the hypotheses and the references of a development set; specify both or neither"
        )
    inputs = build_inputs(edit_files, reading)["inputs"]
    edits = read_edits(edit_files[0]) if len(edit_files) == 1 else _edits(inputs, *edit_files)
    stage = Correction(
        Correcting(
            Entities.from_dict({}) if lists is None else lists,
            utt2group,
            CorrectOptions(letters_only=letters_only),
            normalizer=normalizer,
            guard=click.get_current_context().obj.guard,
        )
    )
    corrector = stage.load(console.log)
    groups = None if utt2group is None else read_speakers(utt2group)
    content = b"" if lists is None else entity_bytes(lists)
    result = learn_edits(edits, content, corrector, min_count=min_count, path=lists or "", groups=groups)
    if dev is not None and ref is not None:
        entities = Entities.parsed(result.content, path=lists or "", groups=groups, normalizer=corrector.normalizer)
        after = Correction(replace(stage.correcting, entities=entities))
        comparison = compare_lists(_lists_of(inputs, dev), read_text(ref), stage, after, console.log)
        console.say(comparison.summary)
        if comparison.is_worse:
            raise click.ClickException(
                "the development set has more errors with the learned phrases, so nothing is written"
            )
    _write(output_file, result.content)
    console.close(f"{_summary(result, len(edits))}, {console.seconds:.1f} s")


def _undo(source: tuple[str, ...], lists: str | None, output_file: str) -> None:
    if lists is None:
        raise OptionError("--undo requires --lists, the output of an earlier run")
    if source or (
        wrong := given_on_command_line(["min_count", "utt2group", "letters_only", "normalizer", "dev", "ref"])
    ):
        raise OptionError(f"--undo can be used only with --lists and -o; omit {', '.join(source or wrong)}")
    _write(output_file, undo(lists))


def _edits(inputs: Inputs, before: str, after: str) -> Edits:
    """Return the edits between two hypothesis files."""
    sides = [{lattice.key: _words(lattice) for _, lattice in _lists_of(inputs, name)} for name in (before, after)]
    edits = paired(*sides)
    if num_skipped := sum(map(len, sides)) - 2 * len(edits):
        current_console().say(f"{counted(num_skipped, 'utterance occurs', 'utterances occur')} in only one file")
    return edits


def _lists_of(inputs: Inputs, name: str) -> Iterator[Keyed]:
    """Yield the utterances in a hypothesis file."""
    other = inputs.with_names((name,))
    other.format = inputs.format or detect_transcripts(other)
    for key, lattice in other.lattices():
        if not isinstance(lattice, ListLattice):
            raise LatticeError(f"{name} contains lattices, not text; print the best paths with `ninja best`", key=key)
        yield key, lattice


def _words(lattice: Lattice) -> tuple[str, ...]:
    return tuple(map(str, lattice_nbest(lattice, 1, Scales()).hypotheses[0].words))


def _write(name: str, content: bytes) -> None:
    if name == STDIN:  # "-"
        output = StandardOutput()
        output.write(content)
        output.finish()
        return
    files: CommandFiles = click.get_current_context().obj
    with opened(name, files.guard) as file:
        file.write(content)


def _summary(result: LearnResult, num_edits: int) -> str:
    """Return the closing message, which contains the numbers of edits and phrases."""
    new = [item.phrase for item in result.phrases if item.is_new(result.run.min_count)]
    parts = [f"{counted(num_edits - result.num_known, 'edit')}"]
    parts += [f"{result.num_known} known before"] if result.num_known else []
    shown = f" ({', '.join(map(repr, new[:SHOWN]))}{', …' if len(new) > SHOWN else ''})" if new else ""
    parts += [f"{counted(len(new), 'phrase')} added{shown}", f"{len(result.phrases) - len(new)} changed"]
    return ", ".join(parts)
