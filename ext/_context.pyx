# cython: language_level=3
"""Contextual grammars by token passing; conversions only."""

cimport numpy as np
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp cimport bool as cbool
from libcpp.memory cimport unique_ptr
from libcpp.utility cimport move
from libcpp.vector cimport vector

from arrays cimport arcs_of, data_of, floats, int32s, int64s, new_array
from clattice cimport Arcs

from ninja.errors import LatticeError, ModelError, OptionError, SymbolError

np.import_array()


cdef extern from "ngram.hpp" namespace "ninja" nogil:
    cdef cppclass NgramModel:
        int32_t num_words()

cdef extern from "copies.hpp" namespace "ninja" nogil:
    cdef cppclass Origin:
        vector[int64_t] arc_map
        vector[int32_t] state_map
        vector[float] final_graph
    cdef cppclass ComposedLattice:
        cbool too_large
        int64_t impossible
        Origin origin
        vector[int64_t] arc_begin
        vector[int32_t] dst
        vector[float] graph

cdef extern from "context.hpp" namespace "ninja" nogil:
    cdef cppclass CPhrases "ninja::Phrases":
        vector[int64_t] arc_begin
        vector[int32_t] word
        vector[int32_t] dst
        vector[float] bonus
        vector[float] final_bonus
    cdef cppclass BoundModel:
        const NgramModel* model
        const int32_t* word
        const float* cost
        int32_t eos
    cdef cppclass ContextOptions:
        double scale
        double class_share
        double class_boost
        double keyword_boost
        int32_t max_tokens
    cdef cppclass CList "ninja::UtteranceLists::List":
        const CPhrases* phrases
        int32_t class_word
    cdef cppclass UtteranceLists:
        vector[CList] lists
        vector[const CPhrases*] unwanted
    cdef cppclass Said "ninja::ContextTracker::Said":
        int32_t begin
        int32_t end
        int32_t list
    cdef cppclass ContextTracker:
        ContextTracker(const BoundModel&, const BoundModel&, const uint8_t*, const ContextOptions&)
        void clear()
        int32_t start(UtteranceLists) except +
        int32_t advance(int32_t, int32_t, float*) except +
        float final_score(int32_t) except +
        int64_t size()
        cbool has(int64_t)
        int64_t num_tokens(int32_t)
        vector[Said] explain(int32_t, const int32_t*, int64_t) except +

cdef extern from "compose_context.hpp" namespace "ninja" nogil:
    ComposedLattice c_compose_context "ninja::compose_context"(
        const Arcs&, ContextTracker*, int32_t, double, int64_t) except +


cdef class Phrases:
    """The phrases of one list and class: a deterministic acyclic acceptor of word ids, state 0 its start.

    Takes arc_begin int64 [states + 1], word and dst int32 [arcs], each state's arcs sorted by word, bonus float32
    [arcs] and final_bonus float32 [states], NaN where no phrase ends; bonuses in units of the boost of one word.
    """

    cdef CPhrases phrases

    def __init__(self, arc_begin not None, word not None, dst not None, bonus not None, final_bonus not None):
        cdef np.npy_intp num_arcs = np.PyArray_SIZE(<np.ndarray?>word)
        cdef np.npy_intp num_states = np.PyArray_SIZE(<np.ndarray?>final_bonus)
        cdef const int64_t* begin = <const int64_t*>data_of(arc_begin, np.NPY_INT64, num_states + 1)
        cdef const int32_t* words = <const int32_t*>data_of(word, np.NPY_INT32, num_arcs)
        cdef const int32_t* enters = <const int32_t*>data_of(dst, np.NPY_INT32, num_arcs)
        cdef const float* bonuses = <const float*>data_of(bonus, np.NPY_FLOAT32, num_arcs)
        cdef const float* finals = <const float*>data_of(final_bonus, np.NPY_FLOAT32, num_states)
        cdef np.npy_intp at
        if num_states < 1 or begin[0] != 0 or begin[num_states] != num_arcs:
            raise ValueError("the arcs of the states are not all arcs")
        for at in range(num_states):
            if begin[at] > begin[at + 1]:
                raise ValueError(f"the arcs of state {at} end before they begin")
        for at in range(num_arcs):
            if not 0 <= enters[at] < num_states:
                raise ValueError(f"arc {at} enters state {enters[at]}, but there are {num_states}")
        self.phrases.arc_begin.assign(begin, begin + num_states + 1)
        self.phrases.word.assign(words, words + num_arcs)
        self.phrases.dst.assign(enters, enters + num_arcs)
        self.phrases.bonus.assign(bonuses, bonuses + num_arcs)
        self.phrases.final_bonus.assign(finals, finals + num_states)

    @property
    def num_states(self):
        """Number of states."""
        return self.phrases.final_bonus.size()

    @property
    def num_bytes(self):
        """Memory the phrases take."""
        return self.phrases.arc_begin.size() * 8 + self.phrases.word.size() * 12 + self.phrases.final_bonus.size() * 4


