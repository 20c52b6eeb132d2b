"""Options of the CTC search."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ninja.errors import check_range, described, documented

WITH_TRACKER = ("context_scale", "length_reward")  # options of a search with a tracker


@documented
@dataclass(frozen=True, slots=True)
class CtcOptions:
    """Widths of the search, and weights of the scores with a tracker; see `Hypothesis` for their sum."""

    beam: int = described(100, "Prefixes kept at each frame; 0 for all.")
    score_beam: float = described(20.0, "Drop prefixes that are worse than the best by more than this, in nats.")
    max_units: int = described(0, "Units that may follow a prefix at each frame, the most probable; 0 for all.")
    min_logprob: float = described(-math.inf, "Drop less probable units, except a frame's best, in nats.")
    context_scale: float = 1.0  # factor of the tracker's scores
    length_reward: float = 0.0  # added for each unit, nats; with a tracker only

    def __post_init__(self) -> None:
        for name in ("beam", "max_units"):
            check_range(name, getattr(self, name), least=0)
        check_range("score_beam", self.score_beam, above=0)
        check_range("min_logprob", self.min_logprob, most=0)
        check_range("context_scale", self.context_scale, least=0, finite=True)
        check_range("length_reward", self.length_reward, finite=True)
