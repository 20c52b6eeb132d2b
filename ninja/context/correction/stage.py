"""The class ``Correction``, which corrects lattices and n-best lists, and the function ``correct``, which uses it."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from ninja.consensus import mbr_decode
from ninja.context.augmentation.insertion import Chain, insert
from ninja.context.correction.compiled import Alphabet
from ninja.context.correction.corrector import Change, Corrector, apply_changes
from ninja.context.correction.decision import Decision
from ninja.context.correction.evidence import Surprise
from ninja.context.correction.options import CorrectOptions
from ninja.context.entities.lists import Entities, PhraseList
from ninja.context.entities.written import WrittenWords
from ninja.context.sound.confusion import Confusion
from ninja.context.sound.pronunciation import Pronouncer
from ninja.errors import DependencyError, Log, NinjaError, OptionError, VocabularyError, counted
from ninja.evaluate.confidence import check_confidence
from ninja.files.stream import Guard
from ninja.formats.kaldi.tables import read_speakers
from ninja.formats.nbest.json_records import with_new_words
from ninja.formats.nbest.lattices import nbest_lattice
from ninja.graph import best_path, lattice_nbest
from ninja.lattice import Lattice, Scales
from ninja.lattice.batch import Keyed, pairs
from ninja.lattice.lattice import ListLattice
from ninja.lattice.nbest import Hypothesis
from ninja.lattice.symbols import EPSILON, SymbolTable
from ninja.lattice.text import BASIC, Normalizer, make_normalizer
from ninja.lm.load import load
from ninja.lm.ngram.model import NgramLM
from ninja.models import CORRECTION, ENGLISH_NGRAM

Name = str | os.PathLike[str]
Words = tuple[str, ...]
Confidences = list[float] | None
ChangesOf = Callable[[Words, Confidences], Sequence[Change]]
LEAST_GAIN = 0.01  # minimum cost of the replaced words minus the cost of the correction, nats


@dataclass(frozen=True, slots=True)
class Correcting:
    """Files and options for corrections."""

    entities: Name | Entities
    groups: Name | None = None  # group of each utterance, in the format of Kaldi's utt2spk
    options: CorrectOptions = field(default_factory=CorrectOptions)
    lexicon: Name | None = None  # pronunciations that take precedence over the CMU dictionary
    confusion: Name | None = None  # phone confusion costs  [default: articulatory costs]
    normalizer: Name | Normalizer = BASIC  # returns the lexical forms by which words match
    scales: Scales = Scales()  # scales of the best path of a lattice
    guard: Guard | None = None  # registers the phrase files, so that no output overwrites them


@dataclass(frozen=True, slots=True)
class CorrectedUtterance:
    """The words of an utterance and their corrections."""

    key: str
    words: tuple[str, ...]  # words before the corrections
    changes: tuple[Change, ...]


class Correction:
    """Pipeline stage that corrects the words in lattices, n-best lists and transcripts.

    Each hypothesis of an n-best list is corrected. In any other lattice, the words of the best path are corrected: each
    phrase is added as a path that is cheaper than the words that the phrase replaces.

    Args:
        correcting: Files and options. They are loaded when the first lattice is corrected.

    Attributes:
        num_utterances: Number of utterances processed, whether or not they were corrected.
        corrected: Utterances with changes in their best hypothesis, in input order.
    """

    def __init__(self, correcting: Correcting) -> None:
        self.correcting = correcting
        self.num_utterances = 0
        self._num_with_phrases = 0
        self.corrected: list[CorrectedUtterance] = []
        self._normalizer = make_normalizer(correcting.normalizer)
        self._entities: Entities | None = None
        self._corrector: Corrector | None = None
        self._written: dict[int, tuple[SymbolTable, WrittenWords]] = {}  # by the id of the symbol table

    def load(self, log: Log) -> Corrector:
        """Return the corrector; the first call loads the files and adds notes about suspicious content to the log."""
        if self._corrector is None:
            correcting = self.correcting
            self._entities = _entities(correcting, self._normalizer)
            self._corrector = make_corrector(correcting, self._normalizer, log)
            for problem in self._entities.problems:
                log.note(problem)
        return self._corrector

    @property
    def corrector(self) -> Corrector:
        """The corrector; call `load` first."""
        assert self._corrector is not None
        return self._corrector

    @property
    def entities(self) -> Entities:
        """The entities; call `load` first."""
        assert self._entities is not None
        return self._entities

    def __call__(self, lattices: Iterable[Keyed], log: Log | None = None) -> Iterator[Keyed]:
        """Yield corrected lattices.

        Args:
            lattices: Pairs of an utterance id and a lattice.
            log: Log of the run; it raises or tolerates errors in individual lattices.

        Raises:
            NinjaError: A file is invalid, even if the log tolerates errors in lattices.
        """
        log = Log() if log is None else log
        self.load(log)
        for key, lattice in lattices:
            try:
                corrected = self.correct(lattice)
            except NinjaError as error:
                log.fail(error, key)
            else:
                yield key, corrected
        self._add_notes(log)

    def correct(self, lattice: Lattice) -> Lattice:
        """Return a lattice with corrected words; call `load` first.

        Raises:
            VocabularyError: The lattice has no symbol table.
        """
        if lattice.words is None:
            raise VocabularyError(
                "the lattice has no symbol table; specify the words.txt with which it was created", key=lattice.key
            )
        lists = self.entities.of(lattice.key)
        self.num_utterances += 1
        self._num_with_phrases += bool(lists)
        if not lists or not lattice.num_arcs:
            return lattice
        return self._list(lattice, lists) if isinstance(lattice, ListLattice) else self._lattice(lattice, lists)

    def best_changes(self, lattice: Lattice) -> CorrectedUtterance:
        """Return the words of the best hypothesis and their corrections; call `load` first."""
        lists = self.entities.of(lattice.key)
        assert lattice.words is not None
        if isinstance(lattice, ListLattice):
            words, confidences = _words_of(lattice, lattice_nbest(lattice, 1, self.correcting.scales).hypotheses[0])
        else:
            words, confidences, _ = _best_path(lattice, self.correcting.scales)
        return CorrectedUtterance(lattice.key, words, tuple(self.corrector.changes(words, lists, confidences)))

    def _list(self, lattice: ListLattice, lists: Sequence[PhraseList]) -> Lattice:
        """Correct the hypotheses of an n-best list."""
        corrected, utterance = corrected_list(
            lattice,
            lambda words, confidences: self.corrector.changes(words, lists, confidences),
            self.correcting.scales,
            self._table(lattice),
        )
        if utterance.changes:
            self.corrected.append(utterance)
        return corrected

    def _lattice(self, lattice: Lattice, lists: Sequence[PhraseList]) -> Lattice:
        """Correct the best path of a lattice."""
        scales = self.correcting.scales
        words, confidences, path = _best_path(lattice, scales)
        changes = self.corrector.changes(words, lists, confidences)
        written = self._table(lattice)
        if not changes:
            return written.in_table(lattice)
        self.corrected.append(CorrectedUtterance(lattice.key, words, tuple(changes)))
        places = np.flatnonzero(lattice.word[path] != EPSILON)
        chains = []
        for change in changes:
            replaced = path[places[change.begin] : places[change.end - 1] + 1]
            num_more = len(change.after) - (change.end - change.begin)
            odds = math.log(change.probability / (1 - change.probability)) if change.probability < 1 else 0.0
            gain = max(odds, LEAST_GAIN) + scales.word_penalty * num_more
            chains.append(_chain(lattice, replaced, written.ids(change.after), gain / (scales.lm or 1.0)))
        return insert(lattice, chains, written.words)

    def _table(self, lattice: Lattice) -> WrittenWords:
        """Return the `WrittenWords` for a lattice's symbol table; the object is created on first use."""
        words = lattice.words
        assert words is not None
        if id(words) not in self._written:
            self._written[id(words)] = words, WrittenWords(words, self._normalizer)
        return self._written[id(words)][1]

    def _add_notes(self, log: Log) -> None:
        if self.num_utterances and not self._num_with_phrases and self.entities.num_phrases:
            number = counted(self.num_utterances, "utterance")
            log.note(f"none of {number} has phrases; check that their keys match the ids in the phrase list")
        left_out = self.corrector.left_out_so_far
        if left_out:
            subject = counted(len(left_out), "phrase")
            log.note(f"{subject} cannot be compared with words, for example: {left_out[0].reason}")


