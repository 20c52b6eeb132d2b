"""The class `Scorer`: a server's models and phrase lists, loaded once, and the Rescorers that share them."""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ninja.context.correction.options import CorrectOptions
from ninja.context.correction.stage import Correcting
from ninja.context.entities.lists import Entities, PhraseList
from ninja.context.settings import Context
from ninja.context.stage import Contextual
from ninja.errors import FormatError, OptionError
from ninja.lattice import Lattice
from ninja.lattice.lattice import ListLattice, has_graph_costs
from ninja.lattice.symbols import SymbolTable
from ninja.lattice.text import AUTO, BASIC, NONE, LexicalForms, Normalizer, looks_written
from ninja.lm.mixture import Mixture
from ninja.lm.word_map import WordMap
from ninja.rescoring.algorithms import RescoreOptions
from ninja.rescoring.models import Model, ModelFiles
from ninja.rescoring.options import LISTS, default_weights
from ninja.rescoring.rescorer import Rescorer
from ninja.rescoring.session import Session, StreamOptions
from ninja.rescoring.utterances import RescoreReport, Submission, Utterance
from ninja.serve.corrections import Corrections, named_phrases
from ninja.serve.lattices import Vocabularies
from ninja.serve.problems import Problem

Phrases = tuple[PhraseList, ...]


class RequestContext(Contextual):
    """A context stage that does not change lattices from requests without phrases."""

    def prepare(self, utterance: Utterance, log: Any) -> None:
        """Apply the context to an utterance if its request contains phrases; see `Contextual.prepare`."""
        if utterance.entities:
            super().prepare(utterance, log)


