"""The command group ``ninja lm``, which describes, applies and converts language models."""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice
from typing import Any, NamedTuple

import click

from ninja.cli.command import Command, InputFile, ModelFile, NamedFile, Sectioned
from ninja.cli.main import current_console
from ninja.cli.models import (
    DEVICE_HELP,
    WORD_OPTIONS,
    ModelType,
    backend_option,
    endpoint_options,
    refuse_endpoint_options,
    word_options,
)
from ninja.cli.normalizer import normalizer_option
from ninja.cli.options import output_file, reads, writes
from ninja.errors import FormatError, VocabularyError, check_range
from ninja.files.output import text_output
from ninja.files.stream import Place, decoded, open_stream
from ninja.files.text import line_fields
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.text import LexicalForms
from ninja.libraries import needed_for
from ninja.lm import EndpointOptions, LanguageModel
from ninja.lm.lexical import LexicalLM
from ninja.lm.load import CHECKPOINT, detect_format, open_model, place_of, refuse_unused_classes
from ninja.lm.perplexity import Perplexity
from ninja.lm.protocol import Backend, LoadOptions
from ninja.lm.trie import word_logprobs

BATCH = 256  # sentences per batch
HEAD_LINES = 1000  # the first lines of a text determine whether its words are written or lexical
MAX_KNOWN_KEYS = 0.5  # if more than this share of the keys is in the vocabulary, the keys are probably words


class Sentence(NamedTuple):
    """A sentence, read from a line of a text."""

    key: str
    ids: list[int]  # word ids of the model
    unknown: list[bool]  # whether each word is scored as <unk>
    share: float  # share of the text up to and including this line, in (0, 1]


@click.group()
def lm() -> None:
    """Score text with language models; describe or convert models.

    MODEL is any model that `ninja rescore --rnnlm` accepts.

    \b
    Examples:
      ninja lm info rnnlm_dir
      ninja lm score rnnlm_dir text.txt > logprobs.txt
      ninja lm convert rnnlm_dir -o rnnlm.pt
    """


def _loads_model(command: Command) -> Command:
    """Add the argument MODEL and its options; the command receives ``name``, and the loaded model as ``model``."""

    @click.argument("model", type=ModelType())
    @click.option(
        "--normalize/--no-normalize",
        default=None,
        help="Normalise scores exactly, or leave them unnormalised.  [default: as the model was trained]",
    )
    @click.option("--device", default="auto", help=DEVICE_HELP)
    @backend_option
    @reads("--words", "Symbol table of a model that stores only word ids.", load=SymbolTable.read)
    @word_options(*WORD_OPTIONS)
    @endpoint_options
    @functools.wraps(command)
    def with_model(
        model: str,
        normalize: bool | None,
        device: str,
        backend: Backend,
        words: SymbolTable | None,
        load_options: LoadOptions,
        endpoint: EndpointOptions | None,
        **options: Any,
    ) -> None:
        refuse_endpoint_options([model])
        load_options = replace(load_options, device=device, normalize=normalize, words=words, backend=backend)
        load_options = replace(load_options, endpoint=endpoint)
        lm = open_model(model, load_options)
        refuse_unused_classes([lm], load_options)
        command(name=model, model=lm, **options)

    return with_model


