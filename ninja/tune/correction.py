"""Tuning of the correction threshold on a development set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ninja.context.correction.corrector import apply_changes
from ninja.context.correction.stage import Correction
from ninja.errors import Log, NinjaError, OptionError, counted
from ninja.evaluate import ErrorRate, score
from ninja.lattice.batch import Keyed, pairs
from ninja.tune.false_corrections import CONFIDENCE, BoundedRate, choose_threshold


@dataclass(frozen=True, slots=True)
class TunedCorrection:
    """A correction threshold, and the results with this threshold on the development set."""

    bound: BoundedRate | None  # None if no threshold keeps the rate below its maximum
    max_rate: float
    num_phrases: int  # number of phrases in the references of utterances with phrases
    num_before: int  # number of these phrases that the hypotheses contain
    num_after: int  # number of these phrases that the corrected hypotheses contain

    @property
    def summary(self) -> str:
        """A one-line summary of the result."""
        if self.bound is None:
            return f"no threshold keeps the rate of false corrections below {self.max_rate:g}"
        bound = self.bound
        changed = f"{bound.changed} of {bound.utterances} utterances without phrases are changed"
        confident = f"at most {bound.upper:.2%} of a future set of this size with {CONFIDENCE:.0%} confidence"
        phrases = (
            f"{self.num_before} of {self.num_phrases} spoken phrases are complete before correction, "
            f"{self.num_after} after it"
        )
        return f"threshold {bound.threshold:g}: {changed}, {confident}; {phrases}"


def tune_correction(
    lattices: Iterable[Keyed],
    references: Mapping[str, Sequence[str]],
    stage: Correction,
    max_rate: float = 0.01,
    log: Log | None = None,
) -> TunedCorrection:
    """Choose the lowest threshold that bounds the rate of false corrections.

    This threshold allows the most corrections. An *utterance without phrases* is an utterance whose reference contains
    no phrase from its lists. Any correction of such an utterance is false. The rate of false corrections is the
    fraction of these utterances that are changed; the bound holds for a future set of the same size. See
    `choose_threshold`.

    Args:
        lattices: Hypotheses of a development set.
        references: Reference words of each utterance; utterances without a reference are skipped.
        stage: The correction stage, with threshold 0.
        max_rate: Maximum rate of false corrections, in (0, 1).
        log: Log for notes and errors.

    Raises:
        OptionError: There are too few utterances without phrases.
    """
    log = Log() if log is None else log
    corrector = stage.load(log)
    scores: list[float] = []
    spoken = []
    for key, lattice in pairs(lattices):
        if key not in references:
            continue
        try:
            utterance = stage.best_changes(lattice)
        except NinjaError as error:
            log.fail(error, key)
            continue
        lists = stage.entities.of(lattice.key)
        phrases = corrector.phrases_in(references[key], lists)
        if phrases:
            spoken.append((utterance, phrases, lists))
        else:
            scores.append(max((change.probability for change in utterance.changes), default=0.0))
    bound = choose_threshold(scores, max_rate, len(scores))
    num_phrases = num_before = num_after = 0
    for utterance, phrases, lists in spoken:
        limit = 2.0 if bound is None else bound.threshold
        chosen = [change for change in utterance.changes if change.probability >= limit]
        after = corrector.phrases_in(apply_changes(utterance.words, chosen), lists)
        expected = Counter(phrases)
        num_phrases += len(phrases)
        num_before += (Counter(corrector.phrases_in(utterance.words, lists)) & expected).total()
        num_after += (Counter(after) & expected).total()
    return TunedCorrection(bound, max_rate, num_phrases, num_before, num_after)


@dataclass(frozen=True, slots=True)
class ListComparison:
    """Word errors with each of two phrase lists on a development set, and the number of results that differ."""

    before: ErrorRate
    after: ErrorRate
    num_differences: int  # utterances that the lists correct differently
    num_utterances: int

    @property
    def is_worse(self) -> bool:
        """Whether there are more word errors with the second phrase list than with the first."""
        return self.after.errors > self.before.errors

    @property
    def summary(self) -> str:
        """A one-line summary of the result."""
        utterances = counted(self.num_utterances, "utterance")
        rates = f"WER {self.before.wer:.2f} before, {self.after.wer:.2f} after"
        return f"development set: {rates}; {self.num_differences} of {utterances} differ"


def compare_lists(
    lattices: Iterable[Keyed],
    references: Mapping[str, Sequence[str]],
    before: Correction,
    after: Correction,
    log: Log | None = None,
) -> ListComparison:
    """Compare the corrections that two phrase lists produce on a development set.

    Args:
        lattices: Hypotheses of a development set.
        references: Reference words of each utterance; utterances without a reference are skipped.
        before: The correction stage with the first list.
        after: The correction stage with the second list.
        log: Log for notes and errors.

    Raises:
        OptionError: No utterance has a reference.
    """
    log = Log() if log is None else log
    normalizer = before.load(log).normalizer
    after.load(log)
    texts: tuple[dict[str, list[str]], dict[str, list[str]]] = ({}, {})
    for key, lattice in lattices:
        if key not in references:
            continue
        try:
            utterances = [stage.best_changes(lattice) for stage in (before, after)]
        except NinjaError as error:
            log.fail(error, key)
            continue
        for utterance, side in zip(utterances, texts, strict=True):
            side[key] = normalizer.words(apply_changes(utterance.words, utterance.changes))
    if not texts[0]:
        raise OptionError(
            "no processed utterance of the development set has a reference; check that the utterance ids match"
        )
    spoken = {key: normalizer.words(references[key]) for key in texts[0]}
    first, second = (score(spoken, side) for side in texts)
    return ListComparison(first, second, sum(texts[0][key] != texts[1][key] for key in texts[0]), len(spoken))
