"""Rescoring with language models: one expansion engine, and the algorithms that drive it.

The module of a name is imported when the name is first used; ``__init__.pyi`` lists the names.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
