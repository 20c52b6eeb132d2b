"""`ExactBinding`, a loaded context that compares written words exactly."""

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
    """A loaded context that is bound to the words of a symbol table.

    Args:
        context: Files and options.
        words: The symbol table of the lattices.
        entities: The phrases.
        models: The n-gram models.
        lm_weight: See `make_booster`.
        has_old_lm: See `make_booster`.
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
        self.words = words  # symbol table of results
        self.tracker = make_booster(words, models, context.options, lm_weight=lm_weight, has_old_lm=has_old_lm)
        self.augmenter = None
        if context.augmentation is not None:
            self.augmenter = make_augmenter(
                context.augmentation, context.options, words, entities, models, self.tracker
            )

    def add_context(
        self, lattice: Lattice, lists: Sequence[PhraseList], *, boosts: bool
    ) -> tuple[Lattice, tuple[Added, ...]]:
        """Apply phrase lists to a lattice.

        Args:
            lattice: The lattice.
            lists: The phrase lists of the utterance.
            boosts: Whether to add the scores of the grammar.

        Returns:
            The new lattice, and the phrases that augmentation added.
        """
        added: tuple[Added, ...] = ()
        if self.augmenter is not None:
            lattice, added = self.augmenter(lattice, lists)
        if not boosts:
            return lattice, added
        boosted = add_context(lattice, self.tracker, lists)
        return (as_list_of(lattice, boosted) if self.augmenter is None else boosted), added

    def matches(self, lists: Sequence[PhraseList], words: Sequence[str]) -> list[Match]:
        """Return the phrases on the grammar's best path through a word sequence."""
        self.tracker.clear()
        return self.tracker.matches(self.tracker.start(lists), self.tracker.words.ids(words))

    def in_table(self, lattice: Lattice) -> Lattice:
        """Return the lattice unchanged, because the symbol tables of all threads are equal."""
        return lattice
