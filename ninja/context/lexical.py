"""`LexicalBinding`, a loaded context that compares words by their lexical forms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ninja.context.augmentation.augment import Added, Augmenter
from ninja.context.augmenter import make_augmenter, model_costs
from ninja.context.booster import make_booster
from ninja.context.entities.lists import Entities, PhraseList
from ninja.context.grammar.lexical import LexicalContext
from ninja.context.grammar.tracker import Match, Tracker
from ninja.context.loader import ContextModels
from ninja.context.settings import Context
from ninja.context.sound.confusion import MAX_PHONES
from ninja.lattice import Lattice
from ninja.lattice.characters import plain_letters
from ninja.lattice.lattice import frozen
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.text import Normalizer
from ninja.lm.word_map import complete

SPARE_SYMBOLS = 1000  # additional symbols of a tracker without models, for lexical words that are added later


class LexicalBinding:
    """A loaded context that is bound to the lexical forms of a symbol table.

    Args:
        context: Files and options.
        words: The symbol table of the lattices.
        normalizer: Normalizer that returns lexical forms.
        entities: The phrases.
        models: The n-gram models.
        lm_weight: See `make_booster`.
        has_old_lm: See `make_booster`.
    """

    def __init__(
        self,
        context: Context,
        words: SymbolTable,
        normalizer: Normalizer,
        entities: Entities,
        models: ContextModels,
        *,
        lm_weight: float | None,
        has_old_lm: bool,
    ) -> None:
        self._context = context
        self._entities = entities
        self._models = models
        self._lm_weight = lm_weight
        self._has_old_lm = has_old_lm
        self._lexical = LexicalContext(words, normalizer)
        # For each genitive that augmentation added to the last lattice, the word without 's.
        self._plain: dict[str, str] = {}
        lms = [lm for lm in (models.class_lm, models.old_lm) if lm is not None]
        self._has_models = bool(lms)
        if lms:
            complete(words, context.options.unk_penalty, *lms)
            self._lexical.learn_all()
            self._lexical.learn(entities.all_lists)
        self.tracker = self._new_tracker()
        self._num_lexical = len(self._lexical.table.lexical)  # lexical words that the tracker includes
        self._num_written = len(self.words)  # written words whose letters the augmenter includes
        self.augmenter = self._new_augmenter()

    @property
    def words(self) -> SymbolTable:
        """The symbol table of results."""
        return self._lexical.words

    def add_context(
        self, lattice: Lattice, lists: Sequence[PhraseList], *, boosts: bool
    ) -> tuple[Lattice, tuple[Added, ...]]:
        """Apply phrase lists to a lattice.

        Args:
            lattice: The lattice.
            lists: The phrase lists of the utterance.
            boosts: Whether to add the scores of the grammar; if not, phrases are only respelled.

        Returns:
            The new lattice, and the phrases that augmentation added.
        """
        added: tuple[Added, ...] = ()
        lexical = self._lexical
        if self._has_models:
            lexical.learn(lists)
        of_forms = lexical.written.lattice(lattice)
        self._follow_words()
        if self.augmenter is not None:
            lattice, added = self.augmenter(lattice, lists)
            plain = self._without_genitives(lattice, added)
            of_forms = lexical.written.lattice(plain) if added else of_forms
        if not boosts:
            return lexical.respelled(lattice, of_forms, lists), added
        self._include(int(of_forms.lattice.word.max(initial=0)))
        return lexical.add_context(lattice, of_forms, self.tracker, lists), added

    def matches(self, lists: Sequence[PhraseList], words: Sequence[str]) -> list[Match]:
        """Return the phrases on the grammar's best path through the written words of an utterance.

        Words to which augmentation added ``'s`` in the last lattice are compared without it.
        """
        words = [self._plain.get(word, word) for word in words]
        table = self._lexical.table
        ids = table.lexical.intern(table.normalizer.words(words))
        self._follow_words()
        self._include(max(ids, default=0))
        return self._lexical.matches(self.tracker, lists, words)

    def in_table(self, lattice: Lattice) -> Lattice:
        """Convert a lattice from another symbol table to the table of results."""
        return self._lexical.written.in_table(lattice)

    def _without_genitives(self, lattice: Lattice, added: Iterable[Added]) -> Lattice:
        """Remove the ``'s`` from the last words of added phrases, so that the grammar recognises the phrases."""
        endings = {addition.phrase.split(" ")[-1]: addition.genitive for addition in added if addition.genitive}
        self._plain = {word: word[: word.rindex(ending)] for word, ending in endings.items()}
        if not endings:
            return lattice
        genitives, numbers = (self._lexical.written.ids(words) for words in (self._plain, self._plain.values()))
        word = np.array(lattice.word)
        for genitive, number in zip(genitives, numbers, strict=True):
            word[lattice.word == genitive] = number
        return lattice.replace(word=frozen(word))

    def _follow_words(self) -> None:
        """Update the tracker and the augmenter if words were added to a growing table."""
        if self._has_models and len(self._lexical.table.lexical) > self._num_lexical:
            self._num_lexical = len(self._lexical.table.lexical)
            self.tracker = self._new_tracker()
            if self.augmenter is not None and self._context.augmentation is not None:
                self.augmenter.costs = model_costs(
                    self._context.augmentation,
                    self._context.options,
                    self._lexical.table.lexical,
                    self._models,
                    self.tracker,
                )
        augmentation = self._context.augmentation
        if augmentation is not None and augmentation.letters_only and len(self.words) > self._num_written:
            new_words, _ = self.words.since(self._num_written)
            self._num_written += len(new_words)
            if self._has_new_letters(new_words):
                self.augmenter = self._new_augmenter()

    def _include(self, largest: int) -> None:
        """Replace the tracker if it does not include the lexical word with the given id."""
        if largest >= self.tracker.num_symbols:
            self.tracker = self._new_tracker()

    def _has_new_letters(self, words: Iterable[str]) -> bool:
        assert self.augmenter is not None
        known = self.augmenter.confusion.id.keys()
        return len(known) < MAX_PHONES and not known >= set(plain_letters("".join(words))) - {"'"}

    def _new_tracker(self) -> Tracker:
        """Create a tracker with space for twice the current number of lexical words."""
        words = self._lexical.table.lexical
        return make_booster(
            words,
            self._models,
            self._context.options,
            lm_weight=self._lm_weight,
            has_old_lm=self._has_old_lm,
            compiler=self._lexical.compiler,
            num_symbols=2 * len(words) + SPARE_SYMBOLS,
        )

    def _new_augmenter(self) -> Augmenter | None:
        context = self._context
        if context.augmentation is None:
            return None
        words = self._lexical.table.lexical
        return make_augmenter(
            context.augmentation,
            context.options,
            words,
            self._entities,
            self._models,
            self.tracker,
            self._lexical.written,
        )
