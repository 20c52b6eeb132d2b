# cython: language_level=3
# distutils: language = c++
"""Tries of words."""

cimport numpy as np
from libc.stdint cimport int32_t, int64_t
from libcpp.vector cimport vector

from arrays cimport copied, data_of, new_array

import numpy

np.import_array()


cdef extern from "trie.hpp" namespace "ninja" nogil:
    cdef cppclass CTrie "ninja::Trie":
        CTrie() except +
        const vector[int32_t]& parent()
        const vector[int32_t]& word()

    void add_sequences(CTrie&, const int32_t*, const int64_t*, int64_t, int32_t*) except +
    void add_nodes(CTrie&, const int32_t*, const int32_t*, int64_t, int32_t, int32_t*) except +


cdef class WordTrie:
    """Word sequences with their common prefixes shared: a node is a distinct prefix, parents come before children."""

    cdef CTrie trie

    def __len__(self):
        return self.trie.parent().size()

    @property
    def parent(self):
        """Node of each node's prefix without its last word, int32 [nodes]; -1: the empty prefix. A copy."""
        return copied(self.trie.parent().data(), self.trie.parent().size(), np.NPY_INT32)

    @property
    def word(self):
        """Last word of each node's prefix, int32 [nodes]. A copy."""
        return copied(self.trie.word().data(), self.trie.word().size(), np.NPY_INT32)

    def add(self, word not None, begin not None):
        """Add sequences; return the node of each of their words, int32 [words].

        Sequence s is ``word[begin[s] : begin[s + 1]]``; word is int32 [words], begin int64 [sequences + 1] and rises
        from 0 to the number of words.
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
            add_sequences(self.trie, words, begins, num_sequences, nodes)
        return node

    def add_trie(self, parent not None, word not None, int32_t below=-1):
        """Add a trie given by its nodes; return the node that each of them is here, int32 [nodes].

        parent and word are int32 [nodes]; -1 is the empty prefix, which becomes the node `below`, and parents come
        before their children.
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
            add_nodes(self.trie, parents, words, count, below, nodes)
        return node
