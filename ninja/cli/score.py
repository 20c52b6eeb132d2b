"""``ninja score``."""

from __future__ import annotations

import click

from ninja.cli.best import Search
from ninja.cli.options import scales, text_output
from ninja.cli.reading import Reading, reads_lattices
from ninja.errors import FormatError
from ninja.pipeline import Each


@click.command()
@click.argument("reference")
@click.option(
    "--mode",
    type=click.Choice(["strict", "all", "present"]),
    default="strict",
    show_default=True,
    help="References without a hypothesis: refuse, score as empty, or leave out.",
)
@click.option("--alignments", metavar="FILE", help="Write each hypothesis here, laid beside its reference.")
@click.option("--oracle", is_flag=True, help="Score the nearest path of each lattice, not the best one.")
@scales
@reads_lattices
def score(
    reading: Reading,
    reference: str,
    mode: str,
    alignments: str | None,
    oracle: bool,
    acoustic_scale: float,
    lm_scale: float,
    word_penalty: float,
) -> None:
    """Compute the word error rate of transcripts or lattices.

    REFERENCE and SOURCE are text files, on each line a key and its words. With --words, SOURCE are lattices, of which
    the best path is scored.

    \b
    Examples:
      ninja score text transcripts.txt --alignments alignments.txt
      ninja score text lat.ark.gz --words words.txt --acoustic-scale 0.1
    """
    from ninja import evaluate

    references = evaluate.read_text(reference)
    if oracle:
        if reading.words is None or alignments is not None:
            trouble = (
                "needs lattices and their --words" if reading.words is None else "cannot be used with --alignments"
            )
            raise click.UsageError(f"--oracle {trouble}")
        words = reading.table()
        assert words is not None
        rate = evaluate.oracle_score((lattice for _, lattice in reading.lattices()), references, words)
    else:
        if reading.words is None:
            hypotheses = _transcripts(reading.source)
        else:
            search = Search(1, acoustic_scale, lm_scale, word_penalty)
            hypotheses = {key: best[0].words for key, best in reading.results(Each(search))}
        rate = evaluate.score(references, hypotheses, mode)  # type: ignore[arg-type]
        if alignments is not None:
            with text_output(alignments) as stream:
                for key, alignment in evaluate.score_each(references, hypotheses, mode).items():  # type: ignore[arg-type]
                    stream.write(f"{key}\n{alignment}\n\n")
    click.echo(str(rate))
    if rate.unreferenced:
        reading.say(f"{rate.unreferenced} hypotheses have no reference and were not scored")
    reading.close()


def _transcripts(paths: tuple[str, ...]) -> dict[str, list[str]]:
    from ninja import evaluate

    found: dict[str, list[str]] = {}
    for path in paths:
        try:
            part = evaluate.read_text(path)
        except FormatError as error:
            error.message += "; if it holds lattices, give their --words"
            raise
        if twice := found.keys() & part.keys():
            raise FormatError("another file holds this key already", path, key=min(twice))
        found |= part
    return found
