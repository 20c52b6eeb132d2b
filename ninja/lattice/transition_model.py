"""``TransitionModel``: the phone, HMM state and density (pdf) of each transition id."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninja.errors import LatticeError
from ninja.lattice.lattice import Lattice, check_lattice

NO_PDF = -1
Ints = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TransitionModel:
    """Properties of transition ids, as arrays indexed by transition id; id 0 is unused."""

    path: str
    phone: Ints  # [num_transition_ids + 1]; index 0 has the value 0 in all arrays unless noted
    hmm_state: Ints  # [num_transition_ids + 1], state of the phone's topology that the transition leaves, from 0
    transition_state: Ints  # [num_transition_ids + 1], number ≥ 1 of a combination of phone, HMM state and densities
    pdf: Ints  # [num_transition_ids + 1], density of a frame spent on the transition; -1 for id 0
    is_final: Bools  # [num_transition_ids + 1], whether the transition ends the phone
    is_self_loop: Bools  # [num_transition_ids + 1]
    log_prob: npt.NDArray[np.float32]  # [num_transition_ids + 1], natural log of the transition probability

    @property
    def num_transition_ids(self) -> int:
        """Number of transition ids, which is also the largest transition id."""
        return self.phone.size - 1

    @property
    def num_pdfs(self) -> int:
        """Number of densities (pdfs)."""
        return int(self.pdf.max(initial=NO_PDF)) + 1

    @property
    def phones(self) -> Ints:
        """Phones that have transitions, in increasing order."""
        return np.unique(self.phone[1:])

    def non_self_loop_log_prob(self) -> npt.NDArray[np.float32]:
        """Return the log probability of leaving the source state of each transition, float32 [num_transition_ids + 1].

        Source: Kaldi, hmm/transition-model.cc, ComputeDerivedOfProbs.
        """
        leaving = np.zeros(int(self.transition_state.max(initial=0)) + 1, np.float64)
        loops = np.flatnonzero(self.is_self_loop)
        with np.errstate(divide="ignore"):
            remainder = np.log(np.maximum(1.0 - np.exp(self.log_prob[loops].astype(np.float64)), 1e-10))
        leaving[self.transition_state[loops]] = remainder
        return leaving[self.transition_state].astype(np.float32)

    def check(self, lattice: Lattice) -> None:
        """Raise LatticeError if a label of a lattice is not a transition id of this model."""
        check_lattice(lattice)
        for labels, begin, owner in (
            (lattice.ali, lattice.ali_begin, "arc"),
            (lattice.final_ali, lattice.final_ali_begin, "final state"),
        ):
            if labels.size and (labels.min() < 1 or labels.max() > self.num_transition_ids):
                index = int(np.flatnonzero((labels < 1) | (labels > self.num_transition_ids))[0])
                arc_or_state = int(np.searchsorted(begin, index, side="right")) - 1
                raise self.label_error(lattice.key, int(labels[index]), f"{owner} {arc_or_state}")

    def label_error(self, key: str, label: int, where: str) -> LatticeError:
        """Return the error for a label that is not a transition id of this model."""
        return LatticeError(
            f"{where} has the label {label}, but the transition ids of {self.path} are 1 to {self.num_transition_ids}; "
            "use the model with which the lattice was generated",
            key=key,
        )

    def __repr__(self) -> str:
        return f"TransitionModel({self.path!r}, {self.num_transition_ids} transition ids, {self.num_pdfs} pdfs)"
