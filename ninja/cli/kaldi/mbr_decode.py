"""The commands ``ninja mbr-decode`` (consensus decoding) and ``ninja confidence`` (sentence confidence)."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, NoReturn

import click
import numpy as np
import numpy.typing as npt

from ninja import consensus
from ninja.cli.command import OutputFolder, refuse_without
from ninja.cli.confidence import ConfidenceSettings, confidence_options
from ninja.cli.confident_words import Confident, confidence_estimator, json_words
from ninja.cli.kaldi.joined import combines_systems
from ninja.cli.kaldi.options import shown_words, word_symbol_table_option
from ninja.cli.main import current_console
from ninja.cli.normalizer import lexical_forms, normalizer_option
from ninja.cli.options import (
    DEFAULT_FRAME_SHIFT,
    KNOWN_SHIFT,
    command,
    frame_shift_option,
    output_file,
    section,
    switch,
    writes,
)
from ninja.cli.source import reads_lattices, results, scales
from ninja.consensus import Consensus
from ninja.consensus.ctm import NO_TIMES
from ninja.consensus.word_confidences import WordConfidenceEstimator, with_confidences
from ninja.errors import LatticeError, counted
from ninja.files.output import reported, text_output
from ninja.files.stream import SPECIFIER, Guard
from ninja.formats.mesh import write_mesh
from ninja.formats.network_json import write_network
from ninja.io.inputs import Inputs
from ninja.io.number_tables import NumberWriter
from ninja.lattice import Lattice, Scales
from ninja.lattice.batch import Batch
from ninja.lattice.text import NONE, LexicalForms
from ninja.pipeline.execution import OnBatches
from ninja.pipeline.stages import OnLattices, Pairs

OUTPUTS = ("bayes_risk", "sausage", "times", "mesh_dir", "json_file")
INFINITE_COST = 1e10  # written instead of infinity, as in Kaldi


class DecodingResult(NamedTuple):
    """Minimum Bayes risk word sequence of a lattice, and the formatted outputs."""

    words: npt.NDArray[np.int32]
    bayes_risk: float  # expected number of word errors
    touches_band: bool  # whether the result is approximate
    outputs: dict[str, Any]  # formatted content by name of the output option


def decode(
    batch: Batch,
    scales: Scales,
    forms: LexicalForms,
    one_best_times: bool,
    frame_shift: float | None,
    requested: Sequence[str],
    estimator: WordConfidenceEstimator | None = None,
    **how: Any,
) -> list[DecodingResult]:
    """Decode the lattices in a batch, and format the requested outputs.

    Args:
        one_best_times: Format the times of the decoded words instead of the times of all bins.
        frame_shift: Seconds per frame; None uses the frame shift of each lattice, or the default if it has none.
        requested: Names of the requested outputs, which are elements of `OUTPUTS`.
        estimator: Estimator for the confidences of decoded words; None omits these words from the JSON output.
        how: Additional arguments of `consensus.mbr_decode`.
    """
    results = consensus.mbr_decode(batch, scales, forms=forms.common_table(batch), **how)
    confident: Sequence[Confident | None] = [None] * len(results)
    if estimator is not None:
        confident = with_confidences(results, batch, estimator, scales, forms=forms)
    format_one = partial(_format, one_best_times=one_best_times, frame_shift=frame_shift, requested=requested)
    return list(map(format_one, batch, results, confident))


def _format(
    lattice: Lattice,
    result: Consensus,
    confident: Confident | None,
    one_best_times: bool,
    frame_shift: float | None,
    requested: Sequence[str],
) -> DecodingResult:
    if "mesh_dir" in requested:
        _check_file_name(lattice.key)
    if "times" in requested and len(result.words) and not result.bin_times.max(initial=0) > 0:
        raise LatticeError(NO_TIMES, key=lattice.key)
    table = result.symbols or lattice.words
    network = None
    shift = frame_shift or lattice.frame_shift or DEFAULT_FRAME_SHIFT
    if "mesh_dir" in requested or "json_file" in requested:
        network = consensus.confusion_network(result, shift, table)
    outputs: dict[str, Any] = {}
    for name in requested:
        if name == "bayes_risk":
            outputs[name] = result.bayes_risk
        elif name == "sausage":
            outputs[name] = _sausage(result)
        elif name == "times":
            outputs[name] = _times(result.times if one_best_times else result.bin_times)
        elif network is not None and name == "mesh_dir":
            outputs[name] = write_mesh(consensus.without_empty_bins(network))
        elif network is not None:
            words = None if confident is None else json_words(confident, table, shift)
            outputs[name] = write_network(network, words)
    if table is None:
        outputs["ids"] = result.words
    else:
        outputs["words"] = [table.word(word) for word in result.words.tolist()]
    return DecodingResult(result.words, result.bayes_risk, result.touches_band, outputs)


@command
@switch("--decode-mbr", True, "Minimise the expected word error instead of keeping the words of the best path.")
@switch("--print-silence", False, "Print id 0 for bins (of the confusion network) in which epsilon is most probable.")
@frame_shift_option(f"Seconds per frame, for --mesh-dir and --json.  {KNOWN_SHIFT}")
@normalizer_option
@section(
    "Input and output",
    output_file("Text file for the word sequences, or ark:FILE for a binary table of word ids"),
    writes("--bayes-risk", "Write the expected number of word errors of each lattice."),
    writes("--sausage", "Write the confusion network of each lattice, with word ids and posteriors."),
    writes("--times", "Write the start and end of each bin, in frames."),
    switch(
        "--one-best-times", False, "Write the times of the decoded words to --times, instead of the times of all bins."
    ),
    writes("--mesh-dir", "Write confusion networks to DIR/KEY.mesh as SRILM word meshes.", kind=OutputFolder()),
    writes("--json", "Write confusion networks as JSON, one per line.", "json_file"),
    word_symbol_table_option,
)
@confidence_options
@combines_systems
def mbr_decode(
    inputs: Inputs,
    output_file: str,
    word_symbol_table: str | None,
    lattices: Pairs | None,
    normalizer: str,
    confidence: ConfidenceSettings,
    scales: Scales,
    **values: Any,
) -> None:
    """Print the minimum Bayes risk word sequence of each lattice.

    This is the word sequence with the lowest expected word error. Each line contains a key and its words, or word ids
    if there is no symbol table. With --with, the lattices of several systems are first combined, as in `ninja combine`.
    Times are correct only if each arc has the transition ids of its word (see `ninja align-words`).

    With a normalizer, words are compared by their lexical forms, and printed in their most probable written forms.

    With --confidence or --unboosted, each line of --json also contains the decoded words with their times and
    confidences. With --unboosted, it also contains their confidences without boosts.

    \b
    Examples:
      ninja mbr-decode lat.ark.gz --words words.txt --acoustic-scale 0.1
      ninja mbr-decode lat.ark.gz --words words.txt --acoustic-scale 0.1 --confidence model.toml --json words.json
      ninja mbr-decode a.ark --with b.ark --lat-weights 0.6:0.4 --acoustic-scale 0.1
    """
    files = {name: file for name in OUTPUTS if (file := values.pop(name)) is not None}
    if confidence.are_set and "json_file" not in files:
        raise click.UsageError("--confidence and --unboosted require --json; other outputs contain no confidences")
    if not {"mesh_dir", "json_file"} & files.keys():
        refuse_without("--mesh-dir or --json", ["frame_shift"])
    if "times" not in files:
        refuse_without("--times", ["one_best_times"])
    estimator = confidence_estimator(confidence, inputs, scales, combined=lattices is not None)
    if word_symbol_table is None and not SPECIFIER.fullmatch(output_file):  # a wspecifier selects word ids
        inputs.needs_words = True
    show = shown_words(current_console(), word_symbol_table)
    read = None if lattices is None else lambda _: lattices
    risk, words, approximate = 0.0, 0, []
    with ExitStack() as stack:
        transcripts = stack.enter_context(NumberWriter(output_file))
        write = {name: _writer(stack, name, file, inputs.guard) for name, file in files.items()}
        write |= {"words": transcripts.fields, "ids": transcripts.integers}
        values |= {"forms": lexical_forms(normalizer), "requested": tuple(files), "estimator": estimator}
        decoding = partial(decode, scales=scales, **values)
        for key, result in results(OnBatches(decoding), inputs, read=read, to_stdout=output_file == "-"):
            for name, output in result.outputs.items():
                write[name](key, output)
            show(key, result.words.tolist())
            risk += result.bayes_risk
            words += len(result.words)
            approximate += [key] * result.touches_band
    close_with_risk(inputs, risk, words, approximate)


def _writer(stack: ExitStack, name: str, file: str, guard: Guard | None) -> Callable[[str, Any], object]:
    """Open an output and return a function that writes the result for a lattice to this output."""
    if name == "mesh_dir":
        with reported(file, "created"):
            os.makedirs(file, exist_ok=True)
        return partial(_write_mesh, file, guard)
    if name == "json_file":
        stream = stack.enter_context(text_output(file))
        return lambda key, text: stream.write(text)
    table = stack.enter_context(NumberWriter(file))
    return table.number if name == "bayes_risk" else table.fields


def close_with_risk(inputs: Inputs, risk: float, words: int, approximate: list[str]) -> NoReturn:
    """Print the keys of approximate results, the number of lattices and their average Bayes risk, and exit."""
    console = current_console()
    console.say_keys(
        approximate,
        "lattices are too long for an exact result; their confidences are approximate",
        "lattice is too long for an exact result; its confidences are approximate",
    )
    count = inputs.log.lattices
    average, per_word = risk / max(count, 1), risk / max(words, 1)
    console.close(
        f"{counted(count, 'lattice')}, average Bayes risk per sentence {average:.6g}, per word {per_word:.6g}"
    )


def sentence_confidence(lattice: Lattice, scales: Scales, forms: LexicalForms) -> float:
    """Return the cost difference between the two best sequences of lexical words, or infinity for a single sequence."""
    return consensus.sentence_confidence(lattice, scales, forms=forms.table(lattice))


@command
@scales
@normalizer_option
@output_file("Text file for the cost differences, or ark:FILE for a binary table")
@reads_lattices
def confidence(inputs: Inputs, output_file: str, scales: Scales, normalizer: str) -> None:
    """Print the cost difference between the two best word sequences of each lattice.

    Each line contains a key and the cost difference, which is 1e+10 if there is only one word sequence.

    \b
    Example:
      ninja confidence lat.ark.gz --acoustic-scale 0.1
    """
    inputs.needs_words = normalizer != NONE.name
    difference_of = partial(sentence_confidence, scales=scales, forms=lexical_forms(normalizer))
    single, probability = 0, 0.0
    with NumberWriter(output_file) as table:
        for key, difference in results(OnLattices(difference_of), inputs, to_stdout=output_file == "-"):
            single += math.isinf(difference)
            probability += math.exp(-difference)
            table.number(key, min(difference, INFINITE_COST))
    count = inputs.log.lattices
    average = f", average cost difference {-math.log(probability / count):.6g}" if probability > 0.0 else ""
    current_console().close(f"{counted(count, 'lattice')}, {single} of them with a single word sequence{average}")


def _sausage(result: Consensus) -> list[str]:
    """Format bins like Kaldi's ``Posterior``."""
    entry = [f"{word} {posterior:.7g} " for word, posterior in zip(result.word, result.posterior.tolist(), strict=True)]
    return [
        *(f"[ {''.join(entry[first:end])}]" for first, end in pairwise(result.bin_begin.tolist())),
        "",  # adds the final space that Kaldi writes
    ]


def _times(times: npt.NDArray[np.float32]) -> list[str]:
    """Format the start and end of each bin or word, in frames, in Kaldi's text format for pairs of floats."""
    return [" ; ".join([f"{begin:.7g} {end:.7g}" for begin, end in times.tolist()]), ""]


def _check_file_name(key: str) -> None:
    if os.path.basename(key) != key or key in (os.curdir, os.pardir) or "\0" in key:
        raise LatticeError("the key is not a valid file name; use --json instead of --mesh-dir", key=key)


def _write_mesh(folder: str, guard: Guard | None, key: str, text: str) -> None:
    with text_output(os.path.join(folder, f"{key}.mesh"), guard) as stream:
        stream.write(text)
