"""Commands that print words with times: ``to-ctm-conf``, ``nbest-to-ctm`` and ``nbest-to-prons``."""

from __future__ import annotations

from functools import partial
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from ninja.cli.confidence import ConfidenceSettings, confidence_options
from ninja.cli.confident_words import confidence_estimator
from ninja.cli.kaldi.joined import combines_systems
from ninja.cli.kaldi.mbr_decode import close_with_risk
from ninja.cli.kaldi.options import model_option
from ninja.cli.kaldi.paths import check_only_path
from ninja.cli.main import current_console
from ninja.cli.normalizer import lexical_forms, normalizer_option
from ninja.cli.options import DEFAULT_FRAME_SHIFT, KNOWN_SHIFT, command, frame_shift_option, output_file, reads, switch
from ninja.cli.source import reads_lattices, results, run_lines
from ninja.consensus import Consensus, consensus_ctm, mbr_decode, path_ctm
from ninja.consensus.word_confidences import WordConfidenceEstimator, with_confidences
from ninja.errors import LatticeError
from ninja.files.output import text_output
from ninja.graph import pronunciations, to_compact
from ninja.io.inputs import Inputs
from ninja.io.number_tables import read_integers
from ninja.lattice import Lattice, Scales
from ninja.lattice.batch import Batch
from ninja.lattice.text import LexicalForms
from ninja.lattice.times import check_labelled
from ninja.lattice.transition_model import TransitionModel
from ninja.pipeline.execution import OnBatches
from ninja.pipeline.stages import Pairs


def word_lines(
    batch: Batch,
    scales: Scales,
    decode_mbr: bool,
    print_silence: bool,
    frame_shift: float | None,
    hypotheses: dict[str, npt.NDArray[np.int32]] | None,
    hypotheses_file: str | None,
    forms: LexicalForms,
    estimator: WordConfidenceEstimator | None = None,
) -> list[tuple[str, Consensus]]:
    """Decode the lattices in a batch; return ``(CTM lines, consensus)`` for each lattice.

    Args:
        hypotheses: Initial word ids for decoding, by key; if None, decoding starts from the best paths.
        hypotheses_file: Name of the file that contains `hypotheses`, for error messages.
        estimator: Estimator that computes the confidences; None prints posteriors.
    """
    start = None
    if hypotheses is not None:
        for key in batch.keys:
            if key not in hypotheses:
                raise LatticeError(f"{hypotheses_file} has no words for this key", key=key)
        start = [hypotheses[key] for key in batch.keys]
    table = forms.common_table(batch)
    how: dict[str, Any] = {"decode_mbr": decode_mbr, "print_silence": print_silence}
    results = mbr_decode(batch, scales, hypothesis=start, forms=table, **how)
    if estimator is not None:
        results = [result for result, _ in with_confidences(results, batch, estimator, scales, forms=forms)]
    return [
        (consensus_ctm(result, _frame_shift(lattice, frame_shift), result.symbols or lattice.words), result)
        for lattice, result in zip(batch, results, strict=True)
    ]


@command
@frame_shift_option(f"Seconds per frame; 0.03 for chain models.  {KNOWN_SHIFT}")
@switch("--decode-mbr", True, "Minimise the expected word error instead of keeping the words of the best path.")
@switch("--print-silence", False, "Also print bins (of the confusion network) in which epsilon is most probable.")
@reads("--one-best", "Table of word ids; start decoding from these word sequences instead of the best paths.")
@normalizer_option
@output_file("CTM file")
@confidence_options
@combines_systems
def to_ctm_conf(
    inputs: Inputs,
    output_file: str,
    lattices: Pairs | None,
    one_best: str | None,
    normalizer: str,
    confidence: ConfidenceSettings,
    scales: Scales,
    **values: Any,
) -> None:
    """Print the words of lattices with times and confidences, as CTM.

    Each line contains the key, channel 1, the start and duration in seconds, the word, and its confidence. Times are
    correct only if each arc has the transition ids of its word (see `ninja align-words`).

    With a normalizer, words are compared by their lexical forms, and printed in their most probable written forms.

    The confidence is the posterior of the word or, with --confidence, the calibrated probability that the word is
    correct.

    \b
    Examples:
      ninja to-ctm-conf aligned.ark.gz --words words.txt --acoustic-scale 0.1 -o words.ctm
      ninja to-ctm-conf aligned.ark.gz --words words.txt --acoustic-scale 0.1 --confidence model.toml -o words.ctm
    """
    hypotheses = None if one_best is None else dict(read_integers(one_best, allow_pipes=inputs.allow_pipes))
    inputs.needs_words = True
    forms = lexical_forms(normalizer)
    how: dict[str, Any] = {"hypotheses": hypotheses, "hypotheses_file": one_best, "scales": scales}
    estimator = confidence_estimator(confidence, inputs, scales, combined=lattices is not None)
    if confidence.unboosted is not None and (
        estimator is None or estimator.model is None or not estimator.model.needs_unboosted
    ):
        raise click.UsageError("--unboosted requires a confidence model that uses it; CTM has one confidence per word")
    lines = partial(word_lines, **how, forms=forms, estimator=estimator, **values)
    risk, words, approximate = 0.0, 0, []
    read = None if lattices is None else lambda _: lattices
    with text_output(output_file) as stream:
        for key, (text, result) in results(OnBatches(lines), inputs, read=read, to_stdout=output_file == "-"):
            stream.write(text)
            risk += result.bayes_risk
            words += len(result.words)
            approximate += [key] * result.touches_band
    close_with_risk(inputs, risk, words, approximate)


