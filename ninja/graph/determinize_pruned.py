"""Pruned determinization: one path for each word sequence within a beam, within bounds of memory and size."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from ninja import _graph
from ninja.errors import LatticeError, OptionError, described, documented
from ninja.graph.minimize import minimize as minimized
from ninja.graph.phone_labels import state_level, with_phones, without_phones
from ninja.graph.prune import prune
from ninja.lattice import Lattice, Scales
from ninja.lattice.arrays import frozen
from ninja.lattice.batch import Batch
from ninja.lattice.costs import check_finite
from ninja.lattice.transition_model import TransitionModel

Limit = Literal["memory", "arcs", "states"]
_LIMITS: tuple[Limit | None, ...] = (None, "memory", "arcs", "states")
_LOOP, _PRECISION = 4, 5


@documented
@dataclass(frozen=True, slots=True)
class DeterminizeBounds:
    """Bounds on the memory and size of a determinization; 0 or less is no bound."""

    delta: float = described(2.0**-10, "Merge sets of states whose costs differ by no more.")
    max_mem: int = described(50_000_000, "Most bytes, roughly; 0 or less: no bound.")
    max_arcs: int = described(-1, "Most arcs; 0 or less: no bound.")
    max_states: int = described(-1, "Most states; 0 or less: no bound.")
    max_loop: int = described(500_000, "Most chained epsilons; 0 or less: no bound.")
    retry_cutoff: float = described(0.5, "Prune and retry below this share of the beam; 0: never.")

    def __post_init__(self) -> None:
        """Check the ranges."""
        if not 0.0 <= self.delta < np.inf:
            raise OptionError(f"delta is {self.delta}, but must be 0 or more")
        if not 0.0 <= self.retry_cutoff < 1.0:
            raise OptionError(f"retry_cutoff is {self.retry_cutoff}, but must be 0 or more and below 1")


@dataclass(frozen=True, slots=True)
class DeterminizeReport:
    """Report of a pruned determinization: the beam that was reached."""

    beam: float  # requested
    effective_beam: float  # within this cost of the best path nothing is missing
    retries: int  # on a lattice pruned to a smaller beam
    stopped_by: Limit | None  # the bound that cut the last try short

    @property
    def complete(self) -> bool:
        """True if the whole beam was reached."""
        return self.effective_beam >= self.beam

    def __str__(self) -> str:
        if self.complete:
            return f"beam {self.beam:g} reached"
        cause = "a smaller beam had to be tried" if self.stopped_by is None else f"the bound of {self.stopped_by} came"
        tries = f" after {self.retries} retries" if self.retries else ""
        return f"beam {self.effective_beam:.4g} of {self.beam:g} reached{tries}: {cause}"


def determinize_pruned(
    lattice: Lattice,
    beam: float = 10.0,
    acoustic_scale: float = 1.0,
    bounds: DeterminizeBounds | None = None,
    *,
    minimize: bool = False,
) -> tuple[Lattice, DeterminizeReport]:
    """Keep one path for each word sequence within the beam, the best, with both its costs and its alignment.

    Epsilons and arcs of many labels are followed as they are; state-level lattices of a decoder become compact here.
    Costs are added in single precision in Kaldi's order, so that of nearly equal paths the same one stays. The search
    is best first: where a bound stops it, the result is what lies within a smaller beam, which the report tells.

    Args:
        beam: Largest difference in total cost to the best path, > 0; infinity keeps all.
        acoustic_scale: Factor of acoustic costs where paths compete, not 0; costs are written unscaled.
        bounds: Bounds of memory and size; by default those of Kaldi's tool.

    Returns:
        A connected compact lattice without epsilons, no two arcs of a state with the same word, whose states have no
        times other than those of its alignments; and what was reached.

    Raises:
        LatticeError: No path leads from the start to a final state or was found within the bounds, or more than
            ``max_loop`` states follow over epsilons.
        OptionError: An option is out of its range.

    Source: Povey et al. 2012, "Generating exact lattices in the WFST framework"; Kaldi,
    lat/determinize-lattice-pruned.cc.
    """
    check_beam(beam, acoustic_scale)
    result, report = _run(lattice, beam, acoustic_scale, bounds or DeterminizeBounds())
    return minimized(result, acoustic_scale) if minimize else result, report


def determinize_pruned_all(
    batch: Batch,
    beam: float = 10.0,
    acoustic_scale: float = 1.0,
    bounds: DeterminizeBounds | None = None,
    *,
    minimize: bool = False,
) -> Batch | None:
    """Do as `determinize_pruned` to the lattices of a batch; None where one fails or is cut short by a bound."""
    check_beam(beam, acoustic_scale)
    try:
        made = _graph.determinize_pruned(batch, beam, acoustic_scale, bounds or DeterminizeBounds())
    except MemoryError:
        return None
    if minimize and made is not None:
        made = minimized(made, acoustic_scale)
    return None if made is None or made.faults else made


def determinize_phone_pruned(
    lattice: Lattice,
    model: TransitionModel,
    beam: float = 10.0,
    acoustic_scale: float = 1.0,
    bounds: DeterminizeBounds | None = None,
    *,
    phone_determinize: bool = True,
    word_determinize: bool = True,
    minimize: bool = False,
) -> tuple[Lattice, DeterminizeReport]:
    """Determinize over phones and words first, then over words, each within the beam.

    The first pass leaves less for the second where many alignments of the same words compete, so that lattices go
    through that would pass the bounds otherwise. The result is that of ``determinize_pruned``, except that nearly equal
    paths may be told apart by another rounding.

    Args:
        lattice: A lattice whose alignments are transition ids.
        model: The acoustic model's transitions; they tell where phones begin.
        beam: Largest difference in total cost to the best path, > 0.
        acoustic_scale: Factor of acoustic costs where paths compete, not 0; costs are written unscaled.
        bounds: Bounds of memory and size, for each pass; by default those of Kaldi's tool (no ``max_loop``).
        word_determinize: Make the second pass; without it the result has epsilons where only phones stood.

    Returns:
        As ``determinize_pruned``; the report is that of the pass that reached less.

    Raises:
        LatticeError: As ``determinize_pruned``, or a label is no transition id of the model.
        OptionError: An option is out of its range, or both passes are off.

    Source: Kaldi, lat/determinize-lattice-pruned.cc, DeterminizeLatticePhonePruned.
    """
    check_beam(beam, acoustic_scale)
    if not (phone_determinize or word_determinize):
        raise OptionError("neither phone_determinize nor word_determinize is set: nothing would be done")
    bounds = bounds or DeterminizeBounds(max_loop=-1)
    if not phone_determinize:
        result, report = _run(lattice, beam, acoustic_scale, bounds)
    else:
        # Scaled once for both passes, as Kaldi does: each scaling rounds.
        scaled = _acoustic_times(lattice, float(np.float32(acoustic_scale)))
        labelled, first_phone = with_phones(state_level(scaled), model)
        phones, report = _run(labelled, beam, 1.0, bounds)
        result = without_phones(phones, first_phone)
        if word_determinize:
            result, again = _run(result, beam, 1.0, bounds)
            if again.effective_beam < report.effective_beam or report.complete:
                report = replace(again, retries=again.retries + report.retries)
        result = _acoustic_times(result, 1.0 / float(np.float32(acoustic_scale)))
    return minimized(result, acoustic_scale) if minimize else result, report


def determinize_retrying(
    lattice: Lattice,
    beam: float = 10.0,
    acoustic_scale: float = 1.0,
    bounds: DeterminizeBounds | None = None,
    *,
    beam_ratio: float = 0.9,
    num_loops: int = 20,
    prune_result: bool = False,
) -> tuple[Lattice, DeterminizeReport]:
    """Determinize without a beam; where that passes the bounds, prune first, more and more, until it does not.

    Kaldi's lattice-determinize, which ``determinize_pruned`` has taken the place of.

    Args:
        beam: What is pruned by after a first failure is this times ``beam_ratio``, > 0.
        acoustic_scale: Factor of acoustic costs where paths compete, not 0.
        beam_ratio: Factor of the beam for each further try, above 0 and below 1.
        num_loops: Most tries on a pruned lattice, ≥ 0.
        prune_result: Prune the result by the beam in the end.

    Returns:
        As ``determinize_pruned``, with an infinite beam, or that of the last try.

    Raises:
        LatticeError: As ``determinize_pruned``, or no try was within the bounds.
        OptionError: An option is out of its range.

    Source: Kaldi, latbin/lattice-determinize.cc.
    """
    check_beam(beam, acoustic_scale)
    if not 0.0 < beam_ratio < 1.0:
        raise OptionError(f"beam_ratio is {beam_ratio}, but must be above 0 and below 1")
    if num_loops < 0:
        raise OptionError(f"num_loops is {num_loops}, but must be 0 or more")
    bounds = replace(bounds or DeterminizeBounds(), retry_cutoff=0.0)
    given, tried, limit = lattice, np.inf, None
    for retries in range(num_loops + 1):
        result, report, _ = _search(given, np.inf, acoustic_scale, bounds)
        if result is not None and report.complete:
            if prune_result:
                result = prune(result, beam, Scales(acoustic_scale))
            return result, DeterminizeReport(np.inf, tried, retries, None)
        limit = report.stopped_by
        beam *= beam_ratio
        tried = beam
        given = prune(lattice, beam, Scales(acoustic_scale))
    raise LatticeError(
        f"the bound of {limit} was passed even at beam {tried / beam_ratio:.4g}; raise it, or prune the lattice more",
        key=lattice.key,
    )


def check_beam(beam: float, acoustic_scale: float) -> None:
    """Refuse a beam or an acoustic scale that nothing can be determinized with."""
    check_finite("acoustic_scale", acoustic_scale)
    if not beam > 0.0:
        raise OptionError(f"beam is {beam}, but must be above 0")
    if np.float32(acoustic_scale) == 0.0:
        raise OptionError("acoustic_scale is 0, but acoustic costs could not be scaled back")


def _run(
    lattice: Lattice, beam: float, acoustic_scale: float, bounds: DeterminizeBounds
) -> tuple[Lattice, DeterminizeReport]:
    result, report, tried = _search(lattice, beam, acoustic_scale, bounds)
    if result is None:
        raise LatticeError(
            f"the bound of {report.stopped_by} came before one path was complete, even at beam {tried:.4g}; raise it",
            key=lattice.key,
        )
    return result, report


def _search(
    lattice: Lattice, beam: float, acoustic_scale: float, bounds: DeterminizeBounds
) -> tuple[Lattice | None, DeterminizeReport, float]:
    """Return the lattice, None if a bound came before one path was complete; the report; the beam of the last try."""
    stopped, tried, reached, retries, result = _graph.determinize_pruned(lattice, beam, acoustic_scale, bounds)
    if stopped == _LOOP:
        raise LatticeError(
            f"more than {bounds.max_loop} states follow one another over epsilons; prune it, or raise max_loop",
            key=lattice.key,
        )
    if stopped == _PRECISION:
        raise LatticeError("its costs, or sums of them, are beyond single precision; scale it first", key=lattice.key)
    limit = _LIMITS[stopped]
    if result is None and limit is None:
        raise LatticeError("no path leads from the start to a final state", key=lattice.key)
    return result, DeterminizeReport(beam, reached, retries, limit), tried


def _acoustic_times(lattice: Lattice, factor: float) -> Lattice:
    """Scale acoustic costs, rounded to single precision once; infinite ones stay."""

    def times(costs: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        return frozen(np.where(np.isfinite(costs), factor * costs.astype(np.float64), np.inf), np.float32)

    if factor == 1.0:
        return lattice
    return lattice.replace(acoustic=times(lattice.acoustic), final_acoustic=times(lattice.final_acoustic))
