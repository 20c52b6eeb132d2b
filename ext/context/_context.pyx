"""Bindings of contextual grammars by token passing, and of the search for spans that sound similar to phrases."""

cimport numpy as np
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp.memory cimport unique_ptr
from libcpp.utility cimport move
from libcpp.vector cimport vector

from lm.ngram cimport NgramModel

cimport context.kernels as c
from core.lattice cimport Arcs, Composed, arcs_of, data_of, floats, int32s, int64s, lattice_of_copies, new_array

from ninja.errors import LatticeError, ModelError, OptionError, SymbolError
from ninja.lattice import SLOTS, Lattice

np.import_array()

cdef tuple _SLOTS = SLOTS  # a C variable, which needs no look-up by name
cdef object _new = object.__new__


cdef class Phrases:
    """The phrases of one list and class: a deterministic acyclic acceptor of word ids, whose start is state 0.

    Args:
        arc_begin: int64 [states + 1].
        word, dst: int32 [arcs]; the arcs of each state are sorted by word.
        bonus: float32 [arcs], in units of the boost of one word.
        final_bonus: float32 [states], in the same units; NaN for states in which no phrase ends.
    """

    cdef c.Phrases phrases

    def __init__(self, arc_begin not None, word not None, dst not None, bonus not None, final_bonus not None):
        cdef np.npy_intp num_arcs = np.PyArray_SIZE(<np.ndarray?>word)
        cdef np.npy_intp num_states = np.PyArray_SIZE(<np.ndarray?>final_bonus)
        cdef const int64_t* begin = <const int64_t*>data_of(arc_begin, np.NPY_INT64, num_states + 1)
        cdef const int32_t* words = <const int32_t*>data_of(word, np.NPY_INT32, num_arcs)
        cdef const int32_t* target = <const int32_t*>data_of(dst, np.NPY_INT32, num_arcs)
        cdef const float* bonuses = <const float*>data_of(bonus, np.NPY_FLOAT32, num_arcs)
        cdef const float* finals = <const float*>data_of(final_bonus, np.NPY_FLOAT32, num_states)
        cdef np.npy_intp at
        if num_states < 1 or begin[0] != 0 or begin[num_states] != num_arcs:
            raise ValueError("the arc ranges of the states do not cover all arcs")
        for at in range(num_states):
            if begin[at] > begin[at + 1]:
                raise ValueError(f"the arcs of state {at} end before they begin")
        for at in range(num_arcs):
            if not 0 <= target[at] < num_states:
                raise ValueError(f"arc {at} enters state {target[at]}, but there are {num_states} states")
        self.phrases.arc_begin.assign(begin, begin + num_states + 1)
        self.phrases.word.assign(words, words + num_arcs)
        self.phrases.dst.assign(target, target + num_arcs)
        self.phrases.bonus.assign(bonuses, bonuses + num_arcs)
        self.phrases.final_bonus.assign(finals, finals + num_states)

    @property
    def num_states(self):
        """Number of states."""
        return self.phrases.final_bonus.size()

    @property
    def num_bytes(self):
        """Memory of the phrases in bytes."""
        return self.phrases.arc_begin.size() * 8 + self.phrases.word.size() * 12 + self.phrases.final_bonus.size() * 4


cdef c.BoundModel bound(model, words, costs, int32_t eos, np.npy_intp num_symbols) except *:
    """Borrow a model and its tables; `model` must not be None."""
    cdef c.BoundModel out
    cdef np.npy_intp symbol
    if model is None:
        return out
    out.model = <const NgramModel*>PyCapsule_GetPointer(model.address, "ninja.NgramModel")
    out.word = <const int32_t*>data_of(words, np.NPY_INT32, num_symbols)
    out.cost = <const float*>data_of(costs, np.NPY_FLOAT32, num_symbols)
    out.eos = eos
    for symbol in range(num_symbols):
        if out.word[symbol] >= (<NgramModel*>out.model).num_words():
            raise OptionError(f"the model has no word with the id {out.word[symbol]}")
    return out


