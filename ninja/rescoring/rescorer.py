"""The one verb of this package: it looks which algorithm is wanted, and hands over."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ninja.errors import ModelError, NinjaError, OptionError
from ninja.lm import LanguageModel
from ninja.lm.mixture import Mixture
from ninja.rescoring.carry_over import CarryOver, Turns
from ninja.rescoring.engine import SearchRun
from ninja.rescoring.models import Models
from ninja.rescoring.options import SENTENCES, RescoreOptions
from ninja.rescoring.report import RescoreReport
from ninja.rescoring.run import Keyed, Run
from ninja.rescoring.vocabulary import Coverage


def rescore(
    lattices: Iterable[Keyed],
    lm: LanguageModel | Mixture | None,
    options: RescoreOptions | None = None,
    *,
    old_lm: LanguageModel | Mixture | None = None,
    carry_over: CarryOver | None = None,
    on_error: Callable[[NinjaError], None] | None = None,
    on_coverage: Callable[[Coverage], None] | None = None,
    on_note: Callable[[str], None] | None = None,
    report: RescoreReport | None = None,
) -> Iterator[Keyed]:
    """Give lattices the scores of a language model.

    With the old language model, whose scores the lattices hold, the graph cost of an arc becomes
    ``graph + lm_weight * (-log p_new(word | history) + log p_old(word | history))``. Without it, its share is taken
    out by interpolation, ``(1 - lm_weight) * graph + lm_weight * -log p_new(word | history)``, which is exact where
    the graph cost is the old model's alone. Final states pay for ``</s>``. Acoustic costs stay as they are.

    Args:
        lattices: ``(key, lattice)`` pairs with symbol tables attached, as ``ninja.read`` yields them.
        lm: A language model, see ``ninja.lm.load``, or a mixture of several; None only takes the old one out.
        options: Algorithm, weights, limits and the kind of output.
        old_lm: The language model of the first pass.
        carry_over: Which utterances follow one another, for a model that remembers what was said before.
        on_error: Called with each lattice's failure, which is then left out; without it the first failure is raised.
        on_coverage: Called before rescoring, with how well each model knows the first lattices' words.
        on_note: Called with what is worth telling on the way, such as that memory ran out and batches are smaller now.
        report: Counters to fill.

    Yields:
        ``(key, lattice)`` in input order. Memory is bounded by ``options.batch_arcs``.

    Raises:
        VocabularyError: More than ``options.max_unknown`` of the first lattices' arcs carry words a model lacks.
        ModelError: The memory does not hold a single step of the model, or one of whole sentences is to score words.
        OptionError: There is no model, or context is to be carried over to a model that reads backwards.
        NinjaError: Without ``on_error``, the first failure of a lattice.

    Source: after Kumar et al. 2017, arXiv:1711.05448 (hypotheses kept per arc; our reading, not their definition) and
    Sundermeyer et al. 2014 (push-forward); look-ahead calibration after Xu et al. 2018 (Kaldi's pruned composition).
    """
    options = options or RescoreOptions()
    if carry_over is not None and options.backward:
        raise OptionError("a model that reads backwards knows nothing of earlier utterances; leave carry_over out")
    alone = None if isinstance(lm, Mixture) else lm
    if alone is not None and alone.whole_sentences and options.algorithm != "nbest":
        message = f"a masked language model scores whole sentences; {options.algorithm} scores words, so use nbest"
        raise ModelError(message)
    models = Models(lm, old_lm, options)
    run: Run
    turns, report = Turns(carry_over), report or RescoreReport()
    if options.algorithm in SENTENCES:
        from ninja.rescoring.sentences import SentenceRun

        run = SentenceRun(models, options, turns, on_error, on_note, report)
    else:
        run = SearchRun(models, options, turns, on_error, on_note, report)
    return run.results(lattices, on_coverage)