@lm.command(cls=Sectioned)
@_loads_model
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def info(name: str, model: LanguageModel, as_json: bool) -> None:
    """Show the type and size of a language model.

    \b
    Example:
      ninja lm info rnnlm_dir
    """
    kind = detect_format(name).name
    vocabulary = model.vocabulary
    facts: dict[str, Any] = {
        "kind": kind.removeprefix("an ").removeprefix("a "),
        "words": "any, in pieces" if model.open_vocabulary else len(vocabulary),
        "parameters": model.num_parameters,
        "sentence begin": None if model.bos is None else vocabulary.word(model.bos),
        "sentence end": vocabulary.word(model.eos),
        "unknown word": None if model.unk is None else vocabulary.word(model.unk),
        "words sharing <unk>": model.unk_words if model.oov_score is None else None,
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
@output_file("Text file for the scores")
@click.option("--keys/--no-keys", default=True, help="Whether each line of TEXT begins with a key.")
@click.option("--int", "as_ids", is_flag=True, help="TEXT contains word ids of the model instead of words.")
@click.option(
    "--unk-penalty", default=0.0, help="Cost in nats that is added to the cost of <unk> for each unknown word."
)
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

    Each line of TEXT contains a key and the words of a sentence; if TEXT is -, it is read from stdin. Each output line
    contains the key, the log-probability of each word, and the log-probability of the end of the sentence. Unknown
    words are scored as <unk>. If the model has no <unk>, they are skipped as in SRILM and their score is 0, unless
    --oov-score is specified. The log-probability of a word is the sum over the words of its lexical form.

    Counts and perplexities are printed on stderr in the format of SRILM's ngram -ppl: OOVs is the number of unknown
    words, zeroprobs the number of words with probability zero, logprob the base-10 log-probability of the text, ppl the
    perplexity per word and end of sentence, and ppl1 the perplexity per word. If OOVs are scored, a third line contains
    the values without OOVs.

    \b
    Example:
      ninja lm score rnnlm_dir text.txt > logprobs.txt
    """
    check_range("unk_penalty", unk_penalty, finite=True)
    if model.unk is None and model.takes_oov_score:
        model.score_oovs("skip")
        current_console().say(f"{name} has no <unk>; skipping OOVs, like SRILM (see --oov-score)")
    lines = _lines(text)
    head = list(islice(lines, HEAD_LINES))
    if not as_ids and not model.reads_written:
        forms = LexicalForms(normalizer, current_console().say)
        if not forms.normalizer_of([word for _, _, fields in head for word in fields[keys:]]).is_identity:
            model = LexicalLM(model, forms)
    sentences = _sentences(model, chain(head, lines), text, keys, as_ids)
    totals = Perplexity(skips_unknown=model.oov_score == "skip" and not unk_penalty)
    to_stdout = output_file == "-"
    with text_output(output_file) as stream, current_console().progress("sentences", to_stdout=to_stdout) as bar:
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
        current_console().say(line)


@lm.command(cls=Sectioned)
@click.argument("model", type=NamedFile())
@writes(
    "-o",
    "Output: a checkpoint, an .onnx file, or folder/ for Caffe2 nets.",
    "--output-file",
    kind=ModelFile(allow_folder=True),
    required=True,
)
def convert(model: str, output_file: str) -> None:
    """Convert a language model to another format, with the same scores.

    A Kaldi RNNLM is converted to a Ninja checkpoint, a single file that includes the vocabulary. A Ninja checkpoint is
    converted between the safetensors format and torch's format (.pt). A Ninja LSTM is converted to an ONNX model or, if
    the output is a folder, to a pair of Caffe2 nets.

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
    """Warn if keys look like words of the text: some are duplicates, or most are in the vocabulary."""
    duplicate = next((key for key, count in Counter(keys).items() if count > 1), None)
    num_known = 0 if model.open_vocabulary else sum(key in model.vocabulary for key in keys)
    if duplicate is not None:
        reason = f"several lines begin with {duplicate!r}"
    elif num_known > MAX_KNOWN_KEYS * len(keys):
        reason = f"{num_known} of {len(keys)} keys are words in the vocabulary"
    else:
        return
    advice = "use --no-keys if the lines have no keys"
    current_console().say(f"warning: the first word of each line is taken as its key, but {reason}; {advice}")


def _sentences(
    model: LanguageModel, lines: Iterable[tuple[int, float, list[str]]], path: str, has_keys: bool, as_ids: bool
) -> Iterator[Sentence]:
    """Yield the lines of a text as sentences with the model's word ids; see `_lines`."""
    marks = {model.eos} if model.bos is None else {model.bos, model.eos}
    for line, share, fields in lines:
        if has_keys and not fields:
            raise FormatError("the line is empty; add a key, or use --no-keys", path, line=line)
        key = fields.pop(0) if has_keys else ""
        ids = [_id_of(model, word, as_ids, path, line) for word in fields]
        if not marks.isdisjoint(ids):
            mark = model.vocabulary.word(next(word_id for word_id in ids if word_id in marks))
            raise FormatError(f"the text contains {mark}, which is implied; remove it", path, line=line)
        # Like SRILM, count an <unk> in the text as an OOV if the model has no <unk>.
        unk = None if model.oov_score is None else model.unk
        unknown = [word not in model.vocabulary or word_id == unk for word, word_id in zip(fields, ids, strict=True)]
        yield Sentence(key, ids, [not as_ids and is_unknown for is_unknown in unknown], share)


def _lines(path: str) -> Iterator[tuple[int, float, list[str]]]:
    """Yield ``(line number, fraction of the lines yielded so far, fields)`` for each line of a text."""
    place = Place(path)
    with open_stream(place) as stream:
        text = decoded(stream.rest(), place.name)
    lines = text.removesuffix("\n").split("\n") if text else []
    for number, line in enumerate(lines, start=1):
        yield number, number / len(lines), line_fields(line)


def _id_of(model: LanguageModel, word: str, as_ids: bool, path: str, line: int) -> int:
    if as_ids:
        last = len(model.vocabulary) - 1
        if not word.isdecimal() or len(word.lstrip("0")) > len(str(last)) or int(word) > last:
            raise FormatError(f"{word[:40]!r} is not a word id of the model; expected 0 to {last}", path, line=line)
        return int(word)
    word_id = model.vocabulary.id(word)
    if word_id is None and model.unk is None:
        raise VocabularyError(f"{word[:60]!r} is unknown, and the model has no <unk>; set --oov-score", path, line=line)
    return model.unk if word_id is None else word_id  # type: ignore[return-value]