def path_lines(batch: Batch, frame_shift: float | None, precision: int, print_silence: bool) -> list[str]:
    """Return the CTM lines for each single-path lattice."""
    return [
        path_ctm(lattice, _frame_shift(lattice, frame_shift), precision, lattice.words, print_silence=print_silence)
        for lattice in batch
    ]


def _frame_shift(lattice: Lattice, frame_shift: float | None) -> float:
    """Return ``frame_shift`` if it is set, and otherwise the frame shift of the lattice or the default, in seconds."""
    return frame_shift or lattice.frame_shift or DEFAULT_FRAME_SHIFT


@command
@frame_shift_option(f"Seconds per frame; 0.03 for chain models.  {KNOWN_SHIFT}")
@click.option("--precision", type=click.IntRange(0, 100), default=2, help="Decimal places of times.")
@switch("--print-silence", False, "Also print segments without a word, as <eps> or, without a symbol table, as 0.")
@output_file("CTM file")
@reads_lattices
def nbest_to_ctm(
    inputs: Inputs, output_file: str, frame_shift: float | None, precision: int, print_silence: bool
) -> None:
    """Print the words of single-path lattices with times, as CTM.

    Each line contains the key, channel 1, the start and duration in seconds, and the word. Each arc must have the
    transition ids of its word: write the best paths with `ninja 1best`, then align them with `ninja align-words`.

    \b
    Example:
      ninja nbest-to-ctm aligned.ark.gz --words words.txt --frame-shift 0.03 -o words.ctm
    """
    inputs.needs_words = True
    lines = partial(path_lines, frame_shift=frame_shift, precision=precision, print_silence=print_silence)
    run_lines(lines, inputs, output_file)
    current_console().close_counting(unit="path")


def pronunciation_lines(batch: Batch, model: TransitionModel, *, lengths: bool) -> list[str]:
    """Return the output for each single-path lattice, with one line per word that lists the phones of the word."""
    return [_pronunciation_lines(lattice, model, lengths=lengths) for lattice in batch]


def _pronunciation_lines(lattice: Lattice, model: TransitionModel, *, lengths: bool) -> str:
    check_labelled(lattice)
    lines = []
    for entry in pronunciations(to_compact(check_only_path(lattice)), model):
        length = ",".join(map(str, entry.lengths)) if lengths else str(sum(entry.lengths))
        word = str(entry.word) if lattice.words is None else lattice.words.word(entry.word)
        lines.append(" ".join([lattice.key, str(entry.begin), length, word, *map(str, entry.phones)]) + "\n")
    return "".join(lines)


@command
@model_option
@switch(
    "--print-lengths-per-phone",
    False,
    "Print the frame count of each phone, separated by commas, instead of their sum.",
)
@output_file("Text file for the pronunciations")
@reads_lattices
def nbest_to_prons(inputs: Inputs, output_file: str, model: TransitionModel, print_lengths_per_phone: bool) -> None:
    """Print the phones of each word in single-path lattices.

    Each line contains the key, the first frame, the number of frames, the word (or its id if there is no symbol table),
    and phone ids. The lattices must be word-aligned (see `ninja align-words`).

    \b
    Example:
      ninja nbest-to-prons aligned.ark.gz --model final.mdl -o 1.prons
    """
    run_lines(partial(pronunciation_lines, model=model, lengths=print_lengths_per_phone), inputs, output_file)
    current_console().close_counting()