class Scorer:
    """Scorer for several types of lattices, with one set of models.

    Lattices of the same type share batches. Weights that the user does not set have the same defaults as on the
    command line: the acoustic scale is 1 for n-best lists and for lattices without graph costs; n-best lists without
    graph costs use the LM weight and word penalty in `ninja.rescoring.options.LISTS`.

    Args:
        models: Language model files to load, or a loaded model that is not used elsewhere.
        options: Rescoring options.
        words: Symbol table for lattices that contain word ids.
        context: Models and options for phrases in requests; the phrases in the context are ignored.
        lists: Phrase list files by list name; requests specify the names.
        chosen: Names of the options that the user has set; these options apply to lattices of all types. If
            `max_unknown` is not set, it is 1.
        correct_options: Options for correcting transcripts. Corrections use the lexicon and the confusion costs of the
            context, if present.
        max_latency: See `Rescorer`.
        max_waiting: See `Rescorer`.

    Raises:
        OptionError: Options cannot be combined, or the penalty for unknown words would depend on other requests.
        NinjaError: A file cannot be loaded.
    """

    def __init__(
        self,
        models: ModelFiles | Model,
        options: RescoreOptions,
        *,
        words: SymbolTable | None = None,
        context: Context | None = None,
        lists: Mapping[str, str | os.PathLike[str]] | None = None,
        chosen: Collection[str] = (),
        correct_options: CorrectOptions = CorrectOptions(),
        max_latency: float = 0.01,
        max_waiting: int = 256,
    ) -> None:
        files = models if isinstance(models, ModelFiles) else ModelFiles()
        if files.directions:
            raise OptionError(
                "directions cannot be used in a server, which rescores each lattice in one pass; omit directions"
            )
        self.vocabularies = Vocabularies(words)
        self.report = RescoreReport()  # collects notes while models are loaded
        self._max_latency = max_latency
        self._max_waiting = max_waiting
        self._chosen = frozenset(chosen)
        if "max_unknown" not in self._chosen:  # the default suits files; an utterance may consist of rare words
            options = replace(options, max_unknown=1.0)
        if options.normalizer == AUTO:  # otherwise the choice would depend on the words of earlier requests
            is_plain = words is not None and not looks_written(words.names)
            options = replace(options, normalizer=NONE.name if is_plain else BASIC.name)
        self._old_lm: Model = None
        if isinstance(models, ModelFiles):
            ((self._lm, options),), self._old_lm = models.load(options, words, self.report)
        else:
            self._lm = models
        self.options = _with_penalty(options, self._lm, self._old_lm, words)
        self._context: RequestContext | None = None
        if context is not None:
            self._context = RequestContext.before(context, files, self.options)  # type: ignore[assignment]
        self.lists = {name: self._phrases_of(name, path) for name, path in (lists or {}).items()}
        self.corrections = Corrections(lists or {}, _correcting(context, correct_options))
        self._lock = threading.Lock()
        self._rescorers: dict[RescoreOptions, Rescorer] = {}
        self.is_closed = False

    def submit(self, lattice: Lattice, phrases: Phrases, deadline: float | None) -> Submission:
        """Submit a lattice; see `Rescorer.submit`.

        Args:
            lattice: A lattice with words from `vocabularies`.
            phrases: Phrase lists for the utterance.
            deadline: Seconds after which the search is stopped.

        Raises:
            BusyError: Too many lattices are in progress.
            ClosedError: The scorer is closed.
            Problem: The model cannot rescore lattices of two types at the same time.
        """
        rescorer = self._rescorer(self.options_for(lattice))
        return rescorer.submit(lattice, phrases or None, timeout=0.0, deadline=deadline)

    def session(self, options: RescoreOptions, phrases: Phrases, when_stable: StreamOptions) -> Session:
        """Return a session for a growing lattice; see `Rescorer.session`.

        Args:
            options: Options for the lattices in the session; see `options_for`.
            phrases: Phrase lists for the utterance.
            when_stable: Conditions under which words are stable.

        Raises:
            ClosedError: The scorer is closed.
            OptionError: The models cannot be used in sessions.
            Problem: The model cannot rescore lattices of two types at the same time.
        """
        return self._rescorer(options).session(when_stable, entities=phrases or None)

    def options_for(self, lattice: Lattice) -> RescoreOptions:
        """Return the rescoring options for lattices of the same type as `lattice`."""
        options = self.options.for_lattice(lattice)
        if "acoustic_scale" not in self._chosen and (isinstance(lattice, ListLattice) or not has_graph_costs(lattice)):
            options = replace(options, acoustic_scale=1.0)
        has_weights = self._old_lm is not None or self._chosen & {"lm_weight", "word_penalty"}
        if not has_weights and default_weights(lattice) is LISTS:
            options = replace(options, lm_weight=LISTS.lm_weight, word_penalty=LISTS.word_penalty)
        return options

    def phrases(self, key: str, names: Sequence[str], entities: Mapping[str, Sequence[Any]]) -> Phrases:
        """Return the phrase lists for a request.

        Args:
            key: Utterance id.
            names: Names of lists on the server.
            entities: Phrases by class.

        Raises:
            Problem: A list does not exist, a phrase is invalid, or the request contains phrases but the scorer was
                created without a context.
        """
        lists = named_phrases(names, self.lists)
        if not any(entities.values()):
            return lists
        try:
            return (*lists, *self._entities(entities).of(key))
        except FormatError as error:
            raise Problem(422, f"entities: {error}", key) from error

    def in_flight(self) -> tuple[int, int]:
        """Return ``(number of lattices waiting for a batch, number of lattices in a batch)``."""
        counts = [rescorer.in_flight for rescorer in self._open()]
        return sum(waiting for waiting, _ in counts), sum(running for _, running in counts)

    def totals(self) -> RescoreReport:
        """Return the sum of the rescoring reports for all types of lattices."""
        total = RescoreReport()
        for rescorer in self._open():
            total.merge(rescorer.report)
        return total

    def close(self, timeout: float | None = None) -> None:
        """Refuse further lattices and finish the lattices in progress; see `Rescorer.close`."""
        with self._lock:
            self.is_closed = True
        for rescorer in self._open():
            rescorer.close(timeout)

    def _open(self) -> list[Rescorer]:
        with self._lock:
            return [*self._rescorers.values()]

    def _rescorer(self, options: RescoreOptions) -> Rescorer:
        """Return the Rescorer for the given options; at most four combinations of options occur."""
        with self._lock:
            rescorer = self._rescorers.get(options)
            if rescorer is None:
                first = not self._rescorers
                lm, old_lm = self._lm if first else _twin(self._lm), self._old_lm if first else _twin(self._old_lm)
                rescorer = self._rescorers[options] = Rescorer(
                    lm,
                    options,
                    old_lm=old_lm,
                    context=self._context_for(options),
                    max_latency=self._max_latency,
                    max_waiting=self._max_waiting,
                )
                if self.is_closed:
                    rescorer.close()
            return rescorer

    def _context_for(self, options: RescoreOptions) -> RequestContext | None:
        if self._context is None:
            return None
        stage = copy.copy(self._context)
        stage.lm_weight = options.lm_weight
        if (augmentation := stage.context.augmentation) is not None:
            scaled = replace(augmentation.options, acoustic_scale=options.acoustic_scale)
            stage.context = replace(stage.context, augmentation=replace(augmentation, options=scaled))
        return stage

    def _phrases_of(self, name: str, path: str | os.PathLike[str]) -> Phrases:
        if self._context is None:
            raise OptionError("phrase lists require a context; pass context=Context(...) to Scorer")
        entities = Entities.read(path, words=self.vocabularies.current().words, normalizer=self._normalizer())
        if entities.keys:
            raise OptionError(
                f"the phrase list {name} contains phrases for individual utterances; it must apply to all utterances",
                path,
            )
        return entities.of("")

    def _entities(self, content: Mapping[str, Sequence[Any]]) -> Entities:
        if self._context is None:
            raise Problem(422, "this server has no context, so requests cannot contain entities")
        words = self.vocabularies.current().words
        return Entities.from_dict(content, words=words, normalizer=self._normalizer())

    def _normalizer(self) -> Normalizer:
        return LexicalForms(self.options.normalizer).normalizer(None)