def correct(lattices: Iterable[Keyed], correcting: Correcting | Name | Entities) -> Iterator[Keyed]:
    """Correct names, places and titles in transcripts, n-best lists and lattices.

    A phrase replaces words that sound like it if the change is probable enough. See `Correction`.

    Args:
        lattices: Pairs of an utterance id and a lattice, as ``ninja.read`` yields them.
        correcting: Files and options, or only the phrases.

    Returns:
        An iterator over the corrected lattices, in input order.

    Raises:
        NinjaError: A file is invalid, or a lattice cannot be corrected.
    """
    if not isinstance(correcting, Correcting):
        correcting = Correcting(correcting)
    return Correction(correcting)(pairs(lattices))


def make_corrector(correcting: Correcting, normalizer: Normalizer, log: Log) -> Corrector:
    """Create a corrector with the shipped models."""
    options = correcting.options
    if options.letters_only and (correcting.lexicon is not None or correcting.confusion is not None):
        raise OptionError("letters_only cannot be used with a lexicon or phone confusion costs; omit them")
    lm = load(ENGLISH_NGRAM)
    assert isinstance(lm, NgramLM)
    sounds = None
    if not options.letters_only:
        try:
            path = correcting.confusion
            confusion = Confusion.articulatory() if path is None else Confusion.read(path)
            sounds = Alphabet(Pronouncer.english(correcting.lexicon), confusion)
        except DependencyError as error:
            if correcting.lexicon is not None or correcting.confusion is not None:
                raise
            log.note(f"letters are compared instead of phones: {error.message}")
    return Corrector(Decision.read(CORRECTION), Surprise(lm), sounds, options.threshold, normalizer)


