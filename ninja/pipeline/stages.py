"""Stages of a pipeline: batch stages, which run on several threads, and stream stages, which iterate over lattices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, runtime_checkable

from ninja.errors import LatticeError, NinjaError, OptionError
from ninja.lattice import Lattice
from ninja.lattice.batch import Batch
from ninja.log import Log

if TYPE_CHECKING:
    from ninja.rescoring.report import RescoreReport, VocabularyCheck

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
        """Yield key and result of each lattice; add failures and notes to the log, whose type the stage determines."""
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


class OnBatches:
    """Batch stage that applies a function to batches.

    Args:
        function: Takes a batch, and returns a batch or a result for each lattice. If it raises an error, it is called
            again for each lattice separately, so that errors affect only the lattices that cause them.
        is_expanding: The function returns any number of lattices for each input lattice.
    """

    __slots__ = ("function", "is_expanding")

    def __init__(self, function: Callable[[Batch], Any], *, is_expanding: bool = False) -> None:
        self.function = function
        self.is_expanding = is_expanding

    def apply(self, batch: Batch, log: Log) -> Batch | Sequence[tuple[str, Any]]:
        """Call the function for a batch."""
        try:
            results = self.function(batch)
        except (NinjaError, MemoryError):
            return _as_batch([(lattice.key, call_safely(self._apply_to_one, lattice)) for lattice in batch])
        return results if isinstance(results, Batch) else list(zip(batch.keys, results, strict=True))

    def _apply_to_one(self, lattice: Lattice) -> Any:
        results = self.function(Batch.of([lattice]))
        return results if isinstance(results, Batch) else results[0]


class OnLattices(Generic[Result]):
    """Batch stage that applies a function to single lattices.

    Args:
        function: Takes a lattice, and returns a lattice or any other result; raises a `NinjaError` if it cannot.
    """

    __slots__ = ("function",)

    def __init__(self, function: Callable[[Lattice], Result]) -> None:
        self.function = function

    def apply(self, batch: Batch, log: Log) -> Batch | Sequence[tuple[str, Result | NinjaError]]:
        """Call the function for each lattice of a batch."""
        return _as_batch([(lattice.key, call_safely(self.function, lattice)) for lattice in batch])


def check_stage(stage: object) -> None:
    """Raise `OptionError` if an object is not a stage, such as a plain function of a lattice or a batch."""
    if isinstance(stage, BatchStage):
        return
    try:
        is_stage = "log" in signature(stage).parameters  # type: ignore[arg-type]
    except (TypeError, ValueError):
        is_stage = False
    if not is_stage:
        name = getattr(stage, "__name__", type(stage).__name__)
        raise OptionError(f"stage is {name}, but must be OnBatches(function), OnLattices(function) or another stage")


def _as_batch(results: Sequence[tuple[str, Any]]) -> Batch | Sequence[tuple[str, Any]]:
    """Return a batch if all results are lattices, batches or errors, else the results unchanged.

    A lattice without a key gets the key of its input.
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
    """Return the result of a function for a lattice, or the error that it raises.

    Raises:
        OptionError: The function raised it; such an error applies to the whole run.
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
