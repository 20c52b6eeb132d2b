"""Context as a stage of the pipeline: everything by its file, which each process loads for itself."""

from __future__ import annotations

import copy
import os
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ninja.context.deep.letter_grams import LetterGrams
from ninja.context.deep.marks import Mark, Marks
from ninja.context.deep.retrieval import Retriever
from ninja.context.deep.retrieval_options import LONG_LIST
from ninja.context.entities.lists import Entities, PhraseList
from ninja.context.grammar.tracker import NO_CLASS, Match, Tracker, add_context, class_words
from ninja.context.options import ContextOptions
from ninja.context.sound.augment import Added, Augmenter, AugmentOptions, extended
from ninja.context.sound.class_costs import ClassCosts
from ninja.context.sound.confusion import Confusion
from ninja.context.sound.letters import LetterPronouncer, letter_confusion
from ninja.context.sound.old_costs import OldCosts, with_unknown
from ninja.context.sound.phones import ArcPhones
from ninja.context.sound.pronunciation import Pronouncer
from ninja.errors import DependencyError, ModelError, NinjaError, OptionError, VocabularyError
from ninja.files.threads import in_order
from ninja.formats.kaldi.tables import read_speakers
from ninja.lattice import Lattice
from ninja.lattice.batch import Batch
from ninja.lattice.keyed import collect_batches
from ninja.lattice.list_lattice import as_list_of
from ninja.lattice.symbols import SymbolTable
from ninja.libraries import needed_for
from ninja.lm.ngram.model import NgramLM
from ninja.lm.protocol import DEFAULTS, LanguageModel, LoadOptions
from ninja.lm.word_map import WordMap
from ninja.log import Log
from ninja.models import CONTEXT
from ninja.rescoring.engine import AsGiven
from ninja.rescoring.models import NEW, Model, ModelFiles, load_model
from ninja.rescoring.options import RescoreOptions, RescoreReport
from ninja.rescoring.vocabulary import VocabularyCheck

if TYPE_CHECKING:
    from ninja.context.deep.pointer import ContextPointer

Keyed = tuple[str, Lattice]
Name = str | os.PathLike[str]
NO_MODEL = "none"
DEFAULT_MODEL = "default"  # the shipped one
MANY_PHRASES = 10_000  # to find pronunciations of
NUM_LETTERS = 20  # that a message names
MOST_ARCS, MOST_LATTICES = 100_000, 100  # of a thread's batch


@dataclass(frozen=True, slots=True)
class Augmentation:
    """Options of adding phrases to lattices where they sound alike."""

    options: AugmentOptions = field(default_factory=AugmentOptions)
    lexicon: Name | None = None  # pronunciations, before those of the CMU dictionary
    confusion: Name | None = None  # what it costs to take a phone for another; None: by articulation
    transition_model: Name | None = None  # a Kaldi final.mdl: words sound as their alignments say, not the dictionary
    phones: Name | None = None  # its phones.txt
    letters_only: bool = False  # phrases and words are compared by their letters: needs no lexicon
    context_model: Name | None = None  # finds phrases of long lists; None: the shipped one; "none": all are compared

    def __post_init__(self) -> None:
        if (self.transition_model is None) != (self.phones is None):
            raise OptionError("a transition model and its phones.txt go together; give both, or none")
        if self.letters_only and (self.lexicon is not None or self.transition_model is not None):
            raise OptionError("letters_only compares letters; leave the lexicon and the transition model out")


@dataclass(frozen=True, slots=True)
class Context:
    """Phrases of utterances, and models of their classes; files are read by each process for itself."""

    entities: Name | Entities
    class_lm: Name | NgramLM | None = None
    groups: Name | None = None  # a Kaldi utt2spk that says which group an utterance belongs to
    options: ContextOptions = field(default_factory=ContextOptions)
    augmentation: Augmentation | None = None
    load_options: LoadOptions = DEFAULTS  # of the n-gram models
    context_model: Name | ContextPointer | None = None  # reads the phrases in the rescoring, in place of boosts

    def __post_init__(self) -> None:
        if self.context_model is not None and self.class_lm is not None:
            raise OptionError("a class model and a context model count the same phrases twice; give one of them")


