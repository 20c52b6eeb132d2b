"""Contextual decoding: beam search, trackers for external decoders, and n-best lists and lattices from CTC models.

Names are imported on first use; ``__init__.pyi`` lists them.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
