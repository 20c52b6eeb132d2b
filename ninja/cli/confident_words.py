"""Write words with their confidences."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import click
import numpy as np
import numpy.typing as npt

from ninja import graph
from ninja.cli.confidence import ConfidenceSettings
from ninja.cli.main import current_console
from ninja.cli.normalizer import lexical_forms
from ninja.cli.options import DEFAULT_FRAME_SHIFT
from ninja.cli.source import results, say_default
from ninja.consensus import Consensus, mbr_decode
from ninja.consensus.confidence_model import read_confidence_model
from ninja.consensus.word_confidences import WordConfidenceEstimator, with_confidences
from ninja.errors import OptionError
from ninja.files.output import text_output
from ninja.formats.word_json import word_entries
from ninja.io.inputs import Inputs
from ninja.io.lookup import Lookup
from ninja.lattice import Lattice, Scales
from ninja.lattice.batch import Batch
from ninja.lattice.symbols import EPSILON, SymbolTable
from ninja.lattice.text import AUTO, LexicalForms
from ninja.pipeline.execution import OnBatches

if TYPE_CHECKING:
    from ninja.cli.phrase_tags import PhraseTags

CACHED = 512  # maximum number of cached lattices without boosts
Confident = tuple[Consensus, npt.NDArray[np.float64] | None]  # see `with_confidences`


@dataclass(slots=True)
class UnboostedLattices:
    """Thread-safe lookup of lattices by key; a lattice can be looked up again only while it is cached."""

    lookup: Lookup
    _recent: OrderedDict[str, Lattice | None] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, key: str) -> Lattice | None:
        """Return the lattice with a key, or None if the key does not exist."""
        with self._lock:
            if key not in self._recent:
                self._recent[key] = self.lookup.get(key)
                if len(self._recent) > CACHED:
                    self._recent.popitem(last=False)
            return self._recent[key]


def unboosted_lattices(inputs: Inputs, name: str | None) -> Callable[[str], Lattice | None] | None:
    """Open the lattices without boosts for lookup by key; return None if the name is None."""
    return None if name is None else UnboostedLattices(inputs.lookup(name))


def confidence_estimator(
    settings: ConfidenceSettings, inputs: Inputs, scales: Scales, *, combined: bool = False
) -> WordConfidenceEstimator | None:
    """Load the models of a confidence estimator and open the lattices without boosts.

    Args:
        combined: Whether lattices from several systems are combined and decoded.

    Returns:
        The estimator, or None if no option is set; the confidences are then posteriors.
    """
    if settings.lm is not None and settings.model is None:
        raise click.UsageError("--confidence-lm requires --confidence")
    if not settings.are_set:
        return None
    if combined:
        raise click.UsageError("--confidence and --unboosted cannot be used with --with")
    model = surprise = None
    if settings.model is not None:
        model = read_confidence_model(settings.model)
        if model.needs_unboosted and settings.unboosted is None:
            raise OptionError(
                "the confidence model uses posteriors without boosts; specify the unboosted lattices with --unboosted"
            )
        if model.scales != scales:
            current_console().note(
                f"the confidence model was fitted with {model.scales}; confidences may be wrong with {scales}"
            )
        if model.needs_lm or settings.lm is not None:
            from ninja.lm.surprise import surprise_of_model

            surprise = surprise_of_model(model, settings.lm)
    return WordConfidenceEstimator(model, surprise, unboosted_lattices(inputs, settings.unboosted))


def json_words(confident: Confident, table: SymbolTable | None, shift: float) -> dict[str, Any]:
    """Return the text and the words of a decoding result as fields of a JSON object."""
    result, without_boosts = confident
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


def write_best_words(
    inputs: Inputs,
    confidence: ConfidenceSettings,
    scales: Scales,
    json_file: str,
    output_file: str,
    phrases: PhraseTags | None,
) -> None:
    """Write the best transcript of each lattice as text and as a JSON line.

    A JSON line contains the words of the transcript with their confidences. If ``phrases`` is set, the phrases in the
    transcript are tagged in the text and listed in the JSON line.
    """
    if output_file == json_file:
        raise click.UsageError(f"-o and --json are both {json_file}; give them different names")
    inputs.needs_words = True
    estimator = confidence_estimator(confidence, inputs, scales) or WordConfidenceEstimator()
    lines = partial(best_words, scales=scales, forms=lexical_forms(AUTO), estimator=estimator)
    with text_output(output_file) as text, text_output(json_file) as stream:
        for key, fields in results(OnBatches(lines), inputs, to_stdout="-" in (output_file, json_file)):
            line = fields["text"]
            if phrases is not None:
                line, fields["phrases"] = phrases.tagged(key, [entry["word"] for entry in fields["words"]])
            text.write(f"{key} {line}".rstrip() + "\n")
            stream.write(json.dumps({"key": key, **fields}, ensure_ascii=False) + "\n")
    say_default(inputs)
    current_console().close()


def best_words(
    batch: Batch, scales: Scales, forms: LexicalForms, estimator: WordConfidenceEstimator
) -> list[dict[str, Any]]:
    """Return the text and the words of the best path of each lattice as fields of a JSON object."""
    words = [graph.best_path(lattice, scales).words for lattice in batch]
    networks = mbr_decode(batch, scales, decode_mbr=False, hypothesis=words)
    confident = with_confidences(networks, batch, estimator, scales, forms=forms)
    return [
        json_words(result, lattice.words, lattice.frame_shift or DEFAULT_FRAME_SHIFT)
        for lattice, result in zip(batch, confident, strict=True)
    ]
