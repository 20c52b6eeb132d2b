"""`Context`, the files and options of contextual biasing."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ninja.context.augmentation.options import AugmentOptions
from ninja.context.entities.lists import Entities
from ninja.context.options import ContextOptions
from ninja.errors import OptionError
from ninja.files.stream import Guard
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
    """Files and options for adding phrases that sound like words in lattices."""

    options: AugmentOptions = field(default_factory=AugmentOptions)
    lexicon: Name | None = None  # pronunciations that take precedence over the CMU dictionary
    confusion: Name | None = None  # phone confusion costs  [default: articulatory costs]
    transition_model: Name | None = None  # Kaldi's final.mdl, which maps alignments to phones
    phones: Name | None = None  # the phones.txt of the transition model
    letters_only: bool = False  # compare letters instead of phones; requires no lexicon
    context_model: Name | None = None  # searches long lists; "none" compares all phrases  [default: the shipped model]

    def __post_init__(self) -> None:
        if (self.transition_model is None) != (self.phones is None):
            raise OptionError("a transition model and its phones.txt belong together; specify both or neither")
        if self.letters_only and (self.lexicon is not None or self.transition_model is not None):
            raise OptionError("letters_only cannot be used with a lexicon or a transition model; omit them")


@dataclass(frozen=True, slots=True)
class Context:
    """Phrases of utterances, the models that use them, and options."""

    entities: Name | Entities
    class_lm: Name | NgramLM | None = None
    groups: Name | None = None  # group of each utterance, in the format of Kaldi's utt2spk
    options: ContextOptions = field(default_factory=ContextOptions)
    augmentation: Augmentation | None = None
    load_options: LoadOptions = DEFAULTS  # for the n-gram models
    context_model: Name | ContextPointer | None = None  # reads the phrases during rescoring; replaces keyword boosts
    normalizer: Name | Normalizer = AUTO  # compares phrases; before rescoring, `RescoreOptions.normalizer` is used
    guard: Guard | None = None  # registers the phrase files, so that no output overwrites them
