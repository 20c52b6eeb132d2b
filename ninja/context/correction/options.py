"""Options for correcting transcripts."""

from __future__ import annotations

from dataclasses import dataclass

from ninja.errors import check_range, described, documented


@documented
@dataclass(frozen=True, slots=True)
class CorrectOptions:
    """Threshold for corrections, and whether phones or letters are compared."""

    threshold: float | None = described(
        None,
        "Minimum probability that a correction is right.  [default: the threshold of the shipped model]",
    )
    letters_only: bool = described(False, "Compare letters instead of phones.")

    def __post_init__(self) -> None:
        if self.threshold is not None:
            check_range("threshold", self.threshold, least=0, most=1)
