"""Word error rates: transcripts against references, and the best a lattice could do."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Literal

from ninja import utf8
from ninja.errors import FormatError, OptionError
from ninja.graph.oracle import oracle
from ninja.lattice import Lattice
from ninja.symbols import SymbolTable

Mode = Literal["strict", "all", "present"]
_GAP = "\0"  # no word of a text file can be this


@dataclass(frozen=True, slots=True)
class ErrorRate:
    """Counts of word errors; add them up over parts of a test set, or use ``sum(rates, ErrorRate())``."""

    words: int = 0  # in the references
    substitutions: int = 0
    insertions: int = 0
    deletions: int = 0
    sentences: int = 0  # scored
    sentence_errors: int = 0  # sentences with at least one error
    missing: int = 0  # references without a hypothesis
    unreferenced: int = 0  # hypotheses without a reference, never scored

    @property
    def correct(self) -> int:
        """Reference words recognised."""
        return self.words - self.substitutions - self.deletions

    @property
    def errors(self) -> int:
        """Substitutions, insertions and deletions together."""
        return self.substitutions + self.insertions + self.deletions

    @property
    def wer(self) -> float:
        """Word error rate in percent; without reference words, 0 if there are no errors, else infinite."""
        return _percent(self.errors, self.words)

    @property
    def ser(self) -> float:
        """Sentence error rate in percent."""
        return _percent(self.sentence_errors, self.sentences)

    def __add__(self, other: ErrorRate) -> ErrorRate:
        """Add up all counts."""
        if not isinstance(other, ErrorRate):
            return NotImplemented
        return ErrorRate(*(getattr(self, count.name) + getattr(other, count.name) for count in fields(ErrorRate)))

    def __str__(self) -> str:
        """Return the three lines Kaldi's compute-wer prints."""
        return (
            f"%WER {self.wer:.2f} [ {self.errors} / {self.words}, {self.insertions} ins, {self.deletions} del, "
            f"{self.substitutions} sub ]{' [PARTIAL]' if self.missing else ''}\n"
            f"%SER {self.ser:.2f} [ {self.sentence_errors} / {self.sentences} ]\n"
            f"Scored {self.sentences} sentences, {self.missing} not present in hyp."
        )


@dataclass(frozen=True, slots=True)
class Alignment:
    """A hypothesis laid beside its reference, word by word."""

    pairs: tuple[tuple[str | None, str | None], ...]  # (reference, hypothesis); None: nothing on that side

    def rate(self) -> ErrorRate:
        """Count the errors of this one sentence."""
        insertions = sum(said is None for said, _ in self.pairs)
        deletions = sum(heard is None for _, heard in self.pairs)
        substitutions = sum(said is not None and heard is not None and said != heard for said, heard in self.pairs)
        wrong = insertions + deletions + substitutions > 0
        return ErrorRate(len(self.pairs) - insertions, substitutions, insertions, deletions, 1, int(wrong))

    def __str__(self) -> str:
        """Return two lines, reference above hypothesis, ``***`` where a word is missing."""
        lines = ["ref:", "hyp:"]
        for pair in self.pairs:
            cells = [word or "***" for word in pair]
            width = max(map(len, cells))
            lines = [f"{line} {cell.ljust(width)}" for line, cell in zip(lines, cells, strict=True)]
        return "\n".join(line.rstrip() for line in lines)


def align(reference: Sequence[str], hypothesis: Sequence[str]) -> Alignment:
    """Lay a hypothesis beside its reference with the fewest edits.

    Source: kaldialign, ``align``, the alignment of Kaldi's scoring.
    """
    import kaldialign

    pairs = kaldialign.align(reference, hypothesis, _GAP)
    return Alignment(tuple((said if said != _GAP else None, heard if heard != _GAP else None) for said, heard in pairs))


def edits(reference: Sequence[Hashable], hypothesis: Sequence[Hashable]) -> int:
    """Count the fewest substitutions, insertions and deletions that lead from one to the other."""
    import kaldialign

    return int(kaldialign.edit_distance(reference, hypothesis)["total"])


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
    missing = sum(key not in hypotheses for key in references)
    unreferenced = sum(key not in references for key in hypotheses)
    return rate + ErrorRate(missing=missing, unreferenced=unreferenced)


def score_each(
    references: Mapping[str, Sequence[str]], hypotheses: Mapping[str, Sequence[str]], mode: Mode = "strict"
) -> dict[str, Alignment]:
    """Align the hypothesis of each utterance, in the order of the references; arguments and errors as ``score``."""
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
    return {
        key: align(reference, hypotheses.get(key, ()))
        for key, reference in references.items()
        if mode == "all" or key in hypotheses
    }


def oracle_score(
    lattices: Iterable[Lattice], references: Mapping[str, Sequence[str]], words: SymbolTable, unknown: int = -1
) -> ErrorRate:
    """Count the errors of the nearest path of each lattice: what no rescoring of them can go below.

    Args:
        lattices: Lattices; those without a reference are counted, not scored.
        references: Words said, by utterance id; those without a lattice are counted as missing, not scored.
        words: Symbol table of the lattices.
        unknown: Id of reference words that the table lacks: -1 matches nothing; Kaldi's recipes use that of ``<unk>``.

    Raises:
        LatticeError: A lattice has no path to a final state.
        FormatError: No lattice has a reference.
    """
    total = ErrorRate()
    found = set()
    for lattice in lattices:
        reference = references.get(lattice.key)
        if reference is None:
            total += ErrorRate(unreferenced=1)
            continue
        found.add(lattice.key)
        numbers = [unknown if (number := words.id(word)) is None else number for word in reference]
        best = oracle(lattice, numbers)
        counts = (best.substitutions, best.insertions, best.deletions)
        total += ErrorRate(len(numbers), *counts, 1, int(best.edits > 0))
    if not found:
        raise FormatError("no lattice has a reference; do the utterance ids belong together?")
    return total + ErrorRate(missing=len(references) - len(found))


def read_text(path: str | os.PathLike[str]) -> dict[str, list[str]]:
    """Read transcripts in Kaldi's ``text`` form: on each line an utterance id and its words; ``.gz`` is unpacked.

    Raises:
        FormatError: A line is empty, an id occurs twice, the file holds nothing, is not UTF-8 or damaged.
        InputError: The file cannot be read.

    Source: Kaldi, "Data preparation", the file text.
    """
    name = os.fspath(path)
    text = utf8.read(name)
    transcripts: dict[str, list[str]] = {}
    for number, row in enumerate(text.removesuffix("\n").split("\n"), start=1):
        # ASCII blanks only: some vocabularies hold words with Unicode spaces in them.
        key, *words = [field for field in row.replace("\t", " ").rstrip("\r").split(" ") if field] or [""]
        if not key:
            what = "the line is empty; an utterance id is needed" if text else "the file is empty"
            raise FormatError(what, name, line=number if text else None)
        if key in transcripts:
            raise FormatError(f"utterance {key!r} occurs twice", name, line=number)
        transcripts[key] = words
    return transcripts


def _percent(part: int, whole: int) -> float:
    if whole:
        return 100.0 * part / whole
    return float("inf") if part else 0.0
