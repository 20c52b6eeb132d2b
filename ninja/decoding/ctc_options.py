"""Options for the CTC search."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ninja.errors import check_count, check_range, described, documented

WITH_TRACKER = ("context_scale", "length_reward")  # options that apply only to a search with a tracker


@documented
@dataclass(frozen=True, slots=True)
class CtcOptions:
    """Beams of the search, and weights of the boosts that a `Tracker` adds; see `Hypothesis` for the total score."""

    beam: int = described(100, "Maximum number of prefixes per frame; 0 means no limit.")
    score_beam: float = described(20.0, "Drop prefixes whose score is more than this many nats below the best score.")
    max_units: int = described(
        0, "Extend prefixes only with this many of the most probable units of each frame; 0 means no limit."
    )
    min_logprob: float = described(
        -math.inf, "Drop units whose log-probability is below this value, in nats, except the best unit of each frame."
    )
    context_scale: float = 1.0  # factor applied to the scores of the tracker
    length_reward: float = 0.0  # reward for each unit, nats; only with a tracker

    def __post_init__(self) -> None:
        for name in ("beam", "max_units"):
            check_count(name, getattr(self, name), least=0)
        check_range("score_beam", self.score_beam, above=0)
        check_range("min_logprob", self.min_logprob, most=0)
        check_range("context_scale", self.context_scale, least=0, finite=True)
        check_range("length_reward", self.length_reward, finite=True)
