"""Minimum-Bayes-risk decoding: the word sequence with the least expected word error, and word confidences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from ninja import _consensus
from ninja.consensus.written import ArcForms, BinForms, arc_forms
from ninja.errors import LatticeError, OptionError, kind_of
from ninja.graph.kinds import to_compact
from ninja.graph.posteriors import posteriors
from ninja.lattice import Lattice, Scales
from ninja.lattice.arrays import offsets, runs
from ninja.lattice.batch import Batch, as_batch
from ninja.lattice.symbols import EPSILON, SymbolTable
from ninja.lattice.text import LexicalTable
from ninja.lattice.times import state_times
from ninja.lattice.word_ids import check_one_each, ids_of

Integers = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Consensus:
    """A decoded word sequence and its confusion network. All times are in frames.

    Decoding builds the network around a hypothesis, and rebuilds it until the hypothesis no longer improves. The
    network has a bin for each word in its last hypothesis, and one bin before the first word, between adjacent
    words and after the last word. The posteriors in a bin sum to 1. Arrays are read-only.
    """

    key: str
    words: Integers  # [num_words], word sequence of least expected error
    confidences: Floats  # [num_words], posterior of each word in its bin
    times: Floats  # [num_words, 2], start and end
    bin_begin: npt.NDArray[np.int64]  # [num_bins + 1]; entries of bin b are bin_begin[b] : bin_begin[b + 1]
    word: Integers  # [num_entries], 0 = no word; the most probable word of a bin comes first
    posterior: Floats  # [num_entries]
    word_times: Floats  # [num_entries, 2], mean start and end of the word in this bin
    bin_times: Floats  # [num_bins, 2], mean start and end of all words of the bin
    bayes_risk: float  # expected number of word errors of the last hypothesis
    rounds: int  # number of times the network was built
    touches_band: bool = False  # whether the search of a long lattice was limited, so that the result is approximate
    symbols: SymbolTable | None = None  # symbol table for all ids; None if the lattice's table contains all of them


def check_consensus(argument: object) -> None:
    """Raise OptionError if an argument is not a decoded word sequence."""
    if not isinstance(argument, Consensus):
        raise OptionError(f"expected a Consensus, but got {kind_of(argument)}; pass the result of mbr_decode")


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
    """Find the word sequence with the least expected word error; return confidences, times and a confusion network.

    The best path minimises the expected sentence error; this sequence minimises the expected word error. Both depend on
    the path probabilities in the lattice, and thus on the acoustic scale. The times are exact only if each arc has the
    alignment labels of its word; see ``align_words``.

    If the number of states times the number of words is at most about 131,000, each state is compared with all words.
    For longer recordings, time and memory grow linearly: each state is compared with at least 32 words on either side
    of its time, or of its relative position if the lattice has no times. This band of words is widened
    if the result comes close to the edge of the band, and posteriors below 1e-16 are dropped
    (ext/consensus/mbr_band.hpp). If a wider band would have more than 4,194,304 state-word pairs, and more than
    twice as many pairs as the first band, the search stops, and ``touches_band`` of the result is true.

    Args:
        lattices: A lattice or a batch. To decode lattices from several systems jointly, see ``ninja.graph.combine``.
        scales: Scales that define the total cost; smaller scales flatten the distribution.
        decode_mbr: Search for the best sequence. Otherwise, keep the words on the best path, or in `hypothesis`, and
            only build the network for these words.
        print_silence: Keep bins in which the absence of a word is most probable, as words with id 0.
        hypothesis: Word ids of the initial hypothesis; zeros are skipped. For a batch, one sequence per lattice.
            [default: the best path]
        forms: Lexical forms by which words are compared. Bins then contain lexical words, each replaced with its most
            probable written form in the bin; of equally probable forms, the form with the smallest id is used. If a
            written word with several lexical words, such as "twenty-three", is the most probable form of all these
            words, it appears once in the decoded sequence; otherwise, and in bins, the lexical words are used. Written
            words without lexical words, such as commas, appear in the decoded sequence, but not in bins: between two
            words, the most probable written word of this kind is kept if it is more probable than its absence.
            [default: words are compared unchanged]

    Returns:
        The decoded words and their network; for a batch, one result per lattice. If a lattice has a single path, all
        confidences are 1.

    Raises:
        LatticeError: No path leads from the start to a final state, state times are inconsistent, or the scaled costs
            of all paths exceed the range of float32.
        OptionError: A word id in `hypothesis` is out of range, or the numbers of hypotheses and lattices differ.
        SymbolError: With `forms`, a word id is not in the symbol table.

    Source: Xu, Povey, Mangu and Zhu 2011, "Minimum Bayes Risk decoding and system combination based on a recursion for
    edit distance"; Kaldi, lat/sausages.cc, whose printed output is identical.
    """
    options = scales, decode_mbr, print_silence
    if isinstance(lattices, Batch):
        return decode_with_limits(lattices, hypothesis, *options, forms=forms)  # type: ignore[arg-type]
    hypotheses = None if hypothesis is None else [hypothesis]
    return decode_with_limits(lattices, hypotheses, *options, forms=forms)[0]  # type: ignore[arg-type]


def decode_with_limits(
    lattices: Lattice | Batch,
    hypotheses: Sequence[Words] | None,
    scales: Scales,
    decode_mbr: bool = True,
    print_silence: bool = False,
    *limits: int,
    forms: LexicalTable | None = None,
) -> list[Consensus]:
    """Return one result of ``mbr_decode`` per lattice.

    Args:
        lattices: See ``mbr_decode``.
        hypotheses: Initial hypothesis for each lattice; None uses the best paths.
        scales: See ``mbr_decode``.
        decode_mbr: See ``mbr_decode``.
        print_silence: See ``mbr_decode``.
        limits: Values that replace the kernel's limits on the number of state-word pairs.
        forms: See ``mbr_decode``.
    """
    lattices = to_compact(lattices)  # type: ignore[type-var]  # gives each arc all labels of its word
    arcs = None if forms is None else arc_forms(lattices, forms, all_changed=hypotheses is not None)
    start = None
    if hypotheses is not None:
        word_ids = [ids_of(hypothesis, "hypothesis", least=0) for hypothesis in hypotheses]
        check_one_each(len(word_ids), len(as_batch(lattices)), "hypotheses")
        if arcs is not None:
            for index in arcs.changed.tolist():
                word_ids[index] = arcs.table.numbers.of_written(word_ids[index])
        start = np.concatenate([*word_ids, np.zeros(0, np.int32)]), offsets([len(words) for words in word_ids])
    failed, of_words, of_bins, of_entries, of_lattices, of_forms = _consensus.decode_mbr(
        lattices if arcs is None else arcs.batch,
        scales,
        start,
        None if arcs is None else (arcs.changed, arcs.form),
        decode_mbr,
        print_silence,
        *limits,
    )
    batch = as_batch(lattices)
    if failed >= 0:
        state_times(batch[failed])
        posteriors(batch[failed], scales)
        raise LatticeError(
            "the scaled costs exceed the range of float32; scale the costs down first", key=batch.keys[failed]
        )
    bins, bin_begin, bin_times = of_bins
    risk, rounds, touches_band = of_lattices
    columns = (
        *_split(*of_words),
        runs(bin_begin, bins + np.arange(len(bins))),  # num_bins + 1 offsets per lattice
        *_split(*of_entries),
        runs(bin_times, bins),
        risk.tolist(),
        rounds.tolist(),
        touches_band.astype(bool).tolist(),
    )
    results = [Consensus(*fields) for fields in zip(batch.keys, *columns, strict=True)]
    if arcs is None or of_forms is None:
        return results
    entry_of_word, form, whole, *marks = of_forms
    of_word, of_entry, of_bin = (
        offsets(np.diff(begin)[arcs.changed]) for begin in (of_words[0], of_entries[0], bins)
    )  # offsets of the changed lattices only
    columns = *_split(of_word, entry_of_word), *_split(of_entry, form, whole), *_split(of_bin, *marks)
    for index, *fields in zip(arcs.changed.tolist(), *columns, strict=True):
        results[index] = _with_written_words(results[index], arcs, BinForms(*fields))
    return results


def _with_written_words(lexical: Consensus, arcs: ArcForms, forms: BinForms) -> Consensus:
    """Replace the lexical words in a result with written words."""
    decoded_words = lexical.words, lexical.confidences, lexical.times
    words, confidences, times = forms.words(arcs, *decoded_words, lexical.bin_begin)
    word = forms.entries(arcs, lexical.word)
    symbols = arcs.table.spelling(np.concatenate((words, word[word != EPSILON])))
    return replace(lexical, words=words, confidences=confidences, times=times, word=word, symbols=symbols)


def _split(begin: npt.NDArray[np.int64], *columns: npt.NDArray[Any]) -> list[list[npt.NDArray[Any]]]:
    """Split arrays that contain values of all lattices into one array per lattice.

    Args:
        begin: Index of the first value of each lattice, followed by the total number of values.
        columns: Arrays to split.

    Returns:
        For each array in `columns`, a list with one array per lattice.
    """
    return [runs(column, begin) for column in columns]
