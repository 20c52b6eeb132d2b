"""The path through a lattice with the fewest word errors."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from ninja import _graph
from ninja.errors import LatticeError
from ninja.graph.lexical import LexicalLattice, lexical_lattice
from ninja.graph.path import no_path
from ninja.graph.split import Words, without_words
from ninja.lattice import Lattice
from ninja.lattice.arrays import offsets, runs
from ninja.lattice.batch import Batch, as_batch
from ninja.lattice.symbols import EPSILON
from ninja.lattice.text import LexicalTable
from ninja.lattice.word_ids import check_one_each, ids_of


@dataclass(frozen=True, slots=True, eq=False)
class Oracle:
    """A path with the fewest word errors, and its edits."""

    words: npt.NDArray[np.int32]  # word ids of the path, without epsilons and wildcards
    arcs: npt.NDArray[np.int64]  # arc ids of the path
    substitutions: int
    insertions: int
    deletions: int
    num_words: int  # number of reference words, without wildcards
    touches_band: bool = False  # whether the limited search of a long lattice may have missed a better path

    @property
    def edits(self) -> int:
        """Edit distance between the path and the reference."""
        return self.substitutions + self.insertions + self.deletions


@overload
def oracle(
    lattices: Lattice, reference: Words, wildcards: Collection[int] = (), *, forms: LexicalTable | None = None
) -> Oracle: ...
@overload
def oracle(
    lattices: Batch, reference: Sequence[Words], wildcards: Collection[int] = (), *, forms: LexicalTable | None = None
) -> list[Oracle]: ...
def oracle(
    lattices: Lattice | Batch,
    reference: Words | Sequence[Words],
    wildcards: Collection[int] = (),
    *,
    forms: LexicalTable | None = None,
) -> Oracle | list[Oracle]:
    """Find the path with the fewest word errors, regardless of its cost.

    The result is exact if the number of states times the number of reference words is at most 8 million. For longer
    recordings, time and memory grow linearly: each state is compared with at least 256 reference words on either side
    of its position. This band of words is widened if the path comes near its edge or if more than a third of the words
    are edits (ext/graph/oracle.hpp). If a wider band would have more than 67 million pairs of a state and a word, and
    more than twice as many pairs as the first band, the search stops, and the result's ``touches_band`` is true.

    Args:
        lattices: A lattice or a batch.
        reference: Word ids of the reference, without epsilon (0). An id that no arc has, such as -1, never matches. For
            a batch, one reference per lattice.
        wildcards: Word ids, for example of noises, that are treated as epsilons in the lattice and the reference. With
            `forms`, words with the same lexical form as a wildcard are treated in the same way.
        forms: Lexical forms by which words are compared and counted. The reference must then be
            ``forms.ids(words)``.  [default: words are compared unchanged]

    Returns:
        A path, or for a batch, one path per lattice. Among paths with the same number of errors, the order of arcs
        determines the path, and thus the number of edits of each kind.

    Raises:
        LatticeError: No path leads from the start to a final state, or the reference contains an epsilon.
        OptionError: A reference is not a sequence of integers, or the numbers of references and lattices differ.

    Source: Kaldi, latbin/lattice-oracle.cc, for the definition.
    """
    compared, wildcards = None, list(wildcards)
    if forms is not None:
        if wildcards:
            return _lexical_oracle(lattices, reference, wildcards, forms)
        compared = forms.numbers.lattices(lattices, all_changed=True, labels=False).items
    sequences: list[Any] = list(reference) if isinstance(lattices, Batch) else [reference]
    check_one_each(len(sequences), len(as_batch(lattices)), "references")
    references = [ids_of(words, "reference") for words in sequences]
    begin = offsets([len(words) for words in references])
    ids = np.concatenate([np.zeros(0, np.int32), *references])
    if (zero := np.flatnonzero(ids == 0)).size:
        key = as_batch(lattices).keys[int(np.searchsorted(begin, zero[0], side="right")) - 1]
        raise LatticeError("the reference contains word id 0 (epsilon), which is not a word", key=key)
    if forms is not None:
        ids = forms.numbers_of(ids)
    if wildcards:
        is_word = ~np.isin(ids, wildcards)
        ids, begin = ids[is_word], offsets(is_word)[begin]
    failed, counts, (arcs, arc_begin, words, word_begin) = _graph.oracle(
        without_words(lattices, wildcards), ids, begin, compared=compared
    )
    if failed >= 0:
        raise no_path(as_batch(lattices).keys[failed])
    numbers = zip(*(count.tolist() for count in counts), np.diff(begin).tolist(), strict=True)
    oracles = [
        Oracle(word, arc, substitutions, insertions, deletions, num_words, bool(touches_band))
        for word, arc, (substitutions, insertions, deletions, touches_band, num_words) in zip(
            runs(words, word_begin), runs(arcs, arc_begin), numbers, strict=True
        )
    ]
    return oracles if isinstance(lattices, Batch) else oracles[0]


def _lexical_oracle(
    lattices: Lattice | Batch, reference: Words | Sequence[Words], wildcards: Collection[int], forms: LexicalTable
) -> Oracle | list[Oracle]:
    """Find the paths with the fewest errors in lexical words, and return them as paths through the written lattices."""
    written = list(as_batch(lattices))
    references: list[Any] = list(reference) if isinstance(lattices, Batch) else [reference]
    phrases = {tuple(form) for number in wildcards if len(form := forms.form(number)) > 1}
    bare = written
    if phrases:
        ids = {number for lattice in written for number in np.unique(lattice.word).tolist()}
        wild = [number for number in ids if tuple(forms.form(number)) in phrases]
        bare = [without_words(lattice, wild) for lattice in written]
        references = [_without_phrases(words, phrases) for words in references]
    lexical = [lexical_lattice(lattice, forms) for lattice in bare]
    batch = Batch.of([converted.lattice for converted in lexical])
    wild_forms = [form[0] for number in wildcards if len(form := forms.form(number)) == 1]
    oracles = [
        _written_path(lattice, converted, path, wildcards)
        for lattice, converted, path in zip(written, lexical, oracle(batch, references, wild_forms), strict=True)
    ]
    return oracles if isinstance(lattices, Batch) else oracles[0]


def _without_phrases(words: Words, phrases: Collection[tuple[int, ...]]) -> list[int]:
    """Remove phrases from a sequence of words, scanning from the left and removing the longest match at each word."""
    ids = np.asarray(words).tolist()
    sizes = sorted({len(phrase) for phrase in phrases}, reverse=True)
    unlisted, index = [], 0
    while index < len(ids):
        size = next((size for size in sizes if tuple(ids[index : index + size]) in phrases), 0)
        if not size:
            unlisted.append(ids[index])
        index += size or 1
    return unlisted


def _written_path(written: Lattice, lexical: LexicalLattice, path: Oracle, wildcards: Collection[int]) -> Oracle:
    arcs = lexical.written_arcs(path.arcs)
    word = written.word[arcs]
    return replace(path, words=word[(word != EPSILON) & ~np.isin(word, list(wildcards))], arcs=arcs)
