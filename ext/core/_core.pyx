"""Bindings of the kernels for word tries, OpenFst binary images, lattice times and batches."""

cimport numpy as np
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t
from libcpp.string cimport string
from libcpp.vector cimport vector

cimport core.kernels as c
from core.batch cimport Item, Items, borrow, capsule_of, items_in, items_of, lattice_of_item
from core.lattice cimport (
    Alignments, Arcs, FstArcs, alignments_of, arcs_of, copied, data_of, doubles, freeze, fst_of,
    int32s, int64s, new_array, string_view,
)

import numpy

cdef extern from "Python.h":
    int PyUnicode_KIND(object)
    const void* PyUnicode_DATA(object)
    Py_ssize_t PyUnicode_GET_LENGTH(object)

np.import_array()


cdef class WordTrie:
    """A trie of word sequences; each node is a distinct prefix, and parents precede their children."""

    cdef c.Trie trie

    def __len__(self):
        return self.trie.parent().size()

    @property
    def parent(self):
        """Parent of each node, int32 [num_nodes]; -1 is the empty prefix. Returns a copy."""
        return copied(self.trie.parent().data(), self.trie.parent().size(), np.NPY_INT32)

    @property
    def word(self):
        """Last word of the prefix of each node, int32 [num_nodes]. Returns a copy."""
        return copied(self.trie.word().data(), self.trie.word().size(), np.NPY_INT32)

    def add(self, word not None, begin not None):
        """Add sequences, and return the node of each word, int32 [num_words].

        Sequence s is ``word[begin[s] : begin[s + 1]]``, where `word` is int32 [num_words], and `begin` is int64
        [num_sequences + 1], non-decreasing from 0 to num_words.
        """
        cdef int64_t num_words = np.PyArray_SIZE(<np.ndarray>word)
        cdef int64_t num_sequences = np.PyArray_SIZE(<np.ndarray>begin) - 1
        cdef const int32_t* words = <const int32_t*>data_of(word, np.NPY_INT32, num_words)
        cdef const int64_t* begins = <const int64_t*>data_of(begin, np.NPY_INT64, num_sequences + 1)
        if num_sequences < 0 or begins[0] != 0 or begins[num_sequences] != num_words or (numpy.diff(begin) < 0).any():
            raise ValueError(f"begin must rise from 0 to {num_words}")
        node = new_array(num_words, np.NPY_INT32)
        cdef int32_t* nodes = <int32_t*>np.PyArray_DATA(<np.ndarray>node)
        with nogil:
            c.add_sequences(self.trie, words, begins, num_sequences, nodes)
        return node

    def add_trie(self, parent not None, word not None, int32_t below=-1):
        """Add the nodes of another trie below a node, and return their new numbers, int32 [num_nodes].

        `parent` and `word` are int32 [num_nodes]; parent -1 is the empty prefix, which becomes the node `below`.
        Parents must precede their children.
        """
        cdef int64_t count = np.PyArray_SIZE(<np.ndarray>parent)
        cdef const int32_t* parents = <const int32_t*>data_of(parent, np.NPY_INT32, count)
        cdef const int32_t* words = <const int32_t*>data_of(word, np.NPY_INT32, count)
        cdef int64_t at
        if not -1 <= below < <int64_t>self.trie.parent().size():
            raise ValueError(f"there is no node {below}")
        for at in range(count):
            if parents[at] >= at:
                raise ValueError(f"node {at} comes before its parent {parents[at]}")
        node = new_array(count, np.NPY_INT32)
        cdef int32_t* nodes = <int32_t*>np.PyArray_DATA(<np.ndarray>node)
        with nogil:
            c.add_nodes(self.trie, parents, words, count, below, nodes)
        return node


