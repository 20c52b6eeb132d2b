"""Mark the phrases of a sentence with their classes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ninja.context.grammar.tracker import Match

NO_TAG = "@phrase"  # tag of phrases without a class


def tagged(words: Sequence[str], matches: Iterable[Match]) -> str:
    """Return a sentence with the classes of its phrases, as in ``call [@name tom chen]``."""
    marked = list(words)
    for match in matches:
        marked[match.begin] = f"[{match.cls or NO_TAG} {marked[match.begin]}"
        marked[match.end - 1] += "]"
    return " ".join(marked)
