"""Corrections of 1-best transcripts: phrases found, false corrections and word errors, by number of phrases.

    python -m benchmarks.context correct ../shared/data/english ../shared/data/real    the tables
    python -m benchmarks.context correct ../shared/data/english ../shared/data/real --fit models/correction.toml
    python -m benchmarks.context correct ../shared/data/english ../shared/data/real --splits 200    the bound

With --fit, the weights and the thresholds are estimated on the development sets and written. With --splits,
the utterances of dev and test, with lists of 100 names, none of them spoken, are divided in half: the threshold is
chosen on one half, and the other half shows the rate of false corrections; the rate of all utterances shows how many of
the excesses are due to the small size of a half.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import numpy as np

from benchmarks.command import argument, command, option, path_option
from benchmarks.context.correct_cases import Case, UnspokenNames, cases, is_in, whisper_best
from benchmarks.tables import head, row, show
from ninja.context.correction.corrector import Corrector, apply_changes
from ninja.context.correction.options import CorrectOptions
from ninja.context.correction.stage import Correcting, make_corrector
from ninja.context.entities.lists import Entities
from ninja.errors import Log
from ninja.evaluate import read_biasing, read_text, score, score_biased
from ninja.files.output import toml_text
from ninja.lattice.text import BASIC
from ninja.tune.false_corrections import choose_threshold

RATES = (0.01, 0.02, 0.05)  # maximum rates of false corrections
TITLES = {
    "calls": "commands with names",
    "general": "commands without",
    "libri": "read sentences",
    "whisper": "Whisper",
    "pocketsphinx": "PocketSphinx",
}


def table(corrector: Corrector, utterances: Sequence[Case]) -> Iterator[str]:
    """Count the phrases that are whole before and after, and false corrections."""
    yield from head("set", "phrases", "utterances", "WER", "corrected", "complete phrases", "corrected", "changed")
    groups: dict[tuple[str, int], list[Case]] = {}
    for case in utterances:
        groups.setdefault((case.bed, case.size), []).append(case)
    for (bed, size), group in groups.items():
        before, after, references = {}, {}, {}
        whole = [0, 0]
        num_spoken = num_changed = num_without = 0
        for case in group:
            reference = BASIC.words(case.reference)
            changes = corrector.changes(case.words, case.lists)
            corrected = BASIC.words(apply_changes(case.words, changes))
            before[case.key], after[case.key], references[case.key] = BASIC.words(case.words), corrected, reference
            if not case.spoken:
                num_without += 1
                num_changed += bool(changes)
            elif case.is_known:
                spoken = [BASIC.words(phrase.split()) for phrase in case.spoken]
                num_spoken += len(spoken)
                for number, words in enumerate((before[case.key], corrected)):
                    whole[number] += sum(is_in(phrase, words) for phrase in spoken)
        rates = [f"{score(references, words).wer:.2f}" for words in (before, after)]
        counts = (f"{whole[0]} of {num_spoken}", whole[1]) if num_spoken else ("–", "–")
        false_corrections = f"{num_changed} of {num_without}" if num_without else "–"
        yield row(TITLES[bed], size, len(group), *rates, *counts, false_corrections)


def rare_words(corrector: Corrector, folder: Path, sizes: Sequence[int]) -> Iterator[str]:
    """Score rare and other words of Whisper's best hypotheses before and after."""
    references = read_text(folder / "text")
    yield from head("output", "phrases", "WER", "corrected", "rare words", "corrected", "other words", "corrected")
    for name in ("nbest", "nbest_written"):
        best = {key: words for key, (words, _) in whisper_best(folder, name).items()}
        for size in sizes:
            biasing = read_biasing(folder / f"biasing_{size}.jsonl.gz")
            phrases = {key: {"phrases": list(entry.bias)} for key, entry in biasing.items()}
            entities = Entities.from_dict({"utterances": phrases}, normalizer=BASIC)
            corrected = {
                key: apply_changes(words, corrector.changes(words, entities.of(key))) for key, words in best.items()
            }
            sides = [score_biased(references, texts, biasing, normalizer="english") for texts in (best, corrected)]
            rates = [(side.overall.wer, side.biased.wer, side.unbiased.wer) for side in sides]
            cells = [f"{rate:.2f}" for pair in zip(*rates, strict=True) for rate in pair]
            yield row("words" if name == "nbest" else "written text", size, *cells)


def splits(corrector: Corrector, english: Path, real: Path, count: int) -> Iterator[str]:
    """Count the random splits in which the realised rate of false corrections exceeds the chosen one."""
    scores = []
    for part in ("dev", "test"):
        unspoken = UnspokenNames(english)
        for case in filter(None, map(unspoken.of, cases(english, real, part, [100]))):
            changes = corrector.changes(case.words, case.lists)
            scores.append(max((change.probability for change in changes if change.kind == "sound"), default=0.0))
    values = np.array(scores)
    yield from head(
        "rate",
        "utterances",
        "splits",
        "exceeded in the other half",
        "in all",
        "mean rate",
        "mean threshold",
        "none chosen",
    )
    generator = np.random.default_rng(1)
    for rate in RATES:
        rates, of_all, thresholds = [], [], []
        for _ in range(count):
            order = generator.permutation(len(values))
            dev_scores, test_scores = values[order[: len(values) // 2]], values[order[len(values) // 2 :]]
            bound = choose_threshold(dev_scores, rate, len(test_scores))
            if bound is not None:
                rates.append(float((test_scores >= bound.threshold).mean()))
                thresholds.append(bound.threshold)
                of_all.append(float((values >= bound.threshold).mean()))
        shares = (f"{sum(value > rate for value in side) / count:.1%}" for side in (rates, of_all))
        means = (f"{np.mean(rates):.4f}", f"{np.mean(thresholds):.2f}") if rates else ("–", "–")
        yield row(rate, len(values), count, *shares, *means, count - len(rates))


@command
@argument("english")
@argument("real")
@path_option("--fit", metavar="FILE", help="Estimate weights and threshold on the development sets, and write them.")
@option("--splits", "num_splits", type=int, help="Test the bound on random splits.")
@option("--part", type=click.Choice(["dev", "test"]), default="test", help="Sets of the figures.")
@option("--sizes", default="100,1000,5000", help="Numbers of phrases.")
def main(english: Path, real: Path, fit: Path | None, num_splits: int | None, part: str, sizes: str) -> None:
    options = CorrectOptions() if num_splits is None else CorrectOptions(threshold=0.0)
    corrector = make_corrector(Correcting(Entities.from_dict({}), options=options), BASIC, Log())
    if num_splits is not None:
        show(splits(corrector, english, real, num_splits))
        return
    if fit is not None:
        from benchmarks.context.correct_fit import fit as estimate

        decision, story = estimate(corrector, english, real)
        fit.write_text(toml_text(decision.values(), [f"Weights of `ninja correct`; {story}"]))
        print(story)
        return
    numbers = [int(size) for size in sizes.split(",")]
    show(table(corrector, list(cases(english, real, part, numbers))))
    print()
    show(rare_words(corrector, real / "whisper" / part, [size for size in numbers if size <= 1000]))
