"""Batches of lattices between Python and C++: what all the modules share; see ``ninja.lattice.batch``."""

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.stdint cimport int32_t, int64_t
from libcpp cimport bool as cbool
from libcpp.string cimport string
from libcpp.vector cimport vector

from core.lattice cimport Alignments, Arcs, Block, LatticeArrays

cdef extern from "core/batch.hpp" namespace "ninja" nogil:
    cdef cppclass Memory "std::shared_ptr<void>":
        Memory()
        Memory(const Memory&)
        void* get()

    cdef cppclass Item:
        Item() except +
        string key
        Arcs arcs
        Alignments labels
        const int32_t* time
        cbool compact
        int64_t origin
        Memory memory

    ctypedef vector[Item] Items

    cdef struct Failure:
        int64_t place
        string message

    cdef cppclass Results:
        Results()
        Items items
        vector[Failure] failures

    void adopt(Block& block, Item& item) except +


cdef inline void release_items(object capsule) noexcept:
    del_items(<Items*>PyCapsule_GetPointer(capsule, "ninja.items"))


cdef inline void del_items(Items* items) noexcept:
    del items


cdef inline object capsule_of(Items& items):
    """Move items into an object that owns them."""
    cdef Items* kept = new Items()
    kept.swap(items)
    try:
        return PyCapsule_New(kept, "ninja.items", release_items)
    except MemoryError:
        del_items(kept)
        raise


cdef inline Items* items_of(object capsule) except NULL:
    """Borrow the items of an object; valid while the caller holds it."""
    return <Items*>PyCapsule_GetPointer(capsule, "ninja.items")


cdef inline tuple results_of(Results& results):
    """Return the items that were made, and ``(place, message)`` of each that was not."""
    return capsule_of(results.items), failures_of(results.failures)


cdef inline list failures_of(const vector[Failure]& failures):
    """Return the place and the message of each."""
    cdef list found = []
    cdef size_t number
    for number in range(failures.size()):
        found.append((failures[number].place, failures[number].message.decode()))
    return found
