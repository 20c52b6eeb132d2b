"""The commands ``compute-wer``, ``compute-wer-bootci`` and ``align-text``, which print results in Kaldi's formats."""

from __future__ import annotations

from typing import get_args

import click

from ninja import evaluate
from ninja.cli.command import LAST_SECTIONS, InputFile, OutputFile
from ninja.cli.main import current_console
from ninja.cli.options import command, section, switch, writes
from ninja.errors import FormatError, counted, named
from ninja.evaluate import Mode
from ninja.files.output import text_output
from ninja.lattice.text import NONE

mode_option = click.option(
    "--mode",
    type=click.Choice(get_args(Mode)),
    default="strict",
    help="Stop with an error if a reference has no hypothesis (strict), score it as an empty hypothesis (all), or "
    "skip the reference (present).",
)


@command
@click.argument("reference", type=InputFile())
@click.argument("hypothesis", type=InputFile())
@click.argument("statistics", required=False, type=OutputFile())
@mode_option
@switch("--text", False, "Has no effect, because words and word ids are compared in the same way.")
def compute_wer(reference: str, hypothesis: str, statistics: str | None, mode: Mode, text: bool) -> None:
    """Compute word and sentence error rates of transcripts, like Kaldi's compute-wer.

    Each line of REFERENCE and HYPOTHESIS contains a key and words or word ids. The files can be specified as ark:FILE.
    If STATISTICS is specified, each correct, substituted, deleted or inserted word is written to it, one per line.

    \b
    Example:
      ninja compute-wer --mode=present ark:text ark:transcripts.txt
    """
    references, hypotheses = (evaluate.read_text(path) for path in (reference, hypothesis))
    click.echo(str(evaluate.score(references, hypotheses, mode)))
    if statistics is not None:
        with text_output(statistics) as stream:
            references, hypotheses = (evaluate.lexical_texts(texts, NONE) for texts in (references, hypotheses))
            for key in evaluate.scored_keys(references, hypotheses, mode):
                for word, output in evaluate.align_text(references[key], hypotheses.get(key, ())).pairs:
                    if word is None:
                        stream.write(f"insertion {output}\n")
                    elif output is None:
                        stream.write(f"deletion {word}\n")
                    else:
                        stream.write(f"correct {word}\n" if word == output else f"substitution {word} {output}\n")


@command
@click.argument("text1", type=InputFile())
@click.argument("text2", type=InputFile())
@click.argument("alignment", required=False, type=OutputFile())
@section(LAST_SECTIONS[0], writes("-o", "Text file for the alignments; - is stdout.  [default: -]", "--output-file"))
@click.option("--special-symbol", default="<eps>", metavar="WORD", help="Symbol for insertions and deletions.")
@click.option("--separator", default=";", metavar="WORD", help="Separator between pairs of words.")
def align_text(
    text1: str, text2: str, alignment: str | None, output_file: str | None, special_symbol: str, separator: str
) -> None:
    """Align the words of two texts, like Kaldi's align-text.

    Each line of TEXT1 and TEXT2 contains a key and words. The output is written to ALIGNMENT or to the argument of -o;
    each line contains a key and pairs of words. If keys of TEXT1 are missing from TEXT2, they are listed, and the exit
    code is 1.

    \b
    Example:
      ninja align-text text transcripts.txt -o aligned.txt
    """
    if alignment is not None and output_file is not None:
        raise click.UsageError("ALIGNMENT cannot be used with -o")
    first, second = (evaluate.read_text(path) for path in (text1, text2))
    missing = [key for key in first if key not in second]
    if len(missing) == len(first):
        raise FormatError(f"contains none of the keys of {text1}; check that the utterance ids match", text2)
    with text_output(alignment or output_file or "-") as stream:
        for key, words in first.items():
            if key in second:
                pairs = evaluate.align_text(words, second[key])
                stream.write(evaluate.aligned_line(key, pairs, special_symbol, separator) + "\n")
    if missing:
        keys = counted(len(missing), f"key of {text1} is", f"keys of {text1} are")
        current_console().say(f"{keys} not in {text2}: {named(missing)}")
        click.get_current_context().exit(1)


@command
@click.argument("reference", type=InputFile())
@click.argument("hypothesis", type=InputFile())
@click.argument("other", required=False, type=InputFile())
@mode_option
@click.option("--replications", type=click.IntRange(1, 2**31 - 1), default=10_000, help="Number of bootstrap samples.")
@click.option("--seed", type=click.IntRange(0), default=0, help="Random seed.")
@click.option(
    "--utt2spk",
    type=InputFile(),
    help="Speaker of each utterance. If set, the bootstrap resamples speakers instead of utterances.",
)
def compute_wer_bootci(
    reference: str, hypothesis: str, other: str | None, mode: Mode, replications: int, seed: int, utt2spk: str | None
) -> None:
    """Compute a confidence interval for a word error rate.

    The 95% confidence interval for the word error rate of HYPOTHESIS is printed. If OTHER, the output of
    a second system for the same references, is specified, its interval is printed as well, followed by the
    probability that OTHER has fewer errors; the interval for the difference and the p-value of a paired test are
    printed on stderr. Each line of the text files contains a key and words.

    \b
    Example:
      ninja compute-wer-bootci text before.txt after.txt
    """
    texts = [evaluate.read_text(path) for path in (reference, hypothesis, other) if path is not None]
    speakers = None if utt2spk is None else evaluate.read_speakers(utt2spk)
    others = texts[2] if len(texts) > 2 else None
    intervals = evaluate.bootstrap(texts[0], texts[1], others, mode, replications, seed, speakers=speakers)
    click.echo(str(intervals))
    if (change := intervals.difference) is not None:
        current_console().say(
            f"Set2 - Set1: {change.mean:.2f} 95% Conf Interval [ {change.low:.2f}, {change.high:.2f} ], "
            f"p = {intervals.p_value:.4f}"
        )
