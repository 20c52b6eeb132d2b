"""Decoding: searches with a context, trackers to call step by step, and lattices of the matrices of CTC models.

Names are imported when they are first used, as ``__init__.pyi`` says.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
