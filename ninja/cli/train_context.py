"""The commands ``ninja train context`` and ``ninja train context-lm``, which train context models."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from ninja.cli.command import InputFile, ModelFile, NamedFile, given_on_command_line
from ninja.cli.main import Console, current_console
from ninja.cli.options import command, from_fields, reads, writes
from ninja.context.deep.recipe import EncoderOptions, EncoderProgress, PointerOptions
from ninja.context.deep.symbols import Symbols
from ninja.context.sound.confusion import Confusion
from ninja.context.sound.pronunciation import Phones, Pronouncer, phones_of
from ninja.errors import OptionError
from ninja.files.stream import text_of
from ninja.libraries import needed_for
from ninja.lm.load import load, place_of
from ninja.lm.text import read_sentences
from ninja.models import CONTEXT
from ninja.train.pairs import alphabet, lexicon_entries

if TYPE_CHECKING:
    from ninja.cli.progress_bar import ProgressBar


@command
@click.argument("phrases", nargs=-1, type=InputFile())
@writes("-o", "Output context model.", "--output-file", kind=ModelFile(), required=True)
@reads("--lexicon", "Lexicon like Kaldi's lexicon.txt; it takes precedence over cmudict.")
@reads("--confusion", "Costs of phone confusions in JSON (see docs/context.md).")
@reads("--held-out", "Phrases to exclude from training, one per line.")
@click.option("--letters-only", is_flag=True, help="Train only on the letters of PHRASES, without pronunciations.")
@from_fields(EncoderOptions)
def context(
    phrases: tuple[str, ...],
    output_file: str,
    lexicon: str | None,
    confusion: str | None,
    held_out: str | None,
    letters_only: bool,
    **chosen: Any,
) -> None:
    """Train a phrase encoder, which finds phrases that sound similar.

    The encoder learns the distances between word pronunciations; these depend on the costs of phone confusions.
    The words come from the CMU dictionary, --lexicon and PHRASES (files with one phrase per line). Pronunciations
    require `pip install 'ninja-asr[phones]'`. With --letters-only, the encoder learns distances between the spellings
    of PHRASES, which works for any alphabet.

    \b
    Example:
      ninja train context names.txt -o context.safetensors
    """
    ignored = ["lexicon", "confusion", *(name for name in ("inputs", "outputs") if chosen[name] != "letters")]
    if letters_only and (wrong := given_on_command_line(ignored)):
        raise OptionError(f"--letters-only trains on letters alone; omit {', '.join(wrong)}")
    options = EncoderOptions(**chosen)
    with needed_for("training a network"):
        from ninja.context.deep.encoder import PhraseEncoder
        from ninja.train.encoder import train_encoder

    texts = [line for path in phrases for line in _lines(path)]
    excluded = set() if held_out is None else {line.lower() for line in _lines(held_out)}
    costs = Confusion.articulatory() if confusion is None else Confusion.read(confusion)
    if letters_only:
        options = replace(options, inputs="letters", outputs="letters")
        entries: list[tuple[str, Phones]] = [(text, ()) for text in dict.fromkeys(texts)]
    else:
        pronouncer = Pronouncer.english(lexicon)
        listed = [
            (word, phones_of(variant)) for word, variants in pronouncer.dictionary.items() for variant in variants[:2]
        ]
        entries = listed + lexicon_entries(pronouncer, (text for text in texts if text not in pronouncer.dictionary))
    entries = [(text, phones) for text, phones in entries if text.lower() not in excluded]
    symbols = Symbols(alphabet(text for text, _ in entries), costs.phones)
    console = current_console()
    with console.progress("steps") as bar:
        encoder = train_encoder(entries, symbols, costs, options, _reporter(console, bar))
    encoder.save(output_file)
    PhraseEncoder.load(output_file)  # check the file
    card = encoder.card
    console.say(f"{output_file}: trained on {card['entries']} words, {card['steps']} steps, {card['minutes']} min")


@command
@click.argument("text", type=InputFile())
@reads("--rnnlm", "Language model for which the pointer is trained.  [default: shipped model]", kind=NamedFile())
@reads("--context-model", "Phrase encoder.  [default: shipped model]", kind=NamedFile())
@writes(
    "-o", "Output context model, with the encoder and the pointer.", "--output-file", kind=ModelFile(), required=True
)
@from_fields(PointerOptions)
def context_lm(text: str, rnnlm: str | None, context_model: str | None, output_file: str, **chosen: Any) -> None:
    """Train a pointer network, which adds the phrases of an utterance to a language model.

    The result is used by `ninja rescore --context-model`. TEXT should resemble the training data of the language model,
    with one sentence per line; its rare words serve as phrases. The language model and the encoder are not changed.

    \b
    Example:
      ninja train context-lm train.txt.gz --rnnlm model.pt -o context.pt
    """
    options = PointerOptions(**chosen)
    with needed_for("training a network"):
        from ninja.context.deep.encoder import PhraseEncoder
        from ninja.context.deep.pointer import ContextPointer
        from ninja.train.pointer import train_pointer

    encoder = PhraseEncoder.load(CONTEXT if context_model is None else context_model)
    model_path = place_of(rnnlm)
    console = current_console()
    with console.progress("steps") as bar:
        show = _reporter(console, bar)
        pointer = train_pointer(
            load(model_path), os.path.basename(model_path), lambda: read_sentences(text), encoder, options, show
        )
    pointer.save(output_file)
    ContextPointer.load(output_file)  # check the file
    card = pointer.card
    console.say(f"{output_file}: trained on {card['positions']} words, {card['steps']} steps, {card['minutes']} min")


def _reporter(console: Console, bar: ProgressBar | None) -> Callable[[EncoderProgress], None]:
    """Return a function that shows the training progress on the console."""

    def show(progress: EncoderProgress) -> None:
        text = f"loss {progress.loss:.3f}, {progress.minutes:.1f} min"
        if bar is not None:
            bar.step(text, progress.step, share=progress.step / progress.num_steps)
        if progress.step % 1000 == 0 or progress.step == progress.num_steps:
            console.say(f"step {progress.step}/{progress.num_steps}, {text}")

    return show


def _lines(path: str) -> list[str]:
    """Read phrases, one per line; lines that begin with # are comments."""
    lines = (" ".join(line.split()) for line in text_of(path).splitlines())
    return [line for line in lines if line and not line.startswith("#")]