def corrected_list(
    lattice: ListLattice, changes_of: ChangesOf, scales: Scales, written: WrittenWords
) -> tuple[ListLattice, CorrectedUtterance]:
    """Correct the hypotheses of an n-best list.

    Args:
        lattice: The list, with a symbol table.
        changes_of: Function that takes words, and their confidences or None, and returns the corrections of the words.
        scales: Cost scales that determine the order of the hypotheses.
        written: Written words. New words are added to its symbol table, which is the table of the result.

    Returns:
        The corrected list, and the changes to its best hypothesis.
    """
    nbest = lattice_nbest(lattice, max(lattice.num_hypotheses, 1), scales)
    hypotheses: list[Hypothesis] = []
    of_best = CorrectedUtterance(lattice.key, (), ())
    for number, hypothesis in enumerate(nbest.hypotheses):
        words, confidences = _words_of(lattice, hypothesis)
        changes = changes_of(words, confidences)
        hypotheses.append(corrected_hypothesis(hypothesis, changes))
        if number == 0:
            of_best = CorrectedUtterance(lattice.key, words, tuple(changes))
    if hypotheses == list(nbest.hypotheses):
        return lattice, of_best
    written.ids(str(word) for hypothesis in hypotheses for word in hypothesis.words)
    corrected = replace(nbest, hypotheses=tuple(hypotheses))
    record = lattice.record
    if record is not None:
        pairs = zip(nbest.hypotheses, hypotheses, strict=True)
        record = with_new_words(record, corrected, (pair for pair in pairs if pair[0] != pair[1]))
    return ListLattice.of(nbest_lattice(corrected, written.words), lattice.num_hypotheses, record), of_best


