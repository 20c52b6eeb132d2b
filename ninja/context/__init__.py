"""Context: names, places and titles that matter to an utterance, given as lists at request time.

``entities`` has the lists of each utterance, ``grammar`` the boosts of their phrases, ``sound`` arcs for phrases that
sound like what was recognised. Names are imported when they are first used, as ``__init__.pyi`` says.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
