"""Language models: the protocol, loading, training.

Importing this package does not import torch; `load` does when the model is a network, and `ninja.train.loop` does.
Names are imported when they are first used, as ``__init__.pyi`` says.
"""

from typing import Any

from lazy_loader import attach_stub

from ninja.libraries import needed_for

_attribute, __dir__, __all__ = attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    """Import a name; one that needs torch says so where torch is missing."""
    with needed_for("a network"):
        return _attribute(name)
