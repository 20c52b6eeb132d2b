"""Kaldi's transition model (the head of ``final.mdl``): phone, state and density of each transition id."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ninja.errors import InputError, LatticeError
from ninja.files.place import Place, resolve
from ninja.files.stream import open_stream
from ninja.formats.kaldi.objects import Head
from ninja.lattice import Array, Lattice
from ninja.lattice.arrays import frozen

NO_PDF = -1
MOST_PHONES = 1 << 26  # ids are below; kernels keep what else they know of a phone in the same number
Ints = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]
Topology = list[list[int]]  # state that each transition of each state enters; the last state is final


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TransitionModel:
    """What each transition id stands for; the arrays are indexed by it, and 0 is none."""

    path: str
    phone: Ints  # [num_transition_ids + 1]; 0 of the unused id 0, as in all arrays here unless said otherwise
    hmm_state: Ints  # [num_transition_ids + 1], state of the phone's topology that the transition leaves, from 0
    transition_state: Ints  # [num_transition_ids + 1], from 1: a (phone, state, densities) of the model
    pdf: Ints  # [num_transition_ids + 1], density of a frame spent on the transition; -1 of id 0
    is_final: Bools  # [num_transition_ids + 1], the transition ends the phone
    is_self_loop: Bools  # [num_transition_ids + 1]
    log_prob: npt.NDArray[np.float32]  # [num_transition_ids + 1], natural log of the transition's probability

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> TransitionModel:
        """Read the head of a ``final.mdl``, binary, text, or either packed with gzip; what follows is not looked at.

        Raises:
            FormatError: It is not a transition model, or is truncated or damaged.
            InputError: The file cannot be read.

        Source: Kaldi, hmm/transition-model.cc and hmm/hmm-topology.cc, Read.
        """
        name = os.fspath(path)
        places = [Place(name)] if isinstance(path, os.PathLike) else resolve(name, typed=True)
        if len(places) != 1:
            raise InputError(f"names {len(places)} files, but one model is wanted", name)
        with open_stream(places[0]) as stream:
            return _model(Head(stream), name)

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
        """Refuse a lattice whose labels are not all transition ids of this model.

        Raises:
            LatticeError: A label is none; the message names the arc or final state.
        """
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


def _model(head: Head, path: str) -> TransitionModel:
    head.expect("<TransitionModel>")
    head.expect("<Topology>")
    entry_of = _binary_topology(head) if head.binary else _text_topology(head)
    opening = head.expect("<Triples>", "<Tuples>")
    place = head.place
    num_states = head.count("transition states")
    closing = opening.replace("<", "</")
    table = head.table(num_states, 3 if opening == "<Triples>" else 4, closing)
    head.expect("</Triples>", "</Tuples>")
    head.expect("<LogProbs>")
    after = head.place
    log_prob = head.vector()
    head.expect("</LogProbs>")
    head.expect("</TransitionModel>")

    states: Topology = []
    for row, (phone, hmm_state) in enumerate(table[:, :2].tolist(), start=1):
        entry = entry_of.get(phone)
        if entry is None:
            head.fail(f"transition state {row} belongs to phone {phone}, which the topology does not know", place)
        if not 0 <= hmm_state < len(entry):
            head.fail(f"transition state {row} is of state {hmm_state}, but phone {phone} has {len(entry)}", place)
        states.append(entry[hmm_state])
    num_transitions = [len(state) for state in states]
    if 1 + sum(num_transitions) != log_prob.size:  # checked before anything of that size is made
        message = f"{log_prob.size} probabilities, but {sum(num_transitions)} transitions and an unused place"
        head.fail(f"{message}; the file is damaged", after)
    if not np.isfinite(log_prob[1:]).all() or (log_prob[1:] > 0).any():
        head.fail("a log probability that is not finite or above 0", after)

    leaving = np.repeat(np.arange(num_states), num_transitions)
    to = np.array([each for state in states for each in state], np.int64)
    hmm_state = table[leaving, 1]
    is_self_loop = to == hmm_state
    last = np.array([len(entry_of[phone]) - 1 for phone in table[:, 0].tolist()], np.int64)

    def indexed(values: Array, kind: npt.DTypeLike, of_none: int) -> Array:
        return frozen(np.concatenate([[of_none], values]), kind)

    log_prob[0] = 0.0
    log_prob = frozen(log_prob)
    return TransitionModel(
        path,
        indexed(table[leaving, 0], np.int32, 0),
        indexed(hmm_state, np.int32, 0),
        indexed(leaving + 1, np.int32, 0),
        indexed(np.where(is_self_loop, table[leaving, -1], table[leaving, 2]), np.int32, NO_PDF),
        indexed(to == last[leaving], np.bool_, 0),
        indexed(is_self_loop, np.bool_, 0),
        log_prob,
    )


def _text_topology(head: Head) -> dict[int, Topology]:
    """Read the states of each phone's topology, the final one last."""
    entry_of: dict[int, Topology] = {}
    while head.expect("<TopologyEntry>", "</Topology>") == "<TopologyEntry>":
        head.expect("<ForPhones>")
        phones = []
        while not head.at_end_of("</ForPhones>"):
            phones.append(head.integer())
        head.expect("</ForPhones>")
        entry: Topology = []
        while head.expect("<State>", "</TopologyEntry>") == "<State>":
            place, number = head.place, head.integer()
            if number != len(entry):
                head.fail(f"state {number} stands where state {len(entry)} is expected", place)
            token = head.expect("<PdfClass>", "<ForwardPdfClass>", "<Transition>", "</State>")
            if token.endswith("PdfClass>"):
                head.integer()
                if token == "<ForwardPdfClass>":
                    head.expect("<SelfLoopPdfClass>")
                    head.integer()
                token = head.expect("<Transition>", "</State>")
            to = []
            while token == "<Transition>":
                to.append(head.integer())
                head.real()
                token = head.expect("<Transition>", "</State>")
            entry.append(to)
        _check(head, entry)
        for phone in phones:
            _check_phone(head, phone)
            if phone in entry_of:
                head.fail(f"phone {phone} occurs twice")
            entry_of[phone] = entry
    return entry_of


