"""What every run of ``rescore`` does, whatever the algorithm: lattices in, results out in their order, failures."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from itertools import chain

import numpy as np
import numpy.typing as npt

from ninja.errors import LatticeError, NinjaError
from ninja.graph import connect, num_frames, reverse, select_arcs
from ninja.lattice import Lattice
from ninja.lattice.arrays import frozen
from ninja.rescoring.asking import Asker
from ninja.rescoring.carry_over import Turn, Turns
from ninja.rescoring.models import Models
from ninja.rescoring.options import RescoreOptions
from ninja.rescoring.report import RescoreReport
from ninja.rescoring.vocabulary import Coverage, refuse_unknown

Keyed = tuple[str, Lattice]


class Run(ABC):
    """One call of ``rescore``."""

    def __init__(
        self,
        models: Models,
        options: RescoreOptions,
        turns: Turns,
        on_error: Callable[[NinjaError], None] | None,
        on_note: Callable[[str], None] | None,
        report: RescoreReport,
    ) -> None:
        self.models = models
        self.options = options
        self.turns = turns
        self.on_error = on_error
        self.on_note = on_note
        self.report = report
        self.done: dict[int, Keyed | None] = {}  # finished, waiting for its turn; None: failed
        self.arcs_held: dict[int, int] = {}  # arcs of each lattice taken in and not yet handed out
        self.num_arcs_held = 0  # their sum; counted along, since tiny lattices are in flight by the ten thousand
        self.next_in = 0
        self.next_out = 0

    def results(self, lattices: Iterable[Keyed], on_coverage: Callable[[Coverage], None] | None) -> Iterator[Keyed]:
        """Yield the rescored lattices in input order."""
        start = time.perf_counter()
        source = iter(lattices)
        first = self._peek(source)
        if not first:
            return
        if on_coverage is not None:
            for coverage in self.report.coverages:
                on_coverage(coverage)
        self._refuse_unknown()
        with closing(self._waves(chain(first, source), Asker(self.models.lm))) as waves:
            for _ in waves:
                while self.next_out in self.done:
                    result = self.done.pop(self.next_out)
                    self.num_arcs_held -= self.arcs_held.pop(self.next_out)
                    self.next_out += 1
                    self.report.seconds = time.perf_counter() - start
                    if result is not None:
                        yield result
        self.report.seconds = time.perf_counter() - start

    @abstractmethod
    def _waves(self, source: Iterator[Keyed], ask: Asker) -> Generator[None, None, None]:
        """Rescore, stopping whenever some lattices may be done."""

    def _peek(self, source: Iterator[Keyed]) -> list[Keyed]:
        """Take the first lattices, and see how well the models know their words."""
        first: list[Keyed] = []
        arcs = 0
        for key, lattice in source:
            first.append((key, lattice))
            arcs += lattice.num_arcs
            if arcs >= self.options.batch_arcs:
                break
        if first:
            self.report.coverages = self.models.coverages(lattice for _, lattice in first)
        return first

    def _refuse_unknown(self) -> None:
        for coverage in self.report.coverages:
            refuse_unknown(coverage, self.options.max_unknown)

    def _enter(self, lattice: Lattice) -> Turn | None:
        """Number a lattice and count it in; return its turn, None if it has to wait or failed."""
        number, self.next_in = self.next_in, self.next_in + 1
        self.arcs_held[number] = max(lattice.num_arcs, 1)
        self.num_arcs_held += self.arcs_held[number]
        self.report.arcs += lattice.num_arcs
        try:
            return self.turns.enter(number, lattice)
        except LatticeError as error:
            self._fail(number, error)
            return None

    def _keep(self, turn: Turn, result: Lattice) -> None:
        """Keep the result of a lattice until its turn to be handed out comes."""
        if self.options.backward:
            result = reverse(result)
        self.report.lattices += 1
        self.report.arcs_written += result.num_arcs
        self.report.frames += frames_if_known(result)
        self.done[turn.number] = (result.key, result)

    def _tell(self, ask: Asker) -> None:
        while ask.notes:
            note = ask.notes.pop(0)
            self.report.notes.append(note)
            if self.on_note is not None:
                self.on_note(note)

    def _fail(self, number: int, error: NinjaError) -> None:
        if self.on_error is None:
            raise error
        self.report.failures.append(error)
        self.on_error(error)
        self.done[number] = None


def with_replaced_costs(
    source: Lattice, graph: npt.NDArray[np.float32], final_graph: npt.NDArray[np.float32]
) -> Lattice:
    """Keep the topology; arcs and finals the search never used have no score of the new model and are left out."""
    final_acoustic = np.where(np.isinf(final_graph), np.float32(np.inf), source.final_acoustic)
    used = np.isfinite(graph)
    changed = source.with_costs(np.where(used, graph, np.float32(0)))
    changed = changed.replace(final_graph=frozen(final_graph), final_acoustic=frozen(final_acoustic))
    return connect(changed if used.all() else select_arcs(changed, used))


def frames_if_known(lattice: Lattice) -> int:
    """Return the length in frames, for the report; 0 where alignments contradict each other."""
    try:
        return num_frames(lattice)
    except LatticeError:
        return 0
