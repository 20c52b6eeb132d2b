"""The command ``ninja correct``, which corrects names in transcripts."""

from __future__ import annotations

import json
from dataclasses import replace

import click

from ninja.cli.command import CommandFiles
from ninja.cli.config import config
from ninja.cli.main import current_console
from ninja.cli.options import command, from_fields, lattice_output, reads, section, writes
from ninja.cli.source import completes_scales, fitting_acoustic_scale, reads_lattices, write
from ninja.context.correction.options import CorrectOptions
from ninja.context.correction.report import records
from ninja.context.correction.stage import Correcting, Correction
from ninja.errors import counted
from ninja.files.output import text_output
from ninja.formats.nbest.transcripts import NAME
from ninja.io.inputs import Inputs
from ninja.lattice import Scales
from ninja.lattice.lattice import ListLattice
from ninja.lattice.text import NORMALIZER_HELP
from ninja.pipeline import Output
from ninja.pipeline.originals import format_of_file
from ninja.pipeline.transcripts import detect_transcripts
from ninja.rescoring.algorithms import HELP
from ninja.show import correction_page

PAGE = (".html", ".htm")


@command
@completes_scales
@config
@section(
    "Corrections",
    reads(
        "--entities",
        "File with phrases: one per line, or phrases for each utterance in JSON, JSONL or TSV.",
        required=True,
    ),
    reads("--utt2group", "Group of each utterance, in utt2spk format; for phrases that are listed by group."),
    from_fields(CorrectOptions),
    reads("--lexicon", "Lexicon like Kaldi's lexicon.txt; it takes precedence over cmudict."),
    reads("--confusion", "Costs of phone confusions in JSON (see docs/context.md)."),
)
@section(
    "Words",
    click.option(
        "--normalizer",
        default="basic",
        help=NORMALIZER_HELP.partition("  [default")[0],
    ),
)
@section(
    "Scales",
    click.option("--acoustic-scale", default=0.1, show_default=False, help=HELP["acoustic_scale"]),
    click.option("--word-penalty", default=0.0, help="Cost added per word when best paths are computed."),
)
@lattice_output("Output for the corrected hypotheses", resume=False)
@section(
    "Input and output",
    writes(
        "--report", "Write the corrections as JSON lines, or as an HTML page for review if FILE ends in .html or .htm."
    ),
)
@reads_lattices
def correct(
    inputs: Inputs,
    entities: str,
    utt2group: str | None,
    threshold: float | None,
    letters_only: bool,
    lexicon: str | None,
    confusion: str | None,
    normalizer: str,
    acoustic_scale: float,
    word_penalty: float,
    destination: Output,
    report: str | None,
) -> None:
    """Correct names, places and titles in transcripts, n-best lists and lattices.

    Words that are probably misrecognitions of phrases in --entities are replaced with these phrases. In recognisers'
    JSON files, subtitles, CTM files and text files, all other bytes are unchanged, and words keep their punctuation,
    times and confidences. Words that differ from a listed phrase only in case are changed to the case of the phrase. If
    SOURCE contains n-best lists or lattices, their best paths are corrected. Each line of a text file contains a key
    and words, or only words if the first words of the lines do not look like keys; --from transcripts:keys=first or
    --from transcripts:keys=none overrides this.

    A correction is made if its probability is at least --threshold. The default threshold was calibrated on English
    commands and read speech: with 95% confidence, at most 1% of the utterances are changed if the list contains 100
    names and none of them is spoken. Lists of words other than names cause more changes. `ninja tune --correct` chooses
    a threshold for your data.

    \b
    Examples:
      ninja correct talk.srt --entities names.txt -o fixed.srt --report changes.html
      ninja correct whisper.json --entities names.json -o fixed.json
    """
    files: CommandFiles = click.get_current_context().obj
    inputs.format = inputs.format or detect_transcripts(inputs)
    inputs.needs_words = True
    destination = in_format_of(inputs, destination)
    scales = Scales()
    destination = replace(destination, scales=None)
    first = inputs.first_lattice()
    if not isinstance(first, ListLattice) or first.num_hypotheses > 1:
        scales = Scales(fitting_acoustic_scale(inputs, acoustic_scale), 1.0, word_penalty)
        destination = replace(destination, scales=scales)
    options = CorrectOptions(threshold, letters_only)
    stage = Correction(
        Correcting(entities, utt2group, options, lexicon, confusion, normalizer, scales, guard=files.guard)
    )
    write(stage, inputs, destination)
    if report is not None:
        write_report(stage, report)
    current_console().close(summary(stage))


def in_format_of(inputs: Inputs, destination: Output) -> Output:
    """Return the output, changed to the format of the inputs if it is stdout or the inputs are plain transcripts.

    The format of the output does not change if the user chose it, if the inputs have several formats, or if the format
    of the inputs cannot be written.
    """
    name = None if inputs.format is None else inputs.format.partition(":")[0]
    if destination.to is not None or not (destination.is_stdout or name == NAME):
        return destination
    if name is None:
        forms = {format_of_file(file) for file in inputs.sources.resolvable_files}
        form = forms.pop() if len(forms) == 1 else None
        can_restore = form is not None and form.write is not None and (form.write.rewrites_files or form.write.restores)
        name = form.name if form is not None and can_restore else None
    return destination if name is None else replace(destination, to=name, form=None)


def summary(stage: Correction) -> str:
    """Return the closing message, which contains the numbers of corrections and utterances."""
    corrections = counted(sum(len(utterance.changes) for utterance in stage.corrected), "correction")
    utterances = counted(stage.num_utterances, "utterance")
    return f"{corrections} in {len(stage.corrected)} of {utterances}, {current_console().seconds:.1f} s"


def write_report(stage: Correction, path: str) -> None:
    """Write the corrections as JSON lines, or as an HTML page if the path ends in .html or .htm."""
    changes = list(records(stage.corrected))
    with text_output(path) as output:
        if path.lower().endswith(PAGE):
            output.write(correction_page(changes, stage.num_utterances))
        else:
            output.writelines(json.dumps(change, ensure_ascii=False) + "\n" for change in changes)
