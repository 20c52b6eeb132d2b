"""The command ``ninja score``, which computes word error rates."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import click

from ninja import evaluate
from ninja.cli.command import InputFile, NamedFile, OutputFolder, given_on_command_line
from ninja.cli.kaldi.wer import mode_option
from ninja.cli.main import current_console
from ninja.cli.normalizer import normalizer_option
from ninja.cli.options import command, reads, section, writes
from ninja.cli.score_confidences import score_file_confidences
from ninja.cli.score_grid import GRID_FILES_HELP, grid_of_scales, print_grid, write_grid
from ninja.cli.source import reads_lattices, results, say_default
from ninja.context.entities.lists import Entities
from ninja.errors import FormatError, NinjaError, OptionError, counted
from ninja.evaluate import (
    BiasingList,
    ErrorRate,
    GlobalMapping,
    Grid,
    Mode,
    WordFilter,
    read_speakers,
    read_truth,
    score_entities,
)
from ninja.evaluate.filtered_lattices import LatticeFilter
from ninja.evaluate.stm import read_transcripts, transcripts_of
from ninja.files.output import text_output
from ninja.formats.kaldi.tables import fields_of, is_stm, read_fields, read_segments
from ninja.io.inputs import Inputs
from ninja.lattice import Scales
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.text import AUTO, BASIC, NONE, LexicalForms, Normalizer
from ninja.pipeline.stages import OnLattices
from ninja.pipeline.transcripts import holds_lattices
from ninja.show.reliability import check_svg

_OF_SCALES = ("--acoustic-scale", "--inv-acoustic-scale", "--lm-scale", "--word-penalty", "--config", "--wer-dir")
_EXCLUDED = {
    "--oracle": (
        *("--mode", "--written", "--alignments", "--biasing", "--entities", "--utt2spk", "--per-utt", "--ops"),
        *("--most-often", *_OF_SCALES),
    ),
    "--confidences": (
        *("--oracle", "--segments", "--biasing", "--written", "--ignore", "--filter", "--hyp-filter", "--glm"),
        *("--alignments", "--utt2spk", "--most-often", "--per-utt", "--ops", "--entities", *_OF_SCALES),
    ),
    # These options would change the alignments or the output, which are defined by the benchmark.
    "--biasing": ("--alignments", "--entities", "--utt2spk", "--per-utt", "--ops", "--most-often"),
}
_FILTERS = ("ignore", "filter", "hyp_filter", "glm")
_DETAILS = ("utt2spk", "most_often", "per_utt", "ops")
Texts = Mapping[str, Sequence[str]]
Segments = Mapping[str, tuple[str, float, float]]
_TREATMENT = {"all": "scored as empty", "present": "ignored"}  # treatment of references without a hypothesis


@command
@click.argument("reference", type=InputFile())
@mode_option
@click.option("--oracle", is_flag=True, help="Score the path with the fewest errors instead of the best path.")
@reads("--segments", "Kaldi segments file, required if REFERENCE or SOURCE is in STM format.")
@reads("--biasing", "Biasing lists; print separate word error rates for rare words and for other words.")
@section(
    "Words",
    normalizer_option,
    click.option("--written", is_flag=True, help="Also score the case and punctuation of correct words."),
    click.option(
        "--ignore",
        metavar="WORD",
        multiple=True,
        help="Remove WORD from references and hypotheses; may be given several times.",
    ),
    reads(
        "--filter",
        "Program or sed script applied to references and hypotheses, like Kaldi's wer_output_filter.",
        kind=NamedFile(),
    ),
    reads(
        "--hyp-filter",
        "Filter for hypotheses, used instead of --filter, like Kaldi's wer_hyp_filter.",
        kind=NamedFile(),
    ),
    reads("--glm", "NIST global mapping file, applied to references and hypotheses.", load=evaluate.read_glm),
)
@section(
    "Details",
    writes("--alignments", "Write each hypothesis aligned with its reference."),
    reads("--utt2spk", "Speaker of each utterance; print the errors of each speaker."),
    click.option(
        "--most-often", type=click.IntRange(0), metavar="N", help="Print the N most frequent errors of each kind."
    ),
    writes("--per-utt", "Write aligned utterances in the format of Kaldi's per_utt."),
    writes("--ops", "Write counts of correct and wrong words in the format of Kaldi's ops."),
    writes("--wer-dir", GRID_FILES_HELP, kind=OutputFolder()),
)
@section(
    "Confidences",
    click.option("--confidences", is_flag=True, help="Also score the confidences of words in CTM or JSON."),
    writes("--plot", "Draw a reliability diagram (.svg); requires --confidences."),
)
@section(
    "Entities",
    reads("--entities", "Entities, as for `ninja context --entities`; print how many of them were recognised."),
    reads("--utt2group", "Group of each utterance, in utt2spk format; for entities that are listed by group."),
    reads("--truth", "Ground-truth entities as JSON lines.  [default: the entities in REFERENCE]"),
    reads("--before", "Transcripts that were decoded without context, for comparison in --report."),
    reads(
        "--vocabulary",
        "Symbol table; entities that contain words missing from it are counted separately.  [default: --words]",
    ),
    writes("--report", "Write the result of each entity as JSON."),
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
    normalizer: str,
    written: bool,
    confidences: bool,
    plot: str | None,
    **options: Any,
) -> None:
    """Compute the word error rate of transcripts or lattices.

    REFERENCE is a text file; each line contains a key and words. SOURCE is a text file in the same format, or lattices,
    whose best paths are scored. Word ids are converted to words with --words, by default the symbol table next to the
    lattices.

    Text files can also be in NIST's trn format or in STM format. STM files require --segments, which assigns their
    lines to utterances. Words are compared in Unicode's composed form (NFC).

    With --normalizer, words are compared by their lexical forms, which ignore case and punctuation. With --written, the
    written forms of correct words are compared as well. %FORM is the percentage of words that are written differently,
    and %CASE the percentage of words in the wrong case. %PUNCTUATION is the percentage of words with wrong punctuation,
    among words with punctuation in the reference or the hypothesis. %WRITTEN-WER counts each difference in form as a
    word error.

    Several scales, such as --lmwt 7:17 --word-penalty 0,0.5,1, are scored in one pass. Their word error rates are
    printed first; the rest of the output is for the scales with the fewest word errors. With --wer-dir, the files
    wer_LMWT_PENALTY and best_wer of Kaldi's scoring scripts are written, as well as wer_grid.tsv.

    The tables of speakers, errors and utterances are in the format of Kaldi's scoring scripts. They use the alignments
    of Kaldi's align-text, so the numbers of substitutions, insertions and deletions can differ from the numbers in the
    first line.

    With --biasing, the output consists of the three lines of the LibriSpeech biasing benchmark. The reference table of
    this benchmark can be used both as REFERENCE and as the argument of --biasing, which uses only its lists of rare
    words. With --entities, recall, precision and word errors of entities are printed, in total and by class.

    With --confidences, SOURCE is a CTM or JSON file with confidences of words, such as the output of
    `ninja best --json`. The output contains the normalised cross entropy (NCE: at most 1; 0 if every confidence equals
    the fraction of correct words), the expected calibration error (ECE) over 10 bins, and the area under the ROC curve
    (AUC).

    \b
    Examples:
      ninja score text transcripts.txt --alignments alignments.txt
      ninja score text lat.ark.gz --words words.txt --acoustic-scale 0.1
      ninja score text lat.ark.gz --words words.txt --lmwt 7:17 --word-penalty 0,0.5,1 --wer-dir scoring
      ninja score text htk_lattices/
      ninja score text transcripts.txt --normalizer english --written
      ninja score text transcripts.txt --utt2spk utt2spk --most-often 20 --per-utt per_utt
      ninja score text words.ctm --confidences --plot reliability.svg
      ninja score text transcripts.txt --entities entities.jsonl --before first_pass.txt --report report.json
    """
    named = _check(reference)
    if written and normalizer == NONE.name:
        raise click.UsageError("--written requires a normalizer; use, for example, --normalizer basic")
    forms = LexicalForms(BASIC if written and normalizer == AUTO else normalizer, current_console().note)
    if confidences:
        if plot is not None:
            check_svg(plot)
        return _close(score_file_confidences(inputs, read_transcripts(reference, None), mode, forms, plot))
    if plot is not None:
        raise click.UsageError("--plot requires --confidences")
    details = {name: options.pop(name) for name in _DETAILS}
    of_references, of_hypotheses = _filters(**{name: options.pop(name) for name in _FILTERS})
    are_lattices = inputs.words is not None or inputs.format is not None or _are_lattices(inputs)
    inputs.needs_words = True
    words = inputs.table() if are_lattices else None  # transcripts have no symbol table
    if words is None and inputs.table_error is not None:
        raise inputs.table_error
    failure = _unreadable(inputs) if are_lattices and words is None else None
    of_scales = [name for name in _OF_SCALES if name in named]
    if failure is not None and (failure.key is not None or of_scales or oracle):
        raise failure
    if oracle and words is None:
        raise click.UsageError("--oracle requires lattices and --words")
    if words is None and of_scales:
        flags = ", ".join(of_scales)
        raise click.UsageError(f"{flags} can be used only with lattices, but SOURCE contains transcripts")
    lists = None if biasing is None else evaluate.read_biasing(biasing)
    if segments is not None and not any(map(_may_be_stm, (reference, *(() if words else inputs.places)))):
        raise click.UsageError("--segments requires an STM file, but neither REFERENCE nor SOURCE is one")
    cut = None if segments is None else read_segments(segments)
    texts = _references_of(lists) if lists is not None and biasing == reference else read_transcripts(reference, cut)
    if oracle:
        LatticeFilter(of_hypotheses).check(texts)
    references: Texts = of_references.texts(texts)
    if oracle and words is not None:
        pairs = (lattice for _, lattice in inputs.lattices())
        # The normalizer `auto` selects `basic` even if only the references are written text.
        forms.normalizer_of(list(chain.from_iterable(references.values())))
        rate = evaluate.oracle_score(pairs, references, words, word_filter=of_hypotheses, normalizer=forms)
        click.echo(str(rate))
    else:
        if words is None:
            transcripts: Texts = of_hypotheses.texts(_transcripts(inputs, cut))
            chosen = evaluate.choose_normalizer(forms, references, transcripts)
        else:
            best = dict(results(OnLattices(partial(evaluate.hypotheses_under, scales=scales)), inputs))
            say_default(inputs)
            best = evaluate.filtered(best, of_hypotheses)
            spoken = {key: list(chain.from_iterable(texts.words)) for key, texts in best.items()}
            chosen = evaluate.choose_normalizer(forms, references, spoken)
            index = 0  # index of the scales with the fewest errors
            if len(scales) > 1 or wer_dir is not None:
                index = _score_grid(evaluate.score_grid(references, best, scales, mode, normalizer=chosen), wer_dir)
            transcripts = {key: texts.words[texts.under[index]] for key, texts in best.items()}
        if lists is not None:
            biased = evaluate.score_biased(references, transcripts, lists, mode, normalizer=chosen)
            rate = biased.overall
            click.echo(str(biased))
            if rate.missing:
                current_console().say(f"{counted(rate.missing, 'reference')} without a hypothesis: {_TREATMENT[mode]}")
        elif entities is not None:
            if (before := options.pop("before")) is not None:
                options["before"] = of_hypotheses.texts(read_transcripts(before, cut))
            rate = _score_entities(inputs, references, transcripts, entities, mode, chosen, **options)
        else:
            rate = evaluate.score(references, transcripts, mode, normalizer=chosen)
            click.echo(str(rate))
        references, hypotheses = _print_forms(
            references, transcripts, mode, chosen, rate, cer=lists is None and entities is None, written=written
        )
        if alignments is not None:
            with text_output(alignments) as stream:
                for key, alignment in evaluate.score_each(references, hypotheses, mode).items():
                    stream.write(f"{key}\n{alignment}\n\n")
        if any(value is not None for value in details.values()):
            _detail(references, hypotheses, mode, **details)
    _close(rate)


def _close(rate: ErrorRate) -> None:
    """Print the number of hypotheses that were not scored, and exit."""
    if rate.unreferenced:
        one, many = "hypothesis has no reference and was", "hypotheses have no reference and were"
        current_console().say(f"{counted(rate.unreferenced, one, many)} not scored")
    current_console().close()


def _score_grid(grid: Grid, wer_dir: str | None) -> int:
    """Print a grid of error rates, write it to a folder if specified, and return the index of the best scales."""
    if wer_dir is not None:
        write_grid(grid, wer_dir)
    if len(grid.scales) > 1:
        print_grid(grid)
    return grid.best


def _print_forms(
    references: Texts,
    transcripts: Texts,
    mode: Mode,
    normalizer: Normalizer,
    rate: ErrorRate,
    *,
    cer: bool,
    written: bool,
) -> tuple[Texts, Texts]:
    """Print the requested error rates for characters and written forms, and convert transcripts to lexical words.

    If words are scored unchanged, but some word errors are only differences in case, punctuation or hyphens, a warning
    is printed.

    Args:
        rate: Word error rate for lexical words, which the warning is based on.
        cer: Whether to print the character error rate.
        written: Whether to print the case and punctuation errors in lexically correct words.

    Returns:
        ``(references, transcripts)``; each maps keys to lists of lexical words.
    """
    lexical = evaluate.lexical_texts(references, normalizer), evaluate.lexical_texts(transcripts, normalizer)
    if cer:
        click.echo(str(evaluate.score_characters(*lexical, mode)))
    if written:
        click.echo(str(evaluate.score_written(references, transcripts, mode, normalizer=normalizer)))
    if normalizer.is_identity and (basic := evaluate.differing_forms(references, transcripts, rate, mode)) is not None:
        count = f"{rate.errors - basic.errors} of {rate.errors} word errors"
        rates = f"with --normalizer {BASIC.name}, %WER is {basic.wer:.2f} instead of {rate.wer:.2f}"
        current_console().say(f"warning: {count} are differences in case, punctuation or hyphens; {rates}")
    return lexical


def _are_lattices(inputs: Inputs) -> bool:
    """Return whether the sources contain lattices rather than transcripts.

    Raises:
        OptionError: Some sources contain lattices, but others contain transcripts.
    """
    first_files = {name: inputs.sources.of(name)[0] for name in inputs.places}
    lattices = [name for name, file in first_files.items() if holds_lattices(file)]
    for name, file in first_files.items() if lattices else ():
        if name not in lattices and os.path.isfile(name) and file.holds in ("nothing", "companion"):
            raise OptionError(
                f"{lattices[0]} contains lattices, but {name} contains transcripts; score them separately"
            )
    return inputs.places[0] in lattices


def _check(reference: str) -> set[str]:
    """Check that the reference is a file and that options are compatible; return the options on the command line."""
    if os.path.isdir(reference):
        raise OptionError(f"{reference} is a folder, but REFERENCE must be a text file, followed by SOURCE")
    named = set(
        given_on_command_line([parameter.name or "" for parameter in click.get_current_context().command.params])
    )
    for name, others in _EXCLUDED.items():
        for other in others:
            if {name, other} <= named:
                raise click.UsageError(f"{name} cannot be used with {other}")
    for name in ("--utt2group", "--truth", "--before", "--vocabulary", "--report"):
        if name in named and "--entities" not in named:
            raise click.UsageError(f"{name} requires --entities")
    return named


def _unreadable(inputs: Inputs) -> NinjaError | None:
    """Return the first error if no lattice can be read from the inputs, or None if at least one can be read.

    A file with the extension of a lattice format may contain transcripts, in which case no lattice can be read.
    """
    failures: list[NinjaError] = []
    for _ in inputs.read(failures.append):
        return None
    return failures[0] if failures else None


def _may_be_stm(path: str) -> bool:
    """Return whether a file is or could be in STM format; a file that can be read only once is not checked."""
    return not os.path.isfile(path) or is_stm(list(read_fields(path)), path)


def _filters(
    ignore: tuple[str, ...], filter: str | None, hyp_filter: str | None, glm: GlobalMapping | None
) -> tuple[WordFilter, WordFilter]:
    """Return ``(filter for references, filter for hypotheses)``, to be applied to transcripts before scoring."""
    both = WordFilter(filter, glm, frozenset(ignore))
    return both, both if hyp_filter is None else replace(both, script=hyp_filter)


def _detail(
    references: Mapping[str, Sequence[str]],
    hypotheses: Mapping[str, Sequence[str]],
    mode: Mode,
    utt2spk: str | None,
    most_often: int | None,
    per_utt: str | None,
    ops: str | None,
) -> None:
    """Print or write the requested details in the formats of Kaldi's scoring scripts."""
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


