"""The command ``ninja oracle``, which finds the path with the fewest errors in each lattice."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import compress
from typing import Any, NamedTuple, TextIO

import click

from ninja import evaluate
from ninja.cli.best import spelled
from ninja.cli.command import LatticeFile
from ninja.cli.kaldi.options import IDS
from ninja.cli.main import current_console
from ninja.cli.normalizer import lexical_forms, normalizer_option
from ninja.cli.options import command, output_file, reads, section, writes
from ninja.cli.source import reads_lattices, results
from ninja.errors import NAMED, FormatError, SymbolError, counted
from ninja.evaluate import ErrorRate, Numbered, oracle_rate
from ninja.evaluate.normal_form import reference_ids
from ninja.evaluate.scoring import NEVER, lexical_ids, number, word_id
from ninja.files.output import text_output
from ninja.files.stream import text_of
from ninja.files.text import line_fields
from ninja.graph.oracle import Oracle
from ninja.graph.oracle import oracle as nearest_path
from ninja.graph.split import paths_of
from ninja.io.inputs import Inputs
from ninja.lattice import Lattice
from ninja.lattice.batch import Batch
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.text import LexicalForms
from ninja.pipeline import Output
from ninja.pipeline.execution import OnBatches, open_output


class NearestPath(NamedTuple):
    """The path with the fewest errors in a lattice."""

    words: list[str]  # word ids if the lattice has no symbol table
    rate: ErrorRate
    touches_band: bool  # whether the search was limited, so that the result is approximate
    lattice: Lattice | None  # the path as a lattice, if requested


def nearest(
    batch: Batch,
    references: Numbered,
    texts: Mapping[str, Sequence[str]],
    oov: int,
    forms: LexicalForms,
    wildcards: tuple[int, ...],
    keep_lattices: bool,
) -> list[NearestPath | None]:
    """Find the path with the fewest errors in each lattice of a batch.

    Args:
        references: Word ids of the references, or the ids of their lexical words.
        texts: Reference words by key.
        oov: Id that represents unknown words.
        wildcards: Ids of words that never count as errors.
        keep_lattices: Also return the paths as lattices.

    Returns:
        The path in each lattice, or None for a lattice without a reference.
    """
    has_reference = [lattice.key in references.ids for lattice in batch]
    scored = batch if all(has_reference) else Batch.of(compress(batch, has_reference))
    table = forms.common_table(scored)
    ids = [
        references.of(lattice)
        if table is references.forms or table is None
        else lexical_ids(texts[lattice.key], table, oov)
        for lattice in scored
    ]
    paths = iter(nearest_path(scored, ids, wildcards, forms=table))

    def result(lattice: Lattice, path: Oracle) -> NearestPath:
        path_lattice = paths_of(lattice, path.words, wildcards) if keep_lattices else None
        return NearestPath(spelled(path.words, lattice.words), oracle_rate(path), path.touches_band, path_lattice)

    return [
        result(lattice, next(paths)) if known else None for lattice, known in zip(batch, has_reference, strict=True)
    ]


@command
@reads("--ref", "References: each line contains a key and its words.", required=True)
@click.option(
    "--oov",
    metavar="WORD|ID",
    help="Word or id that replaces reference words missing from --words.  [default: missing words never match]",
)
@click.option(
    "--wildcard-symbols",
    type=IDS,
    metavar="IDS",
    help="Ids of words that never count as errors, separated by colons, such as 5:17.",
)
@reads("--wildcard-symbols-list", "Words that never count as errors, one per line.")
@reads("--word-symbol-table", "Alias of --words.")
@click.option(
    "--strict", is_flag=True, help="Exit with code 1 if a lattice has no reference, or a reference has no lattice."
)
@normalizer_option
@section(
    "Input and output",
    output_file("Text file for the paths"),
    writes("--edits", "Write the number of errors of each lattice."),
    writes("--details", "Write the errors, path and reference of each lattice, like Kaldi's lattice-oracle."),
    writes("--write-lattices", "Write the paths as lattices.", kind=LatticeFile()),
)
@reads_lattices
def oracle(
    inputs: Inputs,
    output_file: str,
    ref: str,
    edits: str | None,
    details: str | None,
    write_lattices: str | None,
    oov: str | None,
    word_symbol_table: str | None,
    strict: bool,
    normalizer: str,
    **wildcards_by: Any,
) -> None:
    """Print the path with the fewest errors in each lattice.

    Each line contains a key and the words of the path. Without a symbol table, word ids are printed, and references
    must contain word ids as well. The word error rate of the paths, a lower bound for rescoring, is printed on stderr.
    With a normalizer, errors are counted on lexical forms, and the paths are printed in their written forms.

    \b
    Example:
      ninja oracle lat.ark.gz --ref text --words words.txt --edits edits.txt -o nearest.txt
    """
    if word_symbol_table is not None:
        if inputs.words is not None:
            raise click.UsageError("--word-symbol-table is an alias of --words; specify one of them")
        inputs.words = word_symbol_table
    table = inputs.table()
    if oov is not None and table is not None:
        table.complete()  # unknown words can be found only in the complete table
    wildcards = _wildcards(table, **wildcards_by)
    unknown = NEVER if oov is None else word_id(oov, table)
    texts = evaluate.read_text(ref)
    forms = lexical_forms(normalizer)
    if table is not None:
        # The normalizer `auto` selects `basic` even if only the references are written text.
        forms.normalizer_of([word for words in texts.values() for word in words])
    references = number(texts, table, unknown, forms=None if table is None or table.grows else forms.table_of(table))

    total, approximate = evaluate.ErrorRate(), []
    scored, unreferenced = set(), []
    with ExitStack() as stack:
        names = (output_file, edits, details)
        files = [None if name is None else stack.enter_context(text_output(name)) for name in names]
        archive = None
        if write_lattices is not None:
            archive = stack.enter_context(open_output(Output(write_lattices, kind="compact"), inputs))
        search = partial(
            nearest,
            references=references,
            texts=texts,
            oov=unknown,
            forms=forms,
            wildcards=wildcards,
            keep_lattices=archive is not None,
        )
        for key, path in results(OnBatches(search), inputs, to_stdout=output_file == "-"):
            if path is None:
                unreferenced.append(key)
                continue
            scored.add(key)
            total += path.rate
            approximate += [key] * path.touches_band
            _write(files, key, path, _remove_wildcards(wildcards, texts[key], table, unknown))
            if archive is not None and path.lattice is not None:
                archive.take(path.lattice)
        if not scored and not inputs.log.failures:
            raise FormatError("no lattice has a reference; check that the keys match", ref)
    console = current_console()
    failed = {failure.key for failure in console.log.failures}
    missing = [key for key in texts if key not in scored and key not in failed]
    console.say(f"Overall {_counts(total, 'substitutions')}")
    console.say(f"Scored {total.sentences} lattices, {len(unreferenced)} not present in ref.")
    console.say_keys(
        unreferenced, "lattices have no reference and were not scored", "lattice has no reference and was not scored"
    )
    console.say_keys(missing, "references have no lattice", "reference has no lattice")
    console.say_keys(
        approximate,
        "lattices are too long and dense for an exact search; they may have better paths",
        "lattice is too long and dense for an exact search; it may have better paths",
    )
    if (lexical := forms.table_of(table)) is not references.forms or (table is not None and table.grows):
        references = number(texts, table, unknown, forms=lexical)
    _report_unknown(inputs, references, [key for key in texts if key in scored], oov)
    console.close(failed=strict and bool(unreferenced or missing))


def _write(files: list[TextIO | None], key: str, path: NearestPath, reference: Sequence[str]) -> None:
    words, edits, details = files
    rate = path.rate
    if words is not None:
        words.write(" ".join([key, *path.words]) + "\n")
    if edits is not None:
        edits.write(f"{key} {rate.errors}\n")
    if details is not None:
        details.write(f"{_counts(rate, 'sub')}\nFor utterance {key}, best cost {rate.errors}\n")
        details.write(f"{' '.join([key, '(oracle)', *path.words])}\n{' '.join([key, '(reference)', *reference])}\n")


def _counts(rate: ErrorRate, substitutions: str) -> str:
    """Format an error rate like Kaldi's lattice-oracle."""
    return (
        f"%WER {rate.wer:g} [ {rate.errors} / {rate.words}, {rate.insertions} insertions, {rate.deletions} deletions, "
        f"{rate.substitutions} {substitutions} ]"
    )


