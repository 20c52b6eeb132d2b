"""Make the table of word confidences: posteriors, Kaldi's recipe, and calibrated maps.

    python -m benchmarks.results confidence [SHARED] [--only NAME] [--output docs/results.md]

SHARED holds ``data/real``, ``data/korean`` and ``data/english``. Everything is fitted on the development half of a set
and measured on the words of minimum Bayes risk decoding of the test half. Intervals are 95% bootstrap intervals of
paired differences and of the ECE, over speakers where they are known, else over utterances. Kaldi's recipe is a
logistic regression, with its features and its penalty, of confidences with two digits, as in its CTM files.
"""

from __future__ import annotations

import gzip
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from benchmarks.command import SHARED, argument, command, option, output
from benchmarks.results.evidence import CORPORA, FACTORS, Corpus, Half
from benchmarks.tables import head, put, row, show
from ninja.consensus import mbr_decode
from ninja.consensus.word_confidences import WordConfidenceEstimator
from ninja.consensus.word_features import WordFeatures, lexical_words, sigmoid, word_features
from ninja.evaluate import align
from ninja.evaluate.confidence import CLIP, NUM_BINS, score_confidences
from ninja.lattice import Scales
from ninja.lattice.batch import collect_batches
from ninja.lm import load
from ninja.lm.surprise import WordSurprise
from ninja.tune.confidence import tune_confidence
from ninja.tune.logistic import fit_logistic

DAMPER = 0.001  # of Kaldi's logit
NORMALIZER = 0.0025  # Kaldi's penalty, for the mean loss
MIN_CATEGORY = 10  # occurrences of a word with a separate category in Kaldi's recipe
NUM_DRAWS = 2000
NUM_EXACT = 200  # simulations of exact confidences
POSTERIORS, KALDI = "posteriors", "Kaldi's recipe"
LMS = {"trigram": "english-ngram", "LSTM": "english"}

Doubles = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Set:
    """A set of lattices, of one or several corpora."""

    name: str
    corpora: tuple[Corpus, ...]
    unigrams: str | None = None  # ARPA file below SHARED/data

    def half(self, data: Path, name: str) -> Half:
        """Read the development or the test half."""
        halves = [corpus.half(data, name) for corpus in self.corpora]
        lattices = {key: lattice for half in halves for key, lattice in half.lattices.items()}
        text = {key: words for half in halves for key, words in half.text.items()}
        return Half(lattices, text, halves[0].speakers, "none")


BY_NAME = {corpus.name: corpus for corpus in CORPORA}
SYNTHETIC = BY_NAME["synthetic"]
SETS = (
    Set("Korean", (BY_NAME["Korean"],)),
    Set(
        "synthetic",
        tuple(replace(SYNTHETIC, archive=f"{part}/lat.ark.gz") for part in ("libri", "calls", "general")),
        "english/first_pass.arpa.gz",
    ),
    Set("PocketSphinx", (BY_NAME["PocketSphinx"],), "english/first_pass.arpa.gz"),
)


@dataclass(frozen=True)
class Decoded:
    """The decoded words of a half, and which of them are correct."""

    half: Half
    scales: Scales
    features: list[WordFeatures]
    is_correct: Bools
    keys: list[str]  # of each word

    @classmethod
    def of(cls, half: Half, scales: Scales) -> Decoded:
        """Decode the lattices of a half."""
        features: list[WordFeatures] = []
        labels: list[bool] = []
        for batch in collect_batches(half.lattices.items()):
            words = [
                lexical_words(lattice, result.words)
                for lattice, result in zip(batch, mbr_decode(batch, scales), strict=True)
            ]
            features += word_features(batch, words, scales)
        for part in features:
            pairs = align(half.text[part.key], part.lexical.words).pairs
            labels += [reference == word for reference, word in pairs if word is not None]
        keys = [part.key for part in features for _ in part.lexical.words]
        return cls(half, scales, features, np.array(labels), keys)

    @cached_property
    def posterior(self) -> Doubles:
        """The posterior of each word."""
        return np.concatenate([part.posterior for part in self.features])

    @property
    def words(self) -> list[str]:
        """The words."""
        return [word for part in self.features for word in part.lexical.words]

    def posteriors_at(self, factor: float) -> Doubles:
        """Return the posteriors of the words with all costs multiplied by a factor."""
        flat = Scales(self.scales.acoustic * factor, self.scales.lm * factor)
        columns: list[Doubles] = []
        place = 0
        for batch in collect_batches(self.half.lattices.items()):
            words = [part.lexical for part in self.features[place : place + len(batch)]]
            columns += [part.posterior for part in word_features(batch, words, flat, only_posteriors=True)]
            place += len(batch)
        return np.concatenate(columns)

    def confidences(self, estimator: WordConfidenceEstimator) -> Doubles:
        """Return the confidences of the words."""
        columns: list[Doubles] = []
        for batch in collect_batches(self.half.lattices.items()):
            words = [result.words for result in mbr_decode(batch, self.scales)]
            columns += [part.confidences for part in estimator(batch, words, self.scales)]
        return np.concatenate(columns)

    def kaldi(self, unigrams: Mapping[str, float] | None) -> Doubles:
        """Return the features of Kaldi's recipe; those of times and of unigrams only where they are known.

        Source: Kaldi, egs/wsj/s5/steps/conf/prepare_calibration_data.py.
        """
        confidence = np.round(self.posterior, 2)
        letters = np.array([max(len(word), 1) for word in self.words], np.float64)
        columns = [np.log(confidence + DAMPER) - np.log(1.0 - confidence + DAMPER), np.log(letters)]
        if all("depth" in part.values for part in self.features):
            depth, duration = (
                np.concatenate([part.values[name] for part in self.features]) for name in ("depth", "duration")
            )
            columns += [depth, duration - np.log(letters)]
        if unigrams is not None:
            columns.append(np.array([unigrams.get(word, -99.0) for word in self.words]))
        return np.column_stack(columns)

    def groups(self) -> npt.NDArray[np.int64]:
        """Number the speaker of each word, or its utterance if speakers are unknown."""
        speakers = self.half.speakers
        names = self.keys if speakers is None else [speakers[key] for key in self.keys]
        return np.unique(names, return_inverse=True)[1]