def write_image(str arc_type not None, object arc_begin, object dst, object ilabel, object olabel, object cost,
                object final_cost, bytes symbols not None=b""):
    """Encode a vector FST whose start is state 0 as a binary image; costs are float64, +inf = not final.

    `symbols`, unless empty, are the bytes of a symbol table for input and output labels.
    """
    cdef FstArcs fst = fst_of(arc_begin, dst, ilabel, olabel, cost, final_cost)
    cdef string name = arc_type.encode()
    image = PyBytes_FromStringAndSize(NULL, c.image_size(fst, name, len(symbols)))
    cdef char* to = PyBytes_AS_STRING(image)
    cdef const char* table = PyBytes_AS_STRING(symbols)
    cdef int64_t size = len(symbols)
    with nogil:
        c.write_image(fst, name, string_view(table, size), to)
    return image


cdef object _pairs(const vector[string]& symbol, const vector[int64_t]& number):
    cdef size_t i
    return None if symbol.empty() else [(symbol[i], number[i]) for i in range(symbol.size())]


def parse_image(bytes image not None, int64_t begin=0):
    """Parse the binary image of a vector or const FST that begins at an offset.

    Returns:
        (error, byte, size, fields): a message, or ""; its offset from `begin`, or -1 if the image is well formed; the
        number of bytes of the image; and (arc_begin, dst, ilabel, olabel, cost, final_cost, input symbols, output
        symbols), where symbols are (name, id) pairs or None. Arcs of infinite weight are dropped.
    """
    if not 0 <= begin <= len(image):
        raise ValueError("an image that begins outside the bytes")
    cdef const char* content = PyBytes_AS_STRING(image) + begin
    cdef int64_t size = len(image) - begin
    cdef c.ParsedFst fst
    with nogil:
        fst = c.parse_image(content, size)
    if not fst.error.empty():
        return fst.error.decode("utf-8", "replace"), fst.byte, fst.end, None
    return "", -1, fst.end, (
        *_arrays(fst), _pairs(fst.input_symbol, fst.input_symbol_id), _pairs(fst.output_symbol, fst.output_symbol_id),
    )


cdef tuple _arrays(const c.ParsedFst& fst):
    return (int64s(fst.arc_begin), int32s(fst.dst), int32s(fst.ilabel), int32s(fst.olabel), doubles(fst.cost),
            doubles(fst.final_cost))


def parse_machine(bytes image not None):
    """Parse the binary image of a vector FST without renumbering its states.

    Returns:
        (error, byte, fields): a message, or ""; its offset, or -1; and (start, arc_begin, dst, ilabel, olabel,
        cost, final_cost), with the arcs of each state sorted by input label.
    """
    cdef const char* content = PyBytes_AS_STRING(image)
    cdef int64_t size = len(image)
    cdef c.Machine machine
    with nogil:
        machine = c.parse_machine(content, size)
    if not machine.fst.error.empty():
        return machine.fst.error.decode("utf-8", "replace"), machine.fst.byte, None
    return "", -1, (machine.start, *_arrays(machine.fst))


def state_times(object lattice):
    cdef Arcs arcs = arcs_of(lattice)
    cdef Alignments alignments = alignments_of(lattice)
    cdef object time = new_array(arcs.num_states, np.NPY_INT32)
    cdef int32_t* moment = <int32_t*>np.PyArray_DATA(<np.ndarray>time)
    cdef int64_t arc
    with nogil:
        arc = c.state_times(arcs, alignments, moment)
    return freeze(time), arc


def first_backward_arc(object lattice, object time not None):
    cdef Arcs arcs = arcs_of(lattice)
    cdef const int32_t* moment = <const int32_t*>data_of(time, np.NPY_INT32, arcs.num_states)
    cdef int64_t arc
    with nogil:
        arc = c.first_backward_arc(arcs, moment)
    return arc


def num_frames(object lattice):
    """Return the length of a lattice in frames; -1 if its times or labels are inconsistent."""
    cdef Item item
    cdef int64_t frames
    borrow(lattice, item)
    with nogil:
        frames = c.num_frames(item)
    return frames