cdef class Tracker:
    """Numbered sets of tokens of a contextual grammar.

    Args:
        no_word: Whether each symbol is not a word, uint8 [symbols].
        class_model: Class model (`_lm.Model`), or None.
        class_word: The model's word of each symbol, int32 [symbols].
        class_cost: Additional cost of each symbol, float32 [symbols].
        class_eos: The model's </s>.
        old_model, old_word, old_cost, old_eos: The corresponding values for the old model.
        scale, class_share, class_boost, keyword_boost, max_tokens: See ``c.ContextOptions``.
    """

    cdef unique_ptr[c.ContextTracker] tracker
    cdef object borrowed  # keeps alive the objects that C++ points to
    cdef list lists
    cdef np.npy_intp num_symbols

    def __init__(self, no_word not None, class_model, class_word, class_cost, int32_t class_eos,
                 old_model, old_word, old_cost, int32_t old_eos,
                 *, double scale, double class_share, double class_boost, double keyword_boost, int32_t max_tokens):
        cdef c.ContextOptions options = c.ContextOptions(
            scale=scale, class_share=class_share, class_boost=class_boost, keyword_boost=keyword_boost,
            max_tokens=max_tokens,
        )
        self.num_symbols = np.PyArray_SIZE(<np.ndarray?>no_word)
        cdef const uint8_t* none = <const uint8_t*>data_of(no_word, np.NPY_UINT8, self.num_symbols)
        cdef c.BoundModel of_class = bound(class_model, class_word, class_cost, class_eos, self.num_symbols)
        cdef c.BoundModel of_old = bound(old_model, old_word, old_cost, old_eos, self.num_symbols)
        self.borrowed = (no_word, class_model, class_word, class_cost, old_model, old_word, old_cost)
        self.lists = []
        self.tracker.reset(new c.ContextTracker(of_class, of_old, none, options))

    def clear(self):
        """Delete all sets and utterances; their numbers become invalid."""
        self.tracker.get().clear()
        self.lists = []

    def start(self, list lists not None, list unwanted not None):
        """Return the set of tokens before the first word of an utterance with these lists.

        Args:
            lists: (Phrases, word of the class model or -1) of each list.
            unwanted: Phrases that are suppressed.
        """
        cdef c.UtteranceLists utterance
        cdef c.PhraseList entry
        cdef Phrases phrases
        for phrases, class_word in lists:
            entry.phrases = &phrases.phrases
            entry.class_word = class_word
            utterance.lists.push_back(entry)
        for phrases in unwanted:
            utterance.unwanted.push_back(&phrases.phrases)
        self.lists.append((lists, unwanted))
        return self.tracker.get().start(move(utterance))

    def advance(self, states not None, words not None):
        """Return the sets after words, int64 [n], and the scores of the words, float32 [n].

        A word that is not allowed has the set -1 and the score -inf.
        """
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
        cdef c.ContextTracker* tracker = self.tracker.get()
        with nogil:
            for at in range(count):
                to[at] = tracker.advance(<int32_t>state[at], word[at], &gain[at])
        return after, score

    def final(self, states not None):
        """Return the score of ending in each set, float32 [n]."""
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
        """Return (begin, end, list) of each phrase on the best path of the grammar through some words."""
        cdef np.npy_intp count = np.PyArray_SIZE(<np.ndarray?>words)
        cdef const int32_t* word = <const int32_t*>data_of(words, np.NPY_INT32, count)
        cdef np.npy_intp at
        self._check(start)
        for at in range(count):
            self._check_word(word[at])
        cdef vector[c.PhraseSpan] spans
        cdef c.ContextTracker* tracker = self.tracker.get()
        with nogil:
            spans = tracker.explain(start, word, count)
        cdef size_t number
        return [(spans[number].begin, spans[number].end, spans[number].list) for number in range(spans.size())]

    def compose(self, lattice not None, int32_t start, double graph_share, int64_t max_arcs):
        """Return the lattice with the scores, and the old arc of each arc, int64 [num_arcs].

        Raises:
            LatticeError: The result has more than max_arcs arcs.
            ModelError: The grammar does not allow a word.
            SymbolError: A word is not among the symbols.
        """
        cdef Arcs arcs = arcs_of(lattice)
        cdef int64_t arc
        self._check(start)
        for arc in range(arcs.num_arcs):
            if not 0 <= arcs.word[arc] < self.num_symbols:
                raise SymbolError(f"word id {arcs.word[arc]} is not in the symbol table", key=lattice.key)
        cdef Composed out
        cdef c.ContextTracker* tracker = self.tracker.get()
        with nogil:
            out = move(c.compose_context(arcs, tracker, start, graph_share, max_arcs))
        if out.too_large:
            raise LatticeError(f"the result has more than {max_arcs} arcs; prune the lattice first", key=lattice.key)
        if out.impossible >= 0:
            word = "the end of the sentence" if out.impossible == arcs.num_arcs else f"the word of arc {out.impossible}"
            raise ModelError(f"the class language model gives probability zero to {word}", key=lattice.key)
        return lattice_of_copies(lattice, out, _new(Lattice), _SLOTS), int64s(out.arc_map)

    cdef _check(self, int64_t state):
        if not self.tracker.get().has(state):
            raise OptionError(f"{state} is not a state of this tracker")

    cdef _check_word(self, int32_t word):
        if not 0 <= word < self.num_symbols:
            raise OptionError(f"word id {word} is not in the tracker's symbol table, which has {self.num_symbols} ids")


