"""The pipeline stage that adds context to lattices."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ninja.context.augmentation.augment import Added, with_phrase_words
from ninja.context.deep.phrase_list_ids import PhraseSet
from ninja.context.entities.lists import Entities, PhraseList
from ninja.context.exact import ExactBinding
from ninja.context.grammar.tracker import Match, Tracker
from ninja.context.lexical import LexicalBinding
from ninja.context.loader import ContextModels, load_entities, load_models
from ninja.context.notes import augmenter_notes, class_notes, entity_notes, pointer_notes
from ninja.context.pointer import PointerStage
from ninja.context.settings import Augmentation, Context, Name
from ninja.errors import Log, NinjaError, OptionError, VocabularyError
from ninja.lattice import Lattice
from ninja.lattice.batch import Batch, Keyed, collect_batches, in_order
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.text import NONE, LexicalForms, Normalizer
from ninja.lm.lexical import LexicalLM
from ninja.lm.ngram.model import NgramLM
from ninja.lm.word_map import WordMap
from ninja.rescoring.algorithms import RescoreOptions
from ninja.rescoring.models import Model, ModelFiles, VocabularyCheck
from ninja.rescoring.utterances import RescoreReport, Utterance

MAX_ARCS, MAX_LATTICES = 100_000, 100  # maximum numbers of arcs and lattices in a batch for one thread


@dataclass(frozen=True, slots=True)
class _Binding:
    """The context that was loaded for a symbol table."""

    words: SymbolTable  # the symbol table of the lattices
    num_words: int  # size of a growing table when the context was loaded; 0 for other tables
    entities: Entities
    normalizer: Normalizer
    files: ExactBinding | LexicalBinding


class Contextual:
    """The stage that adds context to lattices.

    Args:
        context: Files and options of the context.
        old_lm: N-gram model of the first pass; it is interpolated with the class model.
        lm_weight: Share of the graph costs that another language model replaces afterwards. Boosts are scaled up so
            that they have their full size in the result.
    """

    def __init__(self, context: Context, old_lm: Name | NgramLM | None = None, lm_weight: float | None = None) -> None:
        self.context = context
        self.old_lm = old_lm
        self.lm_weight = lm_weight
        self.forms: LexicalForms | None = None  # the normalizers of the run
        self.added: tuple[Added, ...] = ()  # the phrases that were added to the last lattice
        self._models: ContextModels | None = None  # None until they are loaded
        self._binding: _Binding | None = None  # the context for the last symbol table
        self._pointer: PointerStage | None = None
        boost = context.options.context_boost
        self._has_grammar = context.context_model is None or context.class_lm is not None or boost != 0.0
        if context.context_model is not None:
            self._pointer = PointerStage(context.context_model, lm_weight)
            self.context = replace(context, options=replace(context.options, keyword_boost=boost))

    @classmethod
    def before(cls, context: Context, models: ModelFiles, options: RescoreOptions) -> Contextual:
        """Create the stage that adds context before rescoring, using the old model and the options for rescoring.

        Args:
            context: Files and options of the context.
            models: Language models for rescoring.
            options: Options for rescoring.

        Raises:
            OptionError: The options request iterations or a backward model.
        """
        if models.directions or options.backward:
            raise OptionError("context requires a single pass with forward language models; omit iterate and backward")
        shared = replace(
            context.options,
            unk_penalty=options.unk_penalty,
            max_unknown=options.max_unknown,
            map_words=options.map_words,
        )
        context = replace(context, options=shared, load_options=models.load_options, normalizer=options.normalizer)
        return cls(context, models.old_lm, options.lm_weight)

    @property
    def words(self) -> SymbolTable | None:
        """The symbol table that the stage is bound to."""
        return None if self._binding is None else self._binding.words

    @property
    def _bound(self) -> _Binding:
        assert self._binding is not None, "the stage must be bound to a symbol table"
        return self._binding

    @property
    def entities(self) -> Entities:
        """Phrase lists of the utterances. The stage must be bound to a symbol table."""
        return self._bound.entities

    @property
    def tracker(self) -> Tracker:
        """The tracker of the contextual grammar. The stage must be bound to a symbol table."""
        return self._bound.files.tracker

    @property
    def result_words(self) -> SymbolTable:
        """The symbol table of the results, which includes the words of added phrases. The stage must be bound."""
        return self._bound.files.words

    @property
    def old_model(self) -> NgramLM | None:
        """The old language model, or None if the stage has not loaded one."""
        return None if self._models is None else self._models.old_lm

    def __call__(self, lattices: Iterable[Keyed], log: RescoreReport | None = None) -> Iterator[Keyed]:
        """Add context to lattices and yield the results.

        Args:
            lattices: Pairs of an utterance id and a lattice.
            log: Log of the run; it raises or tolerates errors in individual lattices.

        Raises:
            NinjaError: A file of the context is invalid, even if the log tolerates errors in lattices.
        """
        log = RescoreReport() if log is None else log
        if log.vocabulary is not None:
            yield from self.unchecked(lattices, log)
            return
        yield from self.unchecked(self.vocabulary_check(log)(lattices), log)
        log.note_coverage()

    def unchecked(self, lattices: Iterable[Keyed], log: RescoreReport) -> Iterator[Keyed]:
        """Add context to lattices like `__call__`, but do not count the words that are unknown to the models."""
        for key, lattice in lattices:
            self._bind_to(lattice, log)
            try:
                result = self.add_context(lattice)
            except NinjaError as error:
                log.fail(error, key)
            else:
                yield key, result

    def on_threads(self, lattices: Iterable[Keyed], log: RescoreReport, num_threads: int) -> Iterator[Keyed]:
        """Yield the results of `__call__`, computed on several threads, each with its own tracker."""
        local = threading.local()

        def work(batch: Batch) -> list[tuple[list[Keyed], RescoreReport]]:
            if not hasattr(local, "stage"):
                local.stage = self._unbound()
            results = []
            for lattice in batch:
                part = RescoreReport(on_error=_keep)
                results.append((list(local.stage.unchecked([(lattice.key, lattice)], part)), part))
            return results

        checked = lattices if log.vocabulary is not None else self.vocabulary_check(log)(lattices)
        for batch in in_order(work, collect_batches(checked, MAX_ARCS, MAX_LATTICES), num_threads):
            for results, part in batch:
                log.merge(part)
                yield from ((key, self._in_table(lattice)) for key, lattice in results)
        if log.vocabulary is None:
            log.note_coverage()

    def prepare(self, utterance: Utterance, log: Log) -> None:
        """Add the context to the lattice of an utterance, using the utterance's phrases and the phrases in the files.

        Raises:
            NinjaError: The lattice or its phrases cannot be used.
        """
        lattice, entities = utterance.lattice, utterance.entities
        self._bind_to(lattice, log)
        if entities is not None and not isinstance(entities, Entities | tuple):
            normalizer = NONE if self._binding is None else self._binding.normalizer
            entities = Entities.from_dict(entities, words=lattice.words, normalizer=normalizer)
        more = () if entities is None else entities if isinstance(entities, tuple) else entities.of(lattice.key)
        if self.context.augmentation is not None and lattice.words is not None:
            self._include(more, lattice.words, self.context.augmentation, log)
        utterance.lattice = self.add_context(lattice, more)
        utterance.phrases = self.phrases_of(lattice, more)

    def add_context(self, lattice: Lattice, more: Sequence[PhraseList] = ()) -> Lattice:
        """Add context to a lattice. The stage must be bound to the lattice's symbol table.

        Args:
            lattice: The lattice.
            more: Phrase lists to be used in addition to the lists in the files.

        Raises:
            VocabularyError: The lattice has no symbol table, or a word is unknown to a model without <unk>.
        """
        if lattice.words is None:
            raise VocabularyError(
                "the lattice has no symbol table; specify the words.txt with which it was created", key=lattice.key
            )
        lists = (*self.entities.of(lattice.key), *more)
        lattice, self.added = self._bound.files.add_context(lattice, lists, boosts=self._has_grammar)
        return lattice

    def over(self, lm: Model) -> Model:
        """Return the language model combined with the context model, or unchanged if there is no context model."""
        return lm if self._pointer is None else self._pointer.over(lm, self.context.options)

    def phrases_of(self, lattice: Lattice, more: Sequence[PhraseList] = ()) -> PhraseSet | None:
        """Return the phrases of a lattice for the context model, or None if there is no context model."""
        if self._pointer is None:
            return None
        return self._pointer.phrases_of((*self.entities.of(lattice.key), *more))

    def with_weights(self, prior: float, weight: float) -> Contextual:
        """Return a copy that shares the loaded files and uses the given `context_prior` and `context_weight`."""
        other = copy.copy(self)
        options = replace(self.context.options, context_prior=prior, context_weight=weight)
        other.context = replace(self.context, options=options)
        return other

    def matches(self, key: str, words: Sequence[str]) -> list[Match]:
        """Return the phrases on the grammar's best path through the words of an utterance."""
        return self._bound.files.matches(self.entities.of(key), words)

    def bind(self, words: SymbolTable, log: Log, largest: int = 0) -> Tracker:
        """Load the files for a symbol table, unless the stage is already bound to it.

        Notes about suspicious content in files are added when the stage is bound for the first time; for a growing
        table, `note_late` adds them.

        Args:
            words: Symbol table of the lattices.
            log: Log that receives the notes.
            largest: Largest word id of the lattices. If it was added to a growing table since the stage was bound, the
                files are loaded again.

        Returns:
            The tracker.
        """
        if self.forms is None:
            self.forms = LexicalForms(self.context.normalizer, log.note)
        normalizer = self.forms.normalizer(words)
        binding = self._binding
        if (
            binding is None
            or binding.words is not words
            or binding.normalizer is not normalizer
            or (isinstance(binding.files, ExactBinding) and words.grows and largest >= binding.num_words < len(words))
        ):
            self._binding = self._new_binding(words, log, normalizer)
            # Looking up all pronunciations is slow, so do it only once; for a growing table, `note_late` does it.
            if binding is None and log.on_note is not None and not words.grows:
                self._note(log)
        return self.tracker

    def _include(self, lists: Sequence[PhraseList], words: SymbolTable, augmentation: Augmentation, log: Log) -> None:
        """Add the words of an utterance's phrases to a growing table, in which augmentation looks up words and letters.

        If words are compared by their lexical forms, only the letters require this, because lexical words are added
        when they are compared.
        """
        files = self._bound.files
        if files.words.grows and (isinstance(files, ExactBinding) or augmentation.letters_only):
            with_phrase_words(files.words, lists)
            self.bind(words, log, len(words) - 1)

    def _bind_to(self, lattice: Lattice, log: Log) -> None:
        if lattice.words is not None:
            self.bind(lattice.words, log, int(lattice.word.max(initial=0)))

    def vocabulary_check(self, log: RescoreReport) -> VocabularyCheck:
        """Return a check that measures how well the models cover the words in the lattices.

        A caller that reads all files assigns the check to ``log.vocabulary``. The check fails if too many words are
        unknown to the first-pass model (``old_lm``). The coverage of class models, which often have few words, is only
        reported.
        """

        def old_maps(words: SymbolTable) -> Sequence[WordMap]:
            tracker = self.bind(words, log, len(words) - 1 if words.grows else 0)
            return [] if tracker.old_map is None else [self._written_map(words, tracker.old_map)]

        return VocabularyCheck(
            old_maps,
            self.context.options.max_unknown,
            log.cover,
            other_maps=lambda words: self.class_maps(words, log),
        )

    def class_maps(self, words: SymbolTable, log: Log) -> Sequence[WordMap]:
        """Return the map from a symbol table to the class model as a list, which is empty without a class model."""
        tracker = self.bind(words, log, len(words) - 1 if words.grows else 0)
        return [] if tracker.class_map is None else [self._written_map(words, tracker.class_map)]

    def _written_map(self, words: SymbolTable, lexical_map: WordMap) -> WordMap:
        """Convert a map from lexical words to model words into a map from written words to model words."""
        if isinstance(self._bound.files, ExactBinding):
            return lexical_map
        assert self.forms is not None
        lm = LexicalLM(lexical_map.lm, self.forms)
        options = self.context.options
        return WordMap(words, lm, lexical_map.unk_penalty, map_words=options.map_words, name=lexical_map.name)

    def note_late(self, log: Log) -> None:
        """Add notes about suspicious content in the files, if the symbol table is growing.

        Call this method after all lattices are read, because only then is the table complete.
        """
        if self._binding is not None and self._binding.words.grows:
            self._note(log)

    def _new_binding(self, words: SymbolTable, log: Log, normalizer: Normalizer) -> _Binding:
        context = self.context
        num_words = len(words) if words.grows else 0
        entities = load_entities(context, words, normalizer)
        if self._models is None:
            self._models = load_models(context, self.old_lm, words, log)
        weight, has_old = self.lm_weight if self._has_grammar else None, self.old_lm is not None
        files: ExactBinding | LexicalBinding
        if normalizer.is_identity:
            files = ExactBinding(context, words, entities, self._models, lm_weight=weight, has_old_lm=has_old)
        else:
            files = LexicalBinding(
                context, words, normalizer, entities, self._models, lm_weight=weight, has_old_lm=has_old
            )
        return _Binding(words, num_words, entities, normalizer, files)

    def _in_table(self, lattice: Lattice) -> Lattice:
        """Convert a lattice from another thread so that it uses the symbol table of this stage."""
        return lattice if self._binding is None else self._binding.files.in_table(lattice)

    def _unbound(self) -> Contextual:
        """Return an unbound stage for another thread; the two stages share the models."""
        other = copy.copy(self)
        other._binding = None
        return other

    def _note(self, log: Log) -> None:
        for note in self._notes():
            log.note(note)

    def _notes(self) -> Iterator[str]:
        assert self._models is not None
        entities, augmenter = self._bound.entities, self._bound.files.augmenter
        normalizer = self._bound.normalizer
        yield from entity_notes(entities, self._bound.words, normalizer, is_augmenting=augmenter is not None)
        if self._pointer is not None:
            yield from pointer_notes(self._pointer, entities, normalizer)
        if augmenter is not None and self.context.augmentation is not None:
            yield from augmenter_notes(augmenter, self.context.augmentation, entities, normalizer)
        if self._models.class_lm is not None:
            yield from class_notes(self._models.class_lm, entities)


def _keep(error: NinjaError) -> None:
    """Tolerate an error; the log records it."""
