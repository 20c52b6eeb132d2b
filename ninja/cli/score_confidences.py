"""The command ``ninja score --confidences``, which evaluates word confidences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

from ninja import evaluate
from ninja.cli.main import current_console
from ninja.errors import FormatError, counted
from ninja.evaluate.confidence import CLIP, ConfidenceScores, ConfidentWords, label_words, score_confidences
from ninja.io.inputs import Inputs
from ninja.lattice.lattice import ListLattice
from ninja.lattice.text import LexicalForms
from ninja.show.reliability import plot_reliability


def score_file_confidences(
    inputs: Inputs,
    references: Mapping[str, Sequence[str]],
    mode: evaluate.Mode,
    forms: LexicalForms,
    plot: str | None,
) -> evaluate.ErrorRate:
    """Print the word error rate and the confidence measures of hypotheses, and optionally plot a reliability diagram.

    Returns:
        The word error rate.
    """
    hypotheses = {key: words for key, lattice in inputs.lattices() if (words := confident_words(lattice)) is not None}
    if all(confidence is None for words in hypotheses.values() for confidence in words.confidences):
        raise FormatError(
            "the words have no confidences; specify CTM or JSON with confidences, such as the "
            "output of `ninja best --json`",
            inputs.places[0],
        )
    texts = {key: words.words for key, words in hypotheses.items()}
    normalizer = evaluate.choose_normalizer(forms, references, texts)
    rate = evaluate.score(references, texts, mode, normalizer=normalizer)
    scores = score_confidences(*label_words(references, hypotheses, mode, normalizer=normalizer))
    click.echo(f"{rate}\n{scores}")
    _note_clipped(scores)
    if plot is not None:
        plot_reliability(plot, scores)
    return rate


def confident_words(lattice: object) -> ConfidentWords | None:
    """Return the words and confidences that a hypothesis file contains for an utterance, or None for a lattice."""
    if not isinstance(lattice, ListLattice) or lattice.record is None or (origin := lattice.record.origin) is None:
        return None
    return ConfidentWords(origin.words, origin.confidences or (None,) * len(origin.words))


def _note_clipped(scores: ConfidenceScores) -> None:
    if count := scores.num_clipped:
        current_console().say(
            f"{counted(count, 'confidence is', 'confidences are')} below {CLIP:g} or above {1 - CLIP:g}; NCE uses "
            "these bounds instead, because 0 or 1 could make NCE infinite"
        )
