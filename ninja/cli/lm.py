"""``ninja lm``: commands about language models themselves."""

from __future__ import annotations

import functools
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice
from typing import Any, NamedTuple

import click

from ninja.cli.console import Console
from ninja.cli.files import InputFile, OutputFile
from ninja.cli.models import DEVICE_HELP, WORD_OPTIONS, backend_option, word_options
from ninja.cli.options import Command, Sectioned, normalizer_option, output_file, reads, writes
from ninja.errors import FormatError, VocabularyError
from ninja.files import text as utf8
from ninja.files.output import text_output
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.text import LexicalForms
from ninja.libraries import needed_for
from ninja.lm import LanguageModel
from ninja.lm.lexical import LexicalLM
from ninja.lm.load import CHECKPOINT, detect_format, open_model, place_of, refuse_unused_classes
from ninja.lm.perplexity import Perplexity
from ninja.lm.protocol import Backend, LoadOptions
from ninja.lm.trie import word_logprobs

BATCH = 256  # sentences scored side by side
HEAD_LINES = 1000  # of a text, by which its words are judged to be written or lexical
MANY = 0.5  # of the first words of lines, when they are the model's words: then these are no keys


class Sentence(NamedTuple):
    """A line of a text."""

    key: str
    ids: list[int]  # the model's
    unknown: list[bool]  # whether the word is scored as <unk>
    share: float  # share of the text's lines up to this one


@click.group()
def lm() -> None:
    """Score text with language models, or describe or convert the models.

    MODEL is a model that `ninja rescore --rnnlm` takes.

    \b
    Examples:
      ninja lm info rnnlm_dir
      ninja lm score rnnlm_dir text.txt > logprobs.txt
      ninja lm convert rnnlm_dir -o rnnlm.pt
    """


def _loads_model(command: Command) -> Command:
    """Add an argument MODEL, passed on as ``name``, and the loaded model."""

    @click.argument("model", type=InputFile())
    @click.option("--normalize/--no-normalize", default=None, help="Normalise exactly.  [default: as trained]")
    @click.option("--device", default="auto", help=DEVICE_HELP)
    @backend_option
    @reads("--words", "Symbol table of a model that numbers its words.", load=SymbolTable.read)
    @word_options(*WORD_OPTIONS)
    @functools.wraps(command)
    def with_model(
        model: str,
        normalize: bool | None,
        device: str,
        backend: Backend,
        words: SymbolTable | None,
        load_options: LoadOptions,
        **options: Any,
    ) -> None:
        load_options = replace(load_options, device=device, normalize=normalize, words=words, backend=backend)
        lm = open_model(model, load_options)
        refuse_unused_classes([lm], load_options)
        command(name=model, model=lm, **options)

    return with_model


@lm.command(cls=Sectioned)
@_loads_model
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def info(name: str, model: LanguageModel, as_json: bool) -> None:
    """Show the kind and size of a language model.

    \b
    Example:
      ninja lm info rnnlm_dir
    """
    kind = detect_format(name).name
    vocabulary = model.vocabulary
    facts: dict[str, Any] = {
        "kind": kind.removeprefix("an ").removeprefix("a "),
        "words": "any, in pieces" if model.spells_words else len(vocabulary),
        "parameters": model.num_parameters,
        "sentence begin": None if model.bos is None else vocabulary.word(model.bos),
        "sentence end": vocabulary.word(model.eos),
        "unknown word": None if model.unk is None else vocabulary.word(model.unk),
        "words it stood for": model.unk_words if model.oov_score is None else None,
        "normalised": model.normalized,
    }
    if kind == CHECKPOINT:
        from ninja.lm.checkpoint import read

        stored = read(place_of(name))
        facts |= {"kind": f"Ninja checkpoint ({stored.kind})", "perplexity": stored.card.get("perplexity")}
    if as_json:
        click.echo(json.dumps(facts, ensure_ascii=False))
        return
    texts = {True: "yes", False: "no", None: "unknown"}
    for name, value in facts.items():
        click.echo(f"{name:24}{texts[value] if value is None or isinstance(value, bool) else value}")