def read_unigrams(path: Path) -> dict[str, float]:
    """Read the base-10 logarithms of unigram probabilities from an ARPA file."""
    unigrams: dict[str, float] = {}
    inside = False
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("\\"):
                if inside:
                    break
                inside = line.startswith("\\1-grams")
            elif inside and line.strip():
                logprob, word = line.split()[:2]
                unigrams[word] = float(logprob)
    return unigrams


def fit_kaldi(dev: Decoded, test: Decoded, unigrams: Mapping[str, float] | None, *, categories: bool) -> Doubles:
    """Fit Kaldi's recipe on the development half; return the confidences of the test half."""
    tables = [decoded.kaldi(unigrams) for decoded in (dev, test)]
    if categories:
        counts = Counter(dev.words)
        names = [word for word, count in counts.items() if count >= MIN_CATEGORY]
        place = {word: number for number, word in enumerate(names)}
        for index, decoded in enumerate((dev, test)):
            one_hot = np.zeros((len(decoded.words), len(names)))
            for number, word in enumerate(decoded.words):
                if word in place:
                    one_hot[number, place[word]] = 1.0
            tables[index] = np.column_stack((tables[index], one_hot))
    fitted = fit_logistic(tables[0], dev.words, dev.is_correct, NORMALIZER * len(dev.words), None)
    return sigmoid(fitted.logits(tables[1], test.words))


def systems(subject: Set, dev: Decoded, test: Decoded, data: Path) -> Iterator[tuple[str, Doubles]]:
    """Yield the name and the confidences of the test half of each way to compute them."""
    yield POSTERIORS, test.posterior
    factor = max(FACTORS, key=lambda value: score_confidences(dev.posteriors_at(value), dev.is_correct).nce)
    yield f"posteriors, costs × {factor:g}", test.posteriors_at(factor)
    unigrams = None if subject.unigrams is None else read_unigrams(data / subject.unigrams)
    yield KALDI, fit_kaldi(dev, test, unigrams, categories=False)
    yield f"{KALDI}, word categories", fit_kaldi(dev, test, unigrams, categories=True)

    def tuned(**options: Any) -> Doubles:
        speakers = dev.half.speakers
        fitted = tune_confidence(dev.half.lattices.items(), dev.half.text, dev.scales, speakers=speakers, **options)
        return test.confidences(WordConfidenceEstimator(fitted.model, options.get("surprise")))

    yield "monotone", tuned(method="monotone")
    yield "logistic", tuned()
    for name, lm in LMS.items() if subject.unigrams is not None else ():
        yield f"logistic, surprise of the {name}", tuned(surprise=WordSurprise(load(lm)), lm=lm)


def nce_draws(decoded: Decoded, confidences: Doubles) -> Doubles:
    """Return the normalised cross entropy of bootstrap draws of speakers or utterances; equal draws for all systems."""
    group = decoded.groups()
    clipped = np.clip(confidences, CLIP, 1.0 - CLIP)
    logs = np.bincount(group, np.log2(np.where(decoded.is_correct, clipped, 1.0 - clipped)))
    correct, words = np.bincount(group, decoded.is_correct), np.bincount(group)
    draws = np.random.default_rng(0).integers(0, len(words), (NUM_DRAWS, len(words)))
    logs, correct, words = (column[draws].sum(1) for column in (logs, correct, words))
    share = correct / words
    entropy = -words * (share * np.log2(share) + (1.0 - share) * np.log2(1.0 - share))
    result: Doubles = 1.0 + logs / entropy
    return result


