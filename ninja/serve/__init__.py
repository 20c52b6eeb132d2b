"""HTTP server that rescores the lattices of concurrent requests in a batch; needs the extra ``ninja-asr[serve]``.

Names are imported on first use; ``__init__.pyi`` lists them.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
