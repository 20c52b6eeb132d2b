"""Entities: phrases by class, for all, by group or by utterance."""

from ninja.context.entities.lists import Entities, Phrase, PhraseList

__all__ = ["Entities", "Phrase", "PhraseList"]
