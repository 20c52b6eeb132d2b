"""HTTP server that rescores lattices from concurrent requests in batches; requires the extra ``ninja-asr[serve]``.

Names are imported on first use; ``__init__.pyi`` lists them.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
