"""Bindings of the kernels that convert HTK, Sphinx, SRILM, Moses, OpenFst text and k2 lattices from and to arrays."""

cimport numpy as np
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython.operator cimport dereference
from libc.stdint cimport int32_t, int64_t
from libcpp cimport bool as cbool
from libcpp.memory cimport unique_ptr
from libcpp.string cimport string
from libcpp.vector cimport vector

cimport formats.texts as c
from core.lattice cimport (
    Arcs, Block, arcs_of, array_in, data_of, doubles, filled, floats, int32s, int64s, new_block, owner_of,
    string_view,
)

from ninja.errors import FormatError, LatticeError
from ninja.lattice import SLOTS, Lattice

np.import_array()

cdef tuple _SLOTS = SLOTS  # a C variable, which needs no look-up by name
cdef object _new = object.__new__


cdef bytes _bytes(string_view text):
    return PyBytes_FromStringAndSize(text.data(), text.size())


cdef vector[string] _strings(object names):
    cdef vector[string] result
    for name in names:
        result.push_back(name)
    return result


ctypedef fused Parser:
    c.SlfParser
    c.SphinxParser
    c.PfsgParser
    c.PlfParser


cdef dict _read(Parser* parser, int fold, const char* node_name, list null, list silent, str path, str key):
    """Return the arrays of a lattice, and ``(word, line)`` of each word; words in the arrays count from 1.

    Args:
        fold: Links into the end that become final costs: 0 none, 1 links of null words, 2 also links of silence.
        null, silent: Words that are read as the null word, or as silence.

    Raises:
        LatticeError, FormatError: The file is invalid.
    """
    cdef c.TextLattice made
    cdef c.Fault fault
    c.add_silent(parser.words, _strings(null), c.kNull)
    c.add_silent(parser.words, _strings(silent), c.kSilent)
    with nogil:
        fault = c.read_text(dereference(parser), fold, node_name, made)
    cdef const vector[c.WordEntry]* entry = &parser.words.entries()
    if fault.kind != c.kNone:
        kind = LatticeError if fault.kind == c.kLattice else FormatError
        line = fault.line if fault.line >= 0 else None
        raise kind(fault.message.decode("ascii", "replace"), path, key=key, line=line)
    return {
        "arc_begin": int64s(made.arc_begin),
        "dst": int32s(made.dst),
        "word": int32s(made.word),
        "graph": floats(made.graph),
        "acoustic": floats(made.acoustic),
        "final_graph": floats(made.final_graph),
        "final_acoustic": floats(made.final_acoustic),
        "time": int32s(made.time) if made.time.size() > 0 else None,
        "words": [(_bytes(entry[0][i].text), entry[0][i].line) for i in range(entry[0].size()) if entry[0][i].word > 0],
    }


def read_slf(bytes content not None, str path, str key, *, double frame_shift, int words, int fold,
             list costs not None, object missing_score, list silent not None, list null not None):
    """Read the bytes of an HTK lattice.

    Args:
        content: The whole file.
        path, key: For error messages.
        frame_shift: Seconds.
        words: Position of words at their nodes: 0 as in the file, 1 they begin there, 2 they end there.
        fold: Links into the end that become final costs: 0 none, 1 links of null words, 2 also links of silence.
        costs: ``(field, item or -1, is acoustic)`` of each cost.
        missing_score: Natural-log score of links without a score if other links have this score; None to reject such
            links.
        silent: Words that are read as epsilon.
        null: Names of the null word.

    Returns:
        A dict with the arrays of the lattice, ``words``, ``utterance`` (the name in the header) and ``num_costs``.
    """
    cdef c.SlfOptions options
    cdef c.SlfCost cost
    options.frame_shift = frame_shift
    options.words = <c.SlfWords>words
    options.fill = missing_score is not None
    options.missing_score = missing_score or 0.0
    for field, item, acoustic in costs:
        cost.field = field
        cost.item = item
        cost.acoustic = acoustic
        options.costs.push_back(cost)
    cdef const char* begin = PyBytes_AS_STRING(content)
    cdef int64_t size = len(content)
    cdef unique_ptr[c.SlfParser] owner
    owner.reset(new c.SlfParser(begin, begin + size, options))
    cdef c.SlfParser* parser = owner.get()
    found = _read(parser, fold, b"node", null, silent, path, key)
    found["utterance"] = _bytes(parser.utterance)
    found["num_costs"] = list(parser.num_costs)
    return found


