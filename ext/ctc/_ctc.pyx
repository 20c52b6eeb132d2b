"""Bindings of the kernels of ``ninja.decoding``."""

cimport numpy as np
from libc.stdint cimport int32_t, int64_t, uint8_t

cimport ctc.kernels as c
from core.lattice cimport doubles, floats, int32s, int64s

np.import_array()


def search(const double[:, ::1] logprob not None, int64_t blank, const uint8_t[::1] kind not None,
           const int64_t[::1] child_begin not None, const int32_t[::1] unit not None, const int32_t[::1] child not None,
           const uint8_t[::1] is_word not None, int64_t beam, double score_beam, int64_t max_units):
    """Run the beam search; the arrays of the lexicon are empty if any word is allowed.

    Returns:
        (parent, state, unit_begin, unit, total, word_begin, node, first, end, cost, alignment); see
        ext/ctc/ctc_problem.hpp.
    """
    cdef c.CtcUnits units
    cdef c.CtcLexicon lexicon
    cdef c.CtcBeam options
    cdef c.CtcResult result
    cdef c.CtcSearch* kernel
    cdef int64_t num_frames = logprob.shape[0]
    units.num_units = logprob.shape[1]
    units.blank = blank
    if kind.shape[0] != units.num_units or units.num_units == 0 or not 0 <= blank < units.num_units:
        raise ValueError("kind must have one element per column, and the blank must be a column")
    units.kind = &kind[0]
    lexicon.num_states = is_word.shape[0]
    lexicon.child_begin = NULL
    lexicon.unit = NULL
    lexicon.child = NULL
    lexicon.is_word = NULL
    if lexicon.num_states:
        if child_begin.shape[0] != lexicon.num_states + 1 or unit.shape[0] == 0 or unit.shape[0] != child.shape[0]:
            raise ValueError("the arrays of the lexicon have inconsistent lengths")
        lexicon.child_begin = &child_begin[0]
        lexicon.unit = &unit[0]
        lexicon.child = &child[0]
        lexicon.is_word = &is_word[0]
    options.beam = beam
    options.score_beam = score_beam
    options.max_units = max_units
    cdef const double* first = &logprob[0, 0] if num_frames else NULL
    with nogil:
        kernel = new c.CtcSearch(units, lexicon, options)
        try:
            kernel.search(first, num_frames, result)
        finally:
            del kernel
    return (
        int32s(result.parent), int32s(result.state), int64s(result.unit_begin), int32s(result.unit),
        doubles(result.total), int64s(result.word_begin), int32s(result.node), int32s(result.first),
        int32s(result.end), doubles(result.cost), int32s(result.alignment),
    )


def lattice(const int64_t[::1] hypothesis not None, const double[::1] logprob not None,
            const int64_t[::1] word_begin not None, const int32_t[::1] node not None,
            const int32_t[::1] first not None, const int32_t[::1] end not None, const double[::1] cost not None,
            const int32_t[:, ::1] alignment not None, int32_t silence, const int32_t[::1] same not None,
            const int32_t[::1] kind not None, const int64_t[::1] id_begin not None, const int32_t[::1] id not None):
    """Create a lattice from one or more hypotheses of a search; see ext/ctc/ctc_lattice.hpp.

    Returns:
        (arc_begin, dst, word, acoustic, ali_begin, ali); only the last state is final.
    """
    cdef c.CtcHypotheses input
    cdef c.CtcLattice output
    input.num_hypotheses = hypothesis.shape[0]
    input.num_frames = alignment.shape[1]
    input.num_nodes = same.shape[0]
    if (hypothesis.shape[0] == 0 or logprob.shape[0] != hypothesis.shape[0]
            or word_begin.shape[0] != alignment.shape[0] + 1 or kind.shape[0] != same.shape[0]):
        raise ValueError("the arrays of the hypotheses have inconsistent lengths")
    input.hypothesis = &hypothesis[0]
    input.logprob = &logprob[0]
    input.word_begin = &word_begin[0]
    input.node = &node[0] if node.shape[0] else NULL
    input.first = &first[0] if node.shape[0] else NULL
    input.end = &end[0] if node.shape[0] else NULL
    input.cost = &cost[0] if node.shape[0] else NULL
    input.alignment = &alignment[0, 0] if input.num_frames else NULL
    input.silence = silence
    input.same = &same[0] if same.shape[0] else NULL
    input.kind = &kind[0] if same.shape[0] else NULL
    input.id_begin = &id_begin[0]
    input.id = &id[0] if id.shape[0] else NULL
    with nogil:
        output.make(input)
    return (
        int64s(output.arc_begin), int32s(output.dst), int32s(output.word), floats(output.acoustic),
        int64s(output.ali_begin), int32s(output.ali),
    )
