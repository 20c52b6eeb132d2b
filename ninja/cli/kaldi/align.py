"""``ninja align-words``, ``ninja align-words-lexicon`` and ``ninja align-phones``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from ninja.cli.options import Command, lattice_output, resume
from ninja.cli.places import check_places
from ninja.cli.reading import Reading, reads_lattices
from ninja.cli.switches import switch
from ninja.errors import LatticeError
from ninja.lattice import Lattice
from ninja.log import Log
from ninja.parallel.pipeline import Each, Keyed

if TYPE_CHECKING:
    from ninja.graph.align import Aligned

ARCHIVE = "Archive for the aligned lattices, or a wspecifier such as ark,t:FILE"


@dataclass(frozen=True, slots=True)
class Aligning:
    """The stage that aligns lattices: what can be aligned of damaged ones is a result, and they are reported, too."""

    align: Callable[[Lattice], Aligned]
    output_error_lats: bool
    output_if_empty: bool = False

    def __call__(self, lattices: Keyed, log: Log) -> Iterator[tuple[str, Lattice]]:
        """Yield the aligned lattices."""
        for key, result in Each(lambda lattice: self._result(lattice, log))(lattices, log):
            if result is not None:
                yield key, result

    def _result(self, lattice: Lattice, log: Log) -> Lattice | None:
        found = self.align(lattice)
        if found.fault is None or log.on_error is None:
            return found.whole(lattice.key)
        result = found.lattice if self.output_error_lats else None
        said = "left out" if result is None else "what can be aligned is written"
        if found.lattice is None and self.output_if_empty:
            result, said = lattice, "written as it was"
        log.fail(LatticeError(f"{found.fault}: {said}", key=lattice.key))
        return result


def _model_option(command: Command) -> Command:
    return click.option("--model", metavar="FILE", required=True, help="Transition model (final.mdl).")(command)


def _reorder(command: Command) -> Command:
    return switch("--reorder", True, "Self-loops follow the transition that ends a phone; as the graph was made.")(
        command
    )


def _label(name: str, text: str) -> Callable[[Command], Command]:
    return click.option(name, type=click.IntRange(0, 2**31 - 1), default=0, show_default=True, metavar="ID", help=text)


def _output_error_lats(command: Command) -> Command:
    return switch("--output-error-lats", True, "Write what can be aligned of damaged lattices, too.")(command)


_silence_label = _label("--silence-label", "Word id of silences; 0: they carry no word.")
_partial_word_label = _label("--partial-word-label", "Word id of parts of words where decoding broke off.")


@click.command()
@lattice_output()
@click.option("--word-boundary", metavar="FILE", required=True, help="Places of phones in words (word_boundary.int).")
@_model_option
@_silence_label
@_partial_word_label
@_reorder
@click.option(
    "--max-expand",
    type=click.FloatRange(0),
    default=0.0,
    show_default=True,
    help="Give up a lattice beyond 1000 states and this many times its own; 0: never.",
)
@_output_error_lats
@resume
@reads_lattices
def align_words(
    reading: Reading,
    output_file: str,
    word_boundary: str,
    model: str,
    silence_label: int,
    partial_word_label: int,
    reorder: bool,
    max_expand: float,
    output_error_lats: bool,
    resume: bool,
) -> None:
    """Give each arc of lattices one word, or silence, and exactly the frames of its phones.

    For models whose phones tell where in a word they stand. Damaged lattices are reported with their keys.

    \b
    Example:
      ninja align-words lat.ark --word-boundary word_boundary.int --model final.mdl -o aligned.ark
    """
    from ninja.formats.kaldi.transition_model import read_transition_model
    from ninja.formats.kaldi.word_phones import read_word_boundary
    from ninja.graph.align import WordAligner, WordAlignment

    check_places([output_file], [word_boundary, model], reading)
    options = WordAlignment(silence_label, partial_word_label, reorder, max_expand)
    aligner = WordAligner(read_transition_model(model), read_word_boundary(word_boundary), options)
    _run(reading, output_file, Aligning(aligner, output_error_lats), resume)


@click.command()
@lattice_output()
@click.option("--lexicon", metavar="FILE", required=True, help="Phones of words (align_lexicon.int).")
@_model_option
@_partial_word_label
@_reorder
@click.option(
    "--max-expand",
    type=float,
    default=-1.0,
    show_default=True,
    help="Give up a lattice beyond 1000 states and this many times its phone lattice's; 0 or less: never.",
)
@_output_error_lats
@switch("--output-if-empty", False, "Write a lattice as it was where nothing of it can be aligned.")
@resume
@reads_lattices
def align_words_lexicon(
    reading: Reading,
    output_file: str,
    lexicon: str,
    model: str,
    partial_word_label: int,
    reorder: bool,
    max_expand: float,
    output_error_lats: bool,
    output_if_empty: bool,
    resume: bool,
) -> None:
    """Give each arc of lattices one word, and exactly the frames of its phones, by a lexicon.

    For any model; the lexicon's lines are a word's id, the id to put for it, and the ids of its phones.

    \b
    Example:
      ninja align-words-lexicon lat.ark --lexicon align_lexicon.int --model final.mdl -o aligned.ark
    """
    from ninja.formats.kaldi.transition_model import read_transition_model
    from ninja.formats.kaldi.word_phones import read_align_lexicon
    from ninja.graph.align import LexiconAligner, LexiconAlignment

    check_places([output_file], [lexicon, model], reading)
    options = LexiconAlignment(partial_word_label, reorder, max_expand)
    aligner = LexiconAligner(read_transition_model(model), read_align_lexicon(lexicon), options)
    _run(reading, output_file, Aligning(aligner, output_error_lats, output_if_empty), resume)


@click.command()
@lattice_output()
@_model_option
@switch("--replace-output-symbols", False, "Put phones in the place of words.")
@switch("--remove-epsilon", True, "Join phones without a word to the next one with a word.")
@_reorder
@_output_error_lats
@resume
@reads_lattices
def align_phones(
    reading: Reading,
    output_file: str,
    model: str,
    replace_output_symbols: bool,
    remove_epsilon: bool,
    reorder: bool,
    output_error_lats: bool,
    resume: bool,
) -> None:
    """Give each arc of lattices one phone and exactly its frames.

    Words stand on the arcs of the phones they are read with, which need not be their own.

    \b
    Example:
      ninja align-phones lat.ark --model final.mdl --replace-output-symbols -o phones.ark
    """
    from ninja.formats.kaldi.transition_model import read_transition_model
    from ninja.graph.align import PhoneAligner, PhoneAlignment

    check_places([output_file], [model], reading)
    options = PhoneAlignment(replace_output_symbols, remove_epsilon, reorder)
    _run(reading, output_file, Aligning(PhoneAligner(read_transition_model(model), options), output_error_lats), resume)


def _run(reading: Reading, output_file: str, stage: Aligning, resume: bool) -> None:
    reading.write(output_file, stage, resume=resume)
    damaged = len(reading.log.failures)
    reading.close(f"{reading.log.lattices} lattices written, {damaged} with errors, {reading.seconds:.1f} s")
