"""``ninja ctc-decode``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

import click

from ninja.cli.options import from_fields, lattice_output
from ninja.cli.places import check_places, check_stdin
from ninja.cli.reading import WORDS_HELP, OutputOptions, Reading
from ninja.cli.units import unit_options
from ninja.ctc.found import CtcFound
from ninja.ctc.search import CtcOptions
from ninja.errors import LatticeError, ModelError, NinjaError, OptionError
from ninja.formats.textual import EPSILON_NAME
from ninja.lattice.symbols import EPSILON, SymbolTable
from ninja.log import Log
from ninja.parallel.pipeline import Each, stream

if TYPE_CHECKING:
    import numpy.typing as npt

    from ninja.ctc.lexicon import CtcLexicon
    from ninja.ctc.units import CtcUnits
    from ninja.lattice import Lattice

HELP = {
    "beam": "Prefixes kept at each frame; 0 is all.",
    "score_beam": "Drop prefixes that are worse than the best by more, in nats.",
    "max_units": "Units that may follow a prefix at each frame, the most probable; 0 is all.",
    "min_logprob": "Take units less probable as impossible, a frame's best one aside, in nats.",
}


@dataclass(frozen=True, slots=True)
class Emission:
    """A matrix on its way through the pipeline, which asks of it what it asks of a lattice."""

    key: str
    matrix: npt.NDArray[Any]
    path: str  # of its file
    words: None = None

    @property
    def num_arcs(self) -> int:
        """How much work it is: its numbers."""
        return self.matrix.size


@dataclass(frozen=True, slots=True)
class Decoding:
    """The function from a matrix to its hypotheses, picklable."""

    units: CtcUnits
    lexicon: CtcLexicon | None
    options: CtcOptions
    scale: Literal["logprob", "logit", "prob"]
    nbest: int | None

    def __call__(self, emission: Emission) -> CtcFound:
        """Search.

        Raises:
            LatticeError: The key is none, or the lexicon allows no hypothesis.
            ModelError: The matrix is empty, or does not hold what it should.
        """
        try:
            return self._found(emission)
        except NinjaError as error:
            error.path = error.path or emission.path
            raise

    def _found(self, emission: Emission) -> CtcFound:
        from ninja.ctc.search import ctc_search, log_probabilities

        if emission.key.split() != [emission.key]:
            raise LatticeError("the key is empty or holds a blank; give the matrix, or its file, another name")
        if emission.matrix.ndim == 2 and not len(emission.matrix):
            raise ModelError("the matrix has no frames")
        values = log_probabilities(emission.matrix, self.scale)
        found = ctc_search(values, self.units, self.lexicon, self.options)
        if not len(found):
            raise LatticeError("no hypothesis within the beam is made of words of the lexicon; widen it")
        return found.best(self.nbest)


class GrowingTable(SymbolTable):
    """A symbol table that numbers words as they come; no number ever changes."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__([(EPSILON_NAME, EPSILON)])

    def add(self, found: CtcFound) -> None:
        """Number the words of hypotheses."""
        for word in found.words():
            number = self._id.setdefault(word, len(self._id))
            self._word[number] = word


@dataclass(slots=True, kw_only=True)
class Emissions(Reading):
    """One command's run over its matrices; what it reads are the lattices made of these."""

    decoding: Decoding
    symbols: SymbolTable
    unknown: str | None
    frame_shift: float | None
    workers: int
    at_once: bool  # the output has the symbol table at its begin

    def table(self) -> SymbolTable:
        """Return the symbol table that all lattices share."""
        return self.symbols

    def lattices(self) -> Iterator[tuple[str, Lattice]]:
        """Read the sources, one after the other, and search."""
        made = self._made()
        yield from list(made) if self.at_once and isinstance(self.symbols, GrowingTable) else made

    def _made(self) -> Iterator[tuple[str, Lattice]]:
        log = Log(on_error=self.failed if self.on_error == "skip" else None)
        decoded = stream(self._matrices(), Each(cast(Any, self.decoding)), jobs=self.workers, log=log)
        for key, found in cast("Iterator[tuple[str, CtcFound]]", decoded):
            if isinstance(self.symbols, GrowingTable):
                self.symbols.add(found)
            try:
                lattice = found.lattice(key, self.symbols, self.unknown, self.frame_shift)
            except NinjaError as error:
                log.fail(error)
            else:
                yield key, lattice

    def _matrices(self) -> Iterator[tuple[str, Any]]:
        from ninja.ctc.matrices import located_matrices

        tolerated = self.failed if self.on_error == "skip" else None
        none_yet = True
        for key, matrix, path in located_matrices(self.source, tolerated, allow_pipes=self.allow_pipes):
            none_yet = False
            yield key, Emission(key, matrix, path)
        if none_yet and not self.log.failures:
            raise LatticeError(f"there is no matrix in {', '.join(self.source)}; nothing is written")


