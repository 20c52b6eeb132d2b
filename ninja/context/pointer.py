"""`PointerStage`, which provides the phrases of utterances to a context model that reads them during rescoring."""

from __future__ import annotations

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
    """A context model for rescoring, and the ids by which histories of the language model refer to phrase lists.

    Args:
        path: The model or its path; it is loaded on first use.
        lm_weight: LM weight for rescoring.
    """

    def __init__(self, path: Name | ContextPointer, lm_weight: float | None) -> None:
        self._path = path
        self._lm_weight = lm_weight
        self._ids = PhraseListIds()

    @cached_property
    def model(self) -> ContextPointer:
        """The context model."""
        return load_pointer(self._path)

    def over(self, lm: Model, options: ContextOptions) -> Model:
        """Combine a language model with the context model, using the weights in the options.

        Raises:
            ModelError: The context model has no pointer, or was trained for another language model.
            OptionError: `lm` is None or a mixture.
        """
        if not isinstance(lm, LanguageModel):
            path = os.fspath(self._path) if isinstance(self._path, str | os.PathLike) else self._path.path
            kind = "there is none" if lm is None else "there is a mixture"
            raise OptionError(f"a context model requires a single language model, but {kind}", path)
        self.model.refuse_other(lm)
        from ninja.context.deep.context_lm import ContextMixture

        return ContextMixture(
            ((lm, 1.0),),
            names=[lm.vocabulary.path or NEW],
            pointer=self.model,
            phrase_lists=self._ids,
            gain=options.context_weight / (self._lm_weight or 1.0),
            prior=options.context_prior,
        )

    def phrases_of(self, lists: Sequence[PhraseList]) -> PhraseSet | None:
        """Return the phrases in the lists and the id by which histories refer to them; None if there are no phrases."""
        return self._ids.of(lists)
