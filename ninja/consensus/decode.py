"""Minimum-Bayes-risk decoding: the words of least expected error, with confidences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from ninja import _consensus
from ninja.consensus.written import ArcForms, BinForms, arc_forms
from ninja.errors import OptionError
from ninja.graph.kinds import to_compact
from ninja.graph.path import no_path
from ninja.lattice import Lattice, Scales
from ninja.lattice.arrays import offsets, runs
from ninja.lattice.batch import Batch, as_batch
from ninja.lattice.symbols import LARGEST_ID, SymbolTable
from ninja.lattice.text import LexicalTable
from ninja.lattice.times import state_times

Integers = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Consensus:
    """A decoded word sequence and the confusion network around it; all times are frames.

    The network has a bin for each word of the sequence that was decoded last, and one before, between and after these;
    the posteriors of a bin sum to 1. Arrays are read-only.
    """

    key: str
    words: Integers  # [num_words], the sequence of least expected error
    confidences: Floats  # [num_words], posterior of each word in its bin
    times: Floats  # [num_words, 2], begin and end
    bin_begin: npt.NDArray[np.int64]  # [num_bins + 1]; entries of bin b are bin_begin[b] : bin_begin[b + 1]
    word: Integers  # [num_entries], 0 = no word; in each bin from the most probable on
    posterior: Floats  # [num_entries]
    word_times: Floats  # [num_entries, 2], average begin and end of this word in this bin
    bin_times: Floats  # [num_bins, 2], average begin and end of all of the bin
    bayes_risk: float  # expected number of word errors of the sequence the network was built around
    rounds: int  # how often the network was built
    touches_band: bool = False  # too long and too flat to compare widely enough: words and posteriors are approximate
    symbols: SymbolTable | None = None  # of the word ids, if the table of the lattice lacks some of them


Words = Sequence[int] | Integers


@overload
def mbr_decode(
    lattices: Lattice,
    scales: Scales = ...,
    *,
    decode_mbr: bool = ...,
    print_silence: bool = ...,
    hypothesis: Words | None = ...,
    forms: LexicalTable | None = ...,
) -> Consensus: ...
@overload
def mbr_decode(
    lattices: Batch,
    scales: Scales = ...,
    *,
    decode_mbr: bool = ...,
    print_silence: bool = ...,
    hypothesis: Sequence[Words] | None = ...,
    forms: LexicalTable | None = ...,
) -> list[Consensus]: ...
def mbr_decode(
    lattices: Lattice | Batch,
    scales: Scales = Scales(),
    *,
    decode_mbr: bool = True,
    print_silence: bool = False,
    hypothesis: Words | Sequence[Words] | None = None,
    forms: LexicalTable | None = None,
) -> Consensus | list[Consensus]:
    """Find the word sequence of least expected word error, with confidences, times and a confusion network.

    Where the best path has the fewest sentence errors on average, this has the fewest word errors, if the lattice's
    probabilities are to be believed: the acoustic scale matters. Times mean something only if the labels of an arc are
    those of its word (``align_words``).

    All states are compared with all words where states × words are at most 262,144. A longer recording takes time and
    memory in proportion to its length: a state is compared with at least 32 words to both sides of its time (its place,
    where the lattice has no times), with more where the result comes near the last of them, and shares below
    1e-16 are left out (ext/consensus/mbr_band.hpp). Where 4,194,304 pairs, or twice those that come first, are too few
    for that, ``touches_band`` of the result is true.

    Args:
        lattices: A lattice or a batch; of several systems' lattices together, see ``ninja.graph.combine``.
        scales: Factors of the costs; smaller ones flatten.
        decode_mbr: False: keep the best path's words, or those of `hypothesis`, and only build the network around them.
        print_silence: Keep bins that most probably hold no word as words with id 0.
        hypothesis: Word ids to begin with instead of the best path; zeros are left out. Of a batch, those of each
            lattice.
        forms: Lexical forms of the words, by which they are compared. Bins then hold lexical words, each spelled as its
            most probable written form in the bin (the smaller id of equally probable ones). The parts of a written word
            of several lexical words, such as "twenty-three", are joined in the decoded sequence where that word is the
            most probable form of all of them; elsewhere, and in bins, the lexical words themselves are used. A written
            word without lexical words, such as a comma, is in the decoded sequence but not in bins: between two
            words the most probable one is kept if it is more probable than none. [default: words are compared as they
            are]

    Returns:
        The words and their network, of a batch those of each lattice. If a lattice has but one path, all confidences
        are 1.

    Raises:
        LatticeError: No path leads from the start to a final state, or the times of states contradict each other.
        OptionError: A word id of `hypothesis` is out of range.
        SymbolError: With `forms`, a word id is not in the symbol table.

    Source: Xu, Povey, Mangu and Zhu 2011, "Minimum Bayes Risk decoding and system combination based on a recursion for
    edit distance"; Kaldi, lat/sausages.cc, whose answers these are to the last digit it prints.
    """
    options = scales, decode_mbr, print_silence
    if isinstance(lattices, Batch):
        return decoded(lattices, hypothesis, *options, forms=forms)  # type: ignore[arg-type]
    hypotheses = None if hypothesis is None else [hypothesis]
    return decoded(lattices, hypotheses, *options, forms=forms)[0]  # type: ignore[arg-type]


def decoded(
    lattices: Lattice | Batch,
    hypotheses: Sequence[Words] | None,
    scales: Scales,
    decode_mbr: bool = True,
    print_silence: bool = False,
    *limits: int,
    forms: LexicalTable | None = None,
) -> list[Consensus]:
    """Decode a lattice, or each of a batch, as ``mbr_decode`` does; `limits` of comparisons are the kernel's."""
    # An arc gets all labels of its word.
    lattices = to_compact(lattices)  # type: ignore[type-var]
    arcs = None if forms is None else arc_forms(lattices, forms)
    start = None
    if hypotheses is not None:
        word_ids = [_checked(hypothesis) for hypothesis in hypotheses]
        if arcs is not None:
            for place in arcs.changed:
                word_ids[place] = arcs.table.forms_of(word_ids[place])
        start = np.concatenate([*word_ids, np.zeros(0, np.int32)]), offsets([len(words) for words in word_ids])
    failed, of_words, of_bins, of_entries, of_lattices, of_forms = _consensus.decode_mbr(
        lattices if arcs is None else arcs.batch,
        scales,
        start,
        None if arcs is None else arcs.form,
        decode_mbr,
        print_silence,
        *limits,
    )
    batch = as_batch(lattices)
    if failed >= 0:
        state_times(batch[failed])
        raise no_path(batch.keys[failed])
    bins, bin_begin, bin_times = of_bins
    risk, rounds, touches_band = of_lattices
    columns = (
        *_apart(*of_words),
        runs(bin_begin, bins + np.arange(len(bins))),  # one more than there are bins
        *_apart(*of_entries),
        runs(bin_times, bins),
        risk.tolist(),
        rounds.tolist(),
        touches_band.astype(bool).tolist(),
    )
    results = [Consensus(*fields) for fields in zip(batch.keys, *columns, strict=True)]
    if arcs is None or of_forms is None:
        return results
    entry_of_word, form, whole, *marks = of_forms
    of_word, entry_forms = _apart(of_words[0], entry_of_word), _apart(of_entries[0], form, whole)
    fields = list(zip(*of_word, *entry_forms, *_apart(bins, *marks), strict=True))
    for place in arcs.changed:
        results[place] = _written(results[place], arcs, BinForms(*fields[place]))
    return results


