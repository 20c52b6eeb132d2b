"""Options of context, with defaults for English read and spoken commands alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from ninja.errors import OptionError, check_range
from ninja.lm.word_map import WordMapping

# Beyond it, float32 sums of a sentence's scores are too coarse.
LARGEST_BOOST = 1000.0


@dataclass(frozen=True, slots=True)
class ContextOptions:
    """Boosts of phrases, and their limits.

        outside phrases    class_weight · class language model + (1 − class_weight) · first pass
        entering a class   P(class | history), times exp(class_boost + keyword_boost)
        in it              exp(keyword_boost) for each word more; no language model is asked

    Phrases of no class, or of one that the class model does not have, or without such a model, are boosted where they
    stand: their words cost what they cost, times exp(keyword_boost) each.

    With the defaults a name of one word is entered at a loss, and one of several words at a gain, as long phrases are
    seldom false alarms.

    The boost of a phrase begun is taken back where the phrase is not finished. A phrase's own weight is a factor of its
    keyword boost.
    """

    class_boost: float = -14.0  # added to the log-probability of entering a class, nats
    keyword_boost: float = 8.0  # added to the log-probability of each word of a phrase, nats; both within ±1000
    max_tokens: int = 10  # grammar states kept for one word history; 0: all, which is exact
    class_weight: float = 0.5  # share of the class language model outside phrases
    unk_penalty: float | None = None  # cost beyond <unk>'s of a word a model lacks; None: the model's own
    max_unknown: float = 0.5  # refuse when a larger share of arcs carries words the first pass's model lacks
    map_words: tuple[
        WordMapping, ...
    ] = ()  # other forms of words a model lacks: in other case, as other forms of <unk>
    max_arcs: int = 10_000_000  # of one lattice with its context; more is refused

    def __post_init__(self) -> None:
        for name in ("class_boost", "keyword_boost"):
            check_range(name, getattr(self, name), least=-LARGEST_BOOST, most=LARGEST_BOOST)
        if self.unk_penalty is not None:
            check_range("unk_penalty", self.unk_penalty, finite=True)
        for name in ("class_weight", "max_unknown"):
            check_range(name, getattr(self, name), least=0, most=1)
        check_range("max_tokens", self.max_tokens, least=0)
        check_range("max_arcs", self.max_arcs, least=1)
        for how in self.map_words:
            if how not in get_args(WordMapping):
                raise OptionError(f"map_words has {how!r}, but takes {', '.join(get_args(WordMapping))}")
