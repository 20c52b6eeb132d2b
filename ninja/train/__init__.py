"""Training of networks: language models, phrase encoders, pointers, and phone confusions.

Names are imported when they are first used, as ``__init__.pyi`` says.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
