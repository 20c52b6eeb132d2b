"""The command ``ninja tune --confidence``, which fits a confidence model."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

import click

from ninja.cli.command import Command, NamedFile, given_on_command_line, refuse_all_but, refuse_without
from ninja.cli.confidence import unboosted_option
from ninja.cli.confident_words import unboosted_lattices
from ninja.cli.main import current_console
from ninja.cli.normalizer import lexical_forms
from ninja.cli.options import reads, section
from ninja.cli.source import fitting_acoustic_scale
from ninja.cli.tune_context import OF_INPUT
from ninja.errors import OptionError, counted
from ninja.evaluate import read_text
from ninja.files.output import text_output
from ninja.io.inputs import Inputs
from ninja.lattice import Scales
from ninja.lm.load import load
from ninja.lm.surprise import WordSurprise, name_of_lm
from ninja.rescoring.algorithms import RescoreOptions
from ninja.tune.confidence import Method, tune_confidence

# Options of `ninja tune` that apply to the fit of a confidence model.
OF_FIT = OF_INPUT | {"utt2spk", "confidence", "confidence_map", "confidence_lm", "unboosted"}


@dataclass(frozen=True, slots=True)
class ConfidenceFit:
    """The options of ``ninja tune --confidence``."""

    map: Method  # type of the map
    lm: str | None  # language model for the surprisals of words
    unboosted: str | None  # lattices before words were boosted

    def run(
        self,
        inputs: Inputs,
        ref: str,
        options: RescoreOptions,
        speakers: Mapping[str, str] | None,
        output_file: str,
    ) -> None:
        """Fit a confidence model and write it."""
        refuse_all_but(OF_FIT, "--confidence fits a confidence model, not rescoring weights")
        if self.map == "monotone" and (wrong := given_on_command_line(["confidence_lm", "unboosted"])):
            raise OptionError(f"a monotone map uses posteriors only; omit {', '.join(wrong)}")
        references = read_text(ref)
        inputs.need_table().complete()
        scales = Scales(fitting_acoustic_scale(inputs, options.acoustic_scale), word_penalty=options.word_penalty)
        console = current_console()
        with console.progress("lattices", by_reading=True):
            tuned = tune_confidence(
                inputs.lattices(),
                references,
                scales,
                method=self.map,
                surprise=None if self.lm is None else WordSurprise(load(self.lm)),
                lm=None if self.lm is None else name_of_lm(self.lm),
                unboosted=unboosted_lattices(inputs, self.unboosted),
                speakers=speakers,
                forms=lexical_forms(options.normalizer),
                log=inputs.log,
            )
        line = f"ninja tune --confidence {shlex.join(inputs.places)} --ref {shlex.quote(ref)}"
        with text_output(output_file) as stream:
            stream.write(tuned.model.text([line, *tuned.evidence]))
        for text in tuned.evidence:
            console.say(text)
        console.close(f"map: {tuned.model.map}; {counted(tuned.num_lattices, 'lattice')}, {console.seconds:.1f} s")


def fits_confidences(command: Command) -> Command:
    """Add the options for fitting a confidence model; the command receives ``fit`` (None without --confidence)."""

    @section(
        "Tuning of confidences",
        click.option("--confidence", is_flag=True, help="Fit a confidence model instead of tuning weights."),
        click.option(
            "--confidence-map",
            type=click.Choice(get_args(Method)),
            default="logistic",
            help="With --confidence: type of calibration map; monotone uses only posteriors and preserves their order.",
        ),
        reads(
            "--confidence-lm",
            "With --confidence: add the word surprisals of a language model, such as english-ngram, as features.",
            kind=NamedFile(),
        ),
        unboosted_option,
    )
    @functools.wraps(command)
    def collected(
        confidence: bool, confidence_map: Method, confidence_lm: str | None, unboosted: str | None, **options: Any
    ) -> None:
        if not confidence:
            refuse_without("--confidence", ["confidence_map", "confidence_lm", "unboosted"])
        fit = ConfidenceFit(confidence_map, confidence_lm, unboosted) if confidence else None
        command(fit=fit, **options)

    return collected
