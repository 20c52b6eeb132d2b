"""Bindings of n-gram language models."""

cimport numpy as np
from cpython.bytes cimport PyBytes_AS_STRING
from cpython.pycapsule cimport PyCapsule_New
from libc.stdint cimport int32_t, int64_t
from libcpp cimport bool as cbool
from libcpp.memory cimport unique_ptr
from libcpp.utility cimport move

cimport core.kernels as k
cimport lm.kernels as c
cimport lm.ngram as n
from core.lattice cimport Arcs, Composed, arcs_of, data_of, int32s, int64s, lattice_of_copies, new_array

from ninja.errors import LatticeError, ModelError, OptionError
from ninja.lattice import SLOTS, Lattice

np.import_array()

cdef tuple _SLOTS = SLOTS  # a C variable, which needs no look-up by name
cdef object _new = object.__new__


cdef class Model:
    """A back-off model, whose states and words are numbered from 0."""

    cdef n.NgramModel model

    @property
    def order(self):
        """Length of the longest n-gram."""
        return self.model.order

    @property
    def num_ngrams(self):
        """Number of n-grams of all lengths."""
        return self.model.num_ngrams

    @property
    def num_words(self):
        """Number of words."""
        return self.model.num_words()

    @property
    def num_states(self):
        """Number of states."""
        return self.model.num_states()

    @property
    def start(self):
        """The state after <s>."""
        return self.model.start

    @property
    def num_bytes(self):
        """Memory of the model in bytes."""
        return self.model.bytes()

    @property
    def address(self):
        """The C++ model, for other extension modules, which must keep a reference to this object."""
        return PyCapsule_New(&self.model, "ninja.NgramModel", NULL)

    def add_unknown(self, float logprob):
        """Add a word for all unknown words, with this natural-log probability after every history; return its id."""
        return self.model.add(logprob, self.model.root)

    def add_begin(self, float logprob):
        """Add <s> to a model without it; after it, words are scored as at the beginning of a sentence."""
        return self.model.add(logprob, self.model.start)

    def logprob(self, states not None, words not None):
        """Return ln P(word | state), float32 [n], for states, int64 [n], and words, int32 [n]."""
        return self._look_up(states, words, True, False)[0]

    def advance(self, states not None, words not None):
        """Return the next states, int64 [n], for states, int64 [n], and words, int32 [n]."""
        return self._look_up(states, words, False, True)[1]

    def step(self, states not None, words not None):
        """Return the results of `logprob` and `advance`, (float32 [n], int64 [n]), with a single lookup per word."""
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
                f"the state {state[bad]} or the word id {word[bad]} does not exist; the model has "
                f"{self.model.num_states()} states and {self.model.num_words()} words"
            )
        return scores, following


cdef class ArpaReader:
    """Parser of an ARPA file, which accepts the file in chunks."""

    cdef unique_ptr[c.ArpaReader] reader
    cdef object path

    def __init__(self, str path not None, int64_t most_ngrams):
        self.path = path
        self.reader.reset(new c.ArpaReader(most_ngrams))

    def feed(self, const unsigned char[::1] text not None):
        """Parse the complete lines of a text; return the number of bytes consumed. All bytes after the end of the model
        are consumed."""
        cdef int64_t taken
        cdef const char* at = <const char*>&text[0] if text.shape[0] > 0 else NULL
        cdef int64_t size = text.shape[0]
        with nogil:
            taken = self.reader.get().feed(at, size)
        self._check()
        return taken

    def finish(self):
        """Return (model, words as bytes in the order of their ids); must be called last."""
        cdef Model model = Model.__new__(Model)
        cdef c.ArpaReader* reader = self.reader.get()
        reader.close()
        self._check()
        with nogil:
            model.model = move(reader.finish())
        cdef const c.WordList* words = &reader.words()
        cdef int32_t word
        spelled = [words[0][word].data()[:words[0][word].size()] for word in range(words.size())]
        return model, spelled

    cdef _check(self):
        cdef c.ArpaReader* reader = self.reader.get()
        if not reader.error().empty():
            raise ModelError(reader.error().decode("utf-8", "replace"), self.path, line=reader.line())


