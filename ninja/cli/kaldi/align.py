"""Commands that align lattices with words or phones: ``align-words``, ``align-words-lexicon`` and ``align-phones``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import click

from ninja.cli.command import Command
from ninja.cli.kaldi.options import model_option
from ninja.cli.main import current_console
from ninja.cli.options import command, lattice_output, reads, switch
from ninja.cli.source import reads_lattices, write
from ninja.errors import LatticeError, Log, NinjaError
from ninja.formats.kaldi.word_phones import read_align_lexicon, read_word_boundary
from ninja.graph.align import (
    Aligned,
    LexiconAligner,
    LexiconAlignment,
    PhoneAligner,
    PhoneAlignment,
    WordAligner,
    WordAlignment,
)
from ninja.io.inputs import Inputs
from ninja.lattice import Lattice
from ninja.lattice.batch import Batch
from ninja.lattice.transition_model import TransitionModel
from ninja.lattice.word_phones import AlignLexicon, WordBoundary
from ninja.pipeline import Output
from ninja.pipeline.stages import call_safely


@dataclass(frozen=True, slots=True)
class Alignment:
    """Batch stage that aligns lattices, reports damaged lattices and, if requested, returns their aligned parts.

    Args:
        align: Function that aligns one lattice.
        align_batch: Function that aligns a batch in one call; it returns None if any lattice is damaged.
        output_error_lats: Return the aligned part of a damaged lattice.
        output_if_empty: Return a lattice unchanged if no part of it can be aligned.
        accept_damage: Report damaged lattices instead of raising an error.
    """

    align: Callable[[Lattice], Aligned]
    align_batch: Callable[[Batch], Batch | None] | None
    output_error_lats: bool
    output_if_empty: bool = False
    accept_damage: bool = True

    def apply(self, batch: Batch, log: Log) -> Batch:
        """Align the lattices in a batch; report damaged lattices and, if requested, return their aligned parts."""
        if self.align_batch is not None and (aligned := self.align_batch(batch)) is not None:
            return aligned
        entries: list[tuple[str, Lattice | NinjaError]] = []
        for lattice in batch:
            aligned_lattice = call_safely(self.align, lattice)
            if isinstance(aligned_lattice, NinjaError):
                entries.append((lattice.key, aligned_lattice))
            else:
                entries += ((lattice.key, result) for result in self._results(lattice, aligned_lattice))
        return Batch.of_entries(entries)

    def _results(self, lattice: Lattice, aligned: Aligned) -> Iterator[Lattice | NinjaError]:
        if aligned.fault is None or not self.accept_damage:
            yield aligned.whole(lattice.key)
            return
        result = aligned.lattice if self.output_error_lats else None
        action = "the lattice is not written" if result is None else "only its aligned part is written"
        if aligned.lattice is None and self.output_if_empty:
            result, action = lattice, "the lattice is written unchanged"
        yield LatticeError(f"{aligned.fault}: {action}", key=lattice.key)
        if result is not None:
            yield result


def _label(name: str, text: str) -> Callable[[Command], Command]:
    return click.option(name, type=click.IntRange(0, 2**31 - 1), default=0, metavar="ID", help=text)


_reorder = switch(
    "--reorder", True, "Whether self-loops follow the transition out of their state in the decoding graph."
)
_output_error_lats = switch(
    "--output-error-lats", True, "Write the aligned part of lattices that cannot be aligned completely."
)
_partial_word_label = _label("--partial-word-label", "Word id for an incomplete word at the end of a lattice.")
_max_expand = "Report an error if the result has more than 1000 + FACTOR × (input states) states;"


@command
@reads(
    "--word-boundary",
    "Word-boundary type of each phone (word_boundary.int).",
    required=True,
    load=read_word_boundary,
)
@model_option
@_label("--silence-label", "Word id for silences; 0 for epsilon.")
@_partial_word_label
@_reorder
@click.option(
    "--max-expand", type=click.FloatRange(0), metavar="FACTOR", default=0.0, help=f"{_max_expand} 0 for no limit."
)
@_output_error_lats
@lattice_output()
@reads_lattices
def align_words(
    inputs: Inputs,
    destination: Output,
    word_boundary: WordBoundary,
    model: TransitionModel,
    output_error_lats: bool,
    **values: Any,
) -> None:
    """Align arcs with words and silences using word-position-dependent phones.

    Each arc of the result has one word or silence, and exactly the frames of its phones. Use `ninja
    align-words-lexicon` for models whose phones do not depend on their position in the word. Lattices that
    cannot be aligned completely are reported with their keys.

    \b
    Example:
      ninja align-words lat.ark --word-boundary word_boundary.int --model final.mdl -o aligned.ark
    """
    aligner = WordAligner(model, word_boundary, WordAlignment(**values))
    _write(inputs, destination, aligner, aligner.all, output_error_lats=output_error_lats)


@command
@reads("--lexicon", "Phones of each word (align_lexicon.int).", required=True, load=read_align_lexicon)
@model_option
@_partial_word_label
@_reorder
@click.option("--max-expand", metavar="FACTOR", default=-1.0, help=f"{_max_expand} 0 or less for no limit.")
@_output_error_lats
@switch("--output-if-empty", False, "Write a lattice unchanged if no part of it can be aligned.")
@lattice_output()
@reads_lattices
def align_words_lexicon(
    inputs: Inputs,
    destination: Output,
    lexicon: AlignLexicon,
    model: TransitionModel,
    output_error_lats: bool,
    output_if_empty: bool,
    **values: Any,
) -> None:
    """Align arcs with words using a lexicon.

    Each arc of the result has one word or silence, and exactly the frames of its phones. Unlike `ninja align-words`,
    this command does not require word-position-dependent phones. Each line of the lexicon contains a word id, the word
    id to output, and phone ids.

    \b
    Example:
      ninja align-words-lexicon lat.ark --lexicon align_lexicon.int --model final.mdl -o aligned.ark
    """
    aligner = LexiconAligner(model, lexicon, LexiconAlignment(**values))
    _write(inputs, destination, aligner, output_error_lats=output_error_lats, output_if_empty=output_if_empty)


@command
@model_option
@switch("--replace-output-symbols", False, "Replace words with phones.")
@switch("--remove-epsilon", True, "Merge phones without a word into the next arc with a word.")
@_reorder
@_output_error_lats
@lattice_output()
@reads_lattices
def align_phones(
    inputs: Inputs, destination: Output, model: TransitionModel, output_error_lats: bool, **values: Any
) -> None:
    """Align arcs with phones.

    Each phone becomes an arc with exactly its frames. By default, --remove-epsilon then merges phones without a word
    into the next arc with a word. Each word is on the arc of the phone during which the decoder emitted it, which is
    not necessarily a phone of that word.

    \b
    Example:
      ninja align-phones lat.ark --model final.mdl --replace-output-symbols -o phones.ark
    """
    aligner = PhoneAligner(model, PhoneAlignment(**values))
    _write(inputs, destination, aligner, output_error_lats=output_error_lats)


def _write(
    inputs: Inputs,
    destination: Output,
    align: Callable[[Lattice], Aligned],
    align_batch: Callable[[Batch], Batch | None] | None = None,
    **values: Any,
) -> NoReturn:
    write(Alignment(align, align_batch, accept_damage=current_console().tolerant, **values), inputs, destination)
    damaged = len(inputs.log.failures)
    current_console().close_counting(f" written, {damaged} with errors")
