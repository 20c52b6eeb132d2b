"""Search transcripts for the phrases in an entity file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ninja.context.grammar.tags import tagged
from ninja.context.settings import Context
from ninja.context.stage import Contextual
from ninja.errors import Log
from ninja.io.inputs import Inputs


class PhraseTags:
    """Tagger that marks the phrases from an entity file in the transcripts of lattices.

    Args:
        inputs: Inputs that contain the lattices; all lattices share one symbol table.
        entities: Path of the entity file.
    """

    def __init__(self, inputs: Inputs, entities: str) -> None:
        self._words = inputs.need_table()
        self._log = Log()  # notes are not printed, because phrases may contain words that are not in the transcripts
        self._stage = Contextual(Context(entities, guard=inputs.guard))

    def tagged(self, key: str, words: Sequence[str]) -> tuple[str, list[dict[str, Any]]]:
        """Return ``(tagged transcript, phrases as JSON objects)`` for an utterance."""
        self._stage.bind(self._words, self._log, len(self._words) - 1 if self._words.grows else 0)
        matches = self._stage.matches(key, words)
        return tagged(words, matches), [match.as_dict() for match in matches]
