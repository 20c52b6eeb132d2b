"""``ninja align-words``, ``ninja align-words-lexicon`` and ``ninja align-phones``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NoReturn

import click

from ninja.cli.kaldi.options import model_option
from ninja.cli.options import Command, Destination, command, lattice_output, reads, switch
from ninja.cli.run import write
from ninja.cli.source import Source, reads_lattices
from ninja.errors import LatticeError
from ninja.formats.kaldi.word_phones import AlignLexicon, WordBoundary, read_align_lexicon, read_word_boundary
from ninja.graph.align import (
    Aligned,
    LexiconAligner,
    LexiconAlignment,
    PhoneAligner,
    PhoneAlignment,
    WordAligner,
    WordAlignment,
)
from ninja.lattice import Lattice
from ninja.lattice.batch import Batch
from ninja.lattice.transition_model import TransitionModel
from ninja.log import Log
from ninja.parallel.pipeline import Apart, Each, Keyed


def aligned(
    lattices: Keyed,
    log: Log,
    *,
    align: Callable[[Lattice], Aligned],
    output_error_lats: bool,
    output_if_empty: bool = False,
) -> Iterator[tuple[str, Lattice]]:
    """Align lattices; of damaged ones report the fault and yield the part that aligns."""

    def one(lattice: Lattice) -> Lattice | None:
        found = align(lattice)
        if found.fault is None or log.on_error is None:
            return found.whole(lattice.key)
        result = found.lattice if output_error_lats else None
        said = "left out" if result is None else "what can be aligned is written"
        if found.lattice is None and output_if_empty:
            result, said = lattice, "written as it was"
        log.fail(LatticeError(f"{found.fault}: {said}", key=lattice.key))
        return result

    for key, result in Each(one)(lattices, log):
        if result is not None:
            yield key, result


def _label(name: str, text: str) -> Callable[[Command], Command]:
    return click.option(name, type=click.IntRange(0, 2**31 - 1), default=0, metavar="ID", help=text)


_reorder = switch("--reorder", True, "Self-loops follow the transition that ends a phone; as the graph was made.")
_output_error_lats = switch("--output-error-lats", True, "Write the part of damaged lattices that can be aligned.")
_partial_word_label = _label("--partial-word-label", "Word id of words cut off at the end.")
_max_expand = "Fail lattices that grow beyond 1000 states and this many times;"


@command
@reads("--word-boundary", "Word positions of phones (word_boundary.int).", required=True, load=read_word_boundary)
@model_option
@_label("--silence-label", "Word id of silences; 0: they carry no word.")
@_partial_word_label
@_reorder
@click.option("--max-expand", type=click.FloatRange(0), default=0.0, help=f"{_max_expand} 0: never.")
@_output_error_lats
@lattice_output()
@reads_lattices
def align_words(
    source: Source,
    destination: Destination,
    word_boundary: WordBoundary,
    model: TransitionModel,
    output_error_lats: bool,
    **given: Any,
) -> None:
    """Align arcs with words and silences, by word positions.

    Each arc gets one word, or silence, and exactly the frames of its phones. For models whose phones tell where in a
    word they stand. Damaged lattices are reported with their keys.

    \b
    Example:
      ninja align-words lat.ark --word-boundary word_boundary.int --model final.mdl -o aligned.ark
    """
    aligner = WordAligner(model, word_boundary, WordAlignment(**given))
    _write(source, destination, aligner, aligner.all, output_error_lats=output_error_lats)


@command
@reads("--lexicon", "Phones of words (align_lexicon.int).", required=True, load=read_align_lexicon)
@model_option
@_partial_word_label
@_reorder
@click.option("--max-expand", default=-1.0, help=f"{_max_expand} 0 or less: never.")
@_output_error_lats
@switch("--output-if-empty", False, "Write a lattice unchanged if no part of it can be aligned.")
@lattice_output()
@reads_lattices
def align_words_lexicon(
    source: Source,
    destination: Destination,
    lexicon: AlignLexicon,
    model: TransitionModel,
    output_error_lats: bool,
    output_if_empty: bool,
    **given: Any,
) -> None:
    """Align arcs with words, by a lexicon.

    Each arc gets one word, and exactly the frames of its phones. For any model; the lexicon's lines are a word's id,
    the id to put for it, and the ids of its phones.

    \b
    Example:
      ninja align-words-lexicon lat.ark --lexicon align_lexicon.int --model final.mdl -o aligned.ark
    """
    aligner = LexiconAligner(model, lexicon, LexiconAlignment(**given))
    _write(source, destination, aligner, output_error_lats=output_error_lats, output_if_empty=output_if_empty)


@command
@model_option
@switch("--replace-output-symbols", False, "Put phones in the place of words.")
@switch("--remove-epsilon", True, "Join phones without a word to the next one with a word.")
@_reorder
@_output_error_lats
@lattice_output()
@reads_lattices
def align_phones(
    source: Source, destination: Destination, model: TransitionModel, output_error_lats: bool, **given: Any
) -> None:
    """Align arcs with phones.

    Each arc gets one phone and exactly its frames. Words stand on the arcs of the phones they are read with, which
    need not be their own.

    \b
    Example:
      ninja align-phones lat.ark --model final.mdl --replace-output-symbols -o phones.ark
    """
    aligner = PhoneAligner(model, PhoneAlignment(**given))
    _write(source, destination, aligner, output_error_lats=output_error_lats)


def _write(
    source: Source,
    destination: Destination,
    align: Callable[[Lattice], Aligned],
    whole: Callable[[Batch], Batch | None] | None = None,
    **given: Any,
) -> NoReturn:
    write(Apart(partial(aligned, align=align, **given), whole), source, destination)
    damaged = len(source.console.log.failures)
    source.console.close_counting(f"lattices written, {damaged} with errors")