@lm.command(cls=Sectioned)
@_loads_model
@click.argument("text", type=InputFile())
@output_file("Scores")
@click.option("--keys/--no-keys", default=True, help="Lines of TEXT begin with a key, or not.")
@click.option("--int", "as_ids", is_flag=True, help="TEXT has the model's word ids instead of words.")
@click.option("--unk-penalty", default=0.0, help="Cost of an unknown word beyond <unk>.")
@normalizer_option
def score(
    name: str,
    model: LanguageModel,
    text: str,
    output_file: str,
    keys: bool,
    as_ids: bool,
    unk_penalty: float,
    normalizer: str,
) -> None:
    """Print the natural-log probability of each word of a text.

    Each line of TEXT has a key and the words of a sentence; - is stdin. The output has the key, then a number for each
    word and one for the end of the sentence. Unknown words are scored as the model's <unk>; if it has none, they are
    left out as in SRILM (their number is 0), unless --oov-score says otherwise.

    The counts and perplexities of SRILM's ngram -ppl are printed on stderr: OOVs are unknown words, zeroprobs words of
    probability zero; logprob is to base 10, ppl per word and end of sentence, ppl1 per word. If OOVs have scores, a
    third line has the figures without them. A written word has one number, the sum over its lexical words.

    \b
    Example:
      ninja lm score rnnlm_dir text.txt > logprobs.txt
    """
    if model.unk is None and model.takes_oov_score:
        model.score_oovs("skip")
        click.echo(f"ninja: {name} has no <unk>: OOVs are left out, as SRILM does; see --oov-score", err=True)
    lines = _lines(text)
    head = list(islice(lines, HEAD_LINES))
    if not as_ids and not model.reads_written:
        forms = LexicalForms(normalizer, lambda note: click.echo(f"ninja: {note}", err=True))
        if not forms.normalizer_of([word for _, _, fields in head for word in fields[keys:]]).is_identity:
            model = LexicalLM(model, forms)
    sentences = _sentences(model, chain(head, lines), text, keys, as_ids)
    totals = Perplexity(skips_unknown=model.oov_score == "skip" and not unk_penalty)
    to_stdout = output_file == "-"
    with text_output(output_file) as stream, Console().progress("sentences", to_stdout=to_stdout) as bar:
        while batch := list(islice(sentences, BATCH)):
            if keys and not totals.num_sentences:
                _warn_of_words(model, [sentence.key for sentence in batch])
            scores = word_logprobs(model, [sentence.ids for sentence in batch])
            for sentence, logprob in zip(batch, scores, strict=True):
                logprob[:-1][sentence.unknown] -= unk_penalty
                stream.write(" ".join([sentence.key] * keys + [f"{float(score):.6g}" for score in logprob]) + "\n")
                totals.add(logprob, sentence.unknown)
            if bar is not None:
                bar.step(batch[-1].key, totals.num_sentences, share=batch[-1].share)
    for line in totals.lines():
        click.echo(f"ninja: {line}", err=True)


@lm.command(cls=Sectioned)
@click.argument("model", type=InputFile())
@writes(
    "-o",
    "Checkpoint, .onnx file or folder/ to write.",
    "--output-file",
    kind=OutputFile(allow_folder=True),
    required=True,
)
def convert(model: str, output_file: str) -> None:
    """Convert a language model to another format, with the same scores.

    A Kaldi RNNLM becomes a Ninja checkpoint: one file, with the vocabulary in it. A checkpoint is copied from torch's
    format (.pt) to that of safetensors, or back. Ninja's own LSTM is written as an ONNX model or, given a folder, as a
    pair of Caffe2 nets.

    \b
    Examples:
      ninja lm convert rnnlm_dir -o rnnlm.pt
      ninja lm convert lstm.pt -o lstm.safetensors
      ninja lm convert lstm.pt -o lstm.onnx
      ninja lm convert lstm.pt -o lstm_nets/
    """
    with needed_for("converting a model", model):
        from ninja.lm.convert import convert as convert_model

    convert_model(model, output_file)


def _warn_of_words(model: LanguageModel, keys: list[str]) -> None:
    """Warn if the first words of lines are unlikely to be keys: some are equal, or most are words of the model."""
    duplicate = next((key for key, count in Counter(keys).items() if count > 1), None)
    known = 0 if model.spells_words else sum(key in model.vocabulary for key in keys)
    if duplicate is not None:
        why = f"{duplicate!r} begins several lines"
    elif known > MANY * len(keys):
        why = f"{known} of {len(keys)} are words of the model"
    else:
        return
    advice = "give --no-keys if the lines have no keys"
    click.echo(f"ninja: warning: the first word of each line is taken as its key, but {why}; {advice}", err=True)


def _sentences(
    network: LanguageModel, lines: Iterable[tuple[int, float, list[str]]], path: str, keyed: bool, as_ids: bool
) -> Iterator[Sentence]:
    """Look up the words of the lines of a text in a model."""
    marks = {network.eos} if network.bos is None else {network.bos, network.eos}
    for line, share, fields in lines:
        if keyed and not fields:
            raise FormatError("the line is empty; a key is needed, or give --no-keys", path, line=line)
        key = fields.pop(0) if keyed else ""
        ids = [_id_of(network, word, as_ids, path, line) for word in fields]
        if not marks.isdisjoint(ids):
            mark = network.vocabulary.word(next(number for number in ids if number in marks))
            raise FormatError(f"{mark} in the text; remove it, it is implied", path, line=line)
        # SRILM, too, takes an <unk> in the text for an OOV where the model has none.
        unk = None if network.oov_score is None else network.unk
        unknown = [word not in network.vocabulary or number == unk for word, number in zip(fields, ids, strict=True)]
        yield Sentence(key, ids, [not as_ids and is_unknown for is_unknown in unknown], share)


def _lines(path: str) -> Iterator[tuple[int, float, list[str]]]:
    """Yield the number of each line, the share of the text up to it, and its fields.

    Only ASCII blanks separate fields, since words of some vocabularies contain others.
    """
    text = sys.stdin.buffer.read().decode("utf-8", "surrogateescape") if path == "-" else utf8.read(path)
    lines = text.removesuffix("\n").split("\n") if text else []
    for number, line in enumerate(lines, start=1):
        yield number, number / len(lines), [field for field in line.replace("\t", " ").rstrip("\r").split(" ") if field]


def _id_of(network: LanguageModel, word: str, as_ids: bool, path: str, line: int) -> int:
    if as_ids:
        if not word.isdecimal() or not int(word) < len(network.vocabulary):
            last = len(network.vocabulary) - 1
            raise FormatError(f"{word[:40]!r} is not a word id of the model; these are 0 to {last}", path, line=line)
        return int(word)
    number = network.vocabulary.id(word)
    if number is None and network.unk is None:
        raise VocabularyError(f"the model has neither {word[:60]!r} nor a word for unknown ones", path, line=line)
    return network.unk if number is None else number  # type: ignore[return-value]
