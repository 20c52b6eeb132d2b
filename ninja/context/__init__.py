"""Context: names, places and titles that matter to an utterance, given as lists at request time.

Entities say which phrases matter to whom; a tracker follows word histories through them, and `add_context` a lattice.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ninja.context.apply import add_context
    from ninja.context.augment import Added, Augmenter, AugmentOptions, extended
    from ninja.context.ctc import ctc_prefix_beam_search
    from ninja.context.decode import BeamOptions, Hypothesis, beam_search
    from ninja.context.entities import Entities, Phrase, PhraseList, read_groups
    from ninja.context.evaluate import EntityReport, read_truth, score_entities
    from ninja.context.options import ContextOptions
    from ninja.context.spelled import SpelledTracker
    from ninja.context.spelling import Spelling
    from ninja.context.stage import Augmentation, Context, Contextual, ContextualRescoring
    from ninja.context.tracker import Match, Tracker
    from ninja.context.tune import DevSet, tune_context

_HOME = {
    "Added": "augment",
    "AugmentOptions": "augment",
    "Augmentation": "stage",
    "Augmenter": "augment",
    "BeamOptions": "decode",
    "Context": "stage",
    "ContextOptions": "options",
    "Contextual": "stage",
    "ContextualRescoring": "stage",
    "DevSet": "tune",
    "Entities": "entities",
    "EntityReport": "evaluate",
    "Hypothesis": "decode",
    "Match": "tracker",
    "Phrase": "entities",
    "PhraseList": "entities",
    "SpelledTracker": "spelled",
    "Spelling": "spelling",
    "Tracker": "tracker",
    "add_context": "apply",
    "beam_search": "decode",
    "ctc_prefix_beam_search": "ctc",
    "extended": "augment",
    "read_groups": "entities",
    "read_truth": "evaluate",
    "score_entities": "evaluate",
    "tune_context": "tune",
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
    "DevSet",
    "Entities",
    "EntityReport",
    "Hypothesis",
    "Match",
    "Phrase",
    "PhraseList",
    "SpelledTracker",
    "Spelling",
    "Tracker",
    "add_context",
    "beam_search",
    "ctc_prefix_beam_search",
    "extended",
    "read_groups",
    "read_truth",
    "score_entities",
    "tune_context",
]


def __getattr__(name: str) -> Any:
    """Import a name's module when it is asked for."""
    import importlib

    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"ninja.context.{_HOME[name]}"), name)
    return value
