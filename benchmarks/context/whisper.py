"""Error rates of real hypotheses of Whisper, before and after rescoring, by normalizer.

    python -m benchmarks.context whisper ../shared/data/real /tmp/whisper

Errors of written forms are counted against the first pass, since the references are lexical.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click

from benchmarks.command import argument, command
from benchmarks.context.bed import Words
from benchmarks.context.written import run
from benchmarks.tables import head, row, show
from ninja.context.settings import DEFAULT_MODEL
from ninja.evaluate import (
    BiasedRate,
    BiasingList,
    read_biasing,
    read_text,
    score,
    score_biased,
    score_written,
)


def rows(folder: Path, work: Path) -> Iterator[str]:
    """Score hypotheses of Whisper before and after rescoring, with and without phrases."""
    test = folder / "whisper" / "test"
    references, lists = read_text(test / "text"), read_biasing(test / "biasing_100.jsonl.gz")
    phrases = {key: {"phrases": list(entry.bias)} for key, entry in lists.items()}
    (work / "biasing.json").write_text(json.dumps({"utterances": phrases}))
    rescoring = ("--acoustic-scale=1", "--lm-weight=0.2")
    commands = {
        "first pass": (),
        "rescored": ("rescore", *rescoring),
        "boosts": ("context", "--acoustic-scale=1", "--entities", "biasing.json"),
        "boosts, augmentation": ("context", "--acoustic-scale=1", "--entities", "biasing.json", "--augment"),
        "contextual model": ("rescore", *rescoring, "--entities", "biasing.json", "--context-model", DEFAULT_MODEL),
    }
    yield from head(
        "hypotheses", "stage", "normalizer", "WER", "rare words", "other words", "written WER", "case", "punctuation"
    )
    for name in ("nbest", "nbest_written"):
        source, first = str(test.resolve() / f"{name}.jsonl.gz"), {}
        for stage, arguments in commands.items():
            output = f"{name}_{stage.replace(' ', '_')}"
            lattices = [source]
            try:
                if arguments:
                    normalizer = "english" if name == "nbest_written" else "none"
                    files = ("-o", f"{output}.ark.gz", "--words-out", f"{output}.words")
                    run([*arguments, source, f"--normalizer={normalizer}", *files], work)
                    lattices = [f"{output}.ark.gz", "--words", f"{output}.words"]
                run(["best", *lattices, "--acoustic-scale=1", "-o", f"{output}.txt"], work)
            except click.ClickException as error:
                yield row(name, stage, error.message.strip().splitlines()[-1], *[""] * 6)
                continue
            texts = read_text(work / f"{output}.txt")
            first = first or texts
            for normalizer in ("none", "basic", "english"):
                yield row(name, stage, normalizer, *figures(references, texts, first, lists, normalizer))


def figures(
    references: Words, texts: Words, first: Words, lists: dict[str, BiasingList], normalizer: str
) -> Iterator[str]:
    """Yield lexical error rates, and those of written forms against the first pass."""
    rate: BiasedRate = score_biased(references, texts, lists, normalizer=normalizer)
    yield from (
        f"{part.wer:.2f}" for part in (score(references, texts, normalizer=normalizer), rate.biased, rate.unbiased)
    )
    if normalizer == "none":
        yield from ("", "", "")
    else:
        forms = score_written(first, texts, normalizer=normalizer)
        yield from (f"{forms.words.wer:.2f}", f"{forms.case_error_rate:.2f}", f"{forms.punctuation_error_rate:.2f}")


@command
@argument("folder")
@argument("work")
def main(folder: Path, work: Path) -> None:
    work.mkdir(parents=True, exist_ok=True)
    show(rows(folder, work))
