"""Development sets held in memory, and their word errors under any boosts."""

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
from ninja.errors import FormatError, NinjaError, OptionError
from ninja.evaluate import edits
from ninja.graph import best_path
from ninja.lattice import Lattice, Scales
from ninja.lattice.symbols import SymbolTable
from ninja.lm.ngram.model import NgramLM
from ninja.log import Log

Keyed = tuple[str, Lattice]
Ids = npt.NDArray[np.int32]
Words = dict[str, list[str]]  # recognised, by key


class Setting(NamedTuple):
    """Boosts, the share of a class model, and scales, to be chosen."""

    keyword_boost: float
    class_boost: float
    class_weight: float
    acoustic_scale: float
    word_penalty: float

    @property
    def grammar(self) -> tuple[float, float, float]:
        """Values that lattices are composed with."""
        return self[:3]

    @property
    def scales(self) -> Scales:
        """Acoustic scale and word penalty, which decide between the paths of a composed lattice."""
        return Scales(self.acoustic_scale, word_penalty=self.word_penalty)


@dataclass(frozen=True, slots=True, eq=False)
class DevSet:
    """Utterances to choose boosts on; never those that results are reported on."""

    lattices: Iterable[Keyed]
    references: Mapping[str, Sequence[str]]  # words said, by key
    entities: Entities


@dataclass(frozen=True, slots=True, eq=False)
class DevUtterance:
    """A lattice with its reference and its phrases."""

    key: str
    lattice: Lattice
    reference: Sequence[str]
    lists: tuple[PhraseList, ...]
    errors: dict[bytes, int]  # of word sequences seen, by their ids


@dataclass(frozen=True, slots=True, eq=False)
class LoadedSet:
    """A development set with its lattices in memory."""

    utterances: tuple[DevUtterance, ...]
    entities: Entities
    unmatched: tuple[str, ...] = ()  # what was left out for want of a lattice, or of a reference

    @property
    def references(self) -> dict[str, Sequence[str]]:
        """Reference words, by key."""
        return {each.key: each.reference for each in self.utterances}

    @property
    def num_words(self) -> int:
        """Number of reference words."""
        return sum(len(each.reference) for each in self.utterances)

    def wer(self, errors: int) -> float:
        """Return errors in percent of the reference words."""
        return 100.0 * errors / max(self.num_words, 1)


@dataclass(frozen=True, slots=True, order=True)
class Errors:
    """Word errors of one setting; the fewer of contextual errors, then of general ones, are less."""

    contextual: int
    general: int
    general_beyond: int  # with a keyword boost that is larger by the margin
    general_without: int  # the same run without entities


