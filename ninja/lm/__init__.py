"""Language models: the protocol `LanguageModel`, and functions to load and train models.

Importing this package does not import torch. `load` imports torch only for models that run on it; the module
`ninja.train.loop` always imports it. Names are imported on first use; ``__init__.pyi`` lists them.
"""

from typing import Any

from lazy_loader import attach_stub

from ninja.libraries import needed_for

_attribute, __dir__, __all__ = attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    """Import a name on first use; raise a `DependencyError` if it needs torch and torch is not installed."""
    with needed_for("a network"):
        return _attribute(name)
