"""Records of corrections for the JSON Lines report and the review page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ninja.context.correction.stage import CorrectedUtterance


def records(utterances: Iterable[CorrectedUtterance]) -> Iterator[dict[str, Any]]:
    """Yield a dictionary that describes each correction, in the order of the utterances."""
    for utterance in utterances:
        for change in utterance.changes:
            yield {
                "utt": utterance.key,
                "begin": change.begin,
                "end": change.end,
                "before": " ".join(change.before),
                "after": " ".join(change.after),
                "phrase": change.phrase,
                "class": change.cls,
                "kind": change.kind,
                "distance": round(change.distance, 4),
                "probability": round(change.probability, 4),
                "left": " ".join(utterance.words[: change.begin]),
                "right": " ".join(utterance.words[change.end :]),
            }
