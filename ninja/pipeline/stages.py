"""Protocols for batch stages and stream stages, and a stage that applies a function to each lattice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, runtime_checkable

from ninja.errors import LatticeError, Log, NinjaError, OptionError
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
    """A stateless stage that processes batches, possibly on several threads concurrently."""

    def apply(self, batch: Batch, log: Log) -> Batch | Sequence[tuple[str, Output | NinjaError]]:
        """Process a batch.

        Args:
            batch: Lattices; its ``faults`` are empty.
            log: Log for notes and counts; failures are returned instead.

        Returns:
            If the results are lattices, a batch whose ``faults`` contain the failures; otherwise ``(key, result)`` or
            ``(key, error)`` pairs, one per lattice.
        """
        ...


class StreamStage(Protocol[Output]):
    """A stage that iterates over lattices and can process several concurrently.

    Results are in input order, and a failure is added to the log between the preceding and the following result.
    """

    def __call__(self, lattices: Pairs, log: Any) -> Iterator[tuple[str, Output]]:
        """Yield ``(key, result)`` for each lattice.

        Args:
            lattices: ``(key, lattice)`` pairs.
            log: Log for failures and notes; a stage can require a subclass of `Log`.
        """
        ...


@runtime_checkable
class WordCheckingStage(Protocol):
    """A stage with language models that can check how well their vocabularies cover the words in the lattices."""

    def vocabulary_check(self, log: RescoreReport) -> VocabularyCheck:
        """Return a check of how well the vocabularies cover the words in lattices."""
        ...


@runtime_checkable
class ThreadedStage(StreamStage[Output], Protocol[Output]):
    """A stream stage that can run on several threads."""

    def on_threads(self, lattices: Pairs, log: Any, num_threads: int) -> Iterator[tuple[str, Output]]:
        """Yield the same results as `__call__`, computed on several threads."""
        ...


class OnLattices(Generic[Result]):
    """Batch stage that applies a function to single lattices.

    Args:
        function: Function that accepts a lattice and returns a lattice or any other result. It raises a `NinjaError` if
            it cannot process the lattice.
    """

    __slots__ = ("function",)

    def __init__(self, function: Callable[[Lattice], Result]) -> None:
        self.function = function

    def apply(self, batch: Batch, log: Log) -> Batch | Sequence[tuple[str, Result | NinjaError]]:
        """Call the function for each lattice in a batch."""
        return as_batch_of([(lattice.key, call_safely(self.function, lattice)) for lattice in batch])


def as_batch_of(results: Sequence[tuple[str, Any]]) -> Batch | Sequence[tuple[str, Any]]:
    """Return a batch if all results are lattices, batches or errors; otherwise return the results unchanged.

    Args:
        results: ``(key, result)`` pairs. A lattice without a key gets the key from its pair.
    """
    entries: list[tuple[str, Lattice | NinjaError]] = []
    for key, result in results:
        if isinstance(result, Batch):
            entries += result.entries()
        elif isinstance(result, NinjaError):
            entries.append((key, result))
        elif isinstance(result, Lattice):
            entries.append((result.key or key, result))
        else:
            return results
    return Batch.of_entries(entries)


def call_safely(function: Callable[[Lattice], Result], lattice: Lattice) -> Result | NinjaError:
    """Call a function with a lattice; return its result, or the error that it raises.

    Raises:
        OptionError: The function raised this error, which applies to the whole run.
    """
    try:
        return function(lattice)
    except OptionError as error:
        error.key = None
        raise
    except MemoryError:
        return LatticeError("out of memory; prune the lattice first", key=lattice.key)
    except NinjaError as error:
        error.key = error.key or lattice.key
        return error
