"""Options for adding phrases to lattices."""

from __future__ import annotations

from dataclasses import dataclass

from ninja.errors import OptionError, check_range, described, documented

LARGEST_PENALTY = 1e5  # acoustic cost; larger values exceed the precision of float32 costs


@documented
@dataclass(frozen=True, slots=True)
class AugmentOptions:
    """Limits on the phrases added to a lattice, and the costs of these phrases.

    Paths are compared by ``acoustic_scale · acoustic + graph``, relative to the best path of the lattice.
    """

    max_distance: float = described(0.25, "Maximum distance per phone between a phrase and the words that it replaces.")
    penalty: float = described(12.0, "Cost of an added phrase per unit of its distance, in nats.")
    choice_penalty: float = described(
        1.0,
        "Factor applied to ln N in the cost of an added phrase, in nats; N is the number of phrases of the utterance.",
    )
    acoustic_scale: float = 0.1  # factor applied to acoustic costs when paths are compared
    place_weight: float | None = described(
        None,
        "Weight of the cost -ln P(class | preceding words), which replaces the boosts of added phrases; use 2 if "
        "there are thousands of phrases.",
    )
    phone_reward: float = 0.8  # reward for each phone of a phrase if place_weight is set, nats
    beam: float = described(
        10.0,
        "Maximum cost of the best path through the replaced words, in nats above the cost of the best path of the "
        "lattice.",
    )
    max_spans: int = 4  # maximum number of state pairs between which a phrase is added
    max_arcs: int = 1000  # maximum number of words added to a lattice; the most probable phrases are added

    def __post_init__(self) -> None:
        for name in ("penalty", "acoustic_scale"):
            check_range(name, getattr(self, name), above=0, finite=True)
        if self.place_weight is not None:
            check_range("place_weight", self.place_weight, least=0, finite=True)
        for name in ("max_distance", "choice_penalty", "phone_reward", "beam"):
            check_range(name, getattr(self, name), least=0, finite=True)
        for name in ("penalty", "choice_penalty"):
            if getattr(self, name) / self.acoustic_scale > LARGEST_PENALTY:
                most = f"{LARGEST_PENALTY:g} times the acoustic scale"
                raise OptionError(f"{name} is {getattr(self, name)}, but must be at most {most}")
        for name in ("max_spans", "max_arcs"):
            check_range(name, getattr(self, name), least=1)
