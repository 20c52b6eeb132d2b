"""Contextual biasing: each utterance can have lists of phrases, such as names, places and titles.

``entities`` reads the lists, ``grammar`` boosts their phrases, ``augmentation`` adds arcs for phrases that sound like
recognised words, and ``deep`` contains the neural networks for phrases. Names are imported on first use;
``__init__.pyi`` lists them.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
