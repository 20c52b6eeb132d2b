"""Context options; the defaults are for English read speech and commands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from ninja.errors import OptionError, check_count, check_range, described, documented
from ninja.lm.word_map import WordMapping

# Larger boosts exceed the precision of float32 sums of a sentence's scores.
LARGEST_BOOST = 1000.0


@documented
@dataclass(frozen=True, slots=True)
class ContextOptions:
    """Phrase boosts and limits.

        outside phrases    class_weight · class language model + (1 − class_weight) · first-pass model
        entering a class   P(class | history) · exp(class_boost + keyword_boost)
        inside a class     exp(keyword_boost) for each further word; no language model is used

    The words of phrases without a class, or with a class that no class model contains, have their usual probability,
    multiplied by exp(keyword_boost).

    With the defaults, entering a class lowers the score of a one-word phrase and raises the score of a longer
    phrase, because long phrases are seldom false alarms.

    With a context model, `context_boost` replaces `keyword_boost`, because the scores of the model already reward
    phrases.

    The boost of an incomplete phrase is removed. The keyword boost of a phrase is multiplied by the weight of the
    phrase.
    """

    class_boost: float = described(
        -14.0, "Boost added to the log-probability of entering a class of --class-lm, in nats."
    )
    keyword_boost: float = described(8.0, "Boost added to the log-probability of each word of a phrase, in nats.")
    max_tokens: int = described(10, "Maximum number of grammar states per word history; 0 means no limit.")
    class_weight: float = described(0.5, "Weight of the class language model, 0 to 1.")
    unk_penalty: float | None = described(
        None,
        "Cost added to the cost of <unk> for an unknown word.  [default: ln of the number of words that map to <unk>]",
    )
    max_unknown: float = described(
        0.5, "Reject a file if more than this fraction of its arcs have words that are unknown to --old-lm."
    )
    map_words: tuple[WordMapping, ...] = ()  # fallbacks for words that a model lacks, see `WordMap`
    context_weight: float = described(1.0, "Factor applied to the log-probabilities that --context-model adds.")
    context_prior: float = described(0.0, "Bias added to the log-odds of a phrase with --context-model, in nats.")
    context_boost: float = described(
        0.0, "Boost added to the log-probability of each word of a phrase with --context-model, in nats."
    )
    max_arcs: int = described(
        10_000_000, "Maximum number of arcs in a boosted lattice; larger lattices are reported as errors."
    )

    def __post_init__(self) -> None:
        for name in ("class_boost", "keyword_boost", "context_weight", "context_prior", "context_boost"):
            check_range(name, getattr(self, name), least=-LARGEST_BOOST, most=LARGEST_BOOST)
        if self.unk_penalty is not None:
            check_range("unk_penalty", self.unk_penalty, finite=True)
        for name in ("class_weight", "max_unknown"):
            check_range(name, getattr(self, name), least=0, most=1)
        check_count("max_tokens", self.max_tokens, least=0, most=2**31 - 1)
        check_count("max_arcs", self.max_arcs, least=1)
        for mapping in self.map_words:
            if mapping not in get_args(WordMapping):
                raise OptionError(
                    f"map_words contains {mapping!r}, but must contain only {', '.join(get_args(WordMapping))}"
                )
