"""Load the entities and models that a `Context` specifies."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ninja.context.augmentation.old_costs import with_unknown
from ninja.context.entities.lists import Entities
from ninja.context.settings import DEFAULT_MODEL, Context, Name
from ninja.context.sound.letters import LetterPronouncer
from ninja.context.sound.pronunciation import Pronouncer
from ninja.errors import Log, ModelError
from ninja.formats.kaldi.tables import read_speakers
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.text import Normalizer
from ninja.libraries import needed_for
from ninja.lm.ngram.model import NgramLM
from ninja.lm.protocol import DEFAULTS, LoadOptions
from ninja.models import CONTEXT
from ninja.rescoring.models import load_model

if TYPE_CHECKING:
    from ninja.context.deep.pointer import ContextPointer


@dataclass(frozen=True, slots=True)
class ContextModels:
    """The models of a context, which do not depend on the words of lattices; threads can share the models."""

    class_lm: NgramLM | None
    old_lm: NgramLM | None  # first-pass model; with augmentation, it has <unk>
    pronouncer: Pronouncer | None  # None without augmentation


def load_models(context: Context, old_lm: Name | NgramLM | None, words: SymbolTable, log: Log) -> ContextModels:
    """Load the class model, the old model if the class model or augmentation requires it, and pronunciations.

    Raises:
        DependencyError: A library for pronunciations is not installed.
    """
    class_lm = None if context.class_lm is None else load_ngram(context.class_lm, words, log, context.load_options)
    old = None
    if old_lm is not None and (class_lm is not None or context.augmentation is not None):
        old = load_ngram(old_lm, words, log, context.load_options)
        if context.augmentation is not None:
            old = with_unknown(old)
    pronouncer: Pronouncer | None = None
    if context.augmentation is not None:
        letters_only, lexicon = context.augmentation.letters_only, context.augmentation.lexicon
        pronouncer = LetterPronouncer() if letters_only else Pronouncer.english(lexicon)
    return ContextModels(class_lm, old, pronouncer)


def load_entities(context: Context, words: SymbolTable, normalizer: Normalizer) -> Entities:
    """Read the entities that a context specifies, for the words of a symbol table."""
    if isinstance(context.entities, Entities):
        return context.entities
    groups = None if context.groups is None else read_speakers(context.groups)
    return Entities.read(context.entities, words=words, groups=groups, guard=context.guard, normalizer=normalizer)


def load_ngram(path: Name | NgramLM, words: SymbolTable, log: Log, options: LoadOptions = DEFAULTS) -> NgramLM:
    """Load an n-gram model; a model without a vocabulary uses the lattices' symbol table."""
    if isinstance(path, NgramLM):
        return path
    lm = load_model(path, words, log, options)
    if not isinstance(lm, NgramLM):
        raise ModelError("context requires an n-gram model; specify an ARPA, const-arpa or G.fst file", os.fspath(path))
    return lm


def load_pointer(path: Name | ContextPointer) -> ContextPointer:
    """Load a context model with a pointer; ``"default"`` is the shipped model."""
    if not isinstance(path, str | os.PathLike):
        return path
    with needed_for("a context model", path):
        from ninja.context.deep.pointer import ContextPointer

    return ContextPointer.load(CONTEXT if path == DEFAULT_MODEL else path)
