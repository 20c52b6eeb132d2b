"""Give the phrases of utterances to a context model that reads them during rescoring."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from ninja.context.deep.phrase_list_ids import PhraseListIds, PhraseSet
from ninja.context.entities.lists import PhraseList
from ninja.context.loader import load_pointer
from ninja.context.options import ContextOptions
from ninja.context.settings import Name
from ninja.errors import OptionError
from ninja.lm.protocol import LanguageModel
from ninja.rescoring.models import NEW, Model

if TYPE_CHECKING:
    from ninja.context.deep.pointer import ContextPointer


class PointerStage:
    """A context model and the phrase lists of the utterances that it reads.

    Args:
        path: The model, or where it is; it is loaded when it is first used.
        lm_weight: Share of the graph costs that the rescoring replaces.
    """

    def __init__(self, path: Name | ContextPointer, options: ContextOptions, lm_weight: float | None) -> None:
        self._path = path
        self._options = options
        self._lm_weight = lm_weight
        self._ids = PhraseListIds()

    @cached_property
    def model(self) -> ContextPointer:
        """The context model."""
        return load_pointer(self._path)

    def with_options(self, options: ContextOptions) -> PointerStage:
        """Return a stage with other weights that shares the loaded model."""
        other = copy.copy(self)
        other._options = options
        return other

    def over(self, lm: Model) -> Model:
        """Return a language model that reads phrases.

        Raises:
            ModelError: The context model has no pointer, or one for another language model.
            OptionError: There is no language model, or several.
        """
        if not isinstance(lm, LanguageModel):
            count = "none" if lm is None else "a mixture"
            path = os.fspath(self._path) if isinstance(self._path, str | os.PathLike) else self._path.path
            raise OptionError(f"a context model needs exactly one language model, but there is {count}", path)
        self.model.refuse_other(lm)
        from ninja.context.deep.context_lm import ContextMixture

        return ContextMixture(
            ((lm, 1.0),),
            names=[lm.vocabulary.path or NEW],
            pointer=self.model,
            phrase_lists=self._ids,
            gain=self._options.context_weight / (self._lm_weight or 1.0),
            prior=self._options.context_prior,
        )

    def phrases_of(self, lists: Sequence[PhraseList]) -> PhraseSet | None:
        """Return the phrases of some lists with the id that the language model reads; None if there are none."""
        return self._ids.of(lists)
