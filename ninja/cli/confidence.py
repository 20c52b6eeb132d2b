"""Options for calibrated confidences, and ``ninja tune --confidence``."""

from __future__ import annotations

import functools
import os
import shlex
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

import click
import numpy as np

from ninja.cli.console import current_console, lexical_forms
from ninja.cli.files import Lattices
from ninja.cli.options import Command, given_on_command_line, reads, section
from ninja.cli.scales import fitting_acoustic_scale
from ninja.consensus import Consensus
from ninja.consensus.confidence_model import ConfidenceModel, read_confidence_model
from ninja.consensus.word_confidences import WordConfidenceEstimator
from ninja.errors import OptionError
from ninja.evaluate import read_text
from ninja.files.output import text_output
from ninja.formats.word_json import word_entries
from ninja.io.inputs import Inputs
from ninja.io.lookup import Lookup
from ninja.lattice import Lattice, Scales
from ninja.lattice.symbols import EPSILON, SymbolTable
from ninja.lm.load import SHIPPED, load
from ninja.lm.protocol import LoadOptions
from ninja.lm.surprise import WordSurprise
from ninja.rescoring.options import RescoreOptions
from ninja.tune.confidence import Method, tune_confidence

CACHED = 512  # lattices without boosts in memory
# Options of `ninja tune` that apply to the fit of a confidence model.
OF_FIT = {
    *("source", "ref", "utt2spk", "output_file", "acoustic_scale", "word_penalty", "normalizer"),
    *("confidence", "confidence_map", "confidence_lm", "unboosted"),
    *("words", "format", "encoding", "jobs", "on_error", "allow_pipes"),
}
_unboosted = reads(
    "--unboosted",
    "The same lattices before their words were boosted, for confidences without boosts.",
    kind=Lattices(),
)


@dataclass(frozen=True, slots=True)
class ConfidenceSettings:
    """The options of confidences."""

    model: ConfidenceModel | None
    lm: str | None
    unboosted: str | None

    @property
    def are_set(self) -> bool:
        """Whether confidences differ from posteriors, or are also computed without boosts."""
        return self.model is not None or self.unboosted is not None

    def estimator(self, inputs: Inputs, scales: Scales) -> WordConfidenceEstimator:
        """Load the language model, open the lattices without boosts, and return the estimator of confidences."""
        model = self.model
        if model is None:
            if self.lm is not None:
                raise click.UsageError("--confidence-lm requires --confidence")
            return WordConfidenceEstimator(None, None, self._find(inputs))
        if self.lm is not None and not model.needs_lm:
            raise OptionError("the confidence model uses no language model; omit --confidence-lm")
        if model.needs_unboosted and self.unboosted is None:
            raise OptionError("the confidence model uses posteriors without boosts; give these lattices (--unboosted)")
        if model.scales != scales:
            current_console().note(
                f"the confidence model was fitted at {model.scales}, but words are decoded at {scales}"
            )
        surprise = None
        if model.needs_lm:
            if self.lm is None and model.lm not in SHIPPED:
                raise OptionError(f"the confidence model uses the language model {model.lm}; give it (--confidence-lm)")
            name = os.fspath(SHIPPED[model.lm]) if self.lm is None else self.lm  # type: ignore[index]
            if self.lm is not None and _name_of(self.lm) != model.lm:
                current_console().note(f"the confidence model was fitted with {model.lm}, not with {self.lm}")
            surprise = load_surprise(name, inputs.table())
        return WordConfidenceEstimator(model, surprise, self._find(inputs))

    def _find(self, inputs: Inputs) -> Callable[[str], Lattice | None] | None:
        return None if self.unboosted is None else UnboostedLattices(inputs.lookup(self.unboosted))


@dataclass(slots=True)
class UnboostedLattices:
    """Look up lattices by key from several threads; the last ones can be looked up again."""

    lookup: Lookup
    _recent: OrderedDict[str, Lattice | None] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, key: str) -> Lattice | None:
        """Return the lattice of a key, None if there is none."""
        with self._lock:
            if key not in self._recent:
                self._recent[key] = self.lookup.get(key)
                if len(self._recent) > CACHED:
                    self._recent.popitem(last=False)
            return self._recent[key]


def load_surprise(name: str, words: SymbolTable | None) -> WordSurprise:
    """Load the language model of confidences."""
    return WordSurprise(load(name, LoadOptions(words=words)))


def _name_of(lm: str) -> str:
    """Return the name under which a confidence model stores a language model."""
    return lm if lm in SHIPPED and not os.path.exists(lm) else os.path.basename(os.path.normpath(lm))


