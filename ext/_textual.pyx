# cython: language_level=3
# distutils: language=c++
"""Lattices of HTK, Sphinx, SRILM and Moses between text and arrays: converts only, the work is done in C++."""

cimport numpy as np
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t
from libcpp cimport bool as cbool
from libcpp.string cimport string
from libcpp.vector cimport vector

from arrays cimport alignments_of, arcs_of, copied, data_of, floats, freeze, int32s, int64s, new_array
from clattice cimport Alignments, Arcs

from ninja.errors import FormatError, LatticeError

np.import_array()


cdef extern from "<string_view>" namespace "std" nogil:
    cdef cppclass string_view:
        const char* data()
        size_t size()

cdef extern from "text_lattices.hpp" namespace "ninja" nogil:
    cdef struct Fault:
        int kind
        string message
        int64_t line
    const int kNone "ninja::Fault::kNone"
    const int kLattice "ninja::Fault::kLattice"
    cdef struct WordEntry "ninja::Vocabulary::Entry":
        string_view text
        int64_t line
        int32_t word
        int64_t num_silent
    cdef cppclass Vocabulary:
        const vector[WordEntry]& entries()
    cdef cppclass TextLattice:
        vector[int64_t] arc_begin
        vector[int32_t] dst
        vector[int32_t] word
        vector[float] graph
        vector[float] acoustic
        vector[float] final_graph
        vector[float] final_acoustic
        vector[int32_t] time
        vector[int32_t] link
        vector[int32_t] final_link
        vector[int32_t] node
        int32_t end_node
        int32_t end_time

cdef extern from "text_lattices_read.hpp" namespace "ninja" nogil:
    cdef cppclass SlfCost:
        string field
        int32_t item
        cbool acoustic
    cdef struct SlfEntry:
        string_view name
        string_view value
    cdef struct SlfField:
        cbool on_link
        int32_t row
        int32_t name
        string_view value
    cdef cppclass SlfOptions:
        double frame_shift
        cbool keep
        vector[SlfCost] costs
        cbool fill
        double missing_score
    cdef cppclass SlfParser:
        Vocabulary words
        vector[SlfEntry] header
        vector[SlfField] fields
        vector[string_view] names
        vector[char] on_links
        vector[char] on_nodes
        vector[int64_t] num_costs
        cbool word_begins
        int64_t num_rounded
        int64_t num_untimed
        int64_t num_impossible
    cdef cppclass SlfReading:
        SlfReading(const char*, const char*, const SlfOptions&, int words, int fold, const vector[string]& silent,
                   const vector[string]& null) except +
        SlfParser parser
        TextLattice lattice
        Fault fault
        int64_t num_sublattices
        void read() except +
    cdef cppclass SphinxReading:
        SphinxReading(const char*, const char*, double base, cbool bracketed, const vector[string]& silent) except +
        Vocabulary& words()
        TextLattice lattice
        Fault fault
        double base()
        int32_t num_frames()
        const vector[int32_t]& variant()
        const vector[int32_t]& first_end()
        const vector[int32_t]& last_end()
        void read() except +
    cdef cppclass PfsgReading:
        PfsgReading(const char*, const char*, int64_t line, int fold, const vector[string]& null) except +
        Vocabulary& words()
        TextLattice lattice
        Fault fault
        string_view name()
        const char* stop()
        int64_t line()
        void read() except +
    cdef cppclass PlfReading:
        PlfReading(const char*, const char*, int64_t line, int kind, int32_t graph, int32_t acoustic, int fold,
                   const vector[string]& null) except +
        Vocabulary& words()
        TextLattice lattice
        Fault fault
        const vector[double]& scores()
        int32_t num_scores()
        void read() except +

cdef extern from "slf_write.hpp" namespace "ninja" nogil:
    cdef cppclass SlfStyle:
        const int32_t* time
        double frame_shift
        int decimals
        double log_base
        cbool linear
        cbool graph
        cbool acoustic
        cbool end
        int32_t end_time
    string c_slf_lines "ninja::slf_lines"(const Arcs& arcs, const int32_t* place, const vector[string]& texts,
                                          const SlfStyle& style, const vector[string]& on_node,
                                          const vector[string]& on_link) except +

cdef extern from "times.hpp" namespace "ninja" nogil:
    int64_t c_state_times "ninja::state_times"(const Arcs& arcs, const Alignments& alignments, int32_t* time)


cdef bytes _bytes(string_view text):
    return PyBytes_FromStringAndSize(text.data(), text.size())


cdef list _words(const vector[WordEntry]& entries):
    """Return ``(word, line)`` of each word that has a number, from 1 on."""
    cdef list result = []
    cdef size_t number
    for number in range(entries.size()):
        if entries[number].word > 0:
            result.append((_bytes(entries[number].text), entries[number].line))
    return result


