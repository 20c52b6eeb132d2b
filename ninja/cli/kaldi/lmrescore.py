"""The command ``ninja lmrescore``, which adds or subtracts exact n-gram model scores."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any

import click

from ninja.cli.command import NamedFile
from ninja.cli.main import current_console
from ninja.cli.models import map_words, word_options
from ninja.cli.options import command, lattice_output, reads
from ninja.cli.source import reads_lattices, use_log, write
from ninja.errors import Log, ModelError, OptionError, counted
from ninja.io.inputs import Inputs
from ninja.lattice import Lattice
from ninja.lattice.batch import num_cores
from ninja.lattice.symbols import SymbolTable
from ninja.lm.ngram.compose import compose_ngram
from ninja.lm.ngram.model import NgramLM
from ninja.lm.protocol import LoadOptions
from ninja.lm.word_map import WordMap, WordMapping
from ninja.pipeline import Output
from ninja.pipeline.stages import OnLattices
from ninja.rescoring.algorithms import HELP
from ninja.rescoring.models import VocabularyCheck, load_model
from ninja.rescoring.utterances import ADVICE, RescoreReport, is_ambiguous


@lru_cache(1)
def loaded(path: str, words: SymbolTable | None, options: LoadOptions) -> NgramLM:
    """Load an n-gram model; the last model is cached.

    Raises:
        ModelError: The file contains a different type of model.
    """
    lm = load_model(path, words, Log(), options)
    if not isinstance(lm, NgramLM):
        message = "not an n-gram model (ARPA, const-arpa or G.fst); use `ninja rescore` for other models"
        raise ModelError(message, path)
    return lm


@lru_cache(1)
def mapped(
    lm: NgramLM, words: SymbolTable, num_words: int, unk_penalty: float | None, map_words: tuple[WordMapping, ...]
) -> WordMap:
    """Map the first ``num_words`` words of a growing symbol table to the words of a model; the last map is cached."""
    return WordMap(words, lm, unk_penalty, map_words=map_words)


def composed(lattice: Lattice, path: str, scale: float, load_options: LoadOptions, **how: Any) -> Lattice:
    """Add the costs of an n-gram model, times ``scale``, to the graph costs of a lattice.

    Args:
        how: Arguments ``unk_penalty`` and ``map_words`` of `mapped`.
    """
    words = lattice.words
    lm = loaded(path, words, load_options)
    word_map = None if words is None else mapped(lm, words, len(words), **how)
    return compose_ngram(lattice, lm, scale, word_map=word_map)


def _advised(lattices: Iterator[tuple[str, Lattice]], log: Log) -> Iterator[tuple[str, Lattice]]:
    """Yield lattices unchanged, and add a note if any lattice should be determinized first."""
    for key, lattice in lattices:
        if ADVICE not in log.notes and is_ambiguous(lattice):
            log.note(ADVICE)
        yield key, lattice


@command
@reads(
    "--lm",
    "N-gram model: ARPA, const-arpa or G.fst, or the shipped model english-ngram.",
    kind=NamedFile(),
    required=True,
)
@click.option("--lm-scale", default=1.0, help="Factor applied to the costs of the model; -1 subtracts them.")
@click.option(
    "--unk-penalty",
    type=float,
    help="Cost added to the cost of <unk> for each unknown word.  [default: ln of the number of words mapped to <unk>]",
)
@click.option("--max-unknown", type=click.FloatRange(0, 1), default=0.5, help=HELP["max_unknown"])
@map_words
@word_options("oov_score")
@lattice_output()
@reads_lattices
def lmrescore(
    inputs: Inputs,
    lm: str,
    lm_scale: float,
    unk_penalty: float | None,
    max_unknown: float,
    map_words: tuple[WordMapping, ...],
    load_options: LoadOptions,
    destination: Output,
) -> None:
    """Add exact n-gram model scores to lattices, or subtract them.

    The cost that the model assigns to each path, times --lm-scale, is added to the graph cost; words, times and
    acoustic costs are unchanged. Lattices are not pruned; states are split so that each has a single model history. If
    the model has no <unk>, unknown words require --oov-score. Lattices that are not determinized, such as
    PocketSphinx's, become many times larger; run `ninja prune` and `ninja determinize-pruned` first. By default,
    --words is words.txt or words.txt.gz next to SOURCE.

    \b
    Example:
      ninja lmrescore lat.ark.gz --lm old.arpa.gz --lm-scale -1 -o without_lm.ark.gz
    """
    for name, value in (("lm_scale", lm_scale), ("unk_penalty", unk_penalty or 0.0)):
        if not math.isfinite(value):
            raise OptionError(f"{name} is {value}, but must be finite")
    words = inputs.need_table()
    if (current_console().jobs or num_cores()) > 1 and unk_penalty is None:
        words.complete()  # otherwise the default penalty would depend on how many words have been read
    model = loaded(lm, words, load_options)  # loaded here first, so an error is reported only once
    if model.oov_score is not None:
        current_console().say(f"{lm} has no <unk>; unknown words are scored by --oov-score {model.oov_score}")
    how: dict[str, Any] = {"unk_penalty": unk_penalty, "map_words": map_words}
    function = partial(composed, path=lm, scale=lm_scale, load_options=load_options, **how)
    log = use_log(inputs, RescoreReport())
    check = VocabularyCheck(lambda words: [mapped(model, words, len(words), **how)], max_unknown, log.cover)
    arcs = write(OnLattices(function), inputs, destination, read=lambda part: _advised(check.read(part), log)).arcs
    check.close()
    log.note_coverage()
    current_console().close_counting(f", {counted(arcs, 'arc')}")