class Contextual:
    """The stage that adds context to lattices.

    Args:
        old_lm: The first pass's n-gram model, which the class model is mixed with.
        lm_weight: Share of the graph costs that another language model takes afterwards; boosts are made as strong as
            to have their full size then.
    """

    def __init__(self, context: Context, old_lm: Name | NgramLM | None = None, lm_weight: float | None = None) -> None:
        self.context = context
        self.old_lm = old_lm
        self.lm_weight = lm_weight
        self.entities: Entities | None = None
        self.tracker: Tracker | None = None
        self.added: tuple[Added, ...] = ()  # to the last lattice, because it sounded like that
        self._augmenter: Augmenter | None = None
        self._unknown_letters: Counter[str] = Counter()  # of phrases, to the context model
        self.words: SymbolTable | None = None  # of the lattices
        self._num_words = 0  # of them, when the files were read for a table that grows
        self._class_lm: NgramLM | None = None
        self.old_model: NgramLM | None = None  # once it is loaded, and where it is needed
        self._marks = Marks()
        self._live: dict[int, tuple[Lattice, Sequence[PhraseList]]] = {}  # lists given with lattices, by identity
        self._pointer: ContextPointer | None = None

    @classmethod
    def before(cls, context: Context, models: ModelFiles, options: RescoreOptions) -> Contextual:
        """Make the stage that adds context before a rescoring, whose options and old language model it shares."""
        if models.directions or options.backward:
            raise OptionError("context goes with one pass forward; leave iterate and backward out")
        shared = replace(
            context.options,
            unk_penalty=options.unk_penalty,
            max_unknown=options.max_unknown,
            map_words=options.map_words,
        )
        context = replace(context, options=shared, load_options=models.load_options)
        return cls(context, models.old_lm, options.lm_weight)

    def __call__(self, lattices: Iterable[AsGiven], log: RescoreReport | None = None) -> Iterator[AsGiven]:
        """Yield the lattices with their context; faults of the files are raised, even where failures are tolerated.

        None, the sign that the next lattice is awaited, is passed on.
        """
        log = RescoreReport() if log is None else log
        if log.vocabulary is not None:
            yield from self.unchecked(lattices, log)
            return
        yield from self.unchecked(self.vocabulary_check(log)(lattices), log)
        log.tell_coverage()

    def unchecked(self, lattices: Iterable[AsGiven], log: RescoreReport) -> Iterator[AsGiven]:
        """Do the same where others count the words that models lack."""
        for pair in lattices:
            if pair is None:
                yield pair
                continue
            key, lattice = pair
            if lattice.words is not None:
                self.bind(lattice.words, log, int(lattice.word.max(initial=0)))
            try:
                result = self.add_context(lattice)
            except NinjaError as error:
                log.fail(error, key)
            else:
                yield key, result

    def on_threads(self, lattices: Iterable[Keyed], log: RescoreReport, num_threads: int) -> Iterator[Keyed]:
        """Do the same on several threads, each of which reads the files for itself."""
        local = threading.local()

        def work(batch: Batch) -> tuple[list[Keyed], RescoreReport]:
            if not hasattr(local, "stage"):
                local.stage = Contextual(self.context, self.old_lm, self.lm_weight)
            part = RescoreReport(on_error=_keep)
            results = list(local.stage.unchecked(((lattice.key, lattice) for lattice in batch), part))
            return results, part

        checked = lattices if log.vocabulary is not None else self.vocabulary_check(log)(lattices)
        for results, part in in_order(work, collect_batches(checked, MOST_ARCS, MOST_LATTICES), num_threads):
            log.merge(part)
            yield from results
        if log.vocabulary is None:
            log.tell_coverage()

    def live(self, lattice: Lattice, entities: Entities | Mapping[str, Any] | None, log: Log) -> Lattice:
        """Add the context to a lattice as it comes, with phrases given with it beside those of the files.

        Args:
            entities: Entities, or the content of a JSON file of them, such as ``{"@name": ["tom chen"]}``.
        """
        if lattice.words is not None:
            self.bind(lattice.words, log, int(lattice.word.max(initial=0)))
        if entities is not None and not isinstance(entities, Entities):
            entities = Entities.from_dict(entities, words=lattice.words)
        return self.add_context(lattice, () if entities is None else entities.of(lattice.key))

    def add_context(self, lattice: Lattice, more: Sequence[PhraseList] = ()) -> Lattice:
        """Add the context, and more lists of phrases, to one lattice, once the stage is bound to its words."""
        if lattice.words is None:
            raise VocabularyError("the lattice carries no symbol table", key=lattice.key)
        assert self.entities is not None
        assert self.tracker is not None
        lists = (*self.entities.of(lattice.key), *more)
        if self._augmenter is not None:
            lattice, self.added = self._augmenter(lattice, lists)
        if self.context.context_model is None:
            boosted = add_context(lattice, self.tracker, lists)
            return as_list_of(lattice, boosted) if self._augmenter is None else boosted
        if more:
            self._live[id(lattice)] = lattice, lists  # with the lattice, whose identity is no other's then
        return lattice

    def over(self, lm: Model) -> Model:
        """Return the language model with the context model's pointer; without a context model, the same.

        Raises:
            ModelError: The context model has no pointer, or one for another language model.
            OptionError: There is no language model, or several.
        """
        path = self.context.context_model
        if path is None:
            return lm
        if not isinstance(lm, LanguageModel):
            what = "none" if lm is None else "a mixture"
            message = f"a context model goes with one language model, but there is {what}"
            raise OptionError(message, os.fspath(path) if isinstance(path, str | os.PathLike) else path.path)
        pointer = self._loaded_pointer(path)
        pointer.refuse_other(lm)
        from ninja.context.deep.context_lm import ContextMixture

        options = self.context.options
        gain = options.context_weight / (self.lm_weight or 1.0)
        names = [lm.vocabulary.path or NEW]
        return ContextMixture(
            ((lm, 1.0),), names=names, pointer=pointer, marks=self._marks, gain=gain, prior=options.context_prior
        )

    def with_weights(self, prior: float, weight: float) -> Contextual:
        """Return the stage with other weights of its context model; what it has loaded is shared."""
        other = copy.copy(self)
        options = replace(self.context.options, context_prior=prior, context_weight=weight)
        other.context = replace(self.context, options=options)
        return other

    def _loaded_pointer(self, path: Name | ContextPointer) -> ContextPointer:
        """Return the context model, loaded once."""
        if self._pointer is None:
            self._pointer = load_pointer(path)
        return self._pointer

    def mark_of(self, lattice: Lattice) -> Mark | None:
        """Return the phrases of a lattice that the stage gave, for such a model."""
        if self.context.context_model is None:
            return None
        assert self.entities is not None
        _, lists = self._live.pop(id(lattice), (None, None))
        return self._marks.of(self.entities.of(lattice.key) if lists is None else lists)

    def matches(self, key: str, words: Sequence[str]) -> list[Match]:
        """Return the phrases that the best way through an utterance's words takes."""
        assert self.entities is not None
        assert self.tracker is not None
        self.tracker.clear()
        start = self.tracker.start(self.entities.of(key))
        return self.tracker.matches(start, self.tracker.words.ids(words))

    def bind(self, words: SymbolTable, log: Log, largest: int = 0) -> Tracker:
        """Read the files for the lattices' words, unless these were the last, too; return the tracker.

        The first time oddities of the files are logged. Of a table that grows, the word id `largest` must be known.
        """
        if self.words is not words or self.tracker is None or (words.grows and largest >= self._num_words):
            self._num_words = len(words) if words.grows else 0
            self.tracker = self._load(words, log)
            self.words = words
        return self.tracker

    def vocabulary_check(self, log: RescoreReport) -> VocabularyCheck:
        """Return the check of lattices' words, for callers that know the files; they set ``log.vocabulary``.

        An old model that knows too few is refused. Class models, often of few words, are only reported.
        """

        def old_maps(words: SymbolTable) -> Sequence[WordMap]:
            tracker = self.bind(words, log, len(words) - 1 if words.grows else 0)
            return [] if tracker.old_map is None else [tracker.old_map]

        return VocabularyCheck(
            old_maps,
            self.context.options.max_unknown,
            log.cover,
            other_maps=lambda words: self.class_maps(words, log),
        )

    def class_maps(self, words: SymbolTable, log: Log) -> Sequence[WordMap]:
        """Return the map of a symbol table to the words of the class model, if there is one."""
        tracker = self.bind(words, log, len(words) - 1 if words.grows else 0)
        return [] if tracker.class_map is None else [tracker.class_map]

    def _load(self, words: SymbolTable, log: Log) -> Tracker:
        context, given = self.context, self.context.entities
        first = self.tracker is None
        if isinstance(given, Entities):
            self.entities = given
        else:
            groups = None if context.groups is None else read_speakers(context.groups)
            self.entities = Entities.read(given, words=words, groups=groups)
        if first:
            self._class_lm = (
                None if context.class_lm is None else load_ngram(context.class_lm, words, log, context.load_options)
            )
            if self.old_lm is not None and (context.class_lm is not None or context.augmentation is not None):
                self.old_model = load_ngram(self.old_lm, words, log, context.load_options)
        known = words
        if context.augmentation is not None:
            words = extended(words, self.entities.all_lists)
            if self.old_model is not None:
                self.old_model = with_unknown(self.old_model)
        tracker = self._made_tracker(words)
        if context.augmentation is not None:
            self._augmenter = self._made_augmenter(context.augmentation, words, tracker)
        if first and log.on_note is not None and not words.grows:  # to find what cannot be pronounced takes a while
            self._note(known, log)
        return tracker

    def note_late(self, log: Log) -> None:
        """Note suspicious contents of the files, once all lattices are read whose words make the table."""
        if self.words is not None and self.words.grows:
            self._note(self.words, log)

    def _note(self, words: SymbolTable, log: Log) -> None:
        for note in self._notes(words):
            log.note(note)

    def _made_tracker(self, words: SymbolTable) -> Tracker:
        share, options = 1.0, self.context.options
        if self.context.context_model is None and self.lm_weight is not None:
            left = 1.0 - self.lm_weight
            if self.old_lm is not None:
                # The other model takes its own part of the old one out.
                share = left if self._class_lm is not None else 1.0
            elif left > 0.0:
                options = replace(
                    options, keyword_boost=options.keyword_boost / left, class_boost=options.class_boost / left
                )
            else:
                raise OptionError("lm_weight 1 leaves nothing of the costs that carry the context; make it smaller")
        old_lm = self.old_model if self._class_lm is not None else None
        return Tracker(words, self._class_lm, options, old_lm=old_lm, lm_scale=share)

    def _made_augmenter(self, augmentation: Augmentation, words: SymbolTable, tracker: Tracker) -> Augmenter:
        old_costs, options = None, self.context.options
        if self.old_model is not None:
            old_costs = OldCosts(words, self.old_model, options.unk_penalty, options.map_words)
        given = augmentation.confusion
        if given is not None:
            confusion = Confusion.read(given)
        elif augmentation.letters_only:
            assert self.entities is not None
            confusion = letter_confusion(self.entities.all_lists, (word for word, _ in words))
        else:
            confusion = Confusion.articulatory()
        phones = None
        if augmentation.transition_model is not None:
            assert augmentation.phones is not None
            phones = ArcPhones.read(augmentation.transition_model, augmentation.phones, confusion.phones)
        pronouncer = LetterPronouncer() if augmentation.letters_only else Pronouncer.english(augmentation.lexicon)
        retriever = self._made_retriever(augmentation, confusion)
        class_costs = None
        place_weight = augmentation.options.place_weight
        if self._class_lm is not None and place_weight is not None:
            assert tracker.class_map is not None
            class_costs = ClassCosts(
                self._class_lm,
                tracker.class_map,
                dict(class_words(self._class_lm)),
                class_boost=options.class_boost,
                keyword_boost=options.keyword_boost,
                place_weight=place_weight,
                phone_reward=augmentation.options.phone_reward,
            )
        return Augmenter(
            words,
            pronouncer,
            confusion,
            augmentation.options,
            old_costs=old_costs,
            class_costs=class_costs,
            phones=phones,
            retriever=retriever,
        )

    def _made_retriever(self, augmentation: Augmentation, confusion: Confusion) -> Retriever | None:
        """Return what chooses among the phrases of long lists; None where no list is long, or the model is no help."""
        assert self.entities is not None
        given = augmentation.context_model
        if given == NO_MODEL or not any(
            each.name and each.num_phrases >= LONG_LIST for each in self.entities.all_lists
        ):
            return None
        if given is None and augmentation.letters_only:
            return Retriever(LetterGrams())
        try:
            with needed_for("a context model", given):
                from ninja.context.deep.encoder import PhraseEncoder, SpelledEncoder
        except DependencyError:
            if given is None:
                return None  # without torch all phrases are compared
            raise

        encoder = PhraseEncoder.load(CONTEXT if given is None else given)
        if given is not None and augmentation.letters_only:
            phrases = (each for one in self.entities.all_lists for members in one.classes.values() for each in members)
            self._unknown_letters = encoder.symbols.unknown(phrase.text for phrase in phrases)
            return Retriever(SpelledEncoder(encoder, given))
        if encoder.takes_phones and set(confusion.phones) <= set(encoder.symbols.phones):
            return Retriever(encoder)
        if given is None:
            return None  # phones of another language: all phrases are compared
        wanted = "phones" if encoder.takes_phones else "letters only"
        reason = (
            f"it knows {wanted}, not all phones of the confusion costs; leave it out, or train one with --confusion"
        )
        raise ModelError(reason, os.fspath(given))

    def _notes(self, words: SymbolTable) -> Iterator[str]:
        """Note suspicious contents of the files."""
        assert self.entities is not None
        yield from self.entities.problems
        given = self.entities.path or "the entities"
        for unknown in self.entities.unknown(words):
            new = "; they get symbols of their own" if self._augmenter is not None else ""
            yield f"{given}: {unknown}{new}"
        if self.context.context_model is not None:
            encoder = self._loaded_pointer(self.context.context_model).encoder
            lists = self.entities.all_lists
            foreign = encoder.symbols.unknown(
                phrase.text for each in lists for phrases in each.classes.values() for phrase in phrases
            )
            if foreign:
                letters = "".join(letter for letter, _ in foreign.most_common(NUM_LETTERS))
                yield f"{given}: letters that the context model does not know, which it leaves out: {letters}"
        if self._augmenter is not None:
            augmentation = self.context.augmentation
            assert augmentation is not None
            if self.entities.num_phrases > MANY_PHRASES and not augmentation.letters_only:
                number = self.entities.num_phrases
                yield f"finding the pronunciations of {number} phrases; words outside the dictionary take a while"
            left_out = self._augmenter.left_out(self.entities.all_lists)
            if left_out:
                advice = "" if augmentation.letters_only else "; --letters-only compares letters"
                first = left_out[0].reason
                yield f"{given}: {len(left_out)} phrases cannot be added to lattices, the first: {first}{advice}"
            if self._unknown_letters:
                letters = " ".join(letter for letter, _ in self._unknown_letters.most_common(8))
                yield f"{augmentation.context_model}: does not know {letters} of {given}; other letters find a phrase"
        if self._class_lm is None:
            return
        class_lm = self._class_lm.vocabulary.path
        known = {word for word, _ in class_words(self._class_lm)}
        classes = set(self.entities.classes) - {NO_CLASS}
        if not known:
            yield f"{class_lm}: no class words such as @name, $name or <name>; phrases are boosted where they stand"
            return
        for name in sorted(known - classes):
            yield f"{class_lm}: {name} has no phrases in {given}, and is never entered"
        for name in sorted(classes - known):
            yield f"{given}: {name} is no word of {class_lm}; its phrases are boosted where they stand"


def _keep(error: NinjaError) -> None:
    """Leave a failure in the log."""


def load_pointer(path: Name | ContextPointer) -> ContextPointer:
    """Load a context model that reads phrases, the shipped one by ``"default"``; one that is loaded is returned."""
    if not isinstance(path, str | os.PathLike):
        return path
    with needed_for("a context model", path):
        from ninja.context.deep.pointer import ContextPointer

    return ContextPointer.load(CONTEXT if path == DEFAULT_MODEL else path)


def load_ngram(path: Name | NgramLM, words: SymbolTable, log: Log, options: LoadOptions = DEFAULTS) -> NgramLM:
    """Load an n-gram model, with the lattices' words if it has none of its own."""
    if isinstance(path, NgramLM):
        return path
    lm = load_model(path, words, log, options)
    if not isinstance(lm, NgramLM):
        raise ModelError("context takes n-gram models: ARPA, const-arpa or G.fst", os.fspath(path))
    return lm
