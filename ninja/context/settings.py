"""The files and options that make up the context of utterances."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ninja.context.augmentation.options import AugmentOptions
from ninja.context.entities.lists import Entities
from ninja.context.options import ContextOptions
from ninja.errors import OptionError
from ninja.files.output import Guard
from ninja.lattice.text import AUTO, Normalizer
from ninja.lm.ngram.model import NgramLM
from ninja.lm.protocol import DEFAULTS, LoadOptions

if TYPE_CHECKING:
    from ninja.context.deep.pointer import ContextPointer

Name = str | os.PathLike[str]
NO_MODEL = "none"
DEFAULT_MODEL = "default"  # the shipped context model


@dataclass(frozen=True, slots=True)
class Augmentation:
    """Files and options of adding phrases to lattices where they sound alike."""

    options: AugmentOptions = field(default_factory=AugmentOptions)
    lexicon: Name | None = None  # pronunciations that take precedence over the CMU dictionary
    confusion: Name | None = None  # costs of confusing phones; without it, costs by articulation
    transition_model: Name | None = None  # a Kaldi final.mdl, to take the phones of lattice words from their alignments
    phones: Name | None = None  # its phones.txt
    letters_only: bool = False  # compare letters instead of phones; needs no lexicon
    context_model: Name | None = None  # searches long lists: a path, "none" to compare all, or None for the shipped one

    def __post_init__(self) -> None:
        if (self.transition_model is None) != (self.phones is None):
            raise OptionError("a transition model and its phones.txt go together; give both, or none")
        if self.letters_only and (self.lexicon is not None or self.transition_model is not None):
            raise OptionError("letters_only compares letters; leave the lexicon and the transition model out")


@dataclass(frozen=True, slots=True)
class Context:
    """Phrases of utterances, the models that read them, and how."""

    entities: Name | Entities
    class_lm: Name | NgramLM | None = None
    groups: Name | None = None  # group of each utterance, as in Kaldi's utt2spk
    options: ContextOptions = field(default_factory=ContextOptions)
    augmentation: Augmentation | None = None
    load_options: LoadOptions = DEFAULTS  # of the n-gram models
    context_model: Name | ContextPointer | None = None  # reads the phrases during rescoring; replaces boosts
    normalizer: Name | Normalizer = AUTO  # by whose lexical forms phrases match; in a rescoring, that of its options
    guard: Guard | None = None  # notes the files that the entities name, which no output may replace

    def __post_init__(self) -> None:
        if self.context_model is not None and self.class_lm is not None:
            raise OptionError("a class model and a context model count the same phrases twice; give one of them")
