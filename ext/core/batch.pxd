"""Conversion of lattices and batches between Python and C++, shared by all extension modules.

Kernels take the items of a `Batch`, or one item that borrows the arrays of a `Lattice`. `items_in` converts an argument
to items; `result_of` converts results to the type of the argument. See ``ninja.lattice.batch``.
"""

cimport numpy as np
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New
from libc.stdint cimport int32_t, int64_t
from libcpp cimport bool as cbool
from libcpp.string cimport string
from libcpp.vector cimport vector

from core.lattice cimport (
    Alignments, Arcs, alignments_of, arcs_of, array_in, data_of, not_a_lattice, pools_fit, view,
)

cdef extern from "core/batch.hpp" namespace "ninja" nogil:
    cdef cppclass Memory "std::shared_ptr<void>":
        Memory()
        Memory(const Memory&)
        void* get()

    cdef cppclass WrittenArcs "std::shared_ptr<const std::vector<int64_t>>":
        const vector[int64_t]* get()

    cdef cppclass Item:
        Item() except +
        string key
        Arcs arcs
        Alignments labels
        const int32_t* time
        cbool compact
        int64_t origin
        Memory memory
        WrittenArcs written_arc

    ctypedef vector[Item] Items

    cdef struct Failure:
        int64_t place
        string message

    cdef cppclass Results:
        Results()
        Items items
        vector[Failure] failures
        vector[int64_t] arc_map


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
    """Borrow the items of an object; the pointer is valid while the caller holds the object."""
    return <Items*>PyCapsule_GetPointer(capsule, "ninja.items")


cdef inline object lattice_error(object lattice, object message):
    """Create an exception with the message and the key of a lattice."""
    from ninja.errors import LatticeError
    return LatticeError(message, key=lattice.key)


cdef inline int borrow(object lattice, Item& item) except -1:
    """Point an item at the arrays of a lattice; the caller must keep the lattice alive."""
    item.arcs = arcs_of(lattice)
    item.labels = alignments_of(lattice)
    if not pools_fit(item.arcs, item.labels, lattice):
        raise lattice_error(lattice, "the arrays of the lattice do not fit together")
    cdef object time = lattice.time
    if time is not None:
        item.time = <const int32_t*>data_of(time, np.NPY_INT32, item.arcs.num_states)
    item.compact = lattice.kind == "compact"
    return 0


cdef inline Items* items_in(object lattices, Items& single, object lattice_type) except NULL:
    """Return the items of a batch, or `single` with the item of a lattice; valid while the caller holds both."""
    if not isinstance(lattices, lattice_type):
        items = getattr(lattices, "items", None)
        if not PyCapsule_IsValid(items, "ninja.items"):
            raise not_a_lattice(lattices)
        return items_of(items)
    single.resize(1)
    borrow(lattices, single[0])
    return &single


cdef inline void release_memory(object owner) noexcept:
    del_memory(<Memory*>PyCapsule_GetPointer(owner, NULL))


cdef inline void del_memory(Memory* memory) noexcept:
    del memory


cdef inline object lattice_of_item(const Item& item, object blank, tuple slots, object key, object frame_shift,
                                   object words):
    """Fill a blank lattice with the arrays of an item, without copying them."""
    cdef Memory* memory = new Memory(item.memory)
    cdef object owner
    try:
        owner = PyCapsule_New(memory, NULL, release_memory)
    except MemoryError:
        del_memory(memory)
        raise
    cdef object time = None
    if item.time != NULL:
        time = array_in(<void*>item.time, item.arcs.num_states, np.NPY_INT32, owner)
    return view(item.arcs, item.labels, owner, blank, slots, key, "compact" if item.compact else "raw", time,
                frame_shift, words)


cdef inline object lattice_like(object lattice, const Item& item, object blank, tuple slots):
    """Return the lattice of an item, or the original lattice if the operation has not changed it."""
    if item.memory.get() == NULL:
        return lattice
    return lattice_of_item(item, blank, slots, lattice.key, lattice.frame_shift, lattice.words)


cdef inline object result_of(object lattices, Results& results, object lattice_type, tuple slots):
    """Return the results as a batch if `lattices` is a batch, or as a lattice if it is a lattice.

    Failures become faults of the batch; the failure of a single lattice is raised.
    """
    if not isinstance(lattices, lattice_type):
        return lattices.with_result((capsule_of(results.items), failures_of(results.failures)))
    if not results.failures.empty():
        raise lattice_error(lattices, results.failures[0].message.decode())
    return lattice_like(lattices, results.items[0], lattice_type.__new__(lattice_type), slots)


cdef inline list failures_of(const vector[Failure]& failures):
    """Return the index and the message of each failure."""
    cdef list found = []
    cdef size_t number
    for number in range(failures.size()):
        found.append((failures[number].place, failures[number].message.decode()))
    return found
