"""The context of lattices whose words are compared as they are written, once its files are loaded."""

from __future__ import annotations

from collections.abc import Sequence

from ninja.context.augmentation.augment import Added, with_phrase_words
from ninja.context.augmenter import make_augmenter
from ninja.context.booster import make_booster
from ninja.context.entities.lists import Entities, PhraseList
from ninja.context.grammar.tracker import Match, add_context
from ninja.context.loader import ContextModels
from ninja.context.settings import Context
from ninja.lattice import Lattice
from ninja.lattice.lattice import as_list_of
from ninja.lattice.symbols import SymbolTable


class ExactBinding:
    """A context bound to the words of a symbol table.

    Args:
        words: The symbol table of the lattices.
        lm_weight: As for `make_booster`.
        has_old_lm: As for `make_booster`.
    """

    def __init__(
        self,
        context: Context,
        words: SymbolTable,
        entities: Entities,
        models: ContextModels,
        *,
        lm_weight: float | None,
        has_old_lm: bool,
    ) -> None:
        if context.augmentation is not None:
            words = with_phrase_words(words, entities.all_lists)
        self.words = words  # of results
        self.tracker = make_booster(words, models, context.options, lm_weight=lm_weight, has_old_lm=has_old_lm)
        self.augmenter = None
        if context.augmentation is not None:
            self.augmenter = make_augmenter(
                context.augmentation, context.options, words, entities, models, self.tracker
            )

    def add_context(
        self, lattice: Lattice, lists: Sequence[PhraseList], *, boosts: bool
    ) -> tuple[Lattice, tuple[Added, ...]]:
        """Return a lattice with the phrases of some lists, and the phrases added.

        Args:
            boosts: Add the scores of the grammar.
        """
        added: tuple[Added, ...] = ()
        if self.augmenter is not None:
            lattice, added = self.augmenter(lattice, lists)
        if not boosts:
            return lattice, added
        boosted = add_context(lattice, self.tracker, lists)
        return (as_list_of(lattice, boosted) if self.augmenter is None else boosted), added

    def matches(self, lists: Sequence[PhraseList], words: Sequence[str]) -> list[Match]:
        """Return the phrases on the best path of the grammar through words."""
        self.tracker.clear()
        return self.tracker.matches(self.tracker.start(lists), self.tracker.words.ids(words))

    def in_table(self, lattice: Lattice) -> Lattice:
        """Return the result of a thread with the symbol table of all results: the same, as all tables are equal."""
        return lattice
