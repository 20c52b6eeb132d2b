"""Rescoring: one expansion engine, and the algorithms that drive it.

``ninja.rescore`` names both this package and its one verb, so the package itself can be called.
"""

import sys
from types import ModuleType
from typing import Any

from ninja.rescore.carry_over import CarryOver
from ninja.rescore.iterate import iterate
from ninja.rescore.options import RescoreOptions
from ninja.rescore.report import RescoreReport
from ninja.rescore.rescoring import rescore
from ninja.rescore.vocabulary import Coverage, WordMap, coverage

__all__ = ["CarryOver", "Coverage", "RescoreOptions", "RescoreReport", "WordMap", "coverage", "iterate", "rescore"]


class _CallableModule(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return rescore(*args, **kwargs)


sys.modules[__name__].__class__ = _CallableModule
