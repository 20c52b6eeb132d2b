"""Stages of a pipeline: batch stages, which threads share, and stream stages, which hold several lattices in flight."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
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
    """A stateless stage, called with batches on several threads at once."""

    def apply(self, batch: Batch, log: Log) -> Batch | Sequence[tuple[str, Output | NinjaError]]:
        """Process a batch.

        Args:
            batch: Lattices without faults.
            log: For notes and counts; failures are returned.

        Returns:
            A batch, with failed lattices among its faults, if the results are lattices; else the key and the result,
            or the error, of each lattice.
        """
        ...


class StreamStage(Protocol[Output]):
    """A stage that may hold several lattices in flight; its results are in input order."""

    def __call__(self, lattices: Pairs, log: Any) -> Iterator[tuple[str, Output]]:
        """Yield ``(key, result)`` for each lattice; failures and notes go to the log, a `Log` of the stage's type."""
        ...


@runtime_checkable
class WordCheckingStage(Protocol):
    """A stage with models, which may lack words of the lattices."""

    def vocabulary_check(self, log: RescoreReport) -> VocabularyCheck:
        """Return the check of the lattices' words."""
        ...


@runtime_checkable
class ThreadedStage(StreamStage[Output], Protocol[Output]):
    """A stream stage that runs its own threads."""

    def on_threads(self, lattices: Pairs, log: Any, num_threads: int) -> Iterator[tuple[str, Output]]:
        """Yield the same results as `__call__`."""
        ...


@dataclass(frozen=True, slots=True)
class OnBatches:
    """The batch stage of a function of a batch.

    Args:
        function: Returns a batch, or a result for each lattice. If it raises an error, it is called for each lattice
            alone, so that one lattice does not cost the others.
        is_expanding: The function returns any number of lattices for one.
    """

    function: Callable[[Batch], Any]
    is_expanding: bool = False

    def apply(self, batch: Batch, log: Log) -> Batch | Sequence[tuple[str, Any]]:
        """Call the function."""
        try:
            results = self.function(batch)
        except (NinjaError, MemoryError):
            return _joined([(lattice.key, call_safely(self._alone, lattice)) for lattice in batch])
        return results if isinstance(results, Batch) else list(zip(batch.keys, results, strict=True))

    def _alone(self, lattice: Lattice) -> Any:
        results = self.function(Batch.of([lattice]))
        return results if isinstance(results, Batch) else results[0]


@dataclass(frozen=True, slots=True)
class OnLattices(Generic[Result]):
    """The batch stage of a function of one lattice.

    Args:
        function: Returns a lattice or any other result; raises a NinjaError for a lattice that fails.
    """

    function: Callable[[Lattice], Result]

    def apply(self, batch: Batch, log: Log) -> Batch | Sequence[tuple[str, Result | NinjaError]]:
        """Call the function for each lattice of a batch."""
        return _joined([(lattice.key, call_safely(self.function, lattice)) for lattice in batch])


def check_stage(stage: object) -> None:
    """Refuse a plain function, which may take a lattice or a batch.

    Raises:
        OptionError: It is neither a batch stage nor a callable of lattices and log.
    """
    if isinstance(stage, BatchStage):
        return
    try:
        is_stage = "log" in signature(stage).parameters  # type: ignore[arg-type]
    except (TypeError, ValueError):
        is_stage = False
    if not is_stage:
        name = getattr(stage, "__name__", type(stage).__name__)
        raise OptionError(f"stage is {name}; give OnBatches(function) or OnLattices(function), or a stage")


def _joined(results: Sequence[tuple[str, Any]]) -> Batch | Sequence[tuple[str, Any]]:
    """Return one batch of results that are lattices, batches or errors; other results as they are.

    A lattice keeps its key; one without gets that of its input.
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
    """Return a function's result for a lattice, or the error that concerns this lattice alone.

    Raises:
        OptionError: The error applies to the whole run.
    """
    try:
        return function(lattice)
    except OptionError as error:
        error.key = None
        raise
    except MemoryError:
        return LatticeError("out of memory; prune it first", key=lattice.key)
    except NinjaError as error:
        error.key = error.key or lattice.key
        return error
