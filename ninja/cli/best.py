"""The commands ``ninja best`` and ``ninja nbest``, which print the best word sequences of lattices."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import numpy as np
import numpy.typing as npt

from ninja import graph
from ninja.cli.confidence import ConfidenceSettings, confidence_options
from ninja.cli.main import current_console
from ninja.cli.normalizer import lexical_forms, normalizer_option
from ninja.cli.options import command, output_file, reads, section, writes
from ninja.cli.source import reads_lattices, results, run_lines, say_default, scales
from ninja.files.output import text_output
from ninja.io.inputs import Inputs
from ninja.lattice import Lattice, Scales
from ninja.lattice.batch import Batch
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.text import LexicalForms
from ninja.pipeline.stages import OnLattices

if TYPE_CHECKING:
    from ninja.cli.phrase_tags import PhraseTags


class Transcript(NamedTuple):
    """The words, alignment and costs of a path."""

    words: list[str]  # word ids if the lattice has no symbol table
    alignment: npt.NDArray[np.int32]
    graph_cost: float
    acoustic_cost: float


def transcripts(lattice: Lattice, n: int, scales: Scales, forms: LexicalForms | None) -> list[Transcript]:
    """Return the n best transcripts of a lattice, best first; if ``forms`` is set, their lexical forms are distinct."""
    table = None if forms is None else forms.table(lattice)
    if n == 1 and table is None:
        paths = [graph.best_path(lattice, scales)]
    else:
        paths = graph.nbest(lattice, n, scales, forms=table)
    return [
        Transcript(spelled(path.words, lattice.words), path.alignment, path.graph_cost, path.acoustic_cost)
        for path in paths
    ]


def best_lines(batch: Batch, scales: Scales) -> list[str]:
    """Return one line per lattice in a batch: the key and the words of the best path."""
    best = graph.best_words(batch, scales)
    words = spelled(best.words, batch.table)
    ends = pairwise(best.begin.tolist())
    return [" ".join([key, *words[first:last]]) + "\n" for key, (first, last) in zip(batch.keys, ends, strict=True)]


def spelled(ids: npt.NDArray[np.int32], words: SymbolTable | None) -> list[str]:
    """Return the words with these ids; if there is no symbol table, return the ids as strings."""
    return words.spell(ids.tolist()) if words else list(map(str, ids.tolist()))


def best_words(lattice: Lattice, scales: Scales) -> list[str]:
    """Return the words of the best path; if there is no symbol table, return their ids as strings."""
    return spelled(graph.best_path(lattice, scales).words, lattice.words)


def transcript_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the arguments and options that ``best`` and ``nbest`` share."""
    outputs = section(
        "Input and output",
        output_file("Text file for the word sequences"),
        writes("--alignment", "Write the transition ids of each path."),
        writes("--cost", "Write the graph cost and acoustic cost of each path."),
    )
    return scales(outputs(reads_lattices(function)))


@command
@confidence_options
@transcript_options
@section(
    "Input and output",
    writes("--json", "Write the words with times and confidences as JSON, one line per lattice.", "json_file"),
    reads(
        "--tags",
        "Phrases, as for `ninja context --entities`; mark them with their classes, as in 'call [@name tom chen]'.",
    ),
)
def best(
    inputs: Inputs,
    confidence: ConfidenceSettings,
    json_file: str | None,
    tags: str | None,
    output_file: str,
    **values: Any,
) -> None:
    """Print the best word sequence of each lattice.

    Each line contains a key and its words, or word ids if there is no symbol table.

    Each line of --json contains a key, the text and its words. Each word has a confidence and, if the lattice has
    times, its start and end in seconds. The confidence is the posterior or, with --confidence, the calibrated
    probability that the word is correct. With --unboosted, each word also has its confidence without boosts. With
    --tags, each line also lists the phrases. A phrase has a class, a text, the index of its first word (begin), and the
    index after its last word (end).

    \b
    Examples:
      ninja best lat.ark.gz --words words.txt --acoustic-scale 0.1
      ninja best lat.ark.gz --words words.txt --acoustic-scale 0.1 --json words.json --confidence model.toml
      ninja best boosted.ark.gz --words words.txt --json words.json --unboosted lat.ark.gz
      ninja best boosted.ark.gz --words words.txt --tags names.jsonl
    """
    if json_file is None:
        if confidence.are_set:
            raise click.UsageError("--confidence and --unboosted require --json; other outputs contain no confidences")
        return _transcribe(inputs, 1, None, tags=tags, output_file=output_file, **values)
    if values["alignment"] is not None or values["cost"] is not None:
        raise click.UsageError("--json cannot be used with --alignment or --cost")
    from ninja.cli.confident_words import write_best_words

    write_best_words(inputs, confidence, values["scales"], json_file, output_file, _phrase_tags(inputs, tags))


@command
@click.option("--n", "-n", type=click.IntRange(1), default=10, help="Number of word sequences per lattice.")
@normalizer_option
@transcript_options
def nbest(inputs: Inputs, n: int, normalizer: str, **values: Any) -> None:
    """Print the n best word sequences of each lattice.

    Each line contains a key with the suffix -1, -2, … and the words, or word ids if there is no symbol table. The
    sequences of a lattice are distinct, and the best comes first. With a normalizer, their lexical forms are distinct
    as well.

    \b
    Example:
      ninja nbest lat.ark.gz -n 5 --words words.txt --acoustic-scale 0.1 --cost costs.txt
    """
    _transcribe(inputs, n, lexical_forms(normalizer), **values)


def _transcribe(
    inputs: Inputs,
    n: int,
    forms: LexicalForms | None,
    *,
    tags: str | None = None,
    output_file: str,
    alignment: str | None,
    cost: str | None,
    scales: Scales,
) -> None:
    """Write the n best transcripts of each lattice; if `forms` is set, append -1, -2, … to the keys."""
    numbered = forms is not None
    inputs.needs_words = True
    to_stdout = output_file == "-"
    if not numbered and alignment is None is cost is tags:
        run_lines(partial(best_lines, scales=scales), inputs, output_file)
        say_default(inputs)
        current_console().close()
    phrases = _phrase_tags(inputs, tags)
    utterances = results(OnLattices(partial(transcripts, n=n, scales=scales, forms=forms)), inputs, to_stdout=to_stdout)
    with ExitStack() as stack:
        text, alignments, costs = (
            None if name is None else stack.enter_context(text_output(name)) for name in (output_file, alignment, cost)
        )
        assert text is not None
        for utterance, paths in utterances:
            for number, path in enumerate(paths, start=1):
                key = f"{utterance}-{number}" if numbered else utterance
                line = " ".join(path.words) if phrases is None else phrases.tagged(utterance, path.words)[0]
                text.write(f"{key} {line}".rstrip() + "\n")
                if alignments is not None:
                    alignments.write(" ".join([key, *map(str, path.alignment.tolist())]) + "\n")
                if costs is not None:
                    costs.write(f"{key} {path.graph_cost:.7g} {path.acoustic_cost:.7g}\n")
    say_default(inputs)
    current_console().close()


def _phrase_tags(inputs: Inputs, entities: str | None) -> PhraseTags | None:
    if entities is None:
        return None
    from ninja.cli.phrase_tags import PhraseTags

    return PhraseTags(inputs, entities)