def depth_per_frame(object lattice, object time not None, int64_t frames):
    cdef Arcs arcs = arcs_of(lattice)
    cdef Alignments alignments = alignments_of(lattice)
    cdef const int32_t* moment = <const int32_t*>data_of(time, np.NPY_INT32, arcs.num_states)
    cdef object depth = new_array(frames, np.NPY_INT32)
    cdef int32_t* counts = <int32_t*>np.PyArray_DATA(<np.ndarray>depth)
    with nogil:
        c.depth_per_frame(arcs, alignments, moment, frames, counts)
    return depth


def num_crossings(object lattice, object time not None, int64_t frames):
    cdef Arcs arcs = arcs_of(lattice)
    cdef Alignments alignments = alignments_of(lattice)
    cdef const int32_t* moment = <const int32_t*>data_of(time, np.NPY_INT32, arcs.num_states)
    cdef int64_t crossings
    with nogil:
        crossings = c.num_crossings(arcs, alignments, moment, frames)
    return crossings


def copy_runs(object pool not None, object begin not None, object length not None):
    """Return the concatenated runs ``pool[begin[i] : begin[i] + length[i]]`` of an int32 array."""
    cdef int64_t num_runs = len(begin)
    cdef object copy = new_array(length.sum(), np.NPY_INT32)
    cdef const int32_t* values = <const int32_t*>data_of(pool, np.NPY_INT32, len(pool))
    cdef const int64_t* first = <const int64_t*>data_of(begin, np.NPY_INT64, num_runs)
    cdef const int64_t* size = <const int64_t*>data_of(length, np.NPY_INT64, num_runs)
    cdef int32_t* to = <int32_t*>np.PyArray_DATA(<np.ndarray>copy)
    with nogil:
        c.copy_runs(values, first, size, num_runs, to)
    return freeze(copy)


def gathered(lattices not None):
    """Return items that borrow the arrays of lattices, and must not outlive them."""
    cdef Items items
    cdef Item* item
    for number, lattice in enumerate(lattices):
        items.emplace_back()
        item = &items.back()
        borrow(lattice, item[0])
        item.key = lattice.key.encode("utf-8", "surrogateescape")
        item.origin = number
    return capsule_of(items)


cdef inline bint is_plain(str word) noexcept:
    cdef const void* characters = PyUnicode_DATA(word)
    cdef int kind = PyUnicode_KIND(word)
    cdef Py_ssize_t size = PyUnicode_GET_LENGTH(word)
    if kind == 1:
        return (c.has_small_letters(<const uint8_t*>characters, size)
                or c.is_plain_word(<const uint8_t*>characters, size))
    if kind == 2:
        return c.is_plain_word(<const uint16_t*>characters, size)
    return c.is_plain_word(<const uint32_t*>characters, size)


def irregular_words(words not None):
    """Return the index and the text of each word that has characters other than plain letters and apostrophes.

    Plain letters are lower-case letters, and letters of scripts without case.

    Args:
        words: Strings.
    """
    cdef Py_ssize_t index = 0
    irregular = []
    for word in words:
        if not is_plain(<str?>word):
            irregular.append((index, word))
        index += 1
    return irregular


def form_words(
    lattices,
    type lattice_type not None,
    code not None,
    begin not None,
    part not None,
    bint all,
    bint labels,
):
    """Replace the words of lattices with the numbers of their lexical words.

    Args:
        code: Code of each word, int32 [size]: the number of its lexical word; 0 for none, -1 if it is unknown, and -2
            - k for several, ``part[begin[k] : begin[k + 1]]``.
        begin: Offsets in `part`, int64 [number of words with several lexical words + 1].
        part: Numbers of the lexical words of words with several, int32.
        all: Process all lattices with a word that differs from its form. Otherwise, process only lattices in which
            different words have the same form, or a word has no form or a form of several words.
        labels: Whether lattices with further arcs have labels; kernels must not read them otherwise.

    Returns:
        Ids of words whose form is unknown, int32 (ids beyond `size` may occur several times); indices of the changed
        lattices, int64, which is empty while forms are unknown; and if there are any, the items of all lattices, which
        borrow the arrays of `lattices`.
    """
    cdef Items single
    cdef Items* items = items_in(lattices, single, lattice_type)
    cdef c.Forms forms
    forms.code = <const int32_t*>data_of(code, np.NPY_INT32, -1)
    forms.size = np.PyArray_DIM(<np.ndarray>code, 0)
    forms.begin = <const int64_t*>data_of(begin, np.NPY_INT64, -1)
    forms.part = <const int32_t*>data_of(part, np.NPY_INT32, -1)
    forms.num_several = np.PyArray_DIM(<np.ndarray>begin, 0) - 1
    cdef c.FormWords words
    with nogil:
        words = c.form_words(items[0], forms, all, labels)
    made = None if words.items.empty() else capsule_of(words.items)
    return int32s(words.unknown), int64s(words.changed), made


