"""What a user may choose about context, with defaults that hold for English read and spoken commands alike."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ninja.errors import OptionError


@dataclass(frozen=True, slots=True)
class ContextOptions:
    """How phrases of the context are made more probable.

        outside phrases    class_weight · class language model + (1 − class_weight) · first pass
        entering a class   P(class | history), times exp(class_boost + keyword_boost)
        in it              exp(keyword_boost) for each word more; no language model is asked

    Phrases of no class, or of one that the class model does not have, or without such a model, are boosted where they
    stand: their words cost what they cost, times exp(keyword_boost) each.

    With the defaults a name of one word is entered at a loss, and one of several words at a gain: long phrases hardly
    ever stand where none was said.

    What was given for a phrase begun is taken back where the phrase is not finished. A phrase's own weight is a factor
    of its keyword boost.
    """

    class_boost: float = -14.0  # added to the log-probability of entering a class, nats
    keyword_boost: float = 8.0  # added to the log-probability of each word of a phrase, nats
    max_tokens: int = 10  # grammar states kept for one word history; 0: all, which is exact
    class_weight: float = 0.5  # share of the class language model
    unk_penalty: float | None = None  # cost beyond <unk>'s of a word a model lacks; None: its own choice
    max_arcs: int = 10_000_000  # of one lattice with its context; more is refused

    def __post_init__(self) -> None:
        """Refuse what makes no sense.

        Raises:
            OptionError: Names the option, its value and the range.
        """
        for name in ("class_boost", "keyword_boost", "unk_penalty"):
            value = getattr(self, name)
            if value is not None and not math.isfinite(value):
                raise OptionError(f"{name} is {value}, but must be finite")
        if not 0.0 <= self.class_weight <= 1.0:
            raise OptionError(f"class_weight is {self.class_weight}, but must be between 0 and 1")
        if self.max_tokens < 0:
            raise OptionError(f"max_tokens is {self.max_tokens}, but must be 0 or more")
        if self.max_arcs < 1:
            raise OptionError(f"max_arcs is {self.max_arcs}, but must be 1 or more")
