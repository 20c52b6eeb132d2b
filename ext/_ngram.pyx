# cython: language_level=3
"""N-gram language models; conversions only."""

cimport numpy as np
from cpython.bytes cimport PyBytes_AS_STRING
from cpython.pycapsule cimport PyCapsule_New
from libc.stdint cimport int32_t, int64_t
from libcpp cimport bool as cbool
from libcpp.memory cimport unique_ptr
from libcpp.string cimport string
from libcpp.utility cimport move
from libcpp.vector cimport vector

from arrays cimport alignments_of, arcs_of, data_of, floats, freeze, int32s, int64s, new_array
from clattice cimport Alignments, Arcs

from ninja.errors import LatticeError, ModelError, OptionError
from ninja.lattice import Lattice

np.import_array()


cdef extern from "ngram.hpp" namespace "ninja" nogil:
    cdef cppclass NgramModel:
        int32_t start
        int32_t order
        int64_t num_ngrams
        int32_t num_words()
        int64_t num_states()
        int64_t bytes()
        int64_t look_up(const int64_t* state, const int32_t* word, int64_t count, float* logprob, int64_t* next)

cdef extern from "arpa.hpp" namespace "ninja" nogil:
    cdef cppclass string_view "std::string_view":
        const char* data()
        size_t size()
    cdef cppclass WordList:
        int32_t size()
        string_view operator[](int32_t word)
    cdef cppclass CppArpaReader "ninja::ArpaReader":
        CppArpaReader(int64_t most_ngrams) except +
        int64_t feed(const char* text, int64_t size) except +
        void close() except +
        NgramModel finish() except +
        const string& error()
        int64_t line()
        const WordList& words()

cdef extern from "grammar.hpp" namespace "ninja" nogil:
    cdef cppclass NumberedNgrams:
        string error
        int64_t byte
        NgramModel model
        vector[int32_t] word_id
        int32_t bos
        int32_t eos
        int32_t unk
    NumberedNgrams c_read_const_arpa "ninja::read_const_arpa"(const char* content, int64_t size) except +
    cdef cppclass ParsedFst:
        string error
        int64_t byte
        vector[string] symbol
        vector[int64_t] symbol_id
    cdef cppclass Machine:
        ParsedFst fst
    Machine c_parse_machine "ninja::parse_machine"(const char* content, int64_t size) except +
    cdef struct GrammarLabels:
        int32_t backoff
        int32_t bos
        int32_t eos
    NumberedNgrams c_grammar_of "ninja::grammar_of"(const Machine& machine, const GrammarLabels& label) except +

cdef extern from "copies.hpp" namespace "ninja" nogil:
    cdef cppclass Origin:
        vector[int64_t] arc_map
        vector[int32_t] state_map
        vector[float] final_graph
    cdef cppclass Copies:
        int32_t* word
        float* acoustic
        int64_t* ali_begin
        int32_t* ali
        float* final_acoustic
        int64_t* final_ali_begin
        int32_t* final_ali
    void pool_sizes(const Origin& origin, const Alignments& old, int64_t* num_ali, int64_t* num_final_ali)
    void copy(const Origin& origin, const Arcs& arcs, const Alignments& old, const Copies& to)

cdef extern from "compose_ngram.hpp" namespace "ninja" nogil:
    cdef cppclass ComposedLattice:
        cbool too_large
        int64_t impossible
        Origin origin
        vector[int64_t] arc_begin
        vector[int32_t] dst
        vector[float] graph
    ComposedLattice c_compose_ngram "ninja::compose_ngram"(
        const Arcs& arcs, const NgramModel& model, const int32_t* lm_word, const float* extra, int32_t eos,
        double scale, int64_t max_arcs) except +


