"""Word errors in transcripts, and oracle errors in lattices, over a test set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ninja.errors import FormatError, OptionError, counted
from ninja.evaluate.error_rate import Alignment, ErrorRate, align
from ninja.evaluate.filtered_lattices import LatticeFilter
from ninja.evaluate.lexical import NormalizerName, check_texts, lexical_references, lexical_texts
from ninja.evaluate.normal_form import reference_ids
from ninja.evaluate.word_filters import WordFilter
from ninja.graph.oracle import Oracle, oracle
from ninja.lattice import Lattice
from ninja.lattice.arrays import offsets, runs
from ninja.lattice.batch import bare
from ninja.lattice.symbols import EPSILON, LARGEST_ID, SymbolTable
from ninja.lattice.text import NONE, LexicalForms, LexicalTable

Mode = Literal["strict", "all", "present"]

NEVER = -1  # a word id that never matches
_DIGITS = len(str(LARGEST_ID))


@dataclass(frozen=True, slots=True, eq=False)
class Numbered:
    """References that were converted to word ids, and the reference words that have no id."""

    ids: Mapping[str, npt.NDArray[np.int32]]  # word ids by utterance id
    unknown: Mapping[str, tuple[str, ...]]  # words without an id, by utterance id
    words: Mapping[str, Sequence[str]] | None = None  # the references, if the symbol table grows with each lattice
    forms: LexicalTable | None = None  # if set, the ids belong to its lexical words

    def of(self, lattice: Lattice) -> npt.NDArray[np.int32]:
        """Return the word ids of the reference for a lattice, int32 [num_words]."""
        if self.words is None or lattice.words is None:
            return self.ids[lattice.key]
        return np.array(reference_ids(lattice.words, self.words[lattice.key]), np.int32)

    def unknown_in(self, keys: Iterable[str]) -> Counter[str]:
        """Count the words without an id in the references for the given utterances."""
        return Counter(word for key in keys for word in self.unknown.get(key, ()))


def number(
    references: Mapping[str, Sequence[str]],
    words: SymbolTable | None,
    oov: int = NEVER,
    *,
    forms: LexicalTable | None = None,
) -> Numbered:
    """Convert references to word ids.

    Args:
        references: Reference words by utterance id. Without a symbol table, words must be decimal ids.
        words: Symbol table of the lattices. If it is still growing and `oov` is -1, ``Numbered.of`` looks up the words
            again for each lattice.
        oov: Id for words that are not in the table: -1 matches no word; Kaldi's recipes use the id of ``<unk>``.
        forms: Lexical forms of the words in the table; if specified, references are converted to ids of lexical words.

    Raises:
        FormatError: There is no symbol table, and a word is not an id.

    Source: Kaldi, egs/wsj/s5/utils/sym2int.pl, ``--map-oov``.
    """
    check_texts(references)
    ids, unknown = {}, {}
    if forms is not None:
        names, sizes = forms.normalizer.concatenated([word for words in references.values() for word in words])
        lexical = forms.lexical.intern(names)
        begin = offsets(sizes)[offsets(list(map(len, references.values())))]
        missing = set(forms.missing(list(set(lexical))))
        for key, of_key in zip(references, runs(np.array(lexical, np.int32), begin), strict=True):
            ids[key] = of_key
            if not missing.isdisjoint(in_order := of_key.tolist()):
                unknown[key] = tuple(forms.lexical.spell(number for number in in_order if number in missing))
                ids[key] = _with_oov(in_order, missing, forms, oov)
        return Numbered(ids, unknown, forms=forms)
    for key, reference in references.items():
        if words is None:
            wrong = next((word for word in reference if not is_id(word)), None)
            if wrong is not None:
                advice = "specify the symbol table with --words if the references are words"
                raise FormatError(f"{wrong!r} is not a word id; {advice}", key=key)
        numbers = list(map(int, reference)) if words is None else reference_ids(words, reference)
        if words is not None and NEVER in numbers:
            unknown[key] = tuple(word for word, number in zip(reference, numbers, strict=True) if number == NEVER)
            numbers = [oov if number == NEVER else number for number in numbers]
        ids[key] = np.array(numbers, np.int32)
    return Numbered(ids, unknown, references if words is not None and words.grows and oov == NEVER else None)


def lexical_ids(reference: Sequence[str], forms: LexicalTable, oov: int = NEVER) -> npt.NDArray[np.int32]:
    """Return the ids of the lexical words in a reference; out-of-vocabulary words become the lexical form of `oov`."""
    numbers = forms.ids(reference)
    return _with_oov(numbers, [] if oov == NEVER else forms.missing(numbers), forms, oov)


def _with_oov(numbers: Sequence[int], missing: Collection[int], forms: LexicalTable, oov: int) -> npt.NDArray[np.int32]:
    """Replace out-of-vocabulary words with the lexical form of `oov`, unless `oov` is -1.

    Args:
        numbers: Ids of lexical words.
        missing: Ids of the out-of-vocabulary words.
        forms: Table that contains the lexical forms.
        oov: Word id that represents out-of-vocabulary words.

    Returns:
        The ids after replacement, int32.
    """
    if missing and oov != NEVER:
        other = forms.form(oov)
        numbers = [part for number in numbers for part in (other if number in missing else [number])]
    return np.array(numbers, np.int32)


def word_id(word: str, words: SymbolTable | None) -> int:
    """Return the id of a word, or a decimal word id as an integer; raise OptionError for epsilon and unknown words."""
    if is_id(word) and int(word) != EPSILON:
        return int(word)
    number = None if words is None else words.id(word)
    if number is None or number == EPSILON:
        raise OptionError(f"{word!r} is neither a word id from 1 to {LARGEST_ID} nor a word in the symbol table")
    return number


def is_id(word: str) -> bool:
    """Return whether a word is a valid decimal word id."""
    return word.isascii() and word.isdigit() and len(word) <= _DIGITS and int(word) <= LARGEST_ID


def score(
    references: Mapping[str, Sequence[str]],
    hypotheses: Mapping[str, Sequence[str]],
    mode: Mode = "strict",
    *,
    normalizer: NormalizerName = NONE,
) -> ErrorRate:
    """Count word errors over a test set in the same way as Kaldi's compute-wer.

    Args:
        references: Reference words by utterance id.
        hypotheses: Recognised words by utterance id; ids without a reference are counted, but not scored.
        mode: Treatment of references without a hypothesis: "strict" raises an error, "all" scores an empty hypothesis,
            and "present" ignores the reference.
        normalizer: Name of a normalizer applied before words are compared; see ``make_normalizer``.

    Raises:
        FormatError: A reference has no hypothesis (mode "strict"), no reference has a hypothesis, or no reference has a
            lexical word.
        NinjaError: See ``make_normalizer``.
    """
    alignments = score_each(references, hypotheses, mode, normalizer=normalizer)
    return sum((alignment.rate() for alignment in alignments.values()), ErrorRate()) + count_absent(
        references, hypotheses
    )


def count_absent(references: Collection[str], hypotheses: Collection[str]) -> ErrorRate:
    """Count the references without a hypothesis and the hypotheses without a reference."""
    return ErrorRate(
        missing=sum(key not in hypotheses for key in references),
        unreferenced=sum(key not in references for key in hypotheses),
    )


def score_each(
    references: Mapping[str, Sequence[str]],
    hypotheses: Mapping[str, Sequence[str]],
    mode: Mode = "strict",
    *,
    normalizer: NormalizerName = NONE,
) -> dict[str, Alignment]:
    """Align the hypothesis for each scored utterance, in the order of the references; see ``score``."""
    keys = scored_keys(references, hypotheses, mode)
    references = lexical_references(references, normalizer)
    hypotheses = lexical_texts(hypotheses, normalizer)
    return {key: align(references[key], hypotheses.get(key, ())) for key in keys}


def scored_keys(references: Mapping[str, object], hypotheses: Mapping[str, object], mode: Mode) -> list[str]:
    """Return the ids of the scored utterances, in the order of the references; see ``score``.

    Raises:
        FormatError: A reference has no hypothesis in the mode "strict", or no reference has one.
        OptionError: The mode is unknown, or a text is not a sequence of words.
    """
    if mode not in ("strict", "all", "present"):
        raise OptionError(f"mode is {mode!r}, but must be one of strict, all, present")
    for texts in (references, hypotheses):
        check_texts(texts)
    missing = [key for key in references if key not in hypotheses]
    if len(missing) == len(references):
        raise FormatError("no reference has a hypothesis; check that the utterance ids match")
    if missing and mode == "strict":
        raise FormatError(
            f"no hypothesis for {len(missing)} of {counted(len(references), 'reference')}; score them as empty with "
            "--mode all (mode='all'), or ignore them with --mode present (mode='present')",
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
    word_filter: WordFilter | None = None,
    normalizer: NormalizerName | LexicalForms = NONE,
) -> ErrorRate:
    """Count the errors on the path with the fewest errors in each lattice: a lower bound for rescoring.

    For very long lattices, the search can be limited, and the number of errors can then be too large; see
    ``ninja.graph.Oracle``.

    Args:
        lattices: The lattices; lattices without a reference are counted, but not scored.
        references: Reference words by utterance id; ids without a lattice are counted as missing, but not scored.
        words: Symbol table for lattices that have none.
        unknown: Id for words that are not in the table: -1 matches no word; Kaldi's recipes use the id of ``<unk>``.
        wildcards: Word ids that are never errors; see ``ninja.graph.oracle``.
        word_filter: Filter applied to the words in lattices. References must already be filtered; `unknown` and
            `wildcards` are ignored if there is a filter.
        normalizer: Normalizer applied after the filter; see ``ninja.lattice.text.LexicalForms``.

    Raises:
        LatticeError: A lattice has no path from the start to a final state.
        FormatError: No lattice has a reference.
        OptionError: A rule in the global mapping file replaces a sequence of words.
        NinjaError: See ``make_normalizer``.
    """
    total, keys = ErrorRate(), set()
    forms = normalizer if isinstance(normalizer, LexicalForms) else LexicalForms(normalizer)
    lattice_filter = None if word_filter is None else LatticeFilter(word_filter)
    numbered = number(references, words, unknown) if lattice_filter is None else None
    for lattice in bare(lattices):
        if lattice.key not in references:
            total += ErrorRate(unreferenced=1)
            continue
        keys.add(lattice.key)
        if lattice_filter is not None:
            lattice = lattice_filter.lattice(lattice, words).replace(words=lattice_filter.table)
        elif lattice.words is None:
            lattice = lattice.replace(words=words)
        table = forms.table(lattice)
        if table is not None:
            reference = lexical_ids(references[lattice.key], table, NEVER if lattice_filter is not None else unknown)
            total += oracle_rate(oracle(lattice, reference, () if lattice_filter else wildcards, forms=table))
        elif lattice_filter is not None:
            reference = np.array(lattice_filter.table.intern(references[lattice.key]), np.int32)
            total += oracle_rate(oracle(lattice, reference))
        elif numbered is not None:
            total += oracle_rate(oracle(lattice, numbered.of(lattice), wildcards))
    if not keys:
        raise FormatError("no lattice has a reference; check that the utterance ids match")
    return total + ErrorRate(missing=len(references) - len(keys))


def oracle_rate(path: Oracle) -> ErrorRate:
    """Return the errors on an oracle path, counted as one sentence."""
    return ErrorRate(path.num_words, path.substitutions, path.insertions, path.deletions, 1, int(path.edits > 0))
