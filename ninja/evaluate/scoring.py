"""Word errors over a test set: of transcripts, and of the nearest paths of lattices."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

from ninja.errors import FormatError, OptionError
from ninja.evaluate.error_rate import Alignment, ErrorRate, align
from ninja.evaluate.references import NEVER, number
from ninja.graph.oracle import Oracle, oracle
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable

Mode = Literal["strict", "all", "present"]


def score(
    references: Mapping[str, Sequence[str]], hypotheses: Mapping[str, Sequence[str]], mode: Mode = "strict"
) -> ErrorRate:
    """Count word errors over a test set, as Kaldi's compute-wer does.

    Args:
        references: Words said, by utterance id.
        hypotheses: Words recognised; ids without a reference are counted, not scored.
        mode: Of references without a hypothesis: "strict" refuses, "all" scores them as if nothing had been
            recognised, "present" leaves them out.

    Raises:
        FormatError: A reference has no hypothesis (mode "strict"), or no utterance is in both.
        OptionError: ``mode`` is none of the three.
    """
    rate = sum((alignment.rate() for alignment in score_each(references, hypotheses, mode).values()), ErrorRate())
    return rate + count_absent(references, hypotheses)


def count_absent(references: Collection[str], hypotheses: Collection[str]) -> ErrorRate:
    """Count the references without a hypothesis and the hypotheses without a reference."""
    return ErrorRate(
        missing=sum(key not in hypotheses for key in references),
        unreferenced=sum(key not in references for key in hypotheses),
    )


def score_each(
    references: Mapping[str, Sequence[str]], hypotheses: Mapping[str, Sequence[str]], mode: Mode = "strict"
) -> dict[str, Alignment]:
    """Align the hypothesis of each utterance, in the order of the references; arguments and errors as ``score``."""
    return {key: align(references[key], hypotheses.get(key, ())) for key in scored_keys(references, hypotheses, mode)}


def scored_keys(references: Collection[str], hypotheses: Collection[str], mode: Mode) -> list[str]:
    """List the utterances that are scored, in the order of the references; arguments and errors as ``score``."""
    if mode not in ("strict", "all", "present"):
        raise OptionError(f"mode is {mode!r}, but must be one of strict, all, present")
    missing = [key for key in references if key not in hypotheses]
    if len(missing) == len(references):
        raise FormatError(
            f"none of the {len(references)} references has a hypothesis; do the utterance ids belong together?"
        )
    if missing and mode == "strict":
        raise FormatError(
            f"{len(missing)} of {len(references)} references have no hypothesis; score them as empty with mode 'all', "
            "or leave them out with 'present'",
            key=missing[0],
        )
    return [key for key in references if mode == "all" or key in hypotheses]


def oracle_score(
    lattices: Iterable[Lattice],
    references: Mapping[str, Sequence[str]],
    words: SymbolTable,
    unknown: int = NEVER,
    wildcards: Collection[int] = (),
) -> ErrorRate:
    """Count the errors of the nearest path of each lattice, the least that rescoring could reach.

    Args:
        lattices: Those without a reference are counted, not scored.
        references: Words said, by utterance id; those without a lattice are counted as missing, not scored.
        words: Symbol table of the lattices.
        unknown: Id of reference words that the table lacks: -1 matches nothing; Kaldi's recipes use that of ``<unk>``.
        wildcards: Word ids that are no errors wherever they stand; see ``ninja.graph.oracle``.

    Raises:
        LatticeError: A lattice has no path to a final state.
        FormatError: No lattice has a reference.
    """
    total, found = ErrorRate(), set()
    said = number(references, words, unknown).ids
    for lattice in lattices:
        if lattice.key not in said:
            total += ErrorRate(unreferenced=1)
            continue
        found.add(lattice.key)
        total += oracle_rate(oracle(lattice, said[lattice.key], wildcards))
    if not found:
        raise FormatError("no lattice has a reference; do the utterance ids belong together?")
    return total + ErrorRate(missing=len(references) - len(found))


def oracle_rate(found: Oracle) -> ErrorRate:
    """Count the errors of one nearest path."""
    counts = (found.substitutions, found.insertions, found.deletions)
    return ErrorRate(found.num_words, *counts, 1, int(found.edits > 0))