def corrected_hypothesis(hypothesis: Hypothesis, changes: Sequence[Change]) -> Hypothesis:
    """Apply changes to a hypothesis and divide the costs, times and labels of replaced words among the new words."""
    words = tuple(apply_changes(list(map(str, hypothesis.words)), changes))
    graph, acoustic = list(hypothesis.graph), list(hypothesis.acoustic)
    begin = None if hypothesis.begin is None else list(hypothesis.begin)
    end = None if hypothesis.end is None else list(hypothesis.end)
    labels = None if hypothesis.labels is None else list(hypothesis.labels)
    for change in reversed(changes):
        place, count = slice(change.begin, change.end), len(change.after)
        if count == change.end - change.begin:
            continue
        graph[place] = [sum(graph[place]) / count] * count
        acoustic[place] = [sum(acoustic[place]) / count] * count
        if labels is not None:
            labels[place] = _divided(sum(labels[place], ()), count)
        if begin is not None and end is not None:
            first, last = begin[change.begin], end[change.end - 1]
            bounds = [first + (last - first) * part // count for part in range(count + 1)]
            begin[place], end[place] = bounds[:-1], bounds[1:]
    return replace(
        hypothesis,
        words=words,
        graph=tuple(graph),
        acoustic=tuple(acoustic),
        begin=None if begin is None else tuple(begin),
        end=None if end is None else tuple(end),
        labels=None if labels is None else tuple(labels),
    )


def _divided(labels: tuple[int, ...], count: int) -> list[tuple[int, ...]]:
    bounds = [len(labels) * part // count for part in range(count + 1)]
    return [labels[bounds[part] : bounds[part + 1]] for part in range(count)]


def _chain(lattice: Lattice, arcs: npt.NDArray[np.int64], words: Sequence[int], gain: float) -> Chain:
    """Return the chain of words that replaces a path; the chain has the graph cost of the path minus `gain` nats."""
    share = np.full(len(words), 1 / len(words))
    graph = float(lattice.graph[arcs].sum(dtype=np.float64)) - gain
    acoustic = float(lattice.acoustic[arcs].sum(dtype=np.float64))
    labels = np.concatenate([lattice.ali[lattice.ali_begin[arc] : lattice.ali_begin[arc + 1]] for arc in arcs])
    start, end = int(lattice.src[arcs[0]]), int(lattice.dst[arcs[-1]])
    cuts = [len(labels) * part // len(words) for part in range(1, len(words))]
    return Chain(start, end, tuple(words), graph * share, acoustic * share, tuple(np.split(labels, cuts)))


def _words_of(lattice: ListLattice, hypothesis: Hypothesis) -> tuple[Words, Confidences]:
    """Return the words of a hypothesis, and their confidences (None unless the input contains one for every word).

    Raises:
        FormatError: A confidence is not a probability.
    """
    words = tuple(map(str, hypothesis.words))
    origin = None if lattice.record is None else lattice.record.origin
    if origin is None or origin.words != words or not origin.confidences:
        return words, None
    confidences = [value for value in origin.confidences if value is not None]
    if len(confidences) != len(words):
        return words, None
    for word, confidence in zip(words, confidences, strict=True):
        check_confidence(word, confidence, lattice.key)
    return words, confidences


def _best_path(lattice: Lattice, scales: Scales) -> tuple[Words, Confidences, npt.NDArray[np.int64]]:
    """Return the words of the best path, their posteriors (None if they are unknown), and the arcs of the path."""
    path = best_path(lattice, scales)
    assert lattice.words is not None
    words = tuple(lattice.words.spell(path.words.tolist()))
    if (np.diff(lattice.arc_begin) <= 1).all():
        return words, None, path.arcs
    consensus = mbr_decode(lattice, scales, decode_mbr=False, print_silence=True)
    is_same = np.array_equal(consensus.words, path.words)
    return words, [float(value) for value in consensus.confidences] if is_same else None, path.arcs


def _entities(correcting: Correcting, normalizer: Normalizer) -> Entities:
    if isinstance(correcting.entities, Entities):
        return correcting.entities
    groups = None if correcting.groups is None else read_speakers(correcting.groups)
    return Entities.read(correcting.entities, groups=groups, guard=correcting.guard, normalizer=normalizer)
