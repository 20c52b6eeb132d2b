"""Context: names, places and titles that matter to an utterance, given as lists at request time.

Entities say which phrases matter to whom; a tracker follows word histories through them, and `add_context` a lattice.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ninja.context.entities.lists import Entities, Phrase, PhraseList
    from ninja.context.grammar.apply import add_context
    from ninja.context.grammar.decode import BeamOptions, Hypothesis, beam_search
    from ninja.context.grammar.spelled import SpelledTracker
    from ninja.context.grammar.spelling import Spelling
    from ninja.context.grammar.tracker import Match, Tracker
    from ninja.context.options import ContextOptions
    from ninja.context.sound.augment import Added, Augmenter, AugmentOptions, extended
    from ninja.context.stage import Augmentation, Context, Contextual, ContextualRescoring

_HOME = {
    "Added": "sound.augment",
    "AugmentOptions": "sound.augment",
    "Augmentation": "stage",
    "Augmenter": "sound.augment",
    "BeamOptions": "grammar.decode",
    "Context": "stage",
    "ContextOptions": "options",
    "Contextual": "stage",
    "ContextualRescoring": "stage",
    "Entities": "entities",
    "Hypothesis": "grammar.decode",
    "Match": "grammar.tracker",
    "Phrase": "entities",
    "PhraseList": "entities",
    "SpelledTracker": "grammar.spelled",
    "Spelling": "grammar.spelling",
    "Tracker": "grammar.tracker",
    "add_context": "grammar.apply",
    "beam_search": "grammar.decode",
    "extended": "sound.augment",
}
__all__ = [
    "Added",
    "AugmentOptions",
    "Augmentation",
    "Augmenter",
    "BeamOptions",
    "Context",
    "ContextOptions",
    "Contextual",
    "ContextualRescoring",
    "Entities",
    "Hypothesis",
    "Match",
    "Phrase",
    "PhraseList",
    "SpelledTracker",
    "Spelling",
    "Tracker",
    "add_context",
    "beam_search",
    "extended",
]


def __getattr__(name: str) -> Any:
    """Import a name's module when it is asked for."""
    import importlib

    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"ninja.context.{_HOME[name]}"), name)
    return value
