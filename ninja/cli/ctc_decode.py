"""The command ``ninja ctc-decode``, which decodes the output matrices of CTC models into lattices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import click
import numpy.typing as npt

from ninja.cli.archives import unchanged
from ninja.cli.command import InputFile
from ninja.cli.main import current_console
from ninja.cli.options import command, frame_shift_option, from_fields, jobs, lattice_output, reads, section
from ninja.cli.source import WORDS_HELP, build_inputs, write
from ninja.cli.units import unit_options
from ninja.decoding.ctc import ctc_search, require_hypotheses
from ninja.decoding.ctc_options import WITH_TRACKER, CtcOptions
from ninja.decoding.ctc_result import CtcResult
from ninja.decoding.emissions import Scale, log_probabilities
from ninja.decoding.lexicon import CtcLexicon
from ninja.decoding.matrices import read_matrices
from ninja.decoding.units import CtcUnits
from ninja.errors import LatticeError, ModelError, NinjaError, OptionError, counted
from ninja.io.inputs import Inputs
from ninja.lattice import Lattice
from ninja.lattice.batch import in_order, num_cores
from ninja.lattice.symbols import EPSILON, EPSILON_NAME, SymbolTable
from ninja.pipeline.execution import OnBatches
from ninja.pipeline.stages import call_safely


@dataclass(frozen=True, slots=True)
class Emission:
    """An output matrix of a CTC model, with the attributes that the pipeline expects of a lattice."""

    key: str
    matrix: npt.NDArray[Any]
    path: str  # file of the matrix
    words: None = None  # a matrix has no symbol table

    @property
    def num_arcs(self) -> int:
        """Number of matrix elements, from which the pipeline estimates the amount of work."""
        return self.matrix.size


def search(
    emission: Any, units: CtcUnits, lexicon: CtcLexicon | None, options: CtcOptions, scale: Scale, nbest: int | None
) -> CtcResult:
    """Return at most ``nbest`` hypotheses for a matrix, the most probable first.

    Raises:
        NinjaError: The key or the matrix is invalid, or the search finds no hypothesis. The error contains the file
            name.
    """
    try:
        if emission.key.split() != [emission.key]:
            raise LatticeError("the key is empty or contains whitespace; rename the matrix or its file")
        if emission.matrix.ndim == 2 and not len(emission.matrix):
            raise ModelError("the matrix has no frames")
        result = ctc_search(log_probabilities(emission.matrix, scale), units, lexicon, options)
        require_hypotheses(result, lexicon)
        return result.best(nbest)
    except NinjaError as error:
        error.path = error.path or emission.path
        raise


class GrowingTable(SymbolTable):
    """Symbol table that numbers words in order of appearance."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__([(EPSILON_NAME, EPSILON)])

    def add(self, result: CtcResult) -> None:
        """Add the new words in a result to the table."""
        for word in result.words():
            word_id = self._id.setdefault(word, len(self._id))
            self._word[word_id] = word


def decode(
    inputs: Inputs,
    function: Callable[[Any], CtcResult],
    symbols: SymbolTable,
    unknown: str | None,
    frame_shift: float | None,
) -> Iterator[tuple[str, Lattice]]:
    """Decode matrices on several threads, and yield ``(key, lattice)`` in input order.

    Args:
        inputs: Files that contain matrices; failures are added to the log.
        function: Function that decodes an `Emission`.
        symbols: Symbol table for the words.
        unknown: Word that replaces words missing from the table; if None, a lattice with a missing word is a failure.
        frame_shift: Seconds per matrix row, or None if unknown.
    """
    log = inputs.log
    for key, result in in_order(
        lambda pair: (pair[0], call_safely(function, pair[1])), _matrices(inputs), current_console().jobs or num_cores()
    ):
        try:
            if isinstance(result, NinjaError):
                raise result
            if isinstance(symbols, GrowingTable):
                symbols.add(result)
            lattice = result.lattice(key, symbols, unknown, frame_shift)
        except NinjaError as error:
            log.fail(error, key)
        else:
            yield key, lattice


def _matrices(inputs: Inputs) -> Iterator[tuple[str, Any]]:
    is_empty = True
    for key, matrix, path in read_matrices(inputs.places, inputs.on_failure, allow_pipes=inputs.allow_pipes):
        is_empty = False
        yield key, Emission(key, matrix, path)
    if is_empty and not inputs.log.failures:
        raise LatticeError(f"{', '.join(inputs.places)}: found no matrices; no output is written")