def _remove_wildcards(
    wildcards: tuple[int, ...], words: Sequence[str], table: SymbolTable | None, unknown: int
) -> Sequence[str]:
    """Return the words in a reference, without wildcards."""
    if not wildcards:
        return words
    ids = [int(word) for word in words] if table is None else reference_ids(table, words)
    numbers = [unknown if number == NEVER else number for number in ids]
    return [word for word, number in zip(words, numbers, strict=True) if number not in wildcards]


def _report_unknown(inputs: Inputs, references: Numbered, scored: Collection[str], oov: str | None) -> None:
    unknown = references.unknown_in(scored)
    if unknown:
        treatment = "cannot match (see --oov)" if oov is None else f"can only match {oov}"
        examples = ", ".join(word for word, _ in unknown.most_common(NAMED))
        location = "any lattice" if inputs.words is None else "--words"
        current_console().say(
            f"{counted(unknown.total(), 'reference word')} ({len(unknown)} distinct) not in {location} {treatment}: "
            f"{examples}"
        )


def _wildcards(
    table: SymbolTable | None, wildcard_symbols: tuple[int, ...] | None, wildcard_symbols_list: str | None
) -> tuple[int, ...]:
    """Return the ids of words that never count as errors."""
    if (path := wildcard_symbols_list) is None:
        return wildcard_symbols or ()
    if wildcard_symbols is not None:
        raise click.UsageError("--wildcard-symbols cannot be used with --wildcard-symbols-list")
    if table is None:
        raise click.UsageError("--wildcard-symbols-list requires --words")
    ids = []
    for line, row in enumerate(text_of(path).removesuffix("\n").split("\n"), start=1):
        words = line_fields(row)
        if len(words) != 1:
            raise FormatError(f"expected one word, found {len(words)}", path, line=line)
        (word_id,) = table.intern([words[0]])
        if word_id < 0:
            raise SymbolError(f"the word {words[0]!r} is not in the symbol table", path, line=line)
        ids.append(word_id)
    return tuple(ids)