cdef list _silent(const vector[WordEntry]& entries):
    """Return ``(word, times)`` of each word that was read as silence."""
    cdef list result = []
    cdef size_t number
    for number in range(entries.size()):
        if entries[number].num_silent > 0:
            result.append((_bytes(entries[number].text), entries[number].num_silent))
    return result


cdef int _raise(Fault& fault, str path, str key) except -1:
    cdef object kind = LatticeError if fault.kind == kLattice else FormatError
    cdef object line = fault.line if fault.line >= 0 else None
    raise kind(fault.message.decode("ascii", "replace"), path, key=key, line=line)


cdef dict _arrays(TextLattice& made):
    cdef dict arrays = {
        "arc_begin": int64s(made.arc_begin),
        "dst": int32s(made.dst),
        "word": int32s(made.word),
        "graph": floats(made.graph),
        "acoustic": floats(made.acoustic),
        "final_graph": floats(made.final_graph),
        "final_acoustic": floats(made.final_acoustic),
        "link": int32s(made.link),
        "final_link": int32s(made.final_link),
        "node": int32s(made.node),
        "time": int32s(made.time) if made.time.size() > 0 else None,
        "end_node": made.end_node,
        "end_time": made.end_time if made.end_time >= 0 else None,
    }
    return arrays


cdef vector[string] _strings(object names):
    cdef vector[string] result
    for name in names:
        result.push_back(name)
    return result


def read_slf(bytes content not None, str path, str key, *, double frame_shift, cbool keep, int words, int fold,
             list costs not None, object missing_score, list silent not None, list null not None):
    """Read the bytes of an HTK lattice.

    Args:
        content: The whole file.
        path, key: For error messages.
        frame_shift: Seconds.
        keep: Return the fields that have no place in a lattice.
        words: Where the words of nodes begin or end: 0 as the file says, 1 begin, 2 end.
        fold: Which links into the end become final costs: 0 none, 1 those of null words, 2 those of silence too.
        costs: ``(field, item or -1, is acoustic)`` of each cost.
        missing_score: Score, a natural logarithm, that links get which lack one that others have; None: refuse them.
        silent: Words that are read as epsilon.
        null: Names of the null word.

    Returns:
        A dict: the arrays of the lattice (words counted from 1), ``words`` as ``(word, line)``, and what else there is.
    """
    cdef SlfOptions options
    cdef SlfCost cost
    options.frame_shift = frame_shift
    options.keep = keep
    options.fill = missing_score is not None
    options.missing_score = missing_score or 0.0
    for field, item, acoustic in costs:
        cost.field = field
        cost.item = item
        cost.acoustic = acoustic
        options.costs.push_back(cost)
    cdef const char* begin = PyBytes_AS_STRING(content)
    cdef int64_t size = len(content)
    cdef SlfReading* reading = new SlfReading(
        begin, begin + size, options, words, fold, _strings(silent), _strings(null)
    )
    cdef size_t number
    try:
        with nogil:
            reading.read()
        if reading.fault.kind != kNone:
            _raise(reading.fault, path, key)
        found = _arrays(reading.lattice)
        found["words"] = _words(reading.parser.words.entries())
        found["silent"] = _silent(reading.parser.words.entries())
        found["header"] = [
            (_bytes(reading.parser.header[number].name), _bytes(reading.parser.header[number].value))
            for number in range(reading.parser.header.size())
        ]
        found["others"] = [
            (_bytes(reading.parser.names[number]), reading.parser.on_links[number] != 0,
             reading.parser.on_nodes[number] != 0)
            for number in range(reading.parser.names.size())
        ]
        found["num_costs"] = list(reading.parser.num_costs)
        found["fields"] = [
            (reading.parser.fields[number].on_link, reading.parser.fields[number].row,
             reading.parser.fields[number].name, _bytes(reading.parser.fields[number].value))
            for number in range(reading.parser.fields.size())
        ]
        found["word_begins"] = reading.parser.word_begins
        found["num_rounded"] = reading.parser.num_rounded
        found["num_untimed"] = reading.parser.num_untimed
        found["num_impossible"] = reading.parser.num_impossible
        found["num_sublattices"] = reading.num_sublattices
        return found
    finally:
        del reading


def read_sphinx(bytes content not None, str path, str key, *, double base, cbool bracketed, list silent not None):
    """Read the bytes of a Sphinx lattice.

    Args:
        base: Of the logarithms where the file does not say; 0: refuse such a file.
        bracketed: Words within [] or ++ are silence.
        silent: Words that are read as epsilon.
    """
    cdef const char* begin = PyBytes_AS_STRING(content)
    cdef int64_t size = len(content)
    cdef SphinxReading* reading = new SphinxReading(begin, begin + size, base, bracketed, _strings(silent))
    try:
        with nogil:
            reading.read()
        if reading.fault.kind != kNone:
            _raise(reading.fault, path, key)
        found = _arrays(reading.lattice)
        found["words"] = _words(reading.words().entries())
        found["silent"] = _silent(reading.words().entries())
        found["base"] = reading.base()
        found["frames"] = reading.num_frames()
        found["variant"] = int32s(reading.variant())
        found["first_end"] = int32s(reading.first_end())
        found["last_end"] = int32s(reading.last_end())
        return found
    finally:
        del reading