@command
@click.argument("matrices", nargs=-1, required=True, type=InputFile())
@unit_options
@section(
    "Words",
    reads("--words", f"{WORDS_HELP} A word missing from the table is an error."),
    click.option("--unk", metavar="WORD", help="With --words: word that replaces words missing from the table."),
)
@section(
    "Search",
    click.option(
        "--scale",
        type=click.Choice(["logprob", "logit", "prob"]),
        default="logprob",
        help="Scale of the matrix values: natural log-probabilities, logits or probabilities.",
    ),
    from_fields(CtcOptions, skip=WITH_TRACKER),
    click.option(
        "--nbest",
        type=click.IntRange(1),
        help="Number of most probable word sequences to keep per lattice.  [default: all]",
    ),
    frame_shift_option("Seconds per row of the matrices.  [default: unknown]"),
)
@lattice_output(resume=False)
@section(
    "Running",
    jobs,
    click.option(
        "--on-error",
        type=click.Choice(["skip", "raise"]),
        default="skip",
        help="Skip failed matrices and exit with code 1 at the end, or stop at the first failure.",
    ),
    click.option("--allow-pipes", is_flag=True, help="Allow shell commands as MATRICES ('ark:command |')."),
)
def ctc_decode(
    matrices: tuple[str, ...],
    units: CtcUnits,
    lexicon: CtcLexicon | None,
    scale: Scale,
    nbest: int | None,
    frame_shift: float | None,
    unk: str | None,
    **options: Any,
) -> None:
    """Decode the output matrices of a CTC model into lattices by prefix beam search.

    MATRICES are NumPy files (.npy, .npz), torch files, Kaldi archives, Kaldi script files, folders of such files, or -
    for stdin. A matrix has one row per frame and one column per unit; the unit names are specified with --tokens,
    --letters or --sentencepiece. The paths of a lattice are the word sequences in the beam. The acoustic cost of a path
    is the negative natural logarithm of its probability.

    With --words, word ids come from an existing symbol table. Otherwise, words are numbered in the order of the
    lexicon, so archives decoded with the same lexicon have the same word ids. Without a lexicon, words are numbered in
    order of appearance. The new symbol table is written to --words-out or, by default, next to the archive.

    \b
    Example:
      ninja ctc-decode logits.npz --scale logit --letters " abcdefghijklmnopqrstuvwxyz'" --blank 28 \\
        --words-out words.txt -o lat.ark
      ninja rescore lat.ark --words words.txt --acoustic-scale 1 -o rescored.ark
    """
    symbols = _symbols(options["words"], lexicon)
    widths = build_inputs(matrices, options, words=symbols)
    inputs, destination = widths.pop("inputs"), widths.pop("destination")
    keeps = destination.resolved.format.keeps
    if unk is not None and (inputs.words is None or unk not in symbols):
        missing = (
            "--unk requires --words" if inputs.words is None else f"--unk is {unk!r}, which is not in {inputs.words}"
        )
        raise OptionError(missing)
    function = partial(search, units=units, lexicon=lexicon, options=CtcOptions(**widths), scale=scale, nbest=nbest)

    def lattices(part: Inputs) -> Iterable[tuple[str, Lattice]]:
        decoded = decode(part, function, symbols, unk, frame_shift)
        # The symbol table precedes the lattices in the output, so all words must be known first.
        has_table_first = {"ids", "names"} <= keeps and isinstance(symbols, GrowingTable)
        return list(decoded) if has_table_first else decoded

    arcs = write(OnBatches(unchanged), inputs, destination, read=lattices).arcs
    current_console().close_counting(f", {counted(arcs, 'arc')}")


def _symbols(words: str | None, lexicon: CtcLexicon | None) -> SymbolTable:
    """Return the symbol table of the decoded words.

    If ``words`` is set, the table is read from this file. Otherwise, it contains the words of the lexicon or, without
    a lexicon, grows as words appear.
    """
    if words is not None:
        return SymbolTable.read(words)
    if lexicon is None:
        return GrowingTable()
    unique_words = dict.fromkeys(word for homophones in lexicon.words.values() for word in homophones)
    return SymbolTable.from_words([EPSILON_NAME, *unique_words])
