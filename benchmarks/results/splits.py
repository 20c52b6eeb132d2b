"""Compare weights of ``ninja tune`` with fixed ones on random halves of each set, split by speaker.

    python -m benchmarks.results splits [SHARED] [--only NAME] [--output docs/results.md]

SHARED is that of ``evidence``. Both halves of a set are joined and rescored with the fixed weights and with those that
tuning chooses on the whole set; its sentences are scored once. For each of 20 splits weights are chosen on the speakers
of one half. Rates are those of rescorings of the other half. A difference is predicted by cross-validation on the first
half. The synthetic set is split by the readers whose sentences were synthesised, the others by speaker. Rows are
stored, and made again when the model has changed; remove the file when `ninja tune` has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt

from benchmarks.command import ROOT, SHARED, argument, command, option, output, path_option
from benchmarks.measure import set_torch_threads
from benchmarks.results.evidence import CORPORA, Corpus
from benchmarks.results.models import Row, with_weights
from benchmarks.tables import Cells, head, put, row
from ninja.lattice import Lattice
from ninja.lattice.text import LexicalForms, make_normalizer
from ninja.lm import LanguageModel, load
from ninja.lm.lexical import with_lexical_forms
from ninja.models import ENGLISH
from ninja.rescoring import RescoreOptions, rescore
from ninja.tune.choice import MIN_WORDS, Outcomes
from ninja.tune.expected import Weights, WordErrors
from ninja.tune.features import Features, features
from ninja.tune.weights import choose, choose_weights, grid

NUM_SPLITS = 20
NUM_BEST = 300
TOLERANCE = 0.1  # percentage points
FIXED = {  # weights of each set to compare with
    "PocketSphinx": (Weights(0.8, 0.1, 0.5), Weights(0.5, 0.1, 0.0)),
    "Whisper": (Weights(0.15, 1.0, -1.0), Weights(0.5, 1.0, 0.0)),
    "Whisper, written": (Weights(0.15, 1.0, -1.0), Weights(0.5, 1.0, 0.0)),
    "Korean": (Weights(0.0, 1.0, 0.0, ()),),
    "synthetic": (Weights(0.8, 0.1, 0.5), Weights(0.5, 0.1, 0.0)),
}

Ints = npt.NDArray[np.int64]


@dataclass
class Scored:
    """A whole set: its lattices, and the errors of rescorings with some weights."""

    corpus: Corpus
    lattices: dict[str, Lattice]
    text: dict[str, list[str]]
    speakers: dict[str, str]
    lm: LanguageModel | None
    cache: dict[Weights, Features] = field(default_factory=dict)

    @classmethod
    def read(cls, corpus: Corpus, data: Path, lm: LanguageModel) -> Scored:
        """Read both halves."""
        halves = [corpus.half(data, name) for name in ("dev", "test")]
        lattices = halves[0].lattices | halves[1].lattices
        speakers = {key: key.split("-")[1] for key in lattices}
        for half in halves:
            speakers |= half.speakers or {}
        return cls(corpus, lattices, halves[0].text | halves[1].text, speakers, lm if corpus.english else None)

    def sentences(self, weights: Weights) -> Features:
        """Rescore with some weights; return the best sentences."""
        if weights not in self.cache:
            forms = LexicalForms(make_normalizer(self.corpus.normalizer))
            options = with_weights(RescoreOptions(normalizer=self.corpus.normalizer, max_unknown=1.0), weights)
            lm = self.lm
            lexical_lm = None if lm is None else with_lexical_forms(lm, forms, options.lm_text)
            self.cache[weights] = features(
                self.lattices.items(),
                iter if lm is None else lambda source: rescore(source, lm, options),
                self.text,
                () if lexical_lm is None else (lexical_lm,),
                options,
                num_best=NUM_BEST,
                forms=forms,
            )
        return self.cache[weights]

    def wer(self, weights: Weights, utterances: Ints) -> float:
        """Return the word error rate of a rescoring of some utterances, percent."""
        sentences = self.sentences(weights)
        words = sentences.reference_words[utterances].sum()
        return 100.0 * float(sentences.rescored_errors[utterances].sum() / words)


@dataclass(frozen=True)
class Split:
    """The result of one split; rates and differences in percent."""

    fixed: float  # word error rate of the other half
    tuned: float
    predicted: float  # difference to the fixed weights, on the first half
    search_error: float  # rate among the sentences of the first half, less the rate of a rescoring
    is_moved: bool
    keeps_when_small: bool  # the fixed weights are kept on fewer than MIN_WORDS words


def splits(scored: Scored, fixed: Weights) -> Iterator[Split]:
    """Split the speakers at random, tune on one half, and rescore the other."""
    sentences = scored.sentences(fixed)
    tuned = choose(sentences, fixed, speakers=scored.speakers).weights
    if tuned != fixed:
        sentences = scored.sentences(tuned).united(sentences)
    points = grid(fixed, scales_vary=bool(sentences.graph.any()))
    speaker = np.unique([scored.speakers[key] for key in sentences.keys], return_inverse=True)[1]
    outcomes = WordErrors(sentences).outcomes(points, np.arange(sentences.num_lattices))
    by_speaker = _summed(outcomes, speaker)
    generator = np.random.default_rng(0)
    for _ in range(NUM_SPLITS):
        order = generator.permutation(len(by_speaker.words))
        dev = np.sort(order[: len(order) // 2])
        weights, *_, choice = choose_weights(points, by_speaker.of_groups(dev), fixed)
        dev_utterances, test_utterances = (np.flatnonzero(np.isin(speaker, dev) == is_dev) for is_dev in (True, False))
        few = dev_utterances[np.cumsum(outcomes.words[dev_utterances]) < MIN_WORDS]
        small, *_ = choose_weights(points, outcomes.of_groups(few), fixed)
        yield Split(
            scored.wer(fixed, test_utterances),
            scored.wer(weights, test_utterances),
            choice.expected_difference.mean,
            by_speaker.of_groups(dev).wer(points.index(weights)) - scored.wer(weights, dev_utterances),
            weights != fixed,
            small == fixed,
        )


def _summed(outcomes: Outcomes, group: Ints) -> Outcomes:
    """Sum the outcomes of utterances over groups."""
    member = np.eye(int(group.max()) + 1)[group]
    words = np.bincount(group, outcomes.words).astype(np.int64)
    return replace(outcomes, expected=outcomes.expected @ member, errors=outcomes.errors @ member, words=words)


def line(corpus: Corpus, fixed: Weights, results: list[Split]) -> str:
    """Return the row of a set."""
    tuned, before, predicted, error = (
        np.array([getattr(result, name) for result in results])
        for name in ("tuned", "fixed", "predicted", "search_error")
    )
    change = tuned - before
    return row(
        corpus.name,
        fixed,
        f"{before.mean():.2f}",
        f"{tuned.mean():.2f}",
        f"{(change <= TOLERANCE + 1e-9).sum()} of {len(results)}",
        f"{change.max():+.2f}",
        f"{predicted.mean():+.2f} / {change.mean():+.2f}",
        f"{np.abs(error).mean():.2f}",
        sum(result.is_moved for result in results),
        f"{sum(result.keeps_when_small for result in results)} of {len(results)}",
    )


@command
@argument("shared", default=SHARED)
@option("--only", multiple=True, type=click.Choice([corpus.name for corpus in CORPORA]), help="Set; may be repeated.")
@path_option("--cells", default=ROOT / "build/splits.jsonl", help="File that keeps the rows.")
@output
def main(shared: Path, only: tuple[str, ...], cells: Path, output: Path | None) -> None:
    set_torch_threads()
    lm, stored, stamp = load(ENGLISH), Cells(cells), Row("LSTM", (ENGLISH,), 0.5).stamp()
    lines = head(
        "",
        "fixed weights",
        "WER % fixed",
        "WER % tuned",
        f"at most {TOLERANCE} worse",
        "largest change",
        "change predicted / realised",
        "search error",
        "weights changed",
        f"kept below {MIN_WORDS} words",
    )
    print("\n".join(lines))
    for corpus in CORPORA:
        if not only or corpus.name in only:
            scored: Scored | None = None
            for fixed in FIXED[corpus.name]:
                name = f"{corpus.name}/{fixed}"
                if name not in stored or stored[name]["stamp"] != stamp:
                    scored = scored or Scored.read(corpus, shared / "data", lm)
                    stored.add(name, stamp=stamp, row=line(corpus, fixed, list(splits(scored, fixed))))
                lines.append(stored[name]["row"])
                print(lines[-1], flush=True)
    put(output, "splits", lines)


if __name__ == "__main__":
    main()