def _written(lexical: Consensus, arcs: ArcForms, forms: BinForms) -> Consensus:
    """Return the result of lexical words with written words."""
    decoded_words = lexical.words, lexical.confidences, lexical.times
    words, confidences, times = forms.words(arcs, *decoded_words, lexical.bin_begin)
    word = forms.entries(arcs, lexical.word)
    table = arcs.table
    symbols = None if table.spelling is table.words else table.spelling
    return replace(lexical, words=words, confidences=confidences, times=times, word=word, symbols=symbols)


def _apart(begin: npt.NDArray[np.int64], *columns: npt.NDArray[Any]) -> list[list[npt.NDArray[Any]]]:
    """Return each lattice's part of columns that all of them share."""
    return [runs(column, begin) for column in columns]


def check_frame_shift(frame_shift: float) -> np.float32:
    """Return seconds per frame, above 0, in single precision, in which Kaldi computes times."""
    if not (math.isfinite(frame_shift) and np.float32(frame_shift) > 0.0):
        raise OptionError(f"frame_shift is {frame_shift}, but must be above 0: seconds from one frame to the next")
    return np.float32(frame_shift)


def _checked(hypothesis: Sequence[int] | Integers) -> Integers:
    wide = np.asarray(hypothesis)
    if wide.size == 0:
        return np.zeros(0, np.int32)
    if wide.ndim != 1 or wide.dtype.kind not in "iu":
        raise OptionError(f"a hypothesis is a row of word ids, not {wide.dtype} {list(wide.shape)}")
    if (bad := (wide < 0) | (wide > LARGEST_ID)).any():
        raise OptionError(f"the hypothesis holds {wide[bad][0]}, but word ids are 0 to {LARGEST_ID}")
    return np.ascontiguousarray(wide, np.int32)
