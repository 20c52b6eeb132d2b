"""``ninja score``."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import click

from ninja import evaluate
from ninja.cli.console import current_console
from ninja.cli.files import InputFile, OutputFolder
from ninja.cli.kaldi.wer import MODE_HELP
from ninja.cli.options import command, given_on_command_line, reads, section, writes
from ninja.cli.run import results
from ninja.cli.scales import grid_of_scales, say_default
from ninja.cli.score_grid import GRID_FILES_HELP, print_grid, write_grid
from ninja.cli.source import reads_lattices
from ninja.context.entities.lists import Entities
from ninja.errors import FormatError, NinjaError, OptionError
from ninja.evaluate import (
    BiasingList,
    ErrorRate,
    GlobalMapping,
    Mode,
    WordFilter,
    read_speakers,
    read_text,
    read_truth,
    score_entities,
)
from ninja.evaluate.filtered_lattices import LatticeFilter
from ninja.evaluate.stm import read_transcripts
from ninja.files.output import text_output
from ninja.formats.kaldi.tables import is_stm, read_fields, read_segments
from ninja.io import folder
from ninja.io.inputs import Inputs
from ninja.io.sources import holds_lattices
from ninja.lattice import Scales
from ninja.lattice.symbols import SymbolTable
from ninja.pipeline.stages import OnLattices

_EXCLUDED = {
    "--oracle": ("--alignments", "--biasing", "--entities", "--utt2spk", "--per-utt", "--ops", "--most-often"),
    # Aligned otherwise, printed otherwise.
    "--biasing": ("--alignments", "--entities", "--utt2spk", "--per-utt", "--ops", "--most-often"),
}
_FILTERS = ("ignore", "filter", "hyp_filter", "glm")
_DETAILS = ("utt2spk", "most_often", "per_utt", "ops")
Segments = Mapping[str, tuple[str, float, float]]
_MISSING = {"all": "scored as empty", "present": "left out"}


@command
@click.argument("reference", type=InputFile())
@click.option("--mode", type=click.Choice(["strict", "all", "present"]), default="strict", help=MODE_HELP)
@click.option("--oracle", is_flag=True, help="Score the path of each lattice with the fewest errors, not the best one.")
@reads("--segments", "Utterances of the recordings, as Kaldi's segments, where REFERENCE or SOURCE is STM.")
@reads("--biasing", "Biasing lists; print word error rates on rare words and on others.")
@section(
    "Words",
    click.option("--ignore", metavar="WORD", multiple=True, help="Leave this word out of references and hypotheses."),
    reads("--filter", "Program or sed script that changes references and hypotheses: Kaldi's wer_output_filter."),
    reads("--hyp-filter", "The same for hypotheses alone, in place of --filter: Kaldi's wer_hyp_filter."),
    reads("--glm", "Global mapping file of NIST's, applied to references and hypotheses.", load=evaluate.read_glm),
)
@section(
    "Details",
    writes("--alignments", "Write each hypothesis here, aligned with its reference."),
    reads("--utt2spk", "Speaker of each utterance; print the errors of each speaker."),
    click.option("--most-often", type=click.IntRange(0), metavar="N", help="Print the N commonest errors by kind."),
    writes("--per-utt", "Write here each utterance aligned, as Kaldi's per_utt."),
    writes("--ops", "Write here how often each word was right or wrong, as Kaldi's ops."),
    writes("--wer-dir", GRID_FILES_HELP, kind=OutputFolder()),
)
@section(
    "Entities",
    reads("--entities", "Entities of each utterance; print how many were recognised."),
    reads("--utt2group", "Group of each utterance, for entities of groups, as utt2spk."),
    reads("--truth", "Entities really said, JSON lines.  [default: those REFERENCE holds]"),
    reads("--before", "Transcripts without context, which --report compares with."),
    reads("--vocabulary", "Count entities outside it apart.  [default: --words]"),
    writes("--report", "Write here the result of each entity, as JSON."),
)
@grid_of_scales
@reads_lattices
def score(
    inputs: Inputs,
    reference: str,
    mode: Mode,
    alignments: str | None,
    oracle: bool,
    biasing: str | None,
    entities: str | None,
    scales: tuple[Scales, ...],
    wer_dir: str | None,
    segments: str | None,
    **given: Any,
) -> None:
    """Compute the word error rate of transcripts or lattices.

    REFERENCE and SOURCE are text files, on each line a key and its words; or SOURCE are lattices, of which the best
    path is scored. Ids of words have the names of --words, else of the symbol table beside them.

    With --biasing, the three lines are those of the LibriSpeech biasing benchmark, whose own table of references
    may be given both as REFERENCE and as FILE: of the lists, only the rare words spoken count. With --entities,
    recall and precision of entities and the word errors in them follow, for all and by class.

    Of several scales, such as --lmwt 7:17 --word-penalty 0,0.5,1, all are scored in one pass, and a table of their word
    error rates comes first; what follows is that of the best, of fewest word errors. With --wer-dir Kaldi's files
    wer_LMWT_PENALTY and best_wer are written, and wer_grid.tsv.

    Text files may also be NIST's trn, words and (id) on each line, or STM, which takes --segments, whose utterances are
    those of its lines. Words are compared in Unicode's composed form (NFC).

    The tables of speakers, errors and utterances are those of Kaldi's scoring scripts and rest on the alignments of
    its align-text, which may split the same number of errors otherwise than the first line does.

    \b
    Examples:
      ninja score text transcripts.txt --alignments alignments.txt
      ninja score text lat.ark.gz --words words.txt --acoustic-scale 0.1
      ninja score text lat.ark.gz --words words.txt --lmwt 7:17 --word-penalty 0,0.5,1 --wer-dir scoring
      ninja score text htk_lattices/
      ninja score text transcripts.txt --utt2spk utt2spk --most-often 20 --per-utt per_utt
      ninja score text transcripts.txt --entities entities.jsonl --before first_pass.txt --report report.json
    """
    _check(reference)
    details = {name: given.pop(name) for name in _DETAILS}
    of_references, of_hypotheses = _filters(**{name: given.pop(name) for name in _FILTERS})
    are_lattices = inputs.words is not None or inputs.format is not None or _are_lattices(inputs.places)
    inputs.spell()
    words = inputs.table() if are_lattices else None  # None: transcripts
    if words is None and inputs.table_error is not None:
        raise inputs.table_error
    unread = _unreadable(inputs) if are_lattices and words is None else None
    if unread is not None and (unread.key is not None or len(scales) > 1 or wer_dir is not None or oracle):
        raise unread
    if oracle and words is None:
        raise click.UsageError("--oracle needs lattices and their --words")
    if words is None and (len(scales) > 1 or wer_dir is not None):
        raise click.UsageError("several scales, and --wer-dir, need lattices; SOURCE is transcripts")
    lists = None if biasing is None else evaluate.read_biasing(biasing)
    if segments is not None and not any(map(_may_be_stm, (reference, *(() if words else inputs.places)))):
        raise click.UsageError("--segments is of use with STM only, which is neither REFERENCE nor SOURCE")
    cut = None if segments is None else read_segments(segments)
    given_texts = _said(lists) if lists is not None and biasing == reference else read_transcripts(reference, cut)
    if oracle:
        LatticeFilter(of_hypotheses).check(given_texts)
    references = of_references.texts(given_texts)
    if oracle and words is not None:
        pairs = (lattice for _, lattice in inputs.lattices())
        rate = evaluate.oracle_score(pairs, references, words, how=of_hypotheses)
        click.echo(str(rate))
    else:
        if words is None:
            hypotheses: Mapping[str, Sequence[str]] = of_hypotheses.texts(_transcripts(inputs.places, cut))
        else:
            found = dict(results(OnLattices(partial(evaluate.hypotheses_under, scales=scales)), inputs))
            say_default()
            found = evaluate.filtered(found, of_hypotheses)
            place = 0
            if len(scales) > 1 or wer_dir is not None:
                grid = evaluate.score_grid(references, found, scales, mode)
                place = grid.best
                if wer_dir is not None:
                    write_grid(grid, wer_dir)
                if len(scales) > 1:
                    print_grid(grid)
            hypotheses = {key: each.words[each.under[place]] for key, each in found.items()}
        if lists is not None:
            biased = evaluate.score_biased(references, hypotheses, lists, mode)
            rate = biased.overall
            click.echo(str(biased))
            if rate.missing:
                current_console().say(f"{rate.missing} references have no hypothesis and were {_MISSING[mode]}")
        elif entities is not None:
            rate = _score_entities(inputs, references, hypotheses, entities, mode, **given)
        else:
            rate = evaluate.score(references, hypotheses, mode)
            click.echo(str(rate))
        if alignments is not None:
            with text_output(alignments) as stream:
                for key, alignment in evaluate.score_each(references, hypotheses, mode).items():
                    stream.write(f"{key}\n{alignment}\n\n")
        if any(value is not None for value in details.values()):
            _detail(references, hypotheses, mode, **details)
    if rate.unreferenced:
        current_console().say(f"{rate.unreferenced} hypotheses have no reference and were not scored")
    current_console().close()


def _are_lattices(places: Sequence[str]) -> bool:
    """Tell whether the first source holds lattices rather than transcripts.

    Raises:
        OptionError: Some of the sources hold lattices, and others transcripts.
    """
    lattices = [place for place in places if holds_lattices(place)]
    for place in places if lattices else ():
        if place not in lattices and os.path.isfile(place) and folder.holds_no_lattices(place):
            raise OptionError(f"{lattices[0]} holds lattices, but {place} transcripts; score them apart")
    return places[0] in lattices


def _check(reference: str) -> None:
    """Refuse a folder of references, and options that do not go together."""
    if os.path.isdir(reference):
        raise OptionError(f"{reference} is a folder, but REFERENCE is one text file; it comes first, then SOURCE")
    named = set(given_on_command_line([each.name or "" for each in click.get_current_context().command.params]))
    for name, others in _EXCLUDED.items():
        for other in others:
            if {name, other} <= named:
                raise click.UsageError(f"{name} cannot be used with {other}")
    for name in ("--utt2group", "--truth", "--before", "--vocabulary", "--report"):
        if name in named and "--entities" not in named:
            raise click.UsageError(f"{name} needs --entities")


def _unreadable(inputs: Inputs) -> NinjaError | None:
    """Return the first error of lattices none of which can be read; transcripts may have the extension of lattices."""
    failures: list[NinjaError] = []
    for _ in inputs.read(inputs.places, failures.append):
        return None
    return failures[0] if failures else None


def _may_be_stm(path: str) -> bool:
    """Tell whether a file is STM, or can be read only once."""
    return not os.path.isfile(path) or is_stm(list(read_fields(path)), path)


def _filters(
    ignore: tuple[str, ...], filter: str | None, hyp_filter: str | None, glm: GlobalMapping | None
) -> tuple[WordFilter, WordFilter]:
    """Return what changes references, and what changes hypotheses."""
    how = WordFilter(filter, glm, frozenset(ignore))
    return how, how if hyp_filter is None else replace(how, script=hyp_filter)


def _detail(
    references: Mapping[str, Sequence[str]],
    hypotheses: Mapping[str, Sequence[str]],
    mode: Mode,
    utt2spk: str | None,
    most_often: int | None,
    per_utt: str | None,
    ops: str | None,
) -> None:
    """Print and write the details of Kaldi's scoring scripts."""
    aligned = {
        key: evaluate.align_text(references[key], hypotheses.get(key, ()))
        for key in evaluate.scored_keys(references, hypotheses, mode)
    }
    if utt2spk is not None:
        click.echo(evaluate.speaker_table(evaluate.by_speaker(aligned, evaluate.read_speakers(utt2spk))))
    operations = evaluate.count_operations(aligned)
    if most_often is not None:
        click.echo(operations.most_often(most_often))
    if per_utt is not None:
        with text_output(per_utt) as stream:
            stream.writelines(evaluate.utterance_lines(key, alignment) for key, alignment in aligned.items())
    if ops is not None:
        with text_output(ops) as stream:
            stream.write(operations.table())


