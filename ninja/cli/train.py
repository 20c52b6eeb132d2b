"""``ninja train``."""

from __future__ import annotations

from typing import Any

import click

from ninja.cli.console import Bar, Console
from ninja.cli.options import command, from_fields
from ninja.lm.train.recipe import Progress, TrainOptions


@command
@click.argument("text")
@click.option("--dev", required=True, metavar="FILE", help="Held-out text, for which weights are chosen.")
@click.option("-o", "--output-file", required=True, metavar="FILE", help="Checkpoint to write.")
@from_fields(TrainOptions)
def train(text: str, dev: str, output_file: str, **chosen: Any) -> None:
    """Train a language model on a text.

    A neural one; `ninja train ngram` trains an n-gram model.

    TEXT and the held-out text hold one sentence a line, words between white space; .gz is unpacked. The checkpoint is
    written whenever the held-out perplexity falls.

    \b
    Examples:
      ninja train train.txt.gz --dev dev.txt -o model.pt
      ninja train ngram train.txt.gz --dev dev.txt -o model.arpa.gz
    """
    options = TrainOptions(**chosen)
    from ninja.lm.train.loop import train as train_model

    console = Console()
    with console.progress("steps") as bar:
        result = train_model(text, dev, output_file, options, lambda progress: _show(console, bar, progress))
    console.say(
        f"{result.output}: perplexity {result.perplexity:.2f} on the held-out text "
        f"({result.unknown:.2%} unknown words), step {result.step}, {result.minutes:.1f} min"
    )


def _show(console: Console, bar: Bar | None, progress: Progress) -> None:
    """Show how far the training is: a line that changes, and one that stays for each measurement."""
    facts = f"epoch {progress.epoch:.2f}, loss {progress.loss:.3f}, {progress.words_per_second:.0f} words/s"
    if bar is not None:
        bar.step(f"of {progress.num_steps}, {facts}", progress.step)
    if progress.perplexity is not None:
        facts = f"step {progress.step}/{progress.num_steps}, {facts}, {progress.minutes:.1f} min"
        console.say(f"{facts}, perplexity {progress.perplexity:.2f}{', kept' if progress.best else ''}")
