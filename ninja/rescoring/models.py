"""The language models of one run as the search sees them: one model, whatever it is made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from ninja.errors import OptionError, VocabularyError
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable
from ninja.lm import LanguageModel
from ninja.lm.mixture import Mixture, MixtureLM
from ninja.lm.word_map import Coverage, WordMap
from ninja.rescoring.options import RescoreOptions

NEW, OLD = "the language model", "the old language model"


class Models:
    """New and old language model, bound to the words of the lattices.

    with an old model       graph + λ (−ln p_new + ln p_old)
    without                 (1 − λ) graph + λ (−ln p_new)
    without a new one       graph + λ ln p_old
    """

    def __init__(
        self, lm: LanguageModel | Mixture | None, old_lm: LanguageModel | Mixture | None, options: RescoreOptions
    ) -> None:
        """Note which models there are.

        Raises:
            OptionError: There is none.
        """
        self.graph_share = 1.0 - options.lm_weight if old_lm is None else 1.0
        self.lm_scale = options.lm_weight
        self._options = options
        self._given: LanguageModel | Mixture
        if lm is not None and old_lm is not None:
            self._given = Mixture(((lm, 1.0), (old_lm, -1.0)), names=(NEW, OLD))
        elif old_lm is not None:
            self._given = Mixture(((old_lm, -1.0),), names=(OLD,))
        elif lm is not None:
            self._given = lm
        else:
            raise OptionError("there is neither a language model nor an old one; give at least one of them")
        self._lm: LanguageModel | None = None if isinstance(self._given, Mixture) else self._given
        self._map: WordMap | None = None
        self._parts: Sequence[WordMap] = ()

    @property
    def lm(self) -> LanguageModel:
        """The model that the search asks; a mixture is made when the first symbol table is known."""
        assert self._lm is not None, "no symbol table is known yet"
        return self._lm

    def of(self, lattice: Lattice) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
        """Return the model's word (-1: none) and what it costs beyond the model's score, [num_arcs] each.

        Raises:
            SymbolError: An arc's word id is not in the symbol table.
            VocabularyError: There is no symbol table, or an arc's word is unknown to a model without <unk>.
        """
        if lattice.words is None:
            raise VocabularyError("the lattice carries no symbol table", key=lattice.key)
        found = self._bound(lattice.words).of(lattice)
        for part in self._parts:
            part.refuse_unknown(lattice)
        return found

    def said(self, lattice: Lattice, words: npt.NDArray[np.int32]) -> list[int]:
        """Return what the model reads of an utterance before the next one: its words, then ``<s>`` if it has that.

        So the model begins a sentence as it did in training, but remembers; an n-gram model, which knows nothing from
        before ``<s>``, scores as it would without. Words that mean none to the model are left out.
        """
        assert lattice.words is not None
        found = self._bound(lattice.words).lm_word[words]
        said = [int(each) for each in found[found >= 0]]
        return [*said, self.lm.bos] if said and self.lm.bos is not None else said

    def coverages(self, lattices: Iterable[Lattice]) -> tuple[Coverage, ...]:
        """Count how well each model knows the words of some lattices, those of the first symbol table among them.

        Raises:
            VocabularyError: No lattice carries a symbol table.
        """
        named = [lattice for lattice in lattices if lattice.words is not None]
        if not named:
            raise VocabularyError("the lattices carry no symbol table; give the words.txt they were made with")
        assert named[0].words is not None
        whole = self._bound(named[0].words)
        alike = [lattice for lattice in named if lattice.words is whole.words]
        return tuple(part.coverage(alike) for part in (self._parts or (whole,)))

    def _bound(self, words: SymbolTable) -> WordMap:
        """Return how the model sees a symbol table."""
        if self._map is not None and self._map.words is words:
            return self._map
        options = self._options
        if not isinstance(self._given, Mixture):
            self._map = WordMap(words, self.lm, options.unk_penalty, map_words=options.map_words)
            return self._map
        if self._lm is None:
            self._lm = self._given.over(words, options.unk_penalty, options.map_words)
        assert isinstance(self._lm, MixtureLM)
        self._lm.cover(words)
        self._parts = tuple(self._lm.parts())
        vocabulary = self._lm.vocabulary
        if vocabulary is not words and vocabulary.ids(dict(words)) != list(dict(words).values()):  # its ids are others
            self._parts = tuple(
                WordMap(words, part.lm, part.unk_penalty, map_words=tuple(part.mapped), name=part.name)
                for part in self._parts
            )
        self._map = WordMap(words, self._lm)
        return self._map