def _said(lists: dict[str, BiasingList]) -> dict[str, Sequence[str]]:
    """Take the references out of the benchmark's table."""
    texts = {key: each.text for key, each in lists.items()}
    if silent := [key for key, text in texts.items() if text is None]:
        raise FormatError("the biasing list holds no text; give the references in a file of their own", key=silent[0])
    return {key: text for key, text in texts.items() if text is not None}


def _score_entities(
    inputs: Inputs,
    references: Mapping[str, Sequence[str]],
    hypotheses: Mapping[str, Sequence[str]],
    entities: str,
    mode: Mode,
    *,
    utt2group: str | None,
    truth: str | None,
    before: str | None,
    vocabulary: str | None,
    report: str | None,
) -> ErrorRate:
    # Words that lattices happen to spell are no vocabulary.
    table = SymbolTable.read(vocabulary) if vocabulary is not None else inputs.table() if inputs.words else None
    listed = Entities.read(entities, words=table, groups=None if utt2group is None else read_speakers(utt2group))
    for problem in listed.problems:
        current_console().say(problem)
    found = score_entities(
        references,
        hypotheses,
        listed.phrases(references),
        truth=None if truth is None else read_truth(truth),
        before=None if before is None else read_text(before),
        words=table,
        mode=mode,
    )
    click.echo(str(found))
    if report is not None:
        with text_output(report) as stream:
            json.dump(found.as_dict(), stream, ensure_ascii=False, indent=1)
            stream.write("\n")
    return found.overall


def _transcripts(paths: tuple[str, ...], cut: Segments | None) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in paths:
        try:
            part = read_transcripts(path, cut)
        except FormatError as error:
            error.message += "; if it holds lattices, give their --words"
            raise
        if twice := found.keys() & part.keys():
            raise FormatError("another file holds this key already", path, key=min(twice))
        found |= part
    return found
