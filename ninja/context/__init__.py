"""Context: names, places and titles that matter to an utterance, given as lists at request time.

``entities`` has the lists of each utterance, ``grammar`` the boosts of their phrases, ``sound`` arcs for phrases that
sound like what was recognised. Names are imported when they are first used.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ninja.context.entities import Entities as Entities
    from ninja.context.entities import Phrase as Phrase
    from ninja.context.entities import PhraseList as PhraseList
    from ninja.context.grammar.decode import BeamOptions as BeamOptions
    from ninja.context.grammar.decode import Hypothesis as Hypothesis
    from ninja.context.grammar.decode import beam_search as beam_search
    from ninja.context.grammar.decode import ctc_prefix_beam_search as ctc_prefix_beam_search
    from ninja.context.grammar.spelled import SpelledTracker as SpelledTracker
    from ninja.context.grammar.spelled import Spelling as Spelling
    from ninja.context.grammar.tracker import Match as Match
    from ninja.context.grammar.tracker import Tracker as Tracker
    from ninja.context.grammar.tracker import add_context as add_context
    from ninja.context.options import ContextOptions as ContextOptions
    from ninja.context.sound.augment import Added as Added
    from ninja.context.sound.augment import Augmenter as Augmenter
    from ninja.context.sound.augment import AugmentOptions as AugmentOptions
    from ninja.context.sound.augment import extended as extended
    from ninja.context.stage import Augmentation as Augmentation
    from ninja.context.stage import Context as Context
    from ninja.context.stage import Contextual as Contextual

_MODULES = {
    "entities": ("Entities", "Phrase", "PhraseList"),
    "grammar.decode": ("BeamOptions", "Hypothesis", "beam_search", "ctc_prefix_beam_search"),
    "grammar.spelled": ("SpelledTracker", "Spelling"),
    "grammar.tracker": ("Match", "Tracker", "add_context"),
    "options": ("ContextOptions",),
    "sound.augment": ("Added", "AugmentOptions", "Augmenter", "extended"),
    "stage": ("Augmentation", "Context", "Contextual"),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    """Import a name's module on first use."""
    from importlib import import_module

    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"ninja.context.{_HOME[name]}"), name)
    return value