class Trials:
    """Tries settings on both sets."""

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
        """Read both sets."""
        self.words = words
        self.class_lm = class_lm
        self._old_lm = old_lm
        self._options = options
        self._margin = margin
        self._compiler = ListCompiler(words, keep_all=True)
        self._tracker = Tracker(words, class_lm, options, old_lm=old_lm, compiler=self._compiler)
        self.contextual = self._load(contextual, "contextual", log or Log())
        self.general = self._load(general, "general", log or Log())
        self._known: dict[tuple[int, bool], dict[Setting, int]] = {}  # errors by set, and with entities or without

    @property
    def sets(self) -> tuple[LoadedSet, LoadedSet]:
        """The contextual and the general set."""
        return self.contextual, self.general

    def errors(self, setting: Setting) -> Errors:
        """Count the errors of a setting."""
        return self.errors_of([setting])[0]

    def errors_of(self, settings: Sequence[Setting]) -> list[Errors]:
        """Count the errors of some settings; those that differ in their scales only are tried on one composition."""
        counts = (
            self._counts(self.contextual, settings),
            self._counts(self.general, settings),
            self._counts(self.general, [self._beyond(each) for each in settings]),
            [general for _, general in self.errors_without(settings)],
        )
        return [Errors(*each) for each in zip(*counts, strict=True)]

    def errors_without(self, settings: Sequence[Setting]) -> list[tuple[int, int]]:
        """Count contextual and general errors without entities, where boosts mean nothing."""
        plain = [each._replace(keyword_boost=0.0, class_boost=0.0) for each in settings]
        contextual, general = (self._counts(each, plain, with_entities=False) for each in self.sets)
        return list(zip(contextual, general, strict=True))

    def hypotheses(self, part: LoadedSet, setting: Setting, *, with_entities: bool) -> Words:
        """Return the words recognised in each utterance of a set."""
        decoded = self._decoded(part, [setting], with_entities=with_entities)
        return {each.key: self.words.spell(ids) for each, (ids,) in decoded}

    def without_context(self, part: LoadedSet, setting: Setting) -> Words:
        """Return the words recognised with neither entities nor a class model."""
        scales = setting.scales
        return {each.key: self.words.spell(best_path(each.lattice, scales).words) for each in part.utterances}

    def options_of(self, setting: Setting) -> ContextOptions:
        """Return the options of a setting."""
        keyword_boost, class_boost, class_weight = setting.grammar
        return replace(self._options, keyword_boost=keyword_boost, class_boost=class_boost, class_weight=class_weight)

    def _beyond(self, setting: Setting) -> Setting:
        if self.class_lm is None and setting.keyword_boost == 0.0:
            return setting  # no context at all, and safe
        return setting._replace(keyword_boost=setting.keyword_boost + self._margin)

    def _counts(self, part: LoadedSet, settings: Sequence[Setting], *, with_entities: bool = True) -> list[int]:
        """Count the errors in a set, those of each setting once."""
        known = self._known.setdefault((id(part), with_entities), {})
        new = sorted({each for each in settings if each not in known})
        for _, group in groupby(new, key=lambda each: each.grammar):
            tried = list(group)
            counts = np.zeros(len(tried), np.int64)
            for utterance, found in self._decoded(part, tried, with_entities=with_entities):
                counts += [self._errors_of(utterance, ids) for ids in found]
            known.update(zip(tried, counts.tolist(), strict=True))
        return [known[each] for each in settings]

    def _errors_of(self, utterance: DevUtterance, ids: Ids) -> int:
        found = ids.tobytes()
        if found not in utterance.errors:
            utterance.errors[found] = edits(utterance.reference, self.words.spell(ids))
        return utterance.errors[found]

    def _decoded(
        self, part: LoadedSet, settings: Sequence[Setting], *, with_entities: bool
    ) -> Iterator[tuple[DevUtterance, list[Ids]]]:
        """Yield the best word sequences of each utterance, one for each of settings with their grammar in common."""
        options = self.options_of(settings[0])
        if self._tracker.options != options:
            self._tracker = Tracker(self.words, self.class_lm, options, old_lm=self._old_lm, compiler=self._compiler)
        scales = [each.scales for each in settings]
        for each in part.utterances:
            composed = add_context(each.lattice, self._tracker, each.lists if with_entities else ())
            yield each, [best_path(composed, each_scales).words for each_scales in scales]

    def _load(self, given: DevSet, name: str, log: Log) -> LoadedSet:
        utterances = []
        seen: set[str] = set()
        unsaid: list[str] = []
        for key, lattice in given.lattices:
            seen.add(key)
            if key not in given.references:
                unsaid.append(key)
                continue
            try:
                lists = given.entities.of(key)
                best_path(add_context(lattice, self._tracker, lists))  # what fails here would fail in every trial
            except NinjaError as failure:
                log.fail(failure, key)
                continue
            utterances.append(DevUtterance(key, lattice, given.references[key], lists, {}))
        if not utterances:
            what = f"no lattice of the {name} set that could be used has a reference"
            raise FormatError(f"{what}; do the utterance ids belong together?")
        if not any(each.lists for each in utterances):
            more = "give its utterances phrases that are not said, or its false alarms cannot be seen"
            more = more if name == "general" else "do the utterance ids belong together?"
            raise OptionError(f"no utterance of the {name} set has phrases; {more}")
        unheard = [key for key in given.references if key not in seen]
        missing = {"lattices without a reference": unsaid, "references without a lattice": unheard}
        left_out = (f"{name} set: {len(keys)} {what}, the first: {keys[0]}" for what, keys in missing.items() if keys)
        return LoadedSet(tuple(utterances), given.entities, tuple(left_out))
