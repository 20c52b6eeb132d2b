"""`ArcPhones`, the phones of arcs according to their alignments."""

from __future__ import annotations

import os
import re
from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from ninja.context.sound.pronunciation import phones_of
from ninja.errors import LatticeError, VocabularyError
from ninja.formats.kaldi.transition_model import read_transition_model
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.transition_model import TransitionModel

# Names of silence, noise, laughter and disambiguation symbols.
_SILENT = re.compile(r"<.*>|\[.*\]|#\d+|(?:sil|spn|nsn|lau|ns|noise|sp)\d*", re.IGNORECASE)
NO_PHONE = -1


class ArcPhones:
    """Phones of arcs, according to the transition ids in their alignments.

    A phone is assigned to the arc that contains its final transition, so that each phone of a path is counted once. In
    word-aligned lattices, this is the arc of the phone's word. The phones of final states are not assigned to arcs.
    Position suffixes (``AH0_B``) and stress digits are removed.

    Args:
        model: The transition model.
        phones: The ``phones.txt`` of the model.
        known: Phones used in pronunciations, in the order of their ids; each phone of the model must be one of
            them or silence.

    Raises:
        VocabularyError: A phone of the model is unknown.
    """

    def __init__(self, model: TransitionModel, phones: SymbolTable, known: Collection[str]) -> None:
        self._model = model
        self._numbers = dict(zip(known, range(len(known)), strict=True))
        largest = int(model.phones.max(initial=0))
        self._phone = np.full(largest + 1, NO_PHONE, np.int32)  # index in `known` of each phone of the model
        for phone in model.phones.tolist():
            self._phone[phone] = self._number(phones.word(phone), phones.path)

    @classmethod
    def read(cls, model: str | os.PathLike[str], phones: str | os.PathLike[str], known: Collection[str]) -> ArcPhones:
        """Read a transition model and its ``phones.txt``; see the class for `known`."""
        return cls(read_transition_model(model), SymbolTable.read(phones), known)

    def of_arcs(self, lattice: Lattice) -> list[tuple[int, ...]]:
        """Return the phones of each arc as indices into ``known``.

        Raises:
            LatticeError: The lattice has no alignments, or its alignments do not match the model.
        """
        if lattice.num_arcs and not lattice.ali.size:
            raise LatticeError(
                "the lattice has no alignments, which the transition model requires; omit the transition model",
                key=lattice.key,
            )
        self._model.check(lattice)
        phone = np.where(self._model.is_final[lattice.ali], self._phone[self._model.phone[lattice.ali]], NO_PHONE)
        has_phone = np.flatnonzero(phone != NO_PHONE)
        begin: npt.NDArray[np.int64] = np.searchsorted(has_phone, lattice.ali_begin)
        numbers = phone[has_phone].tolist()
        return [tuple(numbers[first:last]) for first, last in zip(begin[:-1].tolist(), begin[1:].tolist(), strict=True)]

    def _number(self, name: str, path: str | None) -> int:
        plain = "".join(phones_of(name))
        for spelling in (plain, plain.upper()):
            if spelling in self._numbers:
                return self._numbers[spelling]
        if _SILENT.fullmatch(plain) or _SILENT.fullmatch(name):
            return NO_PHONE
        raise VocabularyError(
            f"the phone {name!r} is neither silence nor a phone in the pronunciations; specify a lexicon and confusion "
            "costs with the phones of the recogniser",
            path,
        )