def _references_of(lists: dict[str, BiasingList]) -> dict[str, Sequence[str]]:
    """Return the references, by key, from a biasing list in the format of the LibriSpeech biasing benchmark."""
    texts = {key: entry.text for key, entry in lists.items()}
    if missing := [key for key, text in texts.items() if text is None]:
        raise FormatError("the biasing list contains no text; use another file as REFERENCE", key=missing[0])
    return {key: text for key, text in texts.items() if text is not None}


def _score_entities(
    inputs: Inputs,
    references: Mapping[str, Sequence[str]],
    hypotheses: Mapping[str, Sequence[str]],
    entities: str,
    mode: Mode,
    normalizer: Normalizer,
    *,
    utt2group: str | None,
    truth: str | None,
    before: Texts | None = None,
    vocabulary: str | None,
    report: str | None,
) -> ErrorRate:
    # A symbol table that grows with the words of lattices is not a vocabulary.
    table = SymbolTable.read(vocabulary) if vocabulary is not None else inputs.table() if inputs.words else None
    groups = None if utt2group is None else read_speakers(utt2group)
    listed = Entities.read(entities, words=table, groups=groups, guard=inputs.guard)
    for problem in listed.problems:
        current_console().say(problem)
    scores = score_entities(
        references,
        hypotheses,
        listed.phrases(references),
        truth=None if truth is None else read_truth(truth),
        before=before,
        words=table,
        mode=mode,
        normalizer=normalizer,
    )
    click.echo(str(scores))
    if report is not None:
        with text_output(report) as stream:
            json.dump(scores.as_dict(), stream, ensure_ascii=False, indent=1)
            stream.write("\n")
    return scores.overall


def _transcripts(inputs: Inputs, cut: Segments | None) -> dict[str, list[str]]:
    transcripts: dict[str, list[str]] = {}
    for path in inputs.places:
        try:
            part = transcripts_of(list(fields_of(inputs.sources.text(path))), path, cut)
        except FormatError as error:
            error.message += "; if SOURCE contains lattices, use --words"
            raise
        if repeated := transcripts.keys() & part.keys():
            raise FormatError("the key also occurs in another file; remove one occurrence", path, key=min(repeated))
        transcripts |= part
    return transcripts