def arc_forms(lattices, type lattice_type not None, object items not None, changed not None):
    """Return the written form of each arc of the lattices whose words were replaced.

    Args:
        items: Result of ``form_words`` for `lattices`.
        changed: Indices of the changed lattices, int64.

    Returns:
        A written word, or -1 - n for the n-th part, int32 [arcs of the changed lattices]; and for each part, its
        written word and the index of its lexical word, int32 [parts] each.
    """
    cdef Items single
    cdef Items* written = items_in(lattices, single, lattice_type)
    cdef Items* lexical = items_of(items)
    cdef const int64_t* place = <const int64_t*>data_of(changed, np.NPY_INT64, -1)
    cdef int64_t num_changed = np.PyArray_DIM(<np.ndarray>changed, 0)
    cdef c.ArcForms forms
    with nogil:
        forms = c.arc_forms(written[0], lexical[0], place, num_changed)
    return int32s(forms.form), int32s(forms.word), int32s(forms.piece)


def written_arcs(object items not None, size_t number):
    """Return the written arc of each arc of a lexical lattice, or None if the two lattices have the same arcs.

    Arcs of the second and later words of a form have the value -1 - (written arc).
    """
    cdef Item* item = &items_of(items)[0][number]
    if item.written_arc.get() == NULL:
        return None
    return int64s(item.written_arc.get()[0])


def count(object items not None):
    """Return the number of items."""
    return items_of(items).size()


def arcs_in(object items not None):
    """Return the total number of arcs."""
    cdef int64_t arcs = 0
    cdef size_t number
    cdef Items* given = items_of(items)
    for number in range(given.size()):
        arcs += given[0][number].arcs.num_arcs
    return arcs


def all_compact(object items not None):
    """Return whether all items are compact lattices."""
    cdef size_t number
    cdef Items* given = items_of(items)
    for number in range(given.size()):
        if not given[0][number].compact:
            return False
    return True


def keys(object items not None):
    """Return the keys of items."""
    cdef list found = []
    cdef size_t number
    cdef Items* given = items_of(items)
    for number in range(given.size()):
        found.append(_key(given[0][number]))
    return found


cdef inline str _key(const Item& item):
    return PyUnicode_DecodeUTF8(item.key.data(), item.key.size(), "surrogateescape")


def lattice_at(object items not None, size_t number, object blank, tuple slots not None, object words,
               origins not None):
    """Fill a blank lattice with the arrays of an item, without copying; return an unchanged original lattice itself.

    Args:
        blank: ``object.__new__(Lattice)``.
        slots: Slot descriptors of the fields of a lattice, in order.
        words: Symbol table of items without an original lattice.
        origins: Original lattices of the other items.
    """
    cdef Items* given = items_of(items)
    if number >= given.size():
        raise IndexError(number)
    cdef Item* item = &given[0][number]
    frame_shift = None
    if item.origin >= 0:
        origin = origins[item.origin]
        if item.memory.get() == NULL:
            return origin
        words, frame_shift = origin.words, origin.frame_shift
    return lattice_of_item(item[0], blank, slots, _key(item[0]), frame_shift, words)


def unsafe_option():
    """Return a compiler option of this build that affects floating-point results, or ""."""
    return c.unsafe_option().decode()