cdef BoundModel bound(model, words, costs, int32_t eos, np.npy_intp num_symbols) except *:
    """Borrow a model and its tables; None is no model."""
    cdef BoundModel out
    cdef np.npy_intp symbol
    if model is None:
        return out
    out.model = <const NgramModel*>PyCapsule_GetPointer(model.address, "ninja.NgramModel")
    out.word = <const int32_t*>data_of(words, np.NPY_INT32, num_symbols)
    out.cost = <const float*>data_of(costs, np.NPY_FLOAT32, num_symbols)
    out.eos = eos
    for symbol in range(num_symbols):
        if out.word[symbol] >= (<NgramModel*>out.model).num_words():
            raise OptionError(f"word {out.word[symbol]} is not one of the model's")
    return out


cdef class Tracker:
    """Sets of tokens by number.

    Takes, of each symbol, whether it is no word, uint8 [symbols]; the class model (`_ngram.Model` or None) with its
    word of each symbol, int32 [symbols], and the cost on top, float32 [symbols], and its </s>; the same of the model
    that both mix with; and the options of ContextOptions.
    """

    cdef unique_ptr[ContextTracker] tracker
    cdef object held  # what C++ borrows
    cdef list lists
    cdef np.npy_intp num_symbols

    def __init__(self, no_word not None, class_model, class_word, class_cost, int32_t class_eos,
                 old_model, old_word, old_cost, int32_t old_eos,
                 *, double scale, double class_share, double class_boost, double keyword_boost, int32_t max_tokens):
        cdef ContextOptions options
        options.scale = scale
        options.class_share = class_share
        options.class_boost = class_boost
        options.keyword_boost = keyword_boost
        options.max_tokens = max_tokens
        self.num_symbols = np.PyArray_SIZE(<np.ndarray?>no_word)
        cdef const uint8_t* none = <const uint8_t*>data_of(no_word, np.NPY_UINT8, self.num_symbols)
        cdef BoundModel one = bound(class_model, class_word, class_cost, class_eos, self.num_symbols)
        cdef BoundModel other = bound(old_model, old_word, old_cost, old_eos, self.num_symbols)
        self.held = (no_word, class_model, class_word, class_cost, old_model, old_word, old_cost)
        self.lists = []
        self.tracker.reset(new ContextTracker(one, other, none, options))

    def clear(self):
        """Forget all sets and utterances; their numbers mean nothing any more."""
        self.tracker.get().clear()
        self.lists = []

    def __len__(self):
        return self.tracker.get().size()

    def num_tokens(self, int32_t state):
        """Return how many tokens a set has."""
        self._check(state)
        return self.tracker.get().num_tokens(state)

    def start(self, list lists not None, list unwanted not None):
        """Return the set before the first word of an utterance with these lists.

        Takes (Phrases, word of the class model or -1) of each list, and the Phrases that are unwanted.
        """
        cdef UtteranceLists here
        cdef CList each
        cdef Phrases phrases
        for phrases, class_word in lists:
            each.phrases = &phrases.phrases
            each.class_word = class_word
            here.lists.push_back(each)
        for phrases in unwanted:
            here.unwanted.push_back(&phrases.phrases)
        self.lists.append((lists, unwanted))
        return self.tracker.get().start(move(here))

    def advance(self, states not None, words not None):
        """Return the sets after words, int64 [n], and what the words score, float32 [n]; -1 and -inf: not allowed."""
        cdef np.npy_intp count = np.PyArray_SIZE(<np.ndarray?>states)
        cdef const int64_t* state = <const int64_t*>data_of(states, np.NPY_INT64, count)
        cdef const int32_t* word = <const int32_t*>data_of(words, np.NPY_INT32, count)
        cdef np.npy_intp at
        for at in range(count):
            self._check(state[at])
            self._check_word(word[at])
        after = new_array(count, np.NPY_INT64)
        score = new_array(count, np.NPY_FLOAT32)
        cdef int64_t* to = <int64_t*>np.PyArray_DATA(<np.ndarray>after)
        cdef float* gain = <float*>np.PyArray_DATA(<np.ndarray>score)
        cdef ContextTracker* tracker = self.tracker.get()
        with nogil:
            for at in range(count):
                to[at] = tracker.advance(<int32_t>state[at], word[at], &gain[at])
        return after, score

    def final(self, states not None):
        """Return what ending in each set scores, float32 [n]."""
        cdef np.npy_intp count = np.PyArray_SIZE(<np.ndarray?>states)
        cdef const int64_t* state = <const int64_t*>data_of(states, np.NPY_INT64, count)
        cdef np.npy_intp at
        for at in range(count):
            self._check(state[at])
        score = new_array(count, np.NPY_FLOAT32)
        cdef float* out = <float*>np.PyArray_DATA(<np.ndarray>score)
        for at in range(count):
            out[at] = self.tracker.get().final_score(<int32_t>state[at])
        return score

    def explain(self, int32_t start, words not None):
        """Return (first word, word behind the last, list) of each phrase that the best way through some words takes."""
        cdef np.npy_intp count = np.PyArray_SIZE(<np.ndarray?>words)
        cdef const int32_t* word = <const int32_t*>data_of(words, np.NPY_INT32, count)
        cdef np.npy_intp at
        self._check(start)
        for at in range(count):
            self._check_word(word[at])
        cdef vector[Said] said
        cdef ContextTracker* tracker = self.tracker.get()
        with nogil:
            said = tracker.explain(start, word, count)
        cdef size_t number
        return [(said[number].begin, said[number].end, said[number].list) for number in range(said.size())]

    def compose(self, lattice not None, int32_t start, double graph_share, int64_t max_arcs):
        """Return the copies of states and arcs that carry the scores, as `ninja.graph.copies` takes them.

        Raises:
            LatticeError: More than max_arcs arcs arise.
            ModelError: The grammar does not allow a word.
            SymbolError: A word is none of the symbols.
        """
        cdef Arcs arcs = arcs_of(lattice)
        cdef int64_t arc
        self._check(start)
        for arc in range(arcs.num_arcs):
            if not 0 <= arcs.word[arc] < self.num_symbols:
                raise SymbolError(f"word id {arcs.word[arc]} is not in the symbol table", key=lattice.key)
        cdef ComposedLattice out
        cdef ContextTracker* tracker = self.tracker.get()
        with nogil:
            out = move(c_compose_context(arcs, tracker, start, graph_share, max_arcs))
        if out.too_large:
            raise LatticeError(f"more than {max_arcs} arcs; prune the lattice first", key=lattice.key)
        if out.impossible >= 0:
            what = "the end of the sentence" if out.impossible == arcs.num_arcs else f"the word of arc {out.impossible}"
            raise ModelError(f"the class language model gives probability zero to {what}", key=lattice.key)
        return (
            int32s(out.origin.state_map), int64s(out.arc_begin), int32s(out.dst), int64s(out.origin.arc_map),
            floats(out.graph), floats(out.origin.final_graph),
        )

    cdef _check(self, int64_t state):
        if not self.tracker.get().has(state):
            raise OptionError(f"{state} is no state of this tracker")

    cdef _check_word(self, int32_t word):
        if not 0 <= word < self.num_symbols:
            raise OptionError(f"word id {word} is none of the tracker's {self.num_symbols} symbols")