cdef c.PhoneStrings strings_of(const int64_t[::1] begin, const int32_t[::1] phone):
    cdef c.PhoneStrings strings
    strings.count = begin.shape[0] - 1
    strings.begin = &begin[0]
    strings.phone = &phone[0] if phone.shape[0] > 0 else NULL
    return strings


cdef c.Sounds sounds_of(
    const int32_t[::1] unit, const int64_t[::1] first, const int64_t[::1] begin, const int32_t[::1] phone
):
    cdef c.Sounds sounds
    sounds.unit = &unit[0] if unit.shape[0] > 0 else NULL
    sounds.first = &first[0]
    sounds.strings = strings_of(begin, phone)
    return sounds


cdef c.PhoneCosts costs_of(const float[:, ::1] substitution, const float[::1] insertion, const float[::1] deletion):
    cdef c.PhoneCosts costs
    costs.count = <int32_t>insertion.shape[0]
    costs.substitution = &substitution[0, 0]
    costs.insertion = &insertion[0]
    costs.deletion = &deletion[0]
    return costs


def find_spans(
    lattice not None,
    const int32_t[::1] unit not None,
    const int64_t[::1] first not None,
    const int64_t[::1] sound_begin not None,
    const int32_t[::1] sound_phone not None,
    const int64_t[::1] string_begin not None,
    const int32_t[::1] string_phone not None,
    const float[:, ::1] substitution not None,
    const float[::1] insertion not None,
    const float[::1] deletion not None,
    double acoustic_scale,
    float weight,
    float beam,
    float max_distance,
    int32_t max_spans,
):
    """Return (string, start, end: int32, excess, distance: float32, arc_begin, arc: int64) of the best spans."""
    cdef Arcs arcs = arcs_of(lattice)
    cdef c.Sounds sounds = sounds_of(unit, first, sound_begin, sound_phone)
    cdef c.PhoneStrings strings = strings_of(string_begin, string_phone)
    cdef c.PhoneCosts costs = costs_of(substitution, insertion, deletion)
    cdef c.SpanLimits limits = c.SpanLimits(acoustic_scale, weight, beam, max_distance, max_spans)
    cdef c.Spans spans
    with nogil:
        spans = c.find_spans(arcs, sounds, strings, costs, limits)
    return (
        int32s(spans.string), int32s(spans.start), int32s(spans.end), floats(spans.excess), floats(spans.distance),
        int64s(spans.arc_begin), int64s(spans.arc),
    )


def shared_weights(
    const int32_t[::1] unit not None,
    const int64_t[::1] first not None,
    const int64_t[::1] sound_begin not None,
    const int32_t[::1] sound_phone not None,
    const int64_t[::1] string_begin not None,
    const int32_t[::1] string_phone not None,
    const float[:, ::1] substitution not None,
    const float[::1] insertion not None,
    const float[::1] deletion not None,
    const float[::1] weight not None,
    const int32_t[::1] string not None,
    const int32_t[::1] begin not None,
    const int32_t[::1] end not None,
):
    """Return the weights of the phones that strings share with words begin to end of a sentence, float32 [spans]."""
    cdef c.Sounds sounds = sounds_of(unit, first, sound_begin, sound_phone)
    cdef c.PhoneStrings strings = strings_of(string_begin, string_phone)
    cdef c.PhoneCosts costs = costs_of(substitution, insertion, deletion)
    cdef vector[float] shared
    cdef int64_t i, count = string.shape[0]
    with nogil:
        shared.reserve(count)
        for i in range(count):
            shared.push_back(
                c.shared_weight(c.AlignedSpan(string[i], begin[i], end[i]), sounds, strings, costs, &weight[0]))
    return floats(shared)


def best_arcs(lattice not None, double acoustic_scale):
    """Return the arcs by which the best path enters and leaves each state, -1 if none; int64 [num_states] each."""
    cdef Arcs arcs = arcs_of(lattice)
    cdef c.BestArcs best
    with nogil:
        best = c.best_arcs(arcs, acoustic_scale)
    return int64s(best.c_in), int64s(best.out)