def read_sphinx(bytes content not None, str path, str key, *, double base, cbool bracketed, list silent not None):
    """Read the bytes of a Sphinx lattice.

    Args:
        base: Base of the logarithms if the file does not specify it; 0 to reject such a file.
        bracketed: Whether words in [] or ++ are silence.
        silent: Words that are read as epsilon.
    """
    cdef const char* begin = PyBytes_AS_STRING(content)
    cdef int64_t size = len(content)
    cdef unique_ptr[c.SphinxParser] owner
    owner.reset(new c.SphinxParser(begin, begin + size, base, bracketed))
    return _read(owner.get(), 0, b"node", [], silent, path, key)


def read_pfsg(bytes content not None, int64_t at, int64_t line, str path, str key, *, int fold, list null not None):
    """Read the PFSG at an offset and line of a file; ``stop`` and ``line`` of the result are the offset and line of
    the next PFSG."""
    if not 0 <= at <= len(content):
        raise ValueError("not in the file")
    cdef const char* begin = PyBytes_AS_STRING(content)
    cdef int64_t size = len(content)
    cdef unique_ptr[c.PfsgParser] owner
    owner.reset(new c.PfsgParser(begin + at, begin + size, line))
    cdef c.PfsgParser* parser = owner.get()
    found = _read(parser, fold, b"node", null, [], path, key)
    found["name"] = _bytes(parser.name)
    found["stop"] = parser.at() - begin
    found["line"] = parser.line()
    return found


def read_plf(bytes content not None, int64_t line, str path, str key, *, int kind, int32_t graph, int32_t acoustic,
             int fold, list null not None):
    """Read the bytes of a PLF lattice on a line of a file.

    Args:
        kind: Kind of the scores: 0 detected, 1 logarithms of probabilities, 2 probabilities, 3 any logarithms.
        graph, acoustic: Index of the score that becomes the cost, or -1.
    """
    cdef const char* begin = PyBytes_AS_STRING(content)
    cdef int64_t size = len(content)
    cdef unique_ptr[c.PlfParser] owner
    owner.reset(new c.PlfParser(begin, begin + size, line, <c.PlfScores>kind, graph, acoustic))
    return _read(owner.get(), fold, b"state", null, [], path, key)


def slf_lines(object lattice, object place, list texts not None, object time, *, double frame_shift, int decimals,
              double log_base, cbool linear, cbool end, int32_t end_time):
    """Return the node and link lines of an HTK lattice as bytes.

    Args:
        lattice: The lattice, whose costs must be finite.
        place: int32 [num_arcs], index of each arc's word in the texts.
        texts: Words as bytes, quoted if necessary.
        time: int32 [num_states], frames, or None.
        frame_shift, decimals: Seconds per frame, and the number of decimals of times.
        log_base, linear: Divisor of the scores, or whether they are probabilities.
        end, end_time: Add an end node after the final states, at this frame.
    """
    cdef Arcs arcs = arcs_of(lattice)
    cdef const int32_t* places = <const int32_t*>data_of(place, np.NPY_INT32, arcs.num_arcs)
    cdef vector[string] words = _strings(texts)
    cdef const int32_t* frames = NULL
    if time is not None:
        frames = <const int32_t*>data_of(time, np.NPY_INT32, arcs.num_states)
    cdef c.SlfStyle style = c.SlfStyle(frames, frame_shift, decimals, log_base, linear, end, end_time)
    cdef string lines
    with nogil:
        lines = c.slf_lines(arcs, places, words, style)
    return <bytes>lines


def look_at_fst_text(bytes content not None):
    """Return the properties of the lines that distinguish an acceptor from a transducer.

    Returns:
        (three, five, is_integer, is_weight, fields): whether there are lines of three fields, and of five fields; and,
        if there are neither, whether the last of four fields is always an integer, whether it is always a weight but
        not always equal to the third field, and its distinct values.
    """
    cdef const char* begin = PyBytes_AS_STRING(content)
    cdef int64_t size = len(content)
    cdef c.FstTextLook found
    cdef size_t place
    with nogil:
        found = c.look_at_fst_text(begin, begin + size)
    fourth = [_bytes(found.fourth[place]) for place in range(found.fourth.size())]
    return found.three, found.five, found.fourth_integer, found.fourth_weight, fourth


