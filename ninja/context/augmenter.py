"""Create the `Augmenter` for a context from the context's files and options."""

from __future__ import annotations

import os

from ninja.context.augmentation.augment import Augmenter, ModelCosts
from ninja.context.augmentation.class_costs import ClassCosts
from ninja.context.augmentation.old_costs import OldCosts
from ninja.context.entities.lists import Entities
from ninja.context.entities.written import WrittenWords
from ninja.context.grammar.tracker import Tracker, class_words
from ninja.context.loader import ContextModels
from ninja.context.options import ContextOptions
from ninja.context.retrieval.letter_grams import LetterGrams
from ninja.context.retrieval.retriever import LONG_LIST, Retriever
from ninja.context.settings import NO_MODEL, Augmentation
from ninja.context.sound.arc_phones import ArcPhones
from ninja.context.sound.confusion import Confusion
from ninja.context.sound.letters import letter_confusion
from ninja.errors import DependencyError, ModelError
from ninja.lattice.symbols import SymbolTable
from ninja.libraries import needed_for
from ninja.models import CONTEXT


def make_augmenter(
    augmentation: Augmentation,
    options: ContextOptions,
    words: SymbolTable,
    entities: Entities,
    models: ContextModels,
    tracker: Tracker,
    written: WrittenWords | None = None,
) -> Augmenter:
    """Create an augmenter.

    Args:
        augmentation: Files and options.
        options: Boosts of phrases.
        words: The symbol table of the lattices, which contains the words of all phrases. If `written` is set, the table
            of lexical words must be passed instead.
        entities: All phrases.
        models: N-gram models and pronunciations.
        tracker: The grammar. Its map from words to the words of the class model is reused.
        written: Written words and their lexical forms; if None, words are compared exactly.

    Raises:
        DependencyError: A library that the context model of `augmentation` requires is not installed.
        ModelError: The context model cannot encode the phrases.
    """
    confusion = _confusion(augmentation, words if written is None else written.words, entities)
    assert models.pronouncer is not None
    phones = None
    if augmentation.transition_model is not None and augmentation.phones is not None:
        phones = ArcPhones.read(augmentation.transition_model, augmentation.phones, confusion.phones)
    return Augmenter(
        words,
        models.pronouncer,
        confusion,
        augmentation.options,
        costs=model_costs(augmentation, options, words, models, tracker),
        phones=phones,
        retriever=_retriever(augmentation, entities, confusion),
        written=written,
    )


def model_costs(
    augmentation: Augmentation, options: ContextOptions, words: SymbolTable, models: ContextModels, tracker: Tracker
) -> ModelCosts:
    """Create the `ModelCosts` of phrases for the words that a symbol table currently contains."""
    old_costs = None
    if models.old_lm is not None:
        old_costs = OldCosts(words, models.old_lm, options.unk_penalty, options.map_words)
    return ModelCosts(old_costs, _class_costs(augmentation, options, models, tracker))


def _confusion(augmentation: Augmentation, words: SymbolTable, entities: Entities) -> Confusion:
    if augmentation.confusion is not None:
        return Confusion.read(augmentation.confusion)
    if augmentation.letters_only:
        return letter_confusion(entities.all_lists, (word for word, _ in words))
    return Confusion.articulatory()


def _class_costs(
    augmentation: Augmentation, options: ContextOptions, models: ContextModels, tracker: Tracker
) -> ClassCosts | None:
    place_weight = augmentation.options.place_weight
    if models.class_lm is None or place_weight is None:
        return None
    assert tracker.class_map is not None
    return ClassCosts(
        models.class_lm,
        tracker.class_map,
        dict(class_words(models.class_lm)),
        class_boost=options.class_boost,
        keyword_boost=options.keyword_boost,
        place_weight=place_weight,
        phone_reward=augmentation.options.phone_reward,
    )


def _retriever(augmentation: Augmentation, entities: Entities, confusion: Confusion) -> Retriever | None:
    """Return the retriever for long lists; None if no list is long, or if the context model is disabled or unusable."""
    path = augmentation.context_model
    if path == NO_MODEL or not any(phrases.name and phrases.num_phrases >= LONG_LIST for phrases in entities.all_lists):
        return None
    if path is None and augmentation.letters_only:
        return Retriever(LetterGrams())
    try:
        with needed_for("a context model", path):
            from ninja.context.deep.encoder import PhraseEncoder, SpelledEncoder
    except DependencyError:
        if path is None:
            return None  # compare all phrases
        raise
    encoder = PhraseEncoder.load(CONTEXT if path is None else path)
    if path is not None and augmentation.letters_only:
        return Retriever(SpelledEncoder(encoder, path))
    if encoder.takes_phones and set(confusion.phones) <= set(encoder.symbols.phones):
        return Retriever(encoder)
    if path is None:
        return None  # the encoder does not know the phones (of another language), so compare all phrases
    fault = "does not support all phones of --confusion" if encoder.takes_phones else "reads letters, not phones"
    raise ModelError(f"the context model {fault}; omit it, or train a context model with --confusion", os.fspath(path))