def confidence_options(command: Command) -> Command:
    """Add the options of calibrated confidences, passed to the command as ``confidence``."""

    @section(
        "Confidences",
        reads(
            "--confidence",
            "Calibrate confidences with a model that `ninja tune --confidence` has fitted.",
            load=read_confidence_model,
        ),
        reads(
            "--confidence-lm",
            "Language model of the confidence model.  [default: the shipped model that it names]",
        ),
        _unboosted,
    )
    @functools.wraps(command)
    def collected(
        confidence: ConfidenceModel | None, confidence_lm: str | None, unboosted: str | None, **options: Any
    ) -> None:
        command(confidence=ConfidenceSettings(confidence, confidence_lm, unboosted), **options)

    return collected


def json_words(
    result: Consensus, without_boosts: np.ndarray | None, table: SymbolTable | None, shift: float
) -> dict[str, Any]:
    """Return the text and the words of a result as they are printed in JSON."""
    spoken = np.flatnonzero(result.words != EPSILON)
    ids = result.words[spoken].tolist()
    words = list(map(str, ids)) if table is None else [table.word(number) for number in ids]
    is_timed = result.bin_times.max(initial=0) > 0
    entries = word_entries(
        words,
        np.clip(result.confidences[spoken].astype(np.float64), 0.0, 1.0).tolist(),
        None if without_boosts is None else without_boosts[spoken].tolist(),
        (result.times[spoken].astype(np.float64) * shift).tolist() if is_timed else None,
    )
    return {"text": " ".join(words), "words": entries}


@dataclass(frozen=True, slots=True)
class ConfidenceFit:
    """The options of ``ninja tune --confidence``."""

    map: Method
    lm: str | None
    unboosted: str | None

    def run(
        self,
        inputs: Inputs,
        ref: str,
        options: RescoreOptions,
        speakers: Mapping[str, str] | None,
        output_file: str,
    ) -> None:
        """Fit a confidence model, and write it."""
        others = {parameter.name or "" for parameter in click.get_current_context().command.params} - OF_FIT
        if wrong := given_on_command_line(others):
            raise OptionError(f"with --confidence a confidence model is fitted: omit {', '.join(wrong)}")
        if self.map == "monotone" and (wrong := given_on_command_line(["confidence_lm", "unboosted"])):
            raise OptionError(f"a monotone map uses posteriors only: omit {', '.join(wrong)}")
        references = read_text(ref)
        words = inputs.need_table()
        words.complete()
        scales = Scales(fitting_acoustic_scale(inputs, options.acoustic_scale), word_penalty=options.word_penalty)
        console = current_console()
        with console.progress("lattices", by_reading=True):
            tuned = tune_confidence(
                inputs.lattices(),
                references,
                scales,
                method=self.map,
                surprise=None if self.lm is None else load_surprise(self.lm, words),
                lm=None if self.lm is None else _name_of(self.lm),
                unboosted=None if self.unboosted is None else UnboostedLattices(inputs.lookup(self.unboosted)),
                speakers=speakers,
                forms=lexical_forms(options.normalizer),
                log=inputs.log,
            )
        line = f"ninja tune --confidence {shlex.join(inputs.places)} --ref {shlex.quote(ref)}"
        with text_output(output_file) as stream:
            stream.write(tuned.model.text([line, *tuned.evidence]))
        for text in tuned.evidence:
            console.say(text)
        console.close(f"map: {tuned.model.map}; {tuned.num_lattices} lattices, {console.seconds:.1f} s")


def fits_confidences(command: Command) -> Command:
    """Add the options of the fit of a confidence model, passed to the command as ``fit``, None without --confidence."""

    @section(
        "Tuning of confidences",
        click.option("--confidence", is_flag=True, help="Fit a confidence model instead of weights."),
        click.option(
            "--confidence-map",
            type=click.Choice(get_args(Method)),
            default="logistic",
            help="With --confidence: kind of the map; monotone uses posteriors only and keeps their order.",
        ),
        reads("--confidence-lm", "With --confidence: language model whose surprise is used, such as english-ngram."),
        _unboosted,
    )
    @functools.wraps(command)
    def collected(
        confidence: bool, confidence_map: Method, confidence_lm: str | None, unboosted: str | None, **options: Any
    ) -> None:
        if not confidence and (wrong := given_on_command_line(["confidence_map", "confidence_lm", "unboosted"])):
            raise OptionError(f"{', '.join(wrong)}: only with --confidence")
        fit = ConfidenceFit(confidence_map, confidence_lm, unboosted) if confidence else None
        command(fit=fit, **options)

    return collected
