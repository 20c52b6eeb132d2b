"""Growing lattices in sessions: stable words that change, words held back, and work that is done again.

    python -m benchmarks.rescoring streaming ARCHIVE... [--texts FILE] [--output docs/howto/serve.md]

An archive has lattices with alignments; ``words.txt.gz`` is next to it or two folders above. Each lattice is cut every
0.3 s: words that have ended by then remain, and words in progress become arcs without a word, with the share of the
acoustic cost that has passed. `--texts` are references (a key and words on each line): random CTC matrices of their
letters arrive in parts of 0.3 s, in which another letter is as probable in a fraction of the frames (`--confused`).

The last words are compared with those of `ninja.rescore` for the whole lattice. A score is a pair of a history and a
word that the language model computes; it is repeated if the model has computed it for an earlier update of any
session. The first row of the options is the default; a stable word changes if a later update of its utterance has
another word at its place.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np

import ninja
from benchmarks.command import argument, command, option, output, path_option
from benchmarks.rescoring.service import words_file
from benchmarks.tables import head, put, row, show
from ninja.decoding import CtcStream, ctc_units
from ninja.graph import best_path, connect, from_arcs
from ninja.lattice import Lattice, SymbolTable
from ninja.lattice.times import state_times
from ninja.lm import LanguageModel, load
from ninja.rescoring import RescoreOptions, Session, StreamOptions

SECONDS = 0.3  # between updates
FRAME_SHIFT = 0.02  # of the matrices
LATTICES = RescoreOptions(lm_weight=0.8, word_penalty=0.5, max_unknown=1.0)  # the usual weights of lattices
MATRICES = RescoreOptions(acoustic_scale=1.0, max_unknown=1.0)
LETTERS = ["<blank>", "|", *"abcdefghijklmnopqrstuvwxyz'"]
GRID = [StreamOptions(agreement, least) for agreement in (1, 3, 5) for least in (0.0, 0.9, 0.99)]
CHOICES = [*dict.fromkeys([StreamOptions(), StreamOptions(5, 0.95), *GRID])]


class Counting(LanguageModel):
    """A language model that records the scores that it computes."""

    def __init__(self, lm: LanguageModel) -> None:
        self.lm = lm
        self.vocabulary, self.bos, self.eos = lm.vocabulary, lm.bos, lm.eos
        self.unk, self.unk_words = lm.unk, lm.unk_words
        self.num_scores = self.num_repeated = 0
        self._history: dict[int, tuple[int, ...]] = {}
        self._scored: set[tuple[tuple[int, ...], int]] = set()

    def start(self, count: int) -> np.ndarray:
        slots = self.lm.start(count)
        self._history.update(dict.fromkeys(slots.tolist(), ()))
        return slots

    def advance(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        new = self.lm.advance(slots, words)
        for slot, old, word in zip(new.tolist(), slots.tolist(), words.tolist(), strict=True):
            self._history[slot] = (*self._history[old], word)
        return new

    def logprob(self, slots: np.ndarray, words: np.ndarray) -> np.ndarray:
        for slot, word in zip(slots.tolist(), words.tolist(), strict=True):
            pair = self._history[slot], word
            self.num_scores += 1
            self.num_repeated += pair in self._scored
            self._scored.add(pair)
        return self.lm.logprob(slots, words)

    def release(self, slots: np.ndarray) -> None:
        self.lm.release(slots)


@dataclass
class Stability:
    """Counts of the words of all updates for one choice of options."""

    num_stable: int = 0  # words that became stable before the last update
    num_changed: int = 0
    num_words: int = 0  # of all updates but the last of each utterance
    num_held_back: int = 0  # of them, words that were not stable


@dataclass
class Figures:
    """Figures of a set of utterances."""

    name: str
    num_utterances: int = 0
    num_updates: int = 0
    num_equal: int = 0
    num_scores: int = 0
    num_repeated: int = 0
    num_asked: int = 0  # scores without a cache
    num_offline: int = 0
    seconds: float = 0.0  # CPU, of sessions
    offline_seconds: float = 0.0
    of_options: list[Stability] = field(default_factory=lambda: [Stability() for _ in CHOICES])


def partial_lattice(lattice: Lattice, frame: int, times: np.ndarray) -> Lattice | None:
    """Return the partial lattice of a decoder at a frame; None before the first word."""
    begin, end = times[lattice.src], times[lattice.dst]
    is_complete, is_partial = end <= frame, (begin <= frame) & (end > frame)
    arcs, last = np.flatnonzero(is_complete | is_partial), lattice.num_states
    share = np.where(is_complete, 1.0, (frame - begin) / np.maximum(end - begin, 1))[arcs]
    finals = {last: (0.0, 0.0)}
    for state in np.flatnonzero(np.isfinite(lattice.final_graph) & (times <= frame)).tolist():
        finals[state] = float(lattice.final_graph[state]), float(lattice.final_acoustic[state])
    part = from_arcs(
        lattice.key,
        lattice.src[arcs],
        np.where(is_complete, lattice.dst, last)[arcs],
        np.where(is_complete, lattice.word, 0)[arcs],
        np.where(is_complete, lattice.graph, 0.0)[arcs],
        lattice.acoustic[arcs] * share,
        finals=finals,
        words=lattice.words,
    )
    part = connect(part)
    return part if part.num_arcs else None


def growing(lattice: Lattice) -> Iterator[Lattice]:
    """Yield a lattice as it grows, and the whole."""
    times = state_times(lattice)
    step = round(SECONDS / (lattice.frame_shift or 0.01))
    for frame in range(step, int(times.max()), step):
        if (part := partial_lattice(lattice, frame, times)) is not None:
            yield part
    yield lattice


def matrix(text: str, confused: float, rng: np.random.Generator) -> np.ndarray:
    """Return log-probabilities of the letters of a text at each frame, some as probable as another letter."""
    columns: list[int] = []
    for letter in text.replace(" ", "|"):
        column = LETTERS.index(letter)
        columns += [column] * int(rng.integers(1, 3)) + [0] * int(rng.integers(1, 4))
    logits = rng.normal(size=(len(columns), len(LETTERS)))
    places = np.arange(len(columns))
    logits[places, columns] += 6.0
    doubtful = places[(rng.random(len(columns)) < confused) & (np.array(columns) > 1)]
    logits[doubtful, rng.integers(2, len(LETTERS), len(doubtful))] += 6.0
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def decoded(key: str, values: np.ndarray, words: SymbolTable) -> Iterator[Lattice]:
    """Yield the lattices of a matrix as its frames arrive."""
    stream = CtcStream(key, ctc_units(LETTERS, 0, boundary="|"), words=words, frame_shift=FRAME_SHIFT)
    step = round(SECONDS / FRAME_SHIFT)
    for begin in range(0, len(values), step):
        yield stream.add(values[begin : begin + step], final=begin + step >= len(values))


def measure(name: str, utterances: Iterable[list[Lattice]], lm: LanguageModel, options: RescoreOptions) -> Figures:
    """Rescore the growing lattices of utterances in sessions, and the last one of each offline."""
    figures, wholes, finals = Figures(name), list[Lattice](), list[list[str]]()
    counting = Counting(lm)
    with ninja.Rescorer(counting, options, max_latency=0.0) as rescorer:
        for parts in utterances:
            first = rescorer.session()
            observers = [Session(first.submit, options.scales, choice) for choice in CHOICES]
            earlier = [0] * len(CHOICES)
            for number, part in enumerate(parts):
                is_last = number == len(parts) - 1
                began = time.process_time()
                rescored = first.submit(part).result()
                figures.seconds += time.process_time() - began
                for index, (observer, counts) in enumerate(zip(observers, figures.of_options, strict=True)):
                    partial = observer.observe(rescored, final=is_last)
                    counts.num_changed += partial.num_changed
                    if not is_last:
                        counts.num_stable += max(partial.num_stable - earlier[index] + partial.num_changed, 0)
                        counts.num_words += len(partial.words)
                        counts.num_held_back += len(partial.tail)
                        earlier[index] = partial.num_stable
            figures.num_updates += len(parts)
            finals.append(list(partial.words))
            wholes.append(parts[-1])
        figures.num_asked = rescorer.report.scores
    figures.num_scores, figures.num_repeated = counting.num_scores, counting.num_repeated
    figures.num_utterances = len(wholes)
    began = time.process_time()
    offline = Counting(lm)
    results = ninja.rescore([(f"{number}", lattice) for number, lattice in enumerate(wholes)], offline, options)
    for (_, rescored), words in zip(results, finals, strict=True):
        assert rescored.words is not None
        best = best_path(rescored, options.scales).words
        figures.num_equal += rescored.words.spell(best[best != 0].tolist()) == words
    figures.offline_seconds = time.process_time() - began
    figures.num_offline = offline.num_scores
    return figures


def table(sets: list[Figures]) -> Iterator[str]:
    """Yield the lines of the page."""
    yield from head("set", "utterances", "updates", "last words as offline", "scores", "repeated scores",
                    "scores offline", "scores without reuse", "CPU s", "CPU s offline")  # fmt: skip
    for figures in sets:
        repeated = f"{figures.num_repeated} ({100 * figures.num_repeated / max(figures.num_scores, 1):.1f}%)"
        yield row(figures.name, figures.num_utterances, figures.num_updates, figures.num_equal, figures.num_scores,
                  repeated, figures.num_offline, figures.num_asked, f"{figures.seconds:.1f}",
                  f"{figures.offline_seconds:.1f}")  # fmt: skip
    columns = [f"{figures.name}: {part}" for figures in sets for part in ("stable words changed", "words held back")]
    yield from ["", *head("agreement", "min_posterior", *columns)]
    for index, choice in enumerate(CHOICES):
        cells: list[str] = []
        for figures in sets:
            counts = figures.of_options[index]
            share = 100 * counts.num_changed / max(counts.num_stable, 1)
            cells.append(f"{counts.num_changed} of {counts.num_stable} ({share:.1f}%)")
            cells.append(f"{100 * counts.num_held_back / max(counts.num_words, 1):.0f}%")
        yield row(choice.agreement, choice.min_posterior, *cells)


@command
@argument("archives", nargs=-1)
@path_option("--texts", multiple=True, help="References, for CTC matrices; may be repeated.")
@path_option("--model", help="Language model.  [default: the shipped LSTM]")
@option("--confused", default=0.02, help="Fraction of the frames of letters in which another letter is as probable.")
@option("--most", default=60, help="Utterances of each set.")
@output
def main(
    archives: tuple[Path, ...],
    texts: tuple[Path, ...],
    model: Path | None,
    confused: float,
    most: int,
    output: Path | None,
) -> None:
    lm = load(model)
    sets = []
    for archive in archives:
        lattices = (lattice for _, lattice in ninja.read(archive, words=words_file([archive])))
        name = "/".join(archive.parts[-3:-1])
        sets.append(measure(name, ([*growing(lattice)] for lattice in islice(lattices, most)), lm, LATTICES))
    for path in texts:
        lines = [line.partition(" ") for line in path.read_text(encoding="utf-8").splitlines()[:most]]
        rng, symbols = np.random.default_rng(0), SymbolTable.growing()
        matrices = ((key, matrix(text.strip(), confused, rng)) for key, _, text in lines)
        utterances = ([*decoded(key, values, symbols)] for key, values in matrices)
        sets.append(measure(f"CTC, {'/'.join(path.parts[-3:-1])}", utterances, lm, MATRICES))
    put(output, "streaming", show(table(sets)))
