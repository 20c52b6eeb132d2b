"""Algorithms on lattices; each takes a lattice, and many take a `Batch` as well, and returns something new.

Those that drop or sort arcs hand back the old arc of each new arc on request (``return_arc_map=True``), so any array
with a value per arc follows by indexing. The module of a function is imported when the function is first used, as
``__init__.pyi`` says; a function hides the module of the same name.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
