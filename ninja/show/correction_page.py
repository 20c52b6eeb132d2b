"""HTML page for reviewing corrections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ninja.show.page import render


def correction_page(changes: Sequence[Mapping[str, Any]], num_utterances: int) -> str:
    """Return an HTML page on which each correction can be accepted or rejected.

    The page saves the decisions as lists of changes in JSON:
    ``{"accepted": [...], "rejected": [...], "undecided": [...]}``.

    Args:
        changes: Records of the changes; see ``ninja.context.correction.report``.
        num_utterances: Total number of utterances, including utterances without corrections.
    """
    return render(
        "corrections.html",
        ("base.css", "corrections.css"),
        ("corrections.js",),
        {"changes": list(changes)},
        title="Corrections",
        count=len(changes),
        utterances=num_utterances,
        corrected=len({change["utt"] for change in changes}),
    )
