"""``ninja train`` and ``ninja train ngram``."""

from __future__ import annotations

import os
import re
from typing import Any

import click

from ninja.cli.console import Bar, Console
from ninja.cli.options import Several, command, from_fields
from ninja.context.entities.lists import Entities
from ninja.errors import FormatError, OptionError, OutputError
from ninja.files import text as utf8
from ninja.lm.ngram.classes import Tagger, is_class
from ninja.lm.ngram.kneser_ney import NgramOptions, TrainedNgram, train_ngram
from ninja.lm.text import read_sentences
from ninja.lm.train.held_out import measure
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


COUNTS, DISCOUNTS = Several(int, "whole numbers"), Several(float, "numbers")
_NO_WORD = re.compile(r"<eps>|<s>|</s>|#[0-9]+")


@command
@click.argument("text")
@click.option("-o", "--output-file", required=True, metavar="FILE", help="ARPA file, packed if .gz; - is stdout.")
@click.option("--dev", metavar="FILE", help="Held-out text, whose perplexity is shown.")
@click.option("--classes", metavar="ENTITIES", help="Lists of phrases that are replaced by their classes in the texts.")
@click.option("--vocabulary", metavar="FILE", help="Words of the model, one a line, or a words.txt.  [default: all]")
@click.option("--cutoffs", type=COUNTS, metavar="N,N,…", default="1", help="Fewest occurrences of 2-grams, 3-grams, …")
@click.option(
    "--discounts", type=DISCOUNTS, metavar="D[,D,D]", help="One, or of counts 1, 2, 3+.  [default: estimated]"
)
@from_fields(NgramOptions, skip=("cutoffs", "discounts"))
def ngram(
    text: str, output_file: str, dev: str | None, classes: str | None, vocabulary: str | None, **chosen: Any
) -> None:
    """Train an n-gram model with modified Kneser-Ney smoothing.

    TEXT and the held-out text hold one sentence a line, words between white space; .gz is unpacked. Class tokens
    (@name, $name, <name>) in them are words like others. With --classes, which takes the entity files of `ninja
    context`, they are put where phrases of the lists stand, the longest first; a phrase of several classes stands for
    each in turn. The last of --cutoffs is also that of longer n-grams.

    \b
    Examples:
      ninja train ngram train.txt.gz --dev dev.txt -o lm.arpa.gz
      ninja train ngram train.txt --classes entities.json -o class_lm.arpa
    """
    options = NgramOptions(**chosen)
    folder = os.path.dirname(output_file)
    if folder and not os.path.isdir(folder):  # better now than after the training
        raise OutputError("its folder does not exist; make it first", output_file)
    tagger = None if classes is None else _tagger(classes)
    sentences = read_sentences(text)
    with Console().progress("steps") as bar:
        model = train_ngram(
            sentences if tagger is None else map(tagger.tag, sentences),
            options,
            vocabulary=None if vocabulary is None else _vocabulary(vocabulary),
            classes=() if tagger is None else tagger.num_phrases,
            path=text,
            progress=None if bar is None else bar.step,
        )
    _summarise(model, tagger)
    held_out = None if dev is None else _measured(model, dev, tagger)
    model.write_arpa(output_file)
    _say(f"{output_file}: {' + '.join(str(len(each)) for each in model.lengths)} n-grams{held_out or ''}")


def _tagger(path: str) -> Tagger:
    """Read the lists of classes of all utterances."""
    entities = Entities.read(path)
    for problem in entities.problems:
        _say(problem)
    phrases: dict[str, dict[str, None]] = {}
    for each in entities.all_lists:
        for name, members in each.classes.items():
            phrases.setdefault(name, {}).update(dict.fromkeys(phrase.text for phrase in members))
    classless = phrases.pop("", {})
    if classless:
        _say(f"{path}: {len(classless)} phrases of no class; they are left as they are")
    try:
        return Tagger(phrases)
    except OptionError as error:
        raise FormatError(error.message, path) from error


def _vocabulary(path: str) -> list[str]:
    """Read a list of words, or those of a symbol table without its marks."""
    words = []
    for number, line in enumerate(utf8.read(path).splitlines(), start=1):
        fields = line.split()
        if len(fields) > 2 or (len(fields) == 2 and not fields[1].isdecimal()):
            raise FormatError(f"expected a word, or a word and its id, found {line[:60]!r}", path, line=number)
        if fields and not _NO_WORD.fullmatch(fields[0]):
            words.append(fields[0])
    if not words:
        raise FormatError("no word in this list", path)
    return words


def _measured(model: TrainedNgram, path: str, tagger: Tagger | None) -> str:
    sentences = read_sentences(path)
    found = measure(model.as_language_model(), sentences if tagger is None else map(tagger.tag, sentences), path)
    line = f", perplexity {found.perplexity:.2f} on the held-out text"
    if found.num_unknown:
        share = found.num_unknown / found.num_words
        line += f", {found.known_perplexity:.2f} without unknown words ({found.num_unknown}, {share:.2%})"
    return line


def _summarise(model: TrainedNgram, tagger: Tagger | None) -> None:
    """Print the figures of the text and of the model."""
    for note in () if tagger is None else tagger.notes():
        _say(note)
    tokens = [word for word in model.words if is_class(word)]
    shown = f"{', '.join(tokens[:5])}{', …' if len(tokens) > 5 else ''}"
    of_classes = f", {len(tokens)} of them classes ({shown})" if tokens else ""
    _say(
        f"{model.num_sentences} sentences, {model.num_words} words, {model.num_unknown} of them unknown; "
        f"{len(model.words)} words in the vocabulary{of_classes}"
    )
    for length, (counted, ngrams, discounts) in enumerate(
        zip(model.num_counted, model.lengths, model.discounts, strict=True), start=1
    ):
        taken = ", ".join(f"{each:.4g}" for each in discounts.of_count)
        cut = f", {counted - len(ngrams)} more cut" if counted > len(ngrams) else ""
        _say(f"{length}-grams: {len(ngrams)}{cut}; discounts {taken}")
    for note in model.notes:
        _say(note)


def _say(line: str) -> None:
    click.echo(f"ninja: {line}", err=True)