def _correcting(context: Context | None, options: CorrectOptions) -> Correcting:
    """Return the files and options for corrections.

    If the context has an `Augmentation`, corrections use its lexicon and confusion costs or, if it sets
    ``letters_only``, compare letters.
    """
    no_phrases = Entities.from_dict({})
    augmentation = None if context is None else context.augmentation
    if augmentation is None:
        return Correcting(no_phrases, options=options)
    if augmentation.letters_only:
        return Correcting(no_phrases, options=replace(options, letters_only=True))
    return Correcting(no_phrases, options=options, lexicon=augmentation.lexicon, confusion=augmentation.confusion)


def _with_penalty(options: RescoreOptions, lm: Model, old_lm: Model, words: SymbolTable | None) -> RescoreOptions:
    """Return options with a penalty for unknown words that does not depend on the words in requests.

    Raises:
        OptionError: ``unk_penalty`` is not set, and the penalty would depend on the words in requests.
    """
    if options.unk_penalty is not None:
        return options
    parts = [part for model in (lm, old_lm) for part in _components(model)]
    if all(part.unk is None or part.unk_words for part in parts):
        return options
    if len(parts) == 1 and words is not None:
        return replace(options, unk_penalty=WordMap(words, parts[0], map_words=options.map_words).unk_penalty)
    raise OptionError(
        "a model does not store how many words map to its <unk>, so scores would depend on other requests; set "
        "unk_penalty or, with a single model, words"
    )


def _components(model: Model) -> list[Any]:
    if isinstance(model, Mixture):
        return [part for _, part in model.named_models()]
    return [] if model is None else [model]


def _twin(model: Model) -> Model:
    """Return a copy of a model that shares the weights, and can be used at the same time as the original.

    Raises:
        Problem: The model cannot be copied.
    """
    if model is None:
        return None
    if isinstance(model, Mixture):
        return replace(model, models=tuple((_twin(part), weight) for part, weight in model.models))  # type: ignore[misc]
    twin = model.twin()
    if twin is None:
        raise Problem(
            422,
            "this server has already rescored lattices of another type, and its language model can rescore only one "
            "type; start one server for lattices and one for n-best lists",
        )
    return twin
