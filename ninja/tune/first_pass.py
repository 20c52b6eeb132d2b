"""Tuning of the acoustic scale and the word penalty for lattices, without a language model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ninja.errors import Log, OptionError
from ninja.evaluate.bootstrap import Interval
from ninja.evaluate.lexical import check_texts
from ninja.graph import remove_alignments
from ninja.lattice import Lattice, Scales
from ninja.lattice.batch import Keyed, pairs
from ninja.lattice.lattice import frozen
from ninja.lattice.text import LexicalForms
from ninja.rescoring.algorithms import RescoreOptions
from ninja.tune.choice import MIN_WORDS
from ninja.tune.expected import Weights
from ninja.tune.features import Features, features
from ninja.tune.weights import Tuned, choose_repeatedly

NUM_BEST = 100  # number of sentences per lattice and round


@dataclass(frozen=True, slots=True)
class TunedScales:
    """The result of ``tune_first_pass``; word error rates are in percent."""

    scales: Scales
    tuned: Tuned  # the result of the choice among the n-best sentences

    @property
    def wer(self) -> float:
        """Word error rate of the best paths at the chosen scales."""
        return self.tuned.wer_rescored

    @property
    def wer_before(self) -> float:
        """Word error rate of the best paths at the initial scales."""
        return self.tuned.wer_before

    @property
    def difference(self) -> Interval:
        """Cross-validated change in WER from the initial scales, with a 95% interval, in percent absolute."""
        return self.tuned.difference

    @property
    def edges(self) -> tuple[str, ...]:
        """Messages about the scales that are at the ends of their ranges."""
        return self.tuned.edges

    @property
    def num_lattices(self) -> int:
        """Number of lattices."""
        return self.tuned.num_lattices

    @property
    def summary(self) -> str:
        """Word error rates before and after tuning, as text."""
        return f"WER {self.wer_before:.2f} with the initial scales, {self.wer:.2f} with the chosen scales"


def tune_first_pass(
    lattices: Iterable[Keyed],
    references: Mapping[str, Sequence[str]],
    start: Scales = Scales(0.1),
    *,
    speakers: Mapping[str, str] | None = None,
    min_words: int = MIN_WORDS,
    forms: LexicalForms | None = None,
    log: Log | None = None,
) -> TunedScales:
    """Choose the acoustic scale and the word penalty with the fewest expected word errors.

    As in `tune_weights`, the n-best sentences of each lattice are computed with the initial scales and then with the
    chosen scales, until the scales no longer change. The initial scales are kept unless the development set shows that
    other scales are better.

    Args:
        lattices: A development set with symbol tables, which is held in memory. Lattices without a reference are
            ignored.
        references: Reference words by key.
        start: The initial scales; the LM scale is kept.
        speakers: Speaker of each utterance, by key. If specified, confidence intervals and cross-validation are by
            speaker instead of by utterance.
        min_words: If there are fewer reference words, the initial scales are kept.
        forms: Lexical forms for comparing words.
        log: Log for errors in lattices; lattices with errors are ignored. Without ``log.on_error``, the first error is
            raised.

    Raises:
        FormatError: No lattice has a reference, the references contain no words, or an utterance has no speaker.
        OptionError: The initial acoustic scale or the LM scale is 0.
        NinjaError: A lattice has no path, and ``log.on_error`` is not set.
    """
    if start.acoustic == 0.0 or start.lm == 0.0:
        name = "acoustic" if start.acoustic == 0.0 else "LM"
        raise OptionError(f"the initial {name} scale is 0, so no other scale would be tried; set a nonzero scale")
    check_texts(references)
    lattices = [(key, _without_alignments(lattice)) for key, lattice in pairs(lattices) if key in references]

    def sentences_at(weights: Weights, log: Log) -> Features:
        options = RescoreOptions(acoustic_scale=weights.acoustic_scale, word_penalty=weights.word_penalty)
        return features(
            lattices, iter, references, (), options, num_best=NUM_BEST, lm_scale=start.lm, forms=forms, log=log
        )  # fmt: skip

    log = Log() if log is None else log
    initial = Weights(0.0, start.acoustic, start.word_penalty, ())
    tuned = choose_repeatedly(sentences_at, initial, speakers=speakers, min_words=min_words, log=log)
    log.lattices += tuned.num_lattices
    scales = replace(start, acoustic=tuned.weights.acoustic_scale, word_penalty=tuned.weights.word_penalty)
    return TunedScales(scales, tuned)


def _without_alignments(lattice: Lattice) -> Lattice:
    """Return a copy without alignments, which take up most of a lattice's memory and do not influence the choice.

    The other arrays are copied, because arrays from a reader share one block of memory with the alignments.
    """
    arrays = ("arc_begin", "dst", "word", "graph", "acoustic", "final_graph", "final_acoustic")
    return remove_alignments(lattice).replace(
        time=None, **{name: frozen(np.array(getattr(lattice, name))) for name in arrays}
    )
