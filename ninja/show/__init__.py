"""Self-contained HTML pages and pictures that show lattices, or compare lattices before and after rescoring.

Names are imported on first use; ``__init__.pyi`` lists them.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