cdef class Model:
    """A back-off model: states and words are integers from 0."""

    cdef NgramModel model

    @property
    def order(self):
        """Words of the longest n-gram."""
        return self.model.order

    @property
    def num_ngrams(self):
        """N-grams of all lengths."""
        return self.model.num_ngrams

    @property
    def num_words(self):
        """Distinct words."""
        return self.model.num_words()

    @property
    def num_states(self):
        """States are below this number."""
        return self.model.num_states()

    @property
    def start(self):
        """The state after <s>."""
        return self.model.start

    @property
    def num_bytes(self):
        """Memory the model takes."""
        return self.model.bytes()

    @property
    def address(self):
        """The C++ model, for other extension modules; whoever takes it holds this object."""
        return PyCapsule_New(&self.model, "ninja.NgramModel", NULL)

    def logprob(self, states not None, words not None):
        """Return ln P(word | state), float32 [n], of states int64 [n] and words int32 [n]."""
        return self._look_up(states, words, True, False)[0]

    def advance(self, states not None, words not None):
        """Return the states after words, int64 [n], of states int64 [n] and words int32 [n]."""
        return self._look_up(states, words, False, True)[1]

    def step(self, states not None, words not None):
        """Return both, (float32 [n], int64 [n]), at the cost of one."""
        return self._look_up(states, words, True, True)

    cdef _look_up(self, states, words, cbool score, cbool advance):
        cdef int64_t count = np.PyArray_SIZE(<np.ndarray?>states)
        cdef const int64_t* state = <const int64_t*>data_of(states, np.NPY_INT64, count)
        cdef const int32_t* word = <const int32_t*>data_of(words, np.NPY_INT32, count)
        cdef float* logprob = NULL
        cdef int64_t* after = NULL
        cdef int64_t bad
        scores, following = None, None
        if score:
            scores = new_array(count, np.NPY_FLOAT32)
            logprob = <float*>np.PyArray_DATA(<np.ndarray>scores)
        if advance:
            following = new_array(count, np.NPY_INT64)
            after = <int64_t*>np.PyArray_DATA(<np.ndarray>following)
        with nogil:
            bad = self.model.look_up(state, word, count, logprob, after)
        if bad >= 0:
            raise OptionError(
                f"state {state[bad]} or word {word[bad]} is not one of the model's {self.model.num_states()} and "
                f"{self.model.num_words()}"
            )
        return scores, following


cdef class ArpaReader:
    """Reads an ARPA file piece by piece."""

    cdef unique_ptr[CppArpaReader] reader
    cdef object path

    def __init__(self, str path not None, int64_t most_ngrams):
        self.path = path
        self.reader.reset(new CppArpaReader(most_ngrams))

    def feed(self, const unsigned char[::1] text not None):
        """Read the whole lines of a text; return how many bytes they are. After the end everything is taken."""
        cdef int64_t taken
        cdef const char* at = <const char*>&text[0] if text.shape[0] > 0 else NULL
        cdef int64_t size = text.shape[0]
        with nogil:
            taken = self.reader.get().feed(at, size)
        self._check()
        return taken

    def finish(self):
        """Return (model, words as bytes in order of their ids); the last call."""
        cdef Model model = Model.__new__(Model)
        cdef CppArpaReader* reader = self.reader.get()
        reader.close()
        self._check()
        with nogil:
            model.model = move(reader.finish())
        cdef const WordList* words = &reader.words()
        cdef int32_t word
        spelled = [words[0][word].data()[:words[0][word].size()] for word in range(words.size())]
        return model, spelled

    cdef _check(self):
        cdef CppArpaReader* reader = self.reader.get()
        if not reader.error().empty():
            raise ModelError(reader.error().decode("utf-8", "replace"), self.path, line=reader.line())


cdef _numbered(NumberedNgrams& found, path):
    if not found.error.empty():
        raise ModelError(
            found.error.decode("utf-8", "replace"), path, byte=None if found.byte < 0 else found.byte
        )
    cdef Model model = Model.__new__(Model)
    model.model = move(found.model)
    return model, int32s(found.word_id), found.bos, found.eos, found.unk


def read_const_arpa(bytes content not None, str path not None):
    """Read a const-arpa file.

    Returns:
        (model, the file's word id of each of its words int32 [num_words] ascending, then the model's words <s>, </s>
        and <unk>, -1 where it has none).
    """
    cdef const char* at = PyBytes_AS_STRING(content)
    cdef int64_t size = len(content)
    cdef NumberedNgrams found
    with nogil:
        found = move(c_read_const_arpa(at, size))
    return _numbered(found, path)


