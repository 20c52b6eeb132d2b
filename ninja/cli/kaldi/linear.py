"""Commands that build lattices from paths: ``linear-to-nbest``, ``nbest-to-lattice`` and ``string-to-lattice``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import groupby
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from ninja import graph
from ninja.cli.command import InputFile
from ninja.cli.main import current_console
from ninja.cli.options import command, lattice_output, reads
from ninja.cli.source import WORDS_HELP, build_output, reads_lattices_alone
from ninja.errors import LatticeError, NinjaError, SymbolError, all_failed
from ninja.evaluate import read_text
from ninja.files.stream import STDIN
from ninja.io.inputs import Inputs
from ninja.io.lookup import KeyedTable
from ninja.io.number_tables import read_floats, read_integers
from ninja.io.sources import tables
from ninja.lattice import Lattice
from ninja.pipeline import Output
from ninja.pipeline.execution import open_output

_NUMBERED = re.compile(r"(.+)-[0-9]+", re.DOTALL)


@command
@click.argument("alignments", type=InputFile())
@reads("--transcriptions", "Transcript of each key: word ids, or words if --words is specified.", required=True)
@reads("--words", WORDS_HELP)
@reads("--lm-cost", "Graph cost of each key.  [default: 0]")
@reads("--ac-cost", "Acoustic cost of each key.  [default: 0]")
@click.option("--allow-pipes", is_flag=True, help="Allow shell commands as inputs ('ark:command |').")
@lattice_output(resume=False, per_input=False)
def linear_to_nbest(
    alignments: str,
    transcriptions: str,
    words: str | None,
    lm_cost: str | None,
    ac_cost: str | None,
    allow_pipes: bool,
    **writing_options: Any,
) -> None:
    """Build single-path lattices from alignments, words and costs.

    The inputs are text or binary tables. Keys of ALIGNMENTS without words or costs are reported and skipped.

    \b
    Example:
      ninja linear-to-nbest ark:1.ali --transcriptions 1.tra --lm-cost 1.lm --ac-cost 1.ac -o nbest.ark.gz
    """
    destination = build_output(writing_options)
    inputs = Inputs((alignments,), words, allow_pipes=allow_pipes, are_lattices=False, log=current_console().log)
    words_of = KeyedTable(_word_ids(inputs, transcriptions))
    costs = [
        None if name is None else KeyedTable(read_floats(name, allow_pipes=allow_pipes)) for name in (lm_cost, ac_cost)
    ]

    def lattice_of(key: str, alignment: npt.NDArray[np.int32]) -> Lattice:
        ids = words_of.get(key)
        graph_cost, acoustic_cost = (0.0 if table is None else table.get(key) for table in costs)
        if ids is None or graph_cost is None or acoustic_cost is None:
            table = transcriptions if ids is None else lm_cost if graph_cost is None else ac_cost
            raise LatticeError(f"{table} does not contain this key", key=key)
        return graph.linear(key, ids, alignment, graph_cost, acoustic_cost, inputs.table())

    entries = read_integers(alignments, allow_pipes=allow_pipes)
    _write(inputs, destination, ((key, partial(lattice_of, key, alignment)) for key, alignment in entries))


@command
@lattice_output(resume=False, per_input=False)
@reads_lattices_alone
def nbest_to_lattice(inputs: Inputs, destination: Output) -> None:
    """Combine n-best paths (keys ending in -1, -2, …) into lattices.

    The paths of an utterance must be consecutive.

    \b
    Example:
      ninja nbest-to-lattice nbest.ark.gz -o lat.ark.gz
    """

    def paths() -> Iterator[tuple[str, Lattice]]:
        for key, lattice in inputs.lattices():
            numbered = _NUMBERED.fullmatch(key)
            if numbered is not None:
                yield numbered[1], lattice.with_key(numbered[1])
            else:
                message = "the key does not end in -1, -2, … like the keys of n-best lists"
                inputs.log.fail(LatticeError(message, key=key))

    def unite(group: list[tuple[str, Lattice]]) -> Lattice:
        return graph.union([lattice for _, lattice in group], determinize=False)

    groups = groupby(paths(), key=lambda pair: pair[0])
    _write(inputs, destination, ((key, partial(unite, list(group))) for key, group in groups))


@command
@click.argument("text", type=InputFile())
@reads("--words", WORDS_HELP)
@lattice_output(resume=False, per_input=False)
def string_to_lattice(text: str, words: str | None, **writing_options: Any) -> None:
    """Build a lattice from each line of text.

    Each line of TEXT contains a key and word ids, or words if --words is specified. All costs are 0, and the alignment
    of each word is a single label, which is the word id.

    \b
    Example:
      ninja string-to-lattice text --words words.txt -o text.ark
    """
    destination = build_output(writing_options)
    inputs = Inputs((text,), words, are_lattices=False, log=current_console().log)

    def lattice_of(key: str, ids: npt.NDArray[np.int32]) -> Lattice:
        return graph.project(graph.linear(key, ids)).with_words(inputs.table())

    entries = _word_ids(inputs, text)
    _write(inputs, destination, ((key, partial(lattice_of, key, ids)) for key, ids in entries))


def _word_ids(inputs: Inputs, transcripts: str) -> Iterator[tuple[str, npt.NDArray[np.int32]]]:
    """Yield ``(key, word ids)`` for each transcript; transcripts contain words if there is a symbol table."""
    table = inputs.table()
    if table is None:
        yield from read_integers(transcripts, allow_pipes=inputs.allow_pipes)
        return
    paths = [STDIN] if transcripts == STDIN else [source.place.path for source in tables(transcripts)]
    for path in paths:
        for key, words in read_text(path).items():
            ids = table.ids(words)
            if -1 in ids:
                message = f"the word {words[ids.index(-1)]!r} is not in the symbol table"
                inputs.log.fail(SymbolError(message, path, key=key))
            else:
                yield key, np.array(ids, np.int32)


def _write(inputs: Inputs, destination: Output, entries: Iterable[tuple[str, Callable[[], Lattice]]]) -> None:
    """Build and write the lattice for each key, and report failures.

    Args:
        entries: ``(key, function)`` pairs; the function builds the lattice for the key.

    Raises:
        LatticeError: All lattices failed.
    """
    log = inputs.log
    with open_output(destination, inputs) as archive:
        for key, make_lattice in entries:
            try:
                lattice = make_lattice()
            except NinjaError as error:
                error.key = error.key or key
                log.fail(error)
            else:
                log.lattices += archive.take(lattice)
        if not log.lattices and log.failures:
            raise LatticeError(f"{all_failed(len(log.failures))}; no output is written")
    current_console().close_counting()
