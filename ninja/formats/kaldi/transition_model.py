"""Reader for Kaldi transition models, which form the beginning of ``final.mdl``."""

from __future__ import annotations

import os

import numpy as np
import numpy.typing as npt

from ninja.errors import InputError
from ninja.files.names import resolve
from ninja.files.stream import Place, open_stream
from ninja.formats.kaldi.objects import DAMAGED, ObjectReader
from ninja.lattice import Array
from ninja.lattice.lattice import frozen
from ninja.lattice.transition_model import NO_PDF, TransitionModel

MAX_PHONES = 1 << 26  # upper bound of phone ids, because kernels store flags in the higher bits
Topology = list[list[int]]  # destinations of the transitions of each state; the last state is final


def read_transition_model(path: str | os.PathLike[str]) -> TransitionModel:
    """Read the transition model from a binary or text ``final.mdl``, optionally compressed with gzip.

    Raises:
        InputError: The file cannot be read, or the name refers to several files.
        FormatError: The file is not a transition model, or is damaged.

    Source: Kaldi, hmm/transition-model.cc and hmm/hmm-topology.cc, Read.
    """
    name = os.fspath(path)
    places = [Place(name)] if isinstance(path, os.PathLike) else resolve(name)
    if len(places) != 1:
        raise InputError(f"the name refers to {len(places)} files, but must refer to one", name)
    with open_stream(places[0]) as stream:
        reader = ObjectReader(stream, "check that it is a transition model (final.mdl)")
        reader.begin_object()
        return _model(reader, name)


def _model(reader: ObjectReader, path: str) -> TransitionModel:
    reader.expect("<TransitionModel>")
    reader.expect("<Topology>")
    entry_of = _binary_topology(reader) if reader.binary else _text_topology(reader)
    opening = reader.expect("<Triples>", "<Tuples>")
    place = reader.place
    num_states = reader.count("transition states")
    closing = opening.replace("<", "</")
    table = reader.table(num_states, 3 if opening == "<Triples>" else 4, closing)
    reader.expect("</Triples>", "</Tuples>")
    reader.expect("<LogProbs>")
    after = reader.place
    log_prob = reader.array().astype(np.float32)
    if log_prob.ndim != 1:
        reader.fail("expected a vector of log-probabilities, found a matrix", after)
    reader.expect("</LogProbs>")
    reader.expect("</TransitionModel>")

    states: Topology = []
    for row, (phone, hmm_state) in enumerate(table[:, :2].tolist(), start=1):
        entry = entry_of.get(phone)
        if entry is None:
            reader.fail(f"transition state {row} belongs to phone {phone}, which has no topology", place)
        if not 0 <= hmm_state < len(entry):
            reader.fail(
                f"transition state {row} has the HMM state {hmm_state}, but phone {phone} has only {len(entry)} states",
                place,
            )
        states.append(entry[hmm_state])
    num_transitions = [len(state) for state in states]
    if 1 + sum(num_transitions) != log_prob.size:  # check before allocating arrays with one element per transition
        message = f"there are {log_prob.size} probabilities, but there must be {1 + sum(num_transitions)}"
        reader.fail(f"{message}; the file is damaged", after)
    if not np.isfinite(log_prob[1:]).all() or (log_prob[1:] > 0).any():
        reader.fail("a log-probability is not finite or is above 0; the file is damaged", after)

    leaving = np.repeat(np.arange(num_states), num_transitions)
    to = np.array([dst for state in states for dst in state], np.int64)
    hmm_state = table[leaving, 1]
    is_self_loop = to == hmm_state
    last = np.array([len(entry_of[phone]) - 1 for phone in table[:, 0].tolist()], np.int64)

    def indexed(
        values: Array, dtype: npt.DTypeLike, unused: int
    ) -> Array:  # element 0 is unused, because transition ids begin at 1
        return frozen(np.concatenate([[unused], values]), dtype)

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


def _text_topology(reader: ObjectReader) -> dict[int, Topology]:
    """Read the topology of each phone; the final state is the last one."""
    entry_of: dict[int, Topology] = {}
    while reader.expect("<TopologyEntry>", "</Topology>") == "<TopologyEntry>":
        reader.expect("<ForPhones>")
        phones = []
        while not reader.at("</ForPhones>"):
            phones.append(reader.integer())
        reader.expect("</ForPhones>")
        entry: Topology = []
        while reader.expect("<State>", "</TopologyEntry>") == "<State>":
            place, number = reader.place, reader.integer()
            if number != len(entry):
                reader.fail(f"expected state {len(entry)}, found state {number}", place)
            token = reader.expect("<PdfClass>", "<ForwardPdfClass>", "<Transition>", "</State>")
            if token.endswith("PdfClass>"):
                reader.integer()
                if token == "<ForwardPdfClass>":
                    reader.expect("<SelfLoopPdfClass>")
                    reader.integer()
                token = reader.expect("<Transition>", "</State>")
            to = []
            while token == "<Transition>":
                to.append(reader.integer())
                reader.real()
                token = reader.expect("<Transition>", "</State>")
            entry.append(to)
        _check(reader, entry)
        for phone in phones:
            _check_phone(reader, phone)
            if phone in entry_of:
                reader.fail(f"phone {phone} occurs twice")
            entry_of[phone] = entry
    return entry_of


def _binary_topology(reader: ObjectReader) -> dict[int, Topology]:
    """Read the topology of each phone; the final state is the last one."""
    phones, entry_number = reader.integers(), reader.integers()
    place, num_entries = reader.place, reader.integer()
    two_classes = num_entries == -1  # -1 means that self-loops have separate densities
    if two_classes:
        num_entries = reader.integer()
    if num_entries < 0:
        reader.fail(f"the number of topologies is {num_entries}, but must not be negative; {DAMAGED}", place)
    entries = []
    for _ in range(num_entries):
        entry: Topology = []
        for _ in range(reader.count("states")):
            for _ in range(2 if two_classes else 1):
                reader.integer()  # skip the density class, which is used only in training
            to = []
            for _ in range(reader.count("transitions")):
                to.append(reader.integer())
                reader.real()
            entry.append(to)
        _check(reader, entry)
        entries.append(entry)
    reader.expect("</Topology>")
    for phone in phones:
        _check_phone(reader, phone)
        if not 1 <= phone < len(entry_number) or not 0 <= entry_number[phone] < num_entries:
            reader.fail(f"phone {phone} has no topology", place)
    return {phone: entries[entry_number[phone]] for phone in phones}


def _check_phone(reader: ObjectReader, phone: int) -> None:
    if phone < 1:
        reader.fail(f"the phone id is {phone}, but must be 1 or more")
    if phone >= MAX_PHONES:
        reader.fail(f"the phone id {phone} is too large; the largest allowed id is {MAX_PHONES - 1}")


def _check(reader: ObjectReader, entry: Topology) -> None:
    """Check a topology against Kaldi's rules."""
    if len(entry) < 2 or entry[-1]:
        reader.fail("a topology needs an emitting state, and a final state without transitions")
    for number, to in enumerate(entry):
        if to and not 0 <= min(to) <= max(to) < len(entry):
            wrong = min(to) if min(to) < 0 else max(to)
            reader.fail(f"a transition of state {number} enters state {wrong}, but there are {len(entry)} states")
        if len(set(to)) != len(to):
            reader.fail(f"two transitions of state {number} enter the same state")
