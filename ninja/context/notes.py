"""Notes on suspicious contents of the files of a context."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ninja.context.augmentation.augment import Augmenter
from ninja.context.deep.phrase_list_ids import texts_of
from ninja.context.entities.lists import Entities
from ninja.context.grammar.tracker import NO_CLASS, class_words
from ninja.context.pointer import PointerStage
from ninja.context.settings import Augmentation
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.text import Normalizer
from ninja.lm.ngram.model import NgramLM

MANY_PHRASES = 10_000  # finding the pronunciations of more takes so long that it is announced
NUM_LETTERS = 20  # named in a note


def entity_notes(
    entities: Entities, words: SymbolTable, normalizer: Normalizer, *, is_augmenting: bool
) -> Iterator[str]:
    """Note faults of the entities and words that the lattices' symbol table lacks."""
    yield from entities.problems
    new = "; they get symbols of their own" if is_augmenting else ""
    for unknown in entities.unknown(words, normalizer):
        yield f"{_name(entities)}: {unknown}{new}"


def pointer_notes(pointer: PointerStage, entities: Entities, normalizer: Normalizer) -> Iterator[str]:
    """Note letters that the context model does not know."""
    unknown = pointer.model.encoder.unknown_letters(texts_of(entities.all_lists, normalizer))
    if unknown:
        letters = _most_common("", unknown, NUM_LETTERS)
        yield f"{_name(entities)}: letters that the context model does not know, which it leaves out: {letters}"


def augmenter_notes(
    augmenter: Augmenter, augmentation: Augmentation, entities: Entities, normalizer: Normalizer
) -> Iterator[str]:
    """Note phrases that cannot be pronounced, and letters that the model of long lists does not know."""
    if entities.num_phrases > MANY_PHRASES and not augmentation.letters_only:
        number = entities.num_phrases
        yield f"finding the pronunciations of {number} phrases; words outside the dictionary take a while"
    left_out = augmenter.left_out(entities.all_lists)
    if left_out:
        advice = "" if augmentation.letters_only else "; --letters-only compares letters"
        first = left_out[0].reason
        yield f"{_name(entities)}: {len(left_out)} phrases cannot be added to lattices, the first: {first}{advice}"
    if augmentation.letters_only and augmenter.retriever is not None:
        unknown = augmenter.retriever.encoder.unknown_letters(texts_of(entities.all_lists, normalizer))
        if unknown:
            letters = _most_common(" ", unknown, 8)
            name = _name(entities)
            yield f"{augmentation.context_model}: does not know {letters} of {name}; other letters find a phrase"


def class_notes(lm: NgramLM, entities: Entities) -> Iterator[str]:
    """Note classes of the class model without phrases, and classes that it lacks."""
    path = lm.vocabulary.path
    known = {word for word, _ in class_words(lm)}
    classes = set(entities.classes) - {NO_CLASS}
    if not known:
        yield f"{path}: no class words such as @name, $name or <name>; phrases are boosted anywhere"
        return
    for name in sorted(known - classes):
        yield f"{path}: {name} has no phrases in {_name(entities)}, and is never entered"
    for name in sorted(classes - known):
        yield f"{_name(entities)}: {name} is not a word of {path}; its phrases are boosted anywhere"


def _name(entities: Entities) -> str:
    return entities.path or "the entities"


def _most_common(separator: str, letters: Counter[str], count: int) -> str:
    return separator.join(letter for letter, _ in letters.most_common(count))
