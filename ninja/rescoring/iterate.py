"""Several language models one after the other, each rescoring what the one before it left."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from ninja.errors import NinjaError, OptionError
from ninja.lm import LanguageModel
from ninja.lm.mixture import Mixture
from ninja.rescoring.carry_over import CarryOver
from ninja.rescoring.options import RescoreOptions
from ninja.rescoring.report import RescoreReport
from ninja.rescoring.rescorer import rescore
from ninja.rescoring.run import Keyed
from ninja.rescoring.vocabulary import Coverage

Pass = tuple[LanguageModel | Mixture | None, RescoreOptions]


def iterate(
    lattices: Iterable[Keyed],
    passes: Sequence[Pass],
    *,
    old_lm: LanguageModel | Mixture | None = None,
    carry_over: CarryOver | None = None,
    on_error: Callable[[NinjaError], None] | None = None,
    on_coverage: Callable[[Coverage], None] | None = None,
    on_note: Callable[[str], None] | None = None,
    reports: Sequence[RescoreReport] | None = None,
) -> Iterator[Keyed]:
    """Rescore lattices with several language models in turn.

    After pass j the graph cost of an arc is ``(1 - w_j) * graph + w_j * -log p_j(word | history)`` of the graph cost
    that pass j - 1 left, ``w_j`` being the ``lm_weight`` of its options. Each pass searches the lattice that the one
    before it wrote, so that paths the first models ruled out cost the later ones nothing. Models that read sentences
    from their end take their turn with ``backward=True`` in their options.

    Args:
        lattices: As for `rescore`.
        passes: Each model and its options, first to last. What ``output="best"`` leaves, no later pass can change.
        old_lm: The language model of the first pass, taken out when the first of these models is put in.
        carry_over: As for `rescore`, in every pass.
        on_error: As for `rescore`.
        on_coverage: As for `rescore`, of the models of each pass.
        on_note: As for `rescore`.
        reports: Counters to fill, one of each pass.

    Returns:
        ``(key, lattice)`` in input order, computed as they are asked for.

    Raises:
        OptionError: There is no pass, or a number of reports other than that of the passes.

    Source: Ogawa et al. 2023, arXiv:2312.12764 (their interpolation along the iterations is not given; this is the
    running one).
    """
    if not passes:
        raise OptionError("there is no language model to rescore with")
    if reports is None:
        reports = [RescoreReport() for _ in passes]
    if len(reports) != len(passes):
        raise OptionError(f"{len(reports)} reports for {len(passes)} passes")
    for (lm, options), report in zip(passes, reports, strict=True):
        lattices = rescore(
            lattices,
            lm,
            options,
            old_lm=old_lm,
            carry_over=carry_over,
            on_error=on_error,
            on_coverage=on_coverage,
            on_note=on_note,
            report=report,
        )
        old_lm = None
    return iter(lattices)
