"""Operations on lattices and, in many cases, on a `Batch` of lattices; all operations return new objects.

With ``return_arc_map=True``, operations that drop or reorder arcs also return the old index of each new arc. These
indices select the values of the new arcs from any array with one value per old arc. The module of a function is
imported when the function is first used; ``__init__.pyi`` lists the names.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
