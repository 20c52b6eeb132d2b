"""A transition model: phone, state and density of each transition id."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninja.errors import LatticeError
from ninja.lattice.lattice import Lattice

NO_PDF = -1
Ints = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TransitionModel:
    """The meaning of each transition id; the arrays are indexed by it, and 0 is none."""

    path: str
    phone: Ints  # [num_transition_ids + 1]; 0 of the unused id 0, as in all arrays here unless noted
    hmm_state: Ints  # [num_transition_ids + 1], state of the phone's topology that the transition leaves, from 0
    transition_state: Ints  # [num_transition_ids + 1], from 1: a (phone, state, densities) of the model
    pdf: Ints  # [num_transition_ids + 1], density of a frame spent on the transition; -1 of id 0
    is_final: Bools  # [num_transition_ids + 1], the transition ends the phone
    is_self_loop: Bools  # [num_transition_ids + 1]
    log_prob: npt.NDArray[np.float32]  # [num_transition_ids + 1], natural log of the transition's probability

    @property
    def num_transition_ids(self) -> int:
        """Number of transition ids; they are 1 to this."""
        return self.phone.size - 1

    @property
    def num_pdfs(self) -> int:
        """Number of densities."""
        return int(self.pdf.max(initial=NO_PDF)) + 1

    @property
    def phones(self) -> Ints:
        """Phones that any transition belongs to, sorted."""
        return np.unique(self.phone[1:])

    def non_self_loop_log_prob(self) -> npt.NDArray[np.float32]:
        """Return the log probability of leaving the state each transition leaves, float32 [num_transition_ids + 1].

        Source: Kaldi, hmm/transition-model.cc, ComputeDerivedOfProbs.
        """
        leaving = np.zeros(int(self.transition_state.max(initial=0)) + 1, np.float64)
        loops = np.flatnonzero(self.is_self_loop)
        with np.errstate(divide="ignore"):
            rest = np.log(np.maximum(1.0 - np.exp(self.log_prob[loops].astype(np.float64)), 1e-10))
        leaving[self.transition_state[loops]] = rest
        return leaving[self.transition_state].astype(np.float32)

    def check(self, lattice: Lattice) -> None:
        """Refuse a lattice whose labels are not all transition ids of this model; name the arc or final state."""
        for labels, begin, what in (
            (lattice.ali, lattice.ali_begin, "arc"),
            (lattice.final_ali, lattice.final_ali_begin, "final state"),
        ):
            if labels.size and (labels.min() < 1 or labels.max() > self.num_transition_ids):
                place = int(np.flatnonzero((labels < 1) | (labels > self.num_transition_ids))[0])
                at = int(np.searchsorted(begin, place, side="right")) - 1
                raise self.refusal(lattice.key, int(labels[place]), f"{what} {at}")

    def refusal(self, key: str, label: int, where: str) -> LatticeError:
        """Make the error for a label that is no transition id of this model."""
        return LatticeError(
            f"{where} has the label {label}, but {self.path} knows the transition ids 1 to {self.num_transition_ids}; "
            "is it the model the lattice was made with?",
            key=key,
        )

    def __repr__(self) -> str:
        return f"TransitionModel({self.path!r}, {self.num_transition_ids} transition ids, {self.num_pdfs} pdfs)"
