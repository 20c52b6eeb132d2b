"""Operations on lattices; each takes a lattice, and many also a `Batch`, and returns a new one.

Operations that drop or sort arcs return the old arc of each new arc on request (``return_arc_map=True``), so that any
array with a value per arc can be indexed by it. The module of a function is imported when the function is first used;
``__init__.pyi`` lists the names.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
