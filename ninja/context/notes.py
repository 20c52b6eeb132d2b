"""Notes about suspicious content in the files of a context."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ninja.context.augmentation.augment import Augmenter
from ninja.context.deep.phrase_list_ids import texts_of
from ninja.context.entities.lists import Entities
from ninja.context.grammar.tracker import NO_CLASS, class_words
from ninja.context.pointer import PointerStage
from ninja.context.settings import Augmentation
from ninja.errors import counted
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.text import Normalizer
from ninja.lm.ngram.model import NgramLM

MANY_PHRASES = 10_000  # for more phrases than this, a note announces that their pronunciations are looked up
NUM_LETTERS = 20  # maximum number of letters in a note


def entity_notes(
    entities: Entities, words: SymbolTable, normalizer: Normalizer, *, is_augmenting: bool
) -> Iterator[str]:
    """Yield notes about probable mistakes in phrase lists, and about words missing from the lattices' symbol table."""
    yield from entities.problems
    new = "; these words are added to the table" if is_augmenting else ""
    for unknown in entities.unknown(words, normalizer):
        yield f"{_name(entities)}: {unknown}{new}"


def pointer_notes(pointer: PointerStage, entities: Entities, normalizer: Normalizer) -> Iterator[str]:
    """Yield a note about letters that are unknown to the context model."""
    unknown = pointer.model.encoder.unknown_letters(texts_of(entities.all_lists, normalizer))
    if unknown:
        letters = _most_common("", unknown, NUM_LETTERS)
        yield f"{_name(entities)}: the context model ignores letters that it does not know: {letters}"


def augmenter_notes(
    augmenter: Augmenter, augmentation: Augmentation, entities: Entities, normalizer: Normalizer
) -> Iterator[str]:
    """Yield notes about phrases without a pronunciation, and about letters that are unknown to the retrieval model."""
    if entities.num_phrases > MANY_PHRASES and not augmentation.letters_only:
        number = entities.num_phrases
        yield (
            f"looking up the pronunciations of {number} phrases, which takes longer for words "
            "that are not in the dictionary"
        )
    left_out = augmenter.left_out(entities.all_lists)
    if left_out:
        advice = "" if augmentation.letters_only else "; use --letters-only to compare letters instead"
        first = left_out[0].reason
        phrases = counted(len(left_out), "phrase")
        yield f"{_name(entities)}: {phrases} cannot be added to lattices, for example: {first}{advice}"
    if augmentation.letters_only and augmenter.retriever is not None:
        unknown = augmenter.retriever.encoder.unknown_letters(texts_of(entities.all_lists, normalizer))
        if unknown:
            letters = _most_common(" ", unknown, 8)
            yield f"{augmentation.context_model}: the model ignores unknown letters in {_name(entities)}: {letters}"


def class_notes(lm: NgramLM, entities: Entities) -> Iterator[str]:
    """Yield notes about classes of the class model that have no phrases, and about classes missing from the model."""
    path = lm.vocabulary.path
    known = {word for word, _ in class_words(lm)}
    classes = set(entities.classes) - {NO_CLASS}
    if not known:
        yield f"{path}: the model has no classes such as @name, $name or <name>; phrases are boosted after any history"
        return
    for name in sorted(known - classes):
        yield f"{path}: the class {name} is not used, because {_name(entities)} contains no phrases for it"
    for name in sorted(classes - known):
        yield f"{_name(entities)}: {path} has no class {name}; its phrases are boosted after any history"


def _name(entities: Entities) -> str:
    return entities.path or "the entities"


def _most_common(separator: str, letters: Counter[str], count: int) -> str:
    return separator.join(letter for letter, _ in letters.most_common(count))
