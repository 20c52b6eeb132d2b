"""`Session`, which rescores the growing lattice of an utterance and returns the words that are unlikely to change."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ninja.errors import ClosedError, VocabularyError, check_range, described, documented
from ninja.graph import best_path
from ninja.graph.posteriors import path_posteriors
from ninja.lattice import Lattice, Scales
from ninja.lattice.symbols import EPSILON
from ninja.rescoring.utterances import Submission

MAX_LENGTHS = 256  # maximum number of prefix lengths per state; the most probable lengths are kept
HISTORIES = 50_000  # maximum number of histories per language model that are cached for all sessions


@documented
@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Conditions for treating words as stable; with larger values, words become stable later and change less often."""

    agreement: int = described(
        5, "A word can become stable once it and all words before it are the same in this many consecutive updates."
    )
    min_posterior: float = described(
        0.99, "A word can become stable if the words up to it have at least this posterior probability."
    )

    def __post_init__(self) -> None:
        check_range("agreement", self.agreement, least=1, most=1000)  # limited, because this many updates are stored
        check_range("min_posterior", self.min_posterior, least=0, most=1)


@dataclass(frozen=True, slots=True)
class Partial:
    """Result of an update: the best words in the current lattice."""

    words: tuple[str, ...]  # words on the best path
    num_stable: int  # words[:num_stable] are stable; the other words may change
    num_changed: int  # number of stable words of the previous update that have changed or disappeared
    lattice: Lattice  # the rescored lattice

    @property
    def stable(self) -> tuple[str, ...]:
        """Stable words at the beginning of the utterance."""
        return self.words[: self.num_stable]

    @property
    def tail(self) -> tuple[str, ...]:
        """Words that follow the stable words and can still change."""
        return self.words[self.num_stable :]


class Session:
    """Session for an utterance that is still being spoken; created by `Rescorer.session`.

    Each update contains the whole lattice up to that time. It is rescored like any other lattice, except that the
    language model scores only histories and words that no earlier lattice contained. The lattice that the last update
    returns is identical to the result of `Rescorer.submit`. A session is not thread-safe, but different threads can use
    different sessions.

    Args:
        submit: Function that submits a lattice for rescoring.
        scales: Scales of the total cost.
        options: Conditions for treating words as stable.
    """

    def __init__(self, submit: Callable[[Lattice], Submission], scales: Scales, options: StreamOptions) -> None:
        self._submit = submit
        self._scales = scales
        self._options = options
        self._earlier: list[tuple[str, ...]] = []  # words of the last `agreement` updates
        self._stable: tuple[str, ...] = ()
        self._is_final = False

    def update(self, lattice: Lattice, *, final: bool = False) -> Partial:
        """Rescore the current lattice of the utterance.

        Args:
            lattice: The lattice from the start of the utterance; its symbol table should be the same in all sessions.
            final: Whether the lattice is complete. If so, all words are stable, and no update can follow.

        Raises:
            ClosedError: The final lattice has already been submitted, or the Rescorer is closed.
            NinjaError: The lattice cannot be rescored. The session can be continued with another update.
        """
        return self.observe(self.submit(lattice).result(), final=final)

    def submit(self, lattice: Lattice) -> Submission:
        """Submit the current lattice without waiting; the caller must pass the result of the future to `observe`.

        Raises:
            ClosedError: The final lattice has already been submitted, or the Rescorer is closed.
            BusyError: Too many lattices are in flight.
        """
        if self._is_final:
            raise ClosedError("the session has already received its final lattice; open a new session", key=lattice.key)
        return self._submit(lattice)

    def observe(self, rescored: Lattice, *, final: bool = False) -> Partial:
        """Return the words in a rescored lattice, divided into stable words and the rest.

        Args:
            rescored: Result of an update; results must be passed in the order of the updates.
            final: Whether the lattice is complete.
        """
        words, probable = probable_prefix(rescored, self._scales, 0.0 if final else self._options.min_posterior)
        self._earlier = [*self._earlier, words][-self._options.agreement :]
        agreeing = probable if len(self._earlier) == self._options.agreement else 0
        for earlier in self._earlier:
            agreeing = min(agreeing, _num_common(earlier, words))
        num_unchanged = _num_common(self._stable, words)
        num_changed = len(self._stable) - num_unchanged
        num_stable = len(words) if final else max(agreeing, num_unchanged)
        self._stable = words[:num_stable]
        self._is_final = final
        return Partial(words, num_stable, num_changed, rescored)


def probable_prefix(lattice: Lattice, scales: Scales, least: float) -> tuple[tuple[str, ...], int]:
    """Return ``(words, length)``: the best path's words, and the length of the longest prefix with posterior ≥ `least`.

    The posterior of a prefix is the total probability of the paths that begin with it.

    Raises:
        VocabularyError: The lattice has no symbol table.
        LatticeError: The lattice has no path.
    """
    if lattice.words is None:
        raise VocabularyError(
            "the lattice has no symbol table; attach its words.txt with Lattice.with_words", key=lattice.key
        )
    best = best_path(lattice, scales).words
    words = best[best != EPSILON]
    names = tuple(lattice.words.spell(words.tolist()))
    if least <= 0.0 or not names:
        return names, len(names)
    is_probable = prefix_posteriors(lattice, words.tolist(), scales) >= least
    return names, int(np.cumprod(is_probable).sum())


def prefix_posteriors(lattice: Lattice, words: Sequence[int], scales: Scales) -> npt.NDArray[np.float64]:
    """Return the posterior probability of each prefix of a word sequence, float64 [num_words].

    Args:
        lattice: A lattice.
        words: Word ids, without epsilons.
        scales: Scales of the total cost.
    """
    paths = path_posteriors(lattice, scales)
    of_state = paths.state.tolist()
    arcs = list(zip(lattice.dst.tolist(), lattice.word.tolist(), paths.conditional(lattice.dst).tolist(), strict=True))
    begin = lattice.arc_begin.tolist()
    # shares[state][n]: posterior fraction of the paths to the state whose words are the first n words.
    shares: list[dict[int, float]] = [{} for _ in range(lattice.num_states)]
    shares[0][0] = 1.0
    posterior = [0.0] * len(words)
    for state, by_length in enumerate(shares):
        if not by_length:
            continue
        shares[state] = {}  # freed, because the shares of all states would take quadratic memory
        if len(by_length) > MAX_LENGTHS:  # this lowers posteriors, so words can only become stable later
            by_length = dict(heapq.nlargest(MAX_LENGTHS, by_length.items(), key=lambda item: item[1]))
        for to, word, of_paths in arcs[begin[state] : begin[state + 1]]:
            for length, share in by_length.items():
                if word == EPSILON:
                    shares[to][length] = shares[to].get(length, 0.0) + share * of_paths
                elif length < len(words) and word == words[length]:
                    shares[to][length + 1] = shares[to].get(length + 1, 0.0) + share * of_paths
                    posterior[length] += share * of_paths * of_state[to]
    return np.array(posterior)


def _num_common(first: Sequence[Any], second: Sequence[Any]) -> int:
    """Return the length of the common prefix of two sequences."""
    unequal = (number for number, (one, other) in enumerate(zip(first, second, strict=False)) if one != other)
    return next(unequal, min(len(first), len(second)))
