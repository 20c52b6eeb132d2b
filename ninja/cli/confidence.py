"""Options for calibrated confidences."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from ninja.cli.command import Command, Lattices, NamedFile
from ninja.cli.options import reads, section

unboosted_option = reads(
    "--unboosted",
    "The same lattices without boosts, used to compute the confidences.",
    kind=Lattices(),
    metavar="LATTICES",
)


@dataclass(frozen=True, slots=True)
class ConfidenceSettings:
    """File names from the options for calibrated confidences; None for each option that is not set."""

    model: str | None  # confidence model
    lm: str | None  # language model
    unboosted: str | None  # lattices

    @property
    def are_set(self) -> bool:
        """Whether any of the options for calibrated confidences is set."""
        return any(name is not None for name in (self.model, self.lm, self.unboosted))


def confidence_options(command: Command) -> Command:
    """Add the options for calibrated confidences; the command receives them as ``confidence``."""

    @section(
        "Confidences",
        reads("--confidence", "Calibrate confidences with a model fitted by `ninja tune --confidence`."),
        reads(
            "--confidence-lm",
            "Language model for the word surprisals of the confidence model.  [default: the shipped model that the "
            "confidence model specifies]",
            kind=NamedFile(),
        ),
        unboosted_option,
    )
    @functools.wraps(command)
    def collected(confidence: str | None, confidence_lm: str | None, unboosted: str | None, **options: Any) -> None:
        command(confidence=ConfidenceSettings(confidence, confidence_lm, unboosted), **options)

    return collected