cdef _numbered(c.NumberedNgrams& ngrams, path):
    if not ngrams.error.empty():
        raise ModelError(
            ngrams.error.decode("utf-8", "replace"), path, byte=None if ngrams.byte < 0 else ngrams.byte
        )
    cdef Model model = Model.__new__(Model)
    model.model = move(ngrams.model)
    return model, int32s(ngrams.word_id), ngrams.bos, ngrams.eos, ngrams.unk


def read_const_arpa(bytes content not None, str path not None):
    """Read a const-arpa file.

    Returns:
        (model, the file's id of each word of the model, int32 [num_words], ascending; and the model's ids of <s>, </s>
        and <unk>, or -1).
    """
    cdef const char* at = PyBytes_AS_STRING(content)
    cdef int64_t size = len(content)
    cdef c.NumberedNgrams found
    with nogil:
        found = move(c.read_const_arpa(at, size))
    return _numbered(found, path)


cdef class Grammar:
    """An OpenFst acceptor with back-off arcs."""

    cdef k.Machine machine
    cdef object path

    def __init__(self, bytes content not None, str path not None):
        cdef const char* at = PyBytes_AS_STRING(content)
        cdef int64_t size = len(content)
        self.path = path
        with nogil:
            self.machine = move(k.parse_any(at, size))
        if not self.machine.fst.error.empty():
            raise ModelError(
                self.machine.fst.error.decode("utf-8", "replace"), path,
                byte=None if self.machine.fst.byte < 0 else self.machine.fst.byte,
            )

    @property
    def symbols(self):
        """The symbol table of the output labels, or else of the input labels, as (word as bytes, id) pairs.

        None if there is no table.
        """
        cdef size_t i
        cdef const k.ParsedFst* fst = &self.machine.fst
        if not fst.output_symbol.empty():
            return [(fst.output_symbol[i], fst.output_symbol_id[i]) for i in range(fst.output_symbol.size())]
        return [(fst.input_symbol[i], fst.input_symbol_id[i]) for i in range(fst.input_symbol.size())] or None

    def model(self, int32_t backoff, int32_t bos, int32_t eos):
        """Convert the acceptor to a model; the result has the form of `read_const_arpa`.

        Args:
            backoff, bos: Labels of #0 and <s>; -1 if there are none.
            eos: Label of </s>.
        """
        cdef c.GrammarLabels label
        cdef c.NumberedNgrams found
        label.backoff = backoff
        label.bos = bos
        label.eos = eos
        with nogil:
            found = move(c.grammar_of(self.machine, label))
        return _numbered(found, self.path)


def compose_ngram(lattice not None, Model model not None, lm_word not None, extra not None, int32_t eos, double scale,
                  int64_t max_arcs):
    """Compose a lattice with a model.

    Args:
        lm_word: The model's word of each arc, int32 [num_arcs]; -1 for none.
        extra: Cost of each arc in addition to the cost of the model, float32 [num_arcs].
        eos: The model's </s>.
        scale: Factor of both costs.
        max_arcs: Maximum number of arcs of the result.

    Returns:
        (lattice, old arc of each arc, int64 [num_arcs]).

    Raises:
        LatticeError: The result has more than max_arcs arcs.
        ModelError: The model does not allow a word.
        OptionError: A word is not a word of the model.
    """
    cdef Arcs arcs = arcs_of(lattice)
    cdef const int32_t* words = <const int32_t*>data_of(lm_word, np.NPY_INT32, arcs.num_arcs)
    cdef const float* costs = <const float*>data_of(extra, np.NPY_FLOAT32, arcs.num_arcs)
    cdef int64_t arc
    for arc in range(arcs.num_arcs):
        if words[arc] >= model.model.num_words():
            raise OptionError(
                f"the word id {words[arc]} does not exist; the model has {model.model.num_words()} words"
            )
    cdef Composed out
    with nogil:
        out = move(c.compose_ngram(arcs, model.model, words, costs, eos, scale, max_arcs))
    if out.too_large:
        raise LatticeError(f"the result has more than {max_arcs} arcs; prune the lattice first", key=lattice.key)
    if out.impossible >= 0:
        what = "the end of the sentence" if out.impossible == arcs.num_arcs else f"the word of arc {out.impossible}"
        raise ModelError(f"the language model gives probability zero to {what}", key=lattice.key)
    return lattice_of_copies(lattice, out, _new(Lattice), _SLOTS), int64s(out.arc_map)
