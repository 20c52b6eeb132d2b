"""Public names of the package, read by `lazy_loader`, type checkers and editors."""

from .entities import Entities as Entities, Phrase as Phrase, PhraseList as PhraseList
from .grammar.tracker import Match as Match, Tracker as Tracker, add_context as add_context
from .correction.options import CorrectOptions as CorrectOptions
from .correction.stage import Correcting as Correcting, Correction as Correction, correct as correct
from .options import ContextOptions as ContextOptions
from .augmentation.augment import (
    Added as Added,
    Augmenter as Augmenter,
    with_phrase_words as with_phrase_words,
)
from .augmentation.options import AugmentOptions as AugmentOptions
from .settings import Augmentation as Augmentation, Context as Context
from .stage import Contextual as Contextual
