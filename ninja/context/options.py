"""Options of context; the defaults are for English read speech and commands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from ninja.errors import OptionError, check_range, described, documented
from ninja.lm.word_map import WordMapping

# With larger boosts, float32 sums of a sentence's scores are too coarse.
LARGEST_BOOST = 1000.0


@documented
@dataclass(frozen=True, slots=True)
class ContextOptions:
    """Boosts of phrases, and their limits.

        outside phrases    class_weight · class language model + (1 − class_weight) · first pass
        entering a class   P(class | history), times exp(class_boost + keyword_boost)
        inside a class     exp(keyword_boost) for each further word; no language model is used

    Phrases of no class, of a class that the class model lacks, or without such a model, are boosted in place: the
    probability of each of their words is multiplied by exp(keyword_boost).

    With the defaults, a name of one word enters a class at a loss, and one of several words at a gain, because long
    phrases are seldom false alarms.

    The boost of an unfinished phrase is taken back. The weight of a phrase is a factor of its keyword boost.
    """

    class_boost: float = described(-14.0, "Added to the log-probability of entering a class of --class-lm, in nats.")
    keyword_boost: float = described(8.0, "Added to the log-probability of each word of a phrase, in nats.")
    max_tokens: int = described(10, "Grammar states kept for one word history; 0 for all.")
    class_weight: float = described(0.5, "Weight of the class language model, 0 to 1.")
    unk_penalty: float | None = described(
        None,
        "Cost of an unknown word in addition to that of <unk>.  [default: ln of the number of words sharing <unk>]",
    )
    max_unknown: float = described(
        0.5, "Reject files in which more than this fraction of the arcs have words unknown to --old-lm."
    )
    map_words: tuple[WordMapping, ...] = ()  # fallbacks for words that a model lacks: other case, forms of <unk>
    context_weight: float = described(1.0, "Factor of the log-probabilities that --context-model adds.")
    context_prior: float = described(0.0, "Added to the log-odds of a phrase with --context-model.")
    max_arcs: int = described(10_000_000, "Reject lattices that exceed this many arcs once context is added.")

    def __post_init__(self) -> None:
        for name in ("class_boost", "keyword_boost", "context_weight", "context_prior"):
            check_range(name, getattr(self, name), least=-LARGEST_BOOST, most=LARGEST_BOOST)
        if self.unk_penalty is not None:
            check_range("unk_penalty", self.unk_penalty, finite=True)
        for name in ("class_weight", "max_unknown"):
            check_range(name, getattr(self, name), least=0, most=1)
        check_range("max_tokens", self.max_tokens, least=0)
        check_range("max_arcs", self.max_arcs, least=1)
        for mapping in self.map_words:
            if mapping not in get_args(WordMapping):
                raise OptionError(f"map_words has {mapping!r}, but takes {', '.join(get_args(WordMapping))}")
