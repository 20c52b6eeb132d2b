"""``ninja lm``: commands about language models themselves."""

from __future__ import annotations

import functools
import json
import math
import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import click

from ninja.cli.options import Command, Sectioned, output_file, reads, text_output
from ninja.errors import FormatError, VocabularyError
from ninja.files import text as utf8
from ninja.lattice.symbols import SymbolTable
from ninja.lm import LanguageModel
from ninja.lm.load import CHECKPOINT, kind_of, load
from ninja.lm.trie import word_logprobs

BATCH = 256  # sentences scored side by side


class Sentence(NamedTuple):
    """A line of a text."""

    key: str
    ids: list[int]  # the model's
    unknown: list[bool]  # whether <unk> stands for the word


@click.group()
def lm() -> None:
    """Ask language models for scores, show what they are, convert them.

    MODEL is of any kind that `ninja rescore --rnnlm` takes.

    \b
    Examples:
      ninja lm info rnnlm_dir
      ninja lm score rnnlm_dir text.txt > logprobs.txt
      ninja lm convert rnnlm_dir -o rnnlm.pt
    """


def _loads_model(command: Command) -> Command:
    """Give a command the name of a language model, as ``name``, and the model."""

    @click.argument("model")
    @click.option("--normalize/--no-normalize", default=None, help="Normalise exactly.  [default: as trained]")
    @click.option("--device", default="cpu", help="Device of the model: cpu, cuda, cuda:1, …")
    @reads("--words", "Symbol table of a model that numbers its words.", load=SymbolTable.read)
    @functools.wraps(command)
    def collected(model: str, normalize: bool | None, device: str, words: SymbolTable | None, **options: Any) -> None:
        command(name=model, model=load(model, device, normalize=normalize, words=words), **options)

    return collected


@lm.command(cls=Sectioned)
@_loads_model
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def info(name: str, model: LanguageModel, as_json: bool) -> None:
    """Show the kind and size of a language model.

    \b
    Example:
      ninja lm info rnnlm_dir
    """
    kind = kind_of(name).name
    vocabulary = model.vocabulary
    facts: dict[str, Any] = {
        "kind": kind.removeprefix("an ").removeprefix("a "),
        "words": len(vocabulary),
        "parameters": model.num_parameters,
        "sentence begin": None if model.bos is None else vocabulary.word(model.bos),
        "sentence end": vocabulary.word(model.eos),
        "unknown word": None if model.unk is None else vocabulary.word(model.unk),
        "words it stood for": model.unk_words,
        "normalised": model.normalized,
    }
    if kind == CHECKPOINT:
        from ninja.lm.checkpoint import read

        stored = read(name)
        facts |= {"kind": f"Ninja checkpoint ({stored.kind})", "perplexity": stored.card.get("perplexity")}
    if as_json:
        click.echo(json.dumps(facts, ensure_ascii=False))
        return
    shown = {True: "yes", False: "no", None: "unknown"}
    for name, value in facts.items():
        click.echo(f"{name:24}{shown[value] if value is None or isinstance(value, bool) else value}")


@lm.command(cls=Sectioned)
@_loads_model
@click.argument("text")
@output_file("Scores")
@click.option("--keys/--no-keys", default=True, help="Lines of TEXT begin with a key, or not.")
@click.option("--int", "as_ids", is_flag=True, help="TEXT holds the model's word ids, not words.")
@click.option("--unk-penalty", default=0.0, help="Cost of an unknown word beyond <unk>.")
def score(
    name: str, model: LanguageModel, text: str, output_file: str, keys: bool, as_ids: bool, unk_penalty: float
) -> None:
    """Print the natural-log probability of each word of a text.

    TEXT holds on each line a key and the words of a sentence; - is stdin. The output has the key and then a number for
    each word and one for the end of the sentence. Words that the model lacks are scored as its <unk>.

    \b
    Example:
      ninja lm score rnnlm_dir text.txt > logprobs.txt
    """
    sentences = _sentences(model, text, keys, as_ids)
    num_sentences, num_words, num_unknown, total = 0, 0, 0, 0.0
    with text_output(output_file) as stream:
        while some := list(islice(sentences, BATCH)):
            scores = word_logprobs(model, [sentence.ids for sentence in some])
            for sentence, logprob in zip(some, scores, strict=True):
                logprob[:-1][sentence.unknown] -= unk_penalty
                stream.write(" ".join([sentence.key] * keys + [f"{float(each):.6g}" for each in logprob]) + "\n")
                num_sentences += 1
                num_words += len(sentence.ids)
                num_unknown += sum(sentence.unknown)
                total += float(logprob.sum(dtype="float64"))
    perplexity = math.exp(min(-total / (num_words + num_sentences), 700.0)) if num_sentences else math.nan
    counts = f"{num_sentences} sentences, {num_words} words, {num_unknown} of them unknown"
    click.echo(f"ninja: {counts}, perplexity {perplexity:.2f}", err=True)


@lm.command(cls=Sectioned)
@click.argument("model")
@click.option("-o", "--output-file", required=True, metavar="FILE", help="Checkpoint, .onnx file or folder/ to write.")
def convert(model: str, output_file: str) -> None:
    """Write a language model in another form, which gives the same scores.

    A Kaldi RNNLM becomes a Ninja checkpoint: one file, with the vocabulary in it. Ninja's own LSTM is written as an
    ONNX model or, given a folder, as a pair of Caffe2 nets.

    \b
    Examples:
      ninja lm convert rnnlm_dir -o rnnlm.pt
      ninja lm convert lstm.pt -o lstm.onnx
      ninja lm convert lstm.pt -o lstm_nets/
    """
    from ninja.lm.convert import convert as convert_model

    convert_model(model, output_file)


def _sentences(network: LanguageModel, path: str, keyed: bool, as_ids: bool) -> Iterator[Sentence]:
    """Read a text as word ids of a model."""
    marks = {network.eos} if network.bos is None else {network.bos, network.eos}
    for line, fields in _lines(path):
        if keyed and not fields:
            raise FormatError("the line is empty; a key is needed, or give --no-keys", path, line=line)
        key = fields.pop(0) if keyed else ""
        ids = [_id_of(network, word, as_ids, path, line) for word in fields]
        if not marks.isdisjoint(ids):
            mark = network.vocabulary.word(next(each for each in ids if each in marks))
            raise FormatError(f"{mark} in the text; remove it, it is implied", path, line=line)
        yield Sentence(key, ids, [not as_ids and word not in network.vocabulary for word in fields])


def _lines(path: str) -> Iterator[tuple[int, list[str]]]:
    """Read lines as their fields; ASCII blanks separate them, since some vocabularies hold words with others."""
    text = sys.stdin.buffer.read().decode("utf-8", "surrogateescape") if path == "-" else utf8.read(path)
    for number, line in enumerate(text.removesuffix("\n").split("\n") if text else [], start=1):
        yield number, [field for field in line.replace("\t", " ").rstrip("\r").split(" ") if field]


def _id_of(network: LanguageModel, word: str, as_ids: bool, path: str, line: int) -> int:
    if as_ids:
        if not word.isdecimal() or not int(word) < len(network.vocabulary):
            last = len(network.vocabulary) - 1
            raise FormatError(f"{word[:40]!r} is no word id of the model; these are 0 to {last}", path, line=line)
        return int(word)
    number = network.vocabulary.id(word)
    if number is None and network.unk is None:
        raise VocabularyError(f"the model has neither {word[:60]!r} nor a word for unknown ones", path, line=line)
    return network.unk if number is None else number  # type: ignore[return-value]