cdef class Grammar:
    """An OpenFst acceptor with back-off arcs."""

    cdef Machine machine
    cdef object path

    def __init__(self, bytes content not None, str path not None):
        cdef const char* at = PyBytes_AS_STRING(content)
        cdef int64_t size = len(content)
        self.path = path
        with nogil:
            self.machine = move(c_parse_machine(at, size))
        if not self.machine.fst.error.empty():
            raise ModelError(
                self.machine.fst.error.decode("utf-8", "replace"), path,
                byte=None if self.machine.fst.byte < 0 else self.machine.fst.byte,
            )

    @property
    def symbols(self):
        """The symbol table in the file as (word as bytes, id) pairs, or None."""
        cdef size_t i
        if self.machine.fst.symbol.empty():
            return None
        return [(self.machine.fst.symbol[i], self.machine.fst.symbol_id[i])
                for i in range(self.machine.fst.symbol.size())]

    def model(self, int32_t backoff, int32_t bos, int32_t eos):
        """Return what `read_const_arpa` returns; takes the labels of #0, <s> and </s>, -1 for none of the first two."""
        cdef GrammarLabels label
        cdef NumberedNgrams found
        label.backoff = backoff
        label.bos = bos
        label.eos = eos
        with nogil:
            found = move(c_grammar_of(self.machine, label))
        return _numbered(found, self.path)


def compose_ngram(lattice not None, Model model not None, lm_word not None, extra not None, int32_t eos, double scale,
                  int64_t max_arcs):
    """Compose a lattice with a model.

    Takes the model's word of each arc, -1 = none, int32 [num_arcs], a cost on top of the model's, float32 [num_arcs],
    and the factor of both.

    Returns:
        (lattice, old arc of each arc int64 [num_arcs]).

    Raises:
        LatticeError: More than max_arcs arcs arise.
        ModelError: The model does not allow a word.
        OptionError: A word is none of the model's.
    """
    cdef Arcs arcs = arcs_of(lattice)
    cdef Alignments alignments = alignments_of(lattice)
    cdef const int32_t* words = <const int32_t*>data_of(lm_word, np.NPY_INT32, arcs.num_arcs)
    cdef const float* costs = <const float*>data_of(extra, np.NPY_FLOAT32, arcs.num_arcs)
    cdef int64_t arc
    for arc in range(arcs.num_arcs):
        if words[arc] >= model.model.num_words():
            raise OptionError(f"word {words[arc]} is not one of the model's {model.model.num_words()}")
    cdef ComposedLattice out
    with nogil:
        out = move(c_compose_ngram(arcs, model.model, words, costs, eos, scale, max_arcs))
    if out.too_large:
        raise LatticeError(f"more than {max_arcs} arcs; prune the lattice first", key=lattice.key)
    if out.impossible >= 0:
        what = "the end of the sentence" if out.impossible == arcs.num_arcs else f"the word of arc {out.impossible}"
        raise ModelError(f"the language model gives probability zero to {what}", key=lattice.key)
    cdef int64_t num_ali, num_final_ali
    pool_sizes(out.origin, alignments, &num_ali, &num_final_ali)
    cdef np.npy_intp num_arcs = out.dst.size()
    cdef np.npy_intp num_states = out.origin.state_map.size()
    cdef Copies to
    word = new_array(num_arcs, np.NPY_INT32)
    acoustic = new_array(num_arcs, np.NPY_FLOAT32)
    ali_begin = new_array(num_arcs + 1, np.NPY_INT64)
    ali = new_array(num_ali, np.NPY_INT32)
    final_acoustic = new_array(num_states, np.NPY_FLOAT32)
    final_ali_begin = new_array(num_states + 1, np.NPY_INT64)
    final_ali = new_array(num_final_ali, np.NPY_INT32)
    to.word = <int32_t*>np.PyArray_DATA(<np.ndarray>word)
    to.acoustic = <float*>np.PyArray_DATA(<np.ndarray>acoustic)
    to.ali_begin = <int64_t*>np.PyArray_DATA(<np.ndarray>ali_begin)
    to.ali = <int32_t*>np.PyArray_DATA(<np.ndarray>ali)
    to.final_acoustic = <float*>np.PyArray_DATA(<np.ndarray>final_acoustic)
    to.final_ali_begin = <int64_t*>np.PyArray_DATA(<np.ndarray>final_ali_begin)
    to.final_ali = <int32_t*>np.PyArray_DATA(<np.ndarray>final_ali)
    with nogil:
        copy(out.origin, arcs, alignments, to)
    time = lattice.time
    if time is not None:
        time = freeze(time[int32s(out.origin.state_map)])
    return Lattice(
        lattice.key, int64s(out.arc_begin), int32s(out.dst), freeze(word), floats(out.graph), freeze(acoustic),
        freeze(ali_begin), freeze(ali), floats(out.origin.final_graph), freeze(final_acoustic),
        freeze(final_ali_begin), freeze(final_ali), kind=lattice.kind, time=time, frame_shift=lattice.frame_shift,
        words=lattice.words,
    ), int64s(out.origin.arc_map)