def ece_interval(decoded: Decoded, confidences: Doubles) -> tuple[float, float]:
    """Return the 95% bootstrap interval of the expected calibration error over speakers or utterances."""
    group = decoded.groups()
    bin = np.minimum((confidences * NUM_BINS).astype(np.int64), NUM_BINS - 1)
    num_words = np.bincount(group)
    errors = np.bincount(group * NUM_BINS + bin, confidences - decoded.is_correct, len(num_words) * NUM_BINS)
    draws = np.random.default_rng(0).integers(0, len(num_words), (NUM_DRAWS, len(num_words)))
    eces = np.abs(errors.reshape(-1, NUM_BINS)[draws].sum(1)).sum(1) / num_words[draws].sum(1)
    low, high = np.quantile(eces, (0.025, 0.975)).tolist()
    return low, high


def exact_ece(confidences: Doubles) -> float:
    """Return the mean expected calibration error of words that are correct with the probability of their confidence."""
    random = np.random.default_rng(0)
    eces = [score_confidences(confidences, random.random(len(confidences)) < confidences).ece for _ in range(NUM_EXACT)]
    return float(np.mean(eces))


def order_agreement(decoded: Decoded, confidences: Doubles) -> float:
    """Return the share of pairs of words of an utterance whose confidences have the order of their posteriors."""
    num_equal = num_pairs = begin = 0
    for part in decoded.features:
        end = begin + len(part.posterior)
        first, second = np.triu_indices(len(part.posterior), 1)
        of_posteriors, of_confidences = (
            np.sign(column[first] - column[second]) for column in (part.posterior, confidences[begin:end])
        )
        num_pairs += int(np.count_nonzero(of_posteriors))
        num_equal += int(((of_posteriors * of_confidences >= 0) & (of_posteriors != 0)).sum())
        begin = end
    return num_equal / max(num_pairs, 1)


def table(subject: Set, data: Path) -> Iterator[str]:
    """Return the table of a set as lines of Markdown."""
    scales = Scales(subject.corpora[0].acoustic_scale)
    dev, test = (Decoded.of(subject.half(data, name), scales) for name in ("dev", "test"))
    units = len(set(test.groups().tolist()))
    kind = "utterances" if test.half.speakers is None else "speakers"
    share = f"{100 * test.is_correct.mean():.1f}% correct"
    fit = f"fitted on {len(dev.keys):,} words"
    if dev.half.speakers is not None:
        fit += f", {100 * np.bincount(dev.groups()).max() / len(dev.keys):.0f}% of them by one speaker"
    yield f"{subject.name}: {len(test.keys):,} words, {share}, {units} {kind}; {fit}."
    yield ""
    yield from head(
        "", "NCE", f"vs {POSTERIORS} [95%]", f"vs {KALDI} [95%]", "ECE [95%]", "ECE if exact", "AUC", "order kept %"
    )
    draws: dict[str, Doubles] = {}
    scored: dict[str, float] = {}
    for name, confidences in systems(subject, dev, test, data):
        scores = score_confidences(confidences, test.is_correct)
        draws[name], scored[name] = nce_draws(test, confidences), scores.nce
        best_kaldi = max(
            (baseline for baseline in draws if baseline.startswith(KALDI)), key=scored.__getitem__, default=None
        )
        differences = [
            "" if baseline is None or baseline == name else difference(scored, draws, name, baseline)
            for baseline in (POSTERIORS, best_kaldi)
        ]
        order = f"{100 * order_agreement(test, confidences):.1f}"
        low, high = ece_interval(test, confidences)
        ece = f"{scores.ece:.3f} [{low:.3f}, {high:.3f}]"
        exact = f"{exact_ece(confidences):.3f}"
        yield row(name, f"{scores.nce:.3f}", *differences, ece, exact, f"{scores.auc:.3f}", order)
    yield ""


def difference(scored: Mapping[str, float], draws: Mapping[str, Doubles], name: str, baseline: str) -> str:
    """Format the difference of two systems with its paired interval."""
    low, high = np.quantile(draws[name] - draws[baseline], (0.025, 0.975))
    value = scored[name] - scored[baseline]
    return "–" if math.isnan(value) else f"{value:+.3f} [{low:+.3f}, {high:+.3f}]"


@command
@argument("shared", default=SHARED)
@option("--only", multiple=True, type=click.Choice([subject.name for subject in SETS]), help="Set; may be repeated.")
@output
def main(shared: Path, only: Sequence[str], output: Path | None) -> None:
    lines: list[str] = []
    for subject in SETS:
        if not only or subject.name in only:
            lines += show(table(subject, shared / "data"))
    put(output, "confidence", lines)


if __name__ == "__main__":
    main()
