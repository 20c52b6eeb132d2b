"""Rescoring with language models: an engine that batches calls of the language model, and the search algorithms.

Names are imported on first use; ``__init__.pyi`` lists them.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
