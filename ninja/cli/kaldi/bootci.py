"""``ninja compute-wer-bootci``."""

from __future__ import annotations

import click

from ninja import evaluate
from ninja.cli.kaldi.wer import MODE_HELP
from ninja.cli.options import command
from ninja.evaluate import Mode


@command
@click.argument("reference")
@click.argument("hypothesis")
@click.argument("other", required=False)
@click.option("--mode", type=click.Choice(["present", "all", "strict"]), default="strict", help=MODE_HELP)
@click.option("--replications", type=click.IntRange(1), default=10_000, help="Number of bootstrap samples.")
@click.option("--seed", type=click.IntRange(0), default=0, help="Seed of the random numbers.")
def compute_wer_bootci(
    reference: str, hypothesis: str, other: str | None, mode: Mode, replications: int, seed: int
) -> None:
    """Compute a confidence interval of a word error rate.

    Prints the 95 % confidence interval of the word error rate of HYPOTHESIS. With OTHER, a second system on the same
    references, also its own, and the probability that it makes fewer errors; the interval of the difference follows
    on stderr. All three are text files, on each line a key and its words.

    \b
    Example:
      ninja compute-wer-bootci text before.txt after.txt
    """
    texts = [evaluate.read_text(path) for path in (reference, hypothesis, other) if path is not None]
    found = evaluate.bootstrap(
        texts[0], texts[1], texts[2] if len(texts) > 2 else None, mode, replications=replications, seed=seed
    )
    click.echo(str(found))
    if (change := found.difference) is not None:
        click.echo(
            f"ninja: Set2 - Set1: {change.mean:.2f} 95% Conf Interval [ {change.low:.2f}, {change.high:.2f} ]", err=True
        )
