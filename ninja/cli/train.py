"""The commands ``ninja train`` and ``ninja train ngram``, which train language models."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from ninja.cli.command import InputFile, ModelFile, NamedFile, given_on_command_line
from ninja.cli.main import Console, current_console
from ninja.cli.options import ListType, command, from_fields, reads, writes
from ninja.context.entities.lists import Entities
from ninja.errors import FormatError, OptionError, counted
from ninja.files.output import reported
from ninja.files.stream import text_of
from ninja.files.text import line_fields
from ninja.libraries import needed_for
from ninja.lm.devices import chosen_device, describe_devices
from ninja.lm.ngram.classes import Tagger, is_class
from ninja.lm.ngram.kneser_ney import NgramOptions, TrainedNgram, train_ngram
from ninja.lm.perplexity import measure
from ninja.lm.text import read_sentences
from ninja.train.recipe import SIZES, Progress, TrainOptions

if TYPE_CHECKING:
    from ninja.cli.progress_bar import ProgressBar


@command
@click.argument("text", type=NamedFile())
@reads(
    "--dev",
    "Held-out text, which determines the best checkpoint.  [default: every 20th sentence of TEXT]",
    kind=NamedFile(),
)
@writes(
    "-o",
    "Output checkpoint in safetensors or torch format (.safetensors, .pt).",
    "--output-file",
    kind=ModelFile(),
    required=True,
)
@writes("--log", "Write progress as JSON lines; --resume appends to the file.")
@from_fields(TrainOptions)
def train(text: str, dev: str | None, output_file: str, log: str | None, **values: Any) -> None:
    """Train a neural language model.

    TEXT and the held-out text contain one sentence per line, with words separated by whitespace; .gz files are
    decompressed. Without --dev, every 20th sentence of TEXT is held out; if TEXT has more than 100,000 sentences,
    about 5,000 are held out, at equal intervals. The checkpoint is written whenever the held-out perplexity improves.
    --workers starts processes on this machine; torchrun starts them on several machines. `ninja train ngram` trains
    an n-gram model.

    \b
    Examples:
      ninja train train.txt.gz --dev dev.txt -o model.pt
      ninja train train.txt.gz --dev dev.txt -o model.pt --workers 4 --parallel bmuf
      ninja train medical.txt.gz --init model.pt --learning-rate 5e-4 --epochs 2 -o medical.pt
      torchrun --nnodes 2 --nproc-per-node 8 … -m ninja -- train train.txt.gz -o model.pt --parallel ssgd
      ninja train ngram train.txt.gz --dev dev.txt -o model.arpa.gz
    """
    if values["init"] is not None and (wrong := given_on_command_line(SIZES)):
        raise OptionError(f"with --init, sizes and words come from the checkpoint; omit {', '.join(wrong)}")
    options = TrainOptions(**values)
    with needed_for("training a network"):
        from ninja.train.loop import train as train_model

    console = current_console()
    note = describe_devices(options.device, [chosen_device(options.device)])
    if note is not None:
        console.say(note)
    is_first = os.environ.get("RANK", "0") == "0"  # only the first worker of torchrun prints progress and results
    with (
        console.progress("steps") if is_first else contextlib.nullcontext() as bar,
        _logged(log if is_first else None, options) as write,
    ):

        def show(progress: Progress) -> None:
            _show(console, bar, progress)
            write(progress)

        result = train_model(text, dev, output_file, options, show)
    if not is_first:
        return
    held_out = "the held-out text" if dev is not None else f"{result.num_held_out} held-out sentences of {text}"
    console.say(
        f"{result.output}: perplexity {result.perplexity:.2f} on {held_out} "
        f"({result.unknown:.2%} unknown words), step {result.step}, {result.minutes:.1f} min"
    )


@contextlib.contextmanager
def _logged(path: str | None, options: TrainOptions) -> Iterator[Callable[[Progress], None]]:
    """Yield a function that writes progress to a line-buffered file, or that does nothing if the path is None."""
    if path is None:
        yield lambda progress: None
        return
    with reported(path), open(path, "a" if options.resume else "w", buffering=1, encoding="utf-8") as stream:

        def write(progress: Progress) -> None:
            # Write null for NaN and infinity, which JSON cannot represent.
            values = {
                name: None if isinstance(value, float) and not math.isfinite(value) else value
                for name, value in asdict(progress).items()
            }
            stream.write(json.dumps(values) + "\n")

        yield write


def _show(console: Console, bar: ProgressBar | None, progress: Progress) -> None:
    """Update the progress line, and print a message each time the perplexity is measured."""
    text = f"epoch {progress.epoch:.2f}, loss {progress.loss:.3f}, {progress.words_per_second:.0f} words/s"
    if progress.communication:
        text += f", {progress.communication:.0%} communication"
    if progress.staleness is not None:
        text += f", staleness {progress.staleness:.1f}"
    if bar is not None:
        bar.step(text, progress.step, share=progress.step / progress.num_steps)
    if progress.perplexity is not None:
        text = f"step {progress.step}/{progress.num_steps}, {text}, {progress.minutes:.1f} min"
        console.say(f"{text}, perplexity {progress.perplexity:.2f}{', saved' if progress.best else ''}")


COUNTS, DISCOUNTS = ListType(int, "integers"), ListType(float, "numbers")
_SPECIAL = re.compile(r"<eps>|<s>|</s>|#[0-9]+")


@command
@click.argument("text", type=InputFile())
@writes("-o", "Output ARPA file, compressed if the name ends in .gz; - is stdout.", "--output-file", required=True)
@reads("--dev", "Held-out text; print its perplexity.")
@reads("--classes", "Phrase lists; replace the phrases in the texts with class tokens.")
@reads("--vocabulary", "Vocabulary of the model: one word per line, or a words.txt.  [default: all words]")
@click.option(
    "--cutoffs", type=COUNTS, metavar="N,N,…", default="1", help="Minimum counts of 2-grams, 3-grams, and so on."
)
@click.option(
    "--discounts",
    type=DISCOUNTS,
    metavar="D[,D,D]",
    help="Discounts: one value, or three for the counts 1, 2 and 3 or more.  [default: estimated]",
)
@from_fields(NgramOptions, skip=("cutoffs", "discounts"))
def ngram(
    text: str, output_file: str, dev: str | None, classes: str | None, vocabulary: str | None, **values: Any
) -> None:
    """Train an n-gram model with modified Kneser-Ney smoothing.

    TEXT and the held-out text contain one sentence per line, with words separated by whitespace; .gz files are
    decompressed. Class tokens (@name, $name, <name>) in the texts are treated as ordinary words. --classes accepts the
    phrase lists of `ninja context --entities` and replaces phrases with class tokens, starting with the longest
    phrases; only phrases with the same case are replaced. If a phrase belongs to several classes, successive
    occurrences are replaced with these classes in turn. The last value of --cutoffs also applies to longer n-grams.

    \b
    Examples:
      ninja train ngram train.txt.gz --dev dev.txt -o lm.arpa.gz
      ninja train ngram train.txt --classes entities.json -o class_lm.arpa
    """
    options = NgramOptions(**values)
    tagger = None if classes is None else _tagger(classes)
    sentences = read_sentences(text)
    with current_console().progress("steps") as bar:
        model = train_ngram(
            sentences if tagger is None else map(tagger.tag, sentences),
            options,
            vocabulary=None if vocabulary is None else _vocabulary(vocabulary),
            classes=() if tagger is None else tagger.num_phrases,
            path=text,
            progress=None if bar is None else bar.step,
        )
    _summarise(model, tagger)
    perplexity = "" if dev is None else _perplexity(model, dev, tagger)
    model.write_arpa(output_file)
    current_console().say(
        f"{output_file}: {' + '.join(str(len(ngrams)) for ngrams in model.lengths)} n-grams{perplexity}"
    )


def _tagger(path: str) -> Tagger:
    """Read phrase lists and return a tagger for all phrases in these lists."""
    entities = Entities.read(path)
    for problem in entities.problems:
        current_console().say(problem)
    phrases: dict[str, dict[str, None]] = {}
    for phrase_list in entities.all_lists:
        for name, members in phrase_list.classes.items():
            phrases.setdefault(name, {}).update(dict.fromkeys(phrase.text for phrase in members))
    classless = phrases.pop("", {})
    if classless:
        subject = counted(len(classless), "phrase has no class and is", "phrases have no class and are")
        current_console().say(f"{path}: {subject} not replaced")
    try:
        return Tagger(phrases)
    except OptionError as error:
        raise FormatError(error.message, path) from error


def _vocabulary(path: str) -> list[str]:
    """Read the words in a word list or symbol table, without special symbols."""
    words = []
    for number, line in enumerate(text_of(path).split("\n"), start=1):
        fields = line_fields(line)
        if len(fields) > 2 or (len(fields) == 2 and not fields[1].isdecimal()):
            raise FormatError(f"expected a word, or a word and its id, found {line[:60]!r}", path, line=number)
        if fields and not _SPECIAL.fullmatch(fields[0]):
            words.append(fields[0])
    if not words:
        raise FormatError("the vocabulary contains no words", path)
    return words


def _perplexity(model: TrainedNgram, path: str, tagger: Tagger | None) -> str:
    """Return the last part of the closing message: the perplexity of a text."""
    sentences = read_sentences(path)
    result = measure(model.as_language_model(), sentences if tagger is None else map(tagger.tag, sentences), path)
    text = f", perplexity {result.perplexity:.2f} on the held-out text"
    if result.num_unknown:
        share = result.num_unknown / result.num_words
        text += f", {result.known_perplexity:.2f} without unknown words ({result.num_unknown}, {share:.2%})"
    return text


def _summarise(model: TrainedNgram, tagger: Tagger | None) -> None:
    """Print statistics on the text and the model."""
    for note in () if tagger is None else tagger.notes():
        current_console().say(note)
    tokens = [word for word in model.words if is_class(word)]
    examples = f"{', '.join(tokens[:5])}{', …' if len(tokens) > 5 else ''}"
    classes = f", including {len(tokens)} classes ({examples})" if tokens else ""
    current_console().say(
        f"{counted(model.num_sentences, 'sentence')}, {counted(model.num_words, 'word')}, {model.num_unknown} of them "
        f"unknown; {counted(len(model.words), 'word')} in the vocabulary{classes}"
    )
    for length, (before, ngrams, discounts) in enumerate(
        zip(model.num_counted, model.lengths, model.discounts, strict=True), start=1
    ):
        values = ", ".join(f"{discount:.4g}" for discount in discounts.of_count)
        removed = f" after removing {before - len(ngrams)}" if before > len(ngrams) else ""
        current_console().say(f"{length}-grams: {len(ngrams)}{removed}; discounts {values}")
    for note in model.notes:
        current_console().say(note)
