# cython: language_level=3
"""Fields of a ``Lattice`` set one by one, in a tenth of the time ``Lattice(…)`` takes; small lattices are short of it.

Inline, because extension modules share no compiled code.
"""

from cpython.object cimport PyObject

cdef extern from "Python.h":
    ctypedef int (*descrsetfunc)(object, object, object) except -1
    ctypedef object (*descrgetfunc)(object, object, object)
    ctypedef struct PyTypeObject:
        descrsetfunc tp_descr_set
        descrgetfunc tp_descr_get
    PyTypeObject* Py_TYPE(object)
    PyObject* PyTuple_GET_ITEM(object, Py_ssize_t)


cdef inline int set_slot(tuple slots, Py_ssize_t number, object lattice, object value) except -1:
    """Set a field, whatever the class says about it."""
    cdef object slot = <object>PyTuple_GET_ITEM(slots, number)
    return Py_TYPE(slot).tp_descr_set(slot, lattice, value)


cdef inline object get_slot(tuple slots, Py_ssize_t number, object lattice):
    """Return a field, whatever the class says about it."""
    cdef object slot = <object>PyTuple_GET_ITEM(slots, number)
    return Py_TYPE(slot).tp_descr_get(slot, lattice, <object>Py_TYPE(lattice))


cdef inline object filled(object lattice, tuple slots, tuple values):
    """Set all fields of a new lattice and return it."""
    cdef Py_ssize_t number
    for number in range(len(slots)):
        set_slot(slots, number, lattice, <object>PyTuple_GET_ITEM(values, number))
    return lattice
