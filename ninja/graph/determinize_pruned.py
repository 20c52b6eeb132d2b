"""Pruned determinization: keeps the best path for each word sequence within a beam, and limits memory and size."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from ninja import _graph
from ninja.errors import LatticeError, OptionError, check_count, described, documented
from ninja.graph.kinds import to_raw
from ninja.graph.minimize import minimize as minimized
from ninja.graph.path import no_path
from ninja.graph.prune import prune
from ninja.lattice import Lattice, Scales
from ninja.lattice.arrays import gather, offsets
from ninja.lattice.batch import Batch
from ninja.lattice.lattice import check_finite, check_lattice, frozen
from ninja.lattice.transition_model import TransitionModel

Limit = Literal["memory", "arcs", "states"]
_LIMITS: tuple[Limit | None, ...] = (None, "memory", "arcs", "states")
_LOOP, _PRECISION = 4, 5
LARGEST_LABEL = 2**31 - 1


@documented
@dataclass(frozen=True, slots=True)
class DeterminizeBounds:
    """Limits on the memory and the size of a determinization."""

    delta: float = described(2.0**-10, "Merge sets of states whose costs differ by at most this much.")
    max_mem: int = described(50_000_000, "Approximate maximum memory in bytes; no limit if 0 or less.")
    max_arcs: int = described(-1, "Maximum number of arcs; no limit if 0 or less.")
    max_states: int = described(-1, "Maximum number of states; no limit if 0 or less.")
    max_loop: int = described(500_000, "Maximum number of states linked by epsilons; no limit if 0 or less.")
    retry_cutoff: float = described(
        0.5, "Prune the lattice and retry if less than this fraction of the beam was reached; never if 0."
    )

    def __post_init__(self) -> None:
        for name in ("max_mem", "max_arcs", "max_states", "max_loop"):
            check_count(name, getattr(self, name), least=-(2**63))
        if not 0.0 <= self.delta < np.inf:
            raise OptionError(f"delta is {self.delta}, but must be 0 or more")
        if not 0.0 <= self.retry_cutoff < 1.0:
            raise OptionError(f"retry_cutoff is {self.retry_cutoff}, but must be 0 or more and below 1")


@dataclass(frozen=True, slots=True)
class DeterminizeReport:
    """Report of a pruned determinization."""

    beam: float  # requested beam
    effective_beam: float  # all paths within this cost of the best path are included
    retries: int  # number of retries on a lattice pruned to a smaller beam
    stopped_by: Limit | None  # the limit that stopped the last attempt

    @property
    def complete(self) -> bool:
        """Whether the requested beam was reached."""
        return self.effective_beam >= self.beam

    def __str__(self) -> str:
        if self.complete:
            return f"beam {self.beam:g} reached"
        cause = "a smaller beam was used" if self.stopped_by is None else f"the {self.stopped_by} limit was reached"
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
    """Keep the best path for each word sequence within the beam, with its costs and alignment.

    Epsilons and arcs with several labels are allowed; state-level lattices from a decoder become compact. Costs are
    added in single precision and in Kaldi's order, to choose the same path as Kaldi among paths with nearly equal
    costs. The search is best-first: if a limit stops it, the result is complete within a smaller beam, which is stated
    in the report.

    Args:
        lattice: Any lattice.
        beam: Largest difference in total cost from the best path, > 0; infinity keeps all paths.
        acoustic_scale: Factor applied to acoustic costs when paths are compared, not 0; the costs of the result are
            unscaled.
        bounds: Limits on memory and size.  [default: the limits of Kaldi's tool]
        minimize: Minimize the result.

    Returns:
        A connected compact lattice without epsilons, and the report. No two arcs of a state have the same word; times
        follow from the alignments.

    Raises:
        LatticeError: No path leads from the start to a final state, no path was complete within the limits, or epsilons
            lead through more than ``max_loop`` states.
        OptionError: An option is out of range.

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
    """Apply `determinize_pruned` to all lattices in a batch; return None if a lattice fails or reaches a limit."""
    check_beam(beam, acoustic_scale)
    try:
        result = _graph.determinize_pruned(batch, beam, acoustic_scale, bounds or DeterminizeBounds())
    except MemoryError:
        return None
    if minimize and result is not None:
        result = minimized(result, acoustic_scale)
    return None if result is None or result.faults else result


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
    """Determinize first over phones and words, then over words only, each time within the beam.

    If the same words have many alignments, the first pass reduces the work of the second, and larger lattices stay
    within the limits. The result is the same as from ``determinize_pruned``, except that rounding may change the choice
    between paths with nearly equal costs.

    Args:
        lattice: A lattice whose alignments are transition ids.
        model: The transition model, which defines where phones begin.
        beam: Largest difference in total cost from the best path, > 0.
        acoustic_scale: Factor applied to acoustic costs when paths are compared, not 0; the costs of the result are
            unscaled.
        bounds: Limits on memory and size in each pass.  [default: the limits of Kaldi's tool, without ``max_loop``]
        phone_determinize: Run the first pass.
        word_determinize: Run the second pass; otherwise the result has epsilons in place of phones.
        minimize: Minimize the result.

    Returns:
        See ``determinize_pruned``; the report describes the pass with the smaller effective beam.

    Raises:
        LatticeError: See ``determinize_pruned``; or a label is not a transition id of the model.
        OptionError: An option is out of range, or both passes are disabled.

    Source: Kaldi, lat/determinize-lattice-pruned.cc, DeterminizeLatticePhonePruned.
    """
    check_beam(beam, acoustic_scale)
    if not (phone_determinize or word_determinize):
        raise OptionError("phone_determinize and word_determinize are both disabled; enable at least one")
    bounds = bounds or DeterminizeBounds(max_loop=-1)
    if not phone_determinize:
        result, report = _run(lattice, beam, acoustic_scale, bounds)
    else:
        # Scale once for both passes, as Kaldi does, because each scaling rounds.
        scaled = _acoustic_times(lattice, float(np.float32(acoustic_scale)))
        labelled, first_phone = with_phones(to_raw(scaled), model)
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
    """Determinize without a beam; while a limit is exceeded, prune the lattice with a smaller beam and retry.

    This is Kaldi's lattice-determinize, which ``determinize_pruned`` supersedes.

    Args:
        lattice: Any lattice.
        beam: Beam, > 0; the first retry prunes with ``beam * beam_ratio``.
        acoustic_scale: Factor applied to acoustic costs when paths are compared, not 0.
        bounds: Limits on memory and size.  [default: the limits of Kaldi's tool]
        beam_ratio: Factor applied to the beam before each retry, above 0 and below 1.
        num_loops: Maximum number of retries, ≥ 0.
        prune_result: Prune the result with the last beam.

    Returns:
        See ``determinize_pruned``; the effective beam is infinite, or the beam of the last retry.

    Raises:
        LatticeError: See ``determinize_pruned``; or every attempt exceeded a limit.
        OptionError: An option is out of range.

    Source: Kaldi, latbin/lattice-determinize.cc.
    """
    check_beam(beam, acoustic_scale)
    if not 0.0 < beam_ratio < 1.0:
        raise OptionError(f"beam_ratio is {beam_ratio}, but must be above 0 and below 1")
    if num_loops < 0:
        raise OptionError(f"num_loops is {num_loops}, but must be 0 or more")
    bounds = replace(bounds or DeterminizeBounds(), retry_cutoff=0.0)
    pruned, smallest, limit = lattice, np.inf, None
    for retries in range(num_loops + 1):
        result, report, _ = _search(pruned, np.inf, acoustic_scale, bounds)
        if result is not None and report.complete:
            if prune_result:
                result = prune(result, beam, Scales(acoustic_scale))
            return result, DeterminizeReport(np.inf, smallest, retries, None)
        limit = report.stopped_by
        beam *= beam_ratio
        smallest = beam
        pruned = prune(lattice, beam, Scales(acoustic_scale))
    raise LatticeError(
        f"the {limit} limit was exceeded even at beam {smallest / beam_ratio:.4g}; {_advice(limit, bounds)}, or "
        "prune the lattice more",
        key=lattice.key,
    )


def check_beam(beam: float, acoustic_scale: float) -> None:
    """Raise OptionError if the beam or the acoustic scale of a pruned determinization is out of range."""
    check_finite("acoustic_scale", acoustic_scale)
    if not beam > 0.0:
        raise OptionError(f"beam is {beam}, but must be above 0")
    if np.float32(acoustic_scale) == 0.0:
        raise OptionError("acoustic_scale must not be 0, because the acoustic costs of the result are divided by it")


def _run(
    lattice: Lattice, beam: float, acoustic_scale: float, bounds: DeterminizeBounds
) -> tuple[Lattice, DeterminizeReport]:
    result, report, smallest = _search(lattice, beam, acoustic_scale, bounds)
    if result is None:
        limit = f"the {report.stopped_by} limit was reached before a path was complete"
        advice = _advice(report.stopped_by, bounds)
        raise LatticeError(f"{limit}, even at beam {smallest:.4g}; {advice}", key=lattice.key)
    return result, report


def _advice(limit: Limit | None, bounds: DeterminizeBounds) -> str:
    assert limit is not None
    name = {"memory": "max_mem", "arcs": "max_arcs", "states": "max_states"}[limit]
    return f"increase {name}, which is {getattr(bounds, name)}"


def _search(
    lattice: Lattice, beam: float, acoustic_scale: float, bounds: DeterminizeBounds
) -> tuple[Lattice | None, DeterminizeReport, float]:
    """Return ``(lattice, report, last beam)``; the lattice is None if no path was complete within the limits."""
    stopped, smallest, reached, retries, result = _graph.determinize_pruned(lattice, beam, acoustic_scale, bounds)
    if stopped == _LOOP:
        raise LatticeError(
            f"epsilons link more than {bounds.max_loop} states; prune the lattice, or raise max_loop",
            key=lattice.key,
        )
    if stopped == _PRECISION:
        message = "costs or their sums exceed the range of float32; scale the costs down first"
        raise LatticeError(message, key=lattice.key)
    limit = _LIMITS[stopped]
    if result is None and limit is None:
        raise no_path(lattice.key)
    return result, DeterminizeReport(beam, reached, retries, limit), smallest


def _acoustic_times(lattice: Lattice, factor: float) -> Lattice:
    """Multiply acoustic costs by a factor, rounding once to single precision; infinite costs are unchanged."""

    def times(costs: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        return frozen(np.where(np.isfinite(costs), factor * costs.astype(np.float64), np.inf), np.float32)

    check_lattice(lattice)
    if factor == 1.0:
        return lattice
    return lattice.replace(acoustic=times(lattice.acoustic), final_acoustic=times(lattice.final_acoustic))


def with_phones(lattice: Lattice, model: TransitionModel) -> tuple[Lattice, int]:
    """Insert a symbol for each phone that begins on an arc in a state-level lattice.

    The symbol becomes the word of the arc or, if the arc already has a word, the word of a new arc after this arc. As
    in Kaldi, arcs that leave the start get no symbol.

    Returns:
        The lattice, and the word id of phone 0: larger ids are phones, smaller ids are words.

    Source: Kaldi, lat/determinize-lattice-pruned.cc, DeterminizeLatticeInsertPhones.
    """
    model.check(lattice)
    first_phone = int(lattice.word.max(initial=0)) + 1
    if first_phone + int(model.phone.max(initial=0)) > LARGEST_LABEL:
        message = f"the word id {first_phone - 1} is too large: no ids remain for phones; number the words from 1"
        raise LatticeError(message, key=lattice.key)
    label = np.zeros(lattice.num_arcs, np.int32)
    label[np.diff(lattice.ali_begin) > 0] = lattice.ali
    begins = (label > 0) & (model.hmm_state[label] == 0) & ~model.is_self_loop[label] & (lattice.src != 0)
    phone = np.where(begins, first_phone + model.phone[label], 0).astype(np.int32)
    split = np.flatnonzero(begins & (lattice.word != 0))  # arcs that are replaced by two arcs
    # The new state of such an arc is numbered immediately before the destination of the arc.
    order = np.argsort(np.concatenate([lattice.dst[split], np.arange(lattice.num_states)]), kind="stable")
    number = np.empty_like(order)
    number[order] = np.arange(order.size)
    inner, old = number[: split.size], number[split.size :]
    src, dst = np.concatenate([old[lattice.src], inner]), np.append(old[lattice.dst], old[lattice.dst[split]])
    dst[split] = inner
    none = np.zeros(split.size, np.int64)
    arcs = np.argsort(src, kind="stable")
    length = np.concatenate([np.diff(lattice.ali_begin), none])
    ali_begin, ali = gather(lattice.ali, np.concatenate([lattice.ali_begin[:-1], none])[arcs], length[arcs])
    final = np.full((2, order.size), np.inf)
    final[:, old] = lattice.final_graph, lattice.final_acoustic
    labelled = Lattice.from_arrays(
        lattice.key,
        offsets(np.bincount(src, minlength=order.size)),
        dst[arcs],
        np.concatenate([np.where(lattice.word == 0, phone, lattice.word), phone[split]])[arcs],
        np.concatenate([lattice.graph, none])[arcs],
        np.concatenate([lattice.acoustic, none])[arcs],
        *final,
        ali_begin=ali_begin,
        ali=ali,
        kind="raw",
        frame_shift=lattice.frame_shift,
        words=lattice.words,
    )
    return labelled, first_phone


def without_phones(lattice: Lattice, first_phone: int) -> Lattice:
    """Replace phone symbols with epsilons."""
    return lattice.replace(word=frozen(np.where(lattice.word >= first_phone, np.int32(0), lattice.word)))
