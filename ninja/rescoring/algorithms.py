"""The registry of rescoring algorithms, and `RescoreOptions`, which combines the options of all algorithms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import ClassVar

from ninja.errors import documented
from ninja.rescoring.engine import ARCBEAM, PUSHFORWARD
from ninja.rescoring.options import DEFAULT_ALGORITHM, DEFAULT_LIST_ALGORITHM, Algorithm, EngineOptions, option
from ninja.rescoring.pruned import PRUNED, PrunedOptions
from ninja.rescoring.sentences import COVER, NBEST, TRIE, SentenceOptions

ALGORITHMS = {algorithm.name: algorithm for algorithm in (ARCBEAM, PUSHFORWARD, PRUNED, NBEST, COVER, TRIE)}


@documented
@dataclass(frozen=True)
class RescoreOptions(SentenceOptions, PrunedOptions, EngineOptions):
    """Options of ``ninja.rescore``.

    Options that the selected algorithm does not use have no effect.
    """

    section: ClassVar[str] = "Search"
    algorithms: ClassVar[Mapping[str, Algorithm]] = ALGORITHMS

    algorithm: str | None = option(
        None,
        "Search algorithm: "
        f"{', '.join(f'{algorithm.name} ({algorithm.about})' for algorithm in ALGORITHMS.values())}.  "
        f"[default: {DEFAULT_ALGORITHM}; {DEFAULT_LIST_ALGORITHM} if the first lattice is an n-best list]",
        choices=tuple(ALGORITHMS),
    )


HELP: dict[str, str] = {setting.name: setting.metadata["help"] for setting in fields(RescoreOptions)}
