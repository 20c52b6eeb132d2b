"""Word errors over a test set: of transcripts, and of the nearest paths of lattices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ninja.errors import FormatError, OptionError
from ninja.evaluate.error_rate import Alignment, ErrorRate, align
from ninja.evaluate.filtered_lattices import LatticeFilter
from ninja.evaluate.normal_form import composed_texts
from ninja.evaluate.word_filters import WordFilter
from ninja.graph.oracle import Oracle, oracle
from ninja.lattice import Lattice
from ninja.lattice.keyed import bare
from ninja.lattice.symbols import EPSILON, LARGEST_ID, SymbolTable

Mode = Literal["strict", "all", "present"]

NEVER = -1  # no arc carries it
_DIGITS = len(str(LARGEST_ID))


@dataclass(frozen=True, slots=True, eq=False)
class Numbered:
    """References as word ids, and their words without an id."""

    ids: Mapping[str, npt.NDArray[np.int32]]  # by utterance id
    unknown: Mapping[str, tuple[str, ...]]  # words without an id, of the utterances that have some
    spoken: Mapping[str, Sequence[str]] | None = None  # their words, where the table takes in those of each lattice

    def of(self, lattice: Lattice) -> npt.NDArray[np.int32]:
        """Return the word ids of a lattice's reference."""
        if self.spoken is None or lattice.words is None:
            return self.ids[lattice.key]
        return np.array(lattice.words.ids(self.spoken[lattice.key]), np.int32)

    def unknown_in(self, keys: Iterable[str]) -> Counter[str]:
        """Count the words without an id in some utterances."""
        return Counter(word for key in keys for word in self.unknown.get(key, ()))


def number(references: Mapping[str, Sequence[str]], words: SymbolTable | None, oov: int = NEVER) -> Numbered:
    """Turn references into word ids.

    Args:
        references: Words said, by utterance id; ids in decimal where there is no table.
        words: Symbol table of the lattices, if the references are words. Of one that grows, the words are those that
            it has by now; the result's ``of`` asks it anew.
        oov: Id of words that the table lacks: -1 matches nothing; Kaldi's recipes use that of ``<unk>``.

    Raises:
        FormatError: Without a table, something is not the id of a word.

    Source: Kaldi, egs/wsj/s5/utils/sym2int.pl, ``--map-oov``.
    """
    ids, unknown = {}, {}
    for key, reference in references.items():
        if words is None:
            wrong = next((word for word in reference if not is_id(word)), None)
            if wrong is not None:
                advice = "give the symbol table with --words if the references are words"
                raise FormatError(f"{wrong!r} is no word id; {advice}", key=key)
        numbers = list(map(int, reference)) if words is None else words.ids(reference)
        if words is not None and NEVER in numbers:
            unknown[key] = tuple(word for word, each in zip(reference, numbers, strict=True) if each == NEVER)
            numbers = [oov if each == NEVER else each for each in numbers]
        ids[key] = np.array(numbers, np.int32)
    return Numbered(ids, unknown, references if words is not None and words.grows and oov == NEVER else None)


def word_id(word: str, words: SymbolTable | None) -> int:
    """Return the id of a word, or of an id in decimal."""
    if is_id(word) and int(word) != EPSILON:
        return int(word)
    found = None if words is None else words.id(word)
    if found is None or found == EPSILON:
        raise OptionError(f"{word!r} is neither a word id, 1 to {LARGEST_ID}, nor a word of the symbol table")
    return found


def is_id(word: str) -> bool:
    """Tell whether a word is an integer that could be the id of a word or of epsilon."""
    return word.isascii() and word.isdigit() and len(word) <= _DIGITS and int(word) <= LARGEST_ID


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
    keys = scored_keys(references, hypotheses, mode)
    references, hypotheses = composed_texts(references), composed_texts(hypotheses)
    return {key: align(references[key], hypotheses.get(key, ())) for key in keys}


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
            f"{len(missing)} of {len(references)} references have no hypothesis; score them as empty with "
            "--mode all (mode='all'), or leave them out with --mode present (mode='present')",
            key=missing[0],
        )
    return [key for key in references if mode == "all" or key in hypotheses]


def oracle_score(
    lattices: Iterable[Lattice],
    references: Mapping[str, Sequence[str]],
    words: SymbolTable,
    unknown: int = NEVER,
    wildcards: Collection[int] = (),
    *,
    how: WordFilter | None = None,
) -> ErrorRate:
    """Count the errors of the nearest path of each lattice, the least that rescoring could reach.

    They may be more than the fewest in lattices too long and too flat to compare whole; see ``ninja.graph.Oracle``.

    Args:
        lattices: Those without a reference are counted, not scored.
        references: Words said, by utterance id; those without a lattice are counted as missing, not scored.
        unknown: Id of reference words that the table lacks: -1 matches nothing; Kaldi's recipes use that of ``<unk>``.
        wildcards: Word ids that are no errors wherever they stand; see ``ninja.graph.oracle``.
        how: Changes of the words of lattices, one by one; the references are changed already. `unknown` and `wildcards`
            have no effect then.

    Raises:
        LatticeError: A lattice has no path to a final state.
        FormatError: No lattice has a reference.
        OptionError: Rules of the global mapping file replace several words at once.
    """
    total, found = ErrorRate(), set()
    changes = None if how is None else LatticeFilter(how)
    said = number(references, words, unknown) if changes is None else None
    for lattice in bare(lattices):
        if lattice.key not in references:
            total += ErrorRate(unreferenced=1)
            continue
        found.add(lattice.key)
        if changes is not None:
            reference = np.array(changes.table.intern(references[lattice.key]), np.int32)
            total += oracle_rate(oracle(changes.lattice(lattice, words), reference))
        elif said is not None:
            total += oracle_rate(oracle(lattice, said.of(lattice), wildcards))
    if not found:
        raise FormatError("no lattice has a reference; do the utterance ids belong together?")
    return total + ErrorRate(missing=len(references) - len(found))


def oracle_rate(found: Oracle) -> ErrorRate:
    """Count the errors of one nearest path."""
    counts = (found.substitutions, found.insertions, found.deletions)
    return ErrorRate(found.num_words, *counts, 1, int(found.edits > 0))
