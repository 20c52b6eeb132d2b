"""Development sets in memory, and word errors on them for different boosts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ninja.context.entities.lists import Entities, PhraseList
from ninja.context.grammar.compile import ListCompiler
from ninja.context.grammar.tracker import Tracker, add_context
from ninja.context.options import ContextOptions
from ninja.errors import FormatError, Log, NinjaError, OptionError, named
from ninja.evaluate import edits
from ninja.evaluate.lexical import check_texts
from ninja.evaluate.normal_form import composed_words
from ninja.graph import best_path
from ninja.lattice import Lattice, Scales
from ninja.lattice.batch import Keyed, pairs
from ninja.lattice.symbols import SymbolTable
from ninja.lm.ngram.model import NgramLM
from ninja.tune.word_errors import check_words

Ids = npt.NDArray[np.int32]
Words = dict[str, list[str]]  # recognised words by key


class Setting(NamedTuple):
    """One value for each tuned parameter: boosts, class model weight, acoustic scale and word penalty."""

    keyword_boost: float
    class_boost: float
    class_weight: float
    acoustic_scale: float
    word_penalty: float

    @property
    def grammar(self) -> tuple[float, float, float]:
        """The parameter values that determine the composed lattices."""
        return self[:3]

    @property
    def scales(self) -> Scales:
        """The scales for finding the best path through a composed lattice."""
        return Scales(self.acoustic_scale, word_penalty=self.word_penalty)


@dataclass(frozen=True, slots=True, eq=False)
class DevSet:
    """A development set for tuning boosts; it must not be a test set."""

    lattices: Iterable[Keyed]
    references: Mapping[str, Sequence[str]]  # reference words by key
    entities: Entities


@dataclass(frozen=True, slots=True, eq=False)
class DevUtterance:
    """A lattice with its reference and its phrases."""

    key: str
    lattice: Lattice
    reference: Sequence[str]
    lists: tuple[PhraseList, ...]
    errors: dict[bytes, int]  # cached errors of word sequences, by the bytes of their ids


@dataclass(frozen=True, slots=True, eq=False)
class LoadedSet:
    """A development set with all lattices in memory."""

    utterances: tuple[DevUtterance, ...]
    entities: Entities
    unmatched: tuple[str, ...] = ()  # messages about missing lattices and references

    @property
    def references(self) -> dict[str, Sequence[str]]:
        """Reference words by key."""
        return {utterance.key: utterance.reference for utterance in self.utterances}

    @property
    def num_words(self) -> int:
        """Number of reference words."""
        return sum(len(utterance.reference) for utterance in self.utterances)

    def wer(self, errors: int) -> float:
        """Compute the word error rate in percent from the number of errors."""
        return 100.0 * errors / max(self.num_words, 1)


@dataclass(frozen=True, slots=True, order=True)
class Errors:
    """Word errors with one setting, ordered by errors on the contextual set, then on the general set."""

    contextual: int
    general: int
    general_beyond: int  # number of general errors with the margin added to the keyword boost
    general_without: int  # number of general errors with the same scales and class weight, but without entities


class Trials:
    """Word errors on the contextual and the general development set for any setting."""

    def __init__(
        self,
        contextual: DevSet,
        general: DevSet,
        words: SymbolTable,
        class_lm: NgramLM | None,
        old_lm: NgramLM | None,
        options: ContextOptions,
        margin: float = 0.0,
        log: Log | None = None,
    ) -> None:
        """Read both development sets into memory."""
        self.words = words
        self.class_lm = class_lm
        self._old_lm = old_lm
        self._options = options
        self._margin = margin
        self._compiler = ListCompiler(words.ids, keep_all=True)
        self._tracker = Tracker(words, class_lm, options, old_lm=old_lm, compiler=self._compiler)
        self.contextual = self._load(contextual, "contextual", log or Log())
        self.general = self._load(general, "general", log or Log())
        self._known: dict[tuple[int, bool], dict[Setting, int]] = {}  # errors by set and use of entities

    @property
    def sets(self) -> tuple[LoadedSet, LoadedSet]:
        """The contextual and the general development set."""
        return self.contextual, self.general

    def errors(self, setting: Setting) -> Errors:
        """Count the errors with a setting."""
        return self.errors_of([setting])[0]

    def errors_of(self, settings: Sequence[Setting]) -> list[Errors]:
        """Count the errors with each setting; settings with equal boosts and class weight share composed lattices."""
        counts = (
            self._counts(self.contextual, settings),
            self._counts(self.general, settings),
            self._counts(self.general, [self._with_margin(setting) for setting in settings]),
            [general for _, general in self.errors_without(settings)],
        )
        return [Errors(*errors) for errors in zip(*counts, strict=True)]

    def errors_without(self, settings: Sequence[Setting]) -> list[tuple[int, int]]:
        """Count the errors on the contextual and general sets without entities; boosts do not affect them."""
        plain = [setting._replace(keyword_boost=0.0, class_boost=0.0) for setting in settings]
        contextual, general = (self._counts(part, plain, with_entities=False) for part in self.sets)
        return list(zip(contextual, general, strict=True))

    def hypotheses(self, part: LoadedSet, setting: Setting, *, with_entities: bool) -> Words:
        """Return the words recognised in each utterance of a set."""
        decoded = self._decoded(part, [setting], with_entities=with_entities)
        return {utterance.key: self.words.spell(ids) for utterance, (ids,) in decoded}

    def errors_by_utterance(self, part: LoadedSet, setting: Setting, *, with_entities: bool) -> list[int]:
        """Count the errors in each utterance of a set."""
        decoded = self._decoded(part, [setting], with_entities=with_entities)
        return [self._errors_of(utterance, ids) for utterance, (ids,) in decoded]

    def without_context(self, part: LoadedSet, setting: Setting) -> Words:
        """Return the words recognised without entities or a class model."""
        best = ((utterance.key, best_path(utterance.lattice, setting.scales)) for utterance in part.utterances)
        return {key: self.words.spell(path.words) for key, path in best}

    def options_of(self, setting: Setting) -> ContextOptions:
        """Return the context options for a setting."""
        keyword_boost, class_boost, class_weight = setting.grammar
        return replace(self._options, keyword_boost=keyword_boost, class_boost=class_boost, class_weight=class_weight)

    def _with_margin(self, setting: Setting) -> Setting:
        if self.class_lm is None and setting.keyword_boost == 0.0:
            return setting  # no margin is needed, because this setting uses no context
        return setting._replace(keyword_boost=setting.keyword_boost + self._margin)

    def _counts(self, part: LoadedSet, settings: Sequence[Setting], *, with_entities: bool = True) -> list[int]:
        """Count the errors in a set; results are cached."""
        cache = self._known.setdefault((id(part), with_entities), {})
        new = sorted({setting for setting in settings if setting not in cache})
        for _, group in groupby(new, key=lambda setting: setting.grammar):
            alike = list(group)
            counts = np.zeros(len(alike), np.int64)
            for utterance, sequences in self._decoded(part, alike, with_entities=with_entities):
                counts += [self._errors_of(utterance, ids) for ids in sequences]
            cache.update(zip(alike, counts.tolist(), strict=True))
        return [cache[setting] for setting in settings]

    def _errors_of(self, utterance: DevUtterance, ids: Ids) -> int:
        name = ids.tobytes()
        if name not in utterance.errors:
            utterance.errors[name] = edits(composed_words(utterance.reference), composed_words(self.words.spell(ids)))
        return utterance.errors[name]

    def _decoded(
        self, part: LoadedSet, settings: Sequence[Setting], *, with_entities: bool
    ) -> Iterator[tuple[DevUtterance, list[Ids]]]:
        """Yield each utterance and its best word sequence for each setting; settings may differ only in scales."""
        options = self.options_of(settings[0])
        if self._tracker.options != options:
            self._tracker = Tracker(self.words, self.class_lm, options, old_lm=self._old_lm, compiler=self._compiler)
        for utterance in part.utterances:
            composed = add_context(utterance.lattice, self._tracker, utterance.lists if with_entities else ())
            yield utterance, [best_path(composed, setting.scales).words for setting in settings]

    def _load(self, part: DevSet, name: str, log: Log) -> LoadedSet:
        utterances = []
        keys: set[str] = set()
        unreferenced: list[str] = []
        check_texts(part.references)
        for key, lattice in pairs(part.lattices):
            keys.add(key)
            if key not in part.references:
                unreferenced.append(key)
                continue
            try:
                lists = part.entities.of(key)
                # An error that would occur in every trial is raised here.
                best_path(add_context(lattice, self._tracker, lists))
            except NinjaError as failure:
                log.fail(failure, key)
                continue
            utterances.append(DevUtterance(key, lattice, part.references[key], lists, {}))
        if not utterances:
            message = f"no usable lattice of the {name} set has a reference"
            raise FormatError(f"{message}; check that the utterance ids match")
        check_words(sum(len(utterance.reference) for utterance in utterances), f"{name} set")
        if not any(utterance.lists for utterance in utterances):
            advice = "to count false alarms, add phrases that do not occur in its utterances"
            advice = advice if name == "general" else "check that the utterance ids match"
            raise OptionError(f"no utterance of the {name} set has phrases; {advice}")
        missing = {
            "lattices without a reference": unreferenced,
            "references without a lattice": [key for key in part.references if key not in keys],
        }
        messages = (f"{name} set: {description}: {named(keys, 1)}" for description, keys in missing.items() if keys)
        return LoadedSet(tuple(utterances), part.entities, tuple(messages))
