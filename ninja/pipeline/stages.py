"""Protocols of stages: batch stages, which run on several threads, and stream stages, which iterate over lattices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from ninja.errors import Log, NinjaError
from ninja.lattice import Lattice
from ninja.lattice.batch import Batch

if TYPE_CHECKING:
    from ninja.rescoring.models import VocabularyCheck
    from ninja.rescoring.utterances import RescoreReport

Pairs = Iterable[tuple[str, Lattice]]
Result = TypeVar("Result")
Output = TypeVar("Output", covariant=True)


@runtime_checkable
class BatchStage(Protocol[Output]):
    """A stateless stage; batches are processed on several threads at once."""

    def apply(self, batch: Batch, log: Log) -> Batch | Sequence[tuple[str, Output | NinjaError]]:
        """Process a batch.

        Args:
            batch: Lattices; its ``faults`` are empty.
            log: Log for notes and counts; failures are returned instead.

        Returns:
            If the results are lattices, a batch whose ``faults`` contain the failures; otherwise pairs of key and
            result, or key and error, one per lattice.
        """
        ...


class StreamStage(Protocol[Output]):
    """A stage that iterates over lattices and may process several at once; results are in input order."""

    def __call__(self, lattices: Pairs, log: Any) -> Iterator[tuple[str, Output]]:
        """Yield the key and result of each lattice; add failures and notes to the log that the stage needs."""
        ...


@runtime_checkable
class WordCheckingStage(Protocol):
    """A stage with language models, whose vocabularies may not cover the words of the lattices."""

    def vocabulary_check(self, log: RescoreReport) -> VocabularyCheck:
        """Return a check of how well the vocabularies cover the words of lattices."""
        ...


@runtime_checkable
class ThreadedStage(StreamStage[Output], Protocol[Output]):
    """A stream stage that can start threads."""

    def on_threads(self, lattices: Pairs, log: Any, num_threads: int) -> Iterator[tuple[str, Output]]:
        """Yield the same results as `__call__`, computed on several threads."""
        ...