def _binary_topology(head: Head) -> dict[int, Topology]:
    """Read the states of each phone's topology, the final one last."""
    phones, entry_number = head.integer_vector(), head.integer_vector()
    place, num_entries = head.place, head.integer()
    two_classes = num_entries == -1  # the sign of a topology with densities of their own for self-loops
    if two_classes:
        num_entries = head.integer()
    if num_entries < 0:
        head.fail(f"{num_entries} topologies are announced", place)
    entries = []
    for _ in range(num_entries):
        entry: Topology = []
        for _ in range(head.count("states")):
            for _ in range(2 if two_classes else 1):
                head.integer()  # the class of densities, which only training needs
            to = []
            for _ in range(head.count("transitions")):
                to.append(head.integer())
                head.real()
            entry.append(to)
        _check(head, entry)
        entries.append(entry)
    head.expect("</Topology>")
    for phone in phones:
        _check_phone(head, phone)
        if not 1 <= phone < len(entry_number) or not 0 <= entry_number[phone] < num_entries:
            head.fail(f"phone {phone} has no topology", place)
    return {phone: entries[entry_number[phone]] for phone in phones}


def _check_phone(head: Head, phone: int) -> None:
    if phone < 1:
        head.fail(f"the phone {phone} is below 1")
    if phone >= MOST_PHONES:
        head.fail(f"the phone {phone} is beyond the largest id, {MOST_PHONES - 1}")


def _check(head: Head, entry: Topology) -> None:
    """Refuse a topology that no phone can have: Kaldi makes none of them."""
    if len(entry) < 2 or entry[-1]:
        head.fail("a topology needs a state that emits, and a final one without transitions")
    for number, to in enumerate(entry):
        if to and not 0 <= min(to) <= max(to) < len(entry):
            wrong = min(to) if min(to) < 0 else max(to)
            head.fail(f"a transition of state {number} enters state {wrong}, but there are {len(entry)} states")
        if len(set(to)) != len(to):
            head.fail(f"two transitions of state {number} enter one state")
