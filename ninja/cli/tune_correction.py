"""The command ``ninja tune --correct``, which chooses the threshold for corrections."""

from __future__ import annotations

import shlex

import click

from ninja.cli.command import refuse_all_but
from ninja.cli.main import current_console
from ninja.cli.options import section, write_config
from ninja.cli.tune_context import OF_INPUT, changed_options
from ninja.context.correction.options import CorrectOptions
from ninja.context.correction.stage import Correcting, Correction
from ninja.context.settings import Context
from ninja.errors import OptionError
from ninja.evaluate import read_text
from ninja.io.inputs import Inputs
from ninja.lattice import Scales
from ninja.lattice.text import BASIC
from ninja.pipeline.transcripts import detect_transcripts
from ninja.rescoring.algorithms import RescoreOptions
from ninja.tune.correction import tune_correction

PRONUNCIATIONS = ("letters_only", "lexicon", "confusion")
OF_CORRECTIONS = OF_INPUT | {"entities", "utt2group", "correct", "max_false_corrections", *PRONUNCIATIONS}

correction_options = section(
    "Tuning of corrections",
    click.option("--correct", is_flag=True, help="Choose the threshold of `ninja correct`; requires --entities."),
    click.option(
        "--max-false-corrections",
        type=click.FloatRange(0, 1, min_open=True, max_open=True),
        default=0.01,
        help="Change at most this fraction of the utterances that contain no phrases. The limit holds with 95% "
        "confidence for a new set of the same size as SOURCE.",
    ),
)


def tune_threshold(
    inputs: Inputs,
    ref: str,
    context: Context | None,
    options: RescoreOptions,
    max_false_corrections: float,
    output_file: str,
) -> None:
    """Choose the threshold for corrections and write it to a file for ``ninja correct --config``."""
    if context is None:
        raise OptionError("--correct requires --entities, the phrases of the utterances")
    refuse_all_but(OF_CORRECTIONS, "--correct chooses only the correction threshold")
    inputs.format = inputs.format or detect_transcripts(inputs)
    inputs.needs_words = True
    scales = Scales(options.acoustic_scale, 1.0, options.word_penalty)
    normalizer = BASIC if options.normalizer == "auto" else options.normalizer
    sounds = context.augmentation
    assert sounds is not None
    correcting = Correcting(
        context.entities,
        context.groups,
        CorrectOptions(0.0, sounds.letters_only),
        sounds.lexicon,
        sounds.confusion,
        normalizer,
        scales,
        guard=context.guard,
    )
    with current_console().progress("utterances", by_reading=True):
        tuned = tune_correction(
            inputs.lattices(), read_text(ref), Correction(correcting), max_false_corrections, inputs.log
        )
    if tuned.bound is None:
        current_console().say(f"{tuned.summary}; no options are written")
        click.get_current_context().exit(1)
    arguments = [*inputs.places, "--ref", ref, "--entities", str(context.entities), "--correct"]
    command = shlex.join(["ninja", "tune", *arguments, "--max-false-corrections", f"{max_false_corrections:g}"])
    values = {"threshold": tuned.bound.threshold, **changed_options(sounds, PRONUNCIATIONS)}
    write_config(output_file, values, [command, tuned.summary])
    current_console().close(f"{tuned.summary}, {current_console().seconds:.1f} s")