@click.command()
@click.argument("matrices", nargs=-1, required=True)
@lattice_output("The lattices")
@unit_options
@click.option(
    "--scale",
    type=click.Choice(["logprob", "logit", "prob"]),
    default="logprob",
    show_default=True,
    help="What the numbers are: natural log-probabilities, scores before the softmax, or probabilities.",
)
@from_fields(CtcOptions, HELP)
@click.option("--nbest", type=click.IntRange(1), help="Word sequences kept, the most probable.  [default: all found]")
@click.option("--frame-shift", type=click.FloatRange(0, min_open=True), help="Seconds per row of the matrices.")
@click.option("--words", metavar="FILE", help=f"{WORDS_HELP} Other words are refused.")
@click.option("--unk", metavar="WORD", help="With --words: the word that stands for those it lacks.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Worker processes.")
@click.option(
    "--on-error",
    type=click.Choice(["skip", "raise"]),
    default="skip",
    show_default=True,
    help="Go on after a matrix failed (exit code 1 at the end), or stop there.",
)
@click.option("--allow-pipes", is_flag=True, help="Run a command typed as MATRICES ('ark:command |').")
def ctc_decode(
    matrices: tuple[str, ...],
    output_file: str,
    to: str | None,
    lossy: Literal["allow", "refuse"],
    words_out: str | None,
    units: CtcUnits,
    lexicon: CtcLexicon | None,
    unit_files: list[str],
    scale: Literal["logprob", "logit", "prob"],
    nbest: int | None,
    frame_shift: float | None,
    words: str | None,
    unk: str | None,
    jobs: int,
    on_error: str,
    allow_pipes: bool,
    **beams: Any,
) -> None:
    """Decode the output matrices of a CTC model into lattices by prefix beam search.

    MATRICES are files of NumPy (.npy, .npz) or torch, Kaldi archives and lists of matrices, folders of these, or -. A
    matrix has a row for each frame and a column for each unit; --tokens, --letters or --sentencepiece names these. The
    paths of a lattice are the word sequences found; what they cost, -log p, is their acoustic cost.

    Words are numbered in the order in which they appear, or, with a lexicon, in its order, so that archives made with
    the same one fit each other; their symbol table goes to --words-out, or beside the archive. With --words the ids are
    those of a table that there is already.

    \b
    Example:
      ninja ctc-decode logits.npz --scale logit --letters " abcdefghijklmnopqrstuvwxyz'" --blank 28 \\
        --words-out words.txt -o lat.ark
      ninja rescore lat.ark --words words.txt --acoustic-scale 1 -o rescored.ark
    """
    from ninja.io.targets import format_of

    form, _ = format_of(output_file, to)
    reading = Emissions(
        *(matrices, words, 1, on_error, allow_pipes),
        output=OutputOptions(to, lossy, words_out),
        decoding=Decoding(units, lexicon, CtcOptions(**beams), scale, nbest),
        symbols=_symbols(words, lexicon),
        unknown=unk,
        frame_shift=frame_shift,
        workers=jobs,
        at_once=form == "native",
    )
    check_stdin(matrices)
    check_places([output_file, words_out], unit_files, reading)
    if unk is not None and (words is None or unk not in reading.symbols):
        raise OptionError("--unk is of use with --words only" if words is None else f"--unk: {unk!r} is not in {words}")
    arcs = reading.write(output_file, Each(_itself))
    reading.close(f"{reading.log.lattices} lattices, {arcs} arcs, {reading.seconds:.1f} s")


def _symbols(words: str | None, lexicon: CtcLexicon | None) -> SymbolTable:
    """Return the symbol table that is given, that of the words of a lexicon in its order, or one that grows."""
    if words is not None:
        return SymbolTable.read(words)
    if lexicon is None:
        return GrowingTable()
    said = dict.fromkeys(word for alike in lexicon.words.values() for word in alike)
    return SymbolTable.from_words([EPSILON_NAME, *said])


def _itself(lattice: Lattice) -> Lattice:
    return lattice
