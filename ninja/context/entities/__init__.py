"""Entities: phrases by class, for all utterances, for groups and for individual utterances."""

from ninja.context.entities.lists import Entities, Phrase, PhraseList

__all__ = ["Entities", "Phrase", "PhraseList"]
