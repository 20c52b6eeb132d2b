"""Report the best paths that rescoring changes, with their words and scores."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from difflib import SequenceMatcher
from typing import Any

from ninja.errors import LatticeError
from ninja.graph.best_path import best_path
from ninja.graph.build import linear
from ninja.graph.compose import compose
from ninja.lattice import Lattice, Scales
from ninja.lattice.batch import Keyed
from ninja.lattice.symbols import EPSILON
from ninja.lattice.times import is_timed, state_times
from ninja.rescoring.models import VocabularyCheck
from ninja.rescoring.rescorer import Rescorer
from ninja.rescoring.utterances import RescoreReport

ASSUMED_SHIFT = 0.01  # seconds per frame of lattices without a frame shift; readers and writers assume the same

Record = dict[str, Any]  # JSON


class ReportingRescorer:
    """Pipeline stage that rescores lattices and reports each lattice in which the best word sequence changes.

    Args:
        rescorer: Stage that rescores the lattices.
        scales: Scales of the costs, both before and after rescoring.
        take: Function that is called with the record of each changed lattice, in input order; see `changes`.
    """

    def __init__(self, rescorer: Rescorer, scales: Scales, take: Callable[[Record], None]) -> None:
        self._rescorer = rescorer
        self._scales = scales
        self._take = take

    def __call__(self, lattices: Iterable[Keyed], log: RescoreReport) -> Iterator[Keyed]:
        """Yield the rescored lattices; see `Rescorer`."""
        return self._reported(lattices, lambda source: self._rescorer(source, log))

    def on_threads(self, lattices: Iterable[Keyed], log: RescoreReport, num_threads: int) -> Iterator[Keyed]:
        """Yield the rescored lattices, computed on several threads; see `Rescorer.on_threads`."""
        return self._reported(lattices, lambda source: self._rescorer.on_threads(source, log, num_threads))

    def vocabulary_check(self, log: RescoreReport) -> VocabularyCheck:
        """Return a check of how well the models cover the words in the lattices; see `Rescorer.vocabulary_check`."""
        return self._rescorer.vocabulary_check(log)

    def _reported(
        self, lattices: Iterable[Keyed], rescore: Callable[[Iterable[Keyed]], Iterator[Keyed]]
    ) -> Iterator[Keyed]:
        waiting: deque[Keyed] = deque()  # lattices that are being rescored, in input order

        def source() -> Iterator[Keyed]:
            for key, lattice in lattices:
                waiting.append((key, lattice))
                yield key, lattice

        for key, result in rescore(source()):
            first, before = waiting.popleft()
            while first != key:  # a lattice without a result has failed
                first, before = waiting.popleft()
            if (record := changes(before, result, self._scales)) is not None:
                self._take(record)
            yield key, result


def changes(before: Lattice, after: Lattice, scales: Scales) -> Record | None:
    """Return the changes to the best path of a lattice, or None if its words do not change.

    Args:
        before: Lattice with first-pass costs.
        after: The rescored lattice.
        scales: Scales of the costs.

    Returns:
        A record with the key (``utt``), the list of ``changes``, and the best paths ``before`` and ``after`` rescoring.
        Each change contains the replaced words (``from``) and the new words (``to``); if the lattices have times, it
        also contains ``begin`` and ``end`` in seconds. Each path contains its ``text`` and its costs in both lattices
        (``first_pass`` and ``rescored``): the unscaled ``graph`` and ``acoustic`` costs, and the ``total``, which is
        their scaled sum with word penalties. The costs are None if the lattice does not contain the path.
    """
    old, new = best_path(before, scales), best_path(after, scales)
    words = [_spelled(lattice, path.words) for lattice, path in ((before, old), (after, new))]
    if words[0] == words[1]:
        return None
    times = [_times(lattice, path.arcs) for lattice, path in ((before, old), (after, new))]
    spans = []
    for kind, first, last, begin, end in SequenceMatcher(a=words[0], b=words[1], autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        span: Record = {"from": " ".join(words[0][first:last]), "to": " ".join(words[1][begin:end])}
        bounds = [bound for bound in (_span(times[0], first, last), _span(times[1], begin, end)) if bound is not None]
        if bounds:
            span |= {"begin": min(low for low, _ in bounds), "end": max(high for _, high in bounds)}
        spans.append(span)
    return {
        "utt": after.key,
        "changes": spans,
        "before": _cited(words[0], before, after, scales),
        "after": _cited(words[1], before, after, scales),
    }


def _spelled(lattice: Lattice, ids: Any) -> list[str]:
    return [str(number) for number in ids] if lattice.words is None else lattice.words.spell(ids.tolist())


def _cited(words: list[str], before: Lattice, after: Lattice, scales: Scales) -> Record:
    """Return a record with the text of a word sequence and its costs in both lattices."""
    return {
        "text": " ".join(words),
        "first_pass": _costs(before, words, scales),
        "rescored": _costs(after, words, scales),
    }


def _costs(lattice: Lattice, words: list[str], scales: Scales) -> Record | None:
    """Return the costs of the best path with these words, or None if no path has these words."""
    ids = [int(word) for word in words] if lattice.words is None else lattice.words.ids(words)
    if -1 in ids:
        return None
    try:
        path = best_path(compose(lattice, linear(lattice.key, ids, symbols=lattice.words)), scales)
    except LatticeError:  # no path has these words
        return None
    costs = {"graph": path.graph_cost, "acoustic": path.acoustic_cost, "total": path.cost(scales)}
    return {name: round(cost, 4) for name, cost in costs.items()}


def _times(lattice: Lattice, arcs: Any) -> list[tuple[float, float]] | None:
    """Return ``(start, end)`` in seconds for each word on a path; None if the lattice has no times."""
    if not is_timed(lattice):
        return None
    time, shift = state_times(lattice), lattice.frame_shift or ASSUMED_SHIFT
    spoken = arcs[lattice.word[arcs] != EPSILON]
    pairs = zip(time[lattice.src[spoken]].tolist(), time[lattice.dst[spoken]].tolist(), strict=True)
    return [(round(begin * shift, 3), round(end * shift, 3)) for begin, end in pairs]


def _span(times: list[tuple[float, float]] | None, first: int, last: int) -> tuple[float, float] | None:
    return None if times is None or first == last else (times[first][0], times[last - 1][1])
