"""Context: names, places and titles that are relevant to an utterance, given as lists at request time.

``entities`` has the lists of each utterance, ``grammar`` the boosts of their phrases, ``augmentation`` the arcs for
phrases that sound similar to recognised words, ``deep`` the networks that read phrases. Names are imported when they
are first used, as ``__init__.pyi`` says.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