def read_fst_text(bytes content not None, int64_t line, *, bint acceptor, bint spelled):
    """Read the lines of an acceptor or a transducer.

    Args:
        content: The lines.
        line: Number of the first line.
        acceptor: Whether arcs have one label instead of two.
        spelled: Also return the text of labels that are integers.

    Returns:
        (fault, line, field, number of fields, None) for an invalid file, where the fault is 1 for a number of fields
        that neither arcs nor final states have, 2 for an invalid state, 3 for an invalid weight, 4 for an empty file,
        and 5 if an arc enters a state without a line. Otherwise (0, -1, b"", 0, machine) with the machine (labels, ids,
        arc_begin, dst, label, cost, final_cost): the distinct output labels with their first lines, empty if they are
        integers and `spelled` is false; their integers after a 0, int32 [labels + 1], or None if one is not an integer;
        and as label of each arc the 1-based index of its output label.
    """
    cdef const char* begin = PyBytes_AS_STRING(content)
    cdef int64_t size = len(content)
    cdef c.FstText made
    cdef size_t place
    with nogil:
        c.read_fst_text(begin, begin + size, line, acceptor, made)
    if made.fault != c.FstTextFault.kNone:
        return <int>made.fault, made.line, _bytes(made.field), made.num_fields, None
    ids = None if made.ids.empty() else int32s(made.ids)
    labels = [] if ids is not None and not spelled else [
        (_bytes(made.labels.entries()[place].text), made.labels.entries()[place].line)
        for place in range(made.labels.entries().size())
    ]
    return 0, -1, b"", 0, (
        labels, ids, int64s(made.arc_begin), int32s(made.dst), int32s(made.label), doubles(made.cost),
        doubles(made.final_cost),
    )


def read_k2(object arcs not None, int64_t first, int64_t last, int64_t num_states, object word, object lm, object am,
            *, bint as_graph):
    """Create the arrays of a lattice from the arcs `first : last` of a k2 tensor.

    Args:
        arcs: int32 [4 * all arcs].
        first, last: First arc of the FSA, and the first arc after it.
        num_states: Number of its states, including the final state.
        word: int32 [all arcs] or None.
        lm: float32 [all arcs] or None.
        am: float32 [all arcs] or None.
        as_graph: Whether scores without `lm` become graph costs.

    Returns:
        (error, arc, malformed, arrays): a message, or ""; the arc, counted from `first`, or -1; whether k2 would also
        reject the FSA; and (arc_begin, dst, word, graph, acoustic, final_graph, final_acoustic).
    """
    cdef c.K2Fsa fsa
    cdef int64_t count = np.PyArray_DIM(<np.ndarray?>arcs, 0) // 4
    if not 0 <= first <= last <= count or num_states < 0 or num_states > 0x7fffffff:
        raise ValueError("arcs outside the tensor")
    fsa.num_arcs = last - first
    fsa.num_states = num_states
    fsa.arcs = <const int32_t*>data_of(arcs, np.NPY_INT32, -1) + 4 * first
    if word is not None:
        fsa.word = <const int32_t*>data_of(word, np.NPY_INT32, count) + first
    if lm is not None:
        fsa.lm = <const float*>data_of(lm, np.NPY_FLOAT32, count) + first
    if am is not None:
        fsa.am = <const float*>data_of(am, np.NPY_FLOAT32, count) + first
    fsa.as_graph = as_graph
    cdef c.K2Plan plan
    with nogil:
        plan = c.plan_k2(fsa)
    cdef c.K2Fault fault = plan.fault
    if not fault.error.empty():
        return fault.error.decode(), fault.arc, fault.malformed, None
    cdef Block to = new_block(plan.num_states, plan.num_arcs, 0, 0)
    cdef object owner = owner_of(&to)
    with nogil:
        fault = c.fill_k2(fsa, plan, to)
    if not fault.error.empty():
        return fault.error.decode(), fault.arc, fault.malformed, None
    return "", -1, False, (
        array_in(to.arc_begin, plan.num_states + 1, np.NPY_INT64, owner),
        array_in(to.dst, plan.num_arcs, np.NPY_INT32, owner),
        array_in(to.word, plan.num_arcs, np.NPY_INT32, owner),
        array_in(to.graph, plan.num_arcs, np.NPY_FLOAT32, owner),
        array_in(to.acoustic, plan.num_arcs, np.NPY_FLOAT32, owner),
        array_in(to.final_graph, plan.num_states, np.NPY_FLOAT32, owner),
        array_in(to.final_acoustic, plan.num_states, np.NPY_FLOAT32, owner),
    )


def whole_lattice(str key not None, tuple arrays not None, ali_begin, ali, final_ali_begin, final_ali, str kind, time,
                  frame_shift, words):
    """Create a lattice from the arrays of ``read_k2`` and other fields, without checks."""
    return filled(_new(Lattice), _SLOTS, (
        key, arrays[0], arrays[1], arrays[2], arrays[3], arrays[4], ali_begin, ali, arrays[5], arrays[6],
        final_ali_begin, final_ali, kind, time, frame_shift, words,
    ))
