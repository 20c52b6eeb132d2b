"""`rescore` and `iterate`, which rescore the lattices from an iterable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing

from ninja.lattice.batch import Keyed
from ninja.rescoring.algorithms import RescoreOptions
from ninja.rescoring.carry_over import CarryOver
from ninja.rescoring.models import Model
from ninja.rescoring.prefetch import Prefetch
from ninja.rescoring.prompts import Prompts
from ninja.rescoring.rescorer import Pass, Rescorer
from ninja.rescoring.utterances import IterableSource, RescoreReport


def rescore(
    lattices: Iterable[Keyed],
    lm: Model,
    options: RescoreOptions | None = None,
    *,
    old_lm: Model = None,
    carry_over: CarryOver | None = None,
    prompts: Prompts | None = None,
    report: RescoreReport | None = None,
) -> Iterator[Keyed]:
    """Replace the language model scores of lattices with the scores of another model.

    With `old_lm`, the language model that the decoder used, the graph cost of an arc becomes
    ``graph + lm_weight * (-log p_new(word | history) + log p_old(word | history))``. Without it, the costs are
    interpolated: ``(1 - lm_weight) * graph + lm_weight * -log p_new(word | history)``, which is exact if the graph cost
    consists only of the old language model's cost. The cost of ``</s>`` is added to final states. Acoustic costs do
    not change.

    Args:
        lattices: ``(key, lattice)`` pairs with symbol tables, as ``ninja.read`` yields them. If they are not in a list
            or tuple, they are read one at a time in a thread: while a slow source, such as a decoder, computes its next
            lattice, all earlier lattices are rescored and returned.
        lm: A language model (see ``ninja.lm.load``), a mixture, or None to only subtract the old model.
        old_lm: The first-pass language model.
        carry_over: Recording of each utterance, for a model that reads the words of earlier utterances in the same
            recording.
        prompts: Texts that the model reads before the words of each utterance, for causal Hugging Face models.
        report: Report that is filled during the run with counts, notes and word coverage. If its ``on_error`` is set,
            failed lattices are reported and omitted; otherwise the first failure is raised.

    Returns:
        An iterator over ``(key, lattice)`` in input order, computed lazily. Memory is bounded by
        ``options.batch_arcs``. Closing or deleting the iterator also closes the source.

    Raises:
        VocabularyError: In the first hundred lattices or in all lattices, more than the fraction
            ``options.max_unknown`` of the arcs have words that are unknown to a model.
        ModelError: A single step of the model does not fit into memory, or the algorithm scores words but the model can
            score only whole sentences.
        OptionError: No model is specified, carry-over or prompts are used with a model that reads backward, or prompts
            are specified and no model reads prompts.
        NinjaError: A lattice failed and ``on_error`` is not set.

    Source: arc-beam after Kumar et al. 2017, arXiv:1711.05448, which does not define it exactly; push-forward after
    Sundermeyer et al. 2014; look-ahead calibration after Xu et al. 2018 (Kaldi's pruned composition).
    """
    return _run(Rescorer(lm, options, old_lm=old_lm, carry_over=carry_over, prompts=prompts), lattices, report)


def iterate(
    lattices: Iterable[Keyed],
    passes: Sequence[Pass],
    *,
    old_lm: Model = None,
    carry_over: CarryOver | None = None,
    report: RescoreReport | None = None,
) -> Iterator[Keyed]:
    """Rescore lattices with several language models in turn; each model rescores the results of the previous one.

    Pass j changes the graph cost of an arc to ``(1 - w_j) * graph + w_j * -log p_j(word | history)``, where ``graph``
    is the result of pass j - 1 and ``w_j`` is the ``lm_weight`` of pass j. Each pass searches the output lattice of the
    previous pass, so later models do not score paths that earlier passes pruned. Set ``backward=True`` in the options
    of models that read sentences backward.

    Args:
        lattices: See `rescore`.
        passes: Pairs ``(model, options)``, one per pass. After ``output="best"``, later passes see only one path.
        old_lm: The language model of the recogniser; the first pass subtracts its scores.
        carry_over: See `rescore`; applies to every pass.
        report: See `rescore`; covers all passes together.

    Returns:
        An iterator over ``(key, lattice)`` in input order, computed lazily.

    Raises:
        OptionError: `passes` is empty.

    Source: Ogawa et al. 2023, arXiv:2312.12764, which does not state how scores are interpolated over the iterations.
    """
    return _run(Rescorer.of_passes(passes, old_lm=old_lm, carry_over=carry_over), lattices, report)


def _run(rescorer: Rescorer, lattices: Iterable[Keyed], report: RescoreReport | None) -> Iterator[Keyed]:
    report = RescoreReport() if report is None else report
    # A list is not read in a thread, because batches would then depend on the load of the machine.
    source = IterableSource(lattices) if isinstance(lattices, Sequence) else Prefetch(lattices)
    results = rescorer._results(source, report)  # raises an error if options conflict

    def counted() -> Iterator[Keyed]:
        with closing(results):  # type: ignore[type-var]
            for pair in results:
                report.lattices += 1
                yield pair

    return counted()