def read_pfsg(bytes content not None, int64_t at, int64_t line, str path, str key, *, int fold, list null not None):
    """Read the PFSG at an offset and line of a file; ``stop`` and ``line`` of the result say where the next one is."""
    if not 0 <= at <= len(content):
        raise ValueError("not in the file")
    cdef const char* begin = PyBytes_AS_STRING(content)
    cdef int64_t size = len(content)
    cdef PfsgReading* reading = new PfsgReading(begin + at, begin + size, line, fold, _strings(null))
    try:
        with nogil:
            reading.read()
        if reading.fault.kind != kNone:
            _raise(reading.fault, path, key)
        found = _arrays(reading.lattice)
        found["words"] = _words(reading.words().entries())
        found["name"] = _bytes(reading.name())
        found["stop"] = reading.stop() - begin
        found["line"] = reading.line()
        return found
    finally:
        del reading


def read_plf(bytes content not None, int64_t line, str path, str key, *, int kind, int32_t graph, int32_t acoustic,
             int fold, list null not None):
    """Read the bytes of one PLF lattice, which stands on that line of its file.

    Args:
        kind: What the scores are: 0 seen from them, 1 logarithms of probabilities, 2 probabilities, 3 any logarithms.
        graph, acoustic: Which score is the cost, -1 for none.
    """
    cdef const char* begin = PyBytes_AS_STRING(content)
    cdef int64_t size = len(content)
    cdef PlfReading* reading = new PlfReading(begin, begin + size, line, kind, graph, acoustic, fold, _strings(null))
    try:
        with nogil:
            reading.read()
        if reading.fault.kind != kNone:
            _raise(reading.fault, path, key)
        found = _arrays(reading.lattice)
        found["words"] = _words(reading.words().entries())
        found["num_scores"] = max(reading.num_scores(), 0)
        found["scores"] = freeze(copied(reading.scores().data(), reading.scores().size(), np.NPY_FLOAT64))
        return found
    finally:
        del reading


def slf_lines(object lattice, object place, list texts not None, object time, *, double frame_shift, int decimals,
              double log_base, cbool linear, cbool graph, cbool acoustic, cbool end, int32_t end_time,
              list on_node not None, list on_link not None):
    """Return the node and link lines of an HTK lattice as bytes.

    Args:
        lattice: The lattice, its costs finite.
        place: int32 [num_arcs], which of the texts is each arc's word.
        texts: bytes, quoted where need be.
        time: int32 [num_states], frames, or None.
        frame_shift, decimals: Seconds a frame, and with how many decimals they are written.
        log_base, linear: What scores are divided by, or whether they are probabilities.
        graph, acoustic: Which costs are written.
        end, end_time: Add an end node behind the final states, at this frame.
        on_node, on_link: bytes to stand at the end of each line, or empty lists; links into the end come last.
    """
    cdef Arcs arcs = arcs_of(lattice)
    cdef const int32_t* places = <const int32_t*>data_of(place, np.NPY_INT32, arcs.num_arcs)
    cdef vector[string] words = _strings(texts)
    cdef vector[string] behind_nodes = _strings(on_node)
    cdef vector[string] behind_links = _strings(on_link)
    cdef SlfStyle style
    cdef string lines
    if time is not None:
        style.time = <const int32_t*>data_of(time, np.NPY_INT32, arcs.num_states)
    style.frame_shift = frame_shift
    style.decimals = decimals
    style.log_base = log_base
    style.linear = linear
    style.graph = graph
    style.acoustic = acoustic
    style.end = end
    style.end_time = end_time
    with nogil:
        lines = c_slf_lines(arcs, places, words, style, behind_nodes, behind_links)
    return <bytes>lines


def state_times(object lattice):
    """Return the frame of each state by its alignments, int32 [num_states], -1 out of reach; None where they differ."""
    cdef Arcs arcs = arcs_of(lattice)
    cdef Alignments alignments = alignments_of(lattice)
    cdef object times = new_array(arcs.num_states, np.NPY_INT32)
    cdef int32_t* at = <int32_t*>np.PyArray_DATA(<np.ndarray>times)
    cdef int64_t wrong
    with nogil:
        wrong = c_state_times(arcs, alignments, at)
    return None if wrong >= 0 else freeze(times)
